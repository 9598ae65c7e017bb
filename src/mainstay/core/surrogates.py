"""Unpaired surrogates in text: JSON can carry them as escapes, UTF-8 cannot."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Literal, TypeVar

import msgspec

from mainstay.core.errors import InputRefused

T = TypeVar("T")

# a pair of halves, a lone half, or any other escape: all are matched, so that an escaped backslash begins none
_ESCAPE = re.compile(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(?P<lone>u[dD][89a-fA-F][0-9a-fA-F]{2})|.)",
    re.DOTALL,
)


def refuse_surrogates(text: str, what: str = "the message") -> None:
    """Raise InputRefused for text with a lone surrogate: it could be stored only with other characters."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        code = ord(text[error.start])
        raise InputRefused(
            f"{what} is not valid text: character {error.start + 1} is a lone surrogate (U+{code:04X}), which is "
            "half of a character, or a byte that is not UTF-8"
        ) from None


def refuse_surrogates_in(value: object, what: str) -> None:
    """Raise InputRefused for a text with a lone surrogate, or a list or mapping that contains one, at any depth."""
    values = [value]
    while values:
        match values.pop():
            case str(text):
                if not text.isascii():
                    refuse_surrogates(text, what)
            case dict() as mapping:
                values += [*mapping.keys(), *mapping.values()]
            case list() | tuple() as items:
                values += items


def describe_json_error(data: bytes, error: Exception) -> str:
    """Return what is wrong with JSON that could not be decoded: msgspec takes a lone surrogate for the data's end."""
    if not isinstance(error, msgspec.ValidationError):
        for found in _ESCAPE.finditer(data):
            if found["lone"]:
                return f"the escape \\{found['lone'].decode()} is a lone surrogate, which is half of a character"
    return str(error)


def decode_repaired(data: bytes, decode: Callable[[bytes], T]) -> T:
    """Decode JSON that another program sent and that is not worth losing: lone surrogates become U+FFFD. Raises what
    `decode` raises."""
    try:
        return decode(data)
    except msgspec.ValidationError:
        raise
    except msgspec.DecodeError:
        repaired = repair_escapes(data)
        if repaired is data:
            raise
        return decode(repaired)


def repair_escapes(data: bytes) -> bytes:
    """Return JSON with lone surrogates among its escapes as U+FFFD; the same object if there are none."""
    repaired, count = data, 0

    def replace(found: re.Match[bytes]) -> bytes:
        nonlocal count
        count += found["lone"] is not None
        return b"\\ufffd" if found["lone"] else found[0]

    repaired = _ESCAPE.sub(replace, data)
    return repaired if count else data


def replace_surrogates_in(value: object, errors: Literal["replace", "backslashreplace"] = "replace") -> object:
    """Return the value, of JSON types, with each unpaired surrogate as "?", or as an escape such as "\\udce9"."""
    match value:
        case str():
            return value.encode(errors=errors).decode()
        case dict():
            return {
                replace_surrogates_in(key, errors): replace_surrogates_in(item, errors) for key, item in value.items()
            }
        case list() | tuple():
            return [replace_surrogates_in(item, errors) for item in value]
    return value
