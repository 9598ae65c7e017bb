"""The lane's pen: the only writer of its session, and the only voice.

Events are applied to the view at once and sent to the store in order; several appends may be under way,
each naming the sequence the one before it leaves. If one fails, the view is ahead of the truth and is
thrown away: the lane reads the session again.

Write, then speak: watchers hear of an event when it is on disk, and of partial things in their place among
the others.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import cast

import msgspec

from mainstay.core.errors import StaleWriter, StoreError
from mainstay.core.events import Event, Reserved, StepCheckpointed
from mainstay.core.journal import encode, mended
from mainstay.core.ports import Clock, Once, Store
from mainstay.core.session import Session
from mainstay.lane.hub import Hub

AHEAD_S = 1.0  # for which a reservation alone may be ahead of the database


class Pen:
    """`Scribe` and `Emit` for the turn, and for the lane itself."""

    __slots__ = (
        "_clock",
        "_hub",
        "_last",
        "_news",
        "_noted",
        "_ride_along_s",
        "_sent",
        "_store",
        "_timer",
        "_touched",
        "_unspoken",
        "broken",
        "session",
    )

    def __init__(
        self,
        session: Session,
        store: Store,
        clock: Clock,
        ride_along_s: float,
        hub: Hub,
        touched: Callable[[str], None] | None = None,
    ) -> None:
        self.session = session
        self.broken: Exception | None = None
        self._store = store
        self._clock = clock
        self._ride_along_s = ride_along_s
        self._hub = hub
        self._touched = touched  # told when something of this session is on disk that was not there, even in parts
        self._noted: list[bytes] = []
        self._news = False  # some of that is more than a part of a message
        self._sent = session.head
        self._last: asyncio.Future[None] | None = None  # what the database was sent
        self._timer: asyncio.TimerHandle | None = None
        self._unspoken: deque[Event] = deque()  # in order; those with a sequence wait for the disk

    # --- writing ---------------------------------------------------------------------------------

    async def record(self, *events: Event) -> None:
        """A reservation must outlive the process that made it, and a call should not wait for the disk because of it:
        a power cut may forget those of the last second. What was noted before goes with it, and soon to the disk."""
        noted = bool(self._noted)
        self._apply(events)
        if not (self._is_clear and all(isinstance(one, Reserved) for one in events)):
            await self._written(self._send())
            return
        sending = self._send(ahead=True)
        self._flush_in(self._ride_along_s if noted else AHEAD_S)
        await self._written(sending)

    def _flush_in(self, seconds: float) -> None:
        """Or sooner, if that was meant before."""
        loop = asyncio.get_running_loop()
        if self._timer is not None:
            if self._timer.when() <= loop.time() + seconds:
                return
            self._timer.cancel()
        self._timer = loop.call_later(seconds, self._flush)

    @property
    def _is_clear(self) -> bool:
        """The database has all that was sent to it: what is written ahead of it builds upon nothing else."""
        last = self._last
        return last is None or (last.done() and not last.cancelled() and last.exception() is None)

    async def record_once(self, once: Once, *events: Event) -> None:
        """An input with an id of its own, first in an append of its own: refused alone if it came before."""
        if self._noted:
            self._send()
        self._apply(events)
        await self._written(self._send(once))

    async def _written(self, sending: asyncio.Future[None]) -> None:
        try:
            await sending
        except StaleWriter:
            if self.broken is not None and not isinstance(self.broken, StaleWriter):
                raise self.broken from None  # an append before this one failed: that is what happened
            raise

    def note(self, *events: Event, soon: bool = False) -> None:
        self._apply(events)
        if not soon:
            return
        if self.wanted:  # somebody waits to hear of it
            self._send()
        else:
            self._flush_in(self._ride_along_s)

    def _apply(self, events: tuple[Event, ...]) -> None:
        if self.broken is not None:
            raise self.broken
        at = self._clock.now_ms()
        session, wanted = self.session, self.wanted
        for event in events:
            try:
                body = encode(event)  # first: what cannot be kept must not be believed
            except UnicodeEncodeError:
                event = mended(event)
                body = encode(event)
            seq = session.head + 1
            session.apply(seq, at, event)
            self._noted.append(body)
            self._news = self._news or not isinstance(event, StepCheckpointed)
            if wanted:
                self._unspoken.append(msgspec.structs.replace(event, session=session.key, sequence=seq))

    def _flush(self) -> None:
        self._timer = None
        if self.broken is None:
            self._send()

    def _send(self, once: Once | None = None, *, ahead: bool = False) -> asyncio.Future[None]:
        """`ahead`: it outlives the process, but nobody can read it yet: followers hear of it with what is sent next."""
        if self._timer is not None and not ahead:
            self._timer.cancel()
            self._timer = None
        bodies, self._noted = self._noted, []
        news, self._news = self._news and not ahead, self._news and ahead
        expected, self._sent = self._sent, self.session.head
        sending = cast(
            "asyncio.Future[None]",
            self._store.append(self.session.standing(), expected, bodies, once, synced=not ahead),
        )
        if not ahead:
            self._last = sending
        head = self._sent
        if sending.done():  # a store that does it at once: what comes of it is known before anyone goes on
            self._sent_off(head, news, sending)
        else:
            sending.add_done_callback(partial(self._sent_off, head, news))
        return sending

    def _sent_off(self, head: int, news: bool, done: asyncio.Future[None]) -> None:
        if done.cancelled():
            return
        if (error := done.exception()) is not None:
            if self.broken is None:
                self.broken = error if isinstance(error, StoreError) else StoreError(str(error))
            return
        if news and self._touched is not None:
            self._touched(self.session.key)
        while self._unspoken and self._unspoken[0].sequence <= head:
            self._hub.emit(self.session.key, self._unspoken.popleft())

    async def save(self) -> None:
        """The standing by itself, for what was only found out about the session."""
        if self.broken is None:
            await self._written(self._send())

    async def flush(self) -> None:
        """Before the lane closes: what was noted is not left to chance."""
        if (self._noted or self._timer is not None) and self.broken is None:
            await self._send()

    # --- speaking --------------------------------------------------------------------------------

    @property
    def wanted(self) -> bool:
        return self._hub.wanted(self.session.key)

    def __call__(self, event: Event) -> None:
        """Something partial: said at once, or after what came before it is on disk."""
        if self._unspoken:
            self._unspoken.append(event)
        else:
            self._hub.emit(self.session.key, event)
