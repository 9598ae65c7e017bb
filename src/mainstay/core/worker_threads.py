"""Thread pool for tools that are not async.

A pool of our own because a tool may hang: its thread is then abandoned (a daemon, so that the process can still exit)
and another takes its place. The standard library's pool would wait for it at exit, for ever.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable, Mapping
from functools import partial
from queue import SimpleQueue
from typing import Any, TypeVar

T = TypeVar("T")


class _ThreadJob:
    """A function to run in a thread, and the future for its result."""

    __slots__ = ("abandoned", "finished", "future", "loop", "started", "work")

    def __init__(self, work: Callable[[], object]) -> None:
        self.work = work
        self.loop = asyncio.get_running_loop()
        self.future: asyncio.Future[Any] = self.loop.create_future()
        self.started = False
        self.finished = False
        self.abandoned = False


class WorkerThreads:
    """Thread pool that starts threads on demand and reuses them, at most `threads_max` at a time.

    `abandon`: the thread of a cancelled job no longer counts, and another may take its place.
    """

    def __init__(self, threads_max: int = 64, *, abandon: bool = True) -> None:
        self._abandon = abandon
        self._jobs: SimpleQueue[_ThreadJob] = SimpleQueue()
        self._threads_max = threads_max
        self._lock = threading.Lock()
        self._threads = 0  # that are not abandoned
        self._idle = 0  # those of them that are idle
        self._queued = 0  # jobs that no thread has taken yet

    async def run(self, function: Callable[..., T], arguments: Mapping[str, object]) -> T:
        return await self.submit(partial(function, **arguments))

    def submit(self, work: Callable[[], T]) -> asyncio.Future[T]:
        """Run `work` in a thread, in a copy of the current context. Cancelling the future abandons the job."""
        job = _ThreadJob(partial(contextvars.copy_context().run, work))
        job.future.add_done_callback(partial(self._on_done, job))
        self._jobs.put(job)
        with self._lock:
            self._queued += 1
            try:
                self._start_thread_if_needed()
            except RuntimeError:  # the system has no thread left: the caller gets the error, so the job must not run
                job.abandoned = True
                raise
        return job.future

    def _on_done(self, job: _ThreadJob, done: asyncio.Future[T]) -> None:
        if done.cancelled():
            self._abandon_job(job)

    def _start_thread_if_needed(self) -> None:
        if self._queued > self._idle and self._threads < self._threads_max:
            threading.Thread(target=self._run_thread, name="mainstay-tool", daemon=True).start()
            self._threads += 1  # not before: the system may have no thread left, and a later job tries again
            self._idle += 1

    def _abandon_job(self, job: _ThreadJob) -> None:
        """Abandon a job: it is skipped if it has not begun; a thread that runs it may never return."""
        with self._lock:
            job.abandoned = True
            if self._abandon and job.started and not job.finished:
                self._threads -= 1
                self._start_thread_if_needed()

    def _run_thread(self) -> None:
        while self._run_job(self._jobs.get()):
            pass

    def _begin_job(self, job: _ThreadJob) -> bool:
        with self._lock:
            self._queued -= 1
            if not job.abandoned:
                self._idle -= 1
                job.started = True
            return job.started

    def _run_job(self, job: _ThreadJob) -> bool:
        """Run a job; returns False if this thread is surplus and should end."""
        if not self._begin_job(job):
            return True
        result: object = None
        error: BaseException | None = None
        try:
            result = job.work()
        except BaseException as raised:  # raised by a tool: it belongs to the awaiting caller, not to this thread
            error = raised
        try:
            job.loop.call_soon_threadsafe(_set_future, job.future, result, error)
        except RuntimeError:  # the loop was closed meanwhile: there is no caller any more
            pass
        with self._lock:
            job.finished = True
            if self._abandon and job.abandoned:
                self._threads += 1  # the abandoned thread did return
            if self._threads > self._threads_max:
                self._threads -= 1
                return False
            self._idle += 1
            return True


def _set_future(future: asyncio.Future[T], result: T, error: BaseException | None) -> None:
    if future.done():  # cancelled: there is no caller any more
        return
    if error is None:
        future.set_result(result)
    elif isinstance(error, asyncio.CancelledError):
        future.cancel()
    elif isinstance(error, SystemExit):  # it would end the process, not just the tool
        future.set_exception(RuntimeError(f"the tool called exit({error.code})"))
    elif isinstance(error, StopIteration):
        future.set_exception(RuntimeError("the tool raised StopIteration"))
    else:
        future.set_exception(error)


_workers: WorkerThreads | None = None


def run_in_thread(work: Callable[[], T]) -> asyncio.Future[T]:
    """Run a function in the shared thread pool. Cancelling abandons the thread; it does not stop it."""
    global _workers
    if _workers is None:
        _workers = WorkerThreads()
    return _workers.submit(work)
