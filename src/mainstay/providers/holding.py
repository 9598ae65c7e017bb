"""How long a stream is left alone after a read, and one clock for all that are.

A model sends a token every few milliseconds, and to wake up for each costs far more than to read it. So the socket of
a dense stream is left alone for a moment, and the next read brings whatever came meanwhile. In a process with time to
spare that moment is `HOLD_S`, which nobody sees. The busier its thread is, the longer it gets, up to `BUSY_HOLD_S`:
hundreds of answers come in somewhat larger pieces then, and whoever has just asked does not wait behind them.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable

HOLD_S = 0.018  # with the timer's own slack, text waits 20 ms at most
BUSY_HOLD_S = 0.15
SHARE_IDLE, SHARE_BUSY = 0.2, 0.6  # of a core, spent by this thread: from where it gets longer, and is longest
LATE_S = 0.02  # and a timer so late says the same of a machine that has others to serve
LOOK_S = 0.25  # between two looks at that
STEP_S = 0.008  # streams whose time is up within this are read together


class Holding:
    """All streams of one client, in one event loop."""

    __slots__ = ("_cpu", "_held", "_late", "_looked", "_loop", "_share", "_spent", "_timer", "seconds")

    def __init__(self, loop: asyncio.AbstractEventLoop, cpu: Callable[[], float] = time.thread_time) -> None:
        """`cpu`: what this thread has spent, in seconds."""
        self.seconds = HOLD_S
        self._loop = loop
        self._cpu = cpu
        self._held: deque[tuple[float, Callable[[], None]]] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._share = 0.0  # of the way from a thread with time to spare to one without
        self._late = 0.0
        self._looked = loop.time()
        self._spent = cpu()

    def hold(self, resume: Callable[[], None]) -> None:
        """`resume` is called when its time is up."""
        now = self._loop.time()
        if now - self._looked >= LOOK_S:
            self._look(now)
        self._held.append((now + self.seconds, resume))
        if self._timer is None:
            self._timer = self._loop.call_later(self.seconds, self._release)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._held.clear()

    def _release(self) -> None:
        now = self._loop.time()
        held = self._held
        if held:
            self._late = max(self._late, now - held[0][0] - STEP_S)
        while held and held[0][0] <= now + STEP_S / 2:
            held.popleft()[1]()
        self._timer = None
        if held:
            self._timer = self._loop.call_later(max(held[0][0] - now, STEP_S), self._release)

    def _look(self, now: float) -> None:
        spent = self._cpu()
        share = (spent - self._spent) / (now - self._looked)
        busy = max((share - SHARE_IDLE) / (SHARE_BUSY - SHARE_IDLE), self._late / LATE_S)
        self._share += (min(max(busy, 0.0), 1.0) - self._share) / 2
        self.seconds = HOLD_S + (BUSY_HOLD_S - HOLD_S) * self._share
        self._looked, self._spent, self._late = now, spent, 0.0
