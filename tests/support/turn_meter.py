"""Counts what a turn costs: Python calls, event loop iterations, tasks, thread hops, appends, commits, fsyncs, bytes.

Counts do not depend on the speed of the machine, and the meter keeps its load out of them: while a turn is measured,
the event loop's clock stands still, so that no timer fires, and a thread is only interrupted where it waits.
"""

from __future__ import annotations

import asyncio
import os
import queue
import selectors
import sys
import threading
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, TypeVar

import apsw
import pytest
from trace_message import CallCounter

import mainstay
from mainstay.core import worker_threads
from mainstay.store.sqlite import home_projection_database, writer_thread
from mainstay.store.sqlite.store import SqliteStore

T = TypeVar("T")
SOURCE = Path(mainstay.__file__).parent
DOUBLES = ("providers/scripted.py", "testing/")  # in the package, but no user's turn calls them
QUEUE_MODULES = (worker_threads, home_projection_database, writer_thread)  # they hand jobs to threads
PATIENCE_S = 120.0  # for a thread or a socket, while a turn is measured
SWITCH_INTERVAL_S = 1000.0  # of threads that do not wait


class TurnMeter:
    """Measures turns on an event loop of its own."""

    def __init__(self) -> None:
        self.loop = MeteredLoop(self)
        self.is_counting = False
        self._counts: Counter[str] = Counter()
        self._calls = CallCounter(SOURCE)

    def add(self, name: str, amount: int = 1) -> None:
        if self.is_counting:
            self._counts[name] += amount

    def run(self, main: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine like `asyncio.run`. Agents must be opened in it: threads and connections that exist already
        are not seen."""
        with ExitStack() as stack:
            runner = stack.enter_context(asyncio.Runner(loop_factory=lambda: self.loop))
            stack.callback(sys.setswitchinterval, sys.getswitchinterval())
            sys.setswitchinterval(SWITCH_INTERVAL_S)
            self._watch_functions(stack.enter_context(pytest.MonkeyPatch.context()))
            self._watch_databases(stack)
            stack.callback(sys.setprofile, sys.getprofile())
            stack.callback(threading.setprofile, threading.getprofile())  # type: ignore[arg-type]
            self._calls.install()
            return runner.run(main)

    async def measure(self, turn: Callable[[], Awaitable[object]]) -> Counter[str]:
        """Return the counts of `await turn()`. What goes on in the background must have been awaited before."""
        await self.loop.wait_until_idle()
        self._counts = Counter()
        with self._calls.counting(1), self.loop.stopped_clock():
            self.is_counting = True
            try:
                await turn()
            finally:
                self.is_counting = False
        calls = self._calls.messages.pop()
        self._counts["calls"] = sum(count for path, count in calls.items() if not path.startswith(DOUBLES))
        return self._counts

    # --- where it is counted ---------------------------------------------------------------------

    def _watch_functions(self, patch: pytest.MonkeyPatch) -> None:
        meter, append, write = self, SqliteStore.append, os.write

        class MeteredQueue(queue.SimpleQueue):  # type: ignore[type-arg]
            def put(self, *args: Any) -> None:
                meter.add("hops")
                super().put(*args)

        def counted_append(store: Any, info: Any, expected: int, events: Any, *args: Any, **options: Any) -> Any:
            meter.add("appends")
            meter.add("records", len(events))
            meter.add("record_bytes", sum(map(len, events)))
            return append(store, info, expected, events, *args, **options)

        def counted_write(fd: int, data: Any) -> int:
            meter.add("bytes", len(data))
            return write(fd, data)

        def counted_sync(sync: Callable[[int], None]) -> Callable[[int], None]:
            return lambda fd: (meter.add("fsyncs"), sync(fd))[1]

        for module in QUEUE_MODULES:
            patch.setattr(module, "SimpleQueue", MeteredQueue)
        patch.setattr(worker_threads, "_workers", None)  # its threads may have been started before
        patch.setattr(SqliteStore, "append", counted_append)
        patch.setattr(os, "write", counted_write)
        for name in ("fsync", "fdatasync"):
            patch.setattr(os, name, counted_sync(getattr(os, name)))

    def _watch_databases(self, stack: ExitStack) -> None:
        def watch_commits(db: apsw.Connection) -> None:
            db.set_commit_hook(lambda: bool(self.add("commits")))  # True would turn it into a rollback

        apsw.connection_hooks.append(watch_commits)
        stack.callback(apsw.connection_hooks.remove, watch_commits)
        stack.callback(_MeteredVFS(self, base=apsw.vfs_names()[0]).unregister)


class _MeteredVFS(apsw.VFS):
    """SQLite's default file system until it is unregistered: counts what is written and synced."""

    def __init__(self, meter: TurnMeter, base: str) -> None:
        self.meter = meter
        self.base = base
        super().__init__("metered", base, makedefault=True)

    def xOpen(self, name: Any, flags: Any) -> _MeteredFile:
        return _MeteredFile(self, name, flags)


class _MeteredFile(apsw.VFSFile):
    def __init__(self, vfs: _MeteredVFS, name: Any, flags: Any) -> None:
        self.meter = vfs.meter
        super().__init__(vfs.base, name, flags)

    def xWrite(self, data: bytes, offset: int) -> None:
        self.meter.add("bytes", len(data))
        super().xWrite(data, offset)

    def xSync(self, flags: int) -> None:
        self.meter.add("fsyncs")
        super().xSync(flags)


# --- the event loop ------------------------------------------------------------------------------


class _IdleSelector(selectors.DefaultSelector):
    """Selector that tells its loop when it has nothing to run."""

    loop: MeteredLoop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout == 0 or self.loop.release_idle_waiters():
            return super().select(0)
        if not self.loop.has_stopped_clock:
            return super().select(timeout)
        ready = super().select(PATIENCE_S)
        assert ready, "the turn waits for a timer, and while it is measured none fires"
        return ready


class MeteredLoop(asyncio.SelectorEventLoop):
    """Event loop that counts its iterations, its tasks and what threads hand to it."""

    def __init__(self, meter: TurnMeter) -> None:
        self.has_stopped_clock = False
        self._meter = meter
        self._stopped_at = 0.0
        self._idle_waiters: list[asyncio.Future[None]] = []
        selector = _IdleSelector()
        selector.loop = self
        super().__init__(selector)

    def time(self) -> float:
        return self._stopped_at if self.has_stopped_clock else super().time()

    @contextmanager
    def stopped_clock(self) -> Iterator[None]:
        self._stopped_at = self.time()
        self.has_stopped_clock = True
        try:
            yield
        finally:
            self.has_stopped_clock = False

    async def wait_until_idle(self) -> None:
        """Return when nothing is ready to run: all tasks wait for a timer, a thread or a socket."""
        idle = self.create_future()
        self._idle_waiters.append(idle)
        await idle

    def release_idle_waiters(self) -> bool:
        """Return True if there were any."""
        waiters, self._idle_waiters = self._idle_waiters, []
        for waiter in waiters:
            waiter.set_result(None)
        return bool(waiters)

    def _process_events(self, event_list: Any) -> None:
        """Called once in each iteration, before the ready callbacks run. An iteration that only reads the byte with
        which a thread woke the loop does not count: it depends on which of them was faster."""
        super()._process_events(event_list)
        if len(self._ready) > sum(key.fileobj is self._ssock for key, _ in event_list):
            self._meter.add("iterations")

    def create_task(self, *args: Any, **options: Any) -> Any:
        self._meter.add("tasks")
        return super().create_task(*args, **options)

    def call_soon_threadsafe(self, *args: Any, **options: Any) -> Any:
        self._meter.add("hops")
        return super().call_soon_threadsafe(*args, **options)

    def run_in_executor(self, *args: Any) -> Any:
        self._meter.add("hops")
        return super().run_in_executor(*args)
