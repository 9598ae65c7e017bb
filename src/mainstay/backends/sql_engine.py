"""What every database must be able to do for us, and how its troubles are told."""

from __future__ import annotations

import asyncio
import os
import socket
import time
from collections.abc import Callable, Coroutine, Sequence
from typing import Protocol, TypeVar

import msgspec

from mainstay.backends.common import BackendRefused, clean_line
from mainstay.backends.sql_catalog import Catalog, Detail, Relation
from mainstay.backends.sql_rows import Rows
from mainstay.backends.sql_scope import Scope, SqlScope
from mainstay.backends.sql_statements import Judge, Statement
from mainstay.backends.sql_words import Dialect

T = TypeVar("T")

CALLS_MAX = 4  # at once; the others wait
CATALOG_S = 60.0  # so old may be what is known of a database, where something else watches over what is read
RELATIONS_MAX = 20_000
COLUMNS_MAX = 100_000

Reading = Callable[[Judge], Statement]  # judges a text by the catalogue that holds while it runs


class Page(msgspec.Struct, frozen=True):
    """Which rows are wanted."""

    offset: int
    rows: int


class Engine(Protocol):
    """One database. Each call has a connection of its own, which ends with it: nothing is left over for the next."""

    dialect: Dialect

    async def catalog(self) -> tuple[Catalog, Scope]: ...
    async def details(self, relation: Relation) -> Sequence[Detail]:
        """Its indexes and foreign keys."""
        ...

    async def query(self, reading: Reading, page: Page) -> tuple[Statement, Rows]: ...
    async def change(self, reading: Reading) -> int:
        """How many rows."""
        ...


def outside(name: str) -> BackendRefused:
    return BackendRefused(
        f"This would read {name}, which is not within reach: a view that was granted by a pattern opens nothing but "
        "what lies within the scope itself. Nothing was run."
    )


def failed(message: str) -> BackendRefused:
    """What the database said about a statement."""
    return BackendRefused(f"The database says: {clean_line(message, 300)}")


def too_slow(seconds: float) -> BackendRefused:
    return BackendRefused(f"The statement took longer than {seconds:g} s and was stopped: ask for less.")


def unreachable(title: str) -> BackendRefused:
    """Without the driver's own words: they may hold where it is, and who we are there."""
    return BackendRefused(f"The {title} database cannot be reached now: if that lasts, its owner must look after it.")


def check_count(found: int, title: str) -> None:
    """A catalogue that is cut short cannot say what a name stands for."""
    if found >= RELATIONS_MAX:
        raise BackendRefused(f"The {title} database has {RELATIONS_MAX} tables or more, which is too many.")


def scope_of(settings: SqlScope, catalog: Catalog) -> Scope:
    return Scope(settings, catalog.schemas, catalog.fold)


def hang_up(descriptor: int) -> None:
    """End a connection that others are still waiting on: each of them learns it at once, and closes it itself."""
    if descriptor < 0:
        return
    try:
        with socket.socket(fileno=os.dup(descriptor)) as line:
            line.shutdown(socket.SHUT_RDWR)
    except OSError:  # it had ended before
        pass


class Gate:
    """So many at once, each within its time."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._free = asyncio.Semaphore(CALLS_MAX)

    async def run(self, work: Callable[[], Coroutine[None, None, T]], abort: Callable[[], None]) -> T:
        """Whoever waits is let go in time. `abort` makes the work end soon; until it has ended, it counts."""
        began = time.monotonic()
        try:
            async with asyncio.timeout(self._seconds):
                await self._free.acquire()
        except TimeoutError:
            raise BackendRefused("Too much is asked of this database at once: try again later.") from None
        task = asyncio.ensure_future(work())
        task.add_done_callback(self._ended)
        try:
            await asyncio.wait({task}, timeout=max(0.0, self._seconds - (time.monotonic() - began)))
        except asyncio.CancelledError:
            abort()
            raise
        if not task.done():
            abort()
            raise too_slow(self._seconds)
        return task.result()

    def _ended(self, task: asyncio.Future[T]) -> None:
        self._free.release()
        if not task.cancelled():
            task.exception()  # nobody may be left who would ask
