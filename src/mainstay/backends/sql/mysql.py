"""MySQL and MariaDB engine: read-only transactions, and views checked by their definitions."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from types import ModuleType
from typing import TypeVar
from urllib.parse import parse_qsl, unquote, urlsplit

import msgspec

from mainstay.backends.base import clean_name
from mainstay.backends.sql.catalog import Catalog, IndexOrForeignKey, Relation, RelationKind, SqlColumn
from mainstay.backends.sql.csv_results import ResultRows, format_value
from mainstay.backends.sql.driver_protocols import Parameters, PyMysqlConnection, Row
from mainstay.backends.sql.engine import (
    CATALOG_AGE_MAX_S,
    COLUMNS_MAX,
    RELATIONS_MAX,
    CallLimiter,
    ResultPageRequest,
    StatementCheck,
    check_relation_count,
    database_error,
    out_of_scope_error,
    shut_down_connection,
    timeout_error,
    unreachable_error,
)
from mainstay.backends.sql.manifest import SqlScope
from mainstay.backends.sql.scope import SqlScopeMatcher
from mainstay.backends.sql.statement_allowlists import MYSQL
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
VIEW_DEPTH_MAX = 16
_SYSTEM_SCHEMAS = ("mysql", "information_schema", "performance_schema", "sys", "ndbinfo")
# storage engines with external rows
_EXTERNAL_STORAGE_ENGINES = ("FEDERATED", "CONNECT", "SPIDER", "MRG_MYISAM", "S3", "CSV")
_SQL_MODE = "STRICT_TRANS_TABLES,NO_ENGINE_SUBSTITUTION"  # without ANSI_QUOTES and NO_BACKSLASH_ESCAPES
_TIMEOUT_CODES = (1317, 1969, 3024, 1205)

_RELATIONS_QUERY = """
SELECT table_schema, table_name, table_type, engine, table_rows FROM information_schema.tables
ORDER BY table_schema, table_name LIMIT %s
"""
_COLUMNS_QUERY = """
SELECT table_schema, table_name, column_name, column_type, is_nullable, column_key FROM information_schema.columns
WHERE table_schema IN %s ORDER BY table_schema, table_name, ordinal_position LIMIT %s
"""
_RELATION_QUERY = "SELECT table_type, engine FROM information_schema.tables WHERE table_schema = %s AND table_name = %s"
_VIEW_QUERY = "SELECT view_definition FROM information_schema.views WHERE table_schema = %s AND table_name = %s"
_INDEXES_QUERY = """
SELECT index_name, non_unique, column_name FROM information_schema.statistics
WHERE table_schema = %s AND table_name = %s ORDER BY index_name, seq_in_index LIMIT 1000
"""
_FOREIGN_KEYS_QUERY = """
SELECT column_name, referenced_table_name FROM information_schema.key_column_usage
WHERE table_schema = %s AND table_name = %s AND referenced_table_name IS NOT NULL LIMIT 1000
"""


class _MysqlAddress(msgspec.Struct, frozen=True, kw_only=True):
    host: str
    port: int
    user: str
    password: str
    database: str
    options: dict[str, str]


class MysqlEngine:
    dialect = MYSQL

    def __init__(self, url: str, scope: SqlScope, timeout_s: float, *, write: bool) -> None:
        self._address = _parse_mysql_url(url)
        self._scope = (
            scope
            if scope.databases or scope.schemas or not self._address.database
            else _limit_to_database(scope, self._address)
        )
        self._timeout_s = timeout_s
        self._is_writable = write
        self._limiter = CallLimiter(timeout_s + 1.0)  # the server should time out first
        self._cached_catalog: tuple[float, Catalog] | None = None

    async def load_catalog(self) -> tuple[Catalog, SqlScopeMatcher]:
        return await self._run(lambda session: self._get_catalog(session, refresh=True))

    async def load_details(self, relation: Relation) -> Sequence[IndexOrForeignKey]:
        return await self._run(lambda session: _read_details(session, relation))

    async def run_query(self, check: StatementCheck, page: ResultPageRequest) -> tuple[CheckedStatement, ResultRows]:
        def work(session: PyMysqlConnection) -> tuple[CheckedStatement, ResultRows]:
            statement = self._check_statement(session, check)
            _execute(session, f"SET SESSION sql_select_limit = {page.offset + page.rows_max + 1}")
            _execute(session, "START TRANSACTION READ ONLY")
            return statement, _fetch_rows(session, statement.sql, page)

        return await self._run(work)

    async def run_change(self, check: StatementCheck) -> int:
        assert self._is_writable, "a backend that only reads has no change"

        def work(session: PyMysqlConnection) -> int:
            statement = self._check_statement(session, check)
            _execute(session, "SET SESSION TRANSACTION READ WRITE")
            _execute(session, "START TRANSACTION READ WRITE")
            with session.cursor() as cursor:
                count = int(cursor.execute(statement.sql))
            _execute(session, "COMMIT")
            return count

        return await self._run(work)

    # --- running statements ------------------------------------------------------------------------

    async def _run(self, work: Callable[[PyMysqlConnection], T]) -> T:
        sessions: list[PyMysqlConnection] = []

        def run() -> T:
            with _map_errors(self._timeout_s):
                sessions.append(self._connect())
                try:
                    return work(sessions[0])
                finally:
                    sessions[0]._force_close()  # does not wait for the rest of a result, and commits nothing

        def abort() -> None:
            for session in sessions:
                shut_down_connection(session._sock.fileno() if session._sock else -1)

        async def wait() -> T:
            result: T = await run_in_thread(run)
            return result

        return await self._limiter.run(wait, abort)

    def _connect(self) -> PyMysqlConnection:
        """Connect for one call. No database is selected: the server refuses a name without a schema."""
        address, timeout_s = self._address, self._timeout_s
        try:
            session: PyMysqlConnection = _load_pymysql().connect(
                host=address.host,
                port=address.port,
                user=address.user,
                password=address.password,
                charset="utf8mb4",
                autocommit=True,
                local_infile=False,
                connect_timeout=max(1, int(min(CONNECT_TIMEOUT_S, timeout_s))),
                read_timeout=timeout_s + 1.0,
                write_timeout=timeout_s + 1.0,
                unix_socket=address.options.get("unix_socket"),
                ssl_disabled="unix_socket" in address.options,  # a local socket needs no TLS
                ssl_ca=address.options.get("ssl_ca"),
                ssl_verify_identity=bool(address.options.get("ssl_ca")),
            )
        except (_load_pymysql().Error, OSError, UnicodeError, RuntimeError) as error:
            raise unreachable_error(MYSQL.title, error) from None
        try:
            self._configure_session(session)
        except BaseException:
            session._force_close()
            raise
        return session

    def _configure_session(self, session: PyMysqlConnection) -> None:
        """Set all session variables that checking and running rely on, whatever the server's defaults."""
        time_limit = (
            f"max_statement_time = {self._timeout_s:.3f}"
            if "MariaDB" in session.get_server_info()
            else f"max_execution_time = {max(1, int(self._timeout_s * 1000))}"
        )
        wait_s = max(1, int(min(self._timeout_s, 5)))
        _execute(session, f"SET SESSION sql_mode = '{_SQL_MODE}', {time_limit}, lock_wait_timeout = {wait_s}")
        _execute(session, f"SET SESSION innodb_lock_wait_timeout = {wait_s}")
        _execute(session, "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")  # also for the catalog

    def _get_catalog(self, session: PyMysqlConnection, *, refresh: bool) -> tuple[Catalog, SqlScopeMatcher]:
        now = time.monotonic()
        if refresh or self._cached_catalog is None or now - self._cached_catalog[0] > CATALOG_AGE_MAX_S:
            self._cached_catalog = (now, self._read_catalog(session))
        catalog = self._cached_catalog[1]
        return catalog, self._build_scope_matcher(catalog)

    def _build_scope_matcher(self, catalog: Catalog) -> SqlScopeMatcher:
        return SqlScopeMatcher(self._scope, catalog.default_schemas, catalog.fold_name)

    def _read_catalog(self, session: PyMysqlConnection) -> Catalog:
        ((is_lower_case,),) = _fetch_all(session, "SELECT @@lower_case_table_names")
        fold: Callable[[str], str] = str.lower if is_lower_case else str
        bare = [_to_relation(*row) for row in _fetch_all(session, _RELATIONS_QUERY, (RELATIONS_MAX,))]
        check_relation_count(len(bare), MYSQL.title)
        schemas = (self._address.database,) if self._address.database else ()
        catalog = Catalog(bare, schemas, fold)
        scope = self._build_scope_matcher(catalog)
        granted = {relation.schema for relation in bare if scope.find_grant(relation)}
        columns: dict[tuple[str, str], list[SqlColumn]] = {}
        for schema, name, column, type_name, nullable, key in _fetch_all(
            session, _COLUMNS_QUERY, ([*granted, ""], COLUMNS_MAX)
        ):
            columns.setdefault((schema, name), []).append(SqlColumn(column, type_name, nullable == "YES", key == "PRI"))
        relations = [
            msgspec.structs.replace(relation, columns=tuple(columns.get((relation.schema, relation.name), ())))
            for relation in bare
        ]
        return Catalog(relations, schemas, fold)

    def _check_statement(self, session: PyMysqlConnection, check: StatementCheck) -> CheckedStatement:
        catalog, scope = self._get_catalog(session, refresh=False)
        try:
            statement = check(StatementChecker(MYSQL, catalog, scope))
        except TableUnknown:
            catalog, scope = self._get_catalog(session, refresh=True)  # the table may be new
            statement = check(StatementChecker(MYSQL, catalog, scope))
        for relation in statement.relations:
            if scope.find_grant(relation) != "name":
                _check_relation(session, relation, catalog, scope, 0)
        return statement


def _check_relation(
    session: PyMysqlConnection, relation: Relation, catalog: Catalog, scope: SqlScopeMatcher, depth: int
) -> None:
    """Check a relation as it is now, not as of the catalog, and all that a view reads. Raises BackendRefused."""
    if relation.is_system:
        return
    current = _fetch_all(session, _RELATION_QUERY, (relation.schema, relation.name))
    kind = (
        _to_relation(relation.schema, relation.name, current[0][0], current[0][1], None).kind
        if current
        else "foreign table"
    )
    if kind == "table":
        return
    if kind != "view" or depth > VIEW_DEPTH_MAX:
        raise out_of_scope_error("something else")
    definition = _fetch_all(session, _VIEW_QUERY, (relation.schema, relation.name))
    if not definition or not definition[0][0]:  # this account may not see it
        raise out_of_scope_error("something else")
    for schema, name in check_view_definition(definition[0][0], MYSQL):
        table = catalog.find(name, schema) if schema else None
        if table is None or not scope.find_grant(table):
            raise out_of_scope_error("something else")
        _check_relation(session, table, catalog, scope, depth + 1)


def _to_relation(schema: str, name: str, kind: str, engine: str | None, rows: int | None) -> Relation:
    relation_kind: RelationKind = (
        "view"
        if "VIEW" in kind
        else "foreign table"
        if (engine or "").upper() in _EXTERNAL_STORAGE_ENGINES
        else "table"
    )
    return Relation(
        database=schema,
        schema=schema,
        name=name,
        kind=relation_kind,
        is_system=schema.lower() in _SYSTEM_SCHEMAS,
        estimated_rows=int(rows) if rows is not None and relation_kind == "table" else None,
    )


def _fetch_rows(session: PyMysqlConnection, sql: str, page: ResultPageRequest) -> ResultRows:
    cursor = session.cursor(_load_pymysql().cursors.SSCursor)
    cursor.execute(sql)
    columns = tuple(column[0] for column in cursor.description or ())
    rows: list[tuple[str | None, ...]] = []
    number = 0
    while (row := cursor.fetchone()) is not None:
        number += 1
        if number <= page.offset:
            continue
        if len(rows) == page.rows_max:
            return ResultRows(columns, rows, True)
        rows.append(tuple(format_value(value) for value in row))
    return ResultRows(columns, rows, False)


def _read_details(session: PyMysqlConnection, relation: Relation) -> list[IndexOrForeignKey]:
    key = (relation.schema, relation.name)
    indexes: dict[tuple[str, int], list[str]] = {}
    for name, repeated, column in _fetch_all(session, _INDEXES_QUERY, key):
        indexes.setdefault((name, repeated), []).append(column or "")
    index_details = [
        IndexOrForeignKey(tuple(parts), "index on" if many else "unique index on")
        for (_, many), parts in indexes.items()
    ]
    return [
        *index_details,
        *(
            IndexOrForeignKey((column,), referenced_table=target)
            for column, target in _fetch_all(session, _FOREIGN_KEYS_QUERY, key)
        ),
    ]


def _execute(session: PyMysqlConnection, sql: str) -> None:
    with session.cursor() as cursor:
        cursor.execute(sql)


def _fetch_all(session: PyMysqlConnection, sql: str, parameters: Parameters = None) -> list[Row]:
    with session.cursor() as cursor:
        cursor.execute(sql, parameters)
        return list(cursor.fetchall())


@contextmanager
def _map_errors(timeout_s: float) -> Iterator[None]:
    """Map driver errors to BackendRefused; the only place that does."""
    pymysql = _load_pymysql()
    try:
        yield
    except pymysql.MySQLError as error:
        code, message = (*error.args, "", "")[:2]
        if code in _TIMEOUT_CODES:
            raise timeout_error(timeout_s) from None
        if not isinstance(code, int) or (code >= 2000 and code < 3000) or code == 0:
            raise unreachable_error(MYSQL.title, error) from None
        raise database_error(str(message)) from None
    except (OSError, ValueError, AttributeError) as error:  # the connection was closed by another thread
        raise unreachable_error(MYSQL.title, error) from None


def _parse_mysql_url(url: str) -> _MysqlAddress:
    try:
        parts = urlsplit(url)
        options = dict(parse_qsl(parts.query, strict_parsing=bool(parts.query)))
        port = parts.port or 3306
    except ValueError:
        raise ConfigError("a MySQL URL must be mysql://user:password@host:3306/database") from None
    if unknown := [name for name in options if name not in ("unix_socket", "ssl_ca")]:
        raise ConfigError(f"unknown option {clean_name(unknown[0])} in a MySQL URL: use unix_socket or ssl_ca")
    return _MysqlAddress(
        host=parts.hostname or "localhost",
        port=port,
        user=unquote(parts.username or ""),
        password=unquote(parts.password or ""),
        database=unquote(parts.path.strip("/")),
        options=options,
    )


def _limit_to_database(scope: SqlScope, address: _MysqlAddress) -> SqlScope:
    """Limit the scope to the database that the URL names, unless a table pattern of the scope has a schema."""
    if any("." in pattern for pattern in scope.tables):
        return scope
    return msgspec.structs.replace(scope, databases=(address.database.replace("*", "\\*").replace("?", "\\?"),))


@cache
def _load_pymysql() -> ModuleType:
    try:
        import pymysql  # type: ignore[import-untyped]
        import pymysql.cursors  # type: ignore[import-untyped]
    except ImportError:
        raise ConfigError("a MySQL backend needs PyMySQL: pip install -e '.[mysql]'") from None
    module: ModuleType = pymysql
    return module
