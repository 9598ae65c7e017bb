"""Error reports in the home's database (the ErrorStore port), with retention by age and number."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence

import apsw

from mainstay.core.error_reports import REPORTS_MAX, RETENTION_DAYS, ErrorGroup, ErrorKind, ErrorQuery, ErrorReport
from mainstay.store.sqlite.home_projection_database import HomeProjectionDatabase, save_position

PROJECTION = "errors"  # name of this projection in the table `followed`
_FIELDS = ErrorReport.__struct_fields__
# the values of an ErrorReport
ErrorRow = tuple[str, int, ErrorKind, str, str, str, str, str, int, int, str, int, str]
_COLUMNS = ", ".join(_FIELDS)
_VALUES = ",".join("?" * (len(_FIELDS) + 1))
_UPSERT = f"INSERT INTO errors ({_COLUMNS}, kin) VALUES ({_VALUES}) ON CONFLICT (id) DO UPDATE SET "
# A turn that a bug ended is reported twice: the log has the traceback, the journal everything else.
_KEEP_LONGER_DETAILS = (
    "details = CASE WHEN length(excluded.details) > length(details) THEN excluded.details ELSE details END"
)
_UPSERT_FROM_JOURNAL = _UPSERT + ", ".join(
    f"{name}=excluded.{name}" for name in (*_FIELDS, "kin") if name not in ("id", "details")
)
_UPSERT_FROM_JOURNAL += f", {_KEEP_LONGER_DETAILS}"
_UPSERT_FROM_LOG = _UPSERT + _KEEP_LONGER_DETAILS
_FILTERS = {
    "workspace": "workspace = :workspace",
    "session": "session = :session",
    "kind": "kind = :kind",
    "group": "kin = :group",
    "trace": "trace = :trace",
    "since": "at >= :since",
}
_DELETE_EXCESS = "DELETE FROM errors WHERE id IN (SELECT id FROM errors ORDER BY at DESC LIMIT -1 OFFSET ?)"


class SqliteErrorStore:
    """One for all workspaces of a home. `now_ms` returns ms since 1970."""

    def __init__(
        self, database: HomeProjectionDatabase, now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000
    ) -> None:
        self._database = database
        self._now_ms = now_ms

    async def positions(self, workspace: str) -> dict[str, int]:
        return await self._database.select_positions(PROJECTION, workspace)

    async def add_from_journal(
        self, workspace: str, session: str, position: int, reports: Sequence[ErrorReport]
    ) -> None:
        def work(db: apsw.Connection) -> None:
            self._upsert_reports(db, _UPSERT_FROM_JOURNAL, reports)
            save_position(db, PROJECTION, workspace, session, position)

        await self._database.write(work)

    async def add(self, reports: Sequence[ErrorReport]) -> None:
        await self._database.write(lambda db: self._upsert_reports(db, _UPSERT_FROM_LOG, reports))

    def _upsert_reports(self, db: apsw.Connection, sql: str, reports: Sequence[ErrorReport]) -> None:
        since = self._now_ms() - RETENTION_DAYS * 86_400_000
        rows = [_report_row(report) for report in reports if report.at >= since]
        if not rows:
            return
        db.executemany(sql, rows)
        db.execute("DELETE FROM errors WHERE at < ?", (since,))
        db.execute(_DELETE_EXCESS, (REPORTS_MAX,))

    async def find_groups(self, query: ErrorQuery, limit: int = 100) -> list[ErrorGroup]:
        where, values = _build_where(query)
        sql = f"""
        SELECT kin, count(*), min(at), max(at), {_COLUMNS} FROM errors {where}
        GROUP BY kin ORDER BY max(at) DESC, kin LIMIT :limit"""  # the bare columns are of the row with max(at)

        def work(db: apsw.Connection) -> list[ErrorGroup]:
            rows: Iterable[tuple[str, int, int, int, *ErrorRow]] = db.execute(sql, {**values, "limit": limit})
            return [
                ErrorGroup(id=row[0], count=row[1], first=row[2], last=row[3], newest=_row_to_report(row[4:]))
                for row in rows
            ]

        return await self._database.read(work)

    async def find_reports(self, query: ErrorQuery, limit: int = 100) -> list[ErrorReport]:
        where, values = _build_where(query)
        sql = f"SELECT {_COLUMNS} FROM errors {where} ORDER BY at DESC, id LIMIT :limit"

        def work(db: apsw.Connection) -> list[ErrorReport]:
            return [_row_to_report(row) for row in db.execute(sql, {**values, "limit": limit})]

        return await self._database.read(work)

    async def get_report(self, id: str) -> ErrorReport | None:
        def work(db: apsw.Connection) -> ErrorReport | None:
            row = db.execute(f"SELECT {_COLUMNS} FROM errors WHERE id=?", (id,)).fetchone()
            return _row_to_report(row) if row is not None else None

        return await self._database.read(work)

    async def delete_reports(self, query: ErrorQuery) -> int:
        where, values = _build_where(query)

        def work(db: apsw.Connection) -> int:
            db.execute(f"DELETE FROM errors {where}", values)
            return db.changes()

        return await self._database.write(work)

    async def forget_records(self, workspace: str, session: str, records: Sequence[int] | None = None) -> None:
        sql = "DELETE FROM errors WHERE workspace=? AND session=?"

        def work(db: apsw.Connection) -> None:
            if records is None:
                db.execute(sql, (workspace, session))
            else:
                db.executemany(f"{sql} AND record=?", [(workspace, session, record) for record in records])

        await self._database.write(work)


def _build_where(query: ErrorQuery) -> tuple[str, dict[str, str | int]]:
    values = {name: getattr(query, name) for name in _FILTERS}
    values = {name: value for name, value in values.items() if (value is not None if name == "workspace" else value)}
    clauses = [_FILTERS[name] for name in values]
    return f"WHERE {' AND '.join(clauses)}" if clauses else "", values


def _report_row(report: ErrorReport) -> tuple[str | int, ...]:
    return (*(getattr(report, name) for name in _FIELDS), report.group_id)


def _row_to_report(row: ErrorRow) -> ErrorReport:
    id, at, kind, place, sentence, details, workspace, session, turn, step, trace, record, call = row
    return ErrorReport(
        id=id,
        at=at,
        kind=kind,
        place=place,
        sentence=sentence,
        details=details,
        workspace=workspace,
        session=session,
        turn=turn,
        step=step,
        trace=trace,
        record=record,
        call=call,
    )
