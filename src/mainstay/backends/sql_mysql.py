"""MySQL and MariaDB: a read-only transaction, and views that are read through their definitions."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any, TypeVar
from urllib.parse import parse_qsl, unquote, urlsplit

import msgspec

from mainstay.backends.common import clean_name
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
    too_slow,
    unreachable,
)
from mainstay.backends.sql_rows import Rows, show
from mainstay.backends.sql_scope import Scope, SqlScope
from mainstay.backends.sql_statements import Judge, Statement, TableUnknown, check_view
from mainstay.backends.sql_words import MYSQL
from mainstay.core.errors import ConfigError
from mainstay.core.workers import in_thread

T = TypeVar("T")

CONNECT_S = 10
VIEWS_DEEP_MAX = 16
_SYSTEM = ("mysql", "information_schema", "performance_schema", "sys", "ndbinfo")
_ELSEWHERE = ("FEDERATED", "CONNECT", "SPIDER", "MRG_MYISAM", "S3", "CSV")  # engines whose rows lie somewhere else
_MODE = "STRICT_TRANS_TABLES,NO_ENGINE_SUBSTITUTION"  # neither ANSI_QUOTES nor NO_BACKSLASH_ESCAPES
_SLOW = (1317, 1969, 3024, 1205)

_RELATIONS = """
SELECT table_schema, table_name, table_type, engine, table_rows FROM information_schema.tables
ORDER BY table_schema, table_name LIMIT %s
"""
_COLUMNS = """
SELECT table_schema, table_name, column_name, column_type, is_nullable, column_key FROM information_schema.columns
WHERE table_schema IN %s ORDER BY table_schema, table_name, ordinal_position LIMIT %s
"""
_ONE = "SELECT table_type, engine FROM information_schema.tables WHERE table_schema = %s AND table_name = %s"
_VIEW = "SELECT view_definition FROM information_schema.views WHERE table_schema = %s AND table_name = %s"
_INDEXES = """
SELECT index_name, non_unique, column_name FROM information_schema.statistics
WHERE table_schema = %s AND table_name = %s ORDER BY index_name, seq_in_index LIMIT 1000
"""
_KEYS = """
SELECT column_name, referenced_table_name FROM information_schema.key_column_usage
WHERE table_schema = %s AND table_name = %s AND referenced_table_name IS NOT NULL LIMIT 1000
"""


class _Address(msgspec.Struct, frozen=True, kw_only=True):
    host: str
    port: int
    user: str
    password: str
    database: str
    options: dict[str, str]


class MysqlEngine:
    dialect = MYSQL

    def __init__(self, url: str, scope: SqlScope, timeout_s: float, *, write: bool) -> None:
        self._at = _address(url)
        self._scope = scope if scope.databases or scope.schemas or not self._at.database else _only(scope, self._at)
        self._seconds = timeout_s
        self._write = write
        self._gate = Gate(timeout_s + 1.0)  # the server is to say so first
        self._known: tuple[float, Catalog] | None = None

    async def catalog(self) -> tuple[Catalog, Scope]:
        return await self._run(lambda session: self._look_up(session, fresh=True))

    async def details(self, relation: Relation) -> Sequence[Detail]:
        return await self._run(lambda session: _details(session, relation))

    async def query(self, reading: Reading, page: Page) -> tuple[Statement, Rows]:
        def work(session: Any) -> tuple[Statement, Rows]:
            statement = self._judged(session, reading)
            _tell(session, f"SET SESSION sql_select_limit = {page.offset + page.rows + 1}")
            _tell(session, "START TRANSACTION READ ONLY")
            return statement, _rows(session, statement.sql, page)

        return await self._run(work)

    async def change(self, reading: Reading) -> int:
        assert self._write, "a backend that only reads has no change"

        def work(session: Any) -> int:
            statement = self._judged(session, reading)
            _tell(session, "SET SESSION TRANSACTION READ WRITE")
            _tell(session, "START TRANSACTION READ WRITE")
            with session.cursor() as cursor:
                count = int(cursor.execute(statement.sql))
            _tell(session, "COMMIT")
            return count

        return await self._run(work)

    # --- at work -----------------------------------------------------------------------------------

    async def _run(self, work: Callable[[Any], T]) -> T:
        held: list[Any] = []

        def run() -> T:
            with _said(self._seconds):
                held.append(self._connect())
                try:
                    return work(held[0])
                finally:
                    held[0]._force_close()  # what is left of an answer is not waited for; nothing is committed by it

        def abort() -> None:
            for session in held:
                hang_up(session._sock.fileno() if session._sock else -1)

        async def wait() -> T:
            done: T = await in_thread(run)
            return done

        return await self._gate.run(wait, abort)

    def _connect(self) -> Any:
        """For one call. No database is chosen: a name without one means nothing to the server."""
        at, seconds = self._at, self._seconds
        try:
            session = _pymysql().connect(
                host=at.host,
                port=at.port,
                user=at.user,
                password=at.password,
                charset="utf8mb4",
                autocommit=True,
                local_infile=False,
                connect_timeout=max(1, int(min(CONNECT_S, seconds))),
                read_timeout=seconds + 1.0,
                write_timeout=seconds + 1.0,
                unix_socket=at.options.get("unix_socket"),
                ssl_disabled="unix_socket" in at.options,  # nobody is between
                ssl_ca=at.options.get("ssl_ca"),
                ssl_verify_identity=bool(at.options.get("ssl_ca")),
            )
        except (_pymysql().Error, OSError, UnicodeError, RuntimeError):
            raise unreachable(MYSQL.title) from None
        try:
            self._teach(session)
        except BaseException:
            session._force_close()
            raise
        return session

    def _teach(self, session: Any) -> None:
        """How the server is to read and run what it gets, whatever it was told before."""
        bound = (
            f"max_statement_time = {self._seconds:.3f}"
            if "MariaDB" in session.get_server_info()
            else f"max_execution_time = {max(1, int(self._seconds * 1000))}"
        )
        wait = max(1, int(min(self._seconds, 5)))
        _tell(session, f"SET SESSION sql_mode = '{_MODE}', {bound}, lock_wait_timeout = {wait}")
        _tell(session, f"SET SESSION innodb_lock_wait_timeout = {wait}")
        _tell(session, "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")  # tables and all

    def _look_up(self, session: Any, *, fresh: bool) -> tuple[Catalog, Scope]:
        now = time.monotonic()
        if fresh or self._known is None or now - self._known[0] > CATALOG_S:
            self._known = (now, self._catalog(session))
        catalog = self._known[1]
        return catalog, self._within(catalog)

    def _within(self, catalog: Catalog) -> Scope:
        return Scope(self._scope, catalog.schemas, catalog.fold)

    def _catalog(self, session: Any) -> Catalog:
        ((lower,),) = _all(session, "SELECT @@lower_case_table_names")
        fold: Callable[[str], str] = str.lower if lower else str
        bare = [_relation(*row) for row in _all(session, _RELATIONS, (RELATIONS_MAX,))]
        check_count(len(bare), MYSQL.title)
        schemas = (self._at.database,) if self._at.database else ()
        catalog = Catalog(bare, schemas, fold)
        scope = self._within(catalog)
        wanted = {one.schema for one in bare if scope.grant(one)}
        columns: dict[tuple[str, str], list[Column]] = {}
        for schema, name, column, kind, nullable, key in _all(session, _COLUMNS, ([*wanted, ""], COLUMNS_MAX)):
            columns.setdefault((schema, name), []).append(Column(column, kind, nullable == "YES", key == "PRI"))
        full = [msgspec.structs.replace(one, columns=tuple(columns.get((one.schema, one.name), ()))) for one in bare]
        return Catalog(full, schemas, fold)

    def _judged(self, session: Any, reading: Reading) -> Statement:
        catalog, scope = self._look_up(session, fresh=False)
        try:
            statement = reading(Judge(MYSQL, catalog, scope))
        except TableUnknown:
            catalog, scope = self._look_up(session, fresh=True)  # it may be new
            statement = reading(Judge(MYSQL, catalog, scope))
        for relation in statement.relations:
            if scope.grant(relation) != "name":
                _check(session, relation, catalog, scope, 0)
        return statement


def _check(session: Any, relation: Relation, catalog: Catalog, scope: Scope, depth: int) -> None:
    """What it is now, and not when the catalogue was read; and what it reads, if it is a view."""
    if relation.system:
        return
    now = _all(session, _ONE, (relation.schema, relation.name))
    kind = _relation(relation.schema, relation.name, now[0][0], now[0][1], None).kind if now else "foreign table"
    if kind == "table":
        return
    if kind != "view" or depth > VIEWS_DEEP_MAX:
        raise outside("something else")
    definition = _all(session, _VIEW, (relation.schema, relation.name))
    if not definition or not definition[0][0]:  # hidden from this account
        raise outside("something else")
    for schema, name in check_view(definition[0][0], MYSQL):
        found = catalog.find(name, schema) if schema else None
        if found is None or not scope.grant(found):
            raise outside("something else")
        _check(session, found, catalog, scope, depth + 1)


def _relation(schema: str, name: str, kind: str, engine: str | None, rows: int | None) -> Relation:
    made: Kind = "view" if "VIEW" in kind else "foreign table" if (engine or "").upper() in _ELSEWHERE else "table"
    return Relation(
        database=schema,
        schema=schema,
        name=name,
        kind=made,
        system=schema.lower() in _SYSTEM,
        rows=int(rows) if rows is not None and made == "table" else None,
    )


def _rows(session: Any, sql: str, page: Page) -> Rows:
    cursor = session.cursor(_pymysql().cursors.SSCursor)
    cursor.execute(sql)
    columns = tuple(one[0] for one in cursor.description or ())
    shown: list[tuple[str | None, ...]] = []
    at = 0
    while (row := cursor.fetchone()) is not None:
        at += 1
        if at <= page.offset:
            continue
        if len(shown) == page.rows:
            return Rows(columns, shown, True)
        shown.append(tuple(show(value) for value in row))
    return Rows(columns, shown, False)


def _details(session: Any, relation: Relation) -> list[Detail]:
    where = (relation.schema, relation.name)
    indexes: dict[tuple[str, int], list[str]] = {}
    for name, repeated, column in _all(session, _INDEXES, where):
        indexes.setdefault((name, repeated), []).append(column or "")
    made = [Detail(tuple(parts), "index on" if many else "unique index on") for (_, many), parts in indexes.items()]
    return [*made, *(Detail((column,), to=target) for column, target in _all(session, _KEYS, where))]


def _tell(session: Any, sql: str) -> None:
    with session.cursor() as cursor:
        cursor.execute(sql)


def _all(session: Any, sql: str, parameters: Any = None) -> list[Any]:
    with session.cursor() as cursor:
        cursor.execute(sql, parameters)
        return list(cursor.fetchall())


@contextmanager
def _said(seconds: float) -> Iterator[None]:
    """The driver's errors as ours; the only place that does."""
    pymysql = _pymysql()
    try:
        yield
    except pymysql.MySQLError as error:
        code, said = (*error.args, "", "")[:2]
        if code in _SLOW:
            raise too_slow(seconds) from None
        if not isinstance(code, int) or (code >= 2000 and code < 3000) or code == 0:
            raise unreachable(MYSQL.title) from None
        raise failed(str(said)) from None
    except (OSError, ValueError, AttributeError):  # the connection was closed under it
        raise unreachable(MYSQL.title) from None


def _address(url: str) -> _Address:
    try:
        parts = urlsplit(url)
        options = dict(parse_qsl(parts.query, strict_parsing=bool(parts.query)))
        port = parts.port or 3306
    except ValueError:
        raise ConfigError("a MySQL database is given as mysql://user:password@host:3306/database") from None
    if odd := [name for name in options if name not in ("unix_socket", "ssl_ca")]:
        raise ConfigError(f"{clean_name(odd[0])} is no option of a MySQL address: unix_socket and ssl_ca are")
    return _Address(
        host=parts.hostname or "localhost",
        port=port,
        user=unquote(parts.username or ""),
        password=unquote(parts.password or ""),
        database=unquote(parts.path.strip("/")),
        options=options,
    )


def _only(scope: SqlScope, at: _Address) -> SqlScope:
    """An address that names a database is about that one, unless the scope or a table of it says more."""
    if any("." in one for one in scope.tables):
        return scope
    return msgspec.structs.replace(scope, databases=(at.database.replace("*", "\\*").replace("?", "\\?"),))


@cache
def _pymysql() -> Any:
    try:
        import pymysql  # type: ignore[import-untyped]
        import pymysql.cursors  # type: ignore[import-untyped]
    except ImportError:
        raise ConfigError("a MySQL backend needs PyMySQL: pip install -e '.[mysql]'") from None
    return pymysql
