"""JSON Schema for a tool's argument struct, and decoding of the model's arguments into it."""

from __future__ import annotations

from typing import Annotated, Literal, TypeVar, get_args, get_origin

import msgspec

from mainstay.core.json_types import JsonObject, JsonValue
from mainstay.core.surrogates import describe_json_error
from mainstay.core.tools import BadArguments, parameter_names

ArgumentsT = TypeVar("ArgumentsT", bound=msgspec.Struct)

_TYPE_SCHEMAS: dict[object, JsonObject] = {
    str: {"type": "string"},
    int: {"type": "integer"},
    float: {"type": "number"},
    bool: {"type": "boolean"},
    list[str]: {"type": "array", "items": {"type": "string"}},
    tuple[str, ...]: {"type": "array", "items": {"type": "string"}},
    JsonObject: {"type": "object"},
    JsonValue: {},
    dict[str, str]: {"type": "object", "additionalProperties": {"type": "string"}},
}


def build_schema(arguments: type[msgspec.Struct]) -> JsonObject:
    """Return a struct's JSON Schema without the parts that only cost tokens (titles, references, defaults)."""
    fields = msgspec.structs.fields(arguments)
    properties: JsonObject = {field.encode_name: _type_schema(field.type) for field in fields}
    required: list[JsonValue] = [field.encode_name for field in fields if field.required]
    return {"type": "object", "properties": properties, **({"required": required} if required else {})}


def _type_schema(annotation: object) -> JsonObject:
    """Return the schema of one type. An optional argument is just not required; that it may be null is left out."""
    if annotation in _TYPE_SCHEMAS:
        return _TYPE_SCHEMAS[annotation]
    if get_origin(annotation) is Annotated:
        inner, *notes = get_args(annotation)
        metas = (note for note in notes if isinstance(note, msgspec.Meta))
        description = next((meta.description for meta in metas if meta.description), None)
        return {**_type_schema(inner), **({"description": description} if description else {})}
    if get_origin(annotation) is Literal:
        return {"type": "string", "enum": list(get_args(annotation))}
    options = [option for option in get_args(annotation) if option is not type(None)]
    return _type_schema(options[0])


def parse_arguments(input: str, arguments: type[ArgumentsT], schema: JsonObject) -> ArgumentsT:
    """Decode the model's JSON; raises BadArguments. Lax about types: "5" is accepted for 5."""
    try:
        return msgspec.json.decode(input or "{}", type=arguments, strict=False)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        names = ", ".join(parameter_names(schema)) or "none"
        problem = describe_json_error(input.encode(errors="replace"), error)
        raise BadArguments(
            f"The arguments do not fit: {problem}. Expected parameters: {names}. Nothing was run."
        ) from None
