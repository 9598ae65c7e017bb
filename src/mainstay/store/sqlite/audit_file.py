"""The audit in its database as it is read: beside whoever writes it, and as it is, whatever became of it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import apsw
import msgspec

from mainstay.core.audit import FIELDS, NOTHING, Entry, Wanted
from mainstay.core.errors import InputRefused, StoreCorrupt
from mainstay.store.sqlite.database import connect, named

ANCHOR = "audit-head"  # beside the database
PAGE = 500
BUSY_S = 5.0
SCHEMA = 2  # of the database, since there is an audit in it
READER = "audit"  # as `followed` knows it
LEAST, MOST = -(1 << 63), (1 << 63) - 1  # that a number in a database can be
UNREADABLE_MAX = 10_000  # entries one after the other, of which more is not said

_COLUMNS = ", ".join(FIELDS)
_ROWS = f"SELECT {_COLUMNS} FROM audit WHERE seq >= ? ORDER BY seq LIMIT ?"
_ROW = f"SELECT {_COLUMNS} FROM audit WHERE seq >= ? ORDER BY seq LIMIT 1"
_NEXT = "SELECT seq FROM audit WHERE seq >= ? ORDER BY seq LIMIT 1"
_FOLLOWED = "SELECT 1 FROM followed WHERE reader = ? LIMIT 1"
_CLAUSES = {
    "session": "session = :session",
    "person": "person = :person",
    "workspace": "workspace = :workspace",
    "kind": "(kind = :kind OR substr(kind, 1, length(:kind) + 1) = :kind || '.')",
    "since": "at >= :since",
    "until": "at < :until",
}


class Head(msgspec.Struct, frozen=True):
    """How far the audit goes."""

    seq: int = 0
    digest: str = NOTHING


class AuditFile:
    """The audit of a database, to read only, as it was at one moment. Raises StoreError if it cannot be opened."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.anchor = anchored(path.with_name(ANCHOR))  # before the rows, which may be further than this
        self._db: apsw.Connection | None = None

    def __enter__(self) -> Self:
        db = connect(str(self.path), busy_s=BUSY_S, read_only=True)
        try:
            with named(str(self.path)):
                if db.pragma("user_version") >= SCHEMA:
                    db.execute("BEGIN")
                    self._db = db
        finally:
            if self._db is None:  # nobody ever kept one here
                db.close()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._db is not None:
            self._db.close(True)
            self._db = None

    def entries(self, wanted: Wanted) -> list[Entry]:
        if self._db is None:
            return []
        try:
            with named(str(self.path)):
                return select(self._db, wanted)
        except (UnicodeEncodeError, OverflowError):
            raise InputRefused("this cannot be looked for: it is not text, or not a number that we know") from None
        except UnicodeDecodeError:
            raise StoreCorrupt(f"an entry in {self.path} is no text any more; see `mainstay audit verify`") from None

    def rows(self) -> Iterator[tuple[Any, ...] | int]:
        """All of them, in order, as they are. Where one cannot be read, its number."""
        if self._db is not None:
            yield from rows_of(self._db)

    def is_followed(self) -> bool:
        """Whether journals were ever followed for it: then there are entries."""
        try:
            return self._db is not None and is_followed(self._db)
        except apsw.Error:  # `damage` says more
            return False

    def damage(self) -> list[str]:
        """What the database says of itself."""
        if self._db is None:
            return []
        try:
            found: Any = self._db.execute("PRAGMA integrity_check('audit')").fetchall()
        except apsw.Error as error:
            return [str(error)]
        return [str(said) for (said,) in found if said != "ok"]


def anchored(path: Path) -> Head | None:
    """What the file beside the database says; None if it says nothing, or not as it was written."""
    try:
        said = path.read_bytes()
        head = msgspec.json.decode(said, type=Head)
    except (OSError, msgspec.DecodeError):
        return None
    return head if said == note_of(head) else None


def note_of(head: Head) -> bytes:
    return msgspec.json.encode(head) + b"\n"


def select(db: apsw.Connection, wanted: Wanted) -> list[Entry]:
    given = {name: value for name in _CLAUSES if (value := getattr(wanted, name)) is not None}
    where = f"WHERE {' AND '.join(_CLAUSES[name] for name in given)}" if given else ""
    sql = f"SELECT {_COLUMNS} FROM audit {where} ORDER BY seq DESC LIMIT :limit"
    rows: Any = db.execute(sql, given | {"limit": wanted.limit}).fetchall()
    return [Entry(*row) for row in reversed(rows)]


def is_followed(db: apsw.Connection) -> bool:
    """Whether journals were ever followed for it: then there are entries."""
    return db.execute(_FOLLOWED, (READER,)).fetchone() is not None


def rows_of(db: apsw.Connection) -> Iterator[tuple[Any, ...] | int]:
    """All rows, in order, as they are, also those that have numbers that none of ours has. Where one cannot be read,
    its number."""
    at = LEAST
    while True:
        try:
            page: Any = db.execute(_ROWS, (at, PAGE)).fetchall()
        except (apsw.Error, UnicodeDecodeError):
            yield from _one_by_one(db, at)
            return
        yield from page
        if len(page) < PAGE or page[-1][0] == MOST:
            return
        at = page[-1][0] + 1


def _one_by_one(db: apsw.Connection, at: int) -> Iterator[tuple[Any, ...] | int]:
    """Where not even the number of the next one can be read, it is as if it were there."""
    last = max(at, 0) + PAGE
    with contextlib.suppress(apsw.Error):
        found: Any = db.execute("SELECT max(seq) FROM audit").fetchone()
        last = found[0] or 0
    blind = 0
    while at <= last and blind < UNREADABLE_MAX:
        seq = max(at, 1)
        try:
            there: Any = db.execute(_NEXT, (at,)).fetchone()
            if there is None:
                return
            seq = there[0]
            row: Any = db.execute(_ROW, (seq,)).fetchone()
            yield row
            blind = 0
        except (apsw.Error, UnicodeDecodeError):
            yield seq
            blind += 1
        at = seq + 1
