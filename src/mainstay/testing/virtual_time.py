"""Virtual time for tests: an event loop that never sleeps, and a fake clock that follows it.

When nothing is ready, the loop jumps to its next timer, so hours pass at once and in the right order. While a thread
works for the loop (a store, a file that is read, a function of a tool), time stands still, however slow the machine is.
Sockets and processes do not follow virtual time; use it with test doubles.
"""

from __future__ import annotations

import asyncio
import selectors
import sys
import time
from collections.abc import Coroutine, Mapping
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

T = TypeVar("T")

START_MS = 1_767_225_600_000  # 2026-01-01T00:00:00Z


# modules that create futures for work that they hand to a thread, which resolves them
_THREAD_MODULES = frozenset(
    {
        "mainstay.core.worker_threads",
        "mainstay.store.sqlite.home_projection_database",
        "mainstay.store.sqlite.store",
        "mainstay.store.sqlite.workspace_database",
    }
)
DEADLOCK_S = 60.0
THREAD_POLL_S = 0.05
STUCK_THREAD_S = 30.0  # of real time, after which a thread counts as stuck: the timers that bound it go on


class _ThreadWork:
    """Work that was handed to threads and has not returned. The loop waits for it before it advances its time."""

    def __init__(self, stuck_s: float) -> None:
        self._stuck_s = stuck_s
        # with the real time at which it counts as stuck; weak, because work that was refused never has a result
        self._futures: WeakKeyDictionary[asyncio.Future[Any], float] = WeakKeyDictionary()

    def add(self, future: asyncio.Future[Any]) -> None:
        self._futures[future] = time.monotonic() + self._stuck_s

    def is_running(self) -> bool:
        for future in [future for future in self._futures if future.done()]:
            del self._futures[future]
        now = time.monotonic()
        return any(now < deadline for deadline in self._futures.values())


class _VirtualTimeSelector(selectors.BaseSelector):
    """Selector that waits only for threads: other time that the loop would have slept is added to `now`."""

    def __init__(self, work: _ThreadWork) -> None:
        self._selector = selectors.DefaultSelector()
        self._work = work
        self.now = 0.0

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        return self._selector.register(fileobj, events, data)

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        return self._selector.unregister(fileobj)

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            ready = self._selector.select(DEADLOCK_S)  # no timer is set: only a thread or a socket can wake the loop
            assert ready, f"deadlock: no timer is set and no event arrived within {DEADLOCK_S:.0f} s"
            return ready
        ready = self._selector.select(0)
        while not ready and timeout > 0 and self._work.is_running():
            ready = self._selector.select(THREAD_POLL_S)  # a thread that is done wakes the loop
        if not ready:
            self.now += max(timeout, 0)
        return ready

    def close(self) -> None:
        self._selector.close()

    def get_map(self) -> Mapping[Any, selectors.SelectorKey]:
        return self._selector.get_map() or {}


class VirtualLoop(asyncio.SelectorEventLoop):
    """Event loop on virtual time."""

    def __init__(self, stuck_thread_s: float = STUCK_THREAD_S) -> None:
        self._thread_work = _ThreadWork(stuck_thread_s)
        self._virtual_selector = _VirtualTimeSelector(self._thread_work)
        super().__init__(self._virtual_selector)
        self._clock_resolution = 1e-6  # after half a year, adding a nanosecond no longer changes the float

    def time(self) -> float:
        return self._virtual_selector.now

    def create_future(self) -> asyncio.Future[Any]:
        future = super().create_future()
        if sys._getframe(1).f_globals.get("__name__") in _THREAD_MODULES:
            self._thread_work.add(future)
        return future

    def run_in_executor(self, executor: Any, func: Any, *args: Any) -> asyncio.Future[Any]:  # type: ignore[override]
        future = super().run_in_executor(executor, func, *args)
        self._thread_work.add(future)
        return future


def virtual_run(main: Coroutine[object, None, T], *, stuck_thread_s: float = STUCK_THREAD_S) -> T:
    """Run a coroutine like `asyncio.run`, on virtual time.

    `stuck_thread_s`: real seconds after which a thread counts as stuck, for a test in which one never returns.
    """
    with asyncio.Runner(loop_factory=lambda: VirtualLoop(stuck_thread_s)) as runner:
        return runner.run(main)


class VirtualClock:
    """Fake Clock that follows the running loop's time. `jump` moves only the wall clock, as an operator might."""

    def __init__(self, start_ms: int = START_MS) -> None:
        self._start_ms = start_ms

    def now_ms(self) -> int:
        return self._start_ms + int(asyncio.get_running_loop().time() * 1000)

    def monotonic(self) -> float:
        return asyncio.get_running_loop().time()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    def jump(self, seconds: float) -> None:
        self._start_ms += int(seconds * 1000)


class CountingIds:
    """IdGenerator that counts: deterministic ids, and no randomness."""

    def __init__(self) -> None:
        self._count = 0

    def new_id(self) -> str:
        self._count += 1
        return f"id-{self._count}"

    def random(self) -> float:
        return 0.5
