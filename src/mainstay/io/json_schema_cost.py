"""Checks untrusted JSON Schemas before use, and estimates what validating a value against one costs.

Refused: references out of the schema, subschemas that refer to themselves endlessly, patterns that cannot be matched in
linear time.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from urllib.parse import unquote

from mainstay.core.errors import ConfigError, MainstayError
from mainstay.core.json_types import JsonObject, JsonValue
from mainstay.guards.line_escaping import one_line

SCHEMA_BYTES_MAX = 64 * 1024
SCHEMA_DEPTH_MAX = 40
INT_BITS_MAX = 256
REFERENCES_MAX = 20_000  # references between subschemas that apply to the same value
COST_MAX = 5_000_000  # estimated cost of validating one value with all its parts
COUNTING_STEPS_MAX = 300_000  # of the estimation itself
PATTERN_BYTES_STEPS = (4 * 1024, 16 * 1024, 64 * 1024, 256 * 1024, 1024 * 1024)  # in bytes, compiled; tried in turn
_MULTIPLE_OF_COST = 300  # of `multipleOf`: exact division of very large by very small numbers
PATTERNS_KB_MAX = 8 * 1024  # of all compiled patterns of a schema together, in kilobytes

_DRAFTS = {
    "http://json-schema.org/draft-04/schema": 4,
    "http://json-schema.org/draft-06/schema": 6,
    "http://json-schema.org/draft-07/schema": 7,
    "http://json-schema.org/schema": 7,
    "https://json-schema.org/draft-07/schema": 7,
    "https://json-schema.org/draft/2019-09/schema": 2019,
    "https://json-schema.org/draft/2020-12/schema": 2020,
}
# Keywords that contain subschemas: the first set applies to the same value, the others to its parts.
_SAME_VALUE_KEYWORDS = {"allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas", "dependencies"}
_ITEM_KEYWORDS = {"items", "prefixItems", "additionalItems", "contains"}
_PROPERTY_KEYWORDS = {"additionalProperties", "patternProperties", "propertyNames"}
_SCHEMA_MAP_KEYWORDS = {"properties", "patternProperties", "dependentSchemas", "dependencies", "$defs", "definitions"}
_DEFINITION_KEYWORDS = {"$defs", "definitions", "contentSchema"}  # apply to nothing until a $ref points to them
_SUBSCHEMA_KEYWORDS = (
    _SAME_VALUE_KEYWORDS | _ITEM_KEYWORDS | _PROPERTY_KEYWORDS | _SCHEMA_MAP_KEYWORDS | _DEFINITION_KEYWORDS
)
_REFUSED_KEYWORDS = {
    "$anchor": "is not supported; refer to the subschema by its path",
    "$dynamicRef": "is not supported: its target is only known during validation",
    "$dynamicAnchor": "is not supported: its target is only known during validation",
    "$recursiveRef": "is not supported: its target is only known during validation",
    "$recursiveAnchor": "is not supported: its target is only known during validation",
    "unevaluatedProperties": "takes too long to check; use additionalProperties",
    "unevaluatedItems": "takes too long to check; use items",
}


class SchemaRefused(MainstayError):
    """The JSON Schema is invalid, unsupported, or too expensive to validate with."""


def check_schema_size(schema: object, bytes_max: int, depth_max: int) -> None:
    """Refuse a schema that is too large or too deep. Works level by level, so that a cyclic structure ends too."""
    if not isinstance(schema, dict):
        raise SchemaRefused("a schema must be a mapping")
    level: list[object] = [schema]
    nodes = 0
    for _ in range(depth_max):
        nodes += len(level)
        if nodes > bytes_max:  # every node takes at least one byte
            raise SchemaRefused(f"the schema is larger than {bytes_max} bytes")
        if any(is_huge_int(node) for node in level):
            raise SchemaRefused("a number in the schema is too long")
        level = [child for node in level for child in iter_children(node)]
        if not level:
            break
    else:
        raise SchemaRefused(f"the schema is nested deeper than {depth_max} levels")
    try:
        size = len(json.dumps(schema, allow_nan=False, ensure_ascii=False).encode())
    except (TypeError, ValueError):
        raise SchemaRefused("the schema contains a value that is not JSON") from None
    if size > bytes_max:
        raise SchemaRefused(f"the schema is larger than {bytes_max} bytes")


def iter_children(value: object) -> Iterator[object]:
    if isinstance(value, dict):
        yield from value.values()
    elif isinstance(value, list | tuple):
        yield from value


def detect_draft(schema: JsonObject) -> int:
    named = schema.get("$schema", "https://json-schema.org/draft/2020-12/schema")
    draft = _DRAFTS.get(named.rstrip("#")) if isinstance(named, str) else None
    if draft is None:
        raise SchemaRefused(f"'$schema' is not a supported version of JSON Schema: {shorten_text(repr(named), 80)}")
    if schema.get("type") != "object":
        raise SchemaRefused("the schema must be of type 'object'")
    return draft


class _Subschema:
    """A subschema: its own cost, and the subschemas that it applies to the same value or to the parts of the value.

    Subschemas are named by their JSON pointers: "#/properties/a". Strings and property names cost by their length.
    """

    __slots__ = (
        "any_property",
        "cost_per_name_char",
        "cost_per_text_char",
        "items",
        "own_cost",
        "properties",
        "property_names",
        "same_value",
    )

    def __init__(self) -> None:
        self.own_cost = 1
        self.cost_per_text_char = self.cost_per_name_char = 0
        self.same_value: list[str] = []
        self.items: list[str] = []
        self.properties: dict[str, str] = {}
        self.any_property: list[str] = []  # applied to every property
        self.property_names: list[str] = []


def index_subschemas(schema: JsonObject, *, is_draft4: bool) -> dict[str, _Subschema]:
    parts: dict[str, _Subschema] = {}
    refs: dict[str, str] = {}
    patterns_kb = 0
    pending: list[tuple[str, JsonValue]] = [("#", schema)]
    while pending:
        pointer, subschema = pending.pop()
        part = parts[pointer] = _Subschema()
        if not isinstance(subschema, dict):
            continue
        ref = _check_keywords(subschema, pointer, is_draft4)
        _set_costs(part, subschema, pointer)
        patterns_kb += part.cost_per_text_char + part.cost_per_name_char
        if patterns_kb > PATTERNS_KB_MAX:
            raise SchemaRefused("the patterns of the schema are too large together")
        if ref is not None:
            refs[pointer] = unquote(ref)
        for key in subschema.keys() & _SUBSCHEMA_KEYWORDS:
            for name, child_pointer, child in _iter_subschemas(
                key, subschema[key], f"{pointer}/{_escape_pointer(key)}"
            ):
                _link_subschema(part, key, name, child_pointer)
                pending.append((child_pointer, child))
    for pointer, ref in refs.items():
        if ref not in parts:
            raise SchemaRefused(
                f"'$ref' at {shorten_text(pointer, 80)} points to nothing in the schema: {shorten_text(ref, 80)}"
            )
        parts[pointer].same_value.append(ref)
    return parts


def _check_keywords(schema: JsonObject, pointer: str, is_draft4: bool) -> str | None:
    """Refuse keywords that cannot be supported. Returns the target of its `$ref`; None: it has none."""
    for key, why in _REFUSED_KEYWORDS.items():
        if key in schema:
            raise SchemaRefused(f"'{key}' {why}")
    if pointer != "#" and ("$id" in schema or (is_draft4 and isinstance(schema.get("id"), str))):
        raise SchemaRefused(f"'$id' at {shorten_text(pointer, 80)} would change what references mean")
    if "$ref" not in schema:
        return None
    ref = schema["$ref"]
    if not isinstance(ref, str) or not (ref == "#" or ref.startswith("#/")):
        raise SchemaRefused(
            f"'$ref' points outside of the schema, and nothing is fetched: {shorten_text(str(ref), 80)}"
        )
    return ref


def _set_costs(part: _Subschema, schema: JsonObject, pointer: str) -> None:
    part.own_cost += sum(len(str(schema[key])) // 8 for key in ("enum", "required", "const") if key in schema)
    part.own_cost += _MULTIPLE_OF_COST if "multipleOf" in schema else 0
    if isinstance(pattern := schema.get("pattern"), str):
        part.cost_per_text_char = _estimate_pattern_cost(pattern, pointer)
    if isinstance(by_pattern := schema.get("patternProperties"), dict):
        part.cost_per_name_char = sum(_estimate_pattern_cost(name_pattern, pointer) for name_pattern in by_pattern)


def _iter_subschemas(key: str, value: JsonValue, pointer: str) -> Iterator[tuple[str, str, JsonValue]]:
    """Yield the subschemas of a keyword: property name, JSON pointer, schema."""
    if key in _SCHEMA_MAP_KEYWORDS:
        for name, child in value.items() if isinstance(value, dict) else ():
            if isinstance(child, dict | bool):  # `dependencies` may contain lists of names
                yield name, f"{pointer}/{_escape_pointer(name)}", child
    elif isinstance(value, list):
        for number, child in enumerate(value):
            yield "", f"{pointer}/{number}", child
    else:
        yield "", pointer, value


def _link_subschema(part: _Subschema, key: str, name: str, pointer: str) -> None:
    if key in _SAME_VALUE_KEYWORDS:
        part.same_value.append(pointer)
    elif key in _ITEM_KEYWORDS:
        part.items.append(pointer)
    elif key == "properties":
        part.properties[name] = pointer
    elif key == "propertyNames":
        part.property_names.append(pointer)
    elif key not in _DEFINITION_KEYWORDS:
        part.any_property.append(pointer)


def _escape_pointer(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")


# --- patterns ------------------------------------------------------------------------------------


def require_jsonschema() -> None:
    """Raise ConfigError if jsonschema-rs is not installed."""
    try:
        import jsonschema_rs as jsonschema_rs  # slow to import: only once there is a schema
    except ImportError:
        raise ConfigError(
            "tools with a JSON Schema need jsonschema-rs: pip install -e '.[plugins]' or '.[mcp]'"
        ) from None


def _estimate_pattern_cost(pattern: str, pointer: str) -> int:
    """Estimate the cost per character of a text. The engine reads a text once, with as many states as the pattern has,
    and the memory that the compiled pattern needs is a bound for their number."""
    require_jsonschema()
    import jsonschema_rs

    for size in PATTERN_BYTES_STEPS:
        options = jsonschema_rs.RegexOptions(size_limit=size, dfa_size_limit=size)
        try:
            jsonschema_rs.Draft202012Validator({"pattern": pattern}, pattern_options=options, offline=True)
        except jsonschema_rs.ValidationError:
            continue
        return size // 1000
    raise SchemaRefused(f"the pattern at {shorten_text(pointer, 80)} cannot be matched in linear time")


# --- cost of a value -----------------------------------------------------------------------------

CostTable = dict[str, list[tuple[_Subschema, int]]]


class SchemaCostExceeded(Exception):
    pass


def build_cost_table(parts: dict[str, _Subschema]) -> CostTable:
    """Return, for each subschema, all those that apply to the same value as it does, and how often each is applied."""
    table: dict[str, Counter[str]] = {}
    entries = 0
    entered: set[str] = set()
    pending = [(pointer, False) for pointer in parts]
    while pending:
        pointer, ready = pending.pop()
        if pointer in table:
            continue
        if not ready:
            if pointer in entered:
                raise SchemaRefused(f"the schema refers to itself endlessly at {shorten_text(pointer, 80)}")
            entered.add(pointer)
            pending.append((pointer, True))
            pending += [(other, False) for other in parts[pointer].same_value if other not in table]
            continue
        table[pointer] = Counter({pointer: 1})
        for other in parts[pointer].same_value:
            table[pointer].update(table[other])
        entries += len(table[pointer])
        if entries > REFERENCES_MAX or table[pointer].total() > REFERENCES_MAX:
            raise SchemaRefused(f"the subschemas refer to each other in more than {REFERENCES_MAX} ways")
    return {pointer: [(parts[other], times) for other, times in counts.items()] for pointer, counts in table.items()}


class SchemaCostCounter:
    """Estimates the cost of validating a value. Gives up if the cost, or the estimation itself, is too much."""

    def __init__(self, cost_table: CostTable) -> None:
        self._cost_table = cost_table
        self._costs: dict[tuple[str, int], int] = {}
        self._steps = 0

    def count_cost(self, pointer: str, value: object) -> int:
        """Return the cost of validating the value against the subschema. Raises SchemaCostExceeded."""
        key = (pointer, id(value))
        if key not in self._costs:
            self._costs[key] = sum(
                times * self._subschema_cost(part, value) for part, times in self._cost_table[pointer]
            )
            if self._costs[key] > COST_MAX:
                raise SchemaCostExceeded
        return self._costs[key]

    def _subschema_cost(self, part: _Subschema, value: object) -> int:
        if isinstance(value, dict | list):
            self._steps += len(value) * (1 + len(part.items) + len(part.any_property) + len(part.property_names))
        self._steps += 1
        if self._steps > COUNTING_STEPS_MAX:
            raise SchemaCostExceeded
        total = part.own_cost
        if isinstance(value, str):
            total += part.cost_per_text_char * len(value)
        elif isinstance(value, list):
            total += sum(self.count_cost(child, item) for child in part.items for item in value)
        elif isinstance(value, dict):
            for name, item in value.items():
                total += part.cost_per_name_char * len(name)
                total += sum(self.count_cost(child, name) for child in part.property_names)
                total += sum(self.count_cost(child, item) for child in part.any_property)
                if name in part.properties:
                    total += self.count_cost(part.properties[name], item)
        return total


def is_huge_int(value: object) -> bool:
    """Return whether the value is an integer so large that arithmetic with it is slow."""
    return type(value) is int and value.bit_length() > INT_BITS_MAX


def shorten_text(text: str, chars_max: int = 300) -> str:
    line = one_line(text[: chars_max + 1])
    return line if len(line) <= chars_max else line[:chars_max] + "…"
