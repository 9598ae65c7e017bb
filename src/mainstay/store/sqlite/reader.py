"""A thread that reads, with a connection of its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import apsw

from mainstay.core.errors import InputRefused, StoreCorrupt, StoreFailed
from mainstay.core.workers import Workers
from mainstay.store.sqlite.database import connect, named

T = TypeVar("T")


class Reader:
    """What it is given to do is done in order. `prepare` is called with every new connection."""

    def __init__(
        self,
        path: str,
        *,
        busy_s: float,
        vfs: str | None = None,
        prepare: Callable[[apsw.Connection], object] | None = None,
    ) -> None:
        self._path = path
        self._busy_s = busy_s
        self._vfs = vfs
        self._prepare = prepare
        self._db: apsw.Connection | None = None
        self._thread = Workers(threads_max=1, abandon=False)  # one connection, one thread

    async def run(self, work: Callable[[apsw.Connection], T]) -> T:
        result: T = await self._thread.run(self._work, {"work": work})
        return result

    async def aside(self, work: Callable[[], object]) -> None:
        """On this thread, without the connection."""
        await self._thread.run(work, {})

    async def close(self) -> None:
        if self._db is not None:
            await self._thread.run(self._db.close, {})
            self._db = None

    def _work(self, work: Callable[[apsw.Connection], T]) -> T:
        if self._db is None:
            db = connect(self._path, busy_s=self._busy_s, vfs=self._vfs, read_only=True)
            if self._prepare is not None:
                self._prepare(db)
            self._db = db
        try:
            with named(self._path):
                return work(self._db)
        except StoreFailed:  # an I/O error: the handle is not believed any more
            broken, self._db = self._db, None
            broken.close(True)
            raise
        except UnicodeEncodeError:
            raise InputRefused("a session's name must be text that can be kept; this one is not UTF-8") from None
        except (ValueError, TypeError, IndexError) as error:  # what was read is not what was written
            raise StoreCorrupt(f"{self._path} is damaged ({error}); it was left as it is. Restore a backup") from error
