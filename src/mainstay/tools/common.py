"""What the built-in tools share: arguments from a struct, a schema of few words, and where files may be."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, ClassVar, Literal, get_args, get_origin

import msgspec

from mainstay.core.errors import MainstayError
from mainstay.core.outside import Grounds, Labels
from mainstay.core.ports import Effect, ToolContext
from mainstay.core.tools import BadArguments


class ToolRefused(MainstayError):
    """What was asked for cannot be done, in a sentence for the model. Nothing was changed."""


class Arguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Base of the arguments of a built-in tool: its fields are the parameters, those with a default may be left out.

    `class _Read(Arguments, frozen=True)`: mypy wants the word again."""


class BuiltIn:
    """Base of the built-in tools. A subclass declares itself in class attributes and has `run`; one whose effect is
    `reconcile` has `reconcile`, and one that reaches differently far from call to call has
    `reach(arguments, context) -> Reach`."""

    name: str
    description: str
    arguments: ClassVar[type[msgspec.Struct]]
    schema: dict[str, Any]
    effect: Effect = "pure"
    timeout_s: float | None = None
    untrusted: bool = False
    sink: bool | tuple[str, ...] = False
    capabilities: tuple[str, ...] = ()

    def __init_subclass__(cls) -> None:
        if hasattr(cls, "arguments"):
            cls.schema = schema_of(cls.arguments)

    def parse(self, input: str) -> Any:
        try:  # "5" for 5 is no reason to refuse
            return msgspec.json.decode(input or "{}", type=self.arguments, strict=False)
        except (msgspec.DecodeError, ValueError, RecursionError) as error:
            names = ", ".join(self.schema["properties"]) or "none"
            raise BadArguments(
                f"The arguments do not fit: {error}. Expected parameters: {names}. Nothing was run."
            ) from None

    async def run(self, arguments: Any, context: ToolContext) -> str:
        raise NotImplementedError

    async def reconcile(self, arguments: Any, context: ToolContext) -> str | None:
        return None  # may simply be run again


class Files:
    """Where each session may work, and what is known of the files there."""

    __slots__ = ("grounds", "judged", "labels")

    def __init__(self, grounds: Callable[[str], Grounds], labels: Labels) -> None:
        self.grounds = grounds  # by session key
        self.labels = labels
        self.judged: dict[str, bool] = {}  # by call: whether it was a sink when it was asked about


# --- schemas -------------------------------------------------------------------------------------

_KINDS: dict[Any, dict[str, Any]] = {
    str: {"type": "string"},
    int: {"type": "integer"},
    float: {"type": "number"},
    bool: {"type": "boolean"},
    list[str]: {"type": "array", "items": {"type": "string"}},
    tuple[str, ...]: {"type": "array", "items": {"type": "string"}},
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
