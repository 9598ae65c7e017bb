"""Engine protocol that every SQL database implements, and the errors, limits and sockets that engines share."""

from __future__ import annotations

import asyncio
import os
import socket
import time
from collections.abc import Callable, Coroutine, Sequence
from typing import Protocol, TypeVar

import msgspec

from mainstay.backends.base import BackendRefused, clean_line
from mainstay.backends.sql.catalog import Catalog, IndexOrForeignKey, Relation
from mainstay.backends.sql.csv_results import ResultRows
from mainstay.backends.sql.manifest import SqlScope
from mainstay.backends.sql.scope import SqlScopeMatcher
from mainstay.backends.sql.statement_allowlists import SqlDialect
from mainstay.backends.sql.statement_checker import CheckedStatement, StatementChecker

T = TypeVar("T")

CONCURRENT_CALLS_MAX = 4  # per database; further calls wait
CATALOG_AGE_MAX_S = 60.0  # maximal age of a cached catalog, where the database itself enforces what is read
RELATIONS_MAX = 20_000
COLUMNS_MAX = 100_000
REASON_CHARS_MAX = 300  # of the driver's message, for the owner

# checks a text against the catalog that is valid while it runs
StatementCheck = Callable[[StatementChecker], CheckedStatement]


class ResultPageRequest(msgspec.Struct, frozen=True):
    """The rows of a result to fetch."""

    offset: int
    rows_max: int


class SqlDatabase(Protocol):
    """One database. Each call uses its own connection, so that no session state is left for the next call."""

    dialect: SqlDialect

    async def load_catalog(self) -> tuple[Catalog, SqlScopeMatcher]: ...
    async def load_details(self, relation: Relation) -> Sequence[IndexOrForeignKey]:
        """Return the indexes and foreign keys of a table."""
        ...

    async def run_query(
        self, check: StatementCheck, page: ResultPageRequest
    ) -> tuple[CheckedStatement, ResultRows]: ...
    async def run_change(self, check: StatementCheck) -> int:
        """Check, run and commit a change; return the number of changed rows."""
        ...


def out_of_scope_error(name: str) -> BackendRefused:
    return BackendRefused(
        f"This would read {name}, which is not in scope: a view that a pattern allows gives access only to tables "
        "that are in scope themselves. Nothing was run."
    )


def database_error(message: str, owner_message: str = "") -> BackendRefused:
    """Return the error for the database's own message about a statement."""
    return BackendRefused(f"The database says: {clean_line(message, 300)}", owner_message)


def timeout_error(timeout_s: float) -> BackendRefused:
    return BackendRefused(f"The statement took longer than {timeout_s:g} s and was stopped: ask for less.")


def unreachable_error(title: str, error: Exception, owner_message: str = "") -> BackendRefused:
    """Return the error without the driver's message, which may contain the host and the user: it is for the owner."""
    reason = clean_line(str(error), REASON_CHARS_MAX)
    return BackendRefused(
        f"The {title} database cannot be reached now; if this persists, its owner must fix it.",
        owner_message or f"the {title} database cannot be opened: {reason}",
    )


def check_relation_count(count: int, title: str) -> None:
    """Raise BackendRefused for a catalog that reached its limit: names cannot be resolved in a truncated catalog."""
    if count >= RELATIONS_MAX:
        raise BackendRefused(f"The {title} database has {RELATIONS_MAX} tables or more, which is too many.")


def build_scope_matcher(scope: SqlScope, catalog: Catalog) -> SqlScopeMatcher:
    return SqlScopeMatcher(scope, catalog.default_schemas, catalog.fold_name)


def shut_down_connection(descriptor: int) -> None:
    """Shut down a connection that is still in use: each user of it gets an error at once and closes it."""
    if descriptor < 0:
        return
    try:
        with socket.socket(fileno=os.dup(descriptor)) as connection:
            connection.shutdown(socket.SHUT_RDWR)
    except OSError:  # already closed
        pass


class CallLimiter:
    """Limits concurrent calls to one database and the time of each call."""

    def __init__(self, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self._slots = asyncio.Semaphore(CONCURRENT_CALLS_MAX)

    async def run(self, work: Callable[[], Coroutine[None, None, T]], abort: Callable[[], None]) -> T:
        """Run `work` when a slot is free. On timeout or cancellation, call `abort` and return at once; `abort` must
        make the work end soon, and the slot stays taken until it has ended."""
        started = time.monotonic()
        try:
            async with asyncio.timeout(self._timeout_s):
                await self._slots.acquire()
        except TimeoutError:
            raise BackendRefused("Too many statements are running on this database: try again later.") from None
        task = asyncio.ensure_future(work())
        task.add_done_callback(self._release_slot)
        try:
            await asyncio.wait({task}, timeout=max(0.0, self._timeout_s - (time.monotonic() - started)))
        except asyncio.CancelledError:
            abort()
            raise
        if not task.done():
            abort()
            raise timeout_error(self._timeout_s)
        return task.result()

    def _release_slot(self, task: asyncio.Future[T]) -> None:
        self._slots.release()
        if not task.cancelled():
            task.exception()  # mark it as retrieved: the caller may have left
