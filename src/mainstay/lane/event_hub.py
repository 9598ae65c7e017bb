"""Event hub: publishes events to watchers through bounded buffers, and never blocks a turn."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator

from mainstay.core.events import Event, Lagged, Partial


class WatcherBuffer:
    """A bounded buffer of events. A slow reader loses partial events first, and receives `Lagged` with the count."""

    def __init__(self, session: str | None, buffer_max: int) -> None:
        self.session = session
        self._buffer_max = buffer_max
        self._events: deque[Event] = deque()
        self._missed_unreported = 0
        self.missed_total = 0  # since it began to watch
        self._waiter: asyncio.Future[None] | None = None
        self._is_closed = False

    def push_event(self, event: Event) -> None:
        if self._is_closed:  # the reader has what it waited for; nothing may displace it
            return
        if len(self._events) >= self._buffer_max:
            self._missed_unreported += 1
            self.missed_total += 1
            if isinstance(event, Partial):
                return
            self._events.popleft()  # it can still be read from the journal
        self._events.append(event)
        self._wake()

    @property
    def first_sequence(self) -> int:
        """Sequence of the first buffered event that has one; 0: none."""
        return next((event.sequence for event in self._events if event.sequence), 0)

    def close(self) -> None:
        self._is_closed = True
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def __aiter__(self) -> AsyncIterator[Event]:
        while True:
            while self._events:
                if self._missed_unreported:
                    missed, self._missed_unreported = self._missed_unreported, 0
                    yield Lagged(missed, session=self.session or "")
                yield self._events.popleft()
            if self._is_closed:
                return
            self._waiter = asyncio.get_running_loop().create_future()  # per wait: an asyncio.Event costs twice as much
            await self._waiter


class EventHub:
    """The watchers of an agent's sessions."""

    def __init__(self, buffer_max: int) -> None:
        self._buffer_max = buffer_max
        self._global_watchers: set[WatcherBuffer] = set()
        self._session_watchers: dict[str, set[WatcherBuffer]] = {}
        self._missed_by_departed = 0  # by watchers that were removed

    def watch(self, session: str | None) -> WatcherBuffer:
        """Add a watcher of one session, or of all sessions for None."""
        watcher = WatcherBuffer(session, self._buffer_max)
        (self._global_watchers if session is None else self._session_watchers.setdefault(session, set())).add(watcher)
        return watcher

    @property
    def missed_total(self) -> int:
        """Number of events that slow watchers lost."""
        return self._missed_by_departed + sum(watcher.missed_total for watcher in self._watchers)

    @property
    def watcher_count(self) -> int:
        return len(self._watchers)

    @property
    def _watchers(self) -> list[WatcherBuffer]:
        return [
            *self._global_watchers,
            *(watcher for watchers in self._session_watchers.values() for watcher in watchers),
        ]

    def unwatch(self, watcher: WatcherBuffer) -> None:
        if watcher in self._global_watchers or watcher in self._session_watchers.get(watcher.session or "", ()):
            self._missed_by_departed += watcher.missed_total
        if watcher.session is None:
            self._global_watchers.discard(watcher)
        elif (watchers := self._session_watchers.get(watcher.session)) is not None:
            watchers.discard(watcher)
            if not watchers:
                del self._session_watchers[watcher.session]

    def has_watchers(self, session: str) -> bool:
        return bool(self._global_watchers) or session in self._session_watchers

    def emit(self, session: str, event: Event) -> None:
        for watcher in self._session_watchers.get(session, ()):
            watcher.push_event(event)
        for watcher in self._global_watchers:
            watcher.push_event(event)

    def close(self) -> None:
        for watcher in self._watchers:
            watcher.close()
