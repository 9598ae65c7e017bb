"""From what a model wrote to a statement that may run, or a refusal.

The model's own text never runs. It is parsed, its tables are looked up in the catalogue and written out in full, and
the tree is written down again with every name in quotes. That text is read once more and judged: its shape, its
tables, and each of its words. So what was judged is what runs, whatever the first reading made of the original.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import msgspec

from mainstay.backends.common import BackendRefused, clean_name
from mainstay.backends.sql_catalog import Catalog, Relation, ascii_lower
from mainstay.backends.sql_grammar import excerpt, is_query, library, nodes, parse, short, tokens, write
from mainstay.backends.sql_scope import Scope
from mainstay.backends.sql_words import CHANGE, Dialect

TEXT_CHARS_MAX = 20_000

_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
_TYPE = re.compile(r"[A-Za-z0-9_ (),\[\]]+")
_QUERY_BEGINS = ("SELECT", "WITH", "VALUES")
_CHANGE_BEGINS = ("INSERT", "UPDATE", "DELETE", "WITH")


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Parts of a statement that stand for nothing but themselves. Operators and functions are judged by their words.
_SHAPES = _names(
    "Alias Aliases All And Any Array AtTimeZone Between BitString Boolean Bracket ByteString Case Cast "
    "CharacterSet Collate Column CTE Cube DataType DataTypeParam Delete Distinct Dot Escape Except Exists Fetch "
    "Filter From Group GroupingSets Having HexString Identifier If IgnoreNulls In Insert Intersect Interval "
    "IntervalSpan Join JSONColumnDef JSONKeyValue JSONPath JSONPathKey JSONPathRoot "
    "JSONPathSubscript JSONPathWildcard JSONSchema JSONValue Kwarg Lateral Limit LimitOptions Literal "
    "Not Null Offset OnConflict Or Order Ordered Paren RawString RespectNulls Rollup Schema Select Slice Star "
    "Subquery Table TableAlias Tuple Union Unnest Update Values Var Where Window WindowSpec With WithinGroup"
)
_SELECT_ARGS = _names("with_ expressions distinct from_ laterals joins where group having windows order limit offset")
_TABLE_ARGS = _names("this alias db laterals joins only ordinality")
_CHANGE_ARGS = {
    "Insert": _names("with_ this expression conflict default"),
    "Update": _names("with_ this expressions from_ where"),
    "Delete": _names("with_ this using where"),
}


class TableUnknown(BackendRefused):
    """No such table is within reach, as far as the catalogue knows."""


class Statement(msgspec.Struct, frozen=True, kw_only=True):
    """Something that may run."""

    sql: str
    relations: tuple[Relation, ...]  # all that it names
    target: Relation | None = None  # what it changes
    ordered: bool = False
    names: tuple[str, ...] = ()  # that it gives to parts of itself


class Judge(msgspec.Struct, frozen=True):
    """Reads statements for one database, by what it has and what of it may be touched."""

    dialect: Dialect
    catalog: Catalog
    scope: Scope

    def query(self, text: str) -> Statement:
        """Something that only reads."""
        tree = _read(text, self.dialect, _QUERY_BEGINS)
        if not is_query(tree):
            raise BackendRefused("Only a single SELECT can be run here. Nothing was run.")
        return self._written(tree)

    def change(self, text: str) -> Statement:
        """An INSERT, UPDATE or DELETE of rows of one table."""
        tree = _read(text, self.dialect, _CHANGE_BEGINS)
        if type(tree).__name__ not in _CHANGE_ARGS:
            raise BackendRefused("Only a single INSERT, UPDATE or DELETE can be run here. Nothing was run.")
        return self._written(tree)

    def _written(self, tree: Any) -> Statement:
        for node in nodes(tree):
            self._settle(node)
        sql = write(tree, self.dialect)
        again = parse(sql, self.dialect)
        if len(again) != 1 or again[0] is None or write(again[0], self.dialect) != sql:
            raise BackendRefused("This statement cannot be read without doubt: write it more simply. Nothing was run.")
        tree = again[0]
        changes = not is_query(tree)
        relations = tuple(dict.fromkeys(self._judge(tree)))
        check_words(sql, self.dialect, changes=changes)
        self._check_chains(sql, relations)
        return Statement(
            sql=sql,
            relations=relations,
            target=self._target(tree) if changes else None,
            ordered=bool(tree.args.get("order")),
            names=tuple(_ctes(tree)),
        )

    # --- names -----------------------------------------------------------------------------------

    def _settle(self, node: Any) -> None:
        """Names as the database folds them, tables as the catalogue spells them."""
        kind = type(node).__name__
        if kind == "Identifier":
            if self.dialect.name == "postgres" and not node.args.get("quoted"):
                node.set("this", ascii_lower(node.this))
            node.set("quoted", True)
        if kind != "Table" or _made_by(node) or self._is_cte(node):
            return
        found = self._lookup(node)
        identifier = type(node.this)
        node.set("this", identifier(this=found.name, quoted=True))
        node.set("db", identifier(this=found.schema, quoted=True))
        node.set("catalog", None)

    def _lookup(self, node: Any) -> Relation:
        schema = self._folded(node.args.get("db"))
        found = self.catalog.find(self._folded(node.this), schema)
        database = self._folded(node.args.get("catalog"))
        if found is None or not self.scope.grant(found) or (database and database != found.database):
            name = clean_name(f"{schema}.{node.name}" if schema else node.name)
            raise TableUnknown(f"There is no table {name} within reach: describe lists those there are.")
        return found

    def _folded(self, identifier: Any) -> str:
        if identifier is None:
            return ""
        plain = self.dialect.name == "postgres" and not identifier.args.get("quoted")
        return ascii_lower(identifier.name) if plain else str(identifier.name)

    def _part(self, identifier: Any) -> str:
        """How parts of a statement are told apart: only PostgreSQL knows capitals there."""
        name = self._folded(identifier)
        return name if self.dialect.name == "postgres" else ascii_lower(name)

    def _is_cte(self, node: Any) -> bool:
        """It stands for a part of the statement itself: those have names that nothing in the database has."""
        if node.args.get("db") or node.args.get("catalog"):
            return False
        name, above = self._part(node.this), node.parent
        while above is not None:
            within = above.args.get("with_")
            if within and any(self._part(one.args["alias"].this) == name for one in within.expressions):
                return True
            above = above.parent
        return False

    # --- shape -----------------------------------------------------------------------------------

    def _judge(self, tree: Any) -> Iterator[Relation]:
        for node in nodes(tree):
            check_shape(node, self.dialect, root=tree)
            check_type(node, self.dialect)
            if type(node).__name__ == "CTE" and self.catalog.taken(node.alias):
                name = clean_name(node.alias)
                raise BackendRefused(f"There is something called {name} already: give that part another name.")
            if type(node).__name__ == "Table" and not self._is_function(node) and not self._is_cte(node):
                yield self._lookup(node)

    def _check_chains(self, sql: str, relations: tuple[Relation, ...]) -> None:
        """No two names in a row are those of a schema and a table, but where the table was looked up.

        Tables are always called by both, and MySQL knows no other way here: so this holds even if the tree was read
        wrongly.
        """
        for schema, name in _chains(sql, self.dialect):
            found = self.catalog.find(name, schema)
            if found is not None and found not in relations:
                raise BackendRefused(f"There is no table {clean_name(name)} within reach. Nothing was run.")

    def _is_function(self, node: Any) -> bool:
        """True for what makes its own rows, if it is one of those that may."""
        if not _made_by(node):
            return False
        written = write(node.this, self.dialect)
        word = re.match(r"([A-Za-z_][A-Za-z0-9_]*)\(", written)
        if word is None or word[1].upper() not in self.dialect.rows_from:
            raise BackendRefused(f"Rows cannot be read from {short(written)} here. Nothing was run.")
        return True

    def _target(self, tree: Any) -> Relation:
        """What is changed: one table, and rows that were chosen."""
        kind, node = type(tree).__name__, tree.this
        if type(node).__name__ == "Schema":
            node = node.this
        if type(node).__name__ != "Table" or node.args.get("joins") or self._is_cte(node) or _made_by(node):
            raise BackendRefused("A change is one of a single table. Nothing was run.")
        found = self._lookup(node)
        if found.indirect:
            raise BackendRefused(f"{clean_name(found.name)} is a {found.kind}: only tables can be changed.")
        where = tree.args.get("where")
        if kind != "Insert" and (where is None or not any(type(one).__name__ == "Column" for one in nodes(where))):
            raise _every_row(kind.upper())
        if found.kind == "virtual table":
            _check_columns(tree, found)
        return found


# --- reading -------------------------------------------------------------------------------------


def _begun(text: str, dialect: Dialect, begins: tuple[str, ...]) -> list[Any]:
    """Its tokens, if it begins as it must."""
    if len(text) > TEXT_CHARS_MAX:
        raise BackendRefused(f"The statement has more than {TEXT_CHARS_MAX} characters. Nothing was run.")
    if _CONTROL.search(text):
        raise BackendRefused("There is a control character in the statement. Nothing was run.")
    found = tokens(text, dialect)
    first = next((token.text.upper() for token in found if token.text != "("), "")
    if first not in begins:
        wanted = " or ".join(begins)
        raise BackendRefused(f"A statement begins with {wanted} here, not with {short(first) or 'nothing'}.")
    return found


def _read(text: str, dialect: Dialect, begins: tuple[str, ...]) -> Any:
    _begun(text, dialect, begins)
    found = [one for one in parse(text, dialect) if one is not None]
    if len(found) != 1:
        raise BackendRefused("One statement at a time. Nothing was run.")
    return found[0]


def check_change(text: str, dialect: Dialect) -> None:
    """What can be told of a change at once, without its database: nobody need be asked about one that cannot run."""
    words = [token.text.upper() for token in _begun(text, dialect, _CHANGE_BEGINS)]
    if words[0] in ("UPDATE", "DELETE") and "WHERE" not in words:
        raise _every_row(words[0])


def _every_row(verb: str) -> BackendRefused:
    return BackendRefused(f"{verb} needs a WHERE that says which rows. Nothing was run.")


def _made_by(table: Any) -> bool:
    """Its rows come from something other than a table of that name."""
    return type(table.this).__name__ != "Identifier"


def _ctes(tree: Any) -> Iterator[str]:
    return (node.alias for node in nodes(tree) if type(node).__name__ == "CTE")


# --- shape ---------------------------------------------------------------------------------------


def check_shape(node: Any, dialect: Dialect, *, root: Any) -> None:
    """Raises if it is a part of a statement that could do more than read, or that nobody has thought about."""
    exp = library().exp
    kind = type(node).__name__
    known = kind in _SHAPES or isinstance(node, exp.Func | exp.Binary | exp.Unary)
    if not known or (kind in _CHANGE_ARGS and node is not root):
        raise BackendRefused(f"This is not possible here: {excerpt(node, dialect)}. Nothing was run.")
    allowed = {"Select": _SELECT_ARGS, "Table": _TABLE_ARGS, **_CHANGE_ARGS}.get(kind)
    if allowed and (odd := [name for name, value in node.args.items() if value and name not in allowed]):
        raise BackendRefused(f"{odd[0].strip('_').upper()} is not possible here. Nothing was run.")
    if kind == "In" and node.args.get("field"):  # some read a whole table so
        raise BackendRefused("Write `IN (SELECT …)` or a list in parentheses. Nothing was run.")
    if kind == "Identifier" and len(node.this.encode(errors="replace")) > dialect.name_bytes_max:
        raise BackendRefused(f"The name {clean_name(node.this)} is too long. Nothing was run.")
    if isinstance(node, exp.Anonymous) and not isinstance(node.this, str):  # in quotes, so it is somebody's own
        raise BackendRefused(f"The function {clean_name(node.name)} is not possible here. Nothing was run.")
    if kind == "Dot" and isinstance(node.expression, exp.Func):
        name = clean_name(node.expression.name or type(node.expression).__name__)
        raise BackendRefused(f"The function {name} is not possible here with a schema. Nothing was run.")


def check_type(node: Any, dialect: Dialect) -> None:
    """Only the database's own plain types: one that somebody made may run what its maker wrote, and there are some
    that look up what they are given (`regclass`). Written with a schema, they are no words that a list would know."""
    exp = library().exp
    made = node.args.get("to") if isinstance(node, exp.Cast) else node if isinstance(node, exp.DataType) else None
    if made is None:
        return
    written = write(made, dialect).replace(dialect.quote, "")
    words = re.findall(r"[A-Za-z_]\w*", written.upper())
    if not _TYPE.fullmatch(written) or not dialect.types.union(dialect.words).issuperset(words):
        raise BackendRefused(f"The type {short(written)} is not possible here. Nothing was run.")


def _check_columns(tree: Any, table: Relation) -> None:
    """A virtual table has columns that nobody sees: what is written there is a command to it."""
    exp = library().exp
    named = tree.this.expressions if isinstance(tree.this, exp.Schema) else []
    if isinstance(tree, exp.Update):
        named = [one for part in tree.expressions for one in part.this.find_all(exp.Identifier)]
    known = {"rowid", *(ascii_lower(column.name) for column in table.columns)}
    for one in named:
        if ascii_lower(one.name) not in known:
            raise BackendRefused(f"{clean_name(table.name)} has no column {clean_name(one.name)}. Nothing was run.")


# --- words ---------------------------------------------------------------------------------------


def check_words(sql: str, dialect: Dialect, *, changes: bool = False) -> None:
    """Every bare word of what runs is one we know; there is no sign in it that hides something."""
    at, before = 0, ""
    allowed = dialect.words | dialect.types | (CHANGE if changes else frozenset())
    while at < len(sql):
        found = dialect.token.match(sql, at)
        pair = sql[at : at + 2]
        if found is None or pair in ("--", "/*", "*/") or (pair == "||" and dialect.name == "mysql"):
            raise BackendRefused(f"{short(sql[at : at + 12])} is not possible here. Nothing was run.")
        if found.lastgroup == "word":
            word = found[0].upper()
            if word not in allowed or before == ".":
                _check_function(word, sql[found.end() : found.end() + 1], before, dialect)
        if found.lastgroup != "space":
            before = found[0]
        at = found.end()


def _chains(sql: str, dialect: Dialect) -> Iterator[tuple[str, str]]:
    """Each two quoted names with a dot between them."""
    found = [one for one in dialect.token.finditer(sql) if one.lastgroup != "space"]
    for first, dot, second in zip(found, found[1:], found[2:], strict=False):
        if first.lastgroup == second.lastgroup == "name" and dot[0] == ".":
            yield _unquoted(first[0], dialect), _unquoted(second[0], dialect)


def _unquoted(name: str, dialect: Dialect) -> str:
    return name[1:-1].replace(dialect.quote * 2, dialect.quote)


def _check_function(word: str, after: str, before: str, dialect: Dialect) -> None:
    known = dialect.functions | dialect.rows_from
    bare = word.startswith(("CURRENT_", "LOCALTIME", "UTC_"))
    if before == "." or word not in known or (after != "(" and not bare):
        what = "function" if after == "(" else "word"
        raise BackendRefused(f"The {what} {short(word)} is not possible here. Nothing was run.")


# --- views ---------------------------------------------------------------------------------------


def check_view(definition: str, dialect: Dialect) -> list[tuple[str, str]]:
    """The tables that a view's own definition reads, each with its schema; raises if it could do more than read them.

    For views that nobody granted by name: these are held to what a model's own statement is held to.
    """
    found = [one for one in parse(definition, dialect) if one is not None]
    if len(found) != 1 or not is_query(found[0]):
        raise BackendRefused("A view here cannot be read without doubt. Nothing was run.")
    for node in nodes(found[0]):
        check_shape(node, dialect, root=None)
    check_words(write(found[0], dialect), dialect)
    parts = {node.alias for node in nodes(found[0]) if type(node).__name__ == "CTE"}
    tables = [node for node in nodes(found[0]) if type(node).__name__ == "Table" and not _made_by(node)]
    return [(node.db, node.name) for node in tables if node.db or node.name not in parts]
