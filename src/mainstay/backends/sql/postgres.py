"""PostgreSQL engine: read-only transactions, and a check of the locks that a statement really takes.

PostgreSQL locks every relation that a statement touches, also through a view, a function or a rule, and keeps the lock
until the transaction ends. So the statement is explained first, which takes the locks and reads nothing; then the locks
are checked; then it runs, and they are checked again before a row is shown.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Coroutine, Sequence
from functools import cache, partial
from types import ModuleType
from typing import TypeVar

import msgspec

from mainstay.backends.base import BackendRefused
from mainstay.backends.sql.catalog import Catalog, IndexOrForeignKey, Relation, RelationKind, SqlColumn
from mainstay.backends.sql.csv_results import CELL_CHARS_MAX, ResultRows, format_binary, truncate_cell
from mainstay.backends.sql.driver_protocols import Parameters, PsycopgConnection, Row
from mainstay.backends.sql.engine import (
    CATALOG_AGE_MAX_S,
    COLUMNS_MAX,
    RELATIONS_MAX,
    CallLimiter,
    ResultPageRequest,
    StatementCheck,
    build_scope_matcher,
    check_relation_count,
    database_error,
    out_of_scope_error,
    shut_down_connection,
    timeout_error,
    unreachable_error,
)
from mainstay.backends.sql.manifest import SqlScope
from mainstay.backends.sql.scope import SqlScopeMatcher
from mainstay.backends.sql.statement_allowlists import POSTGRES
from mainstay.backends.sql.statement_checker import (
    CheckedStatement,
    StatementChecker,
    TableUnknown,
    check_view_definition,
)
from mainstay.core.errors import ConfigError
from mainstay.core.worker_threads import run_in_thread

T = TypeVar("T")

CONNECT_TIMEOUT_S = 10
BYTEA_OID = 17
_RELATION_KINDS: dict[str, RelationKind] = {
    "r": "table",
    "p": "table",
    "v": "view",
    "m": "materialized view",
    "f": "foreign table",
}

_RELATIONS_QUERY = """
SELECT c.oid::bigint, n.nspname::text, c.relname::text, c.relkind::text, c.reltuples::bigint, current_database()::text
FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f') AND n.nspname NOT LIKE 'pg\\_toast%%' AND n.nspname NOT LIKE 'pg\\_temp%%'
ORDER BY n.nspname, c.relname LIMIT %s
"""
_COLUMNS_QUERY = """
SELECT a.attrelid::bigint, a.attname::text, pg_catalog.format_type(a.atttypid, a.atttypmod), NOT a.attnotnull,
       EXISTS (SELECT FROM pg_catalog.pg_index i
               WHERE i.indrelid = a.attrelid AND i.indisprimary AND a.attnum = ANY (i.indkey))
FROM pg_catalog.pg_attribute a
WHERE a.attrelid = ANY (%s::oid[]) AND a.attnum > 0 AND NOT a.attisdropped
ORDER BY a.attrelid, a.attnum LIMIT %s
"""
# All relations that reading a relation touches: by its rules, partitions and children, and row security policies.
_DEPENDENCIES_QUERY = """
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
_LOCKS_QUERY = """
SELECT DISTINCT relation::bigint FROM pg_catalog.pg_lock_status()
WHERE locktype = 'relation' AND pid = pg_catalog.pg_backend_pid()
"""
_SYSTEM_RELATIONS_QUERY = """
SELECT c.oid::bigint FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname IN ('pg_catalog', 'information_schema', 'pg_toast')
"""
_DETAILS_QUERY = """
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


class _AllowedLocks(msgspec.Struct, frozen=True):
    """The locks that a statement may take."""

    relations: frozenset[int]  # object ids, with their indexes
    has_functions: bool  # a view granted by name calls functions: locks are not checked, the owner is responsible
    has_policy_functions: (
        bool  # policies call functions, which may read other tables: locks are not checked after the run
    )


class PostgresEngine:
    dialect = POSTGRES

    def __init__(self, url: str, scope: SqlScope, timeout_s: float, *, write: bool) -> None:
        self._url = url
        self._scope = scope
        self._timeout_s = timeout_s
        self._is_writable = write
        self._limiter = CallLimiter(timeout_s)
        self._cached_catalog: tuple[float, Catalog] | None = None

    async def load_catalog(self) -> tuple[Catalog, SqlScopeMatcher]:
        return await self._run(lambda session: self._get_catalog(session, refresh=True))

    async def load_details(self, relation: Relation) -> Sequence[IndexOrForeignKey]:
        async def work(session: PsycopgConnection) -> list[IndexOrForeignKey]:
            rows = await _fetch_all(session, _DETAILS_QUERY, {"oid": relation.id})
            return [IndexOrForeignKey(tuple(parts), what, to) for what, parts, to in rows]

        return await self._run(work)

    async def run_query(self, check: StatementCheck, page: ResultPageRequest) -> tuple[CheckedStatement, ResultRows]:
        async def work(session: PsycopgConnection) -> tuple[CheckedStatement, ResultRows]:
            statement, allowed = await self._check_statement(session, check)
            await self._begin_transaction(session, "ISOLATION LEVEL REPEATABLE READ READ ONLY")
            await _explain_statement(session, statement.sql)
            await _check_locks(session, allowed, before_run=True)
            rows = await _fetch_rows(session, statement.sql, page)
            await _check_locks(session, allowed, before_run=False)
            return statement, rows

        return await self._run(work)

    async def run_change(self, check: StatementCheck) -> int:
        assert self._is_writable, "a backend that only reads has no change"

        async def work(session: PsycopgConnection) -> int:
            statement, allowed = await self._check_statement(session, check)
            await self._begin_transaction(session, "READ WRITE")
            await _explain_statement(session, statement.sql)
            await _check_locks(session, allowed, before_run=True)
            count = (await session.execute(statement.sql)).rowcount
            await session.execute("COMMIT")
            return count

        return await self._run(work)

    # --- running statements ------------------------------------------------------------------------

    async def _run(self, work: Callable[[PsycopgConnection], Coroutine[None, None, T]]) -> T:
        """Run `work` with its own connection, and close it: what was not committed is rolled back."""
        psycopg = _load_psycopg()
        sessions: list[PsycopgConnection] = []

        async def run() -> T:
            try:
                sessions.append(await self._connect())
                await self._begin_transaction(sessions[0], "READ ONLY")
                return await work(sessions[0])
            except psycopg.errors.QueryCanceled:
                raise timeout_error(self._timeout_s) from None
            except psycopg.Error as error:
                message = error.diag.message_primary
                if message and sessions:
                    raise database_error(message) from None
                raise unreachable_error(POSTGRES.title, error) from None
            finally:
                for session in sessions:
                    await session.close()

        def abort() -> None:
            for session in sessions:
                shut_down_connection(-1 if session.closed else session.fileno())

        return await self._limiter.run(run, abort)

    async def _connect(self) -> PsycopgConnection:
        try:
            session: PsycopgConnection = await _load_psycopg().AsyncConnection.connect(
                self._url,
                autocommit=True,
                connect_timeout=max(2, int(min(CONNECT_TIMEOUT_S, self._timeout_s))),
                prepare_threshold=None,
                client_encoding="utf8",
            )
        except (OSError, UnicodeError) as error:
            raise unreachable_error(POSTGRES.title, error) from None
        return session

    async def _begin_transaction(self, session: PsycopgConnection, mode: str) -> None:
        """Begin a transaction with all settings that checking and running rely on, whatever the session's defaults.

        They are local to the transaction: behind a connection pooler, the next one may use another server process.
        """
        timeout_ms = max(1, int(self._timeout_s * 1000))
        settings = {
            "search_path": "pg_catalog, pg_temp",  # no user-defined function or operator is found
            "standard_conforming_strings": "on",
            "row_security": "on",
            "statement_timeout": timeout_ms,
            "lock_timeout": min(timeout_ms, 5000),
            "idle_in_transaction_session_timeout": timeout_ms,
            "synchronize_seqscans": "off",  # the same order of rows for every page
            "max_parallel_workers_per_gather": 0,
            "cursor_tuple_fraction": 1,
            "jit": "off",
            "datestyle": "ISO",
            "intervalstyle": "postgres",
        }
        if session.info.server_version >= 140000:
            settings["client_connection_check_interval"] = 500  # the server stops when the connection is closed
        statements = "; ".join(f"SET LOCAL {name} = {value}" for name, value in settings.items())
        before = "" if session.info.transaction_status.name == "IDLE" else "COMMIT; "
        await session.execute(f"{before}BEGIN {mode}; {statements}")

    async def _get_catalog(self, session: PsycopgConnection, *, refresh: bool) -> tuple[Catalog, SqlScopeMatcher]:
        """Return the catalog, cached for a while. A stale one does no harm: locks show what a name refers to now."""
        now = time.monotonic()
        if refresh or self._cached_catalog is None or now - self._cached_catalog[0] > CATALOG_AGE_MAX_S:
            self._cached_catalog = (now, await self._read_catalog(session))
        catalog = self._cached_catalog[1]
        return catalog, build_scope_matcher(self._scope, catalog)

    async def _read_catalog(self, session: PsycopgConnection) -> Catalog:
        rows = await _fetch_all(session, _RELATIONS_QUERY, (RELATIONS_MAX,))
        check_relation_count(len(rows), POSTGRES.title)
        bare = [_to_relation(*row) for row in rows]
        catalog = Catalog(bare, ("public",), str)
        scope = build_scope_matcher(self._scope, catalog)
        granted = [relation.id for relation in bare if scope.find_grant(relation)]
        columns: dict[int, list[SqlColumn]] = {}
        for oid, *column in await _fetch_all(session, _COLUMNS_QUERY, (granted, COLUMNS_MAX)):
            name, type_name, nullable, key = column
            columns.setdefault(oid, []).append(SqlColumn(name, _abbreviate_type(type_name), nullable, key))
        full = [msgspec.structs.replace(relation, columns=tuple(columns.get(relation.id, ()))) for relation in bare]
        return Catalog(full, ("public",), str)

    async def _check_statement(
        self, session: PsycopgConnection, check: StatementCheck
    ) -> tuple[CheckedStatement, _AllowedLocks]:
        catalog, scope = await self._get_catalog(session, refresh=False)
        try:
            statement = await run_in_thread(lambda: check(StatementChecker(POSTGRES, catalog, scope)))
        except TableUnknown:
            catalog, scope = await self._get_catalog(session, refresh=True)  # the table may be new
            statement = await run_in_thread(lambda: check(StatementChecker(POSTGRES, catalog, scope)))
        return statement, await _find_allowed_locks(session, statement, catalog, scope)


async def _find_allowed_locks(
    session: PsycopgConnection, statement: CheckedStatement, catalog: Catalog, scope: SqlScopeMatcher
) -> _AllowedLocks:
    """Return the locks that a statement may take.

    Raises BackendRefused if a relation granted by a pattern reaches one that is not granted.
    """
    by_root = {relation.id: relation for relation in statement.relations}
    by_id = {relation.id: relation for relation in catalog}
    allowed: set[int] = set()
    has_functions = has_policy_functions = False
    for root, oid, how, *rest in await _fetch_all(session, _DEPENDENCIES_QUERY, ([*by_root],)):
        kind, rule_calls, policy_calls, definition, indexes = rest
        allowed |= {oid, *indexes}
        by_name = scope.find_grant(by_root[root]) == "name" or by_root[root].is_system
        has_policy_functions = has_policy_functions or policy_calls
        has_functions = has_functions or (by_name and rule_calls)
        if by_name or how == "policy":
            continue
        relation = by_id.get(oid)
        if kind == "f" or rule_calls or (how == "rule" and (relation is None or not scope.find_grant(relation))):
            raise out_of_scope_error("something else")
        if definition:
            await run_in_thread(partial(check_view_definition, definition, POSTGRES))
    if any(relation.is_system for relation in by_root.values()):
        allowed |= {oid for (oid,) in await _fetch_all(session, _SYSTEM_RELATIONS_QUERY, None)}
    return _AllowedLocks(frozenset(allowed), has_functions, has_policy_functions)


async def _explain_statement(session: PsycopgConnection, sql: str) -> None:
    """Take all locks without reading. The binary format uses the extended protocol, which allows one statement only."""
    await session.execute(f"EXPLAIN {sql}", binary=True)


async def _check_locks(session: PsycopgConnection, allowed: _AllowedLocks, *, before_run: bool) -> None:
    """Raise BackendRefused if the transaction holds a lock that is not allowed. Reading the locks takes none."""
    if allowed.has_functions or (allowed.has_policy_functions and not before_run):
        return
    if any(oid not in allowed.relations for (oid,) in await _fetch_all(session, _LOCKS_QUERY, None)):
        raise out_of_scope_error("something else")


async def _fetch_rows(session: PsycopgConnection, sql: str, page: ResultPageRequest) -> ResultRows:
    """Fetch one page of rows through a cursor. The server truncates long cells, so that no row is too large."""
    described = (await session.execute(f"SELECT * FROM ({sql}) AS page LIMIT 0")).description or ()
    names = [f"c{index}" for index in range(len(described))]
    parts = []
    for name, column in zip(names, described, strict=True):
        if column.type_code == BYTEA_OID:
            parts.append(f"NULL::text, octet_length({name})")
        else:
            parts.append(f"left({name}::text, {CELL_CHARS_MAX + 1}), char_length({name}::text)")
    if not parts:
        raise BackendRefused("The statement has no columns.")
    aliased = f"({sql}) AS page ({', '.join(names)})"
    await session.execute(f"DECLARE page NO SCROLL CURSOR FOR SELECT {', '.join(parts)} FROM {aliased}")
    if page.offset:
        await session.execute(f"MOVE FORWARD {page.offset} FROM page")
    rows = await _fetch_all(session, f"FETCH FORWARD {page.rows_max + 1} FROM page", None)
    binaries = [column.type_code == BYTEA_OID for column in described]
    formatted = [_format_row(row, binaries) for row in rows[: page.rows_max]]
    return ResultRows(tuple(column.name for column in described), formatted, len(rows) > page.rows_max)


def _format_row(row: Row, binary_columns: Sequence[bool]) -> tuple[str | None, ...]:
    cells: list[str | None] = []
    for index, is_binary in enumerate(binary_columns):
        text, length = row[2 * index], row[2 * index + 1]
        cells.append(None if length is None else format_binary(length) if is_binary else truncate_cell(text, length))
    return tuple(cells)


def _to_relation(oid: int, schema: str, name: str, kind: str, rows: int, database: str) -> Relation:
    return Relation(
        database=database,
        schema=schema,
        name=name,
        kind=_RELATION_KINDS[kind],
        is_system=schema == "information_schema" or schema.startswith("pg_"),
        estimated_rows=rows if rows > 0 and kind != "v" else None,
        id=oid,
    )


def _abbreviate_type(type_name: str) -> str:
    """Abbreviate a type name."""
    type_name = type_name.replace("timestamp with time zone", "timestamptz").replace(" without time zone", "")
    return type_name.replace("character varying", "varchar")


async def _fetch_all(session: PsycopgConnection, sql: str, parameters: Parameters) -> list[Row]:
    return list(await (await session.execute(sql, parameters)).fetchall())


@cache
def _load_psycopg() -> ModuleType:
    try:
        import psycopg
    except ImportError:
        raise ConfigError("a PostgreSQL backend needs psycopg: pip install -e '.[postgres]'") from None
    return psycopg
