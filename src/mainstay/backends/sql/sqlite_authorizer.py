"""SQLite authorizer: checks every table, column and function that a statement touches, also through views."""

from __future__ import annotations

from collections.abc import Iterable

import apsw
import msgspec

from mainstay.backends.base import clean_name
from mainstay.backends.sql.catalog import Catalog, Relation, ascii_lower
from mainstay.backends.sql.engine import out_of_scope_error
from mainstay.backends.sql.scope import SqlScopeMatcher
from mainstay.backends.sql.statement_allowlists import SQLITE
from mainstay.backends.sql.statement_checker import CheckedStatement

_WRITE_ACTIONS = (apsw.SQLITE_INSERT, apsw.SQLITE_UPDATE, apsw.SQLITE_DELETE)
_ALLOWED_FUNCTIONS = SQLITE.functions | {"->", "->>", "LIKE", "GLOB", "MATCH"}


class ViewReadRecorder(msgspec.Struct):
    """Authorizer that records what a view reads: tables, each with the view that reads it, and functions."""

    tables: set[tuple[str, str]] = msgspec.field(default_factory=set)
    functions: set[str] = msgspec.field(default_factory=set)

    def __call__(
        self, action: int, first: str | None, second: str | None, database: str | None, trigger_or_view: str | None
    ) -> int:
        if action == apsw.SQLITE_READ:
            self.tables.add((ascii_lower(first or ""), ascii_lower(trigger_or_view or "")))
        elif action == apsw.SQLITE_FUNCTION:
            self.functions.add((second or "").upper())
        return apsw.SQLITE_OK


def find_view_reads(db: apsw.Connection, view: Relation) -> ViewReadRecorder:
    """Return what a view reads, as SQLite reports it to an authorizer while it compiles `EXPLAIN SELECT`."""
    reads = ViewReadRecorder()
    name = view.name.replace('"', '""')
    db.authorizer = reads
    try:
        db.execute(f'EXPLAIN SELECT * FROM "main"."{name}"').close()
    finally:
        db.authorizer = None
    return reads


def check_view_reads(reads: ViewReadRecorder, catalog: Catalog, scope: SqlScopeMatcher) -> None:
    """Raise BackendRefused if a view reads a table out of scope or calls a function that is not on the allowlist."""
    for table, by in reads.tables:
        relation = catalog.find(table)
        if relation is not None and relation.kind == "shadow table" and not by:
            continue  # of a virtual table, which is checked itself
        if table.upper() not in SQLITE.table_functions and (relation is None or not scope.find_grant(relation)):
            raise out_of_scope_error("another table")
    for function in reads.functions:
        if function not in _ALLOWED_FUNCTIONS:
            raise out_of_scope_error(f"with the function {clean_name(function)}")


class SqliteAuthorizer:
    """Authorizer for one statement: SQLite calls it for every table, column and function, also in views and
    triggers."""

    def __init__(self, statement: CheckedStatement, catalog: Catalog, scope: SqlScopeMatcher) -> None:
        self.statement = statement
        self._catalog = catalog
        self._scope = scope
        self._tables = {ascii_lower(relation.name) for relation in statement.relations}
        self._cte_names = {ascii_lower(name) for name in statement.cte_names}
        self._target = ascii_lower(statement.target.name) if statement.target else None
        self._view_reads: set[tuple[str, str]] = set()  # tables, each with the view that may read it
        self._foreign_key_tables: set[str] = set()
        self._functions = _ALLOWED_FUNCTIONS

    def allow_view(self, reads: ViewReadRecorder) -> None:
        """Allow what a granted view reads."""
        self._view_reads |= {(table, by) for table, by in reads.tables if by}
        self._functions = self._functions | reads.functions

    def allow_foreign_keys(self, tables: Iterable[str]) -> None:
        """Allow key lookups in these tables, which foreign key checks need."""
        self._foreign_key_tables = {ascii_lower(name) for name in tables}

    def __call__(
        self, action: int, first: str | None, second: str | None, database: str | None, trigger_or_view: str | None
    ) -> int:
        return (
            apsw.SQLITE_OK if self._is_allowed(action, first or "", second or "", trigger_or_view) else apsw.SQLITE_DENY
        )

    def _is_allowed(self, action: int, first: str, second: str, trigger_or_view: str | None) -> bool:
        source = (
            ascii_lower(trigger_or_view)
            if trigger_or_view and ascii_lower(trigger_or_view) not in self._cte_names
            else ""
        )
        if action in (apsw.SQLITE_SELECT, apsw.SQLITE_RECURSIVE):
            return True
        if action == apsw.SQLITE_FUNCTION:
            return second.upper() in self._functions or self._is_trigger(source)
        if action == apsw.SQLITE_READ:
            return self._is_read_allowed(ascii_lower(first), second, source)
        if action == apsw.SQLITE_PRAGMA:  # a full-text index checks it for changes
            return first.lower() == "data_version"
        if action in _WRITE_ACTIONS:
            name = ascii_lower(first)
            return self._target is not None and (
                self._is_trigger(source) or name == self._target or self._is_shadow_table(name, {self._target})
            )
        return False

    def _is_read_allowed(self, table: str, column: str, source: str) -> bool:
        if self._is_trigger(source) or (table, source) in self._view_reads:
            return True
        if not column and (table in self._cte_names or any(table == opened for opened, _ in self._view_reads)):
            return True  # only the number of rows, of a CTE or of a view
        if source:
            return False
        if table.upper() in SQLITE.table_functions and self._catalog.find(table) is None:
            return True
        if table in self._tables or table in self._foreign_key_tables or self._is_granted(table):
            return True
        return self._is_shadow_table(table, self._tables | {opened for opened, _ in self._view_reads})

    def _is_granted(self, table: str) -> bool:
        """Return whether a table is in scope, even if not named: a full-text index may store its texts in another
        table."""
        relation = self._catalog.find(table)
        return relation is not None and not relation.is_indirect and bool(self._scope.find_grant(relation))

    def _is_trigger(self, source: str) -> bool:
        """Return whether an access comes from a trigger, which the owner defined. No CTE can have a trigger's name."""
        return self._target is not None and bool(source) and self._catalog.find(source) is None

    def _is_shadow_table(self, table: str, owners: set[str]) -> bool:
        relation = self._catalog.find(table)
        return (
            relation is not None
            and relation.kind == "shadow table"
            and any(
                table.startswith(f"{name}_") and (owner := self._catalog.find(name)) and owner.kind == "virtual table"
                for name in owners
            )
        )
