"""What a JSON Schema of somebody else's asks, and how much of it: looked through before it is used.

What cannot be foreseen is refused: references out of the schema, parts that lead to themselves, patterns for which no
engine with linear time exists.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any
from urllib.parse import unquote

from mainstay.core.errors import ConfigError, MainstayError
from mainstay.trust.guards.lines import one_line

BYTES_MAX = 64 * 1024
DEPTH_MAX = 40
INT_BITS_MAX = 256
ENTRIES_MAX = 20_000  # ways from one part of a schema to another that is about the same value
WORK_MAX = 5_000_000  # questions to a value and all that is in it
STEPS_MAX = 300_000  # of counting them
PATTERN_SIZES = (4 * 1024, 16 * 1024, 64 * 1024, 256 * 1024, 1024 * 1024)  # in bytes, compiled
_STEP_COST = 300  # of dividing very large numbers by very small ones, exactly
ROOM_MAX = 8 * 1024  # for all patterns of a schema, in kilobytes

_DRAFTS = {
    "http://json-schema.org/draft-04/schema": 4,
    "http://json-schema.org/draft-06/schema": 6,
    "http://json-schema.org/draft-07/schema": 7,
    "http://json-schema.org/schema": 7,
    "https://json-schema.org/draft-07/schema": 7,
    "https://json-schema.org/draft/2019-09/schema": 2019,
    "https://json-schema.org/draft/2020-12/schema": 2020,
}
# Where schemas are found in a schema. Those of the first kind are about the same value, the others about its parts.
_SAME = {"allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas", "dependencies"}
_ITEMS = {"items", "prefixItems", "additionalItems", "contains"}
_FIELDS = {"additionalProperties", "patternProperties", "propertyNames"}
_NAMED = {"properties", "patternProperties", "dependentSchemas", "dependencies", "$defs", "definitions"}
_APART = {"$defs", "definitions", "contentSchema"}  # about nothing until something refers to them
_HOLDERS = _SAME | _ITEMS | _FIELDS | _NAMED | _APART
_REFUSED = {
    "$anchor": "names a part; refer to it by its place",
    "$dynamicRef": "refers to what is not known beforehand",
    "$dynamicAnchor": "refers to what is not known beforehand",
    "$recursiveRef": "refers to what is not known beforehand",
    "$recursiveAnchor": "refers to what is not known beforehand",
    "unevaluatedProperties": "takes too long to check; use additionalProperties",
    "unevaluatedItems": "takes too long to check; use items",
}


class SchemaRefused(MainstayError):
    """This JSON Schema is not one that we check values with."""


def refuse_size(schema: Any, bytes_max: int, depth_max: int) -> None:
    """Step by step, so that nothing is walked into that has no end."""
    if not isinstance(schema, dict):
        raise SchemaRefused("a schema must be a mapping")
    level: list[Any] = [schema]
    nodes = 0
    for _ in range(depth_max):
        nodes += len(level)
        if nodes > bytes_max:  # no part of it is shorter than a byte
            raise SchemaRefused(f"the schema is larger than {bytes_max} bytes")
        if any(is_endless(one) for one in level):
            raise SchemaRefused("a number in the schema is too long")
        level = [one for value in level for one in inner_of(value)]
        if not level:
            break
    else:
        raise SchemaRefused(f"the schema is nested deeper than {depth_max} levels")
    try:
        size = len(json.dumps(schema, allow_nan=False, ensure_ascii=False).encode())
    except (TypeError, ValueError):
        raise SchemaRefused("the schema holds something that is not JSON") from None
    if size > bytes_max:
        raise SchemaRefused(f"the schema is larger than {bytes_max} bytes")


def inner_of(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        yield from value.values()
    elif isinstance(value, list | tuple):
        yield from value


def draft_of(schema: dict[str, Any]) -> int:
    named = schema.get("$schema", "https://json-schema.org/draft/2020-12/schema")
    draft = _DRAFTS.get(named.rstrip("#")) if isinstance(named, str) else None
    if draft is None:
        raise SchemaRefused(f"'$schema' names no version of JSON Schema: {brief(repr(named), 80)}")
    if schema.get("type") != "object":
        raise SchemaRefused("the schema must be of type 'object'")
    return draft


class _Part:
    """One schema inside of a schema: how much it asks of a value, and which others it asks, of it or of its parts.

    Others are named by their places: "#/properties/a". Texts and names cost by their length.
    """

    __slots__ = ("anyone", "items", "named", "names", "own", "per_name_char", "per_text_char", "same")

    def __init__(self) -> None:
        self.own = 1
        self.per_text_char = self.per_name_char = 0
        self.same: list[str] = []
        self.items: list[str] = []
        self.named: dict[str, str] = {}
        self.anyone: list[str] = []  # of a field of any name
        self.names: list[str] = []


def parts_of(schema: dict[str, Any], *, old: bool) -> dict[str, _Part]:
    parts: dict[str, _Part] = {}
    refs: dict[str, str] = {}
    room = 0
    todo: list[tuple[str, Any]] = [("#", schema)]
    while todo:
        place, one = todo.pop()
        part = parts[place] = _Part()
        if not isinstance(one, dict):
            continue
        _refuse_keywords(one, place, old)
        _weigh(part, one, place)
        room += part.per_text_char + part.per_name_char
        if room > ROOM_MAX:
            raise SchemaRefused("the patterns of the schema are too large together")
        if "$ref" in one:
            refs[place] = unquote(one["$ref"])
        for key in one.keys() & _HOLDERS:
            for name, at, inner in _schemas_in(key, one[key], f"{place}/{_pointer(key)}"):
                _join(part, key, name, at)
                todo.append((at, inner))
    for place, ref in refs.items():
        if ref not in parts:
            raise SchemaRefused(f"'$ref' at {brief(place, 80)} leads to no part of the schema: {brief(ref, 80)}")
        parts[place].same.append(ref)
    return parts


def _refuse_keywords(one: dict[str, Any], place: str, old: bool) -> None:
    for key, why in _REFUSED.items():
        if key in one:
            raise SchemaRefused(f"'{key}' {why}")
    if place != "#" and ("$id" in one or (old and isinstance(one.get("id"), str))):
        raise SchemaRefused(f"'$id' at {brief(place, 80)} would change what references mean")
    ref = one.get("$ref", "#")
    if not isinstance(ref, str) or not (ref == "#" or ref.startswith("#/")):
        raise SchemaRefused(f"'$ref' leads out of the schema, and nothing is fetched: {brief(str(ref), 80)}")


def _weigh(part: _Part, one: dict[str, Any], place: str) -> None:
    part.own += sum(len(str(one[key])) // 8 for key in ("enum", "required", "const") if key in one)
    part.own += _STEP_COST if "multipleOf" in one else 0
    if isinstance(one.get("pattern"), str):
        part.per_text_char = _cost_of_pattern(one["pattern"], place)
    if isinstance(one.get("patternProperties"), dict):
        part.per_name_char = sum(_cost_of_pattern(pattern, place) for pattern in one["patternProperties"])


def _schemas_in(key: str, value: Any, place: str) -> Iterator[tuple[str, str, Any]]:
    """The schemas that a keyword holds: name, place, schema."""
    if key in _NAMED:
        for name, inner in value.items() if isinstance(value, dict) else ():
            if isinstance(inner, dict | bool):  # `dependencies` may hold lists of names
                yield name, f"{place}/{_pointer(name)}", inner
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            yield "", f"{place}/{number}", inner
    else:
        yield "", place, value


def _join(part: _Part, key: str, name: str, place: str) -> None:
    if key in _SAME:
        part.same.append(place)
    elif key in _ITEMS:
        part.items.append(place)
    elif key == "properties":
        part.named[name] = place
    elif key == "propertyNames":
        part.names.append(place)
    elif key not in _APART:
        part.anyone.append(place)


def _pointer(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")


# --- patterns ------------------------------------------------------------------------------------


def library() -> Any:
    try:
        import jsonschema_rs  # heavy: only once there is a schema
    except ImportError:
        raise ConfigError(
            "tools with a JSON Schema need jsonschema-rs: pip install -e '.[plugins]' or '.[mcp]'"
        ) from None
    return jsonschema_rs


def _cost_of_pattern(pattern: str, place: str) -> int:
    """For each character of a text. The engine goes through a text once, with as many states as the pattern has, and
    how many those can be is known by how much room it needs."""
    known = library()
    for size in PATTERN_SIZES:
        options = known.RegexOptions(size_limit=size, dfa_size_limit=size)
        try:
            known.Draft202012Validator({"pattern": pattern}, pattern_options=options, offline=True)
        except known.ValidationError:
            continue
        return size // 1000
    raise SchemaRefused(f"the pattern at {brief(place, 80)} is not one that is matched in linear time")


# --- how much work a value is --------------------------------------------------------------------

About = dict[str, list[tuple[_Part, int]]]


class TooMuch(Exception):
    pass


def about_same(parts: dict[str, _Part]) -> About:
    """For each part all those that are about the same value as it is, and how often each would be asked."""
    made: dict[str, Counter[str]] = {}
    entries = 0
    entered: set[str] = set()
    todo = [(place, False) for place in parts]
    while todo:
        place, ready = todo.pop()
        if place in made:
            continue
        if not ready:
            if place in entered:
                raise SchemaRefused(f"the schema refers to itself without an end at {brief(place, 80)}")
            entered.add(place)
            todo.append((place, True))
            todo += [(one, False) for one in parts[place].same if one not in made]
            continue
        made[place] = Counter({place: 1})
        for one in parts[place].same:
            made[place].update(made[one])
        entries += len(made[place])
        if entries > ENTRIES_MAX or made[place].total() > ENTRIES_MAX:
            raise SchemaRefused(f"the parts of the schema lead to each other in more than {ENTRIES_MAX} ways")
    return {place: [(parts[one], times) for one, times in about.items()] for place, about in made.items()}


class Work:
    """Counts how much would be asked of a value, and gives up when that is too much, or itself too much work."""

    def __init__(self, about: About) -> None:
        self._about = about
        self._known: dict[tuple[str, int], int] = {}
        self._steps = 0

    def count(self, place: str, value: Any) -> int:
        """Raises TooMuch."""
        key = (place, id(value))
        if key not in self._known:
            self._known[key] = sum(times * self._asked(part, value) for part, times in self._about[place])
            if self._known[key] > WORK_MAX:
                raise TooMuch
        return self._known[key]

    def _asked(self, part: _Part, value: Any) -> int:
        if isinstance(value, dict | list):
            self._steps += len(value) * (1 + len(part.items) + len(part.anyone) + len(part.names))
        self._steps += 1
        if self._steps > STEPS_MAX:
            raise TooMuch
        total = part.own
        if isinstance(value, str):
            total += part.per_text_char * len(value)
        elif isinstance(value, list):
            total += sum(self.count(inner, item) for inner in part.items for item in value)
        elif isinstance(value, dict):
            for name, item in value.items():
                total += part.per_name_char * len(name)
                total += sum(self.count(inner, name) for inner in part.names)
                total += sum(self.count(inner, item) for inner in part.anyone)
                if name in part.named:
                    total += self.count(part.named[name], item)
        return total


def is_endless(value: Any) -> bool:
    """Arithmetic takes its time with such."""
    return type(value) is int and value.bit_length() > INT_BITS_MAX


def brief(text: str, most: int = 300) -> str:
    line = one_line(text[: most + 1])
    return line if len(line) <= most else line[:most] + "…"
