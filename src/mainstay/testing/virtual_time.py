"""Virtual time for tests: an event loop that never sleeps, and a fake clock that follows it.

When nothing is ready, the loop jumps to its next timer, so hours pass at once and in the right order. Threads and
sockets do not follow virtual time; use it with test doubles.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine, Mapping
from typing import Any, TypeVar

T = TypeVar("T")

START_MS = 1_767_225_600_000  # 2026-01-01T00:00:00Z


class _VirtualTimeSelector(selectors.BaseSelector):
    """Selector that never waits: the time that the loop would have slept is added to `now`."""

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self.now = 0.0

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        return self._selector.register(fileobj, events, data)

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        return self._selector.unregister(fileobj)

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            ready = self._selector.select(10)  # no timer is set: only a thread or a socket can wake the loop
            assert ready, "deadlock: no timer is set and no event arrived within 10 s"
            return ready
        ready = self._selector.select(0)
        if not ready:
            self.now += max(timeout, 0)
        return ready

    def close(self) -> None:
        self._selector.close()

    def get_map(self) -> Mapping[Any, selectors.SelectorKey]:
        return self._selector.get_map() or {}


class VirtualLoop(asyncio.SelectorEventLoop):
    """Event loop on virtual time."""

    def __init__(self) -> None:
        self._virtual_selector = _VirtualTimeSelector()
        super().__init__(self._virtual_selector)
        self._clock_resolution = 1e-6  # after half a year, adding a nanosecond no longer changes the float

    def time(self) -> float:
        return self._virtual_selector.now


def virtual_run(main: Coroutine[object, None, T]) -> T:
    """Run a coroutine like `asyncio.run`, on virtual time."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
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
