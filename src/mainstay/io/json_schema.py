"""JSON Schemas that others wrote: looked through when they are registered, and then checked in bounded time.

Nothing is ever fetched: a reference leads to another part of the same schema or is refused. Patterns run in an engine
whose time is linear. What is left to go wrong is repetition: parts that refer to each other can make a short schema
endless, or ask twice as much of a value at every level. How much would be asked of a value is counted beforehand, and
where that is too much it is refused instead of checked.
"""

from __future__ import annotations

import json
import math
from typing import Any

from mainstay.core.tools import BadArguments, no_constant, unrepeated
from mainstay.io.schema_parts import (
    BYTES_MAX,
    DEPTH_MAX,
    PATTERN_SIZES,
    SchemaRefused,
    TooMuch,
    Work,
    about_same,
    brief,
    draft_of,
    inner_of,
    is_endless,
    library,
    parts_of,
    refuse_size,
)

__all__ = ["Schema", "SchemaRefused", "object_arguments"]

VALUE_DEPTH_MAX = 64
INPUT_BYTES_MAX = 1024 * 1024
_DIGITS_MAX = 100


class Schema:
    """A JSON Schema for an object. Raises SchemaRefused, one sentence, or ConfigError without its library."""

    def __init__(self, schema: dict[str, Any], *, bytes_max: int = BYTES_MAX, depth_max: int = DEPTH_MAX) -> None:
        refuse_size(schema, bytes_max, depth_max)
        draft = draft_of(schema)
        self.schema = schema
        self._about = about_same(parts_of(schema, old=draft == 4))
        self._library = library()
        self._valid = _compile({key: one for key, one in schema.items() if key not in ("$id", "id")}, draft)

    def check(self, value: Any) -> str | None:
        """What is wrong, in a sentence for whoever wrote the value; None if nothing is."""
        if wrong := _unfit(value):
            return wrong
        try:
            Work(self._about).count("#", value)
        except TooMuch:
            return "it is too large to be checked"
        try:
            self._valid.validate(value)
        except self._library.ValidationError as error:
            return _sentence(error.instance_path, error.message)
        return None


def object_arguments(input: str, schema: Schema) -> dict[str, Any]:
    """JSON text to the arguments of a call, strictly: no NaN, no repeated keys. Raises BadArguments."""
    if len(input) > INPUT_BYTES_MAX:
        raise BadArguments(f"The arguments are longer than {INPUT_BYTES_MAX} characters. Nothing was run.")
    try:
        value = _strict(input or "{}")
        wrong = schema.check(value) if isinstance(value, dict) else "expected an object"
    except RecursionError:
        raise BadArguments("The arguments are nested too deeply. Nothing was run.") from None
    except ValueError as error:
        wrong = brief(str(error))
    if wrong is not None:
        names = brief(", ".join(schema.schema.get("properties", {})) or "none")
        raise BadArguments(f"The arguments do not fit: {wrong}. Expected parameters: {names}. Nothing was run.")
    assert isinstance(value, dict), "anything else was refused"
    return value


def _unfit(value: Any) -> str | None:
    """What no schema is needed to see."""
    level = [value]
    for _ in range(VALUE_DEPTH_MAX):
        if any(is_endless(one) for one in level):
            return "a number in it is too long"
        if any(_is_half(text) for one in level for text in (one if isinstance(one, dict) else (one,))):
            return "it holds half a character"
        level = [inner for one in level for inner in inner_of(one)]
        if not level:
            return None
    return f"it is nested deeper than {VALUE_DEPTH_MAX} levels"


def _is_half(value: Any) -> bool:
    if not isinstance(value, str) or value.isascii():
        return False
    try:
        value.encode()
    except UnicodeEncodeError:
        return True
    return False


# --- the library ---------------------------------------------------------------------------------


def _compile(schema: dict[str, Any], draft: int) -> Any:
    known = library()
    drafts = {
        4: known.Draft4Validator,
        6: known.Draft6Validator,
        7: known.Draft7Validator,
        2019: known.Draft201909Validator,
        2020: known.Draft202012Validator,
    }
    try:
        return drafts[draft](
            schema,
            validate_formats=False,  # a format says what is meant; it is not for us to test
            mask="the value",
            pattern_options=known.RegexOptions(size_limit=PATTERN_SIZES[-1], dfa_size_limit=PATTERN_SIZES[-1]),
            offline=True,
        )
    except known.ValidationError as error:
        raise SchemaRefused(f"this is no JSON Schema: {_sentence(error.instance_path, error.message)}") from None
    except (ValueError, known.ReferencingError) as error:
        raise SchemaRefused(f"this is no JSON Schema: {brief(str(error))}") from None


def _sentence(path: list[str | int], message: str) -> str:
    return brief(f"{_place(path)}: {message}" if path else message)


def _place(path: list[str | int]) -> str:
    steps = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)
    return brief(steps.removeprefix("."), 120)


# --- strict JSON ---------------------------------------------------------------------------------


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError("a number is too large")
    return number


def _whole(text: str) -> int:
    if len(text) > _DIGITS_MAX:
        raise ValueError("a number is too long")
    return int(text)


_strict = json.JSONDecoder(
    object_pairs_hook=unrepeated, parse_constant=no_constant, parse_float=_finite, parse_int=_whole
).decode
