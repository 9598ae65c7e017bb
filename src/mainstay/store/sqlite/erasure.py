"""Erases contents in place, from the journal and every memory tier in one transaction: a whole session, single records,
or facts."""

from __future__ import annotations

from collections.abc import Sequence

import apsw

from mainstay.core.errors import SessionUnknown
from mainstay.core.events import Folded, ToolFinished
from mainstay.core.journal import BLANKED_BODY, decode_event, encode_event, redact_event, remove_facts
from mainstay.core.memory_tiers import Fact
from mainstay.store.sqlite.tier_base import delete_and_schedule_purge
from mainstay.store.sqlite.tier_cursors import SEQ_MAX, add_tombstones, find_session_id, to_json_array
from mainstay.store.sqlite.workspace_tiers import TIER_CLASSES

SELECT_FOLDS = (
    'SELECT id, body FROM events WHERE id > ? AND id <= ? AND body LIKE \'{"type":"Folded"%\' ORDER BY id DESC'
)


def blank_session(db: apsw.Connection, key: str, at: int) -> None:
    """Erase a session: its events become blank, its row stays with the status `deleted`. `at` is the time (ms)."""
    session = _require_session_id(db, key)
    low = session << 32
    db.execute("UPDATE events SET body=? WHERE id > ? AND id <= ?", (BLANKED_BODY.decode(), low, low + SEQ_MAX))
    db.execute("DELETE FROM inputs WHERE session=?", (session,))
    db.execute("DELETE FROM kept WHERE session=?", (session,))
    db.execute(
        "UPDATE sessions SET status='deleted', unfinished=0, fold=0, floor=0, messages=0, settings='{}', "
        "updated=? WHERE id=?",
        (at, session),
    )
    erase_from_tiers(db, session, None)


def redact_records(db: apsw.Connection, key: str, seqs: Sequence[int]) -> None:
    """Erase the contents of these records, and blank the folds that summarised them."""
    session = _require_session_id(db, key)
    low = session << 32
    ids = to_json_array(low + seq for seq in set(seqs) if 0 < seq <= SEQ_MAX)
    sql = "SELECT id, body FROM events WHERE id IN (SELECT value FROM json_each(?)) ORDER BY id"
    rows: list[tuple[int, str]] = list(db.execute(sql, (ids,)))
    if not rows:
        return
    for id, body in rows:
        event = decode_event(body)
        db.execute("UPDATE events SET body=? WHERE id=?", (encode_event(redact_event(event)).decode(), id))
        if isinstance(event, ToolFinished):
            db.execute("DELETE FROM kept WHERE session=? AND ref=?", (session, event.result.call_id))
    _blank_folds_over(db, session, rows[0][0] & SEQ_MAX)
    erase_from_tiers(db, session, [id & SEQ_MAX for id, _ in rows])


def remove_facts_from_folds(db: apsw.Connection, key: str, facts: Sequence[Fact]) -> None:
    """Remove these facts from the session's folds."""
    low = _require_session_id(db, key) << 32
    rows: list[tuple[int, str]] = list(db.execute(SELECT_FOLDS, (low, low + SEQ_MAX)))
    for id, body in rows:
        fold = decode_event(body)
        assert isinstance(fold, Folded)
        if len((remaining := remove_facts(fold, facts)).facts) < len(fold.facts):
            db.execute("UPDATE events SET body=? WHERE id=?", (encode_event(remaining).decode(), id))


def erase_from_tiers(db: apsw.Connection, session: int, seqs: Sequence[int] | None) -> None:
    """Delete what the tiers derived from these records (None: from the session), in the transaction that erases them
    from the journal: at no moment does a tier contain what the journal does not."""
    add_tombstones(db, session, seqs, has_journal=True)
    for tier in TIER_CLASSES:
        delete_and_schedule_purge(db, tier, tier.find_rows(db, session, seqs))


def _blank_folds_over(db: apsw.Connection, session: int, seq: int) -> None:
    """Blank the folds that include this record, since their summaries may repeat its contents; the session continues
    from the newest fold before it."""
    low = session << 32
    row: tuple[int] | None = db.execute("SELECT fold FROM sessions WHERE id=?", (session,)).fetchone()
    if row is None or not row[0]:
        return
    newest = 0
    rows: list[tuple[int, str]] = list(db.execute(SELECT_FOLDS, (low, low + SEQ_MAX)))
    for id, body in rows:
        fold = decode_event(body)
        assert isinstance(fold, Folded)
        if fold.upto >= seq:
            db.execute("UPDATE events SET body=? WHERE id=?", (BLANKED_BODY.decode(), id))
        else:
            newest = max(newest, id & SEQ_MAX)
    db.execute("UPDATE sessions SET fold=? WHERE id=?", (newest, session))


def find_newest_fold(db: apsw.Connection, low: int, seq: int) -> tuple[int, int]:
    """Return the sequence of the newest fold up to `seq`, and the last sequence that it folded; zeros if there is none.

    A lane that ran while records were erased may have stored a fold that was blanked meanwhile; then it is the one
    before.
    """
    row: tuple[str] | None = db.execute("SELECT body FROM events WHERE id=?", (low + seq,)).fetchone()
    fold = decode_event(row[0]) if row else None
    if isinstance(fold, Folded):
        return seq, fold.upto
    older: tuple[int, str] | None = db.execute(SELECT_FOLDS, (low, low + seq)).fetchone()
    if older is None:
        return 0, 0
    fold = decode_event(older[1])
    assert isinstance(fold, Folded)
    return older[0] & SEQ_MAX, fold.upto


def _require_session_id(db: apsw.Connection, key: str) -> int:
    session = find_session_id(db, key)
    if session is None:
        raise SessionUnknown(f"there is no session {key!r}")
    return session
