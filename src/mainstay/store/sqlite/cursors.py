"""How far a tier has followed each session, and what it must not take up again."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import apsw

from mainstay.core.errors import SessionUnknown

MOST = 0xFFFFFFFF  # sequences of one session


def positions(db: apsw.Connection, tier: str, journal: bool) -> dict[str, int]:
    """Where there is a journal, without the sessions that it has forgotten, and this tier with it."""
    where = "AND sessions.status != 'deleted'" if journal else ""
    rows: Any = db.execute(
        "SELECT sessions.key, cursors.seq FROM cursors JOIN sessions ON sessions.id = cursors.session "
        f"WHERE cursors.tier=? {where}",
        (tier,),
    )
    return dict(rows)


def session_id(db: apsw.Connection, key: str) -> int | None:
    row: Any = db.execute("SELECT id FROM sessions WHERE key=?", (key,)).fetchone()
    return row[0] if row else None


def followed(db: apsw.Connection, key: str, journal: bool) -> int:
    """The session's number; one that is new here gets one, unless there is a journal that would know it."""
    found = session_id(db, key)
    if found is not None:
        return found
    if journal:
        raise SessionUnknown(f"there is no session {key!r}")
    row: Any = db.execute("INSERT INTO sessions (key) VALUES (?) RETURNING id", (key,)).fetchone()
    return int(row[0])


def position(db: apsw.Connection, tier: str, session: int) -> int:
    row: Any = db.execute("SELECT seq FROM cursors WHERE tier=? AND session=?", (tier, session)).fetchone()
    return row[0] if row else 0


def advance(db: apsw.Connection, tier: str, session: int, seq: int) -> None:
    db.execute(
        "INSERT INTO cursors VALUES (?,?,?) ON CONFLICT (tier, session) DO UPDATE SET seq=excluded.seq "
        "WHERE excluded.seq > seq",
        (tier, session, seq),
    )


def keys(db: apsw.Connection, sessions: Iterable[int]) -> dict[int, str]:
    rows: Any = db.execute(
        "SELECT id, key FROM sessions WHERE id IN (SELECT value FROM json_each(?))", (listed(set(sessions)),)
    )
    return dict(rows)


def listed(numbers: Iterable[int]) -> str:
    """For json_each: so many parameters as one."""
    return f"[{','.join(map(str, numbers))}]"


# --- what was forgotten --------------------------------------------------------------------------


def forget(db: apsw.Connection, session: int, seqs: Sequence[int] | None, journal: bool) -> None:
    """From now on nothing of these records is taken up: a follower may have read them just before."""
    if seqs is not None:
        db.executemany("INSERT OR IGNORE INTO forgotten VALUES (?,?,?)", [(session, seq, seq) for seq in seqs])
        return
    where = "SELECT head FROM sessions WHERE id=?" if journal else "SELECT max(seq) FROM cursors WHERE session=?"
    row: Any = db.execute(where, (session,)).fetchone()
    db.execute("INSERT OR IGNORE INTO forgotten VALUES (?,1,?)", (session, row[0] or 0))


class Gone:
    """The sequences of a session that were forgotten."""

    __slots__ = ("_ranges",)

    def __init__(self, db: apsw.Connection, session: int) -> None:
        rows: Any = db.execute("SELECT first, last FROM forgotten WHERE session=?", (session,)).fetchall()
        self._ranges: list[tuple[int, int]] = rows

    def __contains__(self, seq: int) -> bool:
        return any(first <= seq <= last for first, last in self._ranges)

    def touches(self, first: int, last: int) -> bool:
        """Whether anything of this stretch was."""
        return any(low <= last and first <= high for low, high in self._ranges)
