"""PostgreSQL: a read-only transaction, and the locks it holds say what a statement really reads.

Whatever relation a statement touches, by a view, a function or a rule, PostgreSQL locks first and keeps locked until
the transaction ends. So the statement is explained, which takes the locks and reads nothing; the locks are looked at;
only then it runs, and they are looked at again before a row is shown.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Coroutine, Sequence
from functools import cache, partial
from typing import Any, TypeVar

import msgspec

from mainstay.backends.common import BackendRefused
from mainstay.backends.sql_catalog import Catalog, Column, Detail, Kind, Relation
from mainstay.backends.sql_engine import (
    CATALOG_S,
    COLUMNS_MAX,
    RELATIONS_MAX,
    Gate,
    Page,
    Reading,
    check_count,
    failed,
    hang_up,
    outside,
    scope_of,
    too_slow,
    unreachable,
)
from mainstay.backends.sql_rows import CELL_CHARS_MAX, Rows, binary, shorten
from mainstay.backends.sql_scope import Scope, SqlScope
from mainstay.backends.sql_statements import Judge, Statement, TableUnknown, check_view
from mainstay.backends.sql_words import POSTGRES
from mainstay.core.errors import ConfigError
from mainstay.core.workers import in_thread

T = TypeVar("T")

CONNECT_S = 10
BYTEA = 17
_KINDS: dict[str, Kind] = {
    "r": "table",
    "p": "table",
    "v": "view",
    "m": "materialized view",
    "f": "foreign table",
}

_RELATIONS = """
SELECT c.oid::bigint, n.nspname::text, c.relname::text, c.relkind::text, c.reltuples::bigint, current_database()::text
FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f') AND n.nspname NOT LIKE 'pg\\_toast%%' AND n.nspname NOT LIKE 'pg\\_temp%%'
ORDER BY n.nspname, c.relname LIMIT %s
"""
_COLUMNS = """
SELECT a.attrelid::bigint, a.attname::text, pg_catalog.format_type(a.atttypid, a.atttypmod), NOT a.attnotnull,
       EXISTS (SELECT FROM pg_catalog.pg_index i
               WHERE i.indrelid = a.attrelid AND i.indisprimary AND a.attnum = ANY (i.indkey))
FROM pg_catalog.pg_attribute a
WHERE a.attrelid = ANY (%s::oid[]) AND a.attnum > 0 AND NOT a.attisdropped
ORDER BY a.attrelid, a.attnum LIMIT %s
"""
# All that a relation stands for: what its rules read, its partitions and children, what its policies look at.
_STANDS_FOR = """
WITH RECURSIVE reached (root, oid, how) AS (
    SELECT start, start, 'self' FROM unnest(%s::oid[]) AS start
    UNION
    SELECT reached.root, more.oid, more.how
    FROM reached CROSS JOIN LATERAL (
        SELECT d.refobjid, 'rule' FROM pg_catalog.pg_rewrite w JOIN pg_catalog.pg_depend d
            ON d.classid = 'pg_catalog.pg_rewrite'::regclass AND d.objid = w.oid
        WHERE w.ev_class = reached.oid AND d.refclassid = 'pg_catalog.pg_class'::regclass AND d.refobjid <> w.ev_class
        UNION ALL
        SELECT h.inhrelid, 'child' FROM pg_catalog.pg_inherits h WHERE h.inhparent = reached.oid
        UNION ALL
        SELECT d.refobjid, 'policy' FROM pg_catalog.pg_policy p JOIN pg_catalog.pg_depend d
            ON d.classid = 'pg_catalog.pg_policy'::regclass AND d.objid = p.oid
        WHERE p.polrelid = reached.oid AND d.refclassid = 'pg_catalog.pg_class'::regclass AND d.refobjid <> p.polrelid
    ) AS more (oid, how)
)
SELECT r.root::bigint, r.oid::bigint, r.how, c.relkind::text,
    EXISTS (SELECT FROM pg_catalog.pg_rewrite w JOIN pg_catalog.pg_depend d
                ON d.classid = 'pg_catalog.pg_rewrite'::regclass AND d.objid = w.oid
            WHERE w.ev_class = r.oid AND d.refclassid = 'pg_catalog.pg_proc'::regclass),
    EXISTS (SELECT FROM pg_catalog.pg_policy p JOIN pg_catalog.pg_depend d
                ON d.classid = 'pg_catalog.pg_policy'::regclass AND d.objid = p.oid
            WHERE p.polrelid = r.oid AND d.refclassid = 'pg_catalog.pg_proc'::regclass),
    CASE WHEN c.relkind IN ('v', 'm') THEN pg_catalog.pg_get_viewdef(c.oid) END,
    ARRAY(SELECT i.indexrelid::bigint FROM pg_catalog.pg_index i WHERE i.indrelid IN (c.oid, c.reltoastrelid))
        || c.reltoastrelid::bigint
FROM reached r JOIN pg_catalog.pg_class c ON c.oid = r.oid
"""
_LOCKS = """
SELECT DISTINCT relation::bigint FROM pg_catalog.pg_lock_status()
WHERE locktype = 'relation' AND pid = pg_catalog.pg_backend_pid()
"""
_OWN = """
SELECT c.oid::bigint FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname IN ('pg_catalog', 'information_schema', 'pg_toast')
"""
_DETAILS = """
SELECT CASE WHEN i.indisunique THEN 'unique index on' ELSE 'index on' END,
    ARRAY(SELECT coalesce(a.attname::text, '') FROM unnest(i.indkey::int2[]) AS k
          LEFT JOIN pg_catalog.pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k), ''
FROM pg_catalog.pg_index i WHERE i.indrelid = %(oid)s::oid
UNION ALL
SELECT 'index on', ARRAY(SELECT a.attname::text FROM unnest(c.conkey) AS k
                         JOIN pg_catalog.pg_attribute a ON a.attrelid = c.conrelid AND a.attnum = k), t.relname::text
FROM pg_catalog.pg_constraint c JOIN pg_catalog.pg_class t ON t.oid = c.confrelid
WHERE c.conrelid = %(oid)s::oid AND c.contype = 'f'
"""


class _Reached(msgspec.Struct, frozen=True):
    """What a statement may lock."""

    relations: frozenset[int]  # with their indexes
    hidden: bool  # a view that was granted by name calls functions: what they read is the owner's to answer for
    guarded: bool  # policies call functions, which may read what they need to decide


class PostgresEngine:
    dialect = POSTGRES

    def __init__(self, url: str, scope: SqlScope, timeout_s: float, *, write: bool) -> None:
        self._url = url
        self._scope = scope
        self._seconds = timeout_s
        self._write = write
        self._gate = Gate(timeout_s)
        self._known: tuple[float, Catalog] | None = None

    async def catalog(self) -> tuple[Catalog, Scope]:
        return await self._run(lambda session: self._look_up(session, fresh=True))

    async def details(self, relation: Relation) -> Sequence[Detail]:
        async def work(session: Any) -> list[Detail]:
            found = await _all(session, _DETAILS, {"oid": relation.id})
            return [Detail(tuple(parts), what, to) for what, parts, to in found]

        return await self._run(work)

    async def query(self, reading: Reading, page: Page) -> tuple[Statement, Rows]:
        async def work(session: Any) -> tuple[Statement, Rows]:
            statement, reached = await self._judged(session, reading)
            await self._begin(session, "ISOLATION LEVEL REPEATABLE READ READ ONLY")
            await _explain(session, statement.sql)
            await _check_locks(session, reached, before=True)
            rows = await _rows(session, statement.sql, page)
            await _check_locks(session, reached, before=False)
            return statement, rows

        return await self._run(work)

    async def change(self, reading: Reading) -> int:
        assert self._write, "a backend that only reads has no change"

        async def work(session: Any) -> int:
            statement, reached = await self._judged(session, reading)
            await self._begin(session, "READ WRITE")
            await _explain(session, statement.sql)
            await _check_locks(session, reached, before=True)
            count: int = (await session.execute(statement.sql)).rowcount
            await session.execute("COMMIT")
            return count

        return await self._run(work)

    # --- at work -----------------------------------------------------------------------------------

    async def _run(self, work: Callable[[Any], Coroutine[None, None, T]]) -> T:
        """With a connection of its own, which ends with it: whatever was not committed is undone."""
        psycopg = _psycopg()
        held: list[Any] = []

        async def run() -> T:
            try:
                held.append(await self._connect())
                await self._begin(held[0], "READ ONLY")
                return await work(held[0])
            except psycopg.errors.QueryCanceled:
                raise too_slow(self._seconds) from None
            except psycopg.Error as error:
                said = error.diag.message_primary
                raise (failed(said) if said and held else unreachable(POSTGRES.title)) from None
            finally:
                for session in held:
                    await session.close()

        def abort() -> None:
            for session in held:
                hang_up(-1 if session.closed else session.fileno())

        return await self._gate.run(run, abort)

    async def _connect(self) -> Any:
        try:
            return await _psycopg().AsyncConnection.connect(
                self._url,
                autocommit=True,
                connect_timeout=max(2, int(min(CONNECT_S, self._seconds))),
                prepare_threshold=None,
                client_encoding="utf8",
            )
        except (OSError, UnicodeError):
            raise unreachable(POSTGRES.title) from None

    async def _begin(self, session: Any, mode: str) -> None:
        """A transaction, and how the server is to read and run what it gets, whatever it was told before.

        For the transaction alone: where a pooler stands between, the next one may be with another server process.
        """
        ms = max(1, int(self._seconds * 1000))
        settings = {
            "search_path": "pg_catalog, pg_temp",  # nobody's own function or operator is found
            "standard_conforming_strings": "on",
            "row_security": "on",
            "statement_timeout": ms,
            "lock_timeout": min(ms, 5000),
            "idle_in_transaction_session_timeout": ms,
            "synchronize_seqscans": "off",  # pages fit together
            "max_parallel_workers_per_gather": 0,
            "cursor_tuple_fraction": 1,
            "jit": "off",
            "datestyle": "ISO",
            "intervalstyle": "postgres",
        }
        if session.info.server_version >= 140000:
            settings["client_connection_check_interval"] = 500  # once we are gone, it need not go on
        told = "; ".join(f"SET LOCAL {name} = {value}" for name, value in settings.items())
        before = "" if session.info.transaction_status.name == "IDLE" else "COMMIT; "
        await session.execute(f"{before}BEGIN {mode}; {told}")

    async def _look_up(self, session: Any, *, fresh: bool) -> tuple[Catalog, Scope]:
        """An old one does no harm: the locks say what a name stands for now."""
        now = time.monotonic()
        if fresh or self._known is None or now - self._known[0] > CATALOG_S:
            self._known = (now, await self._catalog(session))
        catalog = self._known[1]
        return catalog, scope_of(self._scope, catalog)

    async def _catalog(self, session: Any) -> Catalog:
        found = await _all(session, _RELATIONS, (RELATIONS_MAX,))
        check_count(len(found), POSTGRES.title)
        bare = [_relation(*row) for row in found]
        catalog = Catalog(bare, ("public",), str)
        scope = scope_of(self._scope, catalog)
        wanted = [one.id for one in bare if scope.grant(one)]
        columns: dict[int, list[Column]] = {}
        for oid, *rest in await _all(session, _COLUMNS, (wanted, COLUMNS_MAX)):
            name, kind, nullable, key = rest
            columns.setdefault(oid, []).append(Column(name, _type(kind), nullable, key))
        full = [msgspec.structs.replace(one, columns=tuple(columns.get(one.id, ()))) for one in bare]
        return Catalog(full, ("public",), str)

    async def _judged(self, session: Any, reading: Reading) -> tuple[Statement, _Reached]:
        catalog, scope = await self._look_up(session, fresh=False)
        try:
            statement = await in_thread(lambda: reading(Judge(POSTGRES, catalog, scope)))
        except TableUnknown:
            catalog, scope = await self._look_up(session, fresh=True)  # it may be new
            statement = await in_thread(lambda: reading(Judge(POSTGRES, catalog, scope)))
        return statement, await _reached(session, statement, catalog, scope)


async def _reached(session: Any, statement: Statement, catalog: Catalog, scope: Scope) -> _Reached:
    """What the named relations stand for; of those that were granted by a pattern, nothing that was not granted."""
    named = {one.id: one for one in statement.relations}
    by_id = {one.id: one for one in catalog}
    allowed: set[int] = set()
    hidden = guarded = False
    for root, oid, how, *rest in await _all(session, _STANDS_FOR, ([*named],)):
        kind, rule_calls, policy_calls, definition, attached = rest
        allowed |= {oid, *attached}
        by_name = scope.grant(named[root]) == "name" or named[root].system
        guarded = guarded or policy_calls
        hidden = hidden or (by_name and rule_calls)
        if by_name or how == "policy":
            continue
        found = by_id.get(oid)
        if kind == "f" or rule_calls or (how == "rule" and (found is None or not scope.grant(found))):
            raise outside("something else")
        if definition:
            await in_thread(partial(check_view, definition, POSTGRES))
    if any(one.system for one in named.values()):
        allowed |= {oid for (oid,) in await _all(session, _OWN, None)}
    return _Reached(frozenset(allowed), hidden, guarded)


async def _explain(session: Any, sql: str) -> None:
    """Takes the locks and reads nothing. Asked for in binary, as that way a single statement is all there can be."""
    await session.execute(f"EXPLAIN {sql}", binary=True)


async def _check_locks(session: Any, reached: _Reached, *, before: bool) -> None:
    """Looking at them takes none."""
    if reached.hidden or (reached.guarded and not before):
        return
    if any(oid not in reached.relations for (oid,) in await _all(session, _LOCKS, None)):
        raise outside("something else")


async def _rows(session: Any, sql: str, page: Page) -> Rows:
    """The server cuts what is long, so that no row of its can be too large for us."""
    described = (await session.execute(f"SELECT * FROM ({sql}) AS page LIMIT 0")).description or ()
    names = [f"c{at}" for at in range(len(described))]
    parts = []
    for name, column in zip(names, described, strict=True):
        if column.type_code == BYTEA:
            parts.append(f"NULL::text, octet_length({name})")
        else:
            parts.append(f"left({name}::text, {CELL_CHARS_MAX + 1}), char_length({name}::text)")
    if not parts:
        raise BackendRefused("The statement has no columns.")
    aliased = f"({sql}) AS page ({', '.join(names)})"
    await session.execute(f"DECLARE page NO SCROLL CURSOR FOR SELECT {', '.join(parts)} FROM {aliased}")
    if page.offset:
        await session.execute(f"MOVE FORWARD {page.offset} FROM page")
    found = await _all(session, f"FETCH FORWARD {page.rows + 1} FROM page", None)
    binaries = [column.type_code == BYTEA for column in described]
    shown = [_shown(row, binaries) for row in found[: page.rows]]
    return Rows(tuple(column.name for column in described), shown, len(found) > page.rows)


def _shown(row: Sequence[Any], binaries: Sequence[bool]) -> tuple[str | None, ...]:
    cells: list[str | None] = []
    for at, is_binary in enumerate(binaries):
        text, length = row[2 * at], row[2 * at + 1]
        cells.append(None if length is None else binary(length) if is_binary else shorten(text, length))
    return tuple(cells)


def _relation(oid: int, schema: str, name: str, kind: str, rows: int, database: str) -> Relation:
    return Relation(
        database=database,
        schema=schema,
        name=name,
        kind=_KINDS[kind],
        system=schema == "information_schema" or schema.startswith("pg_"),
        rows=rows if rows > 0 and kind != "v" else None,
        id=oid,
    )


def _type(kind: str) -> str:
    """By its shorter name."""
    kind = kind.replace("timestamp with time zone", "timestamptz").replace(" without time zone", "")
    return kind.replace("character varying", "varchar")


async def _all(session: Any, sql: str, parameters: Any) -> list[Any]:
    return list(await (await session.execute(sql, parameters)).fetchall())


@cache
def _psycopg() -> Any:
    try:
        import psycopg
    except ImportError:
        raise ConfigError("a PostgreSQL backend needs psycopg: pip install -e '.[postgres]'") from None
    return psycopg
