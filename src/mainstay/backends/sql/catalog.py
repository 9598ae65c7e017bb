"""Catalog of a database: tables and columns, for checking statements and for describing them to a model."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Literal

import msgspec

from mainstay.backends.base import NAME_CHARS_MAX, clean_line, clean_name
from mainstay.backends.sql.statement_allowlists import CHANGE_KEYWORDS, MYSQL, POSTGRES, SQLITE, SqlDialect

RelationKind = Literal["table", "view", "materialized view", "foreign table", "virtual table", "shadow table"]
NameFolding = Callable[[str], str]  # how a database compares names: case folding or none
_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_$]*")
_PLAIN_LOWER_NAME = re.compile(r"[a-z_][a-z0-9_$]*")
_TYPE_WORDS = SQLITE.types | POSTGRES.types | MYSQL.types | {"UNSIGNED", "ZEROFILL", "LOCAL", "WITHOUT", "WITH"}
COLUMNS_SHOWN_MAX = 40  # per table in a list of tables


class SqlColumn(msgspec.Struct, frozen=True, gc=False):
    name: str
    type: str
    is_nullable: bool = True
    is_primary_key: bool = False  # part of the primary key


class Relation(msgspec.Struct, frozen=True, kw_only=True):
    """A table, a view, or another object that is read like a table."""

    database: str
    schema: str
    name: str
    kind: RelationKind = "table"
    is_system: bool = False  # belongs to the database itself
    estimated_rows: int | None = None  # estimate; None: unknown
    columns: tuple[SqlColumn, ...] = ()
    id: int = 0  # the database's object id; 0: it has none

    @property
    def is_indirect(self) -> bool:
        """Return whether its rows come from other tables, files or servers."""
        return self.kind not in ("table", "virtual table")


class IndexOrForeignKey(msgspec.Struct, frozen=True):
    """An index or a foreign key of a table."""

    columns: tuple[str, ...]  # an empty name stands for an expression
    label: Literal["index on", "unique index on"] = "index on"
    referenced_table: str = ""  # the referenced table of a foreign key; empty: an index


class Catalog:
    """All relations of a database, looked up by the rules of that database."""

    def __init__(
        self,
        relations: Iterable[Relation],
        default_schemas: Sequence[str],
        fold_name: NameFolding,
        reserved_names: Iterable[str] = (),
    ) -> None:
        self.fold_name = fold_name
        self.default_schemas = tuple(default_schemas)  # in which a name without a schema is looked up, in this order
        self._relations = {(fold_name(relation.schema), fold_name(relation.name)): relation for relation in relations}
        self._taken_names = {name for _, name in self._relations} | {fold_name(name) for name in reserved_names}

    def __iter__(self) -> Iterator[Relation]:
        return iter(self._relations.values())

    def find(self, name: str, schema: str = "") -> Relation | None:
        for candidate in (schema,) if schema else self.default_schemas:
            if relation := self._relations.get((self.fold_name(candidate), self.fold_name(name))):
                return relation
        return None

    def is_name_taken(self, name: str) -> bool:
        """Return whether any schema has an object of this name: a CTE must not have the same name."""
        return self.fold_name(name) in self._taken_names


def ascii_lower(name: str) -> str:
    """Fold a name as SQLite does: only ASCII letters."""
    return "".join(chr(ord(char) + 32) if "A" <= char <= "Z" else char for char in name)


# --- formatting for the model --------------------------------------------------------------------


_COLUMN_TYPE = re.compile(r"[a-z0-9_ ]{1,40}(?:\([0-9, ]{1,12}\)[a-z ]{0,30})?(?:\[\])?", re.IGNORECASE)


class SqlNameFormatter(msgspec.Struct, frozen=True):
    """Formats names as a statement has to write them: third-party text, quoted and cleaned."""

    dialect: SqlDialect
    catalog: Catalog

    def format_name(self, name: str) -> str:
        line, quote = clean_line(name, NAME_CHARS_MAX), self.dialect.identifier_quote
        pattern = _PLAIN_LOWER_NAME if self.dialect.name == "postgres" else _PLAIN_NAME
        if pattern.fullmatch(line) and line.upper() not in self.dialect.keywords | CHANGE_KEYWORDS:
            return line
        return quote + line.replace(quote, quote * 2) + quote

    def format_relation(self, relation: Relation) -> str:
        name = self.format_name(relation.name)
        is_default = self.catalog.find(relation.name) is relation
        return name if is_default else f"{self.format_name(relation.schema)}.{name}"

    def format_column(self, column: SqlColumn) -> str:
        type_name = clean_line(column.type, NAME_CHARS_MAX)
        words = re.findall(r"[a-z_]+", type_name.lower())
        is_known = _COLUMN_TYPE.fullmatch(type_name) and all(word.upper() in _TYPE_WORDS for word in words)
        if not type_name:
            return self.format_name(column.name)
        return f"{self.format_name(column.name)} {type_name if is_known else clean_name(type_name, 40)}"

    def format_line(self, relation: Relation, *, short: bool = False) -> str:
        """Format a table on one line. `short` leaves out the number of rows."""
        columns = [self.format_column(column) for column in relation.columns[:COLUMNS_SHOWN_MAX]]
        if len(relation.columns) > COLUMNS_SHOWN_MAX:
            columns.append(f"… {len(relation.columns) - COLUMNS_SHOWN_MAX} more")
        notes: list[str] = [relation.kind] if relation.kind != "table" else []
        if not short and relation.estimated_rows is not None:
            notes.append(f"about {relation.estimated_rows} rows")
        return f"{self.format_relation(relation)}({', '.join(columns)})" + (f" [{', '.join(notes)}]" if notes else "")

    def format_details(self, relation: Relation, details: Sequence[IndexOrForeignKey]) -> list[str]:
        """Format a table with one line per column, index and foreign key."""
        rows = "" if relation.estimated_rows is None else f", about {relation.estimated_rows} rows"
        lines = [f"{self.format_relation(relation)} ({relation.kind}{rows})"]
        for column in relation.columns:
            notes = " primary key" if column.is_primary_key else "" if column.is_nullable else " not null"
            lines.append(f"- {self.format_column(column)}{notes}")
        for detail in details:
            parts = ", ".join(self.format_name(part) if part else "an expression" for part in detail.columns)
            lines.append(
                f"- {detail.label} {parts}"
                if not detail.referenced_table
                else f"- {parts} refers to {self.format_name(detail.referenced_table)}"
            )
        return lines
