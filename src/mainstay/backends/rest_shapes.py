"""Schemas of an API: in a line for the model to read, and as plain JSON Schema to check its values by."""

from __future__ import annotations

from typing import Any

import msgspec

from mainstay.backends.common import BackendRefused, clean_name
from mainstay.backends.openapi import Description

DEPTH_MAX = 5
PARTS_MAX = 250  # types and fields that one schema is shown with
FIELDS_MAX = 40
CHOICES_MAX = 12
DEFINITIONS_MAX = 100
NODES_MAX = 4_000

_TYPES = ("string", "integer", "number", "boolean", "array", "object", "null")


# --- to be read ----------------------------------------------------------------------------------


class Shapes:
    """`{name: string, tags?: [string], state: "open" | "closed"}`: bounded, whatever refers to what."""

    def __init__(self, description: Description) -> None:
        self._description = description
        self._left = 0
        self._inside: list[str] = []

    def line(self, schema: Any) -> str:
        self._left, self._inside = PARTS_MAX, []
        return self._shown(schema, 0)

    def _shown(self, schema: Any, depth: int) -> str:
        self._left -= 1
        if not isinstance(schema, dict) or not schema:
            return "any"
        pointer = schema.get("$ref")
        if isinstance(pointer, str):
            return self._referred(pointer, depth)
        if self._left < 0 or depth > DEPTH_MAX:
            return "…"
        null = " | null" if schema.get("nullable") is True else ""
        if isinstance(schema.get("enum"), list):
            return self._choices(schema["enum"]) + null
        if "const" in schema:
            return _value(schema["const"])
        for key, sign in (("oneOf", " | "), ("anyOf", " | "), ("allOf", " & ")):
            if isinstance(schema.get(key), list) and schema[key]:
                return self._several(schema, key, sign, depth) + null
        return self._plain(schema, depth) + null

    def _referred(self, pointer: str, depth: int) -> str:
        name = clean_name(pointer.rsplit("/", 1)[-1], 60)
        if pointer in self._inside or depth > DEPTH_MAX or self._left < 0:
            return name
        self._inside.append(pointer)
        try:
            return self._shown(self._description.at(pointer), depth)
        except BackendRefused:
            return name
        finally:
            self._inside.pop()

    def _choices(self, values: list[Any]) -> str:
        shown = " | ".join(_value(one) for one in values[:CHOICES_MAX])
        return shown if len(values) <= CHOICES_MAX else f"{shown} | … ({len(values) - CHOICES_MAX} more)"

    def _several(self, schema: dict[str, Any], key: str, sign: str, depth: int) -> str:
        parts = [self._shown(one, depth + 1) for one in schema[key][:6]]
        if isinstance(schema.get("properties"), dict):
            parts.insert(0, self._object(schema, depth))
        if len(schema[key]) > 6:
            parts.append("…")
        unique = list(dict.fromkeys(parts))
        return unique[0] if len(unique) == 1 else f"({sign.join(unique)})"

    def _plain(self, schema: dict[str, Any], depth: int) -> str:
        kinds = schema.get("type")
        if isinstance(kinds, list):
            return " | ".join(self._plain({**schema, "type": kind}, depth) for kind in kinds[:7])
        if kinds == "array" or (kinds is None and "items" in schema):
            return f"[{self._shown(schema.get('items'), depth + 1)}]"
        if kinds == "object" or (kinds is None and "properties" in schema):
            return self._object(schema, depth)
        kind = kinds if kinds in _TYPES else "any"
        bounds = [f"{sign}{_value(schema[key])}" for key, sign in (("minimum", "≥"), ("maximum", "≤")) if key in schema]
        if isinstance(schema.get("format"), str):
            bounds.insert(0, clean_name(schema["format"], 20))
        if "default" in schema and not isinstance(schema["default"], dict | list):
            bounds.append(f"default {_value(schema['default'])}")
        return f"{kind}({', '.join(bounds)})" if bounds else str(kind)

    def _object(self, schema: dict[str, Any], depth: int) -> str:
        properties = schema.get("properties")
        every = properties if isinstance(properties, dict) else {}
        fields = {name: one for name, one in every.items() if not _only_answered(one)}
        listed = schema.get("required")
        required = {one for one in listed if isinstance(one, str)} if isinstance(listed, list) else set()
        parts = []
        for name, one in sorted(fields.items(), key=lambda item: item[0] not in required)[:FIELDS_MAX]:
            if self._left < 0:
                break
            parts.append(f"{clean_name(name, 60)}{'' if name in required else '?'}: {self._shown(one, depth + 1)}")
        if len(parts) < len(fields):
            parts.append(f"… {len(fields) - len(parts)} more")
        more = schema.get("additionalProperties")
        if isinstance(more, dict) and more:
            parts.append(f"[any]: {self._shown(more, depth + 1)}")
        return "{" + ", ".join(parts) + "}" if parts else "object"


def _value(value: Any) -> str:
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= 60 else f"{text[:59]}…"


# --- to be checked by ----------------------------------------------------------------------------

_SAME = (
    *("enum", "const", "minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"),
    *("uniqueItems", "multipleOf", "pattern", "required"),
)


class TooMuch(Exception):
    """It is larger than what values are checked by."""


class Plain:
    """The JSON Schema of a node with all that it refers to inside, without what only describes.

    Where descriptions are often wrong it is lenient: of `oneOf` any will do, and what only answers have is not needed.
    """

    def __init__(self, description: Description, *, patterns: bool = True) -> None:
        self._description = description
        self._patterns = patterns
        self._names: dict[str, str] = {}
        self._waiting: list[str] = []
        self._nodes = 0

    def of(self, fields: dict[str, Any], required: list[str]) -> dict[str, Any]:
        """An object of these. Raises TooMuch, or BackendRefused where a reference leads nowhere."""
        made: dict[str, Any] = {"type": "object", "required": required}
        made["properties"] = {name: self._node(schema, 0) for name, schema in fields.items()}
        definitions: dict[str, Any] = {}
        while self._waiting:
            pointer = self._waiting.pop()
            definitions[self._names[pointer]] = self._node(self._description.at(pointer), 0)
        if definitions:
            made["$defs"] = definitions
        return made

    def _node(self, schema: Any, depth: int) -> Any:
        self._nodes += 1
        if self._nodes > NODES_MAX or depth > 40:
            raise TooMuch
        if not isinstance(schema, dict):
            return schema is not False
        if isinstance(schema.get("$ref"), str):
            return {"$ref": f"#/$defs/{self._name(schema['$ref'])}"}
        made: dict[str, Any] = {key: schema[key] for key in _SAME if key in schema}
        if not self._patterns:
            made.pop("pattern", None)
        kinds = schema.get("type")
        if kinds in _TYPES or (isinstance(kinds, list) and all(one in _TYPES for one in kinds)):
            made["type"] = kinds
        self._bounds(schema, made)
        self._inner(schema, made, depth + 1)
        return {"anyOf": [made, {"type": "null"}]} if schema.get("nullable") is True else made

    def _bounds(self, schema: dict[str, Any], made: dict[str, Any]) -> None:
        """OpenAPI 3.0 says with a flag what later ones say with a number."""
        for key, flag in (("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")):
            if schema.get(flag) is True and key in schema:
                made[flag] = schema[key]
            else:
                made.update({name: schema[name] for name in (key, flag) if _is_number(schema.get(name))})

    def _inner(self, schema: dict[str, Any], made: dict[str, Any], depth: int) -> None:
        properties = schema.get("properties")
        if isinstance(properties, dict):
            made["properties"] = {name: self._node(one, depth) for name, one in properties.items()}
        listed = made.pop("required", None)
        if isinstance(listed, list):
            known = properties if isinstance(properties, dict) else {}
            made["required"] = [
                name for name in listed if isinstance(name, str) and not _only_answered(known.get(name))
            ]
        for key in ("items", "not"):
            if isinstance(schema.get(key), dict):
                made[key] = self._node(schema[key], depth)
        if isinstance(schema.get("additionalProperties"), dict | bool):
            made["additionalProperties"] = self._node(schema["additionalProperties"], depth)
        for key, as_key in (("allOf", "allOf"), ("anyOf", "anyOf"), ("oneOf", "anyOf")):
            if isinstance(schema.get(key), list) and schema[key]:
                several = [self._node(one, depth) for one in schema[key]]
                made.setdefault("allOf", []).append({as_key: several})

    def _name(self, pointer: str) -> str:
        if pointer not in self._names:
            if len(self._names) >= DEFINITIONS_MAX:
                raise TooMuch
            self._names[pointer] = f"d{len(self._names)}"
            self._waiting.append(pointer)
        return self._names[pointer]


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _only_answered(schema: Any) -> bool:
    return isinstance(schema, dict) and schema.get("readOnly") is True
