"""Checks SQL from a model against an allowlist, and generates the statement that runs.

The model's own text never runs. It is parsed, its tables are resolved in the catalog and written with their schema, and
SQL is generated from the AST with every identifier quoted. That SQL is parsed again and checked: its nodes, its tables,
and each of its words. So the checked statement is the one that runs, however the original was parsed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

import msgspec

from mainstay.backends.base import BackendRefused, clean_name
from mainstay.backends.sql.catalog import Catalog, Relation, ascii_lower
from mainstay.backends.sql.parser import (
    format_excerpt,
    generate_sql,
    is_query,
    load_sqlglot,
    parse_sql,
    shorten,
    tokenize,
    walk_nodes,
)
from mainstay.backends.sql.scope import SqlScopeMatcher
from mainstay.backends.sql.statement_allowlists import CHANGE_KEYWORDS, SqlDialect

if TYPE_CHECKING:
    from sqlglot import Token
    from sqlglot.expressions import Expr

TEXT_CHARS_MAX = 20_000

_CONTROL_CHARACTER = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
_TYPE_NAME = re.compile(r"[A-Za-z0-9_ (),\[\]]+")
_QUERY_START_KEYWORDS = ("SELECT", "WITH", "VALUES")
_CHANGE_START_KEYWORDS = ("INSERT", "UPDATE", "DELETE", "WITH")


def _name_set(text: str) -> frozenset[str]:
    return frozenset(text.split())


# AST nodes that are always allowed. Operators and functions are checked by their words.
_ALLOWED_NODES = _name_set(
    "Alias Aliases All And Any Array AtTimeZone Between BitString Boolean Bracket ByteString Case Cast "
    "CharacterSet Collate Column CTE Cube DataType DataTypeParam Delete Distinct Dot Escape Except Exists Fetch "
    "Filter From Group GroupingSets Having HexString Identifier If IgnoreNulls In Insert Intersect Interval "
    "IntervalSpan Join JSONColumnDef JSONKeyValue JSONPath JSONPathKey JSONPathRoot "
    "JSONPathSubscript JSONPathWildcard JSONSchema JSONValue Kwarg Lateral Limit LimitOptions Literal "
    "Not Null Offset OnConflict Or Order Ordered Paren RawString RespectNulls Rollup Schema Select Slice Star "
    "Subquery Table TableAlias Tuple Union Unnest Update Values Var Where Window WindowSpec With WithinGroup"
)
_SELECT_ARGS = _name_set(
    "with_ expressions distinct from_ laterals joins where group having windows order limit offset"
)
_TABLE_ARGS = _name_set("this alias db laterals joins only ordinality")
_CHANGE_ARGS = {
    "Insert": _name_set("with_ this expression conflict default"),
    "Update": _name_set("with_ this expressions from_ where"),
    "Delete": _name_set("with_ this using where"),
}


class TableUnknown(BackendRefused):
    """The catalog has no such table in scope."""


class CheckedStatement(msgspec.Struct, frozen=True, kw_only=True):
    """A statement that passed all checks and may run."""

    sql: str
    relations: tuple[Relation, ...]  # all that it names
    target: Relation | None = None  # the table that it changes; None: a query
    is_ordered: bool = False  # has an ORDER BY
    cte_names: tuple[str, ...] = ()  # of its CTEs


class StatementChecker(msgspec.Struct, frozen=True):
    """Checks statements for one database, by its catalog and the scope."""

    dialect: SqlDialect
    catalog: Catalog
    scope: SqlScopeMatcher

    def check_query(self, text: str) -> CheckedStatement:
        """Check a statement that only reads."""
        tree = _parse_single(text, self.dialect, _QUERY_START_KEYWORDS)
        if not is_query(tree):
            raise BackendRefused("Only a single SELECT can be run here. Nothing was run.")
        return self._check_tree(tree)

    def check_change(self, text: str) -> CheckedStatement:
        """Check an INSERT, UPDATE or DELETE of rows of one table."""
        tree = _parse_single(text, self.dialect, _CHANGE_START_KEYWORDS)
        if type(tree).__name__ not in _CHANGE_ARGS:
            raise BackendRefused("Only a single INSERT, UPDATE or DELETE can be run here. Nothing was run.")
        return self._check_tree(tree)

    def _check_tree(self, tree: Expr) -> CheckedStatement:
        for node in walk_nodes(tree):
            self._resolve_names(node)
        sql = generate_sql(tree, self.dialect)
        reparsed = parse_sql(sql, self.dialect)
        if len(reparsed) != 1 or reparsed[0] is None or generate_sql(reparsed[0], self.dialect) != sql:
            raise BackendRefused("This statement cannot be parsed unambiguously: simplify it. Nothing was run.")
        tree = reparsed[0]
        is_change = not is_query(tree)
        relations = tuple(dict.fromkeys(self._check_nodes(tree)))
        check_keywords(sql, self.dialect, is_change=is_change)
        self._check_qualified_names(sql, relations)
        return CheckedStatement(
            sql=sql,
            relations=relations,
            target=self._find_target(tree) if is_change else None,
            is_ordered=bool(tree.args.get("order")),
            cte_names=tuple(_find_cte_names(tree)),
        )

    # --- names -----------------------------------------------------------------------------------

    def _resolve_names(self, node: Expr) -> None:
        """Fold identifiers as the database does, and write tables as the catalog spells them."""
        kind = type(node).__name__
        if kind == "Identifier":
            if self.dialect.name == "postgres" and not node.args.get("quoted"):
                node.set("this", ascii_lower(node.this))
            node.set("quoted", True)
        if kind != "Table" or _is_computed_table(node) or self._is_cte(node):
            return
        relation = self._find_table(node)
        identifier = type(node.this)
        node.set("this", identifier(this=relation.name, quoted=True))
        node.set("db", identifier(this=relation.schema, quoted=True))
        node.set("catalog", None)

    def _find_table(self, node: Expr) -> Relation:
        schema = self._fold_identifier(node.args.get("db"))
        relation = self.catalog.find(self._fold_identifier(node.this), schema)
        database = self._fold_identifier(node.args.get("catalog"))
        if relation is None or not self.scope.find_grant(relation) or (database and database != relation.database):
            name = clean_name(f"{schema}.{node.name}" if schema else node.name)
            raise TableUnknown(f"There is no table {name} in scope: describe lists the tables.")
        return relation

    def _fold_identifier(self, identifier: Expr | None) -> str:
        if identifier is None:
            return ""
        is_folded = self.dialect.name == "postgres" and not identifier.args.get("quoted")
        return ascii_lower(identifier.name) if is_folded else str(identifier.name)

    def _fold_cte_name(self, identifier: Expr | None) -> str:
        """Fold the name of a CTE: only PostgreSQL compares these case-sensitively."""
        name = self._fold_identifier(identifier)
        return name if self.dialect.name == "postgres" else ascii_lower(name)

    def _is_cte(self, node: Expr) -> bool:
        """Return whether a table node refers to a CTE. CTEs have names that no object in the database has."""
        if node.args.get("db") or node.args.get("catalog"):
            return False
        name, ancestor = self._fold_cte_name(node.this), node.parent
        while ancestor is not None:
            with_clause = ancestor.args.get("with_")
            if with_clause and any(
                self._fold_cte_name(cte.args["alias"].this) == name for cte in with_clause.expressions
            ):
                return True
            ancestor = ancestor.parent
        return False

    # --- shape -----------------------------------------------------------------------------------

    def _check_nodes(self, tree: Expr) -> Iterator[Relation]:
        for node in walk_nodes(tree):
            check_node(node, self.dialect, root=tree)
            check_type(node, self.dialect)
            if type(node).__name__ == "CTE" and self.catalog.is_name_taken(node.alias):
                name = clean_name(node.alias)
                raise BackendRefused(f"There is a table or view {name} already: give the subquery another name.")
            if type(node).__name__ == "Table" and not self._is_table_function(node) and not self._is_cte(node):
                yield self._find_table(node)

    def _check_qualified_names(self, sql: str, relations: tuple[Relation, ...]) -> None:
        """Refuse a qualified name (schema.table) of the catalog that was not resolved as a table.

        Tables are always written with their schema, and MySQL cannot read them otherwise here: so this holds even if
        the AST is wrong.
        """
        for schema, name in _find_qualified_names(sql, self.dialect):
            relation = self.catalog.find(name, schema)
            if relation is not None and relation not in relations:
                raise BackendRefused(f"There is no table {clean_name(name)} in scope. Nothing was run.")

    def _is_table_function(self, node: Expr) -> bool:
        """Return whether rows come from a function; raises BackendRefused unless it is an allowed table function."""
        if not _is_computed_table(node):
            return False
        sql = generate_sql(node.this, self.dialect)
        match = re.match(r"([A-Za-z_][A-Za-z0-9_]*)\(", sql)
        if match is None or match[1].upper() not in self.dialect.table_functions:
            raise BackendRefused(f"Rows cannot be read from {shorten(sql)} here. Nothing was run.")
        return True

    def _find_target(self, tree: Expr) -> Relation:
        """Return the changed table; refuse a change of several tables or of all rows."""
        kind, node = type(tree).__name__, tree.this
        if type(node).__name__ == "Schema":
            node = node.this
        if type(node).__name__ != "Table" or node.args.get("joins") or self._is_cte(node) or _is_computed_table(node):
            raise BackendRefused("A statement can change only one table. Nothing was run.")
        relation = self._find_table(node)
        if relation.is_indirect:
            raise BackendRefused(f"{clean_name(relation.name)} is a {relation.kind}: only tables can be changed.")
        where = tree.args.get("where")
        if kind != "Insert" and (
            where is None or not any(type(part).__name__ == "Column" for part in walk_nodes(where))
        ):
            raise _missing_where_error(kind.upper())
        if relation.kind == "virtual table":
            _check_columns(tree, relation)
        return relation


# --- parsing -------------------------------------------------------------------------------------


def _tokenize_checked(text: str, dialect: SqlDialect, start_keywords: tuple[str, ...]) -> list[Token]:
    """Return the tokens of a statement that starts with one of these keywords."""
    if len(text) > TEXT_CHARS_MAX:
        raise BackendRefused(f"The statement has more than {TEXT_CHARS_MAX} characters. Nothing was run.")
    if _CONTROL_CHARACTER.search(text):
        raise BackendRefused("There is a control character in the statement. Nothing was run.")
    result = tokenize(text, dialect)
    first = next((token.text.upper() for token in result if token.text != "("), "")
    if first not in start_keywords:
        expected = " or ".join(start_keywords)
        raise BackendRefused(f"A statement must begin with {expected} here, not with {shorten(first) or 'nothing'}.")
    return result


def _parse_single(text: str, dialect: SqlDialect, start_keywords: tuple[str, ...]) -> Expr:
    _tokenize_checked(text, dialect, start_keywords)
    statements = [statement for statement in parse_sql(text, dialect) if statement is not None]
    if len(statements) != 1:
        raise BackendRefused("One statement at a time. Nothing was run.")
    return statements[0]


def precheck_change(text: str, dialect: SqlDialect) -> None:
    """Check what can be checked without the database, so that no approval is requested for a change that cannot run."""
    tokens = [token.text.upper() for token in _tokenize_checked(text, dialect, _CHANGE_START_KEYWORDS)]
    if tokens[0] in ("UPDATE", "DELETE") and "WHERE" not in tokens:
        raise _missing_where_error(tokens[0])


def _missing_where_error(verb: str) -> BackendRefused:
    return BackendRefused(f"{verb} needs a WHERE clause that selects rows. Nothing was run.")


def _is_computed_table(table: Expr) -> bool:
    """Return whether the rows of a table node come from something other than a named table."""
    return type(table.this).__name__ != "Identifier"


def _find_cte_names(tree: Expr) -> Iterator[str]:
    return (node.alias for node in walk_nodes(tree) if type(node).__name__ == "CTE")


# --- shape ---------------------------------------------------------------------------------------


def check_node(node: Expr, dialect: SqlDialect, *, root: Expr | None) -> None:
    """Raise BackendRefused for an AST node that could do more than read, or that is not on the allowlist."""
    exp = load_sqlglot().exp
    kind = type(node).__name__
    is_known = kind in _ALLOWED_NODES or isinstance(node, exp.Func | exp.Binary | exp.Unary)
    if not is_known or (kind in _CHANGE_ARGS and node is not root):
        raise BackendRefused(f"This is not allowed here: {format_excerpt(node, dialect)}. Nothing was run.")
    allowed = {"Select": _SELECT_ARGS, "Table": _TABLE_ARGS, **_CHANGE_ARGS}.get(kind)
    if allowed and (refused := [name for name, value in node.args.items() if value and name not in allowed]):
        raise BackendRefused(f"{refused[0].strip('_').upper()} is not allowed here. Nothing was run.")
    if kind == "In" and node.args.get("field"):  # some databases read a whole table for it
        raise BackendRefused("Write `IN (SELECT …)` or a list in parentheses. Nothing was run.")
    if kind == "Identifier" and len(node.this.encode(errors="replace")) > dialect.identifier_bytes_max:
        raise BackendRefused(f"The name {clean_name(node.this)} is too long. Nothing was run.")
    if isinstance(node, exp.Anonymous) and not isinstance(node.this, str):  # quoted, so it is user-defined
        raise BackendRefused(f"The function {clean_name(node.name)} is not allowed here. Nothing was run.")
    if kind == "Dot" and isinstance(node.expression, exp.Func):
        name = clean_name(node.expression.name or type(node.expression).__name__)
        raise BackendRefused(f"The function {name} is not allowed here with a schema. Nothing was run.")


def check_type(node: Expr, dialect: SqlDialect) -> None:
    """Raise BackendRefused unless a type is a plain built-in one.

    A user-defined type may run its own code, and some types look up their value (`regclass`). Written with a schema,
    such a type is not on the allowlist of words.
    """
    exp = load_sqlglot().exp
    node_type = node.args.get("to") if isinstance(node, exp.Cast) else node if isinstance(node, exp.DataType) else None
    if node_type is None:
        return
    sql = generate_sql(node_type, dialect).replace(dialect.identifier_quote, "")
    tokens = re.findall(r"[A-Za-z_]\w*", sql.upper())
    if not _TYPE_NAME.fullmatch(sql) or not dialect.types.union(dialect.keywords).issuperset(tokens):
        raise BackendRefused(f"The type {shorten(sql)} is not allowed here. Nothing was run.")


def _check_columns(tree: Expr, table: Relation) -> None:
    """Refuse columns that the catalog does not list: writing to a hidden column of a virtual table is a command."""
    exp = load_sqlglot().exp
    named = tree.this.expressions if isinstance(tree.this, exp.Schema) else []
    if isinstance(tree, exp.Update):
        named = [column_name for part in tree.expressions for column_name in part.this.find_all(exp.Identifier)]
    known = {"rowid", *(ascii_lower(column.name) for column in table.columns)}
    for column_name in named:
        if ascii_lower(column_name.name) not in known:
            raise BackendRefused(
                f"{clean_name(table.name)} has no column {clean_name(column_name.name)}. Nothing was run."
            )


# --- words ---------------------------------------------------------------------------------------


def check_keywords(sql: str, dialect: SqlDialect, *, is_change: bool = False) -> None:
    """Raise BackendRefused unless every bare word is on an allowlist and no token starts a comment."""
    at, before = 0, ""
    allowed = dialect.keywords | dialect.types | (CHANGE_KEYWORDS if is_change else frozenset())
    while at < len(sql):
        match = dialect.token_pattern.match(sql, at)
        pair = sql[at : at + 2]
        if match is None or pair in ("--", "/*", "*/") or (pair == "||" and dialect.name == "mysql"):
            raise BackendRefused(f"{shorten(sql[at : at + 12])} is not allowed here. Nothing was run.")
        if match.lastgroup == "word":
            word = match[0].upper()
            if word not in allowed or before == ".":
                _check_function(word, sql[match.end() : match.end() + 1], before, dialect)
        if match.lastgroup != "space":
            before = match[0]
        at = match.end()


def _find_qualified_names(sql: str, dialect: SqlDialect) -> Iterator[tuple[str, str]]:
    """Yield each two quoted names with a dot between them."""
    matches = [match for match in dialect.token_pattern.finditer(sql) if match.lastgroup != "space"]
    for first, dot, second in zip(matches, matches[1:], matches[2:], strict=False):
        if first.lastgroup == second.lastgroup == "name" and dot[0] == ".":
            yield _unquote(first[0], dialect), _unquote(second[0], dialect)


def _unquote(name: str, dialect: SqlDialect) -> str:
    return name[1:-1].replace(dialect.identifier_quote * 2, dialect.identifier_quote)


def _check_function(word: str, after: str, before: str, dialect: SqlDialect) -> None:
    known = dialect.functions | dialect.table_functions
    is_bare = word.startswith(("CURRENT_", "LOCALTIME", "UTC_"))
    if before == "." or word not in known or (after != "(" and not is_bare):
        kind = "function" if after == "(" else "word"
        raise BackendRefused(f"The {kind} {shorten(word)} is not allowed here. Nothing was run.")


# --- views ---------------------------------------------------------------------------------------


def check_view_definition(definition: str, dialect: SqlDialect) -> list[tuple[str, str]]:
    """Return the tables, with schema, that a view's definition reads; raises BackendRefused if it could do more.

    For views that were granted by a pattern: they must pass the same checks as a model's own statement.
    """
    statements = [statement for statement in parse_sql(definition, dialect) if statement is not None]
    if len(statements) != 1 or not is_query(statements[0]):
        raise BackendRefused("The definition of a view cannot be parsed unambiguously. Nothing was run.")
    for node in walk_nodes(statements[0]):
        check_node(node, dialect, root=None)
    check_keywords(generate_sql(statements[0], dialect), dialect)
    cte_names = {node.alias for node in walk_nodes(statements[0]) if type(node).__name__ == "CTE"}
    tables = [
        node for node in walk_nodes(statements[0]) if type(node).__name__ == "Table" and not _is_computed_table(node)
    ]
    return [(node.text("db"), node.name) for node in tables if node.text("db") or node.name not in cte_names]
