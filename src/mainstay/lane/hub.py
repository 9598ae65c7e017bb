"""Events out: to whoever watches, without ever making a turn wait."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator

from mainstay.core.events import Event, Lagged, Partial


class Watcher:
    """A bounded buffer. What a slow reader loses is first the partial, and it is told how much."""

    def __init__(self, session: str | None, buffer_max: int) -> None:
        self.session = session
        self._buffer_max = buffer_max
        self._events: deque[Event] = deque()
        self._missed = 0
        self.missed = 0  # in all
        self._waiter: asyncio.Future[None] | None = None
        self._closed = False

    def put(self, event: Event) -> None:
        if self._closed:  # what it waited for has come; nothing may push that out
            return
        if len(self._events) >= self._buffer_max:
            self._missed += 1
            self.missed += 1
            if isinstance(event, Partial):
                return
            self._events.popleft()  # the journal still has it
        self._events.append(event)
        self._wake()

    @property
    def first(self) -> int:
        """The sequence of the first that waits and has one; 0: none does."""
        return next((one.sequence for one in self._events if one.sequence), 0)

    def close(self) -> None:
        self._closed = True
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def __aiter__(self) -> AsyncIterator[Event]:
        while True:
            while self._events:
                if self._missed:
                    missed, self._missed = self._missed, 0
                    yield Lagged(missed, session=self.session or "")
                yield self._events.popleft()
            if self._closed:
                return
            self._waiter = asyncio.get_running_loop().create_future()  # for each wait: an Event costs twice as much
            await self._waiter


class Hub:
    """Who watches what."""

    def __init__(self, buffer_max: int) -> None:
        self._buffer_max = buffer_max
        self._all: set[Watcher] = set()
        self._of: dict[str, set[Watcher]] = {}
        self._missed = 0  # by those who have left

    def watch(self, session: str | None) -> Watcher:
        watcher = Watcher(session, self._buffer_max)
        (self._all if session is None else self._of.setdefault(session, set())).add(watcher)
        return watcher

    @property
    def missed(self) -> int:
        """So many events were lost on watchers that were too slow."""
        return self._missed + sum(one.missed for one in self._watchers)

    @property
    def watching(self) -> int:
        return len(self._watchers)

    @property
    def _watchers(self) -> list[Watcher]:
        return [*self._all, *(one for watchers in self._of.values() for one in watchers)]

    def leave(self, watcher: Watcher) -> None:
        if watcher in self._all or watcher in self._of.get(watcher.session or "", ()):
            self._missed += watcher.missed
        if watcher.session is None:
            self._all.discard(watcher)
        elif (watchers := self._of.get(watcher.session)) is not None:
            watchers.discard(watcher)
            if not watchers:
                del self._of[watcher.session]

    def wanted(self, session: str) -> bool:
        return bool(self._all) or session in self._of

    def emit(self, session: str, event: Event) -> None:
        for watcher in self._of.get(session, ()):
            watcher.put(event)
        for watcher in self._all:
            watcher.put(event)

    def close(self) -> None:
        for watcher in self._watchers:
            watcher.close()
