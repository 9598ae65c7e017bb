"""Unpaired surrogates in text: JSON can carry them as escapes, UTF-8 cannot."""

from __future__ import annotations

from typing import Literal

from mainstay.core.errors import InputRefused


def refuse_surrogates(text: str) -> None:
    """Raise InputRefused for text with a lone surrogate: it could be stored only with other characters."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        code = ord(text[error.start])
        raise InputRefused(
            f"the message is not valid text: character {error.start + 1} is a lone surrogate (U+{code:04X}), which is "
            "half of a character, or a byte that is not UTF-8"
        ) from None


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
