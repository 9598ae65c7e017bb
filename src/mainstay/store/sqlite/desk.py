"""How tiers reach their database: beside a journal, or alone."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from importlib.resources import files
from typing import Protocol, TypeVar

import apsw

from mainstay.core.errors import StoreFailed
from mainstay.core.limits import Limits
from mainstay.core.workers import in_thread
from mainstay.store.sqlite.database import connect
from mainstay.store.sqlite.reader import Reader
from mainstay.store.sqlite.slices import Step
from mainstay.store.sqlite.writer import Job, Slices, Writer

T = TypeVar("T")


class Desk(Protocol):
    """Three ways to have something done on the database, none of them on the event loop."""

    journal: bool  # the events that messages come from are in this database too

    async def read(self, work: Callable[[apsw.Connection], T]) -> T: ...
    async def write(self, work: Callable[[apsw.Connection], T]) -> T:
        """In one transaction, on disk when this returns."""
        ...

    async def trickle(self, steps: Iterator[Step]) -> None:
        """Each step in a transaction of its own, when nobody else has anything to write; not synced."""
        ...


class Beside:
    """In a journal's own file, by its writing thread; reads have a thread of their own, so that a search never
    delays the loading of a session."""

    journal = True

    def __init__(self, reader: Reader, put: Callable[[Job | Slices], None]) -> None:
        self._reader = reader
        self._put = put

    async def read(self, work: Callable[[apsw.Connection], T]) -> T:
        return await self._reader.run(work)

    async def write(self, work: Callable[[apsw.Connection], T]) -> T:
        done: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._put(Job(work, done))
        return await done

    async def trickle(self, steps: Iterator[Step]) -> None:
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._put(Slices(steps, done))
        await done


class Alone:
    """In RAM or a file without a journal: one connection and one thread for everything."""

    journal = False

    def __init__(self, path: str, limits: Limits) -> None:
        self.path = path
        self._limits = limits
        self._thread: _Sole | None = None

    async def open(self) -> None:
        thread = _Sole(self.path, busy_s=self._limits.store_busy_s, batch_max=self._limits.commit_batch_max, vfs=None)
        await in_thread(thread.open)
        thread.start()
        self._thread = thread

    async def close(self) -> None:
        if self._thread is not None:
            thread, self._thread = self._thread, None
            thread.queue.put(None)
            await in_thread(thread.join)

    async def read(self, work: Callable[[apsw.Connection], T]) -> T:
        return await self.write(work)

    async def write(self, work: Callable[[apsw.Connection], T]) -> T:
        done: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._put(Job(work, done))
        return await done

    async def trickle(self, steps: Iterator[Step]) -> None:
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._put(Slices(steps, done))
        await done

    def _put(self, item: Job | Slices) -> None:
        if self._thread is None:
            raise StoreFailed(f"the tiers in {self.path} are not open")
        self._thread.queue.put(item)


class _Sole(Writer):
    """The writing thread of a database that holds tiers and nothing else."""

    def open(self) -> None:
        db = connect(self.path, busy_s=self.busy_s)
        if db.execute("SELECT 1 FROM sqlite_schema WHERE name='sessions'").fetchone() is None:
            schema = (files("mainstay.store.sqlite") / "migrations" / "0003.sql").read_text()
            db.execute("BEGIN; CREATE TABLE sessions (id INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE);")
            db.execute(schema)
            db.execute("COMMIT")
        self.forgotten = db.execute("SELECT 1 FROM chores WHERE name='purge'").fetchone() is not None
        self._db = db

    def _connection(self) -> apsw.Connection:
        if self._db is None:
            self.open()  # in RAM it is empty now, and is made again from the journal
        assert self._db is not None
        return self._db
