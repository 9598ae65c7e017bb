"""The audit of a home in its database: rows that are only ever added, each with the digest of the one before it.

How far it goes is also kept beside it, in a small file, so that rows that are missing at its end are missed.
"""

from __future__ import annotations

import logging
import os
import secrets
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import apsw
import msgspec

from mainstay.core.audit import BEGUN, FIELDS, PRUNED, RESUMED, Entry, Fact, Wanted, digest_of, linked
from mainstay.core.errors import AuditUnavailable
from mainstay.store.sqlite.audit_file import ANCHOR, READER, Head, anchored, is_followed, note_of, select
from mainstay.store.sqlite.observed import SqliteObserved, followed

log = logging.getLogger("mainstay.audit")

PRUNE_MAX = 10_000  # rows that are removed in one transaction

_COLUMNS = ", ".join(FIELDS)
_ADD = f"INSERT INTO audit ({_COLUMNS}) VALUES ({','.join('?' * len(FIELDS))})"
_LAST = f"SELECT {_COLUMNS} FROM audit WHERE seq > 0 ORDER BY seq DESC LIMIT 1"


class SqliteAudit:
    """One for all workspaces. `strict`: raises AuditUnavailable where others would say so and go on, if what is found
    is not what was left."""

    def __init__(self, books: SqliteObserved) -> None:
        self.strict = False
        self._books = books
        self._anchor = Path(books.path).with_name(ANCHOR)
        self._left: Head | None = None  # what is in the file for sure, as far as this process knows
        self._made: Head | None = None  # what it is after the transaction that runs
        self._unsure: Head | None = None  # what it is if a transaction stands that seemed to fail
        books.ended.append(self._ended)

    # --- writing ---------------------------------------------------------------------------------

    async def positions(self, workspace: str) -> dict[str, int]:
        return await self._books.positions(READER, workspace)

    async def follow(self, workspace: str, session: str, position: int, facts: Sequence[Fact]) -> None:
        def work(db: apsw.Connection) -> None:
            self._append(db, facts)
            followed(db, READER, workspace, session, position)

        await self._books.write(work)

    async def add(self, facts: Sequence[Fact]) -> None:
        await self._books.write(lambda db: self._append(db, facts))

    async def prune(self, before: int) -> int:
        removed = 0
        while (some := await self._books.write(lambda db: self._prune(db, before))) == PRUNE_MAX:
            removed += some
        return removed + some

    def _append(self, db: apsw.Connection, facts: Sequence[Fact]) -> None:
        head = self._made or self._found(db)
        if not facts:
            self._made = head
            return
        seq, before = head.seq, head.digest
        rows = []
        for fact in facts:
            seq += 1
            rows.append(linked(fact, seq, before))
            before = rows[-1][-1]
        db.executemany(_ADD, rows)
        self._made = Head(seq, before)

    def _prune(self, db: apsw.Connection, before: int) -> int:
        """The oldest, up to the first that is not old, and never the last."""
        head = self._made = self._made or self._found(db)
        first = _number(db, "SELECT min(seq) FROM audit")
        keep = _number(db, "SELECT seq FROM audit WHERE at >= ? ORDER BY seq LIMIT 1", before)
        through = min((keep or head.seq) - 1, (first or 1) + PRUNE_MAX - 1)
        if first is None or through < first:
            return 0
        if first < 1:
            raise AuditUnavailable("nothing is removed from an audit into which entries were put; see `audit verify`")
        last: Any = db.execute("SELECT digest FROM audit WHERE seq=?", (through,)).fetchone()
        if last is None:
            raise AuditUnavailable("nothing is removed from an audit in which entries are missing; see `audit verify`")
        db.execute("DELETE FROM audit WHERE seq <= ?", (through,))
        self._append(db, [_say(PRUNED, {"from": first, "through": through, "digest": last[0]})])
        return through - first + 1

    def _found(self, db: apsw.Connection) -> Head:
        """Where to go on. What is there is compared with what was left: rows that went missing at the end would not be
        missed any more once others have their numbers."""
        row: Any = db.execute(_LAST).fetchone()
        head = Head(row[0], row[-1]) if row is not None else Head()
        if self._left is not None and head in (self._left, self._unsure):
            return head
        left = self._left if self._left is not None else anchored(self._anchor)
        is_new = row is None and left in (None, Head()) and not is_followed(db)
        wrong = "" if is_new else _wrong(db, row, left)
        if wrong and self.strict:
            raise AuditUnavailable(
                f"the audit is not as it was left: {wrong}. See `mainstay audit verify`; to go on all the same, start "
                "once with audit.fail_closed off"
            )
        news: list[Fact] = []
        if row is None:
            self._leave(left or head)  # so that a crash right after this is no riddle
            news.append(_say(BEGUN, {"id": secrets.token_hex(16)}))
        if wrong:
            log.critical("the audit is not as it was left, and goes on: %s. See `mainstay audit verify`", wrong)
            found = {"seq": head.seq, "digest": head.digest}
            was = {"seq": left.seq, "digest": left.digest} if left is not None else None
            news.append(_say(RESUMED, {"found": found, "left": was}, wrong))
        self._made = head
        self._append(db, news)
        made, self._made = self._made, None
        return made

    def _ended(self, stands: bool) -> None:
        """The transaction is over; in the thread that wrote it."""
        made, self._made = self._made, None
        if not stands:
            self._unsure = made
        elif made is not None:
            changed = made != self._left
            self._left, self._unsure = made, None
            if changed:
                self._leave(made)

    def _leave(self, head: Head) -> None:
        """Not synced: what is there after a crash may be older than the rows, and that is no harm."""
        beside = self._anchor.with_name(f"{ANCHOR}.new")
        try:
            with open(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600), "wb") as file:
                file.write(note_of(head))
            os.replace(beside, self._anchor)
        except OSError as error:
            log.error("%s cannot be written: %s", self._anchor, error.strerror or error)

    # --- reading ---------------------------------------------------------------------------------

    async def entries(self, wanted: Wanted) -> list[Entry]:
        return await self._books.read(lambda db: select(db, wanted))


def audit_in(books: SqliteObserved) -> SqliteAudit:
    """The one of this database."""
    if books.audit is None:
        books.audit = SqliteAudit(books)
    made: SqliteAudit = books.audit
    return made


def _wrong(db: apsw.Connection, row: Any, left: Head | None) -> str:
    """What is amiss at the end; empty if nothing is."""
    if row is None:
        return "all its entries are gone" + (f", of which there were {left.seq}" if left is not None else "")
    if digest_of(row[:-1]) != row[-1]:
        return f"entry {row[0]} is not what it was"
    if left is None:
        return f"{ANCHOR} is missing, or says nothing"
    if left.seq > row[0]:
        first = row[0] + 1
        return f"entry {first} is gone" if first == left.seq else f"entries {first} to {left.seq} are gone"
    known: Any = db.execute("SELECT digest FROM audit WHERE seq=?", (left.seq,)).fetchone()
    if left.seq and (known is None or known[0] != left.digest):
        return f"entry {left.seq} is not what it was"
    return ""


def _say(kind: str, details: dict[str, Any], what: str = "") -> Fact:
    return Fact(at=time.time_ns() // 1_000_000, kind=kind, what=what, details=msgspec.json.encode(details).decode())


def _number(db: apsw.Connection, sql: str, *given: int) -> int | None:
    row: Any = db.execute(sql, given).fetchone()
    return row[0] if row is not None else None
