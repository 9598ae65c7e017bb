"""The ledger of a home on SQLite: what was spent by the hour, for everyone for whom it is counted.

It is always kept, so that a budget that is configured today knows what was spent before in its month.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import apsw
import msgspec

from mainstay.core.following import Stretch
from mainstay.core.ledger import HOUR_MS, KEPT_HOURS, Entry, Put, Row, Scope, entries
from mainstay.store.sqlite.observed import SqliteObserved

Sums = tuple[int, int, int, int]  # nanodollars, tokens, calls, and nanodollars of what was lost
_NOTHING: Sums = (0, 0, 0, 0)
Heard = Callable[[str, Iterable[Row]], None]

_ADD = """
INSERT INTO ledger (scope, name, hour, nanodollars, tokens, calls, lost) VALUES (?,?,?,?,?,?,?)
ON CONFLICT (scope, name, hour) DO UPDATE SET nanodollars=nanodollars+excluded.nanodollars,
    tokens=tokens+excluded.tokens, calls=calls+excluded.calls, lost=lost+excluded.lost"""
_POSITIONS = "SELECT session, position FROM ledger_followed WHERE workspace=? AND NOT away"
_POSITION = """
SELECT created, position FROM ledger_followed WHERE workspace=? AND session=? AND (NOT away OR created=?)
ORDER BY away LIMIT 1"""
_FOLLOWED = """
INSERT INTO ledger_followed (workspace, session, created, position, hour, away) VALUES (?,?,?,?,?,0)
ON CONFLICT (workspace, session, created) DO UPDATE SET position=excluded.position, hour=excluded.hour, away=0"""
_OPEN = "SELECT id, hour, person, nanodollars, tokens FROM ledger_open WHERE workspace=? AND session=?"
_PUT = """
INSERT OR REPLACE INTO ledger_open (workspace, session, id, person, hour, nanodollars, tokens)
VALUES (?,?,?,?,?,?,?)"""
_CLOSE = "DELETE FROM ledger_open WHERE workspace=? AND session=? AND id=?"


class Total(msgspec.Struct, frozen=True):
    """What somebody has spent since some hour, with what is put aside."""

    scope: str
    name: str
    nanodollars: int
    tokens: int
    calls: int
    lost: int


class SqliteLedger:
    """The Reader of one workspace. `heard` is told what was added."""

    name = "ledger"

    def __init__(self, books: SqliteObserved, workspace: str, heard: Heard | None = None) -> None:
        self._books = books
        self._workspace = workspace
        self._heard = heard
        self._pruned = 0  # the hour in which that was done last

    async def positions(self) -> dict[str, int]:
        def work(db: apsw.Connection) -> dict[str, int]:
            rows: Any = db.execute(_POSITIONS, (self._workspace,))
            return dict(rows)

        return await self._books.read(work)

    async def take(self, stretch: Stretch) -> None:
        if not stretch.records:
            return
        rows = await self._books.write(lambda db: self._take(db, stretch))
        if self._heard is not None and rows:
            self._heard(self._workspace, rows)

    def _take(self, db: apsw.Connection, stretch: Stretch) -> list[Row]:
        """What is known already is not counted twice, whoever offers it; nor is what was put away and is back."""
        place = (self._workspace, stretch.standing.key)
        row: Any = db.execute(_POSITION, (*place, stretch.standing.created)).fetchone()
        created, known = row if row is not None else (stretch.standing.created, 0)
        new = [record for record in stretch.records if record.seq > known]
        if not new:
            return []
        earlier = (*stretch.earlier, *stretch.records[: len(stretch.records) - len(new)])
        found: Any = db.execute(_OPEN, place) if known else ()  # else they are another's of its name
        open = {id: Put(*rest) for id, *rest in found}
        before = dict(open)
        rows = self._rows(entries(msgspec.structs.replace(stretch, records=new, earlier=earlier), open))
        db.executemany(_ADD, rows)
        for id in before.keys() - open.keys():
            db.execute(_CLOSE, (*place, id))
        for id, put in open.items():
            if before.get(id) != put:
                db.execute(_PUT, (*place, id, put.person, put.hour, put.money, put.tokens))
        hour = new[-1].at // HOUR_MS
        db.execute(_FOLLOWED, (*place, created, new[-1].seq, hour))
        if hour != self._pruned:
            self._pruned = hour
            _prune(db)
        return [(scope, name, hour, money, tokens, calls) for scope, name, hour, money, tokens, calls, _ in rows]

    def _rows(self, made: Iterable[Entry]) -> list[tuple[Scope, str, int, int, int, int, int]]:
        """Each counts for the person, the workspace and the home; what is the same to the ledger is joined."""
        people: dict[tuple[str, int], Sums] = {}
        for one in made:
            money, tokens, calls, lost = people.get((one.person, one.hour), _NOTHING)
            sums = money + one.money, tokens + one.tokens, calls + one.calls, lost + one.lost
            people[one.person, one.hour] = sums
        hours: dict[int, Sums] = {}
        for (_, hour), (money, tokens, calls, lost) in people.items():
            total = hours.get(hour, _NOTHING)
            hours[hour] = money + total[0], tokens + total[1], calls + total[2], lost + total[3]
        rows: list[tuple[Scope, str, int, int, int, int, int]] = []
        rows += [("person", person, hour, *sums) for (person, hour), sums in people.items()]
        for scope, name in (("workspace", self._workspace), ("home", "")):
            rows += [(scope, name, hour, *sums) for hour, sums in hours.items()]  # type: ignore[misc]
        return rows


def _prune(db: apsw.Connection) -> None:
    """All but the youngest hours. No clock is asked: one that is ahead would take away what is young by now."""
    sql = "SELECT hour FROM ledger WHERE scope='home' AND name='' ORDER BY hour DESC LIMIT 1 OFFSET ?"
    if (row := db.execute(sql, (KEPT_HOURS - 1,)).fetchone()) is not None:
        db.execute("DELETE FROM ledger WHERE hour < ?", row)
        db.execute("DELETE FROM ledger_open WHERE hour < ?", row)
        db.execute("DELETE FROM ledger_followed WHERE away AND hour < ?", row)


async def load(books: SqliteObserved) -> list[Row]:
    """All that is kept. In the order of what is written: what a reader has told of before is in it."""
    sql = "SELECT scope, name, hour, nanodollars, tokens, calls FROM ledger"

    def work(db: apsw.Connection) -> list[Row]:
        rows: Any = db.execute(sql).fetchall()
        return list(rows)

    return await books.write(work)


def totals(db: apsw.Connection, since: int) -> list[Total]:
    """Of everybody, from this hour on."""
    sql = """SELECT scope, name, sum(nanodollars), sum(tokens), sum(calls), sum(lost) FROM ledger
        WHERE hour >= ? GROUP BY scope, name ORDER BY scope, name"""
    rows: Any = db.execute(sql, (since,))
    return [Total(*row) for row in rows]


def put_aside(db: apsw.Connection) -> int:
    """Nanodollars, for calls whose end was not read yet."""
    row: Any = db.execute("SELECT coalesce(sum(nanodollars), 0) FROM ledger_open").fetchone()
    return int(row[0])


def is_there(db: apsw.Connection) -> bool:
    """A file of an earlier release has no ledger before somebody opens it."""
    return db.execute("SELECT 1 FROM sqlite_master WHERE name='ledger'").fetchone() is not None
