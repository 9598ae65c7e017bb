"""Writer thread of a SQLite database: group commit of all waiting appends, and background jobs in small steps.

Group commit makes durability cheap: one fsync serves every session that is waiting for one. An append that is refused
(a stale writer, a duplicate, a value that SQLite cannot store) fails alone; a disk error fails the whole batch, and the
file is opened anew before anything is read from it. An unexpected exception is handled like a disk error: the thread
goes on, and callers never wait for an answer that does not come.

Data derived from the journal (the indexes) is written here too, one small step at a time, while no append waits. These
steps are not synced: the next append's fsync covers them, and what a crash loses is derived again.
"""

from __future__ import annotations

import asyncio
import logging
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
from mainstay.core.supervision import TaskHealth
from mainstay.store.sqlite.connection import (
    DatabaseFiles,
    connect,
    find_removal,
    is_damage,
    map_sqlite_errors,
    migrate,
    translate_error,
)
from mainstay.store.sqlite.index_maintenance import BackgroundStep, purge_indexes
from mainstay.store.sqlite.journal_append import JournalAppend, combine_appends
from mainstay.store.sqlite.write_ahead_log import WriteAheadFile

log = logging.getLogger("mainstay.store")

BATCHES_BEFORE_BACKGROUND = 16  # batches of appends that may precede a waiting background step
# raised for a value that SQLite cannot store: an integer beyond 64 bits, half a character, NaN, a text of gigabytes
UNSTORABLE_VALUE = (OverflowError, ValueError, TypeError, apsw.TooBigError, apsw.MismatchError)


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
        # The file is damaged: from then on nothing is written, because that could damage more of it.
        self.damage: StoreCorrupt | None = None
        self.write_error: Exception | None = None  # why the last write failed; None: it succeeded
        self._files: DatabaseFiles | None = None
        self._db: apsw.Connection | None = None
        self._is_synchronous = True  # PRAGMA synchronous is FULL
        # written ahead, but their commit failed; they are tried again first
        self.unstored_appends: list[JournalAppend] = []
        self._batch: list[JournalAppend | WriteJob] = []  # taken from the queue, and not answered yet
        self._background_jobs: deque[BackgroundJob] = deque()
        self._batches_since_background = 0  # batches since the last background step
        self._health = TaskHealth(f"writer of {path}")

    def open(self) -> None:
        """Open and migrate the database; call before `start`, so that the caller gets the errors."""
        self._db = connect(self.path, busy_s=self.busy_s, vfs=self.vfs)
        migrate(self._db, self.path)
        self._recover_write_ahead(self._db)
        self._files = DatabaseFiles(self.path)
        self._files.refresh_log()
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
                        self._execute_alone(append, db)  # refused as stale if it is stored already
                db.execute("COMMIT")
        self.write_ahead_file.close(remove=True)

    # --- the thread ------------------------------------------------------------------------------

    def run(self) -> None:
        try:
            self._run_batches()
        except BaseException as error:  # failing the callers did not work either: they must not wait for ever
            self._health.mark_dead(error)
            self._refuse_items(error)
        else:
            self._health.close()

    def _run_batches(self) -> None:
        stop = False
        while not stop:
            stop = self._collect_batch()
            batch = self._batch
            try:
                appends = [item for item in batch if isinstance(item, JournalAppend)]
                if appends or self.unstored_appends:
                    self._commit_appends(appends)
                for job in (item for item in batch if isinstance(item, WriteJob)):
                    self._run_job(job)
                if batch:
                    if self._files is not None:
                        self._files.note_log_size()
                    self._deliver_results(batch)
                if stop:
                    self._close()
                elif self._background_jobs and (
                    self._batches_since_background >= BATCHES_BEFORE_BACKGROUND or self.queue.empty()
                ):
                    self._run_background_step()
            except Exception as error:  # a bug: the callers of this batch get an error, and the thread goes on
                self._handle_unexpected(batch, error)
            # while the thread waits, references would keep the whole batch in memory
            self._batch, batch, appends = [], [], []

    def _handle_unexpected(self, batch: Sequence[JournalAppend | WriteJob], error: Exception) -> None:
        self._report_failure(error)
        self._rollback()
        self._reopen()
        for item in batch:
            item.error = item.error or self._unexpected_error(error)
        self._deliver_results(batch)

    def _report_failure(self, error: Exception) -> None:
        self._health.mark_failed(error)
        self._health.mark_running()

    def _unexpected_error(self, error: Exception) -> StoreFailed:
        return StoreFailed(f"{self.path} could not be written: internal error ({type(error).__name__}); see the log")

    def _refuse_items(self, error: BaseException) -> None:
        """Fail the items that were taken, the queued ones and all later ones, until the store is closed."""
        refusal = f"{self.path} cannot be written any more: its writer stopped ({type(error).__name__}); restart"
        taken = [*self._batch, *self._background_jobs]
        self._background_jobs.clear()
        for one in taken:
            one.error = one.error or StoreFailed(refusal)
        self._deliver_results(taken)
        while (item := self.queue.get()) is not None:
            item.error = StoreFailed(refusal)
            self._deliver_results([item])

    def _collect_batch(self) -> bool:
        """Wait for an item, then take all that are queued, up to and including a write job. Return True to stop after
        these.

        The batch is empty if only background jobs are waiting.
        """
        batch = self._batch
        self._batches_since_background += 1
        while not ((batch or self._background_jobs) and self.queue.empty()):
            item = self.queue.get()
            if item is None:
                return True
            if isinstance(item, BackgroundJob):
                self._background_jobs.append(item)
                continue
            batch.append(item)
            if isinstance(item, WriteJob) or len(batch) >= self.batch_max:
                break
        return False

    def _commit_appends(self, appends: list[JournalAppend]) -> None:
        """Commit appends in one transaction. Those whose last commit failed go first: later ones build on them."""
        appends, self.unstored_appends = [*self.unstored_appends, *appends], []
        try:
            db = self._checked_connection()
            self._set_synchronous(db, True)
            db.execute("BEGIN IMMEDIATE")
            try:
                written_ahead = any(append.is_written_ahead for append in appends)
                for append in combine_appends(appends) if written_ahead else appends:
                    append.execute(db)
            except UNSTORABLE_VALUE:
                db.execute("ROLLBACK; BEGIN IMMEDIATE")
                for append in appends:
                    append.preceding, append.error = None, None
                    self._execute_alone(append, db)
            db.execute("COMMIT")
        except (apsw.Error, MainstayError) as error:
            self._handle_commit_failure(appends, error)
        except Exception as error:  # a bug: as after a disk error, appends that were written ahead are tried again
            self._report_failure(error)
            self._handle_commit_failure(appends, self._unexpected_error(error))
        else:
            self.write_error = None
            if ahead := sum(append.is_written_ahead for append in appends):
                self.write_ahead_file.mark_stored(ahead)

    def _execute_alone(self, append: JournalAppend, db: apsw.Connection) -> None:
        """Execute an append in a savepoint; if a value cannot be stored, set its error and undo it."""
        db.execute("SAVEPOINT one_append")
        try:
            append.execute(db)
        except UNSTORABLE_VALUE as error:
            db.execute("ROLLBACK TO one_append")
            append.error = InputRefused(f"session {append.info.key!r}: {_describe_unstorable(error)}")
            log.error("an append was refused: %s", append.error)
        db.execute("RELEASE one_append")

    def _run_job(self, job: WriteJob, *, synced: bool = True) -> None:
        try:
            if self.unstored_appends:  # the job may depend on them
                raise StoreFailed(f"{self.path} cannot be written: earlier events could not be stored yet")
            db = self._checked_connection()
            self._set_synchronous(db, synced)
            db.execute("BEGIN IMMEDIATE")
            job.result = job.work(db)
            db.execute("COMMIT")
            self.write_error = None
        except (apsw.Error, MainstayError) as error:
            job.error = self._note_failure(error)
            self._rollback()
            if isinstance(job.error, StoreFailed):
                self._reopen()
        except (UnicodeEncodeError, OverflowError) as error:
            job.error = InputRefused(_describe_unstorable(error))
            self._rollback()
        except (ValueError, TypeError, IndexError) as error:  # stored data is not in the format that was written
            job.error = StoreCorrupt(f"{self.path} is damaged ({error}); it was left as it is. Restore a backup")
            self._rollback()
        except Exception as error:  # a bug in the job: raised to its caller; the thread serves the others
            job.error = error
            self._rollback()

    def _run_background_step(self) -> None:
        """Run the next step of the first background job."""
        self._batches_since_background = 0
        background = self._background_jobs[0]
        step = None
        try:
            step = next(background.steps, None)
        except Exception as error:  # a bug in the job: raised to its caller; the thread serves the others
            background.error = error
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

    def _handle_commit_failure(self, appends: list[JournalAppend], error: apsw.Error | MainstayError) -> None:
        """Handle a failed commit: every append fails, except those that are found in the reopened database."""
        store_error = self._note_failure(error)
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

    def _note_failure(self, error: apsw.Error | MainstayError) -> MainstayError:
        """Return the error of a failed write for its caller. A damaged file is not written to any more."""
        if not isinstance(error, apsw.Error):
            return error
        store_error = self.write_error = translate_error(error, self.path)
        if is_damage(error) and isinstance(store_error, StoreCorrupt):
            self.damage = store_error
        return store_error

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
        if self.find_removed_file():  # a new connection would not have what the removed log holds
            return False
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

    def _checked_connection(self) -> apsw.Connection:
        """Return the connection for a write. Raises StoreCorrupt if the file is damaged, or if one of its files was
        removed or cut."""
        if self.damage is not None:
            raise self.damage
        db = self._db or self._connection()
        if self._files is not None and (error := find_removal(db, self._files)) is not None:
            raise error
        return db

    def find_removed_file(self) -> str:
        """Return the path of a file of the database that was removed or replaced; "" if there is none."""
        return self._files.find_removed() if self._files is not None else ""

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
            if self._files is not None:
                self._files.refresh_log()
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


def _describe_unstorable(error: Exception) -> str:
    if isinstance(error, UnicodeError):
        return "this text cannot be stored: it contains half characters (lone surrogates)"
    if isinstance(error, OverflowError):
        return "this cannot be stored: a number does not fit into 64 bits"
    return f"this cannot be stored: {error}"
