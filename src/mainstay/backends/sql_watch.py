"""The second wall around SQLite: it asks about everything a statement touches, views and all, before it runs."""

from __future__ import annotations

from collections.abc import Iterable

import apsw
import msgspec

from mainstay.backends.common import clean_name
from mainstay.backends.sql_catalog import Catalog, Relation, ascii_lower
from mainstay.backends.sql_engine import outside
from mainstay.backends.sql_scope import Scope
from mainstay.backends.sql_statements import Statement
from mainstay.backends.sql_words import SQLITE

_WRITES = (apsw.SQLITE_INSERT, apsw.SQLITE_UPDATE, apsw.SQLITE_DELETE)
_FUNCTIONS = SQLITE.functions | {"->", "->>", "LIKE", "GLOB", "MATCH"}


class Reads(msgspec.Struct):
    """What a view reads: tables, each with the view that does, and functions."""

    tables: set[tuple[str, str]] = msgspec.field(default_factory=set)
    functions: set[str] = msgspec.field(default_factory=set)

    def __call__(self, action: int, first: str | None, second: str | None, database: str | None, by: str | None) -> int:
        if action == apsw.SQLITE_READ:
            self.tables.add((ascii_lower(first or ""), ascii_lower(by or "")))
        elif action == apsw.SQLITE_FUNCTION:
            self.functions.add((second or "").upper())
        return apsw.SQLITE_OK


def reads_of(db: apsw.Connection, view: Relation) -> Reads:
    """SQLite says it itself, when it explains how it would read the view."""
    reads = Reads()
    name = view.name.replace('"', '""')
    db.authorizer = reads
    try:
        db.execute(f'EXPLAIN SELECT * FROM "main"."{name}"').close()
    finally:
        db.authorizer = None
    return reads


def check_within(reads: Reads, catalog: Catalog, scope: Scope) -> None:
    for table, by in reads.tables:
        found = catalog.find(table)
        if found is not None and found.kind == "shadow table" and not by:
            continue  # of a virtual table, which is asked about too
        if table.upper() not in SQLITE.rows_from and (found is None or not scope.grant(found)):
            raise outside("another table")
    for function in reads.functions:
        if function not in _FUNCTIONS:
            raise outside(f"with the function {clean_name(function)}")


class Watch:
    """The second wall: SQLite asks this about every table, column and function, views and all."""

    def __init__(self, statement: Statement, catalog: Catalog, scope: Scope) -> None:
        self.statement = statement
        self._catalog = catalog
        self._scope = scope
        self._tables = {ascii_lower(one.name) for one in statement.relations}
        self._parts = {ascii_lower(name) for name in statement.names}
        self._target = ascii_lower(statement.target.name) if statement.target else None
        self._through: set[tuple[str, str]] = set()  # tables, each with the view that opens it
        self._related: set[str] = set()
        self._functions = _FUNCTIONS

    def open(self, reads: Reads) -> None:
        self._through |= {(table, by) for table, by in reads.tables if by}
        self._functions = self._functions | reads.functions

    def relate(self, tables: Iterable[str]) -> None:
        """Keys may be looked up in these, for foreign keys to hold."""
        self._related = {ascii_lower(name) for name in tables}

    def __call__(self, action: int, first: str | None, second: str | None, database: str | None, by: str | None) -> int:
        return apsw.SQLITE_OK if self._may(action, first or "", second or "", by) else apsw.SQLITE_DENY

    def _may(self, action: int, first: str, second: str, by: str | None) -> bool:
        source = ascii_lower(by) if by and ascii_lower(by) not in self._parts else ""
        if action in (apsw.SQLITE_SELECT, apsw.SQLITE_RECURSIVE):
            return True
        if action == apsw.SQLITE_FUNCTION:
            return second.upper() in self._functions or self._by_trigger(source)
        if action == apsw.SQLITE_READ:
            return self._may_read(ascii_lower(first), second, source)
        if action == apsw.SQLITE_PRAGMA:  # how a full-text index looks whether it is still the same
            return first.lower() == "data_version"
        if action in _WRITES:
            name = ascii_lower(first)
            return self._target is not None and (
                self._by_trigger(source) or name == self._target or self._shadows(name, {self._target})
            )
        return False

    def _may_read(self, table: str, column: str, source: str) -> bool:
        if self._by_trigger(source) or (table, source) in self._through:
            return True
        if not column and (table in self._parts or any(table == one for one, _ in self._through)):
            return True  # no more than how many rows, of a part of the statement or of a view
        if source:
            return False
        if table.upper() in SQLITE.rows_from and self._catalog.find(table) is None:
            return True
        if table in self._tables or table in self._related or self._granted(table):
            return True
        return self._shadows(table, self._tables | {one for one, _ in self._through})

    def _granted(self, table: str) -> bool:
        """Also if nobody named it: a full-text index may keep its texts in another table."""
        found = self._catalog.find(table)
        return found is not None and not found.indirect and bool(self._scope.grant(found))

    def _by_trigger(self, source: str) -> bool:
        """The owner's own consequence of a change. No part of a statement can be called like a trigger."""
        return self._target is not None and bool(source) and self._catalog.find(source) is None

    def _shadows(self, table: str, whose: set[str]) -> bool:
        found = self._catalog.find(table)
        return (
            found is not None
            and found.kind == "shadow table"
            and any(
                table.startswith(f"{one}_") and (owner := self._catalog.find(one)) and owner.kind == "virtual table"
                for one in whose
            )
        )
