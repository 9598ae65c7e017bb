"""Control of a running turn from outside: steering, abort, and its current activity for the watchdog."""

from __future__ import annotations

import asyncio
from functools import partial

from mainstay.core.future_types import AnyFuture

CANCEL_GRACE_S = 2.0  # time for a cancelled tool to stop


class TurnControl:
    """One per turn. The lane calls `steer` and `abort`; the turn checks them between steps and calls, and is
    interrupted while it waits."""

    __slots__ = (
        "_can_cut",
        "_tasks",
        "_timeout",
        "_waiters",
        "aborted",
        "activity",
        "activity_deadline",
        "is_generation_cut",
        "pending_steers",
    )

    def __init__(self) -> None:
        self.pending_steers: list[int] = []  # sequences of inputs that are not yet in the turn
        self.aborted = False
        self.is_generation_cut = False  # a steer ended the current generation
        self._timeout: asyncio.Timeout | None = None
        self._can_cut = False
        self._tasks: dict[AnyFuture, tuple[float, str]] = {}  # deadline, activity
        self._waiters: dict[AnyFuture, asyncio.Future[None]] = {}
        self.activity = "starting"  # shown by the watchdog
        self.activity_deadline = 0.0  # by the event loop's clock; 0: none

    def steer(self, seq: int) -> None:
        """Add an input to the running turn; ends the current generation if no tool call has begun in it."""
        if seq not in self.pending_steers:
            self.pending_steers.append(seq)
        if self._can_cut:
            self.is_generation_cut = True
            self._expire_timeout()

    def abort(self) -> None:
        """Cancel the model call and the running tools at once."""
        self.aborted = True
        self._expire_timeout()
        for task in self._tasks:
            task.cancel()
        for waiter in self._waiters.values():
            _wake(waiter)

    def take_steers(self) -> tuple[int, ...]:
        taken, self.pending_steers = tuple(self.pending_steers), []
        return taken

    # --- for the turn ----------------------------------------------------------------------------

    def begin_generation(self, timeout: asyncio.Timeout) -> None:
        """Register a model call: an abort ends it at once, and so does a steer until a tool call begins in it."""
        self._timeout = timeout
        self._can_cut = True
        self.is_generation_cut = False
        if self.aborted:
            self._expire_timeout()

    async def expect_calls(self) -> None:
        """A tool call has begun: a steer now waits for the tool boundary.

        Does not return if a steer ended the generation just before: its timeout cancels the waiting task.
        """
        if self.is_generation_cut:
            await asyncio.Event().wait()
        self._can_cut = False

    def extend_deadline(self, seconds: float) -> None:
        """Extend the generation's deadline by a wait that does not count against its timeout."""
        self.activity_deadline += seconds
        if self._timeout is not None and not self._timeout.expired() and (when := self._timeout.when()) is not None:
            self._timeout.reschedule(when + seconds)

    def end_generation(self) -> None:
        self._timeout = None
        self._can_cut = False

    async def wait_for(self, task: AnyFuture, activity: str, seconds: float) -> None:
        """Wait until the task is done or timed out; an abort cancels it and waits for at most `CANCEL_GRACE_S`."""
        loop = asyncio.get_running_loop()
        self._tasks[task] = (loop.time() + seconds + CANCEL_GRACE_S, activity)
        # of parallel calls, the one with the latest deadline
        self.activity_deadline, self.activity = max(self._tasks.values())
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

    def set_activity(self, activity: str, seconds: float) -> None:
        self.activity = activity
        self.activity_deadline = asyncio.get_running_loop().time() + seconds

    def _expire_timeout(self) -> None:
        if self._timeout is not None and not self._timeout.expired():
            self._timeout.reschedule(asyncio.get_running_loop().time())


def _wake(waiter: asyncio.Future[None], task: object = None) -> None:
    if not waiter.done():
        waiter.set_result(None)
