"""The calls of one model message: in the model's order, each with exactly one result."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from mainstay.core.events import ToolCallReady, ToolFinished, ToolStarted
from mainstay.core.limits import Limits
from mainstay.core.messages import ToolCall, ToolResult
from mainstay.core.ports import Emit, Scribe, ToolContext
from mainstay.core.session import OpenTurn, Session
from mainstay.turn.control import Control
from mainstay.turn.toolbox import NOT_STARTED, SKIPPED, UNKNOWN, Prepared, Tools, refuse


class Acting:
    """What the calls of a turn share."""

    __slots__ = ("control", "emit", "limits", "parallel", "repeats", "scribe", "session", "tools")

    def __init__(
        self, session: Session, tools: Tools, limits: Limits, control: Control, scribe: Scribe, emit: Emit
    ) -> None:
        self.session = session
        self.tools = tools
        self.limits = limits
        self.control = control
        self.scribe = scribe
        self.emit = emit
        self.repeats = Repeats(limits.repeated_calls_max)


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


async def act(acting: Acting, turn: OpenTurn) -> None:
    """Give every open call of the last model message its result."""
    calls = turn.open_calls
    done = {(call.name, call.input): turn.results[call.id] for call in turn.step_calls if call.id in turn.results}
    for group in _groups(acting, calls):
        if (refusal := _stop(acting.control)) is not None:
            results = [refuse(call, UNKNOWN if call.id in turn.started else refusal) for call, _ in group]
        elif len(group) == 1:
            results = [await _one(acting, turn, group[0], done)]
        else:
            results = await asyncio.gather(*(_one(acting, turn, ready, done) for ready in group))
        for (call, _), result in zip(group, results, strict=True):
            done.setdefault((call.name, call.input), result)
            acting.repeats.saw(call, result)
            acting.scribe.note(ToolFinished(result, turn=turn.turn, step=turn.step), soon=True)


def _stop(control: Control) -> str | None:
    if control.aborted:
        return NOT_STARTED
    return SKIPPED if control.steers else None


Ready = tuple[ToolCall, Prepared | ToolResult]


def _groups(acting: Acting, calls: tuple[ToolCall, ...]) -> Iterator[list[Ready]]:
    """One call at a time; neighbouring different `pure` calls together. Each is looked at when it is due."""
    group: list[Ready] = []
    for call in calls:
        prepared = acting.tools.prepare(call)
        pure = isinstance(prepared, Prepared) and prepared.effect == "pure"
        fits = len(group) < acting.limits.parallel_calls_max
        fresh = all((call.name, call.input) != (other.name, other.input) for other, _ in group)
        if pure and fits and fresh:
            group.append((call, prepared))
            continue
        if group:
            yield group
        group = [(call, prepared)] if pure else []
        if not pure:
            yield [(call, prepared)]
    if group:
        yield group


async def _one(acting: Acting, turn: OpenTurn, ready: Ready, done: dict[tuple[str, str], ToolResult]) -> ToolResult:
    call, prepared = ready
    if (refusal := _over_bound(acting, turn, call)) is not None:
        return refuse(call, refusal)
    if (same := done.get((call.name, call.input))) is not None:  # identical calls of a response run once
        return ToolResult(call.id, call.name, same.content, is_error=same.is_error, origin=same.origin)
    if isinstance(prepared, ToolResult):  # it cannot run; but if it did, before a crash, nobody knows what came of it
        return refuse(call, UNKNOWN) if call.id in turn.started else prepared
    session, step = acting.session.key, turn.step
    if acting.emit.wanted:
        acting.emit(ToolCallReady(call.id, call.name, call.input, session=session, turn=turn.turn, step=step))
    again = call.id in turn.started
    if not again and prepared.effect != "pure":
        await acting.scribe.record(ToolStarted(call.id, turn=turn.turn, step=step))
        if acting.control.aborted:
            return refuse(call, NOT_STARTED)

    context = ToolContext(session, turn.turn, step, call.id, acting.emit)
    context.source = turn.inputs[-1] if turn.inputs else 0
    context.untrusted = acting.session.untrusted
    return await acting.tools.execute(call, prepared, context, acting.control, again=again)


def _over_bound(acting: Acting, turn: OpenTurn, call: ToolCall) -> str | None:
    limits = acting.limits
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
