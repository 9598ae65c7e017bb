"""How the world reaches into a running turn: steer it, or stop it."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

CANCEL_GRACE_S = 2.0  # for a tool to stop in, once it was told to


class Control:
    """One per turn. The lane calls `steer` and `abort`; the turn looks at every boundary, and lets itself
    be interrupted where it only waits."""

    __slots__ = ("_cuttable", "_scope", "_tasks", "_waiters", "aborted", "cut", "doing", "steers", "until")

    def __init__(self) -> None:
        self.steers: list[int] = []  # inputs by sequence, not yet put into the turn
        self.aborted = False
        self.cut = False  # the generation under way was ended for a steer
        self._scope: asyncio.Timeout | None = None
        self._cuttable = False
        self._tasks: dict[asyncio.Future[Any], tuple[float, str]] = {}  # when it must be over, and what it is
        self._waiters: dict[asyncio.Future[Any], asyncio.Future[None]] = {}
        self.doing = "starting"  # for the watchdog
        self.until = 0.0  # when what it is doing must be over, by the loop's clock

    def steer(self, seq: int) -> None:
        if seq not in self.steers:
            self.steers.append(seq)
        if self._cuttable:
            self.cut = True
            self._end_scope()

    def abort(self) -> None:
        self.aborted = True
        self._end_scope()
        for task in self._tasks:
            task.cancel()
        for waiter in self._waiters.values():
            _wake(waiter)

    def take_steers(self) -> tuple[int, ...]:
        taken, self.steers = tuple(self.steers), []
        return taken

    # --- for the turn ----------------------------------------------------------------------------

    def begin_generation(self, scope: asyncio.Timeout) -> None:
        """A model call: an abort ends it at once, and so does a steer until a tool call begins in it."""
        self._scope = scope
        self._cuttable = True
        self.cut = False
        if self.aborted:
            self._end_scope()

    def expect_calls(self) -> None:
        """A tool boundary is coming: a steer waits for it."""
        self._cuttable = False

    def extend(self, seconds: float) -> None:
        """The generation waits for something that is not counted as its time."""
        self.until += seconds
        if self._scope is not None and not self._scope.expired() and (when := self._scope.when()) is not None:
            self._scope.reschedule(when + seconds)

    def end_generation(self) -> None:
        self._scope = None
        self._cuttable = False

    async def wait_for(self, task: asyncio.Future[Any], doing: str, seconds: float) -> None:
        """Until the task is done or its time is over; an abort cancels it and leaves it only a moment."""
        loop = asyncio.get_running_loop()
        self._tasks[task] = (loop.time() + seconds + CANCEL_GRACE_S, doing)
        self.until, self.doing = max(self._tasks.values())  # of calls side by side, the one that may take longest
        if self.aborted:
            task.cancel()
        waiter = self._waiters[task] = loop.create_future()
        timer = loop.call_later(CANCEL_GRACE_S if self.aborted else seconds, _wake, waiter)
        task.add_done_callback(partial(_wake, waiter))
        try:
            await waiter
        finally:
            timer.cancel()
            del self._tasks[task], self._waiters[task]
        if self.aborted and not task.done():
            await asyncio.wait((task,), timeout=CANCEL_GRACE_S)

    def busy(self, doing: str, seconds: float) -> None:
        self.doing = doing
        self.until = asyncio.get_running_loop().time() + seconds

    def _end_scope(self) -> None:
        if self._scope is not None and not self._scope.expired():
            self._scope.reschedule(asyncio.get_running_loop().time())


def _wake(waiter: asyncio.Future[None], task: object = None) -> None:
    if not waiter.done():
        waiter.set_result(None)
