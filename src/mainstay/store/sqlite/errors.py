"""The list of errors in the home's database."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import apsw

from mainstay.core.error_list import KEPT_DAYS, KEPT_MAX, Kin, Mishap, Sought
from mainstay.store.sqlite.observed import SqliteObserved, followed

READER = "errors"  # as `followed` knows it
_FIELDS = Mishap.__struct_fields__
_COLUMNS = ", ".join(_FIELDS)
_VALUES = ",".join("?" * (len(_FIELDS) + 1))
_PUT = f"INSERT INTO errors ({_COLUMNS}, kin) VALUES ({_VALUES}) ON CONFLICT (id) DO UPDATE SET "
# A turn that a bug ended is told of twice: the log knows how it came to that, the journal all the rest.
_LONGER = "details = CASE WHEN length(excluded.details) > length(details) THEN excluded.details ELSE details END"
_RECORDED = _PUT + ", ".join(f"{name}=excluded.{name}" for name in (*_FIELDS, "kin") if name not in ("id", "details"))
_RECORDED += f", {_LONGER}"
_LOGGED = _PUT + _LONGER
_CLAUSES = {
    "workspace": "workspace = :workspace",
    "session": "session = :session",
    "kind": "kind = :kind",
    "group": "kin = :group",
    "trace": "trace = :trace",
    "since": "at >= :since",
}
_TRIM = "DELETE FROM errors WHERE id IN (SELECT id FROM errors ORDER BY at DESC LIMIT -1 OFFSET ?)"


class SqliteErrors:
    """One for all workspaces of a home."""

    def __init__(self, books: SqliteObserved, now: Callable[[], int] = lambda: time.time_ns() // 1_000_000) -> None:
        self._books = books
        self._now = now

    async def positions(self, workspace: str) -> dict[str, int]:
        return await self._books.positions(READER, workspace)

    async def follow(self, workspace: str, session: str, upto: int, found: Sequence[Mishap]) -> None:
        def work(db: apsw.Connection) -> None:
            self._put(db, _RECORDED, found)
            followed(db, READER, workspace, session, upto)

        await self._books.write(work)

    async def add(self, found: Sequence[Mishap]) -> None:
        await self._books.write(lambda db: self._put(db, _LOGGED, found))

    def _put(self, db: apsw.Connection, sql: str, found: Sequence[Mishap]) -> None:
        since = self._now() - KEPT_DAYS * 86_400_000
        rows = [_row(one) for one in found if one.at >= since]
        if not rows:
            return
        db.executemany(sql, rows)
        db.execute("DELETE FROM errors WHERE at < ?", (since,))
        db.execute(_TRIM, (KEPT_MAX,))

    async def groups(self, sought: Sought, limit: int = 100) -> list[Kin]:
        where, given = _where(sought)
        sql = f"""
        SELECT kin, count(*), min(at), max(at), {_COLUMNS} FROM errors {where}
        GROUP BY kin ORDER BY max(at) DESC, kin LIMIT :limit"""  # the bare columns are those of the row with max(at)

        def work(db: apsw.Connection) -> list[Kin]:
            rows: Any = db.execute(sql, {**given, "limit": limit})
            return [
                Kin(id=kin, count=count, first=first, last=last, newest=_mishap(row))
                for kin, count, first, last, *row in rows
            ]

        return await self._books.read(work)

    async def find(self, sought: Sought, limit: int = 100) -> list[Mishap]:
        where, given = _where(sought)
        sql = f"SELECT {_COLUMNS} FROM errors {where} ORDER BY at DESC, id LIMIT :limit"

        def work(db: apsw.Connection) -> list[Mishap]:
            return [_mishap(row) for row in db.execute(sql, {**given, "limit": limit})]

        return await self._books.read(work)

    async def get(self, id: str) -> Mishap | None:
        def work(db: apsw.Connection) -> Mishap | None:
            row = db.execute(f"SELECT {_COLUMNS} FROM errors WHERE id=?", (id,)).fetchone()
            return _mishap(row) if row is not None else None

        return await self._books.read(work)

    async def clear(self, sought: Sought) -> int:
        where, given = _where(sought)

        def work(db: apsw.Connection) -> int:
            db.execute(f"DELETE FROM errors {where}", given)
            return db.changes()

        return await self._books.write(work)

    async def forget(self, workspace: str, session: str, records: Sequence[int] | None = None) -> None:
        sql = "DELETE FROM errors WHERE workspace=? AND session=?"

        def work(db: apsw.Connection) -> None:
            if records is None:
                db.execute(sql, (workspace, session))
            else:
                db.executemany(f"{sql} AND record=?", [(workspace, session, one) for one in records])

        await self._books.write(work)


def _where(sought: Sought) -> tuple[str, dict[str, Any]]:
    given = {name: getattr(sought, name) for name in _CLAUSES}
    given = {name: value for name, value in given.items() if (value is not None if name == "workspace" else value)}
    clauses = [_CLAUSES[name] for name in given]
    return f"WHERE {' AND '.join(clauses)}" if clauses else "", given


def _row(one: Mishap) -> tuple[Any, ...]:
    return (*(getattr(one, name) for name in _FIELDS), one.group)


def _mishap(row: Any) -> Mishap:
    return Mishap(**dict(zip(_FIELDS, row, strict=True)))
