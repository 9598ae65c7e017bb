"""What triggers did: the TriggerLog port on SQLite, in the workspace's own file."""

from __future__ import annotations

from typing import Any

import apsw

from mainstay.core.trigger_log import NAMES_MAX, NAMES_TRIM_EVERY, RUNS_MAX, TRIM_EVERY
from mainstay.core.triggers import Mark, Name, Run
from mainstay.store.sqlite.desk import Desk

_COLUMNS = "name, key, due, at, came, session, seq, note, outcome"
_RECORD = f"""
INSERT INTO trigger_runs ({_COLUMNS}) VALUES (?,?,?,?,?,?,?,?,?) ON CONFLICT (name, key) DO NOTHING RETURNING id"""
_MARK = """
INSERT INTO trigger_marks (name, upto, since, digest) VALUES (?,?,?,?)
ON CONFLICT (name) DO UPDATE SET upto=excluded.upto, since=excluded.since, digest=excluded.digest"""
# a time that its trigger's mark has not reached may come due again, and must be known then
_TRIM = """
DELETE FROM trigger_runs
WHERE id <= (SELECT id FROM trigger_runs ORDER BY id DESC LIMIT 1 OFFSET ?)
AND NOT EXISTS (SELECT 1 FROM trigger_marks WHERE trigger_marks.name = trigger_runs.name AND upto < due)"""

_NAME = """
INSERT INTO trigger_names (hook, name, key, until) VALUES (?,?,?,?) ON CONFLICT (hook, name) DO NOTHING RETURNING id"""
_NAMED = "SELECT key FROM trigger_names WHERE hook=? AND name=?"
_TRIM_AGED = "DELETE FROM trigger_names WHERE until > 0 AND until < ?"
_TRIM_NAMES = """
DELETE FROM trigger_names WHERE hook=?1
AND id <= (SELECT id FROM trigger_names WHERE hook=?1 ORDER BY id DESC LIMIT 1 OFFSET ?2)"""


class SqliteTriggerLog:
    """In a journal's file."""

    def __init__(self, desk: Desk, *, runs_max: int = RUNS_MAX, names_max: int = NAMES_MAX) -> None:
        self._desk = desk
        self._runs_max = runs_max
        self._names_max = names_max

    async def marks(self) -> dict[str, Mark]:
        def work(db: apsw.Connection) -> dict[str, Mark]:
            rows: Any = db.execute("SELECT name, upto, since, digest FROM trigger_marks ORDER BY name")
            return {
                name: Mark(trigger=name, upto=upto, since=since, digest=digest) for name, upto, since, digest in rows
            }

        return await self._desk.read(work)

    async def put(self, mark: Mark) -> None:
        await self._desk.write(lambda db: _mark(db, mark))

    async def drop(self, trigger: str) -> None:
        def work(db: apsw.Connection) -> None:
            db.execute("DELETE FROM trigger_marks WHERE name=?", (trigger,))

        await self._desk.write(work)

    async def record(self, run: Run, mark: Mark | None = None, name: Name | None = None) -> bool:
        def work(db: apsw.Connection) -> bool:
            if mark is not None:
                _mark(db, mark)
            if name is not None:
                self._give(db, name)
            row: Any = db.execute(_RECORD, _row(run)).fetchone()
            if row is not None and row[0] % TRIM_EVERY == 0:
                db.execute(_TRIM, (self._runs_max,))
            return row is not None

        return await self._desk.write(work)

    async def ended(self, trigger: str, key: str, outcome: str) -> None:
        def work(db: apsw.Connection) -> None:
            db.execute("UPDATE trigger_runs SET outcome=? WHERE name=? AND key=?", (outcome, trigger, key))

        await self._desk.write(work)

    async def find(self, trigger: str, key: str) -> Run | None:
        def work(db: apsw.Connection) -> Run | None:
            sql = f"SELECT {_COLUMNS} FROM trigger_runs WHERE name=? AND key=?"
            row = db.execute(sql, (trigger, key)).fetchone()
            return _run(row) if row is not None else None

        return await self._desk.read(work)

    async def runs(self, trigger: str = "", limit: int = 100) -> list[Run]:
        where, values = ("WHERE name=?", (trigger, limit)) if trigger else ("", (limit,))
        sql = f"SELECT {_COLUMNS} FROM trigger_runs {where} ORDER BY id DESC LIMIT ?"
        return await self._desk.read(lambda db: [_run(row) for row in db.execute(sql, values)])

    async def name(self, name: Name) -> str:
        return await self._desk.write(lambda db: self._give(db, name))

    async def named(self, hook: str, name: str) -> str | None:
        return await self._desk.read(lambda db: _named(db, hook, name))

    def _give(self, db: apsw.Connection, name: Name) -> str:
        row: Any = db.execute(_NAME, (name.hook, name.name, name.key, name.until)).fetchone()
        if row is not None and row[0] % NAMES_TRIM_EVERY == 0:
            db.execute(_TRIM_AGED, (name.at,))
            db.execute(_TRIM_NAMES, (name.hook, self._names_max))
        return name.key if row is not None else _named(db, name.hook, name.name) or name.key


def _named(db: apsw.Connection, hook: str, name: str) -> str | None:
    row: Any = db.execute(_NAMED, (hook, name)).fetchone()
    return row[0] if row is not None else None


def _mark(db: apsw.Connection, mark: Mark) -> None:
    db.execute(_MARK, (mark.trigger, mark.upto, mark.since, mark.digest))


def _row(run: Run) -> tuple[str | int, ...]:
    return run.trigger, run.key, run.due, run.at, run.came, run.session, run.seq, run.note, run.outcome


def _run(row: Any) -> Run:
    name, key, due, at, came, session, seq, note, outcome = row
    return Run(trigger=name, key=key, due=due, at=at, came=came, session=session, seq=seq, note=note, outcome=outcome)
