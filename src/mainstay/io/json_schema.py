"""Validates values against untrusted JSON Schemas in bounded time.

Nothing is ever fetched: a `$ref` must point into the same schema. Patterns run in a regex engine with linear time. What
remains is repetition: subschemas that refer to each other can make a short schema infinite, or double the work at every
level. So the cost of a validation is estimated first, and a value that would cost too much is refused.
"""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING

from mainstay.core.json_types import JsonObject
from mainstay.core.tools import BadArguments, parameter_names, reject_constant, reject_duplicate_keys
from mainstay.io.json_schema_cost import (
    PATTERN_BYTES_STEPS,
    SCHEMA_BYTES_MAX,
    SCHEMA_DEPTH_MAX,
    SchemaCostCounter,
    SchemaCostExceeded,
    SchemaRefused,
    build_cost_table,
    check_schema_size,
    detect_draft,
    index_subschemas,
    is_huge_int,
    iter_children,
    require_jsonschema,
    shorten_text,
)

if TYPE_CHECKING:
    import jsonschema_rs

__all__ = ["CompiledJsonSchema", "SchemaRefused", "parse_object_arguments"]

VALUE_DEPTH_MAX = 64
INPUT_CHARS_MAX = 1024 * 1024
_DIGITS_MAX = 100


class CompiledJsonSchema:
    """A compiled JSON Schema of an object. Raises SchemaRefused, or ConfigError if jsonschema-rs is not installed."""

    def __init__(
        self, schema: JsonObject, *, bytes_max: int = SCHEMA_BYTES_MAX, depth_max: int = SCHEMA_DEPTH_MAX
    ) -> None:
        check_schema_size(schema, bytes_max, depth_max)
        draft = detect_draft(schema)
        self.schema = schema
        self._cost_table = build_cost_table(index_subschemas(schema, is_draft4=draft == 4))
        self._validator = _build_validator(
            {key: value for key, value in schema.items() if key not in ("$id", "id")}, draft
        )

    def find_error(self, value: object) -> str | None:
        """Return what is wrong with the value, in a sentence for its author; None if it is valid."""
        if problem := _find_value_problem(value):
            return problem
        try:
            SchemaCostCounter(self._cost_table).count_cost("#", value)
        except SchemaCostExceeded:
            return "it is too large to be checked"
        import jsonschema_rs  # loaded when the schema was compiled

        try:
            self._validator.validate(value)
        except jsonschema_rs.ValidationError as error:
            return _format_error(error.instance_path, error.message)
        return None


def parse_object_arguments(input: str, schema: CompiledJsonSchema) -> JsonObject:
    """Parse and validate the JSON arguments of a call, strictly: no NaN, no duplicate keys. Raises BadArguments."""
    if len(input) > INPUT_CHARS_MAX:
        raise BadArguments(f"The arguments are longer than {INPUT_CHARS_MAX} characters. Nothing was run.")
    try:
        value = _decode_strict(input or "{}")
        problem = schema.find_error(value) if isinstance(value, dict) else "expected an object"
    except RecursionError:
        raise BadArguments("The arguments are nested too deeply. Nothing was run.") from None
    except ValueError as error:
        problem = shorten_text(str(error))
    if problem is not None:
        names = shorten_text(", ".join(parameter_names(schema.schema)) or "none")
        raise BadArguments(f"The arguments do not fit: {problem}. Expected parameters: {names}. Nothing was run.")
    assert isinstance(value, dict), "anything else was refused"
    return value


def _find_value_problem(value: object) -> str | None:
    """Check limits that hold for every schema: number size, depth, valid Unicode."""
    level = [value]
    for _ in range(VALUE_DEPTH_MAX):
        if any(is_huge_int(node) for node in level):
            return "a number in it is too long"
        if any(_has_lone_surrogate(text) for node in level for text in (node if isinstance(node, dict) else (node,))):
            return "it contains half a character (a lone surrogate)"
        level = [child for node in level for child in iter_children(node)]
        if not level:
            return None
    return f"it is nested deeper than {VALUE_DEPTH_MAX} levels"


def _has_lone_surrogate(value: object) -> bool:
    if not isinstance(value, str) or value.isascii():
        return False
    try:
        value.encode()
    except UnicodeEncodeError:
        return True
    return False


# --- the library ---------------------------------------------------------------------------------


def _build_validator(schema: JsonObject, draft: int) -> jsonschema_rs.Validator:
    require_jsonschema()
    import jsonschema_rs

    drafts: dict[int, type[jsonschema_rs.Validator]] = {
        4: jsonschema_rs.Draft4Validator,
        6: jsonschema_rs.Draft6Validator,
        7: jsonschema_rs.Draft7Validator,
        2019: jsonschema_rs.Draft201909Validator,
        2020: jsonschema_rs.Draft202012Validator,
    }
    try:
        return drafts[draft](
            schema,
            validate_formats=False,  # `format` is an annotation here, not an assertion
            mask="the value",
            pattern_options=jsonschema_rs.RegexOptions(
                size_limit=PATTERN_BYTES_STEPS[-1], dfa_size_limit=PATTERN_BYTES_STEPS[-1]
            ),
            offline=True,
        )
    except jsonschema_rs.ValidationError as error:
        raise SchemaRefused(f"invalid JSON Schema: {_format_error(error.instance_path, error.message)}") from None
    except (ValueError, jsonschema_rs.ReferencingError) as error:
        raise SchemaRefused(f"invalid JSON Schema: {shorten_text(str(error))}") from None


def _format_error(path: list[str | int], message: str) -> str:
    return shorten_text(f"{_format_path(path)}: {message}" if path else message)


def _format_path(path: list[str | int]) -> str:
    text = "".join(f"[{component}]" if isinstance(component, int) else f".{component}" for component in path)
    return shorten_text(text.removeprefix("."), 120)


# --- strict JSON ---------------------------------------------------------------------------------


def _parse_finite_float(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError("a number is too large")
    return number


def _parse_bounded_int(text: str) -> int:
    if len(text) > _DIGITS_MAX:
        raise ValueError("a number is too long")
    return int(text)


_decode_strict = json.JSONDecoder(
    object_pairs_hook=reject_duplicate_keys,
    parse_constant=reject_constant,
    parse_float=_parse_finite_float,
    parse_int=_parse_bounded_int,
).decode
