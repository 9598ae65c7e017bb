"""Threads for tools that are not async.

A pool of our own because a tool may hang: its thread is then left behind (a daemon, so the process can
still end) and another takes its place. The standard pool would wait for it at exit, for ever.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable
from functools import partial
from queue import SimpleQueue
from typing import Any


class _Job:
    """Something to do, and who waits for it."""

    __slots__ = ("done", "finished", "given_up", "loop", "started", "work")

    def __init__(self, work: Callable[[], Any]) -> None:
        self.work = work
        self.loop = asyncio.get_running_loop()
        self.done: asyncio.Future[Any] = self.loop.create_future()
        self.started = False
        self.finished = False
        self.given_up = False


class Workers:
    """Threads made when needed and kept for the next job, at most `threads_max` at work.

    `abandon`: a job that nobody waits for any more is written off, and another thread may take its place.
    """

    def __init__(self, threads_max: int = 64, *, abandon: bool = True) -> None:
        self._abandon = abandon
        self._jobs: SimpleQueue[_Job] = SimpleQueue()
        self._threads_max = threads_max
        self._lock = threading.Lock()
        self._threads = 0  # that are not written off
        self._free = 0  # of those, waiting for a job
        self._queued = 0  # jobs that no thread has taken yet

    async def run(self, function: Callable[..., Any], arguments: dict[str, Any]) -> Any:
        return await self.submit(partial(function, **arguments))

    def submit(self, work: Callable[[], Any]) -> asyncio.Future[Any]:
        """Cancelling what this returns gives the job up."""
        job = _Job(partial(contextvars.copy_context().run, work))
        job.done.add_done_callback(partial(self._ended, job))
        self._jobs.put(job)
        with self._lock:
            self._queued += 1
            self._staff()
        return job.done

    def _ended(self, job: _Job, done: asyncio.Future[Any]) -> None:
        if done.cancelled():
            self._give_up(job)

    def _staff(self) -> None:
        if self._queued > self._free and self._threads < self._threads_max:
            self._threads += 1
            self._free += 1
            threading.Thread(target=self._work, name="mainstay-tool", daemon=True).start()

    def _give_up(self, job: _Job) -> None:
        """A job that has not begun never will; a thread that is at it may never come back."""
        with self._lock:
            job.given_up = True
            if self._abandon and job.started and not job.finished:
                self._threads -= 1
                self._staff()

    def _work(self) -> None:
        while self._serve(self._jobs.get()):
            pass

    def _begin(self, job: _Job) -> bool:
        with self._lock:
            self._queued -= 1
            if not job.given_up:
                self._free -= 1
                job.started = True
            return job.started

    def _serve(self, job: _Job) -> bool:
        """False if this thread is one too many."""
        if not self._begin(job):
            return True
        result, error = None, None
        try:
            result = job.work()
        except BaseException as raised:  # a tool's: it goes to whoever awaits the call, not to this thread
            error = raised
        try:
            job.loop.call_soon_threadsafe(_settle, job.done, result, error)
        except RuntimeError:  # the loop was closed meanwhile: nobody waits any more
            pass
        with self._lock:
            job.finished = True
            if self._abandon and job.given_up:
                self._threads += 1  # it did come back
            if self._threads > self._threads_max:
                self._threads -= 1
                return False
            self._free += 1
            return True


def _settle(done: asyncio.Future[Any], result: Any, error: BaseException | None) -> None:
    if done.done():  # nobody waits any more
        return
    if error is None:
        done.set_result(result)
    elif isinstance(error, asyncio.CancelledError):
        done.cancel()
    elif isinstance(error, SystemExit):  # it would end more than the tool
        done.set_exception(RuntimeError(f"the tool called exit({error.code})"))
    elif isinstance(error, StopIteration):
        done.set_exception(RuntimeError("the tool raised StopIteration"))
    else:
        done.set_exception(error)


_workers: Workers | None = None


def in_thread(work: Callable[[], Any]) -> asyncio.Future[Any]:
    """Run beside the loop. Cancelling abandons the thread; it does not stop it."""
    global _workers
    if _workers is None:
        _workers = Workers()
    return _workers.submit(work)
