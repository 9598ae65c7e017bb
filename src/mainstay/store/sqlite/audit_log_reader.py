"""Reads the audit log from its database file: queries, and verification of rows that may be damaged or forged.

Works while another process writes the log.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Self

import apsw
import msgspec

from mainstay.core.audit import ENTRY_FIELDS, GENESIS_DIGEST, AuditEntry, AuditQuery, AuditRow
from mainstay.core.errors import InputRefused, StoreCorrupt
from mainstay.store.sqlite.connection import SqliteValue, connect, map_sqlite_errors

ANCHOR_FILE = "audit-head"  # file beside the database that holds the last row's number and digest
PAGE_ROWS = 500  # rows
BUSY_S = 5.0
FIRST_SCHEMA_WITH_AUDIT = 2  # first schema version of the database that has an audit log
PROJECTION = "audit"  # name of this projection in the table `followed`
INT64_MIN, INT64_MAX = -(1 << 63), (1 << 63) - 1  # range of SQLite's integers
UNREADABLE_ROWS_MAX = 10_000  # consecutive unreadable rows after which reading stops

_COLUMNS = ", ".join(ENTRY_FIELDS)
_SELECT_PAGE = f"SELECT {_COLUMNS} FROM audit WHERE seq >= ? ORDER BY seq LIMIT ?"
_SELECT_ROW = f"SELECT {_COLUMNS} FROM audit WHERE seq >= ? ORDER BY seq LIMIT 1"
_SELECT_NEXT_SEQ = "SELECT seq FROM audit WHERE seq >= ? ORDER BY seq LIMIT 1"
_SELECT_FOLLOWED = "SELECT 1 FROM followed WHERE reader = ? LIMIT 1"
_FILTERS = {
    "session": "session = :session",
    "person": "person = :person",
    "workspace": "workspace = :workspace",
    "kind": "(kind = :kind OR substr(kind, 1, length(:kind) + 1) = :kind || '.')",
    "since": "at >= :since",
    "until": "at < :until",
}


class AuditHead(msgspec.Struct, frozen=True):
    """The last entry of the chain."""

    seq: int = 0  # 0: the log is empty
    digest: str = GENESIS_DIGEST


class AuditSnapshot:
    """Read-only snapshot of an audit log, as a context manager. Entering it raises StoreError if the file cannot be
    opened; a file without an audit log is empty."""

    def __init__(self, path: Path) -> None:
        self.path = path
        # read before the rows, so that it is never ahead of them
        self.anchor = read_anchor(path.with_name(ANCHOR_FILE))
        self._db: apsw.Connection | None = None

    def __enter__(self) -> Self:
        db = connect(str(self.path), busy_s=BUSY_S, read_only=True)
        try:
            with map_sqlite_errors(str(self.path)):
                if db.pragma("user_version") >= FIRST_SCHEMA_WITH_AUDIT:
                    db.execute("BEGIN")
                    self._db = db
        finally:
            if self._db is None:  # it cannot be read, or has no audit log
                db.close()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._db is not None:
            self._db.close(True)
            self._db = None

    def find_entries(self, query: AuditQuery) -> list[AuditEntry]:
        if self._db is None:
            return []
        try:
            with map_sqlite_errors(str(self.path)):
                return select_entries(self._db, query)
        except (UnicodeEncodeError, OverflowError):
            raise InputRefused("this cannot be searched for: it is not valid text or not a 64-bit number") from None
        except UnicodeDecodeError:
            raise StoreCorrupt(f"an entry in {self.path} is not valid text; see `mainstay audit verify`") from None

    def iter_rows(self) -> Iterator[tuple[SqliteValue, ...] | int]:
        """Yield all rows in order, unchecked; for a row that cannot be read, its number."""
        if self._db is not None:
            yield from iter_rows(self._db)

    def has_journal_events(self) -> bool:
        """Return whether the log has ever received events from a journal, and so must have entries."""
        try:
            return self._db is not None and has_journal_events(self._db)
        except apsw.Error:  # `check_integrity` reports it
            return False

    def check_integrity(self) -> list[str]:
        """Return the problems that SQLite's integrity check reports for the table."""
        if self._db is None:
            return []
        try:
            rows = self._db.execute("PRAGMA integrity_check('audit')").fetchall()
        except apsw.Error as error:
            return [str(error)]
        return [str(problem) for (problem,) in rows if problem != "ok"]


def read_anchor(path: Path) -> AuditHead | None:
    """Read the anchor file; None if it is missing, or not byte for byte as it was written."""
    try:
        content = path.read_bytes()
        head = msgspec.json.decode(content, type=AuditHead)
    except (OSError, msgspec.DecodeError):
        return None
    return head if content == encode_anchor(head) else None


def encode_anchor(head: AuditHead) -> bytes:
    return msgspec.json.encode(head) + b"\n"


def select_entries(db: apsw.Connection, query: AuditQuery) -> list[AuditEntry]:
    values = {name: value for name in _FILTERS if (value := getattr(query, name)) is not None}
    where = f"WHERE {' AND '.join(_FILTERS[name] for name in values)}" if values else ""
    sql = f"SELECT {_COLUMNS} FROM audit {where} ORDER BY seq DESC LIMIT :limit"
    rows: list[AuditRow] = list(db.execute(sql, values | {"limit": query.limit}))
    return [AuditEntry(*row) for row in reversed(rows)]


def has_journal_events(db: apsw.Connection) -> bool:
    """Return whether the log has ever received events from a journal, and so must have entries."""
    return db.execute(_SELECT_FOLLOWED, (PROJECTION,)).fetchone() is not None


def iter_rows(db: apsw.Connection) -> Iterator[tuple[SqliteValue, ...] | int]:
    """Yield all rows in order, unchecked, also those with numbers that we never write (0 and below); for a row that
    cannot be read, its number."""
    at = INT64_MIN
    while True:
        try:
            page: list[tuple[int, *tuple[SqliteValue, ...]]] = list(db.execute(_SELECT_PAGE, (at, PAGE_ROWS)))
        except (apsw.Error, UnicodeDecodeError):
            yield from _iter_damaged_rows(db, at)
            return
        yield from page
        if len(page) < PAGE_ROWS or page[-1][0] == INT64_MAX:
            return
        at = page[-1][0] + 1


def _iter_damaged_rows(db: apsw.Connection, at: int) -> Iterator[tuple[SqliteValue, ...] | int]:
    """Yield rows one at a time, around unreadable ones. If not even the next row's number can be read, the next number
    in sequence is assumed."""
    last = max(at, 0) + PAGE_ROWS
    with contextlib.suppress(apsw.Error):
        newest: int | None = db.execute("SELECT max(seq) FROM audit").get
        last = newest or 0
    unreadable = 0  # consecutive
    while at <= last and unreadable < UNREADABLE_ROWS_MAX:
        seq = max(at, 1)
        try:
            next_row: tuple[int] | None = db.execute(_SELECT_NEXT_SEQ, (at,)).fetchone()
            if next_row is None:
                return
            seq = next_row[0]
            yield from db.execute(_SELECT_ROW, (seq,))
            unreadable = 0
        except (apsw.Error, UnicodeDecodeError):
            yield seq
            unreadable += 1
        at = seq + 1
