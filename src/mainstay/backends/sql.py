"""The sql backend: a database as `describe` and `query`, and `change` where it was granted.

Two walls. Before anything runs, the statement is parsed, judged and written anew (sql_statements). While it runs, the
database itself watches: SQLite asks about every table it touches, PostgreSQL shows its locks, all of them refuse to
write where nothing was granted.
"""

from __future__ import annotations

import asyncio
import re
from typing import Annotated
from urllib.parse import urlsplit

from msgspec import Meta

from mainstay.backends.common import (
    Arguments,
    BackendRefused,
    BackendTool,
    Traits,
    clean_line,
    fit_lines,
    is_one_word,
    page,
)
from mainstay.backends.sql_catalog import Catalog, Relation, Spelling
from mainstay.backends.sql_engine import Engine, Page
from mainstay.backends.sql_grammar import library
from mainstay.backends.sql_mysql import MysqlEngine
from mainstay.backends.sql_postgres import PostgresEngine
from mainstay.backends.sql_rows import table
from mainstay.backends.sql_scope import Scope, SqlScope
from mainstay.backends.sql_sqlite import SqliteEngine, path_of
from mainstay.backends.sql_statements import check_change
from mainstay.core.errors import ConfigError
from mainstay.core.ports import Effect, Tool, ToolContext
from mainstay.core.tools import BadArguments

OFFSET_MAX = 1_000_000
START_S = 5.0  # so long the schema is waited for when a session begins


class SqlSettings(Traits, frozen=True, kw_only=True):
    url: str
    scope: SqlScope = SqlScope()


class _Describe(Arguments, frozen=True):
    table: Annotated[str | None, Meta(description="One table: its columns, keys and indexes.")] = None
    offset: int | None = None


class _Query(Arguments, frozen=True):
    sql: str
    offset: Annotated[int | None, Meta(description="Go on at this row.")] = None


class _Change(Arguments, frozen=True):
    sql: str


class _DescribeTool(BackendTool):
    action = "describe"
    arguments = _Describe

    def __init__(self, backend: SqlBackend) -> None:
        super().__init__(backend.settings, f"The tables of {_about(backend.settings)}, with their columns.")
        self._backend = backend

    async def answer(self, arguments: _Describe, context: ToolContext) -> str:
        return await self._backend.describe(arguments.table, arguments.offset)


class _QueryTool(BackendTool):
    action = "query"
    arguments = _Query

    def __init__(self, backend: SqlBackend) -> None:
        title = backend.engine.dialect.title
        super().__init__(backend.settings, f"Run one SELECT ({title}) on {_about(backend.settings)}. Answers in CSV.")
        self._backend = backend

    async def answer(self, arguments: _Query, context: ToolContext) -> str:
        return await self._backend.query(arguments.sql, arguments.offset)


class _ChangeTool(BackendTool):
    action = "change"
    arguments = _Change
    writes = True
    effect: Effect = "unsafe"

    def __init__(self, backend: SqlBackend) -> None:
        title = backend.engine.dialect.title
        what = f"Run one INSERT, UPDATE or DELETE ({title}) on {_about(backend.settings)}."
        super().__init__(backend.settings, what)
        self._backend = backend

    def parse(self, input: str) -> _Change:
        """Raises BadArguments also for what can never run: this is before the owner is asked."""
        arguments: _Change = super().parse(input)
        try:
            check_change(arguments.sql, self._backend.engine.dialect)
        except BackendRefused as error:
            raise BadArguments(str(error)) from None
        return arguments

    async def answer(self, arguments: _Change, context: ToolContext) -> str:
        return await self._backend.change(arguments.sql)


class SqlBackend:
    """One database. Connections are made when they are needed and end with the call."""

    def __init__(self, settings: SqlSettings) -> None:
        self.settings = settings
        self.engine = _engine(settings)
        tools: list[Tool] = [_DescribeTool(self), _QueryTool(self)]
        self.tools: tuple[Tool, ...] = (*tools, _ChangeTool(self)) if settings.write else tuple(tools)
        self._schema = ""

    @property
    def name(self) -> str:
        return self.settings.name

    async def start(self) -> None:
        """Reads the schema for the fixed section."""
        library()
        try:
            async with asyncio.timeout(START_S):
                await self._look()
        except TimeoutError:
            raise BackendRefused(f"The database did not say what it has within {START_S:g} s.") from None

    async def close(self) -> None:
        """Nothing is kept open between calls."""

    def schema(self) -> str:
        head = f"### {_about(self.settings)}: {self.engine.dialect.title}"
        return f"{head}\n{self._schema or f'[{self.name}__describe lists its tables]'}"

    async def describe(self, name: str | None, offset: int | None) -> str:
        catalog, scope = await self._look()
        spelling = Spelling(self.engine.dialect, catalog)
        if name:
            relation = _named(name, catalog, scope)
            lines = spelling.lines(relation, await self.engine.details(relation))
        else:
            lines = [spelling.line(one) for one in _within(catalog, scope)]
        if not lines:
            return "[there are no tables within reach]"
        shown, note = page(lines, offset, self.settings.rows_max)
        return "\n".join((*shown, note)) if note else "\n".join(shown)

    async def query(self, sql: str, offset: int | None) -> str:
        begin = offset or 0
        if not 0 <= begin <= OFFSET_MAX:
            raise BackendRefused(f"offset is a number from 0 to {OFFSET_MAX}. Nothing was run.")
        wanted = Page(begin, self.settings.rows_max)
        statement, rows = await self.engine.query(lambda judge: judge.query(sql), wanted)
        return table(rows, begin, statement.ordered)

    async def change(self, sql: str) -> str:
        count = await self.engine.change(lambda judge: judge.change(sql))
        return f"{count} row{'' if count == 1 else 's'} changed."

    async def _look(self) -> tuple[Catalog, Scope]:
        catalog, scope = await self.engine.catalog()
        spelling = Spelling(self.engine.dialect, catalog)
        within = _within(catalog, scope)
        plain = [one for one in within if _says_nothing(one)]
        lines = [spelling.line(one, short=True) for one in plain]
        more, odd = f"tables; {self.name}__describe lists them", len(within) - len(plain)
        self._schema = fit_lines(lines, self.settings.schema_tokens, more, odd)
        return catalog, scope


def _engine(settings: SqlSettings) -> Engine:
    url, scope, seconds, write = settings.url, settings.scope, settings.timeout_s, settings.write
    kind = urlsplit(url).scheme
    if kind == "sqlite":
        return SqliteEngine(path_of(url), scope, seconds, write=write)
    if kind in ("postgresql", "postgres"):
        return PostgresEngine(url, scope, seconds, write=write)
    if kind in ("mysql", "mariadb"):
        return MysqlEngine(url, scope, seconds, write=write)
    raise ConfigError(f"backend {settings.name}: no such database as {kind or 'nothing'!r}: sqlite, postgresql, mysql")


def _within(catalog: Catalog, scope: Scope) -> list[Relation]:
    found = [one for one in catalog if scope.grant(one) and one.kind != "shadow table"]
    return sorted(found, key=lambda one: (one.schema not in catalog.schemas, one.schema, one.name))


def _named(name: str, catalog: Catalog, scope: Scope) -> Relation:
    """As a model may say it: with its schema or without, quoted or not."""
    plain = name.replace('"', "").replace("`", "").replace("[", "").replace("]", "")
    schema, _, last = plain.rpartition(".")
    for found in (catalog.find(name), catalog.find(plain), catalog.find(last, schema)):
        if found is not None and scope.grant(found):
            return found
    raise BackendRefused(f"There is no table {clean_line(name, 80)} within reach: describe lists those there are.")


def _about(settings: SqlSettings) -> str:
    return f"{settings.name} ({clean_line(settings.about)})" if settings.about else settings.name


_KIND = re.compile(
    r"(?:unsigned |bit |character |national )?[a-z_][a-z0-9_]{0,30}(?: varying| precision| unsigned)?"
    r"(?:\([0-9]{1,5}(?:, ?[0-9]{1,5})?\))?(?: (?:unsigned|with(?:out)? time zone))?(?:\[\])*",
    re.IGNORECASE,
)


def _says_nothing(relation: Relation) -> bool:
    """Its names are words, and its types are types: SQLite takes a sentence for one."""
    names = (relation.name, *(column.name for column in relation.columns))
    return all(map(is_one_word, names)) and all(
        not column.type or _KIND.fullmatch(column.type) for column in relation.columns
    )
