"""One turn for whoever asked: `Weave` waits for its reply, `StreamWeave` is told the events on the way to the same."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from typing import Any, cast

import msgspec

from mainstay.core import events
from mainstay.core.errors import InputRefused
from mainstay.core.messages import AnyPart, Binary, Text, text_of
from mainstay.core.outcome import Answered, Exhausted, Failed, Outcome, Paused
from mainstay.core.outcome import Reply as Replied
from mainstay.core.ports import Standing
from mainstay.gateway.visit import Visit
from mainstay.server.grpc.messages import Error, Event, Part, Reply, StreamWeaveRequest, Usage, WeaveRequest
from mainstay.server.grpc.trouble import ERRORS_MAX, TurnFailed, Whereabouts, error_in, failure
from mainstay.server.quota import refused

PARTS_MAX = 100

Emit = Callable[[Event], Awaitable[None]]
_Events = AsyncGenerator[events.Event, None]
_encoder = msgspec.json.Encoder()


async def weave(
    visit: Visit, request: WeaveRequest | StreamWeaveRequest, at: Whereabouts, emit: Emit | None = None
) -> Reply | None:
    """The reply; None of a turn that was only followed. Raises TurnFailed if the turn did, and whatever `emit` does.
    If whoever asked goes away, the turn goes on."""
    after = request.after if isinstance(request, StreamWeaveRequest) else None
    parts = parts_of(request.text, request.parts)
    if after is not None and not parts and not request.id:
        await _resume(visit, request.session, after, _Teller(visit, at, emit))
        return None
    if after is not None and not request.id:
        raise InputRefused("to go on after a sequence, give the id of what was sent, or no text")
    ticket = await visit.accept(request.session, parts, id=request.id)
    teller = _Teller(visit, at, emit, skip=after or 0)
    await _until_settled(ticket.reply, cast(_Events, visit.turn(request.session, ticket)), teller)
    reply = teller.finished(await asyncio.shield(ticket.reply))  # others may wait for the same
    if isinstance(reply.outcome, Failed):
        raise TurnFailed(failure(reply.outcome, events.Event(turn=reply.turn, step=at.step)))
    if (problem := refused(reply.outcome, reply.usage)) is not None:
        raise problem
    return _reply(reply, request.session, teller.errors)


async def _tell_all(turn: _Events, teller: _Teller) -> None:
    async with aclosing(turn):
        async for event in turn:
            await teller.tell(event)


async def _until_settled(reply: asyncio.Future[Replied], turn: _Events, teller: _Teller) -> None:
    """Ends early if there will be no reply: the store fails, or the agent was closed. Whoever awaits it learns why."""
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(None) as scope:

            def settled(reply: asyncio.Future[Replied]) -> None:
                if not reply.cancelled() and reply.exception() is not None:
                    teller.end(lambda: scope.reschedule(loop.time()))

            reply.add_done_callback(settled)
            try:
                await _tell_all(turn, teller)
            finally:
                reply.remove_done_callback(settled)
    except TimeoutError:
        if not scope.expired():
            raise


async def _resume(visit: Visit, session: str, after: int, teller: _Teller) -> None:
    """What the journal has after this, and on to the end of the turn under way, or until that waits for somebody."""
    standing = await visit.session(session)
    waits = not standing.unfinished or standing.approval is not None
    if waits and after >= standing.head:
        return
    async with aclosing(cast(_Events, visit.follow(session, after))) as following:
        async for event in following:
            await teller.tell(event)
            if waits and event.sequence >= standing.head:
                return
            if isinstance(event, events.TurnEnded) and event.sequence > standing.head:
                if isinstance(event.outcome, Failed):
                    raise TurnFailed(failure(event.outcome, event))
                return
            if isinstance(event, events.ApprovalAsked) and _waits(await visit.session(session), event):
                return


def _waits(standing: Standing, asked: events.ApprovalAsked) -> bool:
    return standing.approval is not None and standing.approval.id == asked.id


class _Teller:
    """Tells events as they go over the wire, and remembers what the reply needs of them."""

    def __init__(self, visit: Visit, at: Whereabouts, emit: Emit | None, skip: int = 0) -> None:
        self.errors: list[Error] = []
        self._visit = visit
        self._at = at
        self._emit = emit
        self._skip = skip  # durable ones up to this were told before
        self._emitting = False
        self._end: Callable[[], None] | None = None
        self._said = ""
        self._outcome: Outcome | None = None

    async def tell(self, event: events.Event) -> None:
        at = self._at
        if event.turn and event.turn != at.turn:
            at.turn, at.step, at.trace = event.turn, 0, await self._visit.trace(at.session, event.turn)
        at.step = event.step or at.step
        error = error_in(event)
        if error is not None:
            error = msgspec.structs.replace(error, trace=at.trace)
        match event:
            case events.MessageAdded(role="assistant", parts=parts):
                self._said = text_of(parts)
            case events.Judged(passed=False, last=False):
                self._said = ""
            case events.TurnEnded(outcome=outcome):
                self._outcome = outcome
        if error is not None and len(self.errors) < ERRORS_MAX:
            self.errors.append(error)
        if self._emit is not None and not 0 < event.sequence <= self._skip:
            self._emitting = True
            await self._emit(told(event, error))
            self._emitting = False
            if self._end is not None:
                self._end()

    def end(self, end: Callable[[], None]) -> None:
        """Once what is being said was said: gRPC loses the status of a call of which a write was broken off."""
        self._end = end
        if not self._emitting:
            end()

    def finished(self, reply: Replied) -> Replied:
        """A turn that was waiting when its reply was made may have been let go on, and have ended since."""
        if isinstance(reply.outcome, Paused) and self._outcome is not None:
            return msgspec.structs.replace(reply, outcome=self._outcome, text=self._said)
        return reply


# --- in and out ----------------------------------------------------------------------------------


def parts_of(text: str, given: Sequence[Part]) -> tuple[AnyPart, ...]:
    if len(given) > PARTS_MAX:
        raise InputRefused(f"a prompt has {len(given)} parts; at most {PARTS_MAX} are accepted")
    parts: list[AnyPart] = [Text(text)] if text else []
    for part in given:
        if bool(part.text) == bool(part.data) or bool(part.data) != bool(part.mime):
            raise InputRefused("a part is either text, or data with its mime type")
        parts.append(Text(part.text) if part.text else Binary(part.mime, part.data))
    return tuple(parts)


def told(event: events.Event, error: Error | None) -> Event:
    match event:
        case events.TextDelta(text=text) | events.ThinkingDelta(text=text):
            return Event(type(event).__name__, 0, event.turn, event.step, text)
    data = _encoder.encode(_light(event)).decode()
    return Event(type(event).__name__, event.sequence, event.turn, event.step, data=data, error=error)


def _light(event: events.Event) -> events.Event:
    """By whatever name its session goes, without the bytes of files, and without what is for the operator alone."""
    changes: dict[str, Any] = {"session": ""}
    match event:
        case events.Received(parts=parts) | events.MessageAdded(parts=parts):
            changes["parts"] = tuple(_lighter(part) for part in parts)
        case events.TurnEnded(outcome=Failed() as failed):
            changes["outcome"] = msgspec.structs.replace(failed, details="", session="")
        case Failed():
            changes["details"] = ""
    return msgspec.structs.replace(event, **changes)


def _lighter(part: AnyPart) -> AnyPart:
    return msgspec.structs.replace(part, data=b"") if isinstance(part, Binary) and part.data else part


def _reply(reply: Replied, session: str, errors: Sequence[Error]) -> Reply:
    usage = reply.usage
    match reply.outcome:
        case Exhausted(bound=detail) | Paused(approval=detail):
            pass
        case Answered(score=float(score), passed=False):
            detail = f"judged {score:.2f}, not good enough"
        case _:
            detail = ""
    return Reply(
        session=session,
        turn=reply.turn,
        text=reply.text,
        outcome=type(reply.outcome).__name__.lower(),
        detail=detail,
        usage=Usage(usage.prompt, usage.completion, usage.cached, usage.reasoning),
        cost=reply.cost,
        errors=tuple(errors),
        trace=reply.trace,
    )
