"""Runs the turn of a `Weave` or `StreamWeave` call: accepts the prompt, streams events, returns the reply."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing

import msgspec

from mainstay.core import events
from mainstay.core.errors import InputRefused
from mainstay.core.messages import AnyPart, Binary, Text, parts_text
from mainstay.core.outcome import Answered, Exhausted, Failed, Outcome, Paused
from mainstay.core.outcome import Reply as Replied
from mainstay.core.ports import SessionInfo
from mainstay.operations.caller import Caller
from mainstay.operations.event_feed import Subscription, find_trace_id, follow_session, follow_turn
from mainstay.operations.inputs import accept_prompt
from mainstay.server.grpc.errors import ERRORS_MAX, CallErrorLocation, TurnFailed, error_from_failure, find_error
from mainstay.server.grpc.messages import (
    GrpcError,
    GrpcEvent,
    GrpcPart,
    GrpcReply,
    GrpcUsage,
    StreamWeaveRequest,
    WeaveRequest,
)
from mainstay.server.quota_problem import find_quota_problem

PARTS_MAX = 100

EmitMessage = Callable[[GrpcEvent], Awaitable[None]]
_EventGenerator = AsyncGenerator[events.Event, None]
_encoder = msgspec.json.Encoder()


async def run_prompt(
    caller: Caller,
    request: WeaveRequest | StreamWeaveRequest,
    progress: CallErrorLocation,
    emit: EmitMessage | None = None,
) -> GrpcReply | None:
    """Run a turn and return its reply; None for a stream that only resumes (`after` without text or id). Raises
    TurnFailed if the turn failed, and what `emit` raises. If the client disconnects, the turn goes on."""
    after = request.after if isinstance(request, StreamWeaveRequest) else None
    parts = parse_parts(request.text, request.parts)
    if after is not None and not parts and not request.id:
        await _resume_stream(caller, request.session, after, _TurnEmitter(caller, progress, emit))
        return None
    if after is not None and not request.id:
        raise InputRefused("to continue after a sequence, give the id of the prompt, or no text")
    caller.require_access("chat")
    runtime, key = await caller.runtime(), caller.session_key(request.session)
    subscription = Subscription(runtime.services.hub, key)
    try:
        pending = await accept_prompt(runtime, key, parts, id=request.id, sender=caller.person)
    except BaseException:
        subscription.close()
        raise
    emitter = _TurnEmitter(caller, progress, emit, skip_until=after or 0)
    await _emit_until_settled(pending.reply, follow_turn(caller, key, pending, subscription), emitter)
    reply = emitter.final_reply(await asyncio.shield(pending.reply))  # other calls may wait for the same reply
    if isinstance(reply.outcome, Failed):
        raise TurnFailed(error_from_failure(reply.outcome, events.Event(turn=reply.turn, step=progress.step)))
    if (problem := find_quota_problem(reply.outcome, reply.usage)) is not None:
        raise problem
    return _build_reply(reply, request.session, emitter.errors)


async def _emit_all(turn: _EventGenerator, emitter: _TurnEmitter) -> None:
    async with aclosing(turn):
        async for event in turn:
            await emitter.emit(event)


async def _emit_until_settled(reply: asyncio.Future[Replied], turn: _EventGenerator, emitter: _TurnEmitter) -> None:
    """Emit events until the turn ends, or until its reply failed (store error, agent closed): awaiting the reply then
    raises the error."""
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(None) as scope:

            def on_reply_done(reply: asyncio.Future[Replied]) -> None:
                if not reply.cancelled() and reply.exception() is not None:
                    emitter.call_when_written(lambda: scope.reschedule(loop.time()))

            reply.add_done_callback(on_reply_done)
            try:
                await _emit_all(turn, emitter)
            finally:
                reply.remove_done_callback(on_reply_done)
    except TimeoutError:
        if not scope.expired():
            raise


async def _resume_stream(caller: Caller, session: str, after: int, emitter: _TurnEmitter) -> None:
    """Emit the events after a sequence, from the journal and then live, until the turn ends or waits for approval."""
    caller.require_access("chat")
    key, info = await caller.find_session(session)
    is_idle = not info.unfinished or info.approval is not None
    if is_idle and after >= info.head:
        return
    async with aclosing(follow_session(caller, key, after)) as following:
        async for event in following:
            await emitter.emit(event)
            if is_idle and event.sequence >= info.head:
                return
            if isinstance(event, events.TurnEnded) and event.sequence > info.head:
                if isinstance(event.outcome, Failed):
                    raise TurnFailed(error_from_failure(event.outcome, event))
                return
            if isinstance(event, events.ApprovalAsked) and _waits_for((await caller.find_session(session))[1], event):
                return


def _waits_for(info: SessionInfo, approval: events.ApprovalAsked) -> bool:
    return info.approval is not None and info.approval.id == approval.id


class _TurnEmitter:
    """Emits events as messages, and collects from them what the reply needs."""

    def __init__(
        self, caller: Caller, progress: CallErrorLocation, emit: EmitMessage | None, skip_until: int = 0
    ) -> None:
        self.errors: list[GrpcError] = []
        self._caller = caller
        self._progress = progress
        self._emit = emit
        self._skip_until = skip_until  # durable events up to this sequence are not emitted
        self._emitting = False
        self._on_write_done: Callable[[], None] | None = None
        self._text = ""
        self._outcome: Outcome | None = None

    async def emit(self, event: events.Event) -> None:
        at = self._progress
        if event.turn and event.turn != at.turn:
            runtime, key = await self._caller.runtime(), self._caller.session_key(at.session)
            at.turn, at.step, at.trace = event.turn, 0, await find_trace_id(runtime, key, event.turn)
        at.step = event.step or at.step
        error = find_error(event)
        if error is not None:
            error = msgspec.structs.replace(error, trace=at.trace)
        match event:
            case events.MessageAdded(role="assistant", parts=parts):
                self._text = parts_text(parts)
            case events.Judged(passed=False, last=False):
                self._text = ""
            case events.TurnEnded(outcome=outcome):
                self._outcome = outcome
        if error is not None and len(self.errors) < ERRORS_MAX:
            self.errors.append(error)
        if self._emit is not None and not 0 < event.sequence <= self._skip_until:
            self._emitting = True
            await self._emit(event_to_message(event, error))
            self._emitting = False
            if self._on_write_done is not None:
                self._on_write_done()

    def call_when_written(self, callback: Callable[[], None]) -> None:
        """Call `callback` once no write is in progress: gRPC loses the status of a call whose write was cancelled."""
        self._on_write_done = callback
        if not self._emitting:
            callback()

    def final_reply(self, reply: Replied) -> Replied:
        """Return the reply of a paused turn with its final outcome, if the turn was approved and has ended since."""
        if isinstance(reply.outcome, Paused) and self._outcome is not None:
            return msgspec.structs.replace(reply, outcome=self._outcome, text=self._text)
        return reply


# --- messages ------------------------------------------------------------------------------------


def parse_parts(text: str, messages: Sequence[GrpcPart]) -> tuple[AnyPart, ...]:
    """Return text and part messages as parts of a prompt. Raises InputRefused."""
    if len(messages) > PARTS_MAX:
        raise InputRefused(f"a prompt has {len(messages)} parts; at most {PARTS_MAX} are accepted")
    parts: list[AnyPart] = [Text(text)] if text else []
    for part in messages:
        if bool(part.text) == bool(part.data) or bool(part.data) != bool(part.mime):
            raise InputRefused("a part must be text, or data with a mime type")
        parts.append(Text(part.text) if part.text else Binary(part.mime, part.data))
    return tuple(parts)


def event_to_message(event: events.Event, error: GrpcError | None) -> GrpcEvent:
    match event:
        case events.TextDelta(text=text) | events.ThinkingDelta(text=text):
            return GrpcEvent(type(event).__name__, 0, event.turn, event.step, text)
    data = _encoder.encode(_strip_event(event)).decode()
    return GrpcEvent(type(event).__name__, event.sequence, event.turn, event.step, data=data, error=error)


def _strip_event(event: events.Event) -> events.Event:
    """Remove the session's key, the bytes of files and the operator's details from an event."""
    changes: dict[str, object] = {"session": ""}
    match event:
        case events.Received(parts=parts) | events.MessageAdded(parts=parts):
            changes["parts"] = tuple(_strip_part(part) for part in parts)
        case events.TurnEnded(outcome=Failed() as failed):
            changes["outcome"] = msgspec.structs.replace(failed, details="", session="")
        case Failed():
            changes["details"] = ""
    return msgspec.structs.replace(event, **changes)


def _strip_part(part: AnyPart) -> AnyPart:
    return msgspec.structs.replace(part, data=b"") if isinstance(part, Binary) and part.data else part


def _build_reply(reply: Replied, session: str, errors: Sequence[GrpcError]) -> GrpcReply:
    usage = reply.usage
    match reply.outcome:
        case Exhausted(bound=detail) | Paused(approval=detail):
            pass
        case Answered(score=float(score), passed=False):
            detail = f"score {score:.2f}, too low"
        case _:
            detail = ""
    return GrpcReply(
        session=session,
        turn=reply.turn,
        text=reply.text,
        outcome=type(reply.outcome).__name__.lower(),
        detail=detail,
        usage=GrpcUsage(usage.prompt, usage.completion, usage.cached, usage.reasoning),
        cost=reply.cost,
        errors=tuple(errors),
        trace=reply.trace,
    )
