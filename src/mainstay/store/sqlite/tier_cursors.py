"""Positions of memory tiers in each session (cursors), and tombstones: records that must not be ingested again."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import apsw

from mainstay.core.errors import SessionUnknown

SEQ_MAX = 0xFFFFFFFF  # highest sequence of a session, and mask for the sequence in an event's id


def select_positions(db: apsw.Connection, tier: str, has_journal: bool) -> dict[str, int]:
    """Return a tier's position by session; with a journal in this database, without deleted sessions."""
    where = "AND sessions.status != 'deleted'" if has_journal else ""
    rows: Iterable[tuple[str, int]] = db.execute(
        "SELECT sessions.key, cursors.seq FROM cursors JOIN sessions ON sessions.id = cursors.session "
        f"WHERE cursors.tier=? {where}",
        (tier,),
    )
    return dict(rows)


def find_session_id(db: apsw.Connection, key: str) -> int | None:
    row: tuple[int] | None = db.execute("SELECT id FROM sessions WHERE key=?", (key,)).fetchone()
    return row[0] if row else None


def ensure_session_id(db: apsw.Connection, key: str, has_journal: bool) -> int:
    """Return the session's id. An unknown session is added; with a journal in this database, SessionUnknown is raised
    instead."""
    id = find_session_id(db, key)
    if id is not None:
        return id
    if has_journal:
        raise SessionUnknown(f"there is no session {key!r}")
    new: int = db.execute("INSERT INTO sessions (key) VALUES (?) RETURNING id", (key,)).get
    return new


def select_position(db: apsw.Connection, tier: str, session: int) -> int:
    row: tuple[int] | None = db.execute(
        "SELECT seq FROM cursors WHERE tier=? AND session=?", (tier, session)
    ).fetchone()
    return row[0] if row else 0


def advance_cursor(db: apsw.Connection, tier: str, session: int, seq: int) -> None:
    """Move a cursor forward; it never moves back."""
    db.execute(
        "INSERT INTO cursors VALUES (?,?,?) ON CONFLICT (tier, session) DO UPDATE SET seq=excluded.seq "
        "WHERE excluded.seq > seq",
        (tier, session, seq),
    )


def select_session_keys(db: apsw.Connection, sessions: Iterable[int]) -> dict[int, str]:
    rows: Iterable[tuple[int, str]] = db.execute(
        "SELECT id, key FROM sessions WHERE id IN (SELECT value FROM json_each(?))", (to_json_array(set(sessions)),)
    )
    return dict(rows)


def to_json_array(numbers: Iterable[int]) -> str:
    """Encode numbers as a JSON array for json_each: a list as one SQL parameter."""
    return f"[{','.join(map(str, numbers))}]"


# --- tombstones ----------------------------------------------------------------------------------


def add_tombstones(db: apsw.Connection, session: int, seqs: Sequence[int] | None, has_journal: bool) -> None:
    """Add tombstones for these records (None: all up to now), because a tier may have read them just before they were
    erased and must not ingest them."""
    if seqs is not None:
        db.executemany("INSERT OR IGNORE INTO forgotten VALUES (?,?,?)", [(session, seq, seq) for seq in seqs])
        return
    where = "SELECT head FROM sessions WHERE id=?" if has_journal else "SELECT max(seq) FROM cursors WHERE session=?"
    last: int | None = db.execute(where, (session,)).get
    db.execute("INSERT OR IGNORE INTO forgotten VALUES (?,1,?)", (session, last or 0))


class Tombstones:
    """The erased sequences of a session."""

    __slots__ = ("_ranges",)

    def __init__(self, db: apsw.Connection, session: int) -> None:
        rows = db.execute("SELECT first, last FROM forgotten WHERE session=?", (session,))
        self._ranges: list[tuple[int, int]] = list(rows)

    def __contains__(self, seq: int) -> bool:
        return any(first <= seq <= last for first, last in self._ranges)

    def overlaps(self, first: int, last: int) -> bool:
        """Return whether any record from `first` to `last` was erased."""
        return any(low <= last and first <= high for low, high in self._ranges)
