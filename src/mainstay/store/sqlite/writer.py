"""The one thread that writes: whatever is waiting is committed together.

Group commit makes durability cheap: one fsync serves every session that is waiting for one. An append
that cannot be made (a stale writer, a duplicate) fails alone; an error of the disk fails the whole
batch, and the file is opened anew before anything else is believed.

What only follows from the journal (the indexes) is written here too, a small slice at a time, when nobody waits
for an append. Slices are not synced: the next append's fsync covers them, and what a crash takes is made again.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from queue import SimpleQueue
from typing import Any

import apsw

from mainstay.core.errors import (
    InputRefused,
    MainstayError,
    StoreCorrupt,
    StoreFailed,
)
from mainstay.store.sqlite.ahead import Ahead
from mainstay.store.sqlite.appends import Append, joined
from mainstay.store.sqlite.database import connect, migrate, named, translate
from mainstay.store.sqlite.slices import Step, purge

log = logging.getLogger("mainstay.store")

PATIENCE = 16  # so many batches of appends go before a slice that waits


class Job:
    """Anything else that must happen on the writing connection, in a transaction of its own."""

    __slots__ = ("done", "error", "result", "work")

    def __init__(self, work: Callable[[apsw.Connection], Any], done: asyncio.Future[Any]) -> None:
        self.work = work
        self.done = done
        self.result: Any = None
        self.error: Exception | None = None


class Slices:
    """Small steps of one piece of work, each in a transaction of its own; whatever is more urgent goes between."""

    __slots__ = ("done", "error", "steps")

    def __init__(self, steps: Iterator[Step], done: asyncio.Future[None]) -> None:
        self.steps = steps
        self.done = done
        self.error: Exception | None = None


class Writer(threading.Thread):
    def __init__(self, path: str, *, busy_s: float, batch_max: int, vfs: str | None) -> None:
        super().__init__(name="mainstay-writer", daemon=True)
        self.path = path
        self.busy_s = busy_s
        self.batch_max = batch_max
        self.vfs = vfs
        self.loop = asyncio.get_running_loop()
        self.ahead = Ahead(path)
        self.queue: SimpleQueue[Append | Job | Slices | None] = SimpleQueue()
        self.forgotten = False  # something was blanked, and copies of it may be left in unused parts of pages
        self._db: apsw.Connection | None = None
        self._synced = True
        self.unmade: list[Append] = []  # written ahead, but the database would not take them
        self._later: deque[Slices] = deque()
        self._waited = 0  # batches since the last slice

    def open(self) -> None:
        """Before the thread starts, so that what is wrong with the file is heard at once."""
        self._db = connect(self.path, busy_s=self.busy_s, vfs=self.vfs)
        migrate(self._db, self.path)
        self._bring_in(self._db)
        self._inode = os.stat(self.path).st_ino
        self.forgotten = self._db.execute("SELECT 1 FROM chores WHERE name='purge'").fetchone() is not None

    def _bring_in(self, db: apsw.Connection) -> None:
        """What a process that is no more had only beside the database."""
        done: asyncio.Future[None] = self.loop.create_future()
        left = [Append(one.standing, one.expected, [*map(bytes, one.events)], None, done) for one in self.ahead.lines()]
        if left:
            with named(self.path):
                db.execute("BEGIN IMMEDIATE")
                for append in left:
                    if append.expected:
                        append.make(db)  # it is stale if it was brought in before
                db.execute("COMMIT")
        self.ahead.close(remove=True)

    # --- the thread ------------------------------------------------------------------------------

    def run(self) -> None:
        while True:
            batch, stop = self._take()
            appends = [item for item in batch if isinstance(item, Append)]
            if appends or self.unmade:
                self._commit(appends)
            for job in (item for item in batch if isinstance(item, Job)):
                self._perform(job)
            if batch:
                self._tell(batch)
            if stop:
                return self._close()
            if self._later and (self._waited >= PATIENCE or self.queue.empty()):
                self._slice()
            batch, appends = [], []  # held across a long wait, they would keep a whole batch alive

    def _take(self) -> tuple[list[Append | Job], bool]:
        """Wait for one, then take what else is there, up to and including a job or the end."""
        batch: list[Append | Job] = []
        self._waited += 1
        while not ((batch or self._later) and self.queue.empty()):
            item = self.queue.get()
            if item is None:
                return batch, True
            if isinstance(item, Slices):
                self._later.append(item)
                continue
            batch.append(item)
            if isinstance(item, Job) or len(batch) >= self.batch_max:
                break
        return batch, False

    def _commit(self, appends: list[Append]) -> None:
        """What could not be made the last time goes first: what follows builds upon it."""
        appends, self.unmade = [*self.unmade, *appends], []
        try:
            db = self._connection()
            self._check_place()
            self._sync(db, True)
            db.execute("BEGIN IMMEDIATE")
            for append in joined(appends) if any(append.ahead for append in appends) else appends:
                append.make(db)
            db.execute("COMMIT")
        except (apsw.Error, MainstayError) as error:
            self._fail(appends, error)
        else:
            if ahead := sum(append.ahead for append in appends):
                self.ahead.settle(ahead)

    def _check_place(self) -> None:
        """A file that was removed or replaced would still take what is written, and nobody would find it again."""
        try:
            found = os.stat(self.path).st_ino
        except OSError:
            found = -1
        if found != self._inode:
            raise StoreCorrupt(f"{self.path} was removed or replaced while it was in use; put it back and start again")

    def _perform(self, job: Job, *, synced: bool = True) -> None:
        try:
            if self.unmade:  # it may be about those
                raise StoreFailed(f"{self.path} does not take what was written before")
            db = self._connection()
            self._sync(db, synced)
            db.execute("BEGIN IMMEDIATE")
            job.result = job.work(db)
            db.execute("COMMIT")
        except (apsw.Error, MainstayError) as error:
            job.error = translate(error, self.path) if isinstance(error, apsw.Error) else error
            self._rollback()
            if isinstance(job.error, StoreFailed):
                self._reopen()
        except UnicodeEncodeError:
            job.error = InputRefused("this is not text that can be kept: it holds half characters")
            self._rollback()
        except (ValueError, TypeError, IndexError) as error:  # what was read is not what was written
            job.error = StoreCorrupt(f"{self.path} is damaged ({error}); it was left as it is. Restore a backup")
            self._rollback()

    def _slice(self) -> None:
        """One step of what can wait."""
        self._waited = 0
        slices = self._later[0]
        step = next(slices.steps, None)
        if step is not None:
            job = Job(step, slices.done)
            self._perform(job, synced=False)
            slices.error = job.error
        if step is None or slices.error is not None:
            self._later.popleft()
            self._tell([slices])

    def _sync(self, db: apsw.Connection, synced: bool) -> None:
        """Whether the next commit waits for the disk."""
        if synced != self._synced:
            db.execute("PRAGMA synchronous=FULL" if synced else "PRAGMA synchronous=NORMAL")
            self._synced = synced

    # --- when the disk says no -------------------------------------------------------------------

    def _fail(self, appends: list[Append], error: Exception) -> None:
        """Nothing of the batch stands, unless reading it back says otherwise."""
        named_error = translate(error, self.path) if isinstance(error, apsw.Error) else error
        log.warning("a commit of %d appends failed: %s", len(appends), named_error)
        self._rollback()
        db = self._db if isinstance(named_error, StoreFailed) and self._reopen() else None
        for append in appends:
            if append.error is not None or (db is not None and append.stands(db)):
                self.ahead.settle(append.ahead)
            elif append.ahead:
                append.before = None
                self.unmade.append(append)
            else:
                append.error = named_error

    def _rollback(self) -> None:
        try:
            if self._db is not None and self._db.in_transaction:
                self._db.execute("ROLLBACK")
        except apsw.Error as error:
            log.warning("a rollback failed: %s", error)
            self._reopen()

    def _reopen(self) -> bool:
        """After an I/O error the handle is not believed: what the kernel holds of the log is written again
        to the database file and synced there, and only then is it read."""
        try:
            if self._db is not None:
                self._db.close(True)
        except apsw.Error as error:
            log.warning("closing %s failed: %s", self.path, error)
        self._db = None
        try:
            self._connection()
        except (apsw.Error, MainstayError) as error:
            log.warning("%s cannot be opened again yet: %s", self.path, error)
            return False
        return True

    def _connection(self) -> apsw.Connection:
        if self._db is None:
            db = connect(self.path, busy_s=self.busy_s, vfs=self.vfs)
            try:
                with named(self.path):
                    db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            except MainstayError:
                db.close(True)
                raise
            self._db, self._synced = db, True  # as every connection begins
        return self._db

    def _close(self) -> None:
        if self.unmade:
            self._commit([])
        for slices in self._later:
            slices.error = StoreFailed(f"{self.path} was closed before this was done; it is done next time")
        if self._later:
            self._tell(list(self._later))
        if self._db is not None:
            try:
                if self.forgotten:
                    purge(self._db)
                    self._db.execute("VACUUM")
                self._db.close()
            except apsw.Error as error:
                log.warning("closing %s failed: %s", self.path, error)
        self.ahead.close(remove=True)

    # --- back to the loop ------------------------------------------------------------------------

    def _tell(self, batch: Sequence[Append | Job | Slices]) -> None:
        try:
            self.loop.call_soon_threadsafe(_settle, batch)
        except RuntimeError:  # the loop is gone, and with it everyone who waited
            log.debug("nobody waits for %d writes any more", len(batch))


def _settle(batch: Sequence[Append | Job | Slices]) -> None:
    for item in batch:
        if item.done.done():
            continue
        if item.error is not None:
            item.done.set_exception(item.error)
        else:
            item.done.set_result(item.result if isinstance(item, Job) else None)
