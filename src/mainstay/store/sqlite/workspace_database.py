"""Access of tiers and other workspace data to their database: shared with the journal, or standalone."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Protocol, TypeVar

import apsw

from mainstay.core.errors import StoreFailed
from mainstay.core.limits import Limits
from mainstay.core.worker_threads import run_in_thread
from mainstay.store.sqlite.connection import connect
from mainstay.store.sqlite.index_maintenance import BackgroundStep
from mainstay.store.sqlite.reader_thread import ReaderThread
from mainstay.store.sqlite.writer_thread import BackgroundJob, WriteJob, WriterThread

T = TypeVar("T")


class WorkspaceDatabase(Protocol):
    """Runs functions on a database, outside the event loop's thread."""

    has_journal: bool  # this database contains the journal too

    async def read(self, work: Callable[[apsw.Connection], T]) -> T: ...
    async def write(self, work: Callable[[apsw.Connection], T]) -> T:
        """Run a function in one transaction; on disk when this returns."""
        ...

    async def run_in_background(self, steps: Iterator[BackgroundStep]) -> None:
        """Run steps in the background, each in its own transaction, while nothing else is to be written; not synced.
        Returns when all are done."""
        ...


class JournalDatabase:
    """Shares the journal's file and its writer thread. Reads have their own thread, so that a search never delays the
    loading of a session."""

    has_journal = True

    def __init__(self, reader: ReaderThread, submit: Callable[[WriteJob | BackgroundJob], None]) -> None:
        self._reader = reader
        self._submit = submit

    async def read(self, work: Callable[[apsw.Connection], T]) -> T:
        return await self._reader.run(work)

    async def write(self, work: Callable[[apsw.Connection], T]) -> T:
        done: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._submit(WriteJob(work, done))
        return await done

    async def run_in_background(self, steps: Iterator[BackgroundStep]) -> None:
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._submit(BackgroundJob(steps, done))
        await done


class StandaloneDatabase:
    """A database without a journal, in memory or in a file: one connection and one thread for everything."""

    has_journal = False

    def __init__(self, path: str, limits: Limits) -> None:
        self.path = path
        self._limits = limits
        self._writer: _StandaloneWriter | None = None

    async def open(self) -> None:
        thread = _StandaloneWriter(
            self.path, busy_s=self._limits.store_busy_s, batch_max=self._limits.commit_batch_max, vfs=None
        )
        await run_in_thread(thread.open)
        thread.start()
        self._writer = thread

    async def close(self) -> None:
        if self._writer is not None:
            thread, self._writer = self._writer, None
            thread.queue.put(None)
            await run_in_thread(thread.join)

    async def read(self, work: Callable[[apsw.Connection], T]) -> T:
        return await self.write(work)

    async def write(self, work: Callable[[apsw.Connection], T]) -> T:
        done: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._submit(WriteJob(work, done))
        return await done

    async def run_in_background(self, steps: Iterator[BackgroundStep]) -> None:
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._submit(BackgroundJob(steps, done))
        await done

    def _submit(self, item: WriteJob | BackgroundJob) -> None:
        if self._writer is None:
            raise StoreFailed(f"{self.path} is not open")
        self._writer.queue.put(item)


class _StandaloneWriter(WriterThread):
    """Writer thread of a database that contains only tiers."""

    def open(self) -> None:
        db = connect(self.path, busy_s=self.busy_s)
        if db.execute("SELECT 1 FROM sqlite_schema WHERE name='sessions'").fetchone() is None:
            schema = (Path(__file__).with_name("migrations") / "0003.sql").read_text()
            db.execute("BEGIN; CREATE TABLE sessions (id INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE);")
            db.execute(schema)
            db.execute("COMMIT")
        self.needs_purge = db.execute("SELECT 1 FROM chores WHERE name='purge'").fetchone() is not None
        self._db = db

    def _connection(self) -> apsw.Connection:
        if self._db is None:
            self.open()  # in memory it is empty now, and is rebuilt from the journal
        assert self._db is not None
        return self._db
