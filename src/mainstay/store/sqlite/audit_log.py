"""Audit log of a home on SQLite: append-only rows in a hash chain, and retention.

The number and digest of the last row (the head) are also stored in a small file beside the database, the anchor, so
that rows deleted at the end are detected.
"""

from __future__ import annotations

import logging
import os
import secrets
import time
from collections.abc import Sequence
from pathlib import Path

import apsw
import msgspec

from mainstay.core.audit import (
    CHAIN_BEGUN,
    CHAIN_PRUNED,
    CHAIN_RESUMED,
    ENTRY_FIELDS,
    AuditEntry,
    AuditEvent,
    AuditQuery,
    AuditRow,
    chain_entry,
    entry_digest,
)
from mainstay.core.errors import AuditUnavailable
from mainstay.core.json_types import JsonMapping
from mainstay.store.sqlite.audit_log_reader import (
    ANCHOR_FILE,
    PROJECTION,
    AuditHead,
    encode_anchor,
    has_journal_events,
    read_anchor,
    select_entries,
)
from mainstay.store.sqlite.home_projection_database import HomeProjectionDatabase, save_position

log = logging.getLogger("mainstay.audit")

PRUNE_BATCH_ROWS = 10_000  # rows deleted in one transaction

_COLUMNS = ", ".join(ENTRY_FIELDS)
_INSERT_ENTRY = f"INSERT INTO audit ({_COLUMNS}) VALUES ({','.join('?' * len(ENTRY_FIELDS))})"
_SELECT_LAST = f"SELECT {_COLUMNS} FROM audit WHERE seq > 0 ORDER BY seq DESC LIMIT 1"


class SqliteAuditLog:
    """The AuditLog and AuditReader ports; one for all workspaces. If the log's end is not as it was written, it is
    continued after a `record.resumed` entry; with `strict`, AuditUnavailable is raised instead."""

    def __init__(self, database: HomeProjectionDatabase) -> None:
        self.strict = False
        self._database = database
        self._anchor_path = Path(database.path).with_name(ANCHOR_FILE)
        self._committed_head: AuditHead | None = (
            None  # after the last transaction that was committed; None: none yet in this process
        )
        self._pending_head: AuditHead | None = None  # after the transaction that is running
        self._uncertain_head: AuditHead | None = (
            None  # after a transaction that failed, in case it was committed nevertheless
        )
        database.transaction_callbacks.append(self._on_transaction_end)

    # --- writing ---------------------------------------------------------------------------------

    async def positions(self, workspace: str) -> dict[str, int]:
        return await self._database.select_positions(PROJECTION, workspace)

    async def add_from_journal(self, workspace: str, session: str, position: int, events: Sequence[AuditEvent]) -> None:
        def work(db: apsw.Connection) -> None:
            self._append_events(db, events)
            save_position(db, PROJECTION, workspace, session, position)

        await self._database.write(work)

    async def add(self, events: Sequence[AuditEvent]) -> None:
        await self._database.write(lambda db: self._append_events(db, events))

    async def prune(self, before_ms: int) -> int:
        removed = 0
        while (count := await self._database.write(lambda db: self._prune_batch(db, before_ms))) == PRUNE_BATCH_ROWS:
            removed += count
        return removed + count

    def _append_events(self, db: apsw.Connection, events: Sequence[AuditEvent]) -> None:
        head = self._pending_head or self._check_head(db)
        if not events:
            self._pending_head = head
            return
        seq, before = head.seq, head.digest
        rows = []
        for fact in events:
            seq += 1
            rows.append(chain_entry(fact, seq, before))
            before = rows[-1][-1]
        db.executemany(_INSERT_ENTRY, rows)
        self._pending_head = AuditHead(seq, before)

    def _prune_batch(self, db: apsw.Connection, before_ms: int) -> int:
        """Delete a batch of the oldest rows, up to the first that is not older than `before_ms`, and never the last
        row; returns how many."""
        head = self._pending_head = self._pending_head or self._check_head(db)
        first = _select_number(db, "SELECT min(seq) FROM audit")
        keep = _select_number(db, "SELECT seq FROM audit WHERE at >= ? ORDER BY seq LIMIT 1", before_ms)
        through = min((keep or head.seq) - 1, (first or 1) + PRUNE_BATCH_ROWS - 1)
        if first is None or through < first:
            return 0
        if first < 1:
            raise AuditUnavailable("an audit log with forged entries is not pruned; see `audit verify`")
        last: tuple[str] | None = db.execute("SELECT digest FROM audit WHERE seq=?", (through,)).fetchone()
        if last is None:
            raise AuditUnavailable("an audit log with missing entries is not pruned; see `audit verify`")
        db.execute("DELETE FROM audit WHERE seq <= ?", (through,))
        self._append_events(db, [_build_event(CHAIN_PRUNED, {"from": first, "through": through, "digest": last[0]})])
        return through - first + 1

    def _check_head(self, db: apsw.Connection) -> AuditHead:
        """Return the head to append to, after comparing it with the anchor: rows deleted at the end can no longer be
        detected once their numbers are used again."""
        row: AuditRow | None = db.execute(_SELECT_LAST).fetchone()
        head = AuditHead(row[0], row[-1]) if row is not None else AuditHead()
        if self._committed_head is not None and head in (self._committed_head, self._uncertain_head):
            return head
        expected = self._committed_head if self._committed_head is not None else read_anchor(self._anchor_path)
        is_new = row is None and expected in (None, AuditHead()) and not has_journal_events(db)
        mismatch = "" if is_new else _describe_mismatch(db, row, expected)
        if mismatch and self.strict:
            raise AuditUnavailable(
                f"the audit log does not match its last recorded state: {mismatch}. See `mainstay audit verify`; "
                "to continue anyway, start once with audit.fail_closed off"
            )
        events: list[AuditEvent] = []
        if row is None:
            self._write_anchor(expected or head)  # so that a crash right after this cannot be mistaken for deleted rows
            events.append(_build_event(CHAIN_BEGUN, {"id": secrets.token_hex(16)}))
        if mismatch:
            log.critical(
                "the audit log does not match its last recorded state; continuing: %s. See `mainstay audit verify`",
                mismatch,
            )
            left = _describe_head(expected) if expected is not None else None
            events.append(_build_event(CHAIN_RESUMED, {"found": _describe_head(head), "left": left}, mismatch))
        self._pending_head = head
        self._append_events(db, events)
        appended, self._pending_head = self._pending_head, None
        return appended

    def _on_transaction_end(self, committed: bool) -> None:
        """Take over the new head once its transaction is committed; called in the writer thread."""
        head, self._pending_head = self._pending_head, None
        if not committed:
            self._uncertain_head = head
        elif head is not None:
            changed = head != self._committed_head
            self._committed_head, self._uncertain_head = head, None
            if changed:
                self._write_anchor(head)

    def _write_anchor(self, head: AuditHead) -> None:
        """Write the anchor file. Not synced: after a crash it may be older than the rows, which is harmless."""
        new_file = self._anchor_path.with_name(f"{ANCHOR_FILE}.new")
        try:
            with open(os.open(new_file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600), "wb") as file:
                file.write(encode_anchor(head))
            os.replace(new_file, self._anchor_path)
        except OSError as error:
            log.error("%s cannot be written: %s", self._anchor_path, error.strerror or error)

    # --- reading ---------------------------------------------------------------------------------

    async def find_entries(self, query: AuditQuery) -> list[AuditEntry]:
        return await self._database.read(lambda db: select_entries(db, query))


def get_audit_log(database: HomeProjectionDatabase, *, strict: bool = False) -> SqliteAuditLog:
    """Return the audit log of this database; always the same object, since it keeps the head of the chain. Once it was
    requested as `strict`, it stays so."""
    if not isinstance(database.audit_log, SqliteAuditLog):
        database.audit_log = SqliteAuditLog(database)
    if strict:
        database.audit_log.strict = True
    return database.audit_log


def _describe_mismatch(db: apsw.Connection, row: AuditRow | None, expected: AuditHead | None) -> str:
    """Describe how the end of the log differs from the expected head; empty if it does not."""
    if row is None:
        return "all its entries are gone" + (f", of which there were {expected.seq}" if expected is not None else "")
    if entry_digest(row[:-1]) != row[-1]:
        return f"entry {row[0]} was changed"
    if expected is None:
        return f"{ANCHOR_FILE} is missing or invalid"
    if expected.seq > row[0]:
        first = row[0] + 1
        return f"entry {first} is gone" if first == expected.seq else f"entries {first} to {expected.seq} are gone"
    known: tuple[str] | None = db.execute("SELECT digest FROM audit WHERE seq=?", (expected.seq,)).fetchone()
    if expected.seq and (known is None or known[0] != expected.digest):
        return f"entry {expected.seq} was changed"
    return ""


def _describe_head(head: AuditHead) -> dict[str, int | str]:
    return {"seq": head.seq, "digest": head.digest}


def _build_event(kind: str, details: JsonMapping, what: str = "") -> AuditEvent:
    return AuditEvent(
        at=time.time_ns() // 1_000_000, kind=kind, what=what, details=msgspec.json.encode(details).decode()
    )


def _select_number(db: apsw.Connection, sql: str, *values: int) -> int | None:
    row: tuple[int | None] | None = db.execute(sql, values).fetchone()
    return row[0] if row is not None else None
