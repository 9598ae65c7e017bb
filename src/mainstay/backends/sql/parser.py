"""Parses SQL into an AST and generates SQL from it, with every identifier quoted and without comments (sqlglot)."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from functools import cache
from itertools import islice
from types import ModuleType
from typing import TYPE_CHECKING, ClassVar

from mainstay.backends.base import BackendRefused, clean_name
from mainstay.backends.sql.statement_allowlists import SqlDialect
from mainstay.core.errors import ConfigError

if TYPE_CHECKING:
    from sqlglot import Token
    from sqlglot.dialects.dialect import Dialect
    from sqlglot.expressions import Expr, RegexpLike
    from sqlglot.generator import Generator
    from sqlglot.parser import Parser

SQL_CHARS_MAX = 60_000
TOKENS_MAX = 12_000
NODES_MAX = 5_000
STEPS_MIN, STEPS_PER_ITEM = 10_000, 10  # real statements take up to 4 steps per token and 7 per node
# bugs of the parser that some inputs trigger
_PARSER_BUGS = (AttributeError, IndexError, KeyError, TypeError, ValueError)


@cache
def load_sqlglot() -> ModuleType:
    """Import sqlglot on first use; raises ConfigError if it is not installed."""
    try:
        import sqlglot
    except ImportError:
        raise ConfigError("a backend of kind sql needs sqlglot: pip install -e '.[sql]'") from None
    logging.getLogger("sqlglot").setLevel(logging.CRITICAL)  # syntax errors are reported to the model, not logged
    return sqlglot


@cache
def build_sqlglot_dialect(dialect: SqlDialect) -> Dialect:
    """Return the sqlglot dialect with a bounded parser and generator.

    MySQL regular expressions are generated as RLIKE, which MySQL and MariaDB both accept. INDEX_OFFSET is 0 for parsing
    and generating alike, because converting array indexes would walk everything before a bracket.
    """
    sqlglot = load_sqlglot()
    base = type(sqlglot.Dialect.get_or_raise(dialect.name))
    parser, generator = _build_parser_class(base.parser_class, dialect), _build_generator_class(base.generator_class)
    if dialect.name == "mysql":
        generator.TRANSFORMS = base.generator_class.TRANSFORMS | {sqlglot.exp.RegexpLike: _generate_rlike}
    parts = {"Parser": parser, "Generator": generator, "INDEX_OFFSET": 0}
    bounded: Dialect = type(f"Mainstay{base.__name__}", (base,), parts)()
    return bounded


# Parser and generator backtrack and repeat nested parts: 40 words can take 2**20 steps, and a thread cannot be
# interrupted. So steps are counted and limited.


def _build_parser_class(parser: type[Parser], dialect: SqlDialect) -> type[Parser]:
    """Return a parser class that counts its steps.

    It converts only allowed functions: converting others may copy their arguments repeatedly.
    """
    known = dialect.functions | dialect.table_functions | dialect.keywords | dialect.types

    class BoundedParser(parser):  # type: ignore[misc, valid-type]
        FUNCTIONS: ClassVar = {name: build for name, build in parser.FUNCTIONS.items() if name in known}
        _steps_left = STEPS_MIN

        def parse(self, raw_tokens: list[Token], sql: str) -> list[Expr | None]:
            self._steps_left = STEPS_MIN + STEPS_PER_ITEM * len(raw_tokens)
            statements: list[Expr | None] = super().parse(raw_tokens, sql)
            return statements

        def _advance(self, times: int = 1) -> None:
            self._steps_left = _count_step(self._steps_left)
            super()._advance(times)

    return BoundedParser


def _build_generator_class(generator: type[Generator]) -> type[Generator]:
    class BoundedGenerator(generator):  # type: ignore[misc, valid-type]
        _steps_left = STEPS_MIN

        def generate(self, expression: Expr, copy: bool = True) -> str:
            self._steps_left = STEPS_MIN + STEPS_PER_ITEM * len(list(walk_nodes(expression)))
            return str(super().generate(expression, copy=copy))

        def sql(self, expression: str | Expr | None, key: str | None = None, comment: bool = True) -> str:
            self._steps_left = _count_step(self._steps_left)
            return str(super().sql(expression, key, comment))

    return BoundedGenerator


def _count_step(steps_left: int) -> int:
    if steps_left <= 0:
        raise BackendRefused("The statement takes too long to parse: simplify it. Nothing was run.")
    return steps_left - 1


def _generate_rlike(generator: Generator, node: RegexpLike) -> str:
    return str(generator.function_fallback_sql(node) if node.args.get("flag") else generator.binary(node, "RLIKE"))


def tokenize(text: str, dialect: SqlDialect) -> list[Token]:
    sqlglot = load_sqlglot()
    try:
        result = list(build_sqlglot_dialect(dialect).tokenize(text))
    except (sqlglot.errors.SqlglotError, *_PARSER_BUGS) as error:
        raise _syntax_error(error) from None
    if len(result) > TOKENS_MAX:
        raise BackendRefused("This statement is too long. Nothing was run.")
    return result


def parse_sql(text: str, dialect: SqlDialect) -> list[Expr | None]:
    sqlglot = load_sqlglot()
    try:
        parser = build_sqlglot_dialect(dialect).parser(error_level=sqlglot.ErrorLevel.IMMEDIATE)
        return list(parser.parse(tokenize(text, dialect), text))
    except (sqlglot.errors.SqlglotError, *_PARSER_BUGS) as error:
        raise _syntax_error(error) from None
    except RecursionError:
        raise BackendRefused("The statement is nested too deeply. Nothing was run.") from None


def _syntax_error(error: Exception) -> BackendRefused:
    first = (getattr(error, "errors", None) or [{}])[0]
    position = f" near line {first['line']}, column {first['col']}" if first.get("line") else ""
    return BackendRefused(
        f"The statement cannot be parsed{position}: {shorten(first.get('description') or 'bad syntax')}"
    )


def generate_sql(tree: Expr, dialect: SqlDialect) -> str:
    sqlglot = load_sqlglot()
    try:
        sql: str = tree.sql(
            build_sqlglot_dialect(dialect),
            identify=True,
            comments=False,
            unsupported_level=sqlglot.ErrorLevel.IMMEDIATE,
        )
    except (sqlglot.errors.SqlglotError, *_PARSER_BUGS) as error:
        raise BackendRefused(f"This cannot be expressed in the SQL of {dialect.title}: {shorten(str(error))}") from None
    except RecursionError:
        raise BackendRefused("The statement is nested too deeply. Nothing was run.") from None
    if len(sql) > SQL_CHARS_MAX:
        raise BackendRefused("This statement is too long. Nothing was run.")
    return sql


def walk_nodes(tree: Expr) -> Iterator[Expr]:
    result = list(islice(tree.walk(), NODES_MAX + 1))
    if len(result) > NODES_MAX:
        raise BackendRefused("This statement is too long. Nothing was run.")
    yield from result


def is_query(tree: Expr) -> bool:
    exp = load_sqlglot().exp
    while isinstance(tree, exp.Subquery | exp.Paren):
        tree = tree.this
    return isinstance(tree, exp.Select | exp.SetOperation | exp.Values)


def format_excerpt(node: Expr, dialect: SqlDialect) -> str:
    return shorten(node.sql(build_sqlglot_dialect(dialect), comments=False))


def shorten(text: str) -> str:
    return clean_name(text, 60).strip('"')
