"""One session's new events on their way into the database, and how they get there."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import Self

import apsw
import msgspec

from mainstay.core.errors import DuplicateInput, StaleWriter
from mainstay.core.events import ApprovalAsked, Spawned
from mainstay.core.ports import UNWEIGHED, Once, Standing

UPDATE = """
UPDATE sessions SET head=?, fold=?, floor=?, unfinished=?, status=?, turns=?, messages=?, prompt_tokens=?,
    completion_tokens=?, cost=?, updated=?, settings=?
WHERE key=? AND head=? RETURNING id"""
INSERT = """
INSERT INTO sessions (head, fold, floor, unfinished, status, turns, messages, prompt_tokens, completion_tokens,
    cost, updated, settings, key, created)
VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?) ON CONFLICT (key) DO NOTHING RETURNING id"""
EVENT = "INSERT INTO events (id, at, body) VALUES (?,?,?)"
SEEN = """
SELECT inputs.seq, inputs.digest FROM inputs JOIN sessions ON sessions.id = inputs.session
WHERE sessions.key=? AND inputs.id=?"""
REMEMBER = "INSERT INTO inputs (session, id, seq, digest) VALUES (?,?,?,?)"
STANDS = "SELECT body FROM events WHERE id = (SELECT id << 32 FROM sessions WHERE key=?) + ?"


class Settings(msgspec.Struct, frozen=True, omit_defaults=True):
    """The part of a standing that nothing is sorted or searched by."""

    title: str = ""
    parent: str = ""
    model: str = ""
    fixed: int = 0
    amended: int = 0
    untrusted: bool = False
    profile: dict[str, str] = {}
    metadata: dict[str, str] = {}
    weighed: tuple[int, int, str] = UNWEIGHED
    private: bool = False
    approval: ApprovalAsked | None = None
    errand: Spawned | None = None
    delivered: int = 0
    guested: int = 0
    person: str = ""
    calls: int = 0


_encode = msgspec.json.Encoder().encode


def settings_of(standing: Standing) -> str:
    settings = Settings(
        standing.title,
        standing.parent,
        standing.model,
        standing.fixed,
        standing.amended,
        standing.untrusted,
        standing.profile,
        standing.metadata,
        standing.weighed,
        standing.private,
        standing.approval,
        standing.errand,
        standing.delivered,
        standing.guested,
        standing.person,
        standing.calls,
    )
    return _encode(settings).decode()


class Append:
    """Some events, and who waits for them."""

    __slots__ = ("ahead", "before", "done", "error", "events", "expected", "once", "standing")

    def __init__(
        self,
        standing: Standing,
        expected: int,
        events: Sequence[bytes],
        once: Once | None,
        done: asyncio.Future[None],
    ) -> None:
        self.ahead = False  # it is kept in a file beside the database, and nobody waits for it any more
        self.before: Self | None = None  # such a one, of the same session, which is made together with this
        self.standing = standing
        self.expected = expected
        self.events = events
        self.once = once
        self.done = done
        self.error: Exception | None = None

    def make(self, db: apsw.Connection) -> None:
        """In a transaction that is open; what cannot be made has an `error`, and has changed nothing."""
        new, once = self.standing, self.once
        if once is not None and (seen := db.execute(SEEN, (new.key, once.id)).fetchone()):
            self.error = DuplicateInput(seen[0], same=seen[1] == once.digest)
            return
        row = (
            *(new.head, new.fold, new.floor, new.unfinished, new.status, new.turns, new.messages),
            *(new.prompt_tokens, new.completion_tokens, new.cost, new.updated, settings_of(new), new.key),
        )
        first = self._first
        if first:
            found = db.execute(UPDATE, (*row, first)).fetchone()
        else:
            found = db.execute(INSERT, (*row, new.created)).fetchone()
        if found is None:
            self.error = StaleWriter(f"session {new.key!r} was changed by another writer")
            return
        low: int = found[0] << 32
        db.executemany(EVENT, self._rows(low))
        if once is not None:
            db.execute(REMEMBER, (found[0], once.id, self.expected + 1, once.digest))

    def stands(self, db: apsw.Connection) -> bool:
        """Whether it is there, for all that the database says."""
        try:
            row = db.execute(STANDS, (self.standing.key, self.standing.head)).fetchone()
        except apsw.Error:
            return False
        return row is not None and (not self.events or row[0] == self.events[-1].decode())

    @property
    def _first(self) -> int:
        return self.expected if self.before is None else self.before._first

    def _rows(self, low: int) -> list[tuple[int, int, str]]:
        rows = [] if self.before is None else self.before._rows(low)
        base, at = low + self.expected, self.standing.updated
        rows += [(base + n, at, body.decode()) for n, body in enumerate(self.events, start=1)]
        return rows


def joined(appends: Iterable[Append]) -> list[Append]:
    """One that was written ahead is made with the next of its session: one row of the session is changed for both."""
    made: list[Append] = []
    waiting: dict[str, Append] = {}
    for append in appends:
        key = append.standing.key
        if (before := waiting.pop(key, None)) is not None:
            if append.once is None and append.expected == before.standing.head:
                append.before = before
            else:
                made.append(before)
        if append.ahead:
            waiting[key] = append
        else:
            made.append(append)
    return made + list(waiting.values())
