"""SQLite: the file is opened for one call, and SQLite itself is asked about everything the statement touches."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

import apsw

from mainstay.backends.common import BackendRefused
from mainstay.backends.sql_catalog import Catalog, Column, Detail, Kind, Relation, ascii_lower
from mainstay.backends.sql_engine import (
    COLUMNS_MAX,
    RELATIONS_MAX,
    Gate,
    Page,
    Reading,
    check_count,
    failed,
    scope_of,
    too_slow,
    unreachable,
)
from mainstay.backends.sql_functions import guard
from mainstay.backends.sql_rows import Rows, show
from mainstay.backends.sql_scope import Scope, SqlScope
from mainstay.backends.sql_statements import Judge, Statement
from mainstay.backends.sql_watch import Watch, check_within, reads_of
from mainstay.backends.sql_words import SQLITE
from mainstay.core.errors import ConfigError
from mainstay.core.workers import in_thread

T = TypeVar("T")

VALUE_BYTES_MAX = 500_000  # what a function does with it cannot be stopped, nor what a thousand of them do in one row
MEMORY_MAX = 256 * 1024 * 1024
STEPS = 1_000  # of SQLite's machine between two looks at the clock
LIMITS = {
    apsw.SQLITE_LIMIT_LENGTH: VALUE_BYTES_MAX,
    apsw.SQLITE_LIMIT_SQL_LENGTH: 100_000,
    apsw.SQLITE_LIMIT_EXPR_DEPTH: 200,
    apsw.SQLITE_LIMIT_COMPOUND_SELECT: 50,
    apsw.SQLITE_LIMIT_VDBE_OP: 250_000,
    apsw.SQLITE_LIMIT_FUNCTION_ARG: 100,
    apsw.SQLITE_LIMIT_LIKE_PATTERN_LENGTH: 200,
    apsw.SQLITE_LIMIT_ATTACHED: 0,
    apsw.SQLITE_LIMIT_VARIABLE_NUMBER: 100,  # a full-text index asks with some
    apsw.SQLITE_LIMIT_TRIGGER_DEPTH: 10,
    apsw.SQLITE_LIMIT_WORKER_THREADS: 0,
}
_KINDS: dict[str, Kind] = {"table": "table", "view": "view", "virtual": "virtual table", "shadow": "shadow table"}


def path_of(url: str) -> str:
    """The file of `sqlite:///relative.db` and `sqlite:////absolute.db`."""
    path = url.removeprefix("sqlite:///")
    if path == url or not path or "?" in path or "\0" in path or path == ":memory:":
        raise ConfigError("a SQLite database is given as sqlite:///file.db, or sqlite:////absolute/file.db")
    return path


class _Call:
    """One connection at work, which can be stopped from outside."""

    def __init__(self, seconds: float) -> None:
        self._deadline = time.monotonic() + seconds
        self._memory = apsw.memory_used()
        self.stopped = ""

    def stop(self) -> None:
        self.stopped = self.stopped or "time"

    def look(self) -> bool:
        """True: enough."""
        if time.monotonic() > self._deadline:
            self.stop()
        elif apsw.memory_used() - self._memory > MEMORY_MAX:
            self.stopped = "memory"
        return bool(self.stopped)


class SqliteEngine:
    dialect = SQLITE

    def __init__(self, path: str, scope: SqlScope, timeout_s: float, *, write: bool) -> None:
        self._path = path
        self._scope = scope
        self._seconds = timeout_s
        self._write = write
        self._gate = Gate(timeout_s + 1.0)  # its own handler is to say so first
        self._known: tuple[object, Catalog] | None = None

    async def catalog(self) -> tuple[Catalog, Scope]:
        def look(db: apsw.Connection) -> tuple[Catalog, Scope]:
            catalog = self._look_up(db)
            return catalog, scope_of(self._scope, catalog)

        return await self._run(look)

    async def details(self, relation: Relation) -> Sequence[Detail]:
        return await self._run(lambda db: _details(db, relation))

    async def query(self, reading: Reading, page: Page) -> tuple[Statement, Rows]:
        def work(db: apsw.Connection) -> tuple[Statement, Rows]:
            watch = self._judged(db, reading, "BEGIN")
            db.authorizer = watch
            return watch.statement, _rows(db, watch.statement.sql, page)

        return await self._run(work)

    async def change(self, reading: Reading) -> int:
        def work(db: apsw.Connection) -> int:
            watch = self._judged(db, reading, "BEGIN IMMEDIATE")
            db.authorizer = watch
            try:
                db.execute(watch.statement.sql)
                count = db.changes()
            finally:
                db.authorizer = None
            db.execute("COMMIT")
            return count

        return await self._run(work, write=True)

    # --- at work -----------------------------------------------------------------------------------

    async def _run(self, work: Callable[[apsw.Connection], T], *, write: bool = False) -> T:
        call = _Call(self._seconds)

        def run() -> T:
            with _said(call, self._seconds):
                db = self._open(call, write=write)
                try:
                    return work(db)
                finally:
                    db.authorizer = None
                    db.close()  # whatever was not committed is undone

        async def wait() -> T:
            done: T = await in_thread(run)
            return done

        return await self._gate.run(wait, call.stop)

    def _open(self, call: _Call, *, write: bool) -> apsw.Connection:
        assert self._write or not write, "a backend that only reads opens nothing for writing"
        flags = apsw.SQLITE_OPEN_READWRITE if write else apsw.SQLITE_OPEN_READONLY
        db = apsw.Connection(self._path, flags=flags, statementcachesize=0)
        try:
            db.config(apsw.SQLITE_DBCONFIG_DEFENSIVE, 1)
            db.config(apsw.SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0)
            db.config(apsw.SQLITE_DBCONFIG_DQS_DML, 0)  # "x" is a name and never quietly a text
            db.config(apsw.SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION, 0)
            db.config(apsw.SQLITE_DBCONFIG_ENABLE_ATTACH_CREATE, 0)
            for limit, value in LIMITS.items():
                db.limit(limit, value)
            db.set_busy_timeout(int(min(self._seconds, 5.0) * 1000))
            db.set_progress_handler(call.look, STEPS)
            guard(db, call.look, LIMITS)
            db.pragma("temp_store", 2)  # in memory, where it is counted
            if write:
                db.pragma("foreign_keys", True)
            else:
                db.pragma("query_only", True)
            db.execute("BEGIN")
        except BaseException:
            db.close()
            raise
        return db

    def _mark(self, db: apsw.Connection) -> object:
        """Something else, if the tables are others."""
        found = os.stat(self._path)
        return found.st_dev, found.st_ino, db.pragma("schema_version")

    def _look_up(self, db: apsw.Connection) -> Catalog:
        """As it stands within this transaction."""
        mark = self._mark(db)
        if self._known is None or self._known[0] != mark:
            self._known = (mark, _catalog(db))
        return self._known[1]

    def _judged(self, db: apsw.Connection, reading: Reading, begin: str) -> Watch:
        """It is judged while nobody waits for the file, and runs if the tables are still those it was judged by."""
        catalog, mark = self._look_up(db), self._mark(db)
        scope = scope_of(self._scope, catalog)
        db.execute("COMMIT")
        statement = reading(Judge(SQLITE, catalog, scope))
        db.execute(begin)
        if self._mark(db) != mark:
            raise BackendRefused("The tables were altered meanwhile: try again. Nothing was run.")
        watch = Watch(statement, catalog, scope)
        for relation in statement.relations:
            if relation.kind == "view":
                reads = reads_of(db, relation)
                if scope.grant(relation) != "name":
                    check_within(reads, catalog, scope)
                watch.open(reads)
        if statement.target is not None:
            watch.relate(_related(db, statement.target))
        return watch


# --- what there is -------------------------------------------------------------------------------


def _catalog(db: apsw.Connection) -> Catalog:
    relations = []
    left = COLUMNS_MAX
    listed = "SELECT name, type FROM pragma_table_list WHERE schema = 'main' ORDER BY name LIMIT ?"
    estimates = _estimates(db)
    for name, kind in list(db.execute(listed, (RELATIONS_MAX,))):
        columns = _columns(db, name) if left > 0 else ()
        left -= len(columns)
        relations.append(
            Relation(
                database="main",
                schema="main",
                name=name,
                kind=_KINDS.get(kind, "shadow table"),
                system=ascii_lower(name).startswith("sqlite_"),
                rows=estimates.get(name),
                columns=columns,
            )
        )
    check_count(len(relations), SQLITE.title)
    triggers = [name for (name,) in db.execute("SELECT name FROM sqlite_schema WHERE type = 'trigger'")]
    return Catalog(relations, ("main",), ascii_lower, triggers)


def _columns(db: apsw.Connection, name: str) -> tuple[Column, ...]:
    asked = "SELECT name, type, \"notnull\", pk FROM pragma_table_xinfo(?, 'main') WHERE hidden IN (0, 2, 3)"
    try:
        found = list(db.execute(asked, (name,)))
    except apsw.SQLError:  # a view of something that is no more
        return ()
    return tuple(Column(column, kind, not required, bool(key)) for column, kind, required, key in found)


def _estimates(db: apsw.Connection) -> dict[str, int]:
    try:
        found = list(db.execute("SELECT tbl, max(CAST(stat AS INTEGER)) FROM sqlite_stat1 GROUP BY tbl"))
    except apsw.SQLError:  # it was never analysed
        return {}
    return {name: rows for name, rows in found if isinstance(rows, int)}


def _details(db: apsw.Connection, relation: Relation) -> list[Detail]:
    made = []
    indexes = "SELECT name, \"unique\" FROM pragma_index_list(?, 'main')"
    for index, unique in list(db.execute(indexes, (relation.name,))):
        parts = db.execute("SELECT name FROM pragma_index_info(?, 'main')", (index,))
        made.append(Detail(tuple(name or "" for (name,) in parts), "unique index on" if unique else "index on"))
    keys = 'SELECT "from", "table" FROM pragma_foreign_key_list(?, \'main\')'
    for column, table in db.execute(keys, (relation.name,)):
        made.append(Detail((column,), to=table))
    return made


def _related(db: apsw.Connection, table: Relation) -> Iterator[str]:
    """Tables that foreign keys tie it to: whether those hold is looked up there."""
    asked = (
        "SELECT m.name, f.\"table\" FROM sqlite_schema m, pragma_foreign_key_list(m.name, 'main') f "
        "WHERE m.type = 'table' AND ? COLLATE NOCASE IN (m.name, f.\"table\")"
    )
    for names in list(db.execute(asked, (table.name,))):
        yield from names


def _rows(db: apsw.Connection, sql: str, page: Page) -> Rows:
    columns: list[str] = []
    shown: list[tuple[str | None, ...]] = []

    def prepared(cursor: apsw.Cursor, sql: str, bindings: object) -> bool:  # also where no row follows
        columns.extend(one[0] for one in cursor.get_description())
        return True

    cursor = db.cursor()
    cursor.exec_trace = prepared
    for at, row in enumerate(cursor.execute(sql)):
        if at < page.offset:
            continue
        if len(shown) == page.rows:
            return Rows(tuple(columns), shown, True)
        shown.append(tuple(show(value) for value in row))
    return Rows(tuple(columns), shown, False)


@contextmanager
def _said(call: _Call, seconds: float) -> Iterator[None]:
    """SQLite's errors as ours; the only place that does."""
    try:
        yield
    except apsw.InterruptError:
        if call.stopped == "memory":
            raise BackendRefused("The statement needs too much memory and was stopped: ask for less.") from None
        raise too_slow(seconds) from None
    except apsw.AuthError:
        raise BackendRefused("This would read or change something that is not within reach. Nothing was run.") from None
    except (apsw.CantOpenError, apsw.NotADBError, apsw.PermissionsError, apsw.CorruptError, FileNotFoundError):
        raise unreachable(SQLITE.title) from None
    except UnicodeDecodeError:
        raise failed("a text is no UTF-8: leave that column out, or take hex() of it") from None
    except apsw.TooBigError:
        raise BackendRefused(f"A value is larger than {VALUE_BYTES_MAX} bytes: leave that column out.") from None
    except apsw.Error as error:
        raise failed(str(error)) from None
