"""Unpaired surrogates in text: JSON can carry them as escapes, UTF-8 cannot."""

from __future__ import annotations

from typing import Literal


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
