"""Describes types and values of the configuration in words, for errors and the reference page."""

from __future__ import annotations

import re
from collections.abc import Sequence
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

_SHOWN_MAX = 12
_SHORT_WORD = re.compile(rf"[A-Za-z_]{{1,{_SHOWN_MAX}}}")
_BOUNDS = {"ge": "of at least", "gt": "of more than", "le": "of at most", "lt": "of less than"}


def union_members(field_type: Any) -> list[Any]:
    """Return the members of a union, without annotations; a list of one for other types."""
    if get_origin(field_type) is Annotated:
        return union_members(get_args(field_type)[0])
    if get_origin(field_type) in (Union, UnionType):
        return [option for member in get_args(field_type) for option in union_members(member)]
    return [field_type]


def describe_type(field_type: Any) -> str:
    """Describe a type: `a whole number of at least 1 or null`."""
    origin, arguments = get_origin(field_type), get_args(field_type)
    if origin is Annotated:
        return describe_type(arguments[0]) + _describe_bounds(arguments[1:]) + _describe_text_rules(arguments[1:])
    if origin in (Union, UnionType):
        return " or ".join(map(describe_type, arguments))
    if origin is Literal:
        return " or ".join(f"'{word}'" for word in arguments)
    if origin is tuple:
        return "a list"
    names = {str: "text", int: "a whole number", float: "a number", bool: "true or false", NoneType: "null"}
    return names.get(field_type, "a mapping")


def _describe_bounds(metas: Sequence[Any]) -> str:
    """Describe the bounds of a number: ` between 0 and 1`, ` of more than 0`; empty without bounds."""
    bounds = {name: bound for meta in metas for name in _BOUNDS if (bound := getattr(meta, name, None)) is not None}
    if "ge" in bounds and "le" in bounds:
        return f" between {bounds['ge']} and {bounds['le']}"
    return "".join(f" {word} {bounds[name]}" for name, word in _BOUNDS.items() if name in bounds)


def _describe_text_rules(metas: Sequence[Any]) -> str:
    """Describe the rules of a text: ` of at least 1 character`, ` that matches '^https?://'`; empty without rules."""
    names = ("min_length", "max_length", "pattern")
    rules = {name: rule for meta in metas for name in names if (rule := getattr(meta, name, None)) is not None}
    least, most = rules.get("min_length"), rules.get("max_length")
    text = ""
    if least is not None and most is not None:
        text = f" of {least} characters" if least == most else f" of {least} to {most} characters"
    elif least is not None or most is not None:
        text = f" of at least {least} characters" if most is None else f" of at most {most} characters"
    text = text.removesuffix("s") if text.endswith(" 1 characters") else text
    return text + (f" that matches '{rules['pattern']}'" if "pattern" in rules else "")


def is_never_secret(field_type: Any) -> bool:
    """Return True for types of numbers and fixed words only: their values are never secrets."""
    return all(
        get_origin(option) is Literal or option in (int, float, bool, NoneType) for option in union_members(field_type)
    )


def show_if_short(value: Any) -> str:
    """Return a value for an error if it is a short word or number, else its type: an API key under the wrong key must
    not be logged."""
    match value:
        case bool():
            return str(value).lower()
        case int() | float() if len(str(value)) <= _SHOWN_MAX:
            return str(value)
        case str() if _SHORT_WORD.fullmatch(value):
            return f"'{value}'"
    return describe_value_type(value)


def describe_value_type(value: Any) -> str:
    """Describe a value by its type only: it may be a secret."""
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
