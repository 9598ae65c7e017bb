"""SQL read into a tree and written down again, with every name in quotes and no comment left."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from functools import cache
from itertools import islice
from typing import Any, ClassVar

from mainstay.backends.common import BackendRefused, clean_name
from mainstay.backends.sql_words import Dialect
from mainstay.core.errors import ConfigError

WRITTEN_CHARS_MAX = 60_000
TOKENS_MAX = 12_000
NODES_MAX = 5_000
STEPS_MIN, STEPS_EACH = 10_000, 10  # honest statements take up to 4 for each token, and up to 7 for each node
_CONFUSED = (AttributeError, IndexError, KeyError, TypeError, ValueError)  # what a parser trips over, now and then


@cache
def library() -> Any:
    """sqlglot, once it is needed; raises ConfigError where it is missing."""
    try:
        import sqlglot
    except ImportError:
        raise ConfigError("a backend of kind sql needs sqlglot: pip install -e '.[sql]'") from None
    logging.getLogger("sqlglot").setLevel(logging.CRITICAL)  # what it cannot read is said to the model, not to a log
    return sqlglot


@cache
def grammar(dialect: Dialect) -> Any:
    """How one is read and written. MariaDB calls something otherwise that both call RLIKE.

    Arrays begin where they begin: to count from 0 in between, all that stands before a bracket would be looked through.
    """
    sqlglot = library()
    base = type(sqlglot.Dialect.get_or_raise(dialect.name))
    reader, writer = _reader(base.parser_class, dialect), _writer(base.generator_class)
    if dialect.name == "mysql":
        writer.TRANSFORMS = base.generator_class.TRANSFORMS | {sqlglot.exp.RegexpLike: _rlike}
    return type(f"Mainstay{base.__name__}", (base,), {"Parser": reader, "Generator": writer, "INDEX_OFFSET": 0})()


# Both try one way after the other, or say a thing twice that holds another: 40 words can be 2 to the power of 20 of
# them. Nobody can stop a thread. So their steps are counted, and their patience ends.


def _reader(parser: Any, dialect: Dialect) -> Any:
    """It makes something else of no function but those that may run: some would be copied over and over."""
    known = dialect.functions | dialect.rows_from | dialect.words | dialect.types

    class Reader(parser):  # type: ignore[misc]
        FUNCTIONS: ClassVar = {name: made for name, made in parser.FUNCTIONS.items() if name in known}
        _left = STEPS_MIN

        def parse(self, raw_tokens: list[Any], sql: str) -> Any:
            self._left = STEPS_MIN + STEPS_EACH * len(raw_tokens)
            return super().parse(raw_tokens, sql)

        def _advance(self, times: int = 1) -> None:
            self._left = _one_less(self._left)
            super()._advance(times)

    return Reader


def _writer(generator: Any) -> Any:
    class Writer(generator):  # type: ignore[misc]
        _left = STEPS_MIN

        def generate(self, expression: Any, copy: bool = True) -> str:
            self._left = STEPS_MIN + STEPS_EACH * len(list(nodes(expression)))
            return str(super().generate(expression, copy=copy))

        def sql(self, expression: Any, key: str | None = None, comment: bool = True) -> str:
            self._left = _one_less(self._left)
            return str(super().sql(expression, key, comment))

    return Writer


def _one_less(left: int) -> int:
    if left <= 0:
        raise BackendRefused("The statement takes too long to read: write it more simply. Nothing was run.")
    return left - 1


def _rlike(writer: Any, node: Any) -> str:
    return str(writer.function_fallback_sql(node) if node.args.get("flag") else writer.binary(node, "RLIKE"))


def tokens(text: str, dialect: Dialect) -> list[Any]:
    sqlglot = library()
    try:
        found = list(grammar(dialect).tokenize(text))
    except (sqlglot.errors.SqlglotError, *_CONFUSED) as error:
        raise _unread(error) from None
    if len(found) > TOKENS_MAX:
        raise BackendRefused("This statement is too long. Nothing was run.")
    return found


def parse(text: str, dialect: Dialect) -> list[Any]:
    sqlglot = library()
    try:
        parser = grammar(dialect).parser(error_level=sqlglot.ErrorLevel.IMMEDIATE)
        return list(parser.parse(tokens(text, dialect), text))
    except (sqlglot.errors.SqlglotError, *_CONFUSED) as error:
        raise _unread(error) from None
    except RecursionError:
        raise BackendRefused("The statement is nested too deeply. Nothing was run.") from None


def _unread(error: Any) -> BackendRefused:
    first = (getattr(error, "errors", None) or [{}])[0]
    where = f" near line {first['line']}, column {first['col']}" if first.get("line") else ""
    return BackendRefused(f"The statement cannot be read{where}: {short(first.get('description') or 'bad syntax')}")


def write(tree: Any, dialect: Dialect) -> str:
    sqlglot = library()
    try:
        sql: str = tree.sql(
            grammar(dialect), identify=True, comments=False, unsupported_level=sqlglot.ErrorLevel.IMMEDIATE
        )
    except (sqlglot.errors.SqlglotError, *_CONFUSED) as error:
        raise BackendRefused(f"This cannot be said to {dialect.title}: {short(str(error))}") from None
    except RecursionError:
        raise BackendRefused("The statement is nested too deeply. Nothing was run.") from None
    if len(sql) > WRITTEN_CHARS_MAX:
        raise BackendRefused("This statement is too long. Nothing was run.")
    return sql


def nodes(tree: Any) -> Iterator[Any]:
    found = list(islice(tree.walk(), NODES_MAX + 1))
    if len(found) > NODES_MAX:
        raise BackendRefused("This statement is too long. Nothing was run.")
    yield from found


def is_query(tree: Any) -> bool:
    exp = library().exp
    while isinstance(tree, exp.Subquery | exp.Paren):
        tree = tree.this
    return isinstance(tree, exp.Select | exp.SetOperation | exp.Values)


def excerpt(node: Any, dialect: Dialect) -> str:
    return short(node.sql(grammar(dialect), comments=False))


def short(text: str) -> str:
    return clean_name(text, 60).strip('"')
