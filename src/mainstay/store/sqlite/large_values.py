"""Large values (tool results too long for the history), stored in parts of equal length for fast paging."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import apsw

from mainstay.core.errors import SessionUnknown
from mainstay.core.events import ToolFinished
from mainstay.core.journal import decode_event
from mainstay.store.sqlite.tier_cursors import find_session_id

PART_CHARS = 16_384  # characters
PARTS_PER_TRANSACTION = 64  # per transaction, so that a large value does not delay other writes


def save_value_steps(key: str, ref: str, body: str) -> Iterator[Callable[[apsw.Connection], None]]:
    """Yield the transactions that store a value, from its last part to its first: it is complete, and can be read, only
    once its first part is stored."""
    starts = list(range(0, max(len(body), 1), PART_CHARS))[::-1]
    for at in range(0, len(starts), PARTS_PER_TRANSACTION):
        batch = starts[at : at + PARTS_PER_TRANSACTION]

        def work(db: apsw.Connection, batch: list[int] = batch, first: bool = at == 0) -> None:
            session = find_session_id(db, key)
            if session is None:
                raise SessionUnknown(f"there is no session {key!r}")
            if first:
                db.execute("DELETE FROM kept WHERE session=? AND ref=?", (session, ref))
            db.executemany(
                "INSERT INTO kept (session, ref, part, size, body) VALUES (?,?,?,?,?)",
                ((session, ref, start // PART_CHARS, len(body), body[start : start + PART_CHARS]) for start in batch),
            )

        yield work


def read_value(db: apsw.Connection, key: str, ref: str, offset: int, limit: int) -> tuple[str, int] | None:
    """Return a page of a value and its total length, both in characters; None if it is not stored."""
    session = find_session_id(db, key)
    row: tuple[int] | None = db.execute(
        "SELECT size FROM kept WHERE session=? AND ref=? AND part=0", (session, ref)
    ).fetchone()
    if row is None:
        return None
    size = row[0]
    start = min(max(offset, 0), size)
    end = min(start + max(limit, 0), size)
    parts: Iterable[tuple[str]] = db.execute(
        "SELECT body FROM kept WHERE session=? AND ref=? AND part BETWEEN ? AND ? ORDER BY part",
        (session, ref, start // PART_CHARS, max(end - 1, 0) // PART_CHARS),
    )
    text = "".join(body for (body,) in parts)
    skipped = start // PART_CHARS * PART_CHARS
    return text[start - skipped : end - skipped], size


def copy_values(db: apsw.Connection, source: int, target: int, upto: int) -> None:
    """Copy the values of tool results up to record `upto` to a fork of their session."""
    if db.execute("SELECT 1 FROM kept WHERE session=? LIMIT 1", (source,)).fetchone() is None:
        return
    for ref in find_call_ids(db, source, 1, upto):
        db.execute(
            "INSERT OR IGNORE INTO kept (session, ref, part, size, body) "
            "SELECT ?, ref, part, size, body FROM kept WHERE session=? AND ref=?",
            (target, source, ref),
        )


def find_call_ids(db: apsw.Connection, session: int, first: int, last: int) -> list[str]:
    """Return the call ids of the tool results in these records."""
    low = session << 32
    rows: Iterable[tuple[str]] = db.execute(
        'SELECT body FROM events WHERE id BETWEEN ? AND ? AND body LIKE \'{"type":"ToolFinished"%\'',
        (low + first, low + last),
    )
    events = [decode_event(body) for (body,) in rows]
    return [event.result.call_id for event in events if isinstance(event, ToolFinished)]
