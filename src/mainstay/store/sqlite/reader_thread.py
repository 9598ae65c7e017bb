"""Reader thread of a SQLite database, with its own read-only connection."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import apsw

from mainstay.core.errors import InputRefused, StoreCorrupt, StoreFailed
from mainstay.core.worker_threads import WorkerThreads
from mainstay.store.sqlite.connection import connect, is_damage, map_sqlite_errors

T = TypeVar("T")


class ReaderThread:
    """Runs functions one after the other. `on_connect` is called with every new connection, `on_damage` when the file
    turns out to be damaged."""

    def __init__(
        self,
        path: str,
        *,
        busy_s: float,
        vfs: str | None = None,
        on_connect: Callable[[apsw.Connection], object] | None = None,
        on_damage: Callable[[StoreCorrupt], object] | None = None,
    ) -> None:
        self._path = path
        self._busy_s = busy_s
        self._vfs = vfs
        self._on_connect = on_connect
        self._on_damage = on_damage
        self._db: apsw.Connection | None = None
        self._thread = WorkerThreads(threads_max=1, abandon=False)  # one connection, one thread

    async def run(self, work: Callable[[apsw.Connection], T]) -> T:
        return await self._thread.run(self._run_work, {"work": work})

    async def run_without_connection(self, work: Callable[[], object]) -> None:
        """Run a blocking function on this thread without opening the connection."""
        await self._thread.run(work, {})

    async def close(self) -> None:
        if self._db is not None:
            await self._thread.run(self._db.close, {})
            self._db = None

    def _run_work(self, work: Callable[[apsw.Connection], T]) -> T:
        try:
            return self._run_connected(work)
        except StoreCorrupt as error:
            if self._on_damage is not None and isinstance(error.__cause__, apsw.Error) and is_damage(error.__cause__):
                self._on_damage(error)
            raise

    def _run_connected(self, work: Callable[[apsw.Connection], T]) -> T:
        if self._db is None:
            db = connect(self._path, busy_s=self._busy_s, vfs=self._vfs, read_only=True)
            if self._on_connect is not None:
                self._on_connect(db)
            self._db = db
        try:
            with map_sqlite_errors(self._path):
                return work(self._db)
        except StoreFailed:  # after an I/O error the connection cannot be trusted
            broken, self._db = self._db, None
            broken.close(True)
            raise
        except UnicodeEncodeError:
            raise InputRefused("a session's name must be valid text; this one is not UTF-8") from None
        except (ValueError, TypeError, IndexError) as error:  # stored data is not in the format that was written
            raise StoreCorrupt(f"{self._path} is damaged ({error}); it was left as it is. Restore a backup") from error
