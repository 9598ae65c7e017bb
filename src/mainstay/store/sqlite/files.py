"""What is known of the files of a workspace: the Labels port on SQLite.

All of it is in memory, as it is asked for on the way of every call; the database has it for the next time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import apsw

from mainstay.core.labels import MemoryLabels
from mainstay.core.outside import FileLabel
from mainstay.store.sqlite.desk import Desk

_PUT = """
INSERT INTO files (path, origin, session, mark) VALUES (?,?,?,?)
ON CONFLICT (path) DO UPDATE SET origin=excluded.origin, session=excluded.session, mark=excluded.mark"""


class SqliteLabels(MemoryLabels):
    """In a journal's file. To be opened before it is asked."""

    def __init__(self, desk: Desk) -> None:
        super().__init__()
        self._desk = desk

    async def open(self) -> None:
        def work(db: apsw.Connection) -> list[FileLabel]:
            rows: Any = db.execute("SELECT path, origin, session, mark FROM files")
            return [FileLabel(*row) for row in rows]

        self._put(await self._desk.read(work))

    async def put(self, labels: Sequence[FileLabel]) -> None:
        rows = [(one.path, one.origin, one.session, one.mark) for one in labels]

        def work(db: apsw.Connection) -> None:
            db.executemany(_PUT, rows)

        if rows:
            await self._desk.write(work)
        if gone := self._put(labels):
            await self._forget(gone)

    async def remove(self, paths: Sequence[str]) -> None:
        await self._forget(paths)
        self._remove(paths)

    async def _forget(self, paths: Sequence[str]) -> None:
        def work(db: apsw.Connection) -> None:
            db.executemany("DELETE FROM files WHERE path=?", ((path,) for path in paths))

        if paths:
            await self._desk.write(work)
