"""Append of events to one session's journal: the queued request and the SQL statements that execute it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import Self

import apsw
import msgspec

from mainstay.core.errors import DuplicateInput, StaleWriter
from mainstay.core.events import ApprovalAsked, Spawned
from mainstay.core.limits import NO_SESSION_BUDGET, SessionBudget
from mainstay.core.ports import NO_TOKEN_COUNT, IdempotencyKey, SessionInfo

UPDATE_SESSION = """
UPDATE sessions SET head=?, fold=?, floor=?, unfinished=?, status=?, turns=?, messages=?, prompt_tokens=?,
    completion_tokens=?, cost=?, updated=?, settings=?
WHERE key=? AND head=? RETURNING id"""
INSERT_SESSION = """
INSERT INTO sessions (head, fold, floor, unfinished, status, turns, messages, prompt_tokens, completion_tokens,
    cost, updated, settings, key, created)
VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?) ON CONFLICT (key) DO NOTHING RETURNING id"""
INSERT_EVENT = "INSERT INTO events (id, at, body) VALUES (?,?,?)"
SELECT_INPUT = """
SELECT inputs.seq, inputs.digest FROM inputs JOIN sessions ON sessions.id = inputs.session
WHERE sessions.key=? AND inputs.id=?"""
INSERT_INPUT = "INSERT INTO inputs (session, id, seq, digest) VALUES (?,?,?,?)"
SELECT_EVENT_BODY = "SELECT body FROM events WHERE id = (SELECT id << 32 FROM sessions WHERE key=?) + ?"


class SessionRowSettings(
    msgspec.Struct,
    frozen=True,
    omit_defaults=True,
    rename={"spawned": "errand", "client_tools_seq": "guested", "window_tokens": "weighed"},
):
    """The fields of a SessionInfo that no query sorts or filters by, stored as JSON in the column `settings`."""

    title: str = ""
    parent: str = ""
    model: str = ""
    fixed: int = 0
    amended: int = 0
    untrusted: bool = False
    profile: dict[str, str] = {}
    metadata: dict[str, str] = {}
    window_tokens: tuple[int, int, str] = NO_TOKEN_COUNT
    private: bool = False
    approval: ApprovalAsked | None = None
    spawned: Spawned | None = None
    delivered: int = 0
    client_tools_seq: int = 0
    person: str = ""
    calls: int = 0
    stopped_turn: int = 0
    set_aside: bool = False
    budget: SessionBudget = NO_SESSION_BUDGET
    compacted: int = 0


_encode = msgspec.json.Encoder().encode


def encode_settings(info: SessionInfo) -> str:
    settings = SessionRowSettings(
        info.title,
        info.parent,
        info.model,
        info.fixed,
        info.amended,
        info.untrusted,
        info.profile,
        info.metadata,
        info.window_tokens,
        info.private,
        info.approval,
        info.spawned,
        info.delivered,
        info.client_tools_seq,
        info.person,
        info.calls,
        info.stopped_turn,
        info.set_aside,
        info.budget,
        info.compacted,
    )
    return _encode(settings).decode()


class JournalAppend:
    """An append request: events, the session's new row, and the future that the caller awaits."""

    __slots__ = ("error", "events", "expected", "future", "idempotency_key", "info", "is_written_ahead", "preceding")

    def __init__(
        self,
        info: SessionInfo,
        expected: int,
        events: Sequence[bytes],
        idempotency_key: IdempotencyKey | None,
        future: asyncio.Future[None],
    ) -> None:
        self.is_written_ahead = False  # it is in the write-ahead file, and its future is resolved already
        self.preceding: Self | None = None  # written ahead, of the same session; executed with this one
        self.info = info
        self.expected = expected
        self.events = events
        self.idempotency_key = idempotency_key
        self.future = future
        self.error: Exception | None = None

    def execute(self, db: apsw.Connection) -> None:
        """Execute the append in the open transaction. If it is refused (stale writer, duplicate input), it sets `error`
        and changes nothing. Raises ValueError, TypeError or OverflowError for a value that SQLite cannot store."""
        new, once = self.info, self.idempotency_key
        if new.cost != new.cost:
            raise ValueError("the cost is not a number")
        if once is not None and (seen := db.execute(SELECT_INPUT, (new.key, once.id)).fetchone()):
            self.error = DuplicateInput(seen[0], same=seen[1] == once.digest)
            return
        row = (
            *(new.head, new.fold, new.floor, new.unfinished, new.status, new.turns, new.messages),
            *(new.prompt_tokens, new.completion_tokens, new.cost, new.updated, encode_settings(new), new.key),
        )
        first = self._first_expected
        if first:
            session = db.execute(UPDATE_SESSION, (*row, first)).fetchone()
        else:
            session = db.execute(INSERT_SESSION, (*row, new.created)).fetchone()
        if session is None:
            self.error = StaleWriter(f"session {new.key!r} was changed by another writer")
            return
        low: int = session[0] << 32
        db.executemany(INSERT_EVENT, self._event_rows(low))
        if once is not None:
            db.execute(INSERT_INPUT, (session[0], once.id, self.expected + 1, once.digest))

    def is_stored(self, db: apsw.Connection) -> bool:
        """Return whether the events are in the database; False if it cannot be read."""
        try:
            row = db.execute(SELECT_EVENT_BODY, (self.info.key, self.info.head)).fetchone()
        except apsw.Error:
            return False
        return row is not None and (not self.events or row[0] == self.events[-1].decode())

    @property
    def _first_expected(self) -> int:
        return self.expected if self.preceding is None else self.preceding._first_expected

    def _event_rows(self, low: int) -> list[tuple[int, int, str]]:
        rows = [] if self.preceding is None else self.preceding._event_rows(low)
        base, at = low + self.expected, self.info.updated
        rows += [(base + n, at, body.decode()) for n, body in enumerate(self.events, start=1)]
        return rows


def combine_appends(appends: Iterable[JournalAppend]) -> list[JournalAppend]:
    """Combine each append that was written ahead with the next one of its session, so that the session's row is updated
    once for both; return the appends to execute, in order."""
    result: list[JournalAppend] = []
    waiting: dict[str, JournalAppend] = {}  # by session: written ahead, not yet combined
    for append in appends:
        key = append.info.key
        if (before := waiting.pop(key, None)) is not None:
            if append.idempotency_key is None and append.expected == before.info.head:
                append.preceding = before
            else:
                result.append(before)
        if append.is_written_ahead:
            waiting[key] = append
        else:
            result.append(append)
    return result + list(waiting.values())
