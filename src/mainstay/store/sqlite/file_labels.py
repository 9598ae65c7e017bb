"""File labels of a workspace (the FileLabelStore port) on SQLite.

All labels are in memory too, since every tool call looks them up; the database is only read on open.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import apsw

from mainstay.core.tool_ports import FileOriginLabel
from mainstay.store.memory.file_labels import InMemoryFileLabels
from mainstay.store.sqlite.workspace_database import WorkspaceDatabase

_UPSERT_LABEL = """
INSERT INTO files (path, origin, session, mark) VALUES (?,?,?,?)
ON CONFLICT (path) DO UPDATE SET origin=excluded.origin, session=excluded.session, mark=excluded.mark"""


class SqliteFileLabels(InMemoryFileLabels):
    """Stored in the workspace's database. `open` must be called first."""

    def __init__(self, database: WorkspaceDatabase) -> None:
        super().__init__()
        self._database = database

    async def open(self) -> None:
        def work(db: apsw.Connection) -> list[FileOriginLabel]:
            rows: Iterable[tuple[str, str, str, str]] = db.execute("SELECT path, origin, session, mark FROM files")
            return [FileOriginLabel(*row) for row in rows]

        self._save_evicting(await self._database.read(work))

    async def save(self, labels: Sequence[FileOriginLabel]) -> None:
        rows = [(label.path, label.origin, label.session, label.fingerprint) for label in labels]

        def work(db: apsw.Connection) -> None:
            db.executemany(_UPSERT_LABEL, rows)

        if rows:
            await self._database.write(work)
        if evicted := self._save_evicting(labels):
            await self._delete_labels(evicted)

    async def remove(self, paths: Sequence[str]) -> None:
        await self._delete_labels(paths)
        self._remove(paths)

    async def _delete_labels(self, paths: Sequence[str]) -> None:
        def work(db: apsw.Connection) -> None:
            db.executemany("DELETE FROM files WHERE path=?", ((path,) for path in paths))

        if paths:
            await self._database.write(work)
