"""Compares a workspace's database with what the home's database knows of it, to notice that it is missing, empty or
older (a vanished file, a replaced disk, a restored copy).

The home's database has the position of the spending ledger in each session. It follows the journals in the background,
so this costs a turn nothing, and it is never ahead of what is durable in the workspace's database.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal

import apsw
import msgspec

from mainstay.core.errors import HomeUnusable, StoreError, StoreLost
from mainstay.core.outcome_text import format_count
from mainstay.store.sqlite.connection import connect, map_sqlite_errors

log = logging.getLogger("mainstay.store")

BUSY_S = 5.0
JOURNAL_SUFFIXES = ("-wal", "-ahead")  # files beside the database that may hold events

SessionHeads = dict[str, tuple[int, int]]  # by key: created (ms; 0: unknown) and newest sequence

_SELECT_KNOWN = "SELECT session, created, position FROM ledger_followed WHERE workspace=? AND NOT away"
_SELECT_WORKSPACES = "SELECT DISTINCT workspace FROM ledger_followed WHERE NOT away"


class JournalLoss(msgspec.Struct, frozen=True, kw_only=True):
    """What is missing in a workspace's database."""

    path: Path
    state: Literal["missing", "empty", "older"]
    sessions: int = 0  # sessions that the home knows and the database does not have
    events: int = 0  # events that the home knows, of these sessions and of others that end earlier
    companions: tuple[str, ...] = ()  # files beside it that may hold events

    @property
    def workspace(self) -> str:
        return self.path.parent.name

    def describe(self) -> str:
        """Return what is wrong, as a sentence without a full stop."""
        known = f"{format_count(self.events, 'event')} that the home knows of"
        if self.state == "older":
            return f"{self.path} is older than what the home knows of it: {known} are not in it"
        kept = f"; {' and '.join(self.companions)} beside it is left as it is" if self.companions else ""
        lacks = f", and with it {known}" if self.events else ""
        return f"{self.path} is {self.state}{lacks}{kept}"

    def describe_choices(self) -> str:
        """Return what the owner can do."""
        return (
            f"restore a backup (`mainstay restore FOLDER --workspace {self.workspace}`), put the file back, or accept "
            f"the loss (`mainstay workspace accept-loss {self.workspace}`); `mainstay doctor` shows what is missing"
        )


def check_for_loss(database: Path, home_database: Path | None) -> None:
    """Raise StoreLost if a workspace's database lacks what the home knows of it. Call it before the database is opened
    for writing: SQLite creates a missing file, and deletes a log beside an empty one."""
    if (loss := find_loss(database, home_database)) is not None:
        raise StoreLost(f"{loss.describe()}. Nothing was changed: {loss.describe_choices()}")


def find_loss(database: Path, home_database: Path | None) -> JournalLoss | None:
    """Return what the database of the workspace in this folder lacks; None if it lacks nothing. Raises StoreError if it
    cannot be read. `home_database` None, missing or unreadable: nothing is known."""
    known = read_known_heads(home_database, database.parent.name) if home_database is not None else {}
    size = _file_bytes(database)
    if not size:
        companions = tuple(
            database.name + suffix for suffix in JOURNAL_SUFFIXES if _file_bytes(Path(f"{database}{suffix}"))
        )
        if not known and not companions:
            return None
        events = sum(position for _, position in known.values())
        state: Literal["missing", "empty"] = "missing" if size is None else "empty"
        return JournalLoss(path=database, state=state, sessions=len(known), events=events, companions=companions)
    if not known:
        return None
    found = read_heads(database)
    sessions = events = 0
    for key, (created, position) in known.items():
        head = head_of_same_session(found, key, created)
        sessions += head is None
        events += max(0, position - (head or 0))
    if not events:
        return None
    return JournalLoss(path=database, state="older" if found else "empty", sessions=sessions, events=events)


def head_of_same_session(found: SessionHeads, key: str, created: int) -> int | None:
    """Return the head of a session if the database has it, and not another one of the same name."""
    if key not in found or (created and found[key][0] and found[key][0] != created):
        return None
    return found[key][1]


def list_known_workspaces(home_database: Path) -> list[str]:
    """Return the workspaces of which the home knows events, also if their databases are missing."""
    rows: list[tuple[str]] = _read_home(home_database, _SELECT_WORKSPACES, ())
    return sorted(name for (name,) in rows)


def read_known_heads(home_database: Path, workspace: str) -> SessionHeads:
    """Return how far the home knows each session of a workspace."""
    rows: list[tuple[str, int, int]] = _read_home(home_database, _SELECT_KNOWN, (workspace,))
    return {key: (created, position) for key, created, position in rows}


def read_heads(database: Path) -> SessionHeads:
    """Return the sessions of a workspace's database, deleted ones included. Raises StoreError or HomeUnusable."""
    with map_sqlite_errors(str(database)):
        db = connect(str(database), busy_s=BUSY_S, read_only=True)
        try:
            if db.execute("SELECT 1 FROM sqlite_schema WHERE name='sessions'").fetchone() is None:
                return {}
            rows: Iterable[tuple[str, int, int]] = db.execute("SELECT key, created, head FROM sessions")
            return {key: (created, head) for key, created, head in rows}
        finally:
            db.close()


def accept_heads(db: apsw.Connection, workspace: str, found: SessionHeads) -> None:
    """Make the home expect what a workspace's database has; run it in a transaction on the home's database.

    Spending that was charged stays charged, also for events that are lost. The ledger and the audit log follow each
    session from its end, so what is spent from now on counts. The positions of lost sessions are kept aside: if their
    database comes back, they are not counted again.
    """
    sql = "SELECT session, created, position, away FROM ledger_followed WHERE workspace=?"
    known: list[tuple[str, int, int, int]] = list(db.execute(sql, (workspace,)))
    for key, created, position, away in known:
        head = head_of_same_session(found, key, created)
        session = (workspace, key)
        if head is None and not away:
            db.execute(
                "UPDATE ledger_followed SET away=1 WHERE workspace=? AND session=? AND created=?", (*session, created)
            )
            db.execute("DELETE FROM followed WHERE workspace=? AND session=?", session)
        elif head is not None and head < position:
            sql = "UPDATE ledger_followed SET position=? WHERE workspace=? AND session=? AND created=?"
            db.execute(sql, (head, *session, created))
            db.execute(
                "UPDATE followed SET position=min(position, ?) WHERE workspace=? AND session=?", (head, *session)
            )
        else:
            continue
        # Open reservations stay charged: the records that would have closed them are lost.
        db.execute("DELETE FROM ledger_open WHERE workspace=? AND session=?", session)


def _read_home(path: Path, sql: str, values: tuple[str, ...]) -> list[Any]:
    """Return the rows of a query; none if the home's database does not exist yet or cannot be read, which its own
    check reports."""
    if not _file_bytes(path):
        return []
    try:
        with map_sqlite_errors(str(path)):
            db = connect(str(path), busy_s=BUSY_S, read_only=True)
            try:
                if db.execute("SELECT 1 FROM sqlite_schema WHERE name='ledger_followed'").fetchone() is None:
                    return []
                return list(db.execute(sql, values))
            finally:
                db.close()
    except (StoreError, HomeUnusable) as error:
        log.error("whether workspaces lack events is unknown: %s", error)
        return []


def _file_bytes(path: Path) -> int | None:
    """Return the size of a file; None if it does not exist, or is no file."""
    return os.stat(path).st_size if os.path.isfile(path) else None
