"""Runs the turn of a `Weave` or `StreamWeave` call: accepts the prompt, streams events, returns the reply."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing

import msgspec

from mainstay.core import events
from mainstay.core.errors import InputRefused
from mainstay.core.messages import AnyPart, Binary, ToolCall, ToolResult, parts_text
from mainstay.core.outcome import Answered, Exhausted, Failed, Outcome, Paused
from mainstay.core.outcome import Reply as Replied
from mainstay.operations.caller import Caller
from mainstay.operations.event_feed import EventStream, find_trace_id
from mainstay.operations.execute import execute, open_stream
from mainstay.operations.secret_visibility import redact_streamed_reply
from mainstay.operations.sessions import GetSession
from mainstay.operations.turns import FileInput, Prompt, ReadEvents, TextInput
from mainstay.server.grpc.errors import ERRORS_MAX, CallErrorLocation, TurnFailed, error_from_failure, find_error
from mainstay.server.grpc.message_types import (
    GrpcCallResult,
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
RESULTS_BYTES_MAX = 2 * 1024 * 1024  # content of a reply's results: many clients take messages of at most 4 MB
RESULT_BYTES_MIN = 1_000  # of each result, also where that much is used up

EmitMessage = Callable[[GrpcEvent], Awaitable[None]]
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
    stream = await open_stream(caller, Prompt(session=request.session, parts=parts, id=request.id))
    assert stream.pending_reply is not None, "the stream of a prompt has its reply"
    pending = stream.pending_reply.reply
    emitter = _TurnEmitter(caller, progress, emit, skip_until=after or 0)
    async with aclosing(stream):
        await _emit_until_settled(pending, stream, emitter)
    reply = emitter.final_reply(await asyncio.shield(pending))  # other calls may wait for the same reply
    if isinstance(reply.outcome, Failed):
        raise TurnFailed(error_from_failure(reply.outcome, events.Event(turn=reply.turn, step=progress.step)))
    if (problem := find_quota_problem(reply.outcome, reply.usage)) is not None:
        raise problem
    return _build_reply(await redact_streamed_reply(caller, request.session, reply), request.session, emitter.errors)


async def _emit_until_settled(reply: asyncio.Future[Replied], stream: EventStream, emitter: _TurnEmitter) -> None:
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
                async for event in stream:
                    await emitter.emit(event)
            finally:
                reply.remove_done_callback(on_reply_done)
    except TimeoutError:
        if not scope.expired():
            raise


async def _resume_stream(caller: Caller, session: str, after: int, emitter: _TurnEmitter) -> None:
    """Emit the events after a sequence, from the journal and then live, until the turn ends or waits for approval."""
    info = await execute(caller, GetSession(session=session))
    is_idle = not info.unfinished or info.approval is not None
    if is_idle and after >= info.head:
        return
    async with aclosing(await open_stream(caller, ReadEvents(session=session, after=after))) as following:
        async for event in following:
            await emitter.emit(event)
            if is_idle and event.sequence >= info.head:
                return
            if isinstance(event, events.TurnEnded) and event.sequence > info.head:
                if isinstance(event.outcome, Failed):
                    raise TurnFailed(error_from_failure(event.outcome, event))
                return
            if isinstance(event, events.ApprovalAsked):
                pending = (await execute(caller, GetSession(session=session))).approval
                if pending is not None and pending.id == event.id:
                    return


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
        self._results: dict[str, ToolResult | None] = {}  # by call id, in the order of the calls

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
                self._results |= {part.id: None for part in parts if isinstance(part, ToolCall)}
            case events.ToolFinished(result=result):
                self._results[result.call_id] = result
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
            results = tuple(result for result in self._results.values() if result is not None)
            return msgspec.structs.replace(reply, outcome=self._outcome, text=self._text, results=results)
        return reply


# --- messages ------------------------------------------------------------------------------------


def parse_parts(text: str, messages: Sequence[GrpcPart]) -> tuple[TextInput | FileInput, ...]:
    """Return text and part messages as inputs of an operation. Raises InputRefused."""
    if len(messages) > PARTS_MAX:
        raise InputRefused(f"a prompt has {len(messages)} parts; at most {PARTS_MAX} are accepted")
    parts: list[TextInput | FileInput] = [TextInput(text)] if text else []
    for part in messages:
        if bool(part.text) == bool(part.data) or bool(part.data) != bool(part.mime):
            raise InputRefused("a part must be text, or data with a mime type")
        parts.append(TextInput(part.text) if part.text else FileInput(part.mime, part.data))
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
        results=_build_results(reply.results),
    )


def _build_results(results: Sequence[ToolResult]) -> tuple[GrpcCallResult, ...]:
    """Return the results, the last ones cut if all together are too large for one message."""
    messages: list[GrpcCallResult] = []
    left = RESULTS_BYTES_MAX
    for result in results:
        content, encoded = result.content, result.content.encode(errors="replace")
        if len(encoded) > (room := max(left, RESULT_BYTES_MIN)):
            content = f"{encoded[:room].decode(errors='ignore')}\n[cut: {len(encoded)} bytes in all]"
        left -= len(encoded)
        messages.append(GrpcCallResult(result.call_id, result.name, content, result.is_error))
    return tuple(messages)
