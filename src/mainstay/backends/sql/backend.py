"""SQL backend: a database as the tools `describe` and `query`, and `change` where writing is granted.

A statement is checked twice. Before it runs, it is parsed, checked against an allowlist and generated anew from its AST
(statement_checker). While it runs, the database enforces the scope: SQLite calls an authorizer for every table,
PostgreSQL exposes its locks, MySQL views are checked by definition; queries run in read-only transactions.
"""

from __future__ import annotations

import asyncio
import re
from typing import Annotated
from urllib.parse import urlsplit

from msgspec import Meta

from mainstay.backends.base import (
    BackendRefused,
    BackendTool,
    BackendToolArguments,
    clean_line,
    fit_lines,
    is_single_word,
    paginate,
)
from mainstay.backends.factory_context import BackendFactoryContext
from mainstay.backends.sql.catalog import Catalog, Relation, SqlNameFormatter
from mainstay.backends.sql.csv_results import format_csv
from mainstay.backends.sql.engine import ResultPageRequest, SqlDatabase
from mainstay.backends.sql.manifest import SqlSettings
from mainstay.backends.sql.mysql import MysqlEngine
from mainstay.backends.sql.parser import load_sqlglot
from mainstay.backends.sql.postgres import PostgresEngine
from mainstay.backends.sql.scope import SqlScopeMatcher
from mainstay.backends.sql.sqlite import SqliteEngine, parse_sqlite_url
from mainstay.backends.sql.statement_checker import precheck_change
from mainstay.core.errors import ConfigError
from mainstay.core.ports import Effect, Tool, ToolContext
from mainstay.core.tools import BadArguments

OFFSET_MAX = 1_000_000
SCHEMA_TIMEOUT_S = 5.0  # for loading the schema when a session begins


class _SqlDescribeArguments(BackendToolArguments, frozen=True):
    table: Annotated[str | None, Meta(description="One table: its columns, keys and indexes.")] = None
    offset: int | None = None


class _SqlQueryArguments(BackendToolArguments, frozen=True):
    sql: str
    offset: Annotated[int | None, Meta(description="Continue at this row.")] = None


class _SqlChangeArguments(BackendToolArguments, frozen=True):
    sql: str


class _SqlDescribeTool(BackendTool[_SqlDescribeArguments]):
    action = "describe"
    arguments = _SqlDescribeArguments

    def __init__(self, backend: SqlBackend) -> None:
        super().__init__(backend, f"The tables of {backend.display_name}, with their columns.")
        self._backend = backend

    async def execute(self, arguments: _SqlDescribeArguments, context: ToolContext) -> str:
        return await self._backend.describe(arguments.table, arguments.offset)


class _SqlQueryTool(BackendTool[_SqlQueryArguments]):
    action = "query"
    arguments = _SqlQueryArguments

    def __init__(self, backend: SqlBackend) -> None:
        title = backend.engine.dialect.title
        super().__init__(backend, f"Run one SELECT ({title}) on {backend.display_name}. Answers in CSV.")
        self._backend = backend

    async def execute(self, arguments: _SqlQueryArguments, context: ToolContext) -> str:
        return await self._backend.query(arguments.sql, arguments.offset)


class _SqlChangeTool(BackendTool[_SqlChangeArguments]):
    action = "change"
    arguments = _SqlChangeArguments
    writes = True
    effect: Effect = "unsafe"

    def __init__(self, backend: SqlBackend) -> None:
        title = backend.engine.dialect.title
        description = f"Run one INSERT, UPDATE or DELETE ({title}) on {backend.display_name}."
        super().__init__(backend, description)
        self._backend = backend

    def parse(self, input: str) -> _SqlChangeArguments:
        """Parse the arguments; raises BadArguments also for a statement that can never run, before approval is
        requested."""
        arguments = super().parse(input)
        try:
            precheck_change(arguments.sql, self._backend.engine.dialect)
        except BackendRefused as error:
            raise BadArguments(str(error)) from None
        return arguments

    async def execute(self, arguments: _SqlChangeArguments, context: ToolContext) -> str:
        return await self._backend.change(arguments.sql)


def build_sql_backend(name: str, settings: SqlSettings, context: BackendFactoryContext) -> SqlBackend:
    return SqlBackend(name, settings)


class SqlBackend:
    """One database. Each call opens its own connection and closes it."""

    def __init__(self, name: str, settings: SqlSettings) -> None:
        self.name = name
        self.settings = settings
        self.engine = _create_engine(name, settings)
        tools: list[Tool] = [_SqlDescribeTool(self), _SqlQueryTool(self)]
        self.tools: tuple[Tool, ...] = (*tools, _SqlChangeTool(self)) if settings.write else tuple(tools)
        self._schema_text = ""

    @property
    def display_name(self) -> str:
        return f"{self.name} ({clean_line(self.settings.about)})" if self.settings.about else self.name

    async def start(self) -> None:
        """Load the schema summary for the fixed section."""
        load_sqlglot()
        try:
            async with asyncio.timeout(SCHEMA_TIMEOUT_S):
                await self._load_catalog()
        except TimeoutError:
            raise BackendRefused(f"The database did not list its tables within {SCHEMA_TIMEOUT_S:g} s.") from None

    async def close(self) -> None:
        """Do nothing: no connection is kept between calls."""

    def schema_summary(self) -> str:
        heading = f"### {self.display_name}: {self.engine.dialect.title}"
        return f"{heading}\n{self._schema_text or f'[{self.name}__describe lists its tables]'}"

    async def describe(self, name: str | None, offset: int | None) -> str:
        catalog, scope = await self._load_catalog()
        formatter = SqlNameFormatter(self.engine.dialect, catalog)
        if name:
            relation = _find_granted(name, catalog, scope)
            lines = formatter.format_details(relation, await self.engine.load_details(relation))
        else:
            lines = [formatter.format_line(granted) for granted in _list_granted(catalog, scope)]
        if not lines:
            return "[there are no tables in scope]"
        rows, note = paginate(lines, offset, self.settings.rows_max)
        return "\n".join((*rows, note)) if note else "\n".join(rows)

    async def query(self, sql: str, offset: int | None) -> str:
        first = offset or 0
        if not 0 <= first <= OFFSET_MAX:
            raise BackendRefused(f"offset must be a number from 0 to {OFFSET_MAX}. Nothing was run.")
        window = ResultPageRequest(first, self.settings.rows_max)
        statement, rows = await self.engine.run_query(lambda checker: checker.check_query(sql), window)
        return format_csv(rows, first, statement.is_ordered)

    async def change(self, sql: str) -> str:
        count = await self.engine.run_change(lambda checker: checker.check_change(sql))
        return f"{count} row{'' if count == 1 else 's'} changed."

    async def _load_catalog(self) -> tuple[Catalog, SqlScopeMatcher]:
        catalog, scope = await self.engine.load_catalog()
        formatter = SqlNameFormatter(self.engine.dialect, catalog)
        granted = _list_granted(catalog, scope)
        plain_relations = [relation for relation in granted if _has_plain_names(relation)]
        lines = [formatter.format_line(relation, short=True) for relation in plain_relations]
        remainder, omitted = f"tables; {self.name}__describe lists them", len(granted) - len(plain_relations)
        self._schema_text = fit_lines(lines, self.settings.schema_tokens, remainder, omitted)
        return catalog, scope


def _create_engine(name: str, settings: SqlSettings) -> SqlDatabase:
    url, scope, timeout_s, write = settings.url, settings.scope, settings.timeout_s, settings.write
    scheme = urlsplit(url).scheme
    if scheme == "sqlite":
        return SqliteEngine(parse_sqlite_url(url), scope, timeout_s, write=write)
    if scheme in ("postgresql", "postgres"):
        return PostgresEngine(url, scope, timeout_s, write=write)
    if scheme in ("mysql", "mariadb"):
        return MysqlEngine(url, scope, timeout_s, write=write)
    raise ConfigError(f"backend {name}: unsupported database {scheme or 'nothing'!r}: use sqlite, postgresql or mysql")


def _list_granted(catalog: Catalog, scope: SqlScopeMatcher) -> list[Relation]:
    granted = [relation for relation in catalog if scope.find_grant(relation) and relation.kind != "shadow table"]
    return sorted(
        granted, key=lambda relation: (relation.schema not in catalog.default_schemas, relation.schema, relation.name)
    )


def _find_granted(name: str, catalog: Catalog, scope: SqlScopeMatcher) -> Relation:
    """Find a table by a name as a model may write it: with or without its schema, quoted or not."""
    unquoted = name.replace('"', "").replace("`", "").replace("[", "").replace("]", "")
    schema, _, last = unquoted.rpartition(".")
    for relation in (catalog.find(name), catalog.find(unquoted), catalog.find(last, schema)):
        if relation is not None and scope.find_grant(relation):
            return relation
    raise BackendRefused(f"There is no table {clean_line(name, 80)} in scope: describe lists the tables.")


_COLUMN_TYPE = re.compile(
    r"(?:unsigned |bit |character |national )?[a-z_][a-z0-9_]{0,30}(?: varying| precision| unsigned)?"
    r"(?:\([0-9]{1,5}(?:, ?[0-9]{1,5})?\))?(?: (?:unsigned|with(?:out)? time zone))?(?:\[\])*",
    re.IGNORECASE,
)


def _has_plain_names(relation: Relation) -> bool:
    """Return whether all names are single words and all types are known forms: SQLite accepts a sentence as a type."""
    names = (relation.name, *(column.name for column in relation.columns))
    return all(map(is_single_word, names)) and all(
        not column.type or _COLUMN_TYPE.fullmatch(column.type) for column in relation.columns
    )
