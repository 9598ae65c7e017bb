"""SQLite engine: opens the file for each call, with an authorizer that checks everything the statement touches."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

import apsw

from mainstay.backends.base import BackendRefused
from mainstay.backends.sql.catalog import (
    Catalog,
    IndexOrForeignKey,
    Relation,
    RelationKind,
    SqlColumn,
    ascii_lower,
)
from mainstay.backends.sql.csv_results import ResultRows, format_value
from mainstay.backends.sql.engine import (
    COLUMNS_MAX,
    RELATIONS_MAX,
    CallLimiter,
    ResultPageRequest,
    StatementCheck,
    build_scope_matcher,
    check_relation_count,
    database_error,
    timeout_error,
    unreachable_error,
)
from mainstay.backends.sql.manifest import SqlScope
from mainstay.backends.sql.scope import SqlScopeMatcher
from mainstay.backends.sql.sqlite_authorizer import SqliteAuthorizer, check_view_reads, find_view_reads
from mainstay.backends.sql.sqlite_functions import replace_slow_functions
from mainstay.backends.sql.statement_allowlists import SQLITE
from mainstay.backends.sql.statement_checker import CheckedStatement, StatementChecker
from mainstay.core.errors import ConfigError
from mainstay.core.worker_threads import run_in_thread

T = TypeVar("T")

VALUE_BYTES_MAX = 500_000  # functions cannot be interrupted, nor a thousand of them in one row
MEMORY_BYTES_MAX = 256 * 1024 * 1024
PROGRESS_STEPS = 1_000  # virtual machine steps between two calls of the progress handler
SQLITE_LIMITS = {
    apsw.SQLITE_LIMIT_LENGTH: VALUE_BYTES_MAX,
    apsw.SQLITE_LIMIT_SQL_LENGTH: 100_000,
    apsw.SQLITE_LIMIT_EXPR_DEPTH: 200,
    apsw.SQLITE_LIMIT_COMPOUND_SELECT: 50,
    apsw.SQLITE_LIMIT_VDBE_OP: 250_000,
    apsw.SQLITE_LIMIT_FUNCTION_ARG: 100,
    apsw.SQLITE_LIMIT_LIKE_PATTERN_LENGTH: 200,
    apsw.SQLITE_LIMIT_ATTACHED: 0,
    apsw.SQLITE_LIMIT_VARIABLE_NUMBER: 100,  # full-text indexes use some internally
    apsw.SQLITE_LIMIT_TRIGGER_DEPTH: 10,
    apsw.SQLITE_LIMIT_WORKER_THREADS: 0,
}
_RELATION_KINDS: dict[str, RelationKind] = {
    "table": "table",
    "view": "view",
    "virtual": "virtual table",
    "shadow": "shadow table",
}


def parse_sqlite_url(url: str) -> str:
    """Return the file of `sqlite:///relative.db` or `sqlite:////absolute.db`; raises ConfigError."""
    path = url.removeprefix("sqlite:///")
    if path == url or not path or "?" in path or "\0" in path or path == ":memory:":
        raise ConfigError("a SQLite URL must be sqlite:///file.db or sqlite:////absolute/file.db")
    return path


class _StatementLimitWatchdog:
    """Deadline and memory limit of one call, checked by the progress handler; another thread can stop it."""

    def __init__(self, timeout_s: float) -> None:
        self._deadline = time.monotonic() + timeout_s
        self._memory_before_bytes = apsw.memory_used()
        self.stop_reason = ""  # why: "time" or "memory"; empty: it goes on

    def stop(self) -> None:
        self.stop_reason = self.stop_reason or "time"

    def should_stop(self) -> bool:
        """Progress handler: return True to interrupt the statement."""
        if time.monotonic() > self._deadline:
            self.stop()
        elif apsw.memory_used() - self._memory_before_bytes > MEMORY_BYTES_MAX:
            self.stop_reason = "memory"
        return bool(self.stop_reason)


class SqliteEngine:
    dialect = SQLITE

    def __init__(self, path: str, scope: SqlScope, timeout_s: float, *, write: bool) -> None:
        self._path = path
        self._scope = scope
        self._timeout_s = timeout_s
        self._is_writable = write
        self._limiter = CallLimiter(timeout_s + 1.0)  # the progress handler should time out first
        self._cached_catalog: tuple[object, Catalog] | None = None

    async def load_catalog(self) -> tuple[Catalog, SqlScopeMatcher]:
        def load(db: apsw.Connection) -> tuple[Catalog, SqlScopeMatcher]:
            catalog = self._get_catalog(db)
            return catalog, build_scope_matcher(self._scope, catalog)

        return await self._run(load)

    async def load_details(self, relation: Relation) -> Sequence[IndexOrForeignKey]:
        return await self._run(lambda db: _read_details(db, relation))

    async def run_query(self, check: StatementCheck, page: ResultPageRequest) -> tuple[CheckedStatement, ResultRows]:
        def work(db: apsw.Connection) -> tuple[CheckedStatement, ResultRows]:
            authorizer = self._check_statement(db, check, "BEGIN")
            db.authorizer = authorizer
            return authorizer.statement, _fetch_rows(db, authorizer.statement.sql, page)

        return await self._run(work)

    async def run_change(self, check: StatementCheck) -> int:
        def work(db: apsw.Connection) -> int:
            authorizer = self._check_statement(db, check, "BEGIN IMMEDIATE")
            db.authorizer = authorizer
            try:
                db.execute(authorizer.statement.sql)
                count = db.changes()
            finally:
                db.authorizer = None
            db.execute("COMMIT")
            return count

        return await self._run(work, write=True)

    # --- running statements ------------------------------------------------------------------------

    async def _run(self, work: Callable[[apsw.Connection], T], *, write: bool = False) -> T:
        monitor = _StatementLimitWatchdog(self._timeout_s)

        def run() -> T:
            with self._map_errors(monitor):
                db = self._open(monitor, write=write)
                try:
                    return work(db)
                finally:
                    db.authorizer = None
                    db.close()  # rolls back what was not committed

        async def wait() -> T:
            result: T = await run_in_thread(run)
            return result

        return await self._limiter.run(wait, monitor.stop)

    @contextmanager
    def _map_errors(self, monitor: _StatementLimitWatchdog) -> Iterator[None]:
        """Map SQLite errors to BackendRefused; the only place that does."""
        try:
            yield
        except apsw.InterruptError:
            if monitor.stop_reason == "memory":
                raise BackendRefused("The statement needs too much memory and was stopped: ask for less.") from None
            raise timeout_error(self._timeout_s) from None
        except apsw.AuthError:
            raise BackendRefused("This would read or change something that is not in scope. Nothing was run.") from None
        except (
            apsw.CantOpenError,
            apsw.NotADBError,
            apsw.PermissionsError,
            apsw.CorruptError,
            FileNotFoundError,
        ) as error:
            raise unreachable_error(SQLITE.title, error, _describe_missing_file(self._path)) from None
        except UnicodeDecodeError:
            raise database_error("a text value is not UTF-8: leave that column out, or use hex()") from None
        except apsw.TooBigError:
            raise BackendRefused(f"A value is larger than {VALUE_BYTES_MAX} bytes: leave that column out.") from None
        except apsw.Error as error:
            raise database_error(str(error), _describe_missing_file(self._path)) from None

    def _open(self, monitor: _StatementLimitWatchdog, *, write: bool) -> apsw.Connection:
        assert self._is_writable or not write, "a backend that only reads opens nothing for writing"
        flags = apsw.SQLITE_OPEN_READWRITE if write else apsw.SQLITE_OPEN_READONLY
        db = apsw.Connection(self._path, flags=flags, statementcachesize=0)
        try:
            db.config(apsw.SQLITE_DBCONFIG_DEFENSIVE, 1)
            db.config(apsw.SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0)
            db.config(apsw.SQLITE_DBCONFIG_DQS_DML, 0)  # "x" is always a name, never a string literal
            db.config(apsw.SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION, 0)
            db.config(apsw.SQLITE_DBCONFIG_ENABLE_ATTACH_CREATE, 0)
            for limit, value in SQLITE_LIMITS.items():
                db.limit(limit, value)
            db.set_busy_timeout(int(min(self._timeout_s, 5.0) * 1000))
            db.set_progress_handler(monitor.should_stop, PROGRESS_STEPS)
            replace_slow_functions(db, monitor.should_stop, SQLITE_LIMITS)
            db.pragma("temp_store", 2)  # in memory, where it counts towards the memory limit
            if write:
                db.pragma("foreign_keys", True)
            else:
                db.pragma("query_only", True)
            db.execute("BEGIN")
        except BaseException:
            db.close()
            raise
        return db

    def _schema_fingerprint(self, db: apsw.Connection) -> object:
        """Return a value that changes when the file or its schema changes."""
        status = os.stat(self._path)
        return status.st_dev, status.st_ino, db.pragma("schema_version")

    def _get_catalog(self, db: apsw.Connection) -> Catalog:
        """Return the catalog as of this transaction, cached until the schema changes."""
        mark = self._schema_fingerprint(db)
        if self._cached_catalog is None or self._cached_catalog[0] != mark:
            self._cached_catalog = (mark, _read_catalog(db))
        return self._cached_catalog[1]

    def _check_statement(self, db: apsw.Connection, check: StatementCheck, begin: str) -> SqliteAuthorizer:
        """Check a statement without a lock on the file, then begin a transaction; refuse if the schema changed."""
        catalog, mark = self._get_catalog(db), self._schema_fingerprint(db)
        scope = build_scope_matcher(self._scope, catalog)
        db.execute("COMMIT")
        statement = check(StatementChecker(SQLITE, catalog, scope))
        db.execute(begin)
        if self._schema_fingerprint(db) != mark:
            raise BackendRefused("The tables were altered meanwhile: try again. Nothing was run.")
        authorizer = SqliteAuthorizer(statement, catalog, scope)
        for relation in statement.relations:
            if relation.kind == "view":
                reads = find_view_reads(db, relation)
                if scope.find_grant(relation) != "name":
                    check_view_reads(reads, catalog, scope)
                authorizer.allow_view(reads)
        if statement.target is not None:
            authorizer.allow_foreign_keys(_find_foreign_key_tables(db, statement.target))
        return authorizer


# --- catalog -------------------------------------------------------------------------------------


def _read_catalog(db: apsw.Connection) -> Catalog:
    relations = []
    columns_left = COLUMNS_MAX
    sql = "SELECT name, type FROM pragma_table_list WHERE schema = 'main' ORDER BY name LIMIT ?"
    estimates = _read_row_estimates(db)
    for name, kind in list(db.execute(sql, (RELATIONS_MAX,))):
        columns = _read_columns(db, name) if columns_left > 0 else ()
        columns_left -= len(columns)
        relations.append(
            Relation(
                database="main",
                schema="main",
                name=name,
                kind=_RELATION_KINDS.get(kind, "shadow table"),
                is_system=ascii_lower(name).startswith("sqlite_"),
                estimated_rows=estimates.get(name),
                columns=columns,
            )
        )
    check_relation_count(len(relations), SQLITE.title)
    triggers = [name for (name,) in db.execute("SELECT name FROM sqlite_schema WHERE type = 'trigger'")]
    return Catalog(relations, ("main",), ascii_lower, triggers)


def _read_columns(db: apsw.Connection, name: str) -> tuple[SqlColumn, ...]:
    sql = "SELECT name, type, \"notnull\", pk FROM pragma_table_xinfo(?, 'main') WHERE hidden IN (0, 2, 3)"
    try:
        rows = list(db.execute(sql, (name,)))
    except apsw.SQLError:  # a view of a dropped table
        return ()
    return tuple(SqlColumn(column, kind, not required, bool(key)) for column, kind, required, key in rows)


def _read_row_estimates(db: apsw.Connection) -> dict[str, int]:
    try:
        estimates = list(db.execute("SELECT tbl, max(CAST(stat AS INTEGER)) FROM sqlite_stat1 GROUP BY tbl"))
    except apsw.SQLError:  # ANALYZE was never run
        return {}
    return {name: rows for name, rows in estimates if isinstance(rows, int)}


def _read_details(db: apsw.Connection, relation: Relation) -> list[IndexOrForeignKey]:
    details = []
    indexes = "SELECT name, \"unique\" FROM pragma_index_list(?, 'main')"
    for index, unique in list(db.execute(indexes, (relation.name,))):
        parts = db.execute("SELECT name FROM pragma_index_info(?, 'main')", (index,))
        details.append(
            IndexOrForeignKey(tuple(name or "" for (name,) in parts), "unique index on" if unique else "index on")
        )
    keys = 'SELECT "from", "table" FROM pragma_foreign_key_list(?, \'main\')'
    for column, table in db.execute(keys, (relation.name,)):
        details.append(IndexOrForeignKey((column,), referenced_table=table))
    return details


def _find_foreign_key_tables(db: apsw.Connection, table: Relation) -> Iterator[str]:
    """Yield the tables that foreign keys connect to a table: SQLite looks up keys there."""
    sql = (
        "SELECT m.name, f.\"table\" FROM sqlite_schema m, pragma_foreign_key_list(m.name, 'main') f "
        "WHERE m.type = 'table' AND ? COLLATE NOCASE IN (m.name, f.\"table\")"
    )
    for names in list(db.execute(sql, (table.name,))):
        yield from names


def _fetch_rows(db: apsw.Connection, sql: str, page: ResultPageRequest) -> ResultRows:
    columns: list[str] = []
    rows: list[tuple[str | None, ...]] = []

    def prepared(cursor: apsw.Cursor, sql: str, bindings: object) -> bool:  # also called if there are no rows
        columns.extend(column[0] for column in cursor.get_description())
        return True

    cursor = db.cursor()
    cursor.exec_trace = prepared
    for number, row in enumerate(cursor.execute(sql)):
        if number < page.offset:
            continue
        if len(rows) == page.rows_max:
            return ResultRows(tuple(columns), rows, True)
        rows.append(tuple(format_value(value) for value in row))
    return ResultRows(tuple(columns), rows, False)


def _describe_missing_file(path: str) -> str:
    """Return why a path cannot be a database; empty if it is a file."""
    if os.path.isfile(path):
        return ""
    return f"{path} is not a file" if os.path.exists(path) else f"there is no file {path}"
