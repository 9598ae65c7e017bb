"""Events of sessions: pages of the journal, live events, and both joined without a gap."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing
from functools import partial

import msgspec

from mainstay.core.errors import AgentClosed, MainstayError, StoreFailed
from mainstay.core.events import ApprovalAsked, Event, Steered, TurnEnded, TurnStarted
from mainstay.core.journal import Record
from mainstay.core.provisional_answers import find_verdicts, visible_records
from mainstay.core.turn_location import trace_id
from mainstay.lane.draft_filter import DraftFilter, filter_drafts
from mainstay.lane.event_hub import EventHub, WatcherBuffer
from mainstay.lane.replies import PendingReply
from mainstay.operations.caller import Caller
from mainstay.operations.runtime_protocols import Runtime, RuntimeSource
from mainstay.operations.secret_visibility import redact_event_stream

PAGE_RECORDS = 1_000
COUNT_MAX = 1 << 32  # records of a session, and sessions of a workspace
POLL_S = 0.005  # between two reads of a record that is about to be written
WRITE_WAIT_S = 30.0


class Subscription:
    """A subscription to live events of one session, opened before the input that causes them is accepted."""

    def __init__(self, hub: EventHub, key: str) -> None:
        self.hub = hub
        self.watcher: WatcherBuffer = hub.watch(key)

    def close(self) -> None:
        self.hub.unwatch(self.watcher)


class EventStream:
    """Events of one session for one caller. Iterate it once, and `aclose` it: leaving it does not stop the turn.

    `turn` is the number of the turn that it reports, if that has started; `sequence` is the journal sequence of the
    accepted input; both are 0 for a stream that only follows a session.
    """

    def __init__(
        self,
        events: AsyncGenerator[Event, None],
        pending_reply: PendingReply | None = None,
        trace_id: str = "",
        subscription: Subscription | None = None,
    ) -> None:
        self.events = events
        self.pending_reply = pending_reply
        self.trace_id = trace_id
        self._subscription = subscription

    @property
    def sequence(self) -> int:
        return self.pending_reply.seq if self.pending_reply is not None else 0

    @property
    def turn(self) -> int:
        return self.pending_reply.turn if self.pending_reply is not None else 0

    def __aiter__(self) -> AsyncIterator[Event]:
        return self.events

    async def aclose(self) -> None:
        await self.events.aclose()
        if self._subscription is not None:  # of a stream that was never iterated
            self._subscription.close()


async def read_records(runtime: Runtime, key: str, after: int, limit: int = PAGE_RECORDS) -> list[Record]:
    """Return a page of a session's journal."""
    return await runtime.services.store.read_records(key, after=clamp_count(after), limit=clamp_count(limit))


def clamp_count(value: int) -> int:
    """Clamp a number from a caller to the range that a store accepts."""
    return min(max(value, 0), COUNT_MAX)


async def follow_journal(
    source: RuntimeSource,
    key: str,
    after: int = 0,
    subscription: Subscription | None = None,
    pending_reply: PendingReply | None = None,
) -> AsyncGenerator[Event, None]:
    """Yield every durable event after a sequence, each once and in order, with the partial events between them; first
    from the journal, then live. A reader that was too slow for live events gets the durable ones from the journal.

    Continues when a reload replaces the agent. Ends when the agent is closed; raises the error of a turn
    (`pending_reply`) that could not continue, because no event reports it.
    """
    runtime: Runtime | None = None
    while (runtime := await _next_runtime(source, runtime)) is not None:
        hub = runtime.services.hub
        if subscription is None or subscription.hub is not hub:
            subscription = Subscription(hub, key)
        watcher = subscription.watcher
        if pending_reply is not None:
            pending_reply.reply.add_done_callback(partial(_close_on_error, watcher))
        try:
            head = (await runtime.lanes.get(key).load_session()).head  # later events come live
            async for event in _read_journaled(
                source, key, after, watcher.first_sequence - 1 if watcher.first_sequence else head
            ):
                after = event.sequence
                yield event
            async for event in watcher:
                sequence = event.sequence
                if not sequence:
                    yield event
                    continue
                if sequence > after + 1:  # the buffer overflowed: the journal has what was dropped
                    async for missed in _read_journaled(source, key, after, sequence - 1):
                        after = missed.sequence
                        yield missed
                if sequence > after:
                    after = sequence
                    yield event
        finally:
            subscription.close()
        reply = pending_reply.reply if pending_reply is not None else None
        if reply is not None and reply.done() and not reply.cancelled() and (error := reply.exception()) is not None:
            raise error


async def _next_runtime(source: RuntimeSource, previous: Runtime | None) -> Runtime | None:
    """Return the agent to continue with; None if the previous one was closed and not replaced."""
    try:
        runtime = await source.runtime()
    except AgentClosed:
        if previous is None:
            raise
        return None
    return runtime if runtime is not previous else None


def _close_on_error(watcher: WatcherBuffer, reply: asyncio.Future[object]) -> None:
    if not reply.cancelled() and isinstance(reply.exception(), MainstayError):
        watcher.close()


async def _read_journaled(source: RuntimeSource, key: str, after: int, last_sequence: int) -> AsyncIterator[Event]:
    """Yield the durable events of the journal up to a sequence, and wait for those that are about to be written."""
    deadline = asyncio.get_running_loop().time() + WRITE_WAIT_S
    while after < last_sequence:
        page = await read_records(await source.runtime(), key, after)
        for record in page:
            if record.seq > last_sequence:
                return
            after = record.seq
            yield msgspec.structs.replace(record.event, session=key, sequence=record.seq)
        if page:
            continue
        if asyncio.get_running_loop().time() > deadline:
            raise StoreFailed(f"session {key[:80]!r} is not being written; try again")
        await asyncio.sleep(POLL_S)


async def watch_live(source: RuntimeSource, key: str | None = None) -> AsyncGenerator[Event, None]:
    """Yield the live events of one session, or of all; a reader that is too slow gets `Lagged`. Continues when a
    reload replaces the agent, and ends when it is closed."""
    runtime: Runtime | None = None
    while (runtime := await _next_runtime(source, runtime)) is not None:
        hub = runtime.services.hub
        watcher = hub.watch(key)
        try:
            async for event in filter_drafts(DraftFilter(), watcher):
                yield event
        finally:
            hub.unwatch(watcher)


def follow_session(
    caller: Caller, key: str, after: int, *, last_sequence: int = 0, include_drafts: bool = True
) -> AsyncGenerator[Event, None]:
    """Return the events of a session as the caller may see them; with `last_sequence`, only those up to it. Without
    `include_drafts`, no answer is shown before its judges have passed it."""
    events = _follow_session(caller, key, after, last_sequence, include_drafts)
    return redact_event_stream(caller, events, key) if caller.person else events


async def _follow_session(
    caller: Caller, key: str, after: int, last_sequence: int, include_drafts: bool
) -> AsyncGenerator[Event, None]:
    async with aclosing(
        filter_drafts(
            DraftFilter(hold_drafts=not include_drafts), follow_journal(caller.source, key, after), last_sequence
        )
    ) as events:
        async for event in events:
            yield caller.visible_event(event)


def follow_turn(
    caller: Caller, key: str, pending_reply: PendingReply, subscription: Subscription, *, include_drafts: bool = True
) -> AsyncGenerator[Event, None]:
    """Return the events of the turn that answers an accepted input, from the input's own record on. The last event is
    the turn's `TurnEnded`, or an `ApprovalAsked` that is still unanswered."""
    events = _follow_turn(caller, key, pending_reply, subscription, include_drafts)
    return redact_event_stream(caller, events, key) if caller.person else events


async def _follow_turn(
    caller: Caller, key: str, pending_reply: PendingReply, subscription: Subscription, include_drafts: bool
) -> AsyncGenerator[Event, None]:
    turn = pending_reply.turn
    source = follow_journal(caller.source, key, pending_reply.seq - 1, subscription, pending_reply)
    async with aclosing(filter_drafts(DraftFilter(hold_drafts=not include_drafts), source)) as events:
        async for event in events:
            if not event.sequence and event.turn == turn:  # a delta, as most events are
                yield caller.visible_event(event)
                continue
            if isinstance(event, TurnStarted | Steered) and pending_reply.seq in event.inputs:
                turn = event.turn
            if event.turn not in (0, turn):  # an earlier turn of the session is still running
                continue
            yield caller.visible_event(event)
            if isinstance(event, TurnEnded):
                return
            if isinstance(event, ApprovalAsked) and await is_pending(caller, key, event):
                return


async def is_pending(caller: Caller, key: str, approval: ApprovalAsked) -> bool:
    """True while this approval request is unanswered."""
    info = await (await caller.runtime()).services.store.get_session(key)
    return info is not None and info.approval is not None and info.approval.id == approval.id


async def read_page(caller: Caller, key: str, after: int, limit: int) -> Sequence[Record]:
    """Return a page of a session's journal as the caller may see it. The page ends before an answer that judges still
    consider, so that a client that continues from there reads it after it has passed."""
    runtime = await caller.runtime()
    page: Sequence[Record] = await read_records(runtime, key, after, min(limit, PAGE_RECORDS))
    if caller.can_see_all:
        return page
    later: list[Record] = []
    while (waiting := find_verdicts([*page, *later]).undecided_seq) is not None and waiting <= page[-1].seq:
        last = later[-1].seq if later else page[-1].seq
        more = await read_records(runtime, key, last)
        if not more:
            page = [record for record in page if record.seq < waiting]
            break
        later += more
    return [
        msgspec.structs.replace(record, event=caller.visible_event(record.event))
        for record in visible_records(page, later)
    ]


async def find_trace_id(runtime: Runtime, key: str, turn: int) -> str:
    """Return the trace id of a turn; "" if no turn has started."""
    return trace_id(key, (await runtime.lanes.get(key).load_session()).created, turn) if turn else ""
