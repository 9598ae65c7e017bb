"""Threads for tools that are not async.

A pool of our own because a tool may hang: its thread is then left behind (a daemon, so the process can
still end) and another takes its place. The standard pool would wait for it at exit, for ever.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any

_Job = tuple[Callable[[], Any], asyncio.AbstractEventLoop, "asyncio.Future[Any]"]


class Workers:
    """Threads made when needed and kept for the next job, at most `threads_max` at work.

    `abandon`: a job that nobody waits for any more is written off, and another thread may take its place.
    """

    def __init__(self, threads_max: int = 64, *, abandon: bool = True) -> None:
        self._abandon = abandon
        self._jobs: SimpleQueue[_Job] = SimpleQueue()
        self._threads_max = threads_max
        self._lock = threading.Lock()
        self._threads = 0
        self._free = 0

    async def run(self, function: Callable[..., Any], arguments: dict[str, Any]) -> Any:
        loop = asyncio.get_running_loop()
        done: asyncio.Future[Any] = loop.create_future()
        context = contextvars.copy_context()
        with self._lock:
            if self._free:
                self._free -= 1
            elif self._threads < self._threads_max:
                self._threads += 1
                threading.Thread(target=self._work, name="mainstay-tool", daemon=True).start()
        self._jobs.put((lambda: context.run(function, **arguments), loop, done))
        try:
            return await done
        except asyncio.CancelledError:
            if self._abandon:
                with self._lock:
                    self._threads -= 1  # it may never come back: let another be made
            raise

    def _work(self) -> None:
        while True:
            job, loop, done = self._jobs.get()
            result, error = None, None
            try:
                result = job()
            except BaseException as raised:  # a tool's: it goes to whoever awaits the call, not to this thread
                error = raised
            del job
            try:
                loop.call_soon_threadsafe(self._settle, done, result, error)
            except RuntimeError:  # the loop was closed meanwhile: nobody waits any more
                return
            with self._lock:
                if self._threads > self._threads_max:
                    self._threads -= 1
                    return
                self._free += 1

    def _settle(self, done: asyncio.Future[Any], result: Any, error: BaseException | None) -> None:
        if done.done():  # nobody waits any more
            if self._abandon:
                with self._lock:
                    self._threads += 1  # it did come back
        elif error is None:
            done.set_result(result)
        elif isinstance(error, StopIteration):
            done.set_exception(RuntimeError("the tool raised StopIteration"))
        else:
            done.set_exception(error)


_workers: Workers | None = None


async def in_thread(function: Callable[..., Any], arguments: dict[str, Any]) -> Any:
    """Run beside the loop. Cancelling abandons the thread; it does not stop it."""
    global _workers
    if _workers is None:
        _workers = Workers()
    return await _workers.run(function, arguments)
