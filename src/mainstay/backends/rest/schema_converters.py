"""JSON Schemas of an OpenAPI description: formatted in one line for the model, or converted to validate values."""

from __future__ import annotations

import msgspec

from mainstay.backends.base import BackendRefused, clean_name
from mainstay.backends.rest.openapi import OpenApiDocument
from mainstay.core.json_types import JsonObject, JsonValue

DEPTH_MAX = 5
PARTS_MAX = 250  # types and fields in the line of one schema
FIELDS_MAX = 40
ENUM_VALUES_MAX = 12
DEFINITIONS_MAX = 100
NODES_MAX = 4_000

_TYPES = ("string", "integer", "number", "boolean", "array", "object", "null")


# --- formatting ----------------------------------------------------------------------------------


class SchemaFormatter:
    """Formats schemas as `{name: string, tags?: [string], state: "open" | "closed"}`, limited in depth and size, also
    if they refer to themselves."""

    def __init__(self, document: OpenApiDocument) -> None:
        self._document = document
        self._parts_left = 0
        self._open_references: list[str] = []

    def format_schema(self, schema: JsonValue) -> str:
        self._parts_left, self._open_references = PARTS_MAX, []
        return self._format_node(schema, 0)

    def _format_node(self, schema: JsonValue, depth: int) -> str:
        self._parts_left -= 1
        if not isinstance(schema, dict) or not schema:
            return "any"
        pointer = schema.get("$ref")
        if isinstance(pointer, str):
            return self._format_reference(pointer, depth)
        if self._parts_left < 0 or depth > DEPTH_MAX:
            return "…"
        null = " | null" if schema.get("nullable") is True else ""
        if isinstance(values := schema.get("enum"), list):
            return self._format_enum(values) + null
        if "const" in schema:
            return _format_value(schema["const"])
        for key, sign in (("oneOf", " | "), ("anyOf", " | "), ("allOf", " & ")):
            if isinstance(alternatives := schema.get(key), list) and alternatives:
                return self._format_alternatives(schema, alternatives, sign, depth) + null
        return self._format_type(schema, depth) + null

    def _format_reference(self, pointer: str, depth: int) -> str:
        name = clean_name(pointer.rsplit("/", 1)[-1], 60)
        if pointer in self._open_references or depth > DEPTH_MAX or self._parts_left < 0:
            return name
        self._open_references.append(pointer)
        try:
            return self._format_node(self._document.read_pointer(pointer), depth)
        except BackendRefused:
            return name
        finally:
            self._open_references.pop()

    def _format_enum(self, values: list[JsonValue]) -> str:
        text = " | ".join(_format_value(value) for value in values[:ENUM_VALUES_MAX])
        return text if len(values) <= ENUM_VALUES_MAX else f"{text} | … ({len(values) - ENUM_VALUES_MAX} more)"

    def _format_alternatives(
        self, schema: JsonObject, alternatives: list[JsonValue], separator: str, depth: int
    ) -> str:
        parts = [self._format_node(alternative, depth + 1) for alternative in alternatives[:6]]
        if isinstance(schema.get("properties"), dict):
            parts.insert(0, self._format_object(schema, depth))
        if len(alternatives) > 6:
            parts.append("…")
        unique = list(dict.fromkeys(parts))
        return unique[0] if len(unique) == 1 else f"({separator.join(unique)})"

    def _format_type(self, schema: JsonObject, depth: int) -> str:
        kinds = schema.get("type")
        if isinstance(kinds, list):
            return " | ".join(self._format_type({**schema, "type": kind}, depth) for kind in kinds[:7])
        if kinds == "array" or (kinds is None and "items" in schema):
            return f"[{self._format_node(schema.get('items'), depth + 1)}]"
        if kinds == "object" or (kinds is None and "properties" in schema):
            return self._format_object(schema, depth)
        kind = kinds if kinds in _TYPES else "any"
        bounds = [
            f"{sign}{_format_value(schema[key])}" for key, sign in (("minimum", "≥"), ("maximum", "≤")) if key in schema
        ]
        if isinstance(format_name := schema.get("format"), str):
            bounds.insert(0, clean_name(format_name, 20))
        if "default" in schema and not isinstance(schema["default"], dict | list):
            bounds.append(f"default {_format_value(schema['default'])}")
        return f"{kind}({', '.join(bounds)})" if bounds else str(kind)

    def _format_object(self, schema: JsonObject, depth: int) -> str:
        properties = schema.get("properties")
        all_fields = properties if isinstance(properties, dict) else {}
        fields = {name: field for name, field in all_fields.items() if not _is_read_only(field)}
        listed = schema.get("required")
        required = {field for field in listed if isinstance(field, str)} if isinstance(listed, list) else set()
        parts = []
        for name, field in sorted(fields.items(), key=lambda item: item[0] not in required)[:FIELDS_MAX]:
            if self._parts_left < 0:
                break
            parts.append(
                f"{clean_name(name, 60)}{'' if name in required else '?'}: {self._format_node(field, depth + 1)}"
            )
        if len(parts) < len(fields):
            parts.append(f"… {len(fields) - len(parts)} more")
        more = schema.get("additionalProperties")
        if isinstance(more, dict) and more:
            parts.append(f"[any]: {self._format_node(more, depth + 1)}")
        return "{" + ", ".join(parts) + "}" if parts else "object"


def _format_value(value: JsonValue) -> str:
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= 60 else f"{text[:59]}…"


# --- validation ----------------------------------------------------------------------------------

_COPIED_KEYWORDS = (
    *("enum", "const", "minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"),
    *("uniqueItems", "multipleOf", "pattern", "required"),
)


class SchemaTooLarge(Exception):
    """The schema exceeds the limits of validation."""


class JsonSchemaBuilder:
    """Builds the self-contained JSON Schema of a node: references become definitions, annotations are dropped.

    It is lenient where descriptions are often wrong: `oneOf` becomes `anyOf`, and read-only fields are not required.
    """

    def __init__(self, document: OpenApiDocument, *, include_patterns: bool = True) -> None:
        self._document = document
        self._include_patterns = include_patterns
        self._definition_names: dict[str, str] = {}
        self._pending_references: list[str] = []
        self._node_count = 0

    def build_object_schema(self, fields: JsonObject, required: list[str]) -> JsonObject:
        """Build the schema of an object with these fields. Raises SchemaTooLarge, or BackendRefused for a broken
        reference."""
        properties = {name: self._convert_node(schema, 0) for name, schema in fields.items()}
        result: JsonObject = {"type": "object", "required": [*required], "properties": properties}
        definitions: JsonObject = {}
        while self._pending_references:
            pointer = self._pending_references.pop()
            definitions[self._definition_names[pointer]] = self._convert_node(self._document.read_pointer(pointer), 0)
        if definitions:
            result["$defs"] = definitions
        return result

    def _convert_node(self, schema: JsonValue, depth: int) -> JsonValue:
        self._node_count += 1
        if self._node_count > NODES_MAX or depth > 40:
            raise SchemaTooLarge
        if not isinstance(schema, dict):
            return schema is not False
        if isinstance(pointer := schema.get("$ref"), str):
            return {"$ref": f"#/$defs/{self._define_reference(pointer)}"}
        result: JsonObject = {key: schema[key] for key in _COPIED_KEYWORDS if key in schema}
        if not self._include_patterns:
            result.pop("pattern", None)
        types = schema.get("type")
        if types in _TYPES or (isinstance(types, list) and all(name in _TYPES for name in types)):
            result["type"] = types
        self._convert_bounds(schema, result)
        self._convert_children(schema, result, depth + 1)
        return {"anyOf": [result, {"type": "null"}]} if schema.get("nullable") is True else result

    def _convert_bounds(self, schema: JsonObject, result: JsonObject) -> None:
        """Convert exclusive bounds: OpenAPI 3.0 has flags, later versions have numbers."""
        for key, flag in (("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")):
            if schema.get(flag) is True and key in schema:
                result[flag] = schema[key]
            else:
                result.update({name: schema[name] for name in (key, flag) if _is_number(schema.get(name))})

    def _convert_children(self, schema: JsonObject, result: JsonObject, depth: int) -> None:
        properties = schema.get("properties")
        if isinstance(properties, dict):
            result["properties"] = {name: self._convert_node(child, depth) for name, child in properties.items()}
        required = result.pop("required", None)
        if isinstance(required, list):
            fields = properties if isinstance(properties, dict) else {}
            result["required"] = [
                name for name in required if isinstance(name, str) and not _is_read_only(fields.get(name))
            ]
        for key in ("items", "not"):
            if isinstance(schema.get(key), dict):
                result[key] = self._convert_node(schema[key], depth)
        if isinstance(schema.get("additionalProperties"), dict | bool):
            result["additionalProperties"] = self._convert_node(schema["additionalProperties"], depth)
        conditions: list[JsonValue] = []
        for key, as_key in (("allOf", "allOf"), ("anyOf", "anyOf"), ("oneOf", "anyOf")):
            if isinstance(alternatives := schema.get(key), list) and alternatives:
                conditions.append({as_key: [self._convert_node(child, depth) for child in alternatives]})
        if conditions:
            result["allOf"] = conditions

    def _define_reference(self, pointer: str) -> str:
        if pointer not in self._definition_names:
            if len(self._definition_names) >= DEFINITIONS_MAX:
                raise SchemaTooLarge
            self._definition_names[pointer] = f"d{len(self._definition_names)}"
            self._pending_references.append(pointer)
        return self._definition_names[pointer]


def _is_number(value: JsonValue) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_read_only(schema: JsonValue) -> bool:
    return isinstance(schema, dict) and schema.get("readOnly") is True
