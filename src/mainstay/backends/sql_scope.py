"""What of a database may be touched: by databases, schemas and tables, each by globs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import msgspec

from mainstay.backends.sql_catalog import Relation
from mainstay.core.errors import ConfigError
from mainstay.trust.globs import glob

Grant = Literal["", "pattern", "name"]


class SqlScope(msgspec.Struct, frozen=True, kw_only=True):
    """Globs; empty: all of it, but what is the database's own. A table may be said with its schema: `public.*`."""

    databases: tuple[str, ...] = ()
    schemas: tuple[str, ...] = ()
    tables: tuple[str, ...] = ()


class Scope:
    """The same, ready to be asked.

    A pattern without a schema is about the schemas that the scope names, or else about the one that the database
    takes for granted: `orders` is never another department's `orders`.
    """

    def __init__(self, settings: SqlScope, usual: tuple[str, ...], fold: Callable[[str], str]) -> None:
        self._fold = fold
        self._databases = settings.databases
        self._schemas = settings.schemas
        self._usual = tuple(fold(one) for one in usual)
        self._tables = [_parts(one) for one in settings.tables]

    def grant(self, relation: Relation) -> Grant:
        """How it was granted: by its own name, by a pattern that fits it, or not at all.

        What is the database's own is never meant by a pattern.
        """
        if self._databases and not self._fits(self._databases, relation.database, relation):
            return ""
        if self._schemas and not self._fits(self._schemas, relation.schema, relation):
            return ""
        if not self._tables:
            named = any(self._same(one, relation.schema) for one in self._schemas)
            own = relation.system or relation.kind == "shadow table"
            return "pattern" if named or not own else ""
        grants = [self._table(parts, relation) for parts in self._tables]
        if "name" in grants:
            return "name"
        return "pattern" if "pattern" in grants and relation.kind != "shadow table" else ""

    def _table(self, parts: list[str], relation: Relation) -> Grant:
        *outer, name = parts
        if len(outer) == 2 and not self._fits((outer[0],), relation.database, relation):
            return ""
        if outer and not self._fits((outer[-1],), relation.schema, relation):
            return ""
        if not outer and not self._schemas and self._fold(relation.schema) not in self._usual:
            return ""
        if self._same(name, relation.name):
            return "name"
        if relation.system and not (outer and self._same(outer[-1], relation.schema)):
            return ""
        return "pattern" if glob(self._fold(name))(self._fold(relation.name)) else ""

    def _same(self, pattern: str, name: str) -> bool:
        return not any(char in pattern for char in "*?\\") and self._fold(pattern) == self._fold(name)

    def _fits(self, patterns: tuple[str, ...], name: str, relation: Relation) -> bool:
        if relation.system:
            return any(self._same(one, name) for one in patterns)
        return any(glob(self._fold(one))(self._fold(name)) for one in patterns)


def _parts(pattern: str) -> list[str]:
    parts = pattern.split(".")
    if not all(parts) or len(parts) > 3:
        raise ConfigError(f"{pattern!r} in scope.tables is none of `table`, `schema.table`, `database.schema.table`")
    return parts
