"""Read coalescing: pauses the sockets of dense streams briefly, so that one read brings several events.

A model sends a token every few milliseconds, and waking up for each costs far more than reading it. So reading from the
socket of a dense stream is paused for a moment, and the next read brings everything that arrived meanwhile. In an idle
process that pause is `HOLD_MIN_S`, too short to notice. The busier the thread, the longer the pause, up to
`HOLD_MAX_S`: hundreds of responses then arrive in somewhat larger pieces, and a new request does not wait behind them.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable

HOLD_MIN_S = 0.018  # with the timer's slack, text waits at most 20 ms
HOLD_MAX_S = 0.15
CPU_SHARE_IDLE, CPU_SHARE_BUSY = 0.2, 0.6  # CPU share of this thread at which the pause is shortest, and longest
TIMER_LATE_MAX_S = 0.02  # a timer this late means a fully loaded machine
MEASURE_EVERY_S = 0.25  # between two measurements of the load
TIMER_STEP_S = 0.008  # streams that are due within this time are resumed together


class ReadCoalescer:
    """Pauses the streams of one client, in one event loop, with one timer. `hold_s` is the current pause."""

    __slots__ = (
        "_busy_share",
        "_cpu_spent_s",
        "_cpu_time_s",
        "_lateness_s",
        "_loop",
        "_measured_at",
        "_paused",
        "_timer",
        "hold_s",
    )

    def __init__(self, loop: asyncio.AbstractEventLoop, cpu_time_s: Callable[[], float] = time.thread_time) -> None:
        """`cpu_time_s` returns the CPU time that this thread has used."""
        self.hold_s = HOLD_MIN_S
        self._loop = loop
        self._cpu_time_s = cpu_time_s
        self._paused: deque[tuple[float, Callable[[], None]]] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._busy_share = 0.0  # smoothed load, from 0 (idle) to 1 (fully busy)
        self._lateness_s = 0.0
        self._measured_at = loop.time()
        self._cpu_spent_s = cpu_time_s()

    def schedule_resume(self, resume: Callable[[], None]) -> None:
        """Call `resume` after the pause."""
        now = self._loop.time()
        if now - self._measured_at >= MEASURE_EVERY_S:
            self._measure_load(now)
        self._paused.append((now + self.hold_s, resume))
        if self._timer is None:
            self._timer = self._loop.call_later(self.hold_s, self._resume_due)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._paused.clear()

    def _resume_due(self) -> None:
        now = self._loop.time()
        held = self._paused
        if held:
            self._lateness_s = max(self._lateness_s, now - held[0][0] - TIMER_STEP_S)
        while held and held[0][0] <= now + TIMER_STEP_S / 2:
            held.popleft()[1]()
        self._timer = None
        if held:
            self._timer = self._loop.call_later(max(held[0][0] - now, TIMER_STEP_S), self._resume_due)

    def _measure_load(self, now: float) -> None:
        spent = self._cpu_time_s()
        share = (spent - self._cpu_spent_s) / (now - self._measured_at)
        busy = max((share - CPU_SHARE_IDLE) / (CPU_SHARE_BUSY - CPU_SHARE_IDLE), self._lateness_s / TIMER_LATE_MAX_S)
        self._busy_share += (min(max(busy, 0.0), 1.0) - self._busy_share) / 2
        self.hold_s = HOLD_MIN_S + (HOLD_MAX_S - HOLD_MIN_S) * self._busy_share
        self._measured_at, self._cpu_spent_s, self._lateness_s = now, spent, 0.0
