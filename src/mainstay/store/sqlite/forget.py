"""Forgetting in place: a whole session, or what some of its records say. The journal and every tier, at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import apsw

from mainstay.core.errors import SessionUnknown
from mainstay.core.events import Folded, ToolFinished
from mainstay.core.journal import BLANK, decode, encode, redacted, unlearned
from mainstay.core.recall import Fact
from mainstay.store.sqlite.cursors import MOST, forget, listed, session_id
from mainstay.store.sqlite.tier import discard
from mainstay.store.sqlite.tiers import TIERS

FOLDS = 'SELECT id, body FROM events WHERE id > ? AND id <= ? AND body LIKE \'{"type":"Folded"%\' ORDER BY id DESC'


def blank(db: apsw.Connection, key: str, at: int) -> None:
    session = _known(db, key)
    low = session << 32
    db.execute("UPDATE events SET body=? WHERE id > ? AND id <= ?", (BLANK.decode(), low, low + MOST))
    db.execute("DELETE FROM inputs WHERE session=?", (session,))
    db.execute("DELETE FROM kept WHERE session=?", (session,))
    db.execute(
        "UPDATE sessions SET status='deleted', unfinished=0, fold=0, floor=0, messages=0, settings='{}', "
        "updated=? WHERE id=?",
        (at, session),
    )
    forget_everywhere(db, session, None)


def redact(db: apsw.Connection, key: str, seqs: Sequence[int]) -> None:
    session = _known(db, key)
    low = session << 32
    wanted = listed(low + seq for seq in set(seqs) if 0 < seq <= MOST)
    rows: Any = db.execute(
        "SELECT id, body FROM events WHERE id IN (SELECT value FROM json_each(?)) ORDER BY id", (wanted,)
    ).fetchall()
    if not rows:
        return
    for id, body in rows:
        event = decode(body)
        db.execute("UPDATE events SET body=? WHERE id=?", (encode(redacted(event)).decode(), id))
        if isinstance(event, ToolFinished):
            db.execute("DELETE FROM kept WHERE session=? AND ref=?", (session, event.result.call_id))
    _undo_folds(db, session, rows[0][0] & MOST)
    forget_everywhere(db, session, [id & MOST for id, _ in rows])


def unlearn(db: apsw.Connection, key: str, facts: Sequence[Fact]) -> None:
    low = _known(db, key) << 32
    rows: Any = db.execute(FOLDS, (low, low + MOST)).fetchall()
    for id, body in rows:
        fold = decode(body)
        assert isinstance(fold, Folded)
        if len((left := unlearned(fold, facts)).facts) < len(fold.facts):
            db.execute("UPDATE events SET body=? WHERE id=?", (encode(left).decode(), id))


def forget_everywhere(db: apsw.Connection, session: int, seqs: Sequence[int] | None) -> None:
    """The same transaction: there is no moment at which a tier still knows what the journal has forgotten."""
    forget(db, session, seqs, journal=True)
    for tier in TIERS:
        discard(db, tier, tier.held(db, session, seqs))


def _undo_folds(db: apsw.Connection, session: int, seq: int) -> None:
    """Whatever was folded over this record is shown unfolded again: its summary may tell what was forgotten."""
    low = session << 32
    standing: Any = db.execute("SELECT fold FROM sessions WHERE id=?", (session,)).fetchone()
    if not standing[0]:
        return
    newest = 0
    rows: Any = db.execute(FOLDS, (low, low + MOST)).fetchall()
    for id, body in rows:
        fold = decode(body)
        assert isinstance(fold, Folded)
        if fold.upto >= seq:
            db.execute("UPDATE events SET body=? WHERE id=?", (BLANK.decode(), id))
        else:
            newest = max(newest, id & MOST)
    db.execute("UPDATE sessions SET fold=? WHERE id=?", (newest, session))


def newest_fold(db: apsw.Connection, low: int, seq: int) -> tuple[int, int]:
    """Where the newest fold up to `seq` stands, and up to where it folded. A lane that was at work while something was
    forgotten may name a fold that is no more; then it is the one before."""
    row: Any = db.execute("SELECT body FROM events WHERE id=?", (low + seq,)).fetchone()
    fold = decode(row[0]) if row else None
    if isinstance(fold, Folded):
        return seq, fold.upto
    row = db.execute(FOLDS, (low, low + seq)).fetchone()
    if row is None:
        return 0, 0
    fold = decode(row[1])
    assert isinstance(fold, Folded)
    return row[0] & MOST, fold.upto


def _known(db: apsw.Connection, key: str) -> int:
    session = session_id(db, key)
    if session is None:
        raise SessionUnknown(f"there is no session {key!r}")
    return session
