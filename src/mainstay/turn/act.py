"""The calls of one model message: in the model's order, each with exactly one result."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import msgspec

from mainstay.core.events import Event, MessageAdded, ToolCallReady, ToolFinished, ToolStarted
from mainstay.core.messages import AnyPart, ToolCall, ToolResult
from mainstay.core.open_turn import OpenTurn
from mainstay.core.outcome import Paused
from mainstay.core.ports import Scribe
from mainstay.turn.control import Control
from mainstay.turn.judging import Ready, Setting, amended, asked_about, images_of, judge
from mainstay.turn.toolbox import NOT_STARTED, SKIPPED, UNKNOWN, refuse


class Acting:
    """What the calls of a turn share."""

    __slots__ = ("attached", "control", "ran", "repeats", "scribe", "setting")

    def __init__(self, setting: Setting, control: Control, scribe: Scribe) -> None:
        self.setting = setting
        self.control = control
        self.scribe = scribe
        self.repeats = Repeats(setting.means.limits.repeated_calls_max)
        self.attached: list[AnyPart] = []  # images that calls of this step brought
        self.ran: set[str] = set()  # calls that were not refused


class Repeats:
    """A model that makes the same call again and again and gets the same answer is going in circles."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._last: tuple[str, str, str] | None = None
        self._count = 0

    def stuck_on(self, call: ToolCall) -> bool:
        return self._last is not None and self._count >= self._most and self._last[:2] == (call.name, call.input)

    def saw(self, call: ToolCall, result: ToolResult) -> None:
        if self.stuck_on(call):  # it was refused for that, and goes on being so until something else is called
            return
        now = (call.name, call.input, result.content)
        self._count = self._count + 1 if now == self._last else 1
        self._last = now


async def act(acting: Acting, turn: OpenTurn) -> Paused | None:
    """Give every open call of the last model message its result; or stop at one that somebody has to approve."""
    done = {(call.name, call.input): turn.results[call.id] for call in turn.step_calls if call.id in turn.results}
    for group in _groups(acting, turn):
        if (refusal := _stop(acting.control)) is not None:
            results = [_left(one, turn, refusal) for one in group]
        elif len(group) == 1:
            if (found := await _one(acting, turn, group[0], done)) is None:
                return Paused(await _ask(acting, turn, group[0]))
            results = [found]
        else:
            results = await asyncio.gather(*(_allowed(acting, turn, ready, done) for ready in group))
        for ready, result in zip(group, results, strict=True):
            done.setdefault((ready.call.name, ready.call.input), result)
            acting.repeats.saw(ready.call, result)
            acting.scribe.note(*_finished(ready, result, turn, ran=ready.call.id in acting.ran), soon=True)
    if acting.attached:
        parts, acting.attached = tuple(acting.attached), []
        acting.scribe.note(MessageAdded("user", parts, turn=turn.turn, step=turn.step), soon=True)
    return None


def _stop(control: Control) -> str | None:
    if control.aborted:
        return NOT_STARTED
    return SKIPPED if control.steers else None


def _left(ready: Ready, turn: OpenTurn, refusal: str) -> ToolResult:
    """The result of a call that will not run any more."""
    if ready.answer is not None and isinstance(ready.prepared, ToolResult):  # a person has said no, and perhaps why
        return ready.prepared
    return refuse(ready.call, UNKNOWN if ready.call.id in turn.started else refusal)


def _finished(ready: Ready, result: ToolResult, turn: OpenTurn, *, ran: bool) -> tuple[Event, ...]:
    context = ready.context
    finished = ToolFinished(result, calls=int(ran), turn=turn.turn, step=turn.step)
    if context is None:
        return (finished,)
    if context.usage is not None:
        calls = finished.calls + context.calls
        finished = msgspec.structs.replace(finished, usage=context.usage, cost=context.cost, calls=calls)
    return (*context.news, finished)


def _groups(acting: Acting, turn: OpenTurn) -> Iterator[list[Ready]]:
    """One call at a time; neighbouring different calls together that may run beside each other. Each is looked at
    when it is due."""
    group: list[Ready] = []
    limits = acting.setting.means.limits
    for call in turn.open_calls:
        ready = judge(acting.setting, call)
        beside = ready.beside
        fits = len(group) < limits.parallel_calls_max
        fresh = all((call.name, call.input) != (other.call.name, other.call.input) for other in group)
        if beside and fits and fresh:
            group.append(ready)
            continue
        if group:
            yield group
        group = [ready] if beside else []
        if not beside:
            yield [ready]
    if group:
        yield group


async def _allowed(acting: Acting, turn: OpenTurn, ready: Ready, done: dict[tuple[str, str], ToolResult]) -> ToolResult:
    result = await _one(acting, turn, ready, done)
    assert result is not None, "a call that somebody has to approve stands alone"
    return result


async def _one(
    acting: Acting, turn: OpenTurn, ready: Ready, done: dict[tuple[str, str], ToolResult]
) -> ToolResult | None:
    """None: somebody has to approve it first."""
    call, prepared, context = ready.call, ready.prepared, ready.context
    session, step, emit = acting.setting.session.key, turn.step, acting.setting.emit
    if emit.wanted and ready.asks is None:  # whoever watches sees every call, with the arguments that it runs with
        input = ready.answer.input if ready.answer is not None and ready.answer.input is not None else call.input
        emit(ToolCallReady(call.id, call.name, input, session=session, turn=turn.turn, step=step))
    if (refusal := _over_bound(acting, turn, call)) is not None:
        return refuse(call, refusal)
    if (same := done.get((call.name, call.input))) is not None:  # identical calls of a response run once
        return msgspec.structs.replace(same, call_id=call.id, name=call.name)
    if isinstance(prepared, ToolResult):  # it cannot run; but if it did, before a crash, nobody knows what came of it
        return refuse(call, UNKNOWN) if call.id in turn.started else prepared
    if ready.asks is not None:
        return None
    assert context is not None
    purse = acting.setting.means.purse
    if purse is not None and (spent := purse.allow_call()) is not None:
        return refuse(call, f"Not run: {spent}. Answer with what you have.")
    acting.ran.add(call.id)
    again = call.id in turn.started
    if not again and prepared.effect != "pure":
        await acting.scribe.record(ToolStarted(call.id, turn=turn.turn, step=step))
        if acting.control.aborted:
            return refuse(call, NOT_STARTED)
    result = await acting.setting.means.tools.execute(call, prepared, context, acting.control, again=again)
    if context.attached:
        acting.attached += images_of(context, result)
    return amended(ready, result)


async def _ask(acting: Acting, turn: OpenTurn, ready: Ready) -> str:
    """Durably: whoever takes this turn up finds that it waits, and for what."""
    call = ready.call
    if (pending := turn.asked.get(call.id)) is None:
        pending = asked_about(acting.setting, ready)
        await acting.scribe.record(pending)
    return pending.id


def _over_bound(acting: Acting, turn: OpenTurn, call: ToolCall) -> str | None:
    limits = acting.setting.means.limits
    position = turn.step_calls.index(call)
    if position >= limits.calls_per_response_max:
        return f"Not run: at most {limits.calls_per_response_max} calls a response. Ask again for the rest."
    earlier = turn.calls - len(turn.results)  # answered in earlier steps of this turn
    if earlier + position >= limits.tool_calls_max:
        return f"Not run: this turn has used its {limits.tool_calls_max} tool calls. Answer with what you have."
    if acting.repeats.stuck_on(call):
        return (
            f"Not run: this exact call gave the same result {limits.repeated_calls_max} times in a row. "
            "Do something else, or answer with what you have."
        )
    return None
