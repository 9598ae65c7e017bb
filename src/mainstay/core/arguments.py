"""From a struct to what a tool tells a model about its arguments, and from what the model wrote to the struct."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeVar, get_args, get_origin

import msgspec

from mainstay.core.tools import BadArguments

T = TypeVar("T", bound=msgspec.Struct)

_KINDS: dict[Any, dict[str, Any]] = {
    str: {"type": "string"},
    int: {"type": "integer"},
    float: {"type": "number"},
    bool: {"type": "boolean"},
    list[str]: {"type": "array", "items": {"type": "string"}},
    tuple[str, ...]: {"type": "array", "items": {"type": "string"}},
    dict[str, Any]: {"type": "object"},
    Any: {},
    dict[str, str]: {"type": "object", "additionalProperties": {"type": "string"}},
}


def schema_of(arguments: type[msgspec.Struct]) -> dict[str, Any]:
    """The JSON Schema of a struct, without what costs tokens and tells a model nothing."""
    fields = msgspec.structs.fields(arguments)
    properties = {one.encode_name: _kind(one.type) for one in fields}
    required = [one.encode_name for one in fields if one.required]
    return {"type": "object", "properties": properties, **({"required": required} if required else {})}


def _kind(kind: Any) -> dict[str, Any]:
    """An argument that may be left out is simply not required: nobody needs to be told that it may be null."""
    if kind in _KINDS:
        return _KINDS[kind]
    if get_origin(kind) is Annotated:
        inner, *notes = get_args(kind)
        said = next((one.description for one in notes if isinstance(one, msgspec.Meta) and one.description), None)
        return {**_kind(inner), **({"description": said} if said else {})}
    if get_origin(kind) is Literal:
        return {"type": "string", "enum": list(get_args(kind))}
    options = [one for one in get_args(kind) if one is not type(None)]
    return _kind(options[0])


def read_arguments(input: str, arguments: type[T], schema: dict[str, Any]) -> T:
    """Raises BadArguments. "5" for 5 is no reason to refuse."""
    try:
        return msgspec.json.decode(input or "{}", type=arguments, strict=False)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        names = ", ".join(schema["properties"]) or "none"
        raise BadArguments(
            f"The arguments do not fit: {error}. Expected parameters: {names}. Nothing was run."
        ) from None
