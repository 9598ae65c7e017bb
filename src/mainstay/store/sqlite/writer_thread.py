"""Writer thread of a SQLite database: group commit of all waiting appends, and background jobs in small steps.

Group commit makes durability cheap: one fsync serves every session that is waiting for one. An append that is refused
(a stale writer, a duplicate) fails alone; a disk error fails the whole batch, and the file is opened anew before
anything is read from it.

Data derived from the journal (the indexes) is written here too, one small step at a time, while no append waits. These
steps are not synced: the next append's fsync covers them, and what a crash loses is derived again.
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
from mainstay.store.sqlite.connection import check_file_identity, connect, map_sqlite_errors, migrate, translate_error
from mainstay.store.sqlite.index_maintenance import BackgroundStep, purge_indexes
from mainstay.store.sqlite.journal_append import JournalAppend, combine_appends
from mainstay.store.sqlite.write_ahead_log import WriteAheadFile

log = logging.getLogger("mainstay.store")

BATCHES_BEFORE_BACKGROUND = 16  # batches of appends that may precede a waiting background step


class WriteJob:
    """A function to run on the writing connection in its own transaction, and the future of its result."""

    __slots__ = ("error", "future", "result", "work")

    def __init__(self, work: Callable[[apsw.Connection], object], future: asyncio.Future[Any]) -> None:
        self.work = work
        self.future = future
        self.result: object = None
        self.error: Exception | None = None


class BackgroundJob:
    """A background job: small steps, each in its own transaction, that appends and write jobs may interrupt."""

    __slots__ = ("error", "future", "steps")

    def __init__(self, steps: Iterator[BackgroundStep], future: asyncio.Future[None]) -> None:
        self.steps = steps
        self.future = future
        self.error: Exception | None = None


class WriterThread(threading.Thread):
    """Executes the queue's items in order; None in the queue ends it. Futures are resolved on the event loop."""

    def __init__(self, path: str, *, busy_s: float, batch_max: int, vfs: str | None) -> None:
        super().__init__(name="mainstay-writer", daemon=True)
        self.path = path
        self.busy_s = busy_s
        self.batch_max = batch_max
        self.vfs = vfs
        self.loop = asyncio.get_running_loop()
        self.write_ahead_file = WriteAheadFile(path)
        self.queue: SimpleQueue[JournalAppend | WriteJob | BackgroundJob | None] = SimpleQueue()
        self.needs_purge = (
            False  # contents were erased, and copies may remain in unused parts of pages: VACUUM on close
        )
        self._db: apsw.Connection | None = None
        self._is_synchronous = True  # PRAGMA synchronous is FULL
        # written ahead, but their commit failed; they are tried again first
        self.unstored_appends: list[JournalAppend] = []
        self._background_jobs: deque[BackgroundJob] = deque()
        self._batches_since_background = 0  # batches since the last background step

    def open(self) -> None:
        """Open and migrate the database; call before `start`, so that the caller gets the errors."""
        self._db = connect(self.path, busy_s=self.busy_s, vfs=self.vfs)
        migrate(self._db, self.path)
        self._recover_write_ahead(self._db)
        self._inode = os.stat(self.path).st_ino
        self.needs_purge = self._db.execute("SELECT 1 FROM chores WHERE name='purge'").fetchone() is not None

    def _recover_write_ahead(self, db: apsw.Connection) -> None:
        """Store the appends that an earlier process left in the write-ahead file."""
        done: asyncio.Future[None] = self.loop.create_future()
        appends = [
            JournalAppend(entry.info, entry.expected, [*map(bytes, entry.events)], None, done)
            for entry in self.write_ahead_file.read_entries()
        ]
        if appends:
            with map_sqlite_errors(self.path):
                db.execute("BEGIN IMMEDIATE")
                for append in appends:
                    if append.expected:
                        append.execute(db)  # refused as stale if it is stored already
                db.execute("COMMIT")
        self.write_ahead_file.close(remove=True)

    # --- the thread ------------------------------------------------------------------------------

    def run(self) -> None:
        while True:
            batch, stop = self._collect_batch()
            appends = [item for item in batch if isinstance(item, JournalAppend)]
            if appends or self.unstored_appends:
                self._commit_appends(appends)
            for job in (item for item in batch if isinstance(item, WriteJob)):
                self._run_job(job)
            if batch:
                self._deliver_results(batch)
            if stop:
                return self._close()
            if self._background_jobs and (
                self._batches_since_background >= BATCHES_BEFORE_BACKGROUND or self.queue.empty()
            ):
                self._run_background_step()
            batch, appends = [], []  # while the thread waits, references would keep the whole batch in memory

    def _collect_batch(self) -> tuple[list[JournalAppend | WriteJob], bool]:
        """Wait for an item, then take all that are queued, up to and including a write job. The flag: stop after these.

        Returns an empty batch if only background jobs are waiting.
        """
        batch: list[JournalAppend | WriteJob] = []
        self._batches_since_background += 1
        while not ((batch or self._background_jobs) and self.queue.empty()):
            item = self.queue.get()
            if item is None:
                return batch, True
            if isinstance(item, BackgroundJob):
                self._background_jobs.append(item)
                continue
            batch.append(item)
            if isinstance(item, WriteJob) or len(batch) >= self.batch_max:
                break
        return batch, False

    def _commit_appends(self, appends: list[JournalAppend]) -> None:
        """Commit appends in one transaction. Those whose last commit failed go first: later ones build on them."""
        appends, self.unstored_appends = [*self.unstored_appends, *appends], []
        try:
            db = self._connection()
            check_file_identity(self.path, self._inode)
            self._set_synchronous(db, True)
            db.execute("BEGIN IMMEDIATE")
            for append in combine_appends(appends) if any(append.is_written_ahead for append in appends) else appends:
                append.execute(db)
            db.execute("COMMIT")
        except (apsw.Error, MainstayError) as error:
            self._handle_commit_failure(appends, error)
        else:
            if ahead := sum(append.is_written_ahead for append in appends):
                self.write_ahead_file.mark_stored(ahead)

    def _run_job(self, job: WriteJob, *, synced: bool = True) -> None:
        try:
            if self.unstored_appends:  # the job may depend on them
                raise StoreFailed(f"{self.path} cannot be written: earlier events could not be stored yet")
            db = self._connection()
            self._set_synchronous(db, synced)
            db.execute("BEGIN IMMEDIATE")
            job.result = job.work(db)
            db.execute("COMMIT")
        except (apsw.Error, MainstayError) as error:
            job.error = translate_error(error, self.path) if isinstance(error, apsw.Error) else error
            self._rollback()
            if isinstance(job.error, StoreFailed):
                self._reopen()
        except UnicodeEncodeError:
            job.error = InputRefused("this text cannot be stored: it contains half characters (lone surrogates)")
            self._rollback()
        except (ValueError, TypeError, IndexError) as error:  # stored data is not in the format that was written
            job.error = StoreCorrupt(f"{self.path} is damaged ({error}); it was left as it is. Restore a backup")
            self._rollback()

    def _run_background_step(self) -> None:
        """Run the next step of the first background job."""
        self._batches_since_background = 0
        background = self._background_jobs[0]
        step = next(background.steps, None)
        if step is not None:
            job = WriteJob(step, background.future)
            self._run_job(job, synced=False)
            background.error = job.error
        if step is None or background.error is not None:
            self._background_jobs.popleft()
            self._deliver_results([background])

    def _set_synchronous(self, db: apsw.Connection, synced: bool) -> None:
        """Set whether the next commit waits for fsync."""
        if synced != self._is_synchronous:
            db.execute("PRAGMA synchronous=FULL" if synced else "PRAGMA synchronous=NORMAL")
            self._is_synchronous = synced

    # --- disk errors -----------------------------------------------------------------------------

    def _handle_commit_failure(self, appends: list[JournalAppend], error: Exception) -> None:
        """Handle a failed commit: every append fails, except those that are found in the reopened database."""
        store_error = translate_error(error, self.path) if isinstance(error, apsw.Error) else error
        log.warning("a commit of %d appends failed: %s", len(appends), store_error)
        self._rollback()
        db = self._db if isinstance(store_error, StoreFailed) and self._reopen() else None
        for append in appends:
            if append.error is not None or (db is not None and append.is_stored(db)):
                self.write_ahead_file.mark_stored(append.is_written_ahead)
            elif append.is_written_ahead:
                append.preceding = None
                self.unstored_appends.append(append)
            else:
                append.error = store_error

    def _rollback(self) -> None:
        try:
            if self._db is not None and self._db.in_transaction:
                self._db.execute("ROLLBACK")
        except apsw.Error as error:
            log.warning("a rollback failed: %s", error)
            self._reopen()

    def _reopen(self) -> bool:
        """Replace the connection after an I/O error, when its state cannot be trusted: a checkpoint writes the WAL to
        the database file and syncs it before anything is read. Returns False if the file cannot be opened now."""
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
                with map_sqlite_errors(self.path):
                    db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            except MainstayError:
                db.close(True)
                raise
            self._db, self._is_synchronous = db, True  # `connect` sets FULL
        return self._db

    def _close(self) -> None:
        if self.unstored_appends:
            self._commit_appends([])
        for background in self._background_jobs:
            background.error = StoreFailed(f"{self.path} was closed before this was done; it is done at the next start")
        if self._background_jobs:
            self._deliver_results(list(self._background_jobs))
        if self._db is not None:
            try:
                if self.needs_purge:
                    purge_indexes(self._db)
                    self._db.execute("VACUUM")
                self._db.close()
            except apsw.Error as error:
                log.warning("closing %s failed: %s", self.path, error)
        self.write_ahead_file.close(remove=True)

    # --- results ---------------------------------------------------------------------------------

    def _deliver_results(self, batch: Sequence[JournalAppend | WriteJob | BackgroundJob]) -> None:
        try:
            self.loop.call_soon_threadsafe(_resolve_futures, batch)
        except RuntimeError:  # the event loop is closed, and with it all callers
            log.debug("the event loop is closed; the results of %d writes are dropped", len(batch))


def _resolve_futures(batch: Sequence[JournalAppend | WriteJob | BackgroundJob]) -> None:
    for item in batch:
        if item.future.done():
            continue
        if item.error is not None:
            item.future.set_exception(item.error)
        elif isinstance(item, WriteJob):
            item.future.set_result(item.result)
        else:
            item.future.set_result(None)
