"""The home's own database as those who follow the journals use it: one thread writes for all of them, and what waits
goes to disk together."""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections.abc import Callable, Sequence
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

import apsw
import msgspec

from mainstay.core.errors import InputRefused, MainstayError, StoreCorrupt, StoreFailed
from mainstay.core.workers import in_thread
from mainstay.store.sqlite.database import connect, translate
from mainstay.store.sqlite.gateway import BUSY_S, make_private, migrate_gateway
from mainstay.store.sqlite.reader import Reader

log = logging.getLogger("mainstay.store")

T = TypeVar("T")
BATCH_MAX = 256  # pieces of work in one transaction


class _Job:
    """Something to write, and who waits for it."""

    __slots__ = ("done", "error", "result", "work")

    def __init__(self, work: Callable[[apsw.Connection], Any], done: asyncio.Future[Any]) -> None:
        self.work = work
        self.done = done
        self.result: Any = None
        self.error: Exception | None = None


class SqliteObserved:
    """`path` is the same file as `SqliteGateway`'s, and is made if it is not there."""

    def __init__(self, path: str, *, busy_s: float = BUSY_S, vfs: str | None = None) -> None:
        self.path = path
        self._busy_s = busy_s
        self._vfs = vfs
        self.audit: Any = None  # an `audit.SqliteAudit`, once somebody asked for it
        self.ended: list[Callable[[bool], None]] = []  # told, in the thread that writes, whether a transaction stands
        self._queue: SimpleQueue[_Job | None] = SimpleQueue()
        self._reader = Reader(path, busy_s=busy_s, vfs=vfs)
        self._db: apsw.Connection | None = None
        self._inode = -1
        self._thread: threading.Thread | None = None

    async def open(self, *, later: bool = False) -> None:
        """`later`: if this raises, it is open all the same, and tries again whenever somebody needs the file."""
        try:
            await in_thread(self._connection)
        except MainstayError:
            if later:
                self._start()
            raise
        self._start()

    def _start(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._thread = threading.Thread(target=self._run, name="mainstay-observed", daemon=True)
        self._thread.start()

    async def close(self) -> None:
        await self._reader.close()
        if self._thread is not None:
            thread, self._thread = self._thread, None
            self._queue.put(None)
            await in_thread(thread.join)

    async def read(self, work: Callable[[apsw.Connection], T]) -> T:
        """Beside what is being written."""
        if self._inode < 0 and self._thread is not None:  # nobody could open it yet: whoever writes, makes it
            await self.write(lambda db: None)
        return await self._reader.run(work)

    async def write(self, work: Callable[[apsw.Connection], T]) -> T:
        """All of it or nothing, on disk when this returns; perhaps in one transaction with what others write. `work` is
        called again if that could not be written together, so it changes nothing but the database."""
        if self._thread is None:
            raise StoreFailed(f"{self.path} is not open")
        done: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._queue.put(_Job(work, done))
        return await done

    # --- positions -------------------------------------------------------------------------------

    async def positions(self, reader: str, workspace: str) -> dict[str, int]:
        sql = "SELECT session, position FROM followed WHERE reader=? AND workspace=?"

        def work(db: apsw.Connection) -> dict[str, int]:
            rows: Any = db.execute(sql, (reader, workspace))
            return dict(rows)

        return await self.read(work)

    async def forget_workspace(self, workspace: str) -> None:
        """It was put away: a new one of its name is followed from its beginning."""

        def work(db: apsw.Connection) -> None:
            db.execute("DELETE FROM followed WHERE workspace=?", (workspace,))
            db.execute("UPDATE ledger_followed SET away=1 WHERE workspace=?", (workspace,))  # it may be put back
            db.execute("DELETE FROM errors WHERE workspace=?", (workspace,))  # a new one's admins would see them

        await self.write(work)

    # --- the thread ------------------------------------------------------------------------------

    def _run(self) -> None:
        while (batch := self._take()) is not None:
            self._commit(batch)
            self._tell(batch)
            batch = []
        if self._db is not None:
            try:
                self._db.close()
            except apsw.Error as error:
                log.warning("closing %s failed: %s", self.path, error)
            self._db = None

    def _take(self) -> list[_Job] | None:
        job = self._queue.get()
        if job is None:
            return None
        batch = [job]
        while len(batch) < BATCH_MAX:
            try:
                job = self._queue.get_nowait()
            except Empty:
                break
            if job is None:
                self._queue.put(None)  # the end, after these
                break
            batch.append(job)
        return batch

    def _commit(self, batch: Sequence[_Job]) -> None:
        """Together; if that cannot be, each by itself, so that nobody suffers for another. But after an I/O error it
        may stand all the same, for all that is known: whoever waits looks what is there."""
        error = self._transact(batch)
        if error is None:
            return
        again = len(batch) > 1 and not isinstance(error, StoreFailed)
        for job in batch:
            job.error = self._transact([job]) if again else error

    def _transact(self, batch: Sequence[_Job]) -> Exception | None:
        try:
            db = self._connection()
            self._check_place()
            db.execute("BEGIN IMMEDIATE")
            for job in batch:
                job.result = job.work(db)
            db.execute("COMMIT")
            self._tell_ended(True)
        except apsw.Error as error:
            return self._undone(translate(error, self.path))
        except MainstayError as error:
            return self._undone(error)
        except (UnicodeEncodeError, OverflowError):
            return self._undone(InputRefused("this cannot be kept: it is not text, or not a number of sixty-four bits"))
        except msgspec.DecodeError as error:  # not what was written
            said = f"{self.path} is damaged ({error}); it was left as it is. Restore a backup"
            return self._undone(StoreCorrupt(said))
        except Exception as error:  # a bug in somebody's work: theirs to hear of, and the thread goes on for the others
            return self._undone(error)
        return None

    def _tell_ended(self, stands: bool) -> None:
        for tell in self.ended:
            tell(stands)

    def _undone(self, error: Exception) -> Exception:
        self._tell_ended(False)
        try:
            if self._db is not None and self._db.in_transaction:
                self._db.execute("ROLLBACK")
        except apsw.Error as trouble:
            log.warning("a rollback failed: %s", trouble)
            self._drop()
        if isinstance(error, StoreFailed):  # an I/O error: the handle is not believed any more
            self._drop()
        return error

    def _drop(self) -> None:
        db, self._db = self._db, None
        try:
            if db is not None:
                db.close(True)
        except apsw.Error as error:
            log.warning("closing %s failed: %s", self.path, error)

    def _connection(self) -> apsw.Connection:
        if self._db is None:
            inode = self._inode if self._inode >= 0 else make_private(self.path)
            db = connect(self.path, busy_s=self._busy_s, vfs=self._vfs)
            try:
                migrate_gateway(db, self.path)
            except BaseException:
                db.close()
                raise
            self._db, self._inode = db, inode
        return self._db

    def _check_place(self) -> None:
        """A file that was removed or replaced would still take what is written, and nobody would find it again."""
        try:
            found = os.stat(self.path).st_ino
        except OSError:
            found = -1
        if found != self._inode:
            raise StoreCorrupt(f"{self.path} was removed or replaced while it was in use; put it back and start again")

    def _tell(self, batch: Sequence[_Job]) -> None:
        try:
            self._loop.call_soon_threadsafe(_settle, batch)
        except RuntimeError:  # the loop is gone, and with it everyone who waited
            log.debug("nobody waits for %d writes any more", len(batch))


def followed(db: apsw.Connection, reader: str, workspace: str, session: str, position: int) -> None:
    """To be said in the same transaction as what was made of the records up to there."""
    db.execute(_FOLLOWED, (reader, workspace, session, position))


_FOLLOWED = """
INSERT INTO followed (reader, workspace, session, position) VALUES (?,?,?,?)
ON CONFLICT (reader, workspace, session) DO UPDATE SET position=excluded.position"""


def _settle(batch: Sequence[_Job]) -> None:
    for job in batch:
        if job.done.done():
            continue
        if job.error is not None:
            job.done.set_exception(job.error)
        else:
            job.done.set_result(job.result)
