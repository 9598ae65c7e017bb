"""The `@tool` decorator: makes a Python function a tool, with a schema from its type hints and docstring."""

from __future__ import annotations

import enum
import inspect
import json
import re
import types
import typing
from collections.abc import Awaitable, Callable, Sequence
from datetime import date, time, timedelta
from functools import partial
from numbers import Number
from typing import Any, NoReturn, Protocol, TypeVar, overload

import msgspec

from mainstay.core.errors import ToolDefinitionError
from mainstay.core.json_types import JsonObject, JsonValue
from mainstay.core.ports import Effect, ToolContext
from mainstay.core.surrogates import describe_json_error
from mainstay.core.worker_threads import run_in_thread

T = TypeVar("T")
ToolFunction = Callable[..., Any]

EFFECTS = typing.get_args(Effect)
_NAME = re.compile(r"[a-zA-Z][a-zA-Z0-9_-]{0,63}")
_encode_json = msgspec.json.Encoder(enc_hook=lambda value: _encode_pydantic(value), order="deterministic").encode


class BadArguments(Exception):
    """A tool call's arguments are invalid; the message is written for the model."""


class FunctionTool:
    """A tool made from a Python function. Calling it calls the function.

    `untrusted` and `sink` are what information flow control assumes, `undeclared` names those of the two that the
    developer did not declare: then results are untrusted, unless their type cannot carry words, and calls are sinks.
    """

    def __init__(
        self,
        function: ToolFunction,
        *,
        name: str | None = None,
        description: str | None = None,
        effect: Effect = "unsafe",
        timeout_s: float | None = None,
        untrusted: bool | None = None,
        sink: bool | Sequence[str] | None = None,
        private: bool | None = None,
        readers: Sequence[str] = (),
        capabilities: Sequence[str] = (),
        reconcile: ToolFunction | None = None,
    ) -> None:
        self.function = function
        self.name = name or function.__name__
        if not _NAME.fullmatch(self.name):
            raise ToolDefinitionError(
                f"{self.name!r} is not a valid tool name: use at most 64 letters, digits, _ and -, a letter first"
            )
        if effect not in EFFECTS:
            raise ToolDefinitionError(f"tool {self.name}: effect={effect!r} must be one of {', '.join(EFFECTS)}")
        if timeout_s is not None and not (isinstance(timeout_s, int | float) and timeout_s > 0):
            raise ToolDefinitionError(f"tool {self.name}: timeout_s={timeout_s!r} must be a positive number of seconds")
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function) or inspect.isclass(function):
            raise ToolDefinitionError(f"tool {self.name} must be a function that returns its result")
        if effect == "reconcile" and reconcile is None:
            raise ToolDefinitionError(
                f"tool {self.name}: effect 'reconcile' needs reconcile=, a function that finds out what happened"
            )
        self.effect: Effect = "reconcile" if reconcile is not None else effect
        self.timeout_s = timeout_s
        declared: dict[str, object] = {"untrusted": untrusted, "sink": sink}
        self.undeclared = tuple(name for name, value in declared.items() if value is None)
        self.untrusted = can_carry_words(_return_hint(function)) if untrusted is None else bool(untrusted)
        self.is_structured = _is_structured(_return_hint(function))
        self.private = private
        self.readers = (readers,) if isinstance(readers, str) else tuple(readers)
        self.capabilities = tuple(capabilities)
        self._reconcile = reconcile
        self._is_async = inspect.iscoroutinefunction(function)
        summary, about = _read_docstring(function)
        self.description = description or summary
        self._arguments, self._context_name = _argument_struct(self.name, function, about)
        _check_declarations(self.name, untrusted, sink, private, self._arguments.__struct_fields__)
        self.sink: bool | tuple[str, ...] = True if sink is None else sink if isinstance(sink, bool) else tuple(sink)
        self._decode = msgspec.json.Decoder(self._arguments, dec_hook=_decode_pydantic).decode
        self.schema = _struct_schema(self._arguments)

    def __call__(self, *args: object, **kwargs: object) -> Any:
        return self.function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<tool {self.name}, {self.effect}>"

    def parse(self, input: str) -> dict[str, object]:
        """Decode JSON text into keyword arguments, strictly: no NaN, no repeated keys, no unknown names."""
        try:
            arguments = self._decode(input or "{}")
            _decode_strict(input or "{}")
        except (msgspec.DecodeError, ValueError, TypeError, RecursionError) as error:
            raise BadArguments(_explain_bad_arguments(input, error, self.schema)) from None
        return {name: getattr(arguments, name) for name in arguments.__struct_fields__}

    def run(self, arguments: dict[str, object], context: ToolContext) -> Awaitable[str]:
        if self._context_name:
            arguments = {**arguments, self._context_name: context}
        if self._is_async:
            return _render_awaited(self.function(**arguments))
        return run_in_thread(lambda: render_result(self.function(**arguments)))

    async def reconcile(self, arguments: dict[str, object], context: ToolContext) -> str | None:
        assert self._reconcile is not None, "only a tool whose effect is 'reconcile' can be reconciled"
        parameters = inspect.signature(self._reconcile).parameters
        accepted = {name: value for name, value in arguments.items() if name in parameters}
        if name := _context_parameter(self._reconcile):
            accepted[name] = context
        if inspect.iscoroutinefunction(self._reconcile):
            result = await self._reconcile(**accepted)
        else:
            result = await run_in_thread(partial(self._reconcile, **accepted))
        return None if result is None else render_result(result)


async def _render_awaited(result: Awaitable[object]) -> str:
    return render_result(await result)


class _ToolDecorator(Protocol):
    def __call__(self, function: ToolFunction, /) -> FunctionTool: ...


@overload
def tool(function: ToolFunction, /) -> FunctionTool: ...
@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    effect: Effect = "unsafe",
    timeout_s: float | None = None,
    untrusted: bool | None = None,
    sink: bool | Sequence[str] | None = None,
    private: bool | None = None,
    readers: Sequence[str] = (),
    capabilities: Sequence[str] = (),
    reconcile: ToolFunction | None = None,
) -> _ToolDecorator: ...
def tool(function: ToolFunction | None = None, /, **declared: Any) -> FunctionTool | _ToolDecorator:
    """Make a function a tool. Its `effect` is `unsafe` unless you declare another.

    `pure`: no side effects; may run again, and concurrently. `idempotent`: may run again with the same key.
    `reconcile`: after a crash, `reconcile=fn` is called to find out what happened. `unsafe`: never runs twice.

    `untrusted`: whether results contain text from outside (mail, web pages, files of others). `sink`: whether a call
    sends data out or changes something that outlives the session; the names of its destination parameters, if it has
    any (`sink=["to"]`). Without a declaration both are assumed.

    `private`: False if the results are public (web pages, weather), True if they must not leave without approval even
    in a session that has read nothing untrusted. `readers`: the parameters, or fields of the result, that name who can
    read it already (`readers=["channel"]`, `readers=["sender", "recipients"]`).
    """
    if function is not None:
        return FunctionTool(function)
    return lambda function: FunctionTool(function, **declared)


def render_result(value: object) -> str:
    """Convert a tool's return value to the text that the model reads: strings as they are, None as "", else JSON."""
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    return _encode_json(value).decode()


def _check_declarations(name: str, untrusted: object, sink: object, private: object, parameters: Sequence[str]) -> None:
    """Raise ToolDefinitionError for a declaration that would not mean what it says."""
    for field, value in (("untrusted", untrusted), ("private", private)):
        if value is not None and not isinstance(value, bool):
            raise ToolDefinitionError(f"tool {name}: {field}={value!r} must be True or False")
    if sink is None or isinstance(sink, bool):
        return
    names = list(sink) if isinstance(sink, Sequence) and not isinstance(sink, str) else []
    if not names or not all(isinstance(one, str) for one in names):
        raise ToolDefinitionError(
            f"tool {name}: sink={sink!r} must be True, False, or a list of the parameters that are destinations"
        )
    if unknown := [one for one in names if one not in parameters]:
        listed = ", ".join(parameters) or "none"
        raise ToolDefinitionError(f"tool {name}: sink names {unknown[0]!r}, which is no parameter; it has: {listed}")


# --- results -------------------------------------------------------------------------------------

_WORDLESS_TYPES = (Number, date, time, timedelta, enum.Enum, type(None))


def can_carry_words(hint: object) -> bool:
    """Return False for a return type whose values cannot contain instructions: numbers, booleans, dates, enums, None,
    and unions of these."""
    if isinstance(hint, type):
        return not issubclass(hint, _WORDLESS_TYPES)
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Annotated:
        return can_carry_words(arguments[0])
    if origin is typing.Literal:
        return False
    if origin in (typing.Union, types.UnionType):
        return any(can_carry_words(argument) for argument in arguments)
    return hint is not None


def _is_structured(hint: object) -> bool:
    """Return True for a return type whose values the runtime encodes as JSON: text of others cannot add objects."""
    if typing.get_origin(hint) is typing.Annotated:
        return _is_structured(typing.get_args(hint)[0])
    if typing.get_origin(hint) in (typing.Union, types.UnionType):  # `str | None` is a text
        return str not in typing.get_args(hint) and Any not in typing.get_args(hint) and can_carry_words(hint)
    return hint is not Any and hint is not str and can_carry_words(hint)


def _return_hint(function: ToolFunction) -> object:
    """Return the annotation of the result; Any if there is none or it cannot be resolved."""
    try:
        return typing.get_type_hints(function, include_extras=True).get("return", Any)
    except (NameError, TypeError, AttributeError):
        return Any


# --- arguments -----------------------------------------------------------------------------------


def _argument_struct(
    name: str, function: ToolFunction, descriptions: dict[str, str]
) -> tuple[type[msgspec.Struct], str]:
    """Return a struct for the function's parameters, and the name of its ToolContext parameter ("" if it has none)."""
    try:
        hints = typing.get_type_hints(function, include_extras=True)
    except NameError as error:
        raise ToolDefinitionError(f"tool {name}: a type hint cannot be resolved: {error}") from error
    fields: list[tuple[str, type] | tuple[str, type, object]] = []
    context_name = _context_parameter(function)
    for parameter in inspect.signature(function).parameters.values():
        if parameter.name == context_name:
            continue
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY):
            raise ToolDefinitionError(f"tool {name}: parameter {parameter} must be an ordinary named parameter")
        kind = hints.get(parameter.name, JsonValue)
        if parameter.name in descriptions:
            kind = typing.Annotated[kind, msgspec.Meta(description=descriptions[parameter.name])]
        if parameter.default is parameter.empty:
            fields.append((parameter.name, kind))
        else:
            fields.append((parameter.name, kind, _as_default(parameter.default)))
    try:
        struct = msgspec.defstruct(name, fields, kw_only=True, forbid_unknown_fields=True)
        msgspec.json.Decoder(struct, dec_hook=_decode_pydantic)
    except TypeError as error:
        raise ToolDefinitionError(f"tool {name}: a parameter's type cannot be decoded from JSON: {error}") from error
    return struct, context_name


def _as_default(value: object) -> object:
    if isinstance(value, list | dict | set | bytearray):
        return msgspec.field(default_factory=lambda: value.copy())
    return value


def _context_parameter(function: ToolFunction) -> str:
    hints = typing.get_type_hints(function)
    return next((name for name, kind in hints.items() if kind is ToolContext and name != "return"), "")


def _struct_schema(arguments: type[msgspec.Struct]) -> JsonObject:
    """Return the arguments' JSON Schema, without the wrapping that costs tokens on every call."""
    schema = msgspec.json.schema(arguments, schema_hook=_pydantic_schema)
    definitions = schema.pop("$defs", {})
    ref = schema.pop("$ref", None)
    if ref is not None:
        schema = definitions.pop(ref.rsplit("/", 1)[1])
    schema.pop("title", None)
    if definitions:
        schema["$defs"] = definitions
    return schema


def _explain_bad_arguments(input: str, error: Exception, schema: JsonObject) -> str:
    if isinstance(error, RecursionError):
        return "The arguments are nested too deeply. Nothing was run."
    names = ", ".join(parameter_names(schema)) or "none"
    problem = describe_json_error(input.encode(errors="replace"), error)
    return f"The arguments do not fit: {problem}. Expected parameters: {names}. Nothing was run."


def default_of(schema: JsonObject, name: str) -> object:
    """Return the default value of a parameter; None if it has none."""
    properties = schema.get("properties")
    parameter = properties.get(name) if isinstance(properties, dict) else None
    return parameter.get("default") if isinstance(parameter, dict) else None


def parameter_names(schema: JsonObject) -> list[str]:
    """Return the names of the parameters that a JSON Schema of arguments declares."""
    properties = schema.get("properties")
    return list(properties) if isinstance(properties, dict) else []


def required_names(schema: JsonObject) -> list[str]:
    """Return the names of the parameters that a JSON Schema of arguments requires."""
    required = schema.get("required")
    return [str(name) for name in required] if isinstance(required, list) else []


def reject_duplicate_keys(pairs: list[tuple[str, T]]) -> dict[str, T]:
    """Build a dict for `object_pairs_hook`; raises ValueError if a key is repeated."""
    mapping = dict(pairs)
    if len(mapping) != len(pairs):
        raise ValueError("a key is repeated")
    return mapping


def reject_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


_decode_strict = json.JSONDecoder(object_pairs_hook=reject_duplicate_keys, parse_constant=reject_constant).decode


# --- pydantic models in the user's type hints -----------------------------------------------------


def _decode_pydantic(kind: type, value: object) -> object:
    if hasattr(kind, "model_validate"):
        return kind.model_validate(value)
    raise NotImplementedError(f"{kind} is not a type that JSON can carry")


def _pydantic_schema(kind: type) -> JsonObject:
    if hasattr(kind, "model_json_schema"):
        schema: JsonObject = kind.model_json_schema()
        return schema
    raise NotImplementedError(f"{kind} is not a type that JSON can carry")


def _encode_pydantic(value: object) -> object:
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json")
    return str(value)


# --- docstrings ----------------------------------------------------------------------------------

_SECTION = re.compile(r"^(Args|Arguments|Parameters|Returns?|Raises|Yields|Examples?|Notes?):?\s*$")
_ARGUMENT = re.compile(r"^\s*:?(?:param )?\*{0,2}(\w+)(?: ?\([^)]*\))?\s*:\s*(.+)$")


def _read_docstring(function: ToolFunction) -> tuple[str, dict[str, str]]:
    """Return the description and the text about each argument (from `Args:` blocks or `:param x:` lines)."""
    text: list[str] = []
    about: dict[str, str] = {}
    section, last = "", ""
    for line in (inspect.getdoc(function) or "").splitlines():
        if heading := _SECTION.match(line.strip()):
            section = heading[1]
        elif line.startswith(":param") or section in ("Args", "Arguments", "Parameters"):
            if argument := _ARGUMENT.match(line):
                last = argument[1]
                about[last] = argument[2].strip()
            elif last and line.strip():
                about[last] += " " + line.strip()
        elif not section and not line.startswith(":"):
            text.append(line)
    return "\n".join(text).strip(), about
