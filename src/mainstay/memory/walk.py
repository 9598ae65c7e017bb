"""Going round the sessions that have moved on: in batches, one after the other, again after trouble."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Iterable

log = logging.getLogger("mainstay.memory")

PATIENCE_S = 15.0  # that a busy agent is let be
RETRY_S = 1.0
RETRY_MAX_S = 300.0
BUSY_S = 1.0  # since something was touched, an agent is at work
REST_S = 0.01  # between two sessions, then


class Walk:
    """Calls `follow` for every session that was touched, when nothing was touched for a little while: an agent that is
    busy is left to its turns, and followed in batches, at the latest after `PATIENCE_S`.

    Nothing is done before `begin` was told what is behind already; that comes after what somebody touches now.
    """

    def __init__(
        self,
        follow: Callable[[str], Awaitable[None]],
        quiet_s: float,
        gate: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self.backlog: deque[str] = deque()
        self.lock = asyncio.Lock()  # held while a session is followed
        self._follow = follow
        self._gate = gate  # awaited before each session
        self._quiet_s = quiet_s
        self._touched: set[str] = set()
        self._asleep = False
        self._last = 0.0  # when something was touched
        self._wanted = asyncio.Event()
        self._waiting: list[asyncio.Future[None]] = []
        self._served: list[asyncio.Future[None]] = []  # who waits for what is being done now
        self._delays: dict[str, float] = {}  # of sessions that could not be followed, and for how long they are left
        self._timers: set[asyncio.TimerHandle] = set()
        self._loop = asyncio.get_running_loop()

    @property
    def left(self) -> int:
        return len(self._touched) + len(self.backlog)

    def touch(self, key: str) -> None:
        self._touched.add(key)
        self._last = self._loop.time()
        if self._asleep:
            self._asleep = False
            self._when_quiet(self._last + PATIENCE_S)

    def _when_quiet(self, latest: float) -> None:
        def look() -> None:
            if self._loop.time() >= min(self._last + self._quiet_s, latest):
                self._wanted.set()
            else:
                self._when_quiet(latest)

        self.later(max(0.0, min(self._last + self._quiet_s, latest) - self._loop.time()), look)

    def begin(self, behind: Iterable[str]) -> None:
        """What was behind before; what was touched meanwhile comes first."""
        self.backlog.extend(behind)
        self._wanted.set()

    def later(self, seconds: float, work: Callable[[], object]) -> None:
        def call() -> None:
            self._timers.discard(timer)
            work()

        timer = self._loop.call_later(seconds, call)
        self._timers.add(timer)

    async def done(self, timeout_s: float) -> bool:
        """True when everything that was touched before now has been followed, if that is soon enough."""
        if self._asleep:
            return True
        done = self._loop.create_future()
        self._waiting.append(done)
        self._wanted.set()
        try:
            async with asyncio.timeout(timeout_s):
                await done
        except TimeoutError:
            return False
        return True

    async def run(self) -> None:
        """For ever. Whatever goes wrong with one session, the others are followed."""
        while True:
            await self._wanted.wait()
            self._wanted.clear()
            await self._round()
            if self._touched:
                self._when_quiet(self._loop.time() + PATIENCE_S)
            else:
                self._asleep = True

    async def _round(self) -> None:
        """What was touched, then what was behind; but whoever waits is served in between."""
        while True:
            self._served += self._waiting
            self._waiting = []
            batch, self._touched = self._touched, set()
            for key in batch:
                await self._one(key)
                await self._rest()
            if not self.backlog:
                break
            await self._one(self.backlog.popleft())
            await self._rest()
        _let_go(self._served)
        if self._waiting:
            self._wanted.set()

    async def _one(self, key: str) -> None:
        if self._gate is not None:
            await self._gate()
        async with self.lock:
            error = await trouble_with(self._follow(key))
        if error is None:
            self._delays.pop(key, None)
            return
        delay = self._delays[key] = min(self._delays.get(key, RETRY_S / 2) * 2, RETRY_MAX_S)
        log.warning("session %r is not followed for %g s: %s: %s", key, delay, type(error).__name__, error)
        self.later(delay, lambda: self.touch(key))

    async def _rest(self) -> None:
        """Turns come first, as long as nobody waits for this."""
        if not (self._served or self._waiting) and self._loop.time() - self._last < BUSY_S:
            await asyncio.sleep(REST_S)

    def stop(self) -> None:
        for timer in self._timers:
            timer.cancel()
        self._timers.clear()
        _let_go(self._waiting)
        _let_go(self._served)


def _let_go(waiting: list[asyncio.Future[None]]) -> None:
    for done in waiting:
        if not done.done():
            done.set_result(None)
    waiting.clear()


async def trouble_with(work: Awaitable[object]) -> Exception | None:
    """What went wrong, if anything did: a tier, a model or a store may be somebody else's, and raise anything."""
    try:
        await work
    except Exception as error:  # it is logged or told by whoever asked; following goes on
        return error
    return None
