"""Values too large for a history, kept in parts so that any page of one is found at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import apsw

from mainstay.core.errors import SessionUnknown
from mainstay.core.events import ToolFinished
from mainstay.core.journal import decode
from mainstay.store.sqlite.cursors import session_id

PART = 16_384  # characters
PARTS_AT_ONCE = 64  # in one transaction, so that a large value does not hold everyone else up


def keeping(key: str, ref: str, body: str) -> Iterator[Callable[[apsw.Connection], None]]:
    """From the end to the beginning: with the first part it is whole, and without it, it is not there."""
    starts = list(range(0, max(len(body), 1), PART))[::-1]
    for at in range(0, len(starts), PARTS_AT_ONCE):
        some = starts[at : at + PARTS_AT_ONCE]

        def work(db: apsw.Connection, some: list[int] = some, first: bool = at == 0) -> None:
            session = session_id(db, key)
            if session is None:
                raise SessionUnknown(f"there is no session {key!r}")
            if first:
                db.execute("DELETE FROM kept WHERE session=? AND ref=?", (session, ref))
            db.executemany(
                "INSERT INTO kept (session, ref, part, size, body) VALUES (?,?,?,?,?)",
                ((session, ref, start // PART, len(body), body[start : start + PART]) for start in some),
            )

        yield work


def kept(db: apsw.Connection, key: str, ref: str, offset: int, limit: int) -> tuple[str, int] | None:
    session = session_id(db, key)
    row: Any = db.execute("SELECT size FROM kept WHERE session=? AND ref=? AND part=0", (session, ref)).fetchone()
    if row is None:
        return None
    size: int = row[0]
    start = min(max(offset, 0), size)
    end = min(start + max(limit, 0), size)
    parts: Any = db.execute(
        "SELECT body FROM kept WHERE session=? AND ref=? AND part BETWEEN ? AND ? ORDER BY part",
        (session, ref, start // PART, max(end - 1, 0) // PART),
    )
    text = "".join(body for (body,) in parts)
    skipped = start // PART * PART
    return text[start - skipped : end - skipped], size


def copy_kept(db: apsw.Connection, source: int, target: int, upto: int) -> None:
    """What results up to there may be paged through, for a copy of their session."""
    if db.execute("SELECT 1 FROM kept WHERE session=? LIMIT 1", (source,)).fetchone() is None:
        return
    for ref in refs(db, source, 1, upto):
        db.execute(
            "INSERT OR IGNORE INTO kept (session, ref, part, size, body) "
            "SELECT ?, ref, part, size, body FROM kept WHERE session=? AND ref=?",
            (target, source, ref),
        )


def refs(db: apsw.Connection, session: int, first: int, last: int) -> list[str]:
    """The calls that got their results in these records."""
    low = session << 32
    rows: Any = db.execute(
        'SELECT body FROM events WHERE id BETWEEN ? AND ? AND body LIKE \'{"type":"ToolFinished"%\'',
        (low + first, low + last),
    ).fetchall()
    events = [decode(body) for (body,) in rows]
    return [event.result.call_id for event in events if isinstance(event, ToolFinished)]
