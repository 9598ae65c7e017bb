"""Scope of a SQL backend: which databases, schemas and tables may be read or changed, by glob patterns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from mainstay.backends.sql.catalog import Relation
from mainstay.backends.sql.manifest import SqlScope
from mainstay.core.errors import ConfigError
from mainstay.trust.rule_patterns import compile_glob

Grant = Literal["", "pattern", "name"]


class SqlScopeMatcher:
    """Matches relations against a SqlScope.

    A table pattern without a schema applies to the schemas that the scope names, or else to the default schema of the
    database: `orders` never matches the table `orders` of another schema.
    """

    def __init__(self, scope: SqlScope, default_schemas: tuple[str, ...], fold_name: Callable[[str], str]) -> None:
        self._fold_name = fold_name
        self._databases = scope.databases
        self._schemas = scope.schemas
        self._default_schemas = tuple(fold_name(pattern) for pattern in default_schemas)
        self._table_patterns = [_split_pattern(pattern) for pattern in scope.tables]

    def find_grant(self, relation: Relation) -> Grant:
        """Return how a relation is granted: "name" (literally), "pattern" (by a glob), or "" (out of scope).

        System relations are never granted by a pattern.
        """
        if self._databases and not self._matches_any(self._databases, relation.database, relation):
            return ""
        if self._schemas and not self._matches_any(self._schemas, relation.schema, relation):
            return ""
        if not self._table_patterns:
            is_schema_named = any(self._is_literal_match(pattern, relation.schema) for pattern in self._schemas)
            is_internal = relation.is_system or relation.kind == "shadow table"
            return "pattern" if is_schema_named or not is_internal else ""
        grants = [self._match_table(parts, relation) for parts in self._table_patterns]
        if "name" in grants:
            return "name"
        return "pattern" if "pattern" in grants and relation.kind != "shadow table" else ""

    def _match_table(self, parts: list[str], relation: Relation) -> Grant:
        *outer, name = parts
        if len(outer) == 2 and not self._matches_any((outer[0],), relation.database, relation):
            return ""
        if outer and not self._matches_any((outer[-1],), relation.schema, relation):
            return ""
        if not outer and not self._schemas and self._fold_name(relation.schema) not in self._default_schemas:
            return ""
        if self._is_literal_match(name, relation.name):
            return "name"
        if relation.is_system and not (outer and self._is_literal_match(outer[-1], relation.schema)):
            return ""
        return "pattern" if compile_glob(self._fold_name(name))(self._fold_name(relation.name)) else ""

    def _is_literal_match(self, pattern: str, name: str) -> bool:
        return not any(char in pattern for char in "*?\\") and self._fold_name(pattern) == self._fold_name(name)

    def _matches_any(self, patterns: tuple[str, ...], name: str, relation: Relation) -> bool:
        if relation.is_system:
            return any(self._is_literal_match(pattern, name) for pattern in patterns)
        return any(compile_glob(self._fold_name(pattern))(self._fold_name(name)) for pattern in patterns)


def _split_pattern(pattern: str) -> list[str]:
    parts = pattern.split(".")
    if not all(parts) or len(parts) > 3:
        raise ConfigError(f"{pattern!r} in scope.tables must be `table`, `schema.table` or `database.schema.table`")
    return parts
