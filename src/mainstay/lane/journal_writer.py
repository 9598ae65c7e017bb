"""Journal writer of a lane: the only writer of its session's journal, and the only publisher of its events.

Events are applied to the in-memory session at once and appended to the store in order. Several appends may be in
flight, each naming the sequence that the one before it leaves. If one fails, the in-memory session is ahead of the
store and is discarded: the lane loads the session again.

Events are published to watchers only when they are on disk; partial events keep their place among them.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import cast

import msgspec

from mainstay.core.errors import InputRefused, StaleWriter, StoreError
from mainstay.core.events import Event, Reserved, StepCheckpointed
from mainstay.core.journal import encode_event, replace_surrogates
from mainstay.core.ports import Clock, IdempotencyKey, Store
from mainstay.core.session import Session
from mainstay.lane.event_hub import EventHub

UNSYNCED_MAX_S = 1.0  # how long a reservation alone may stay unsynced


class JournalWriter:
    """Implements `EventRecorder` and `EventEmitter` for the turn and for the lane itself."""

    __slots__ = (
        "_clock",
        "_has_news",
        "_hub",
        "_last_append",
        "_on_stored",
        "_ride_along_s",
        "_sent_seq",
        "_store",
        "_timer",
        "_unpublished",
        "_unsent",
        "failure",
        "session",
    )

    def __init__(
        self,
        session: Session,
        store: Store,
        clock: Clock,
        ride_along_s: float,
        hub: EventHub,
        on_stored: Callable[[str], None] | None = None,
    ) -> None:
        self.session = session
        self.failure: Exception | None = None
        self._store = store
        self._clock = clock
        self._ride_along_s = ride_along_s
        self._hub = hub
        self._on_stored = on_stored  # called with the session's key after an append
        self._unsent: list[bytes] = []
        self._has_news = False  # the unsent events include more than checkpoints
        self._sent_seq = session.head
        self._last_append: asyncio.Future[None] | None = None  # the last synced append
        self._timer: asyncio.TimerHandle | None = None
        self._unpublished: deque[Event] = deque()  # in order; events with a sequence wait for their append

    # --- writing ---------------------------------------------------------------------------------

    async def record(self, *events: Event) -> None:
        """Append events, and return when they are stored.

        A reservation alone is appended unsynced: it survives the process, but a power cut may lose those of the last
        second, so that a model call does not wait for the disk. Earlier noted events go with it and are synced soon.
        """
        had_unsent = bool(self._unsent)
        self._apply(events)
        if not (self._is_caught_up and all(isinstance(event, Reserved) for event in events)):
            await self._wait_for_append(self._send())
            return
        append = self._send(unsynced=True)
        self._schedule_flush(self._ride_along_s if had_unsent else UNSYNCED_MAX_S)
        await self._wait_for_append(append)

    def _schedule_flush(self, seconds: float) -> None:
        """Flush after `seconds`, or at the deadline that was already scheduled if it is sooner."""
        loop = asyncio.get_running_loop()
        if self._timer is not None:
            if self._timer.when() <= loop.time() + seconds:
                return
            self._timer.cancel()
        self._timer = loop.call_later(seconds, self._flush)

    @property
    def _is_caught_up(self) -> bool:
        """True if every synced append has succeeded; an unsynced one must not build on one that is in flight."""
        last = self._last_append
        return last is None or (last.done() and not last.cancelled() and last.exception() is None)

    @property
    def has_pending_writes(self) -> bool:
        """True while an append is in flight or scheduled."""
        last = self._last_append
        return self.failure is None and (self._timer is not None or (last is not None and not last.done()))

    async def record_once(self, idempotency_key: IdempotencyKey, *events: Event) -> None:
        """Append an input with an idempotency key, in its own append. Raises DuplicateInput if the id is known."""
        if self._unsent:
            self._send()
        self._apply(events)
        await self._wait_for_append(self._send(idempotency_key))

    async def _wait_for_append(self, append: asyncio.Future[None]) -> None:
        try:
            await append
        except StaleWriter:
            if self.failure is not None and not isinstance(self.failure, StaleWriter):
                raise self.failure from None  # an earlier append failed: that is the cause
            raise

    def record_nowait(self, *events: Event, flush_soon: bool = False) -> None:
        """Apply events now and append them with the next record; `flush_soon`: in `ride_along_s`, or now if watched."""
        self._apply(events)
        if not flush_soon:
            return
        if self.has_watchers:  # watchers wait for it
            self._send()
        else:
            self._schedule_flush(self._ride_along_s)

    def _apply(self, events: tuple[Event, ...]) -> None:
        if self.failure is not None:
            raise self.failure
        at = self._clock.now_ms()
        session, wanted = self.session, self.has_watchers
        for event in events:
            try:
                body = encode_event(event)  # before it is applied: an event that cannot be stored must not be
            except UnicodeEncodeError:
                event = replace_surrogates(event)
                body = encode_event(event)
            seq = session.head + 1
            session.apply(seq, at, event)
            self._unsent.append(body)
            self._has_news = self._has_news or not isinstance(event, StepCheckpointed)
            if wanted:
                self._unpublished.append(msgspec.structs.replace(event, session=session.key, sequence=seq))

    def _flush(self) -> None:
        self._timer = None
        if self.failure is None:
            self._send()

    def _send(self, idempotency_key: IdempotencyKey | None = None, *, unsynced: bool = False) -> asyncio.Future[None]:
        """Append all unsent events.

        `unsynced`: they survive the process but not a power cut, and projections see them with the next append.
        """
        if self._timer is not None and not unsynced:
            self._timer.cancel()
            self._timer = None
        bodies, self._unsent = self._unsent, []
        has_news, self._has_news = self._has_news and not unsynced, self._has_news and unsynced
        expected, self._sent_seq = self._sent_seq, self.session.head
        append = cast(
            "asyncio.Future[None]",
            self._store.append(self.session.to_info(), expected, bodies, idempotency_key, synced=not unsynced),
        )
        if not unsynced:
            self._last_append = append
        head = self._sent_seq
        if append.done():  # a store that appends synchronously: handle the result before the caller continues
            self._on_appended(head, has_news, append)
        else:
            append.add_done_callback(partial(self._on_appended, head, has_news))
        return append

    def _on_appended(self, head: int, has_news: bool, append: asyncio.Future[None]) -> None:
        if append.cancelled():
            return
        if (error := append.exception()) is not None:
            if self.failure is None:
                self.failure = error if isinstance(error, StoreError | InputRefused) else StoreError(str(error))
            return
        if has_news and self._on_stored is not None:
            self._on_stored(self.session.key)
        while self._unpublished and self._unpublished[0].sequence <= head:
            self._hub.emit(self.session.key, self._unpublished.popleft())

    async def save_session_info(self) -> None:
        """Store the session's info without new events."""
        if self.failure is None:
            await self._wait_for_append(self._send())

    async def flush(self) -> None:
        """Append noted events now and sync them; called before the lane closes."""
        if (self._unsent or self._timer is not None) and self.failure is None:
            await self._send()

    # --- publishing ------------------------------------------------------------------------------

    @property
    def has_watchers(self) -> bool:
        return self._hub.has_watchers(self.session.key)

    def __call__(self, event: Event) -> None:
        """Publish a partial event: at once, or after the earlier events are on disk."""
        if self._unpublished:
            self._unpublished.append(event)
        else:
            self._hub.emit(self.session.key, event)
