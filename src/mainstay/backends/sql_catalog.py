"""What a database has, as far as it must be known to judge a statement and to describe it to a model."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Literal

import msgspec

from mainstay.backends.common import clean_name

Kind = Literal["table", "view", "materialized view", "foreign table", "virtual table", "shadow table"]
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


class Catalog:
    """All relations, found as the database itself would find them."""

    def __init__(
        self, relations: Iterable[Relation], schemas: Sequence[str], fold: Callable[[str], str], taken: Iterable[str] = ()
    ) -> None:
        self.fold = fold
        self.schemas = tuple(schemas)  # where a name without a schema is looked for, in this order
        self._relations = {(fold(one.schema), fold(one.name)): one for one in relations}
        self._taken = {name for _, name in self._relations} | {fold(name) for name in taken}

    def __iter__(self) -> Iterable[Relation]:  # type: ignore[override]
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


def called(relation: Relation, catalog: Catalog) -> str:
    """As a statement would have to call it."""
    name = clean_name(relation.name)
    found = catalog.find(relation.name)
    return name if found is relation else f"{clean_name(relation.schema)}.{name}"


def line_of(relation: Relation, catalog: Catalog, *, short: bool = False) -> str:
    columns = [_brief(column) for column in relation.columns[:COLUMNS_SHOWN_MAX]]
    if len(relation.columns) > COLUMNS_SHOWN_MAX:
        columns.append(f"… {len(relation.columns) - COLUMNS_SHOWN_MAX} more")
    notes = [relation.kind] if relation.kind != "table" else []
    if not short and relation.rows is not None:
        notes.append(f"about {relation.rows} rows")
    return f"{called(relation, catalog)}({', '.join(columns)})" + (f" [{', '.join(notes)}]" if notes else "")


def _brief(column: Column) -> str:
    return f"{clean_name(column.name)} {clean_name(column.type, 40)}".rstrip() if column.type else clean_name(column.name)


def lines_about(relation: Relation, catalog: Catalog, details: Sequence[str]) -> list[str]:
    """One table, column by column."""
    rows = "" if relation.rows is None else f", about {relation.rows} rows"
    lines = [f"{called(relation, catalog)} ({relation.kind}{rows})"]
    for column in relation.columns:
        notes = " primary key" if column.key else "" if column.nullable else " not null"
        lines.append(f"- {_brief(column)}{notes}")
    return [*lines, *details]
