"""Runs the tool calls of one model message, in the model's order, and gives each exactly one result."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from functools import partial

import msgspec

from mainstay.core.events import ApprovalAsked, Event, Guarded, MessageAdded, ToolCallReady, ToolFinished, ToolStarted
from mainstay.core.messages import AnyPart, ToolCall, ToolResult
from mainstay.core.open_turn import OpenTurn
from mainstay.core.outcome import Paused
from mainstay.core.ports import EventRecorder
from mainstay.turn.call_authorisation import (
    CheckedCall,
    TurnScope,
    authorise_call,
    build_approval_request,
    build_image_parts,
    note_changed_input,
)
from mainstay.turn.change_answers import AnsweredChanges, build_unsettled_result, find_change_request
from mainstay.turn.control import TurnControl
from mainstay.turn.toolbox import PreparedCall, error_result


class SharedToolCallState:
    """State and collaborators that the tool calls of one turn share."""

    __slots__ = ("attached_parts", "control", "ran_ids", "recorder", "repeat_detector", "scope")

    def __init__(self, scope: TurnScope, control: TurnControl, recorder: EventRecorder) -> None:
        self.scope = scope
        self.control = control
        self.recorder = recorder
        self.repeat_detector = RepeatDetector(scope.dependencies.limits.repeated_calls_max)
        self.attached_parts: list[AnyPart] = []  # images that calls of this step returned
        self.ran_ids: set[str] = set()  # ids of calls that were not refused


class RepeatDetector:
    """Loop detection: recognises a model that repeats one call and always gets the same result."""

    def __init__(self, repeats_max: int) -> None:
        self._repeats_max = repeats_max
        self._last: tuple[str, str, str] | None = None
        self._count = 0

    def is_stuck_on(self, call: ToolCall) -> bool:
        return self._last is not None and self._count >= self._repeats_max and self._last[:2] == (call.name, call.input)

    def observe_result(self, call: ToolCall, result: ToolResult) -> None:
        if self.is_stuck_on(call):  # refused as a repeat, and refused until another call is made
            return
        latest = (call.name, call.input, result.content)
        self._count = self._count + 1 if latest == self._last else 1
        self._last = latest


async def run_tool_calls(state: SharedToolCallState, turn: OpenTurn) -> Paused | None:
    """Give every open call of the last model message its result; return `Paused` at a call that needs approval."""
    done = {(call.name, call.input): turn.results[call.id] for call in turn.step_calls if call.id in turn.results}
    for group in _group_calls(state, turn):
        if (refusal := _find_stop_reason(state.control, turn)) is not None:
            results = [_build_unrun_result(checked, turn, refusal) for checked in group]
        elif len(group) == 1:
            result = await _run_call(state, turn, group[0], done)
            if isinstance(result, ApprovalAsked):  # on disk before the turn pauses, so that a restart finds it
                if turn.approvals_asked.get(result.call_id) != result:
                    await state.recorder.record(*_take_guard_events(group[0]), result)
                return Paused(result.id)
            results = [result]
        else:
            results = await asyncio.gather(*(_run_allowed_call(state, turn, checked, done) for checked in group))
        for checked, result in zip(group, results, strict=True):
            done.setdefault((checked.call.name, checked.call.input), result)
            state.repeat_detector.observe_result(checked.call, result)
            state.recorder.record_nowait(
                *_build_finished_events(checked, result, turn, has_run=checked.call.id in state.ran_ids),
                flush_soon=True,
            )
    if state.attached_parts:
        parts, state.attached_parts = tuple(state.attached_parts), []
        state.recorder.record_nowait(MessageAdded("user", parts, turn=turn.turn, step=turn.step), flush_soon=True)
    return None


def _find_stop_reason(control: TurnControl, turn: OpenTurn) -> str | None:
    if control.aborted:
        return turn.wording.not_started
    return turn.wording.skipped if control.pending_steers else None


def _build_unrun_result(checked: CheckedCall, turn: OpenTurn, refusal: str) -> ToolResult:
    """Build the result of a call that will not run because the turn was aborted or steered."""
    if (request := find_change_request(turn, checked.call)) is not None:
        return build_unsettled_result(turn, request)
    # denied by a person, perhaps with a reason
    if checked.answer is not None and isinstance(checked.prepared, ToolResult):
        return checked.prepared
    return error_result(
        checked.call, turn.wording.outcome_unknown if checked.call.id in turn.started_calls else refusal
    )


def _build_finished_events(
    checked: CheckedCall, result: ToolResult, turn: OpenTurn, *, has_run: bool
) -> tuple[Event, ...]:
    context = checked.context
    finished = ToolFinished(result, calls=int(has_run), turn=turn.turn, step=turn.step)
    if context is None:
        return (finished,)
    if context.usage is not None:
        calls = finished.calls + context.sub_agent_calls
        finished = msgspec.structs.replace(finished, usage=context.usage, cost=context.cost, calls=calls)
    return (*context.guard_events, finished)


def _group_calls(state: SharedToolCallState, turn: OpenTurn) -> Iterator[list[CheckedCall]]:
    """Yield the open calls in order, one at a time; consecutive distinct calls that may run in parallel form a group.

    Calls are authorised lazily, when they are reached, and not all at the start.
    """
    group: list[CheckedCall] = []
    limits = state.scope.dependencies.limits
    for call in turn.open_calls:
        checked = authorise_call(state.scope, call)
        is_parallel = checked.can_run_in_parallel
        fits = len(group) < limits.parallel_calls_max
        fresh = all((call.name, call.input) != (other.call.name, other.call.input) for other in group)
        if is_parallel and fits and fresh:
            group.append(checked)
            continue
        if group:
            yield group
        group = [checked] if is_parallel else []
        if not is_parallel:
            yield [checked]
    if group:
        yield group


async def _run_allowed_call(
    state: SharedToolCallState, turn: OpenTurn, checked: CheckedCall, done: dict[tuple[str, str], ToolResult]
) -> ToolResult:
    result = await _run_call(state, turn, checked, done)
    assert isinstance(result, ToolResult), "a call that needs approval is never in a group"
    return result


async def _run_call(
    state: SharedToolCallState, turn: OpenTurn, checked: CheckedCall, done: dict[tuple[str, str], ToolResult]
) -> ToolResult | ApprovalAsked:
    """Return the call's result, or the request for an approval that it needs before it runs, or after that, for changes
    that were held back."""
    call, prepared, context = checked.call, checked.prepared, checked.context
    session, step, emit = state.scope.session.key, turn.step, state.scope.emit
    if emit.has_watchers and checked.approval_verdict is None:  # watchers see every call with its final arguments
        input = checked.cleaned.input if checked.cleaned is not None else call.input
        if checked.answer is not None and checked.answer.input is not None:
            input = checked.answer.input
        emit(ToolCallReady(call.id, call.name, input, session=session, turn=turn.turn, step=step))
    if (refusal := _find_limit_refusal(state, turn, call)) is not None:
        return error_result(call, refusal)
    if (same := done.get((call.name, call.input))) is not None:  # identical calls of a response run once
        return msgspec.structs.replace(same, call_id=call.id, name=call.name)
    if turn.approvals_asked and (request := find_change_request(turn, call)) is not None:
        return await _settle_changes(state, turn, checked, request)
    if isinstance(prepared, ToolResult):  # it cannot run; if it ran before a crash, its outcome is unknown
        return error_result(call, turn.wording.outcome_unknown) if call.id in turn.started_calls else prepared
    if checked.approval_verdict is not None:
        return turn.approvals_asked.get(call.id) or build_approval_request(state.scope, checked)
    assert context is not None
    turn_budget = state.scope.dependencies.turn_budget
    if turn_budget is not None and (exhausted := turn_budget.count_tool_call()) is not None:
        return error_result(call, f"Not run: {exhausted}. Answer with what you have.")
    state.ran_ids.add(call.id)
    again = call.id in turn.started_calls
    if not again and prepared.effect != "pure":
        await state.recorder.record(ToolStarted(call.id, turn=turn.turn, step=step))
        if state.control.aborted:
            return error_result(call, turn.wording.not_started)
    result = await state.scope.dependencies.tools.execute(
        call, prepared, context, state.control, is_resumed=again, wording=turn.wording
    )
    if context.attachments:
        state.attached_parts += build_image_parts(context, result)
    result = note_changed_input(checked, result)
    if not context.held_changes:
        return result
    from mainstay.turn.held_changes import build_change_request  # few calls have changes held back

    return build_change_request(state.scope, checked, result)


async def _settle_changes(
    state: SharedToolCallState, turn: OpenTurn, checked: CheckedCall, request: ApprovalAsked
) -> ToolResult | ApprovalAsked:
    """Return the result of a call that has run, after its held changes were applied or not; the request while it is not
    answered."""
    answer = turn.approval_answers.get(request.id)
    if answer is None:
        return request
    if not isinstance(checked.prepared, PreparedCall) or checked.context is None:  # the tool is not there any more
        return build_unsettled_result(turn, request)
    id = checked.call.id
    state.ran_ids.add(id)
    released = Guarded("tool", "released", ("changes",), id, turn=turn.turn, step=turn.step)
    changes = AnsweredChanges(
        request, answer, turn.wording, id in turn.released_calls, partial(state.recorder.record, released)
    )
    return await state.scope.dependencies.tools.settle_changes(
        checked.call, checked.prepared, checked.context, state.control, changes
    )


def _take_guard_events(checked: CheckedCall) -> tuple[Event, ...]:
    """Take the guard events of a call that has run: they are recorded with the question about its changes."""
    if checked.context is None:
        return ()
    events, checked.context.guard_events = checked.context.guard_events, ()
    return events


def _find_limit_refusal(state: SharedToolCallState, turn: OpenTurn, call: ToolCall) -> str | None:
    limits, wording = state.scope.dependencies.limits, turn.wording
    position = turn.step_calls.index(call)
    if position >= limits.calls_per_response_max:
        return wording.response_calls_exceeded.format(count=limits.calls_per_response_max)
    earlier = turn.calls - len(turn.results)  # answered in earlier steps of this turn
    if earlier + position >= limits.tool_calls_max:
        return wording.turn_calls_exceeded.format(count=limits.tool_calls_max)
    if state.repeat_detector.is_stuck_on(call):
        return wording.call_repeated.format(count=limits.repeated_calls_max)
    return None
