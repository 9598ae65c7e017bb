"""The lane's pen: the only writer of its session.

Events are applied to the view at once and sent to the store in order; several appends may be under way,
each naming the sequence the one before it leaves. If one fails, the view is ahead of the truth and is
thrown away: the lane reads the session again.
"""

from __future__ import annotations

import asyncio
from typing import cast

import msgspec

from mainstay.core.errors import StoreError
from mainstay.core.events import Event
from mainstay.core.journal import encode
from mainstay.core.ports import Clock, Once, Store
from mainstay.core.session import Session
from mainstay.lane.hub import Hub


class Pen:
    """A `Scribe` for the turn, and for the lane itself."""

    __slots__ = ("_clock", "_hub", "_noted", "_ride_along_s", "_sent", "_store", "_timer", "broken", "session")

    def __init__(
        self,
        session: Session,
        store: Store,
        clock: Clock,
        ride_along_s: float,
        hub: Hub,
    ) -> None:
        self.session = session
        self.broken: Exception | None = None
        self._store = store
        self._clock = clock
        self._ride_along_s = ride_along_s
        self._hub = hub
        self._noted: list[Event] = []
        self._sent = session.head
        self._timer: asyncio.TimerHandle | None = None

    async def record(self, *events: Event) -> None:
        self._apply(events)
        await self._send()

    async def record_once(self, event: Event, once: Once) -> None:
        """An input with an id of its own, in an append of its own: refused alone if it came before."""
        if self._noted:
            self._send()
        self._apply((event,))
        await self._send(once)

    def note(self, *events: Event, soon: bool = False) -> None:
        self._apply(events)
        if soon and self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self._ride_along_s, self._flush)

    def _apply(self, events: tuple[Event, ...]) -> None:
        if self.broken is not None:
            raise self.broken
        at = self._clock.now_ms()
        session = self.session
        for event in events:
            session.apply(session.head + 1, at, event)
            self._noted.append(event)

    def _flush(self) -> None:
        self._timer = None
        if self._noted and self.broken is None:
            self._send()

    def _send(self, once: Once | None = None) -> asyncio.Future[None]:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        events, self._noted = self._noted, []
        expected, self._sent = self._sent, self.session.head
        sending = cast(
            "asyncio.Future[None]",
            self._store.append(self.session.standing(), expected, [encode(event) for event in events], once),
        )
        sending.add_done_callback(lambda done: self._sent_off(done, events, expected))
        return sending

    def _sent_off(self, done: asyncio.Future[None], events: list[Event], expected: int) -> None:
        """Write, then speak: watchers hear of it only now."""
        if done.cancelled():
            return
        if (error := done.exception()) is not None:
            if self.broken is None:
                self.broken = error if isinstance(error, StoreError) else StoreError(str(error))
            return
        key = self.session.key
        if self._hub.wanted(key):
            for seq, event in enumerate(events, start=expected + 1):
                self._hub.emit(key, msgspec.structs.replace(event, session=key, sequence=seq))
