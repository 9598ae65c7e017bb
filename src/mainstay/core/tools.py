"""Python functions as tools: the schema comes from the type hints and the docstring."""

from __future__ import annotations

import inspect
import json
import re
import typing
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, Protocol, overload

import msgspec

from mainstay.core.errors import ToolDefinitionError
from mainstay.core.ports import Effect, ToolContext
from mainstay.core.workers import in_thread

EFFECTS = typing.get_args(Effect)
_NAME = re.compile(r"[a-zA-Z][a-zA-Z0-9_-]{0,63}")
_encode = msgspec.json.Encoder(enc_hook=lambda value: _plain(value), order="deterministic").encode


class BadArguments(Exception):
    """The arguments do not fit; the text is written for the model."""


class FunctionTool:
    """A function with what the runtime must know about it. Calling it calls the function."""

    def __init__(
        self,
        function: Callable[..., Any],
        *,
        name: str | None = None,
        description: str | None = None,
        effect: Effect = "unsafe",
        timeout_s: float | None = None,
        untrusted: bool = False,
        sink: bool | Sequence[str] = False,
        capabilities: Sequence[str] = (),
        reconcile: Callable[..., Any] | None = None,
    ) -> None:
        self.function = function
        self.name = name or function.__name__
        if not _NAME.fullmatch(self.name):
            raise ToolDefinitionError(f"{self.name!r} is not a tool name: letters, digits, _ and -, at most 64")
        if effect not in EFFECTS:
            raise ToolDefinitionError(f"tool {self.name}: effect={effect!r} is none of {', '.join(EFFECTS)}")
        if timeout_s is not None and not (isinstance(timeout_s, int | float) and timeout_s > 0):
            raise ToolDefinitionError(f"tool {self.name}: timeout_s={timeout_s!r} is not a number of seconds above 0")
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function) or inspect.isclass(function):
            raise ToolDefinitionError(f"tool {self.name} must be a function that returns its result")
        if effect == "reconcile" and reconcile is None:
            raise ToolDefinitionError(f"tool {self.name}: effect 'reconcile' needs reconcile=, which finds out")
        self.effect: Effect = "reconcile" if reconcile is not None else effect
        self.timeout_s = timeout_s
        self.untrusted = untrusted
        self.sink = sink if isinstance(sink, bool) else tuple(sink)
        self.capabilities = tuple(capabilities)
        self._reconcile = reconcile
        self._is_async = inspect.iscoroutinefunction(function)
        summary, about = _read_docstring(function)
        self.description = description or summary
        self._arguments, self._context_name = _argument_struct(self.name, function, about)
        self._decode = msgspec.json.Decoder(self._arguments, dec_hook=_rich).decode
        self.schema = _schema_of(self._arguments)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<tool {self.name}, {self.effect}>"

    def parse(self, input: str) -> dict[str, Any]:
        """JSON text to keyword arguments, strictly: no NaN, no repeated keys, nothing extra."""
        try:
            arguments = self._decode(input or "{}")
            _strict(input or "{}")
        except (msgspec.DecodeError, ValueError, TypeError, RecursionError) as error:
            raise BadArguments(_explain(error, self.schema)) from None
        return {name: getattr(arguments, name) for name in arguments.__struct_fields__}

    def run(self, arguments: dict[str, Any], context: ToolContext) -> Awaitable[str]:
        if self._context_name:
            arguments = {**arguments, self._context_name: context}
        if self._is_async:
            return _rendered(self.function(**arguments))
        return in_thread(lambda: render(self.function(**arguments)))

    async def reconcile(self, arguments: dict[str, Any], context: ToolContext) -> str | None:
        assert self._reconcile is not None, "only a tool whose effect is 'reconcile' is asked what happened"
        wanted = inspect.signature(self._reconcile).parameters
        known = {name: value for name, value in arguments.items() if name in wanted}
        if name := _context_parameter(self._reconcile):
            known[name] = context
        if inspect.iscoroutinefunction(self._reconcile):
            found = await self._reconcile(**known)
        else:
            found = await in_thread(partial(self._reconcile, **known))
        return None if found is None else render(found)


async def _rendered(work: Awaitable[Any]) -> str:
    return render(await work)


class _Decorate(Protocol):
    def __call__(self, function: Callable[..., Any], /) -> FunctionTool: ...


@overload
def tool(function: Callable[..., Any], /) -> FunctionTool: ...
@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    effect: Effect = "unsafe",
    timeout_s: float | None = None,
    untrusted: bool = False,
    sink: bool | Sequence[str] = False,
    capabilities: Sequence[str] = (),
    reconcile: Callable[..., Any] | None = None,
) -> _Decorate: ...
def tool(function: Callable[..., Any] | None = None, /, **declared: Any) -> FunctionTool | _Decorate:
    """Make a function a tool. What it does to the world is `unsafe` unless you declare its `effect`.

    `pure`: no effect, may run again and beside others. `idempotent`: may run again with the same key.
    `reconcile`: give `reconcile=fn`, which finds out what happened. `unsafe`: never run twice.
    """
    if function is not None:
        return FunctionTool(function)
    return lambda function: FunctionTool(function, **declared)


def render(value: Any) -> str:
    """What a tool returned, as the text that the model reads."""
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    return _encode(value).decode()


# --- arguments -----------------------------------------------------------------------------------


def _argument_struct(
    name: str, function: Callable[..., Any], about: dict[str, str]
) -> tuple[type[msgspec.Struct], str]:
    try:
        hints = typing.get_type_hints(function, include_extras=True)
    except NameError as error:
        raise ToolDefinitionError(f"tool {name}: a type hint cannot be resolved: {error}") from error
    fields: list[Any] = []
    context_name = _context_parameter(function)
    for parameter in inspect.signature(function).parameters.values():
        if parameter.name == context_name:
            continue
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY):
            raise ToolDefinitionError(f"tool {name}: parameter {parameter} must be an ordinary named one")
        kind = hints.get(parameter.name, Any)
        if parameter.name in about:
            kind = typing.Annotated[kind, msgspec.Meta(description=about[parameter.name])]
        if parameter.default is parameter.empty:
            fields.append((parameter.name, kind))
        else:
            fields.append((parameter.name, kind, _as_default(parameter.default)))
    try:
        made = msgspec.defstruct(name, fields, kw_only=True, forbid_unknown_fields=True)
        msgspec.json.Decoder(made, dec_hook=_rich)
    except TypeError as error:
        raise ToolDefinitionError(f"tool {name}: a parameter's type cannot be read from JSON: {error}") from error
    return made, context_name


def _as_default(value: Any) -> Any:
    if isinstance(value, list | dict | set | bytearray):
        return msgspec.field(default_factory=lambda: value.copy())
    return value


def _context_parameter(function: Callable[..., Any]) -> str:
    hints = typing.get_type_hints(function)
    return next((name for name, kind in hints.items() if kind is ToolContext and name != "return"), "")


def _schema_of(arguments: type[msgspec.Struct]) -> dict[str, Any]:
    """The arguments' JSON Schema, without the wrapping that costs tokens on every call."""
    schema = msgspec.json.schema(arguments, schema_hook=_rich_schema)
    definitions = schema.pop("$defs", {})
    ref = schema.pop("$ref", None)
    if ref is not None:
        schema = definitions.pop(ref.rsplit("/", 1)[1])
    schema.pop("title", None)
    if definitions:
        schema["$defs"] = definitions
    return schema


def _explain(error: Exception, schema: dict[str, Any]) -> str:
    if isinstance(error, RecursionError):
        return "The arguments are nested too deeply. Nothing was run."
    names = ", ".join(schema.get("properties", {})) or "none"
    return f"The arguments do not fit: {error}. Expected parameters: {names}. Nothing was run."


def unrepeated(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        raise ValueError("a key is repeated")
    return made


def no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


_strict = json.JSONDecoder(object_pairs_hook=unrepeated, parse_constant=no_constant).decode


# --- pydantic and other rich types, where the user brings them ------------------------------------


def _rich(kind: type, value: Any) -> Any:
    if hasattr(kind, "model_validate"):
        return kind.model_validate(value)
    raise NotImplementedError(f"{kind} is not a type that JSON can carry")


def _rich_schema(kind: type) -> dict[str, Any]:
    if hasattr(kind, "model_json_schema"):
        return typing.cast("dict[str, Any]", kind.model_json_schema())
    raise NotImplementedError(f"{kind} is not a type that JSON can carry")


def _plain(value: Any) -> Any:
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json")
    return str(value)


# --- docstrings ----------------------------------------------------------------------------------

_SECTION = re.compile(r"^(Args|Arguments|Parameters|Returns?|Raises|Yields|Examples?|Notes?):?\s*$")
_ARGUMENT = re.compile(r"^\s*:?(?:param )?\*{0,2}(\w+)(?: ?\([^)]*\))?\s*:\s*(.+)$")


def _read_docstring(function: Callable[..., Any]) -> tuple[str, dict[str, str]]:
    """The description, and what is said of each argument (`Args:` blocks or `:param x:` lines)."""
    text: list[str] = []
    about: dict[str, str] = {}
    section, last = "", ""
    for line in (inspect.getdoc(function) or "").splitlines():
        if found := _SECTION.match(line.strip()):
            section = found[1]
        elif line.startswith(":param") or section in ("Args", "Arguments", "Parameters"):
            if argument := _ARGUMENT.match(line):
                last = argument[1]
                about[last] = argument[2].strip()
            elif last and line.strip():
                about[last] += " " + line.strip()
        elif not section and not line.startswith(":"):
            text.append(line)
    return "\n".join(text).strip(), about
