"""What a database has, as far as it must be known to judge a statement and to describe it to a model."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Literal

import msgspec

from mainstay.backends.common import NAME_CHARS_MAX, clean_line, clean_name
from mainstay.backends.sql_words import CHANGE, MYSQL, POSTGRES, SQLITE, Dialect

Kind = Literal["table", "view", "materialized view", "foreign table", "virtual table", "shadow table"]
Fold = Callable[[str], str]  # how a database tells names apart
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_$]*")
_PLAIN_LOWER = re.compile(r"[a-z_][a-z0-9_$]*")
_TYPE_WORDS = SQLITE.types | POSTGRES.types | MYSQL.types | {"UNSIGNED", "ZEROFILL", "LOCAL", "WITHOUT", "WITH"}
COLUMNS_SHOWN_MAX = 40  # of a table in a list of tables


class Column(msgspec.Struct, frozen=True, gc=False):
    name: str
    type: str
    nullable: bool = True
    key: bool = False  # part of the primary key


class Relation(msgspec.Struct, frozen=True, kw_only=True):
    """A table, or what is read like one."""

    database: str
    schema: str
    name: str
    kind: Kind = "table"
    system: bool = False  # the database's own
    rows: int | None = None  # about
    columns: tuple[Column, ...] = ()
    id: int = 0  # the database's number for it, where it has one

    @property
    def indirect(self) -> bool:
        """What it shows lies elsewhere: in other tables, other files, on other servers."""
        return self.kind not in ("table", "virtual table")


class Detail(msgspec.Struct, frozen=True):
    """Something else about a table: an index, or a foreign key."""

    columns: tuple[str, ...]  # empty for an expression
    what: Literal["index on", "unique index on"] = "index on"
    to: str = ""  # the table that a foreign key refers to


class Catalog:
    """All relations, found as the database itself would find them."""

    def __init__(
        self, relations: Iterable[Relation], schemas: Sequence[str], fold: Fold, taken: Iterable[str] = ()
    ) -> None:
        self.fold = fold
        self.schemas = tuple(schemas)  # where a name without a schema is looked for, in this order
        self._relations = {(fold(one.schema), fold(one.name)): one for one in relations}
        self._taken = {name for _, name in self._relations} | {fold(name) for name in taken}

    def __iter__(self) -> Iterator[Relation]:
        return iter(self._relations.values())

    def find(self, name: str, schema: str = "") -> Relation | None:
        for one in (schema,) if schema else self.schemas:
            if found := self._relations.get((self.fold(one), self.fold(name))):
                return found
        return None

    def taken(self, name: str) -> bool:
        """Something has this name, in whatever schema: nothing in a statement may be called so too."""
        return self.fold(name) in self._taken


def ascii_lower(name: str) -> str:
    """As SQLite folds names: letters beyond ASCII are what they are."""
    return "".join(chr(ord(char) + 32) if "A" <= char <= "Z" else char for char in name)


# --- in words ------------------------------------------------------------------------------------


_TYPE = re.compile(r"[a-z0-9_ ]{1,40}(?:\([0-9, ]{1,12}\)[a-z ]{0,30})?(?:\[\])?", re.IGNORECASE)


class Spelling(msgspec.Struct, frozen=True):
    """Names as a statement would have to write them. They come from the database and stay names, whatever they say."""

    dialect: Dialect
    catalog: Catalog

    def name(self, name: str) -> str:
        line, quote = clean_line(name, NAME_CHARS_MAX), self.dialect.quote
        plain = _PLAIN_LOWER if self.dialect.name == "postgres" else _PLAIN
        if plain.fullmatch(line) and line.upper() not in self.dialect.words | CHANGE:
            return line
        return quote + line.replace(quote, quote * 2) + quote

    def relation(self, relation: Relation) -> str:
        name = self.name(relation.name)
        usual = self.catalog.find(relation.name) is relation
        return name if usual else f"{self.name(relation.schema)}.{name}"

    def column(self, column: Column) -> str:
        kind = clean_line(column.type, NAME_CHARS_MAX)
        words = re.findall(r"[a-z_]+", kind.lower())
        known = _TYPE.fullmatch(kind) and all(word.upper() in _TYPE_WORDS for word in words)
        return f"{self.name(column.name)} {kind if known else clean_name(kind, 40)}" if kind else self.name(column.name)

    def line(self, relation: Relation, *, short: bool = False) -> str:
        """A table on one line."""
        columns = [self.column(column) for column in relation.columns[:COLUMNS_SHOWN_MAX]]
        if len(relation.columns) > COLUMNS_SHOWN_MAX:
            columns.append(f"… {len(relation.columns) - COLUMNS_SHOWN_MAX} more")
        notes: list[str] = [relation.kind] if relation.kind != "table" else []
        if not short and relation.rows is not None:
            notes.append(f"about {relation.rows} rows")
        return f"{self.relation(relation)}({', '.join(columns)})" + (f" [{', '.join(notes)}]" if notes else "")

    def lines(self, relation: Relation, details: Sequence[Detail]) -> list[str]:
        """A table, column by column."""
        rows = "" if relation.rows is None else f", about {relation.rows} rows"
        made = [f"{self.relation(relation)} ({relation.kind}{rows})"]
        for column in relation.columns:
            notes = " primary key" if column.key else "" if column.nullable else " not null"
            made.append(f"- {self.column(column)}{notes}")
        for detail in details:
            parts = ", ".join(self.name(part) if part else "an expression" for part in detail.columns)
            made.append(f"- {detail.what} {parts}" if not detail.to else f"- {parts} refers to {self.name(detail.to)}")
        return made
