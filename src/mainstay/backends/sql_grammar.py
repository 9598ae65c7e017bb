"""SQL read into a tree and written down again, with every name in quotes and no comment left."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from functools import cache
from typing import Any

from mainstay.backends.common import BackendRefused, clean_name
from mainstay.backends.sql_words import Dialect
from mainstay.core.errors import ConfigError

WRITTEN_CHARS_MAX = 60_000
_CONFUSED = (AttributeError, IndexError, KeyError, TypeError, ValueError)  # what a parser trips over, now and then


@cache
def library() -> Any:
    """sqlglot, once it is needed; raises ConfigError where it is missing."""
    try:
        import sqlglot
    except ImportError:
        raise ConfigError("a backend of kind sql needs sqlglot: pip install 'mainstay[sql]'") from None
    logging.getLogger("sqlglot").setLevel(logging.CRITICAL)  # what it cannot read is said to the model, not to a log
    return sqlglot


@cache
def grammar(dialect: Dialect) -> Any:
    """How one is read and written. MariaDB calls something otherwise that both call RLIKE."""
    sqlglot = library()
    if dialect.name != "mysql":
        return sqlglot.Dialect.get_or_raise(dialect.name)
    from sqlglot.dialects.mysql import MySQL

    transforms = MySQL.Generator.TRANSFORMS | {sqlglot.exp.RegexpLike: _rlike}
    writer = type("Generator", (MySQL.Generator,), {"TRANSFORMS": transforms})
    return type("MainstayMySQL", (MySQL,), {"Generator": writer})()


def _rlike(writer: Any, node: Any) -> str:
    return str(writer.function_fallback_sql(node) if node.args.get("flag") else writer.binary(node, "RLIKE"))


def tokens(text: str, dialect: Dialect) -> list[Any]:
    sqlglot = library()
    try:
        return list(sqlglot.tokenize(text, read=grammar(dialect)))
    except (sqlglot.errors.SqlglotError, *_CONFUSED) as error:
        raise _unread(error) from None


def parse(text: str, dialect: Dialect) -> list[Any]:
    sqlglot = library()
    try:
        return list(sqlglot.parse(text, read=grammar(dialect), error_level=sqlglot.ErrorLevel.IMMEDIATE))
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
    yield from list(tree.walk())


def is_query(tree: Any) -> bool:
    exp = library().exp
    while isinstance(tree, exp.Subquery | exp.Paren):
        tree = tree.this
    return isinstance(tree, exp.Select | exp.SetOperation | exp.Values)


def excerpt(node: Any, dialect: Dialect) -> str:
    return short(node.sql(grammar(dialect), comments=False))


def short(text: str) -> str:
    return clean_name(text, 60).strip('"')
