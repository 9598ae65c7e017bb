"""Bounds how long tasks wait for something, many tasks with one timer.

`asyncio.timeout` sets a timer for every wait and cancels it again, which costs more than reading a short
answer does. Here all waits are equally long, so they run out in the order in which they began and one timer,
set again only when it fires, looks after all.
"""

from __future__ import annotations

import asyncio
from typing import Any

Task = asyncio.Task[Any]


class Patience:
    """`begin` and `end` around a wait; what outlasts `seconds` is cancelled, and `end` says that it was us."""

    __slots__ = ("_loop", "_spent", "_timer", "_until", "seconds")

    def __init__(self, loop: asyncio.AbstractEventLoop, seconds: float) -> None:
        self.seconds = seconds
        self._loop = loop
        self._timer: asyncio.TimerHandle | None = None
        self._until: dict[Task, float] = {}  # in the order in which they run out
        self._spent: set[Task] = set()

    def begin(self, task: Task) -> None:
        self._until[task] = self._loop.time() + self.seconds
        if self._timer is None:
            self._timer = self._loop.call_later(self.seconds, self._look)

    def end(self, task: Task) -> bool:
        """True if this wait was cancelled here, and by nobody else beside."""
        self._until.pop(task, None)
        if task not in self._spent:
            return False
        self._spent.discard(task)
        return task.uncancel() == 0

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self) -> None:
        self._timer = None
        now = self._loop.time()
        for task, until in list(self._until.items()):
            if until > now + 0.001:
                self._timer = self._loop.call_later(until - now, self._look)
                return
            del self._until[task]
            self._spent.add(task)
            task.cancel()
