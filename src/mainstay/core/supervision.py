"""Supervision of long-lived tasks and threads: none of them ends silently by an exception.

An unexpected exception is logged with its traceback, the work starts again after a backoff, and until it has run for a
while again its failure is listed by `list_task_failures`, which `/readyz` and `mainstay doctor` read. Expected errors
(a full disk, a lost connection) are handled by the work itself.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Coroutine
from typing import Any
from weakref import WeakSet

log = logging.getLogger("mainstay.supervision")

RESTART_MIN_S = 1.0
RESTART_MAX_S = 60.0
RECOVERED_AFTER_S = 10.0  # without another failure, after a restart
FAILURE_CHARS_MAX = 500


class TaskHealth:
    """Health of one long-lived task or thread. Listed while the object exists and `close` was not called.

    `is_isolated`: it serves one session or room only, so that its failure does not make the server unready."""

    def __init__(self, name: str, *, is_isolated: bool = False) -> None:
        self.name = name
        self.is_isolated = is_isolated
        self._failure = ""
        self._failures = 0  # in a row
        self._recovers_at: float | None = None  # monotonic time; None: it does not run
        with _lock:
            _listed.add(self)

    @property
    def failure(self) -> str:
        """Why it does not work; "" if it does. Cleared when it has run for `RECOVERED_AFTER_S` after its restart."""
        if self._failure and self._recovers_at is not None and time.monotonic() >= self._recovers_at:
            self._failure, self._failures = "", 0
        return self._failure

    def mark_failed(self, error: BaseException) -> float:
        """Log an unexpected exception; return the seconds to wait before the restart."""
        repeated = bool(self.failure)
        self.set_failure(f"it failed ({type(error).__name__}: {error})")
        delay_s = min(RESTART_MIN_S * 2.0 ** min(self._failures - 1, 16), RESTART_MAX_S)
        level = logging.WARNING if repeated else logging.ERROR  # an error becomes a report; not one for each restart
        log.log(level, "%s failed, restarting in %g s: %s", self.name, delay_s, error, exc_info=error)
        return delay_s

    def set_failure(self, reason: str) -> None:
        """List a failure that the caller logs."""
        self._failure, self._recovers_at = reason[:FAILURE_CHARS_MAX], None
        self._failures += 1

    def mark_dead(self, error: BaseException) -> None:
        """Log an exception after which it does not start again."""
        self.set_failure(f"it stopped ({type(error).__name__}: {error})")
        log.critical("%s stopped: %s", self.name, error, exc_info=error)

    def mark_running(self) -> None:
        """The work runs again; the failure is listed until it has run for `RECOVERED_AFTER_S`."""
        if self._failure and self._recovers_at is None:
            self._recovers_at = time.monotonic() + RECOVERED_AFTER_S

    def close(self) -> None:
        """Remove it from the list: its owner stopped it, or its work is done."""
        with _lock:
            _listed.discard(self)


_lock = threading.Lock()
_listed: WeakSet[TaskHealth] = WeakSet()


def list_task_failures(*, is_isolated: bool = False) -> dict[str, str]:
    """Return the tasks and threads of this process that failed and do not work again yet, with the reason: the shared
    ones or, with `is_isolated`, those of single sessions and rooms."""
    with _lock:
        listed = list(_listed)
    return {
        health.name: failure for health in listed if health.is_isolated == is_isolated and (failure := health.failure)
    }


def start_supervised_task(
    name: str, work: Callable[[], Coroutine[Any, Any, None]], *, is_isolated: bool = False
) -> asyncio.Task[None]:
    """Start a background task that runs `work` until it returns or the task is cancelled, and restarts it if it
    raises. The task ends by no other exception."""
    health = TaskHealth(name, is_isolated=is_isolated)
    return asyncio.get_running_loop().create_task(_run_restarting(health, work), name=name)


async def _run_restarting(health: TaskHealth, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
    try:
        while (error := await _run_once(work)) is not None:
            await asyncio.sleep(health.mark_failed(error))
            health.mark_running()
    finally:
        health.close()


async def _run_once(work: Callable[[], Coroutine[Any, Any, None]]) -> BaseException | None:
    """Run the work; return its exception. A cancellation counts as one unless this task was cancelled."""
    try:
        await work()
    except BaseException as error:  # a bug in the work: reported, and the work is started again
        if must_end_task(error):
            raise
        return error
    return None


def must_end_task(error: BaseException) -> bool:
    """Return whether an exception is no bug but ends the current task: it was cancelled, or the process ends.

    A library may raise a CancelledError although the task was not cancelled, or a BaseException of its own, as the
    panics of Rust extensions are. Either would end a task silently.
    """
    if isinstance(error, asyncio.CancelledError):
        task = asyncio.current_task()
        return task is None or task.cancelling() > 0
    return isinstance(error, KeyboardInterrupt | SystemExit | GeneratorExit)


def log_task_exception(task: asyncio.Task[Any]) -> None:
    """Done callback of a short task that is not awaited: log its exception."""
    if not task.cancelled() and (error := task.exception()) is not None:
        log.error("%s failed: %s", task.get_name(), error, exc_info=error)


def run_supervised(health: TaskHealth, work: Callable[[], None], stop: threading.Event) -> None:
    """Run the work of a thread until it returns or `stop` is set; restart it if it raises."""
    try:
        while not stop.is_set():
            try:
                return work()
            except BaseException as error:  # a bug in the work, SystemExit included, which would end only the thread
                stop.wait(health.mark_failed(error))
                health.mark_running()
    finally:
        health.close()
