"""TriggerLog on SQLite: cursors and runs of triggers, and webhook delivery ids, in the workspace's file."""

from __future__ import annotations

from collections.abc import Iterable

import apsw

from mainstay.core.triggers import (
    ALIASES_MAX,
    ALIASES_TRIM_EVERY,
    RUNS_MAX,
    RUNS_TRIM_EVERY,
    TriggerCursor,
    TriggerRun,
    TriggerRunResult,
    WebhookDeliveryId,
)
from mainstay.store.sqlite.workspace_database import WorkspaceDatabase

TriggerRunRow = tuple[str, str, int, int, TriggerRunResult, str, int, str, str]  # see _RUN_COLUMNS

_RUN_COLUMNS = "name, key, due, at, came, session, seq, note, outcome"
_INSERT_RUN = f"""
INSERT INTO trigger_runs ({_RUN_COLUMNS}) VALUES (?,?,?,?,?,?,?,?,?) ON CONFLICT (name, key) DO NOTHING RETURNING id"""
_UPSERT_CURSOR = """
INSERT INTO trigger_marks (name, upto, since, digest) VALUES (?,?,?,?)
ON CONFLICT (name) DO UPDATE SET upto=excluded.upto, since=excluded.since, digest=excluded.digest"""
# a run whose due time the trigger's cursor has not reached may become due again, and must be found then
_DELETE_OLD_RUNS = """
DELETE FROM trigger_runs
WHERE id <= (SELECT id FROM trigger_runs ORDER BY id DESC LIMIT 1 OFFSET ?)
AND NOT EXISTS (SELECT 1 FROM trigger_marks WHERE trigger_marks.name = trigger_runs.name AND upto < due)"""

_INSERT_ALIAS = """
INSERT INTO trigger_names (hook, name, key, until) VALUES (?,?,?,?) ON CONFLICT (hook, name) DO NOTHING RETURNING id"""
_SELECT_ALIAS_KEY = "SELECT key FROM trigger_names WHERE hook=? AND name=?"
_DELETE_EXPIRED_ALIASES = "DELETE FROM trigger_names WHERE until > 0 AND until < ?"
_DELETE_EXCESS_ALIASES = """
DELETE FROM trigger_names WHERE hook=?1
AND id <= (SELECT id FROM trigger_names WHERE hook=?1 ORDER BY id DESC LIMIT 1 OFFSET ?2)"""


class SqliteTriggerLog:
    def __init__(
        self, database: WorkspaceDatabase, *, runs_max: int = RUNS_MAX, aliases_max: int = ALIASES_MAX
    ) -> None:
        self._database = database
        self._runs_max = runs_max
        self._aliases_max = aliases_max

    async def list_cursors(self) -> dict[str, TriggerCursor]:
        def work(db: apsw.Connection) -> dict[str, TriggerCursor]:
            rows: Iterable[tuple[str, int, int, str]] = db.execute(
                "SELECT name, upto, since, digest FROM trigger_marks ORDER BY name"
            )
            return {
                name: TriggerCursor(trigger=name, upto=upto, since=since, digest=digest)
                for name, upto, since, digest in rows
            }

        return await self._database.read(work)

    async def save_cursor(self, cursor: TriggerCursor) -> None:
        await self._database.write(lambda db: _upsert_cursor(db, cursor))

    async def delete_cursor(self, trigger: str) -> None:
        def work(db: apsw.Connection) -> None:
            db.execute("DELETE FROM trigger_marks WHERE name=?", (trigger,))

        await self._database.write(work)

    async def record_run(
        self, run: TriggerRun, cursor: TriggerCursor | None = None, alias: WebhookDeliveryId | None = None
    ) -> bool:
        def work(db: apsw.Connection) -> bool:
            if cursor is not None:
                _upsert_cursor(db, cursor)
            if alias is not None:
                self._insert_alias(db, alias)
            row: tuple[int] | None = db.execute(_INSERT_RUN, _run_row(run)).fetchone()
            if row is not None and row[0] % RUNS_TRIM_EVERY == 0:
                db.execute(_DELETE_OLD_RUNS, (self._runs_max,))
            return row is not None

        return await self._database.write(work)

    async def set_outcome(self, trigger: str, key: str, outcome: str) -> None:
        def work(db: apsw.Connection) -> None:
            db.execute("UPDATE trigger_runs SET outcome=? WHERE name=? AND key=?", (outcome, trigger, key))

        await self._database.write(work)

    async def find_run(self, trigger: str, key: str) -> TriggerRun | None:
        def work(db: apsw.Connection) -> TriggerRun | None:
            sql = f"SELECT {_RUN_COLUMNS} FROM trigger_runs WHERE name=? AND key=?"
            row = db.execute(sql, (trigger, key)).fetchone()
            return _row_to_run(row) if row is not None else None

        return await self._database.read(work)

    async def list_runs(self, trigger: str = "", limit: int = 100) -> list[TriggerRun]:
        where, values = ("WHERE name=?", (trigger, limit)) if trigger else ("", (limit,))
        sql = f"SELECT {_RUN_COLUMNS} FROM trigger_runs {where} ORDER BY id DESC LIMIT ?"
        return await self._database.read(lambda db: [_row_to_run(row) for row in db.execute(sql, values)])

    async def add_alias(self, alias: WebhookDeliveryId) -> str:
        return await self._database.write(lambda db: self._insert_alias(db, alias))

    async def resolve_alias(self, hook: str, name: str) -> str | None:
        return await self._database.read(lambda db: _select_alias_key(db, hook, name))

    def _insert_alias(self, db: apsw.Connection, alias: WebhookDeliveryId) -> str:
        """Add an alias unless its id is known; returns the key that the id resolves to."""
        row: tuple[int] | None = db.execute(_INSERT_ALIAS, (alias.hook, alias.name, alias.key, alias.until)).fetchone()
        if row is not None and row[0] % ALIASES_TRIM_EVERY == 0:
            db.execute(_DELETE_EXPIRED_ALIASES, (alias.at,))
            db.execute(_DELETE_EXCESS_ALIASES, (alias.hook, self._aliases_max))
        return alias.key if row is not None else _select_alias_key(db, alias.hook, alias.name) or alias.key


def _select_alias_key(db: apsw.Connection, hook: str, name: str) -> str | None:
    row: tuple[str] | None = db.execute(_SELECT_ALIAS_KEY, (hook, name)).fetchone()
    return row[0] if row is not None else None


def _upsert_cursor(db: apsw.Connection, cursor: TriggerCursor) -> None:
    db.execute(_UPSERT_CURSOR, (cursor.trigger, cursor.upto, cursor.since, cursor.digest))


def _run_row(run: TriggerRun) -> tuple[str | int, ...]:
    return run.trigger, run.key, run.due, run.at, run.result, run.session, run.seq, run.note, run.outcome


def _row_to_run(row: TriggerRunRow) -> TriggerRun:
    name, key, due, at, result, session, seq, note, outcome = row
    return TriggerRun(
        trigger=name, key=key, due=due, at=at, result=result, session=session, seq=seq, note=note, outcome=outcome
    )
