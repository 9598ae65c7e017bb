"""Work queue of changed sessions to index: debounced, in batches, one session at a time, with retries."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Iterable

log = logging.getLogger("mainstay.memory")

BATCH_DELAY_MAX_S = 15.0  # longest time that a busy agent delays a batch
RETRY_S = 1.0
RETRY_MAX_S = 300.0
BUSY_S = 1.0  # after a session changed, the agent counts as busy for this long
BUSY_PAUSE_S = 0.01  # pause between two sessions while the agent is busy


class IndexQueue:
    """Calls `index_session` for every changed session, once none has changed for `quiet_s` seconds.

    Running turns come first: the sessions of a busy agent are indexed in batches, at the latest after
    `BATCH_DELAY_MAX_S`. Nothing is processed before `add_backlog`; changed sessions come before the backlog.
    """

    def __init__(
        self,
        index_session: Callable[[str], Awaitable[None]],
        quiet_s: float,
        wait_until_ready: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self.backlog: deque[str] = deque()
        self.lock = asyncio.Lock()  # held while a session is indexed
        self._index_session = index_session
        self._wait_until_ready = wait_until_ready  # awaited before each session
        self._quiet_s = quiet_s
        self._changed: set[str] = set()
        self._is_idle = False
        self._changed_at = 0.0  # event loop time of the last change
        self._wake = asyncio.Event()
        self._waiters: list[asyncio.Future[None]] = []
        self._batch_waiters: list[asyncio.Future[None]] = []  # waiters for the batch that is being processed
        self._retry_delays: dict[str, float] = {}  # session: seconds before the next attempt, after a failure
        self._timers: set[asyncio.TimerHandle] = set()
        self._loop = asyncio.get_running_loop()

    @property
    def pending_count(self) -> int:
        return len(self._changed) + len(self.backlog)

    def mark_changed(self, key: str) -> None:
        self._changed.add(key)
        self._changed_at = self._loop.time()
        if self._is_idle:
            self._is_idle = False
            self._wake_when_quiet(self._changed_at + BATCH_DELAY_MAX_S)

    def _wake_when_quiet(self, deadline: float) -> None:
        def check() -> None:
            if self._loop.time() >= min(self._changed_at + self._quiet_s, deadline):
                self._wake.set()
            else:
                self._wake_when_quiet(deadline)

        self.call_later(max(0.0, min(self._changed_at + self._quiet_s, deadline) - self._loop.time()), check)

    def add_backlog(self, sessions: Iterable[str]) -> None:
        """Add sessions that were not up to date at the start, and begin to process."""
        self.backlog.extend(sessions)
        self._wake.set()

    def call_later(self, delay_s: float, callback: Callable[[], object]) -> None:
        def call() -> None:
            self._timers.discard(timer)
            callback()

        timer = self._loop.call_later(delay_s, call)
        self._timers.add(timer)

    async def wait_until_done(self, timeout_s: float) -> bool:
        """Wait until all sessions that changed before now are indexed; return False on timeout."""
        if self._is_idle:
            return True
        done = self._loop.create_future()
        self._waiters.append(done)
        self._wake.set()
        try:
            async with asyncio.timeout(timeout_s):
                await done
        except TimeoutError:
            return False
        return True

    async def run(self) -> None:
        """Process sessions until cancelled. A session that fails does not stop the others."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            await self._process_all()
            if self._changed:
                self._wake_when_quiet(self._loop.time() + BATCH_DELAY_MAX_S)
            else:
                self._is_idle = True

    async def _process_all(self) -> None:
        """Process all changed sessions, then the backlog; new waiters and changes are served in between."""
        while True:
            self._batch_waiters += self._waiters
            self._waiters = []
            batch, self._changed = self._changed, set()
            for key in batch:
                await self._process_session(key)
                await self._yield_to_turns()
            if not self.backlog:
                break
            await self._process_session(self.backlog.popleft())
            await self._yield_to_turns()
        _release_waiters(self._batch_waiters)
        if self._waiters:
            self._wake.set()

    async def _process_session(self, key: str) -> None:
        if self._wait_until_ready is not None:
            await self._wait_until_ready()
        async with self.lock:
            error = await catch_error(self._index_session(key))
        if error is None:
            self._retry_delays.pop(key, None)
            return
        delay = self._retry_delays[key] = min(self._retry_delays.get(key, RETRY_S / 2) * 2, RETRY_MAX_S)
        log.warning("indexing session %r failed, retrying in %g s: %s: %s", key, delay, type(error).__name__, error)
        self.call_later(delay, lambda: self.mark_changed(key))

    async def _yield_to_turns(self) -> None:
        """Pause briefly while the agent is busy, unless a caller waits for the index."""
        if not (self._batch_waiters or self._waiters) and self._loop.time() - self._changed_at < BUSY_S:
            await asyncio.sleep(BUSY_PAUSE_S)

    def stop(self) -> None:
        for timer in self._timers:
            timer.cancel()
        self._timers.clear()
        _release_waiters(self._waiters)
        _release_waiters(self._batch_waiters)


def _release_waiters(waiters: list[asyncio.Future[None]]) -> None:
    for done in waiters:
        if not done.done():
            done.set_result(None)
    waiters.clear()


async def catch_error(awaitable: Awaitable[object]) -> Exception | None:
    """Await and return the exception, or None. A third-party tier, model or store may raise anything."""
    try:
        await awaitable
    except Exception as error:  # the caller logs or reports it; indexing goes on
        return error
    return None
