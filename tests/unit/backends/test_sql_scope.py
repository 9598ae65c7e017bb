"""Which tables a scope grants."""

from __future__ import annotations

import pytest

from mainstay.backends.sql.catalog import Relation, RelationKind, ascii_lower
from mainstay.backends.sql.manifest import SqlScope
from mainstay.backends.sql.scope import SqlScopeMatcher
from mainstay.core.errors import ConfigError


def relation(path: str, *, kind: RelationKind = "table", system: bool = False) -> Relation:
    database, schema, name = path.split("/")
    return Relation(database=database, schema=schema, name=name, kind=kind, is_system=system)


def grant(scope: SqlScope, one: Relation, *, usual: str = "public", insensitive: bool = False) -> str:
    return SqlScopeMatcher(scope, (usual,), ascii_lower if insensitive else str).find_grant(one)


@pytest.mark.parametrize(
    ("tables", "path", "granted"),
    [
        (("orders",), "db/public/orders", "name"),
        (("orders",), "db/hr/orders", ""),
        (("hr.orders",), "db/hr/orders", "name"),
        (("hr.orders",), "db/public/orders", ""),
        (("public.*",), "db/public/orders", "pattern"),
        (("public.*",), "db/hr/orders", ""),
        (("*",), "db/public/orders", "pattern"),
        (("*",), "db/hr/orders", ""),
        (("*.*",), "db/hr/orders", "pattern"),
        (("ord*", "orders"), "db/public/orders", "name"),
        (("ord?rs",), "db/public/orders", "pattern"),
        (("orders",), "db/public/Orders", ""),
        (("orders",), "db/public/orders2", ""),
        (("orders",), "db/public/\u043erders", ""),
        (("db.hr.orders",), "db/hr/orders", "name"),
        (("other.hr.orders",), "db/hr/orders", ""),
        ((), "db/hr/orders", "pattern"),
    ],
)
def test_LOOM_124_a_table_is_granted_by_its_name_by_a_pattern_or_not(
    tables: tuple[str, ...], path: str, granted: str
) -> None:
    assert grant(SqlScope(tables=tables), relation(path)) == granted


def test_schemas_and_databases_narrow_what_tables_grant() -> None:
    scope = SqlScope(databases=("d*",), schemas=("hr",), tables=("orders",))
    assert grant(scope, relation("db/hr/orders")) == "name"
    assert grant(scope, relation("db/public/orders")) == ""
    assert grant(scope, relation("x/hr/orders")) == ""


def test_where_names_ignore_case_so_do_patterns() -> None:
    assert grant(SqlScope(tables=("ORDERS",)), relation("m/m/Orders"), usual="M", insensitive=True) == "name"


@pytest.mark.parametrize("tables", [(), ("*",), ("pg_*.*",), ("*.pg_class",)])
def test_system_tables_are_never_covered_by_a_pattern(tables: tuple[str, ...]) -> None:
    assert grant(SqlScope(tables=tables), relation("db/pg_catalog/pg_class", system=True)) == ""
    assert grant(SqlScope(schemas=("*",)), relation("db/pg_catalog/pg_class", system=True)) == ""


def test_the_databases_own_is_granted_where_its_schema_is_named() -> None:
    own = relation("db/pg_catalog/pg_class", system=True)
    assert grant(SqlScope(schemas=("pg_catalog",)), own) == "pattern"
    assert grant(SqlScope(tables=("pg_catalog.*",)), own) == "pattern"
    assert grant(SqlScope(tables=("pg_catalog.pg_class",)), own) == "name"


def test_shadow_tables_of_an_index_are_granted_only_by_name() -> None:
    kept = relation("main/main/docs_content", kind="shadow table")
    assert grant(SqlScope(tables=("docs*",)), kept, usual="main") == ""
    assert grant(SqlScope(), kept, usual="main") == ""
    assert grant(SqlScope(tables=("docs_content",)), kept, usual="main") == "name"


@pytest.mark.parametrize("pattern", ["", "a.b.c.d", "a..b", "."])
def test_an_invalid_pattern_is_refused_at_once(pattern: str) -> None:
    with pytest.raises(ConfigError):
        SqlScopeMatcher(SqlScope(tables=(pattern,)), ("public",), str)
