"""Timeouts for many tasks with one timer.

`asyncio.timeout` sets a timer for every wait and cancels it again, which costs more than reading a short response. Here
all timeouts have the same length, so they expire in the order in which they started, and one timer, set again only when
it fires, serves them all.
"""

from __future__ import annotations

import asyncio
from typing import Any

Task = asyncio.Task[Any]


class SharedTimerTimeouts:
    """Cancels tasks that wait longer than `timeout_s`. Call `start` before a wait and `stop` after it."""

    __slots__ = ("_deadlines", "_loop", "_timed_out", "_timer", "timeout_s")

    def __init__(self, loop: asyncio.AbstractEventLoop, timeout_s: float) -> None:
        self.timeout_s = timeout_s
        self._loop = loop
        self._timer: asyncio.TimerHandle | None = None
        self._deadlines: dict[Task, float] = {}  # in order of expiry
        self._timed_out: set[Task] = set()

    def start(self, task: Task) -> None:
        self._deadlines[task] = self._loop.time() + self.timeout_s
        if self._timer is None:
            self._timer = self._loop.call_later(self.timeout_s, self._cancel_expired)

    def stop(self, task: Task) -> bool:
        """End a wait. Return True if it was cancelled by its timeout and by nothing else."""
        self._deadlines.pop(task, None)
        if task not in self._timed_out:
            return False
        self._timed_out.discard(task)
        return task.uncancel() == 0

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _cancel_expired(self) -> None:
        self._timer = None
        now = self._loop.time()
        for task, deadline in list(self._deadlines.items()):
            if deadline > now + 0.001:
                self._timer = self._loop.call_later(deadline - now, self._cancel_expired)
                return
            del self._deadlines[task]
            self._timed_out.add(task)
            task.cancel()
