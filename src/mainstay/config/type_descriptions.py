"""What the configuration expects, and what it was given instead, in words."""

from __future__ import annotations

import re
from collections.abc import Sequence
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

_SHOWN_MAX = 12
_WORD = re.compile(rf"[A-Za-z_]{{1,{_SHOWN_MAX}}}")
_BOUNDS = {"ge": "of at least", "gt": "of more than", "le": "of at most", "lt": "of less than"}


def options(kind: Any) -> list[Any]:
    """The members of a union, without annotations."""
    if get_origin(kind) is Annotated:
        return options(get_args(kind)[0])
    if get_origin(kind) in (Union, UnionType):
        return [one for member in get_args(kind) for one in options(member)]
    return [kind]


def describe(kind: Any) -> str:
    """What is expected, for a person."""
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return describe(arguments[0]) + _within(arguments[1:])
    if origin in (Union, UnionType):
        return " or ".join(map(describe, arguments))
    if origin is Literal:
        return " or ".join(f"'{one}'" for one in arguments)
    if origin is tuple:
        return "a list"
    words = {str: "text", int: "a whole number", float: "a number", bool: "true or false", NoneType: "null"}
    return words.get(kind, "a mapping")


def _within(metas: Sequence[Any]) -> str:
    """` between 0 and 1`, ` of more than 0`; nothing where there are no bounds."""
    found = {name: one for meta in metas for name in _BOUNDS if (one := getattr(meta, name, None)) is not None}
    if "ge" in found and "le" in found:
        return f" between {found['ge']} and {found['le']}"
    return "".join(f" {word} {found[name]}" for name, word in _BOUNDS.items() if name in found)


def is_plain(kind: Any) -> bool:
    """Takes numbers and fixed words only: no secret belongs there."""
    return all(get_origin(one) is Literal or one in (int, float, bool, NoneType) for one in options(kind))


def shown(value: Any) -> str:
    """What was given, where it is short and plain: whoever put a key in the wrong place does not find it in a log."""
    match value:
        case bool():
            return str(value).lower()
        case int() | float() if len(str(value)) <= _SHOWN_MAX:
            return str(value)
        case str() if _WORD.fullmatch(value):
            return f"'{value}'"
    return noun(value)


def noun(value: Any) -> str:
    """What was given, without showing it: it may be a secret."""
    match value:
        case None:
            return "nothing"
        case bool():
            return "true or false"
        case int():
            return "a whole number"
        case float():
            return "a number"
        case str():
            return "text"
        case list():
            return "a list"
    return "a mapping"
