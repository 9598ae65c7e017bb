"""The home's database as its projections use it (audit log, error reports, ledger): one writer thread for all of them,
with group commit."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Iterable, Sequence
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, TypeVar

import apsw
import msgspec

from mainstay.core.errors import HomeUnusable, InputRefused, MainstayError, StoreCorrupt, StoreError, StoreFailed
from mainstay.core.supervision import TaskHealth
from mainstay.core.worker_threads import run_in_thread
from mainstay.store.sqlite.connection import DatabaseFiles, connect, rewrite_header, save_removed_log, translate_error
from mainstay.store.sqlite.people_store import BUSY_S, create_private_file, migrate_gateway
from mainstay.store.sqlite.reader_thread import ReaderThread

if TYPE_CHECKING:
    from mainstay.core.health import HealthCheck

log = logging.getLogger("mainstay.store")

T = TypeVar("T")
BATCH_JOBS_MAX = 256  # jobs in one transaction


class _HomeWriteJob:
    """A function to run in a transaction, and the future of its result."""

    __slots__ = ("error", "future", "result", "work")

    def __init__(self, work: Callable[[apsw.Connection], object], future: asyncio.Future[Any]) -> None:
        self.work = work
        self.future = future
        self.result: object = None
        self.error: Exception | None = None


class HomeProjectionDatabase:
    """`path` is the same file as SqlitePeopleStore's; it is created if it does not exist."""

    def __init__(self, path: str, *, busy_s: float = BUSY_S, vfs: str | None = None) -> None:
        self.path = path
        self._busy_s = busy_s
        self._vfs = vfs
        self.audit_log: object = None  # the SqliteAuditLog; set by `get_audit_log`
        # called in the writer thread after each transaction, with whether it was committed
        self.transaction_callbacks: list[Callable[[bool], None]] = []
        self._queue: SimpleQueue[_HomeWriteJob | None] = SimpleQueue()
        self._batch: list[_HomeWriteJob] = []  # taken from the queue, and not answered yet
        self._reader = ReaderThread(path, busy_s=busy_s, vfs=vfs)
        self._db: apsw.Connection | None = None
        self._files: DatabaseFiles | None = None  # None: it was not opened yet
        self._thread: threading.Thread | None = None
        self._damage = ""  # what is damaged; "": nothing is known to be
        self._write_error: Exception | None = None  # why the last transaction failed; None: it did not
        self._health_checks: Sequence[HealthCheck] = ()  # created when they are first asked for
        self._health: TaskHealth | None = None

    async def open(self, *, retry_later: bool = False) -> None:
        """Open and migrate the file. With `retry_later`, it counts as open even if this raises: every read and write
        tries again."""
        try:
            await run_in_thread(self._connection)
        except MainstayError:
            if retry_later:
                self._start_thread()
            raise
        self._start_thread()

    def _start_thread(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._health = TaskHealth(f"writer of {self.path}")
        self._thread = threading.Thread(target=self._run_thread, name="mainstay-observed", daemon=True)
        self._thread.start()

    async def close(self) -> None:
        await self._reader.close()
        if self._thread is not None:
            thread, self._thread = self._thread, None
            self._queue.put(None)
            await run_in_thread(thread.join)

    async def read(self, work: Callable[[apsw.Connection], T]) -> T:
        """Run a function on the reader thread, concurrently with writes."""
        if self._files is None and self._thread is not None:  # not opened yet: a write creates and migrates the file
            await self.write(lambda db: None)
        return await self._reader.run(work)

    async def write(self, work: Callable[[apsw.Connection], T]) -> T:
        """Run a function in a transaction, perhaps together with other callers' functions; on disk when this returns.
        `work` is called again, alone, if the shared transaction failed, so it must not change anything but the
        database."""
        if self._thread is None:
            raise StoreFailed(f"{self.path} is not open")
        done: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._queue.put(_HomeWriteJob(work, done))
        return await done

    # --- health ----------------------------------------------------------------------------------

    def health_checks(self) -> Sequence[HealthCheck]:
        from mainstay.store.sqlite.open_database_health import OpenDatabaseCheck  # for servers only

        self._health_checks = self._health_checks or (OpenDatabaseCheck("home", self),)
        return self._health_checks

    def report_damage(self, damage: StoreCorrupt) -> None:
        if not self._damage:
            log.error("%s", damage)
            self._damage = str(damage)

    async def find_problem(self) -> str:
        """Return why nothing can be written; "" if nothing is known to prevent it. After a failed write, and if a file
        was removed, it tries to write."""
        if self._damage or not (self._write_error or self._files is None or self._files.find_removed()):
            return self._damage
        try:
            await self.write(rewrite_header)
        except (StoreError, HomeUnusable) as error:
            return str(error)
        return ""

    # --- positions -------------------------------------------------------------------------------

    async def select_positions(self, projection: str, workspace: str) -> dict[str, int]:
        sql = "SELECT session, position FROM followed WHERE reader=? AND workspace=?"

        def work(db: apsw.Connection) -> dict[str, int]:
            rows: Iterable[tuple[str, int]] = db.execute(sql, (projection, workspace))
            return dict(rows)

        return await self.read(work)

    async def forget_workspace(self, workspace: str) -> None:
        """Reset the positions of a removed workspace, so that a new one with its name is read from the beginning."""

        def work(db: apsw.Connection) -> None:
            db.execute("DELETE FROM followed WHERE workspace=?", (workspace,))
            db.execute("UPDATE ledger_followed SET away=1 WHERE workspace=?", (workspace,))  # it may be restored
            db.execute("DELETE FROM errors WHERE workspace=?", (workspace,))  # a new workspace's admins would see them

        await self.write(work)

    # --- the thread ------------------------------------------------------------------------------

    def _run_thread(self) -> None:
        assert self._health is not None
        try:
            self._run_batches(self._health)
        except BaseException as error:  # failing the callers did not work either: they must not wait for ever
            self._health.mark_dead(error)
            self._refuse_jobs(error)
        else:
            self._health.close()

    def _run_batches(self, health: TaskHealth) -> None:
        while self._collect_batch():
            try:
                self._commit_batch(self._batch)
            except Exception as error:  # a bug, such as in a callback: the callers get an error, the thread goes on
                health.mark_failed(error)
                self._discard_connection()
                sentence = f"{self.path} could not be written: internal error ({type(error).__name__}); see the log"
                for job in self._batch:
                    job.error = job.error or StoreFailed(sentence)
            self._deliver_results(self._batch)
            health.mark_running()
            self._batch = []
        if self._db is not None:
            try:
                self._db.close()
            except apsw.Error as error:
                log.warning("closing %s failed: %s", self.path, error)
            self._db = None

    def _refuse_jobs(self, error: BaseException) -> None:
        """Fail the jobs that were taken, the queued ones and all later ones, until the database is closed."""
        refusal = f"{self.path} cannot be written any more: its writer stopped ({type(error).__name__}); restart"
        batch: list[_HomeWriteJob | None] = [*self._batch]
        while (job := batch.pop(0) if batch else self._queue.get()) is not None:
            job.error = job.error or StoreFailed(refusal)
            self._deliver_results([job])

    def _collect_batch(self) -> bool:
        """Wait for a job and take those that are queued; return False at the end."""
        job = self._queue.get()
        if job is None:
            return False
        self._batch.append(job)
        while len(self._batch) < BATCH_JOBS_MAX:
            try:
                job = self._queue.get_nowait()
            except Empty:
                break
            if job is None:
                self._queue.put(None)  # end after this batch
                break
            self._batch.append(job)
        return True

    def _commit_batch(self, batch: Sequence[_HomeWriteJob]) -> None:
        """Run all jobs in one transaction; if that fails, each in its own, so that no job fails because of another. Not
        after an I/O error: the transaction may have been committed nevertheless, which callers must check."""
        error = self._try_transaction(batch)
        if error is None:
            return
        retry = len(batch) > 1 and not isinstance(error, StoreFailed)
        for job in batch:
            job.error = self._try_transaction([job]) if retry else error

    def _try_transaction(self, batch: Sequence[_HomeWriteJob]) -> Exception | None:
        try:
            db = self._connection()
            if self._files is not None and (removed := self._files.find_removed()):
                raise save_removed_log(db, self._files, removed)
            db.execute("BEGIN IMMEDIATE")
            for job in batch:
                job.result = job.work(db)
            db.execute("COMMIT")
            self._write_error = None
            self._notify_transaction_end(True)
        except apsw.Error as error:
            return self._roll_back(translate_error(error, self.path))
        except MainstayError as error:
            return self._roll_back(error)
        except (UnicodeEncodeError, OverflowError):
            return self._roll_back(InputRefused("this cannot be stored: it is not valid text or not a 64-bit number"))
        except msgspec.DecodeError as error:  # stored data is not in the format that was written
            sentence = f"{self.path} is damaged ({error}); it was left as it is. Restore a backup"
            return self._roll_back(StoreCorrupt(sentence))
        except Exception as error:  # a bug in a projection's job: raised to its caller; the thread serves the others
            return self._roll_back(error)
        return None

    def _notify_transaction_end(self, committed: bool) -> None:
        for callback in self.transaction_callbacks:
            callback(committed)

    def _roll_back(self, error: Exception) -> Exception:
        """Roll back and return the error."""
        self._write_error = error
        self._notify_transaction_end(False)
        try:
            if self._db is not None and self._db.in_transaction:
                self._db.execute("ROLLBACK")
        except apsw.Error as failure:
            log.warning("a rollback failed: %s", failure)
            self._discard_connection()
        if isinstance(error, StoreFailed):  # after an I/O error the connection cannot be trusted
            self._discard_connection()
        return error

    def _discard_connection(self) -> None:
        db, self._db = self._db, None
        try:
            if db is not None:
                db.close(True)
        except apsw.Error as error:
            log.warning("closing %s failed: %s", self.path, error)

    def _connection(self) -> apsw.Connection:
        if self._db is None:
            if self._files is None:
                create_private_file(self.path)
            db = connect(self.path, busy_s=self._busy_s, vfs=self._vfs)
            try:
                migrate_gateway(db, self.path)
            except BaseException:
                db.close()
                raise
            self._db = db
            self._files = self._files or DatabaseFiles(self.path)
            self._files.refresh_log()
        return self._db

    def _deliver_results(self, batch: Sequence[_HomeWriteJob]) -> None:
        try:
            self._loop.call_soon_threadsafe(_resolve_futures, batch)
        except RuntimeError:  # the event loop is closed, and with it all callers
            log.debug("the event loop is closed; the results of %d writes are dropped", len(batch))


def save_position(db: apsw.Connection, projection: str, workspace: str, session: str, position: int) -> None:
    """Store a projection's position in a session; call in the transaction that stores what was derived up to there."""
    db.execute(_UPSERT_POSITION, (projection, workspace, session, position))


_UPSERT_POSITION = """
INSERT INTO followed (reader, workspace, session, position) VALUES (?,?,?,?)
ON CONFLICT (reader, workspace, session) DO UPDATE SET position=excluded.position"""


def _resolve_futures(batch: Sequence[_HomeWriteJob]) -> None:
    for job in batch:
        if job.future.done():
            continue
        if job.error is not None:
            job.future.set_exception(job.error)
        else:
            job.future.set_result(job.result)
