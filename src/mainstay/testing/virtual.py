"""Time that tests move: an event loop that never sleeps, and a clock that agrees with it.

When nothing is ready, the loop jumps to its next timer. Hours pass in no time and in the right order. What
happens in threads or on sockets does not know of this time; use it with the doubles.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine, Mapping
from typing import Any, TypeVar

T = TypeVar("T")

BEGINNING_MS = 1_767_225_600_000  # 2026-01-01T00:00:00Z


class _Jumping(selectors.BaseSelector):
    """Waits for no one: whatever the loop would have slept is added to its time."""

    def __init__(self) -> None:
        self._real = selectors.DefaultSelector()
        self.now = 0.0

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        return self._real.register(fileobj, events, data)

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        return self._real.unregister(fileobj)

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            ready = self._real.select(10)  # only something from outside can help now
            assert ready, "nothing is scheduled and nothing happens: this would wait for ever"
            return ready
        ready = self._real.select(0)
        if not ready:
            self.now += max(timeout, 0)
        return ready

    def close(self) -> None:
        self._real.close()

    def get_map(self) -> Mapping[Any, selectors.SelectorKey]:
        return self._real.get_map() or {}


class VirtualLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._jumping = _Jumping()
        super().__init__(self._jumping)
        self._clock_resolution = (
            1e-6  # after half a year, a nanosecond is too little to make one time later than another
        )

    def time(self) -> float:
        return self._jumping.now


def virtual_run(main: Coroutine[Any, Any, T]) -> T:
    """`asyncio.run` on time that jumps."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(main)


class VirtualClock:
    """The Clock port on the running loop's time. `jump` moves the wall clock alone, as an operator might."""

    def __init__(self, start_ms: int = BEGINNING_MS) -> None:
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
    """The Ids port without chance."""

    def __init__(self) -> None:
        self._count = 0

    def new(self) -> str:
        self._count += 1
        return f"id-{self._count}"

    def random(self) -> float:
        return 0.5
