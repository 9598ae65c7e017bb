"""Turns functions into actions of a plugin: schema from the type hints, description from the docstring."""

from __future__ import annotations

import inspect
import json
import types
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Literal, TypeVar, overload

from mainstay.core.errors import MainstayError, ToolDefinitionError
from mainstay.core.tools import FunctionTool, ToolFunction, render_result
from mainstay.core.worker_threads import run_in_thread

F = TypeVar("F", bound=ToolFunction)
DeclaredEffect = Literal["pure", "idempotent", "unsafe"]
_ACTION_ATTRIBUTE = "__mainstay_action__"


class ActionFailed(MainstayError):
    """An action failed. Raise it with one sentence for the model."""


class Call:
    """The call that an action serves. It is passed to a parameter annotated with this type."""

    __slots__ = ("_cancelled", "context", "id")

    def __init__(self, id: str, context: Mapping[str, str]) -> None:
        self.id = id
        self.context = context  # what the manifest requests and the owner granted: "session", "prompt", …
        self._cancelled = False

    @property
    def cancelled(self) -> bool:
        """True if the caller no longer waits. An async action is cancelled; any other should check this regularly."""
        return self._cancelled

    def cancel(self) -> None:
        self._cancelled = True


class FunctionAction:
    """A function and its declaration in the manifest. `call_parameter` takes the Call; empty: there is none."""

    def __init__(self, function: ToolFunction, tool: FunctionTool, call_parameter: str) -> None:
        self.name = tool.name
        self.tool = tool
        self._function = function
        self._call_parameter = call_parameter

    async def run(self, arguments: str, call: Call) -> str:
        """Call the function, in a thread unless it is async. Raises BadArguments, and what the function raises."""
        parameters = self.tool.parse(arguments)
        if self._call_parameter:
            parameters[self._call_parameter] = call
        try:
            if inspect.iscoroutinefunction(self._function):
                return render_result(await self._function(**parameters))
            return str(await run_in_thread(lambda: render_result(self._function(**parameters))))
        finally:
            call.cancel()  # for a thread that still runs

    def manifest_lines(self) -> list[str]:
        """Return its entry in `plugin.yaml`. Values are JSON, which is YAML too and needs no library."""
        tool = self.tool
        fields: dict[str, object] = {"name": tool.name, "description": tool.description, "effect": tool.effect}
        if tool.timeout_s is not None:
            fields["timeout_s"] = tool.timeout_s
        if not tool.untrusted:
            fields["untrusted"] = False
        if tool.sink:
            fields["sink"] = tool.sink
        fields["parameters"] = {key: value for key, value in tool.schema.items() if value != []}
        lines = [f"{key}: {json.dumps(value, ensure_ascii=False)}" for key, value in fields.items()]
        return [f"  - {lines[0]}", *(f"    {line}" for line in lines[1:])]


@overload
def action(function: F, /) -> F: ...
@overload
def action(
    *,
    description: str | None = None,
    effect: DeclaredEffect = "unsafe",
    timeout_s: float | None = None,
    untrusted: bool = True,
    sink: bool | Sequence[str] = False,
) -> Callable[[F], F]: ...
def action(
    function: F | None = None,
    /,
    *,
    description: str | None = None,
    effect: DeclaredEffect = "unsafe",
    timeout_s: float | None = None,
    untrusted: bool = True,
    sink: bool | Sequence[str] = False,
) -> F | Callable[[F], F]:
    """Declare a function as an action; the function itself is returned unchanged.

    `pure`: no effect, may run again and concurrently. `idempotent`: may run again. `unsafe`: is never run twice.
    `sink` names the parameters that are destinations. `--manifest` prints the declaration for `plugin.yaml`.
    """

    def decorate(function: F) -> F:
        call_name = _find_call_parameter(function)
        tool = FunctionTool(
            _without_parameter(function, call_name),
            description=description,
            effect=effect,
            timeout_s=timeout_s,
            untrusted=untrusted,
            sink=sink,
        )
        if not tool.description:
            raise ToolDefinitionError(f"action {tool.name} needs a docstring: it is the description for the model")
        setattr(function, _ACTION_ATTRIBUTE, FunctionAction(function, tool, call_name))
        return function

    return decorate if function is None else decorate(function)


def find_actions(functions: Iterable[object]) -> dict[str, FunctionAction]:
    """Return the actions among these objects, by name."""
    attributes = (getattr(function, _ACTION_ATTRIBUTE, None) for function in functions if inspect.isfunction(function))
    return {action.name: action for action in attributes if isinstance(action, FunctionAction)}


def _find_call_parameter(function: ToolFunction) -> str:
    """Return the name of the parameter that takes the Call; empty if there is none."""
    try:
        hints = typing.get_type_hints(function)
    except NameError as error:
        raise ToolDefinitionError(f"action {function.__name__}: a type hint cannot be resolved: {error}") from error
    return next((name for name, kind in hints.items() if kind is Call and name != "return"), "")


def _without_parameter(function: ToolFunction, name: str) -> ToolFunction:
    """Return the function without a parameter: the schema for the model must not contain the Call."""
    if not name or not isinstance(function, types.FunctionType):
        return function
    copy = types.FunctionType(
        function.__code__, function.__globals__, function.__name__, function.__defaults__, function.__closure__
    )
    copy.__doc__ = function.__doc__
    copy.__kwdefaults__ = function.__kwdefaults__
    hints = typing.get_type_hints(function, include_extras=True)
    copy.__annotations__ = {key: kind for key, kind in hints.items() if key != name}
    signature = inspect.signature(function)
    parameters = [parameter for parameter in signature.parameters.values() if parameter.name != name]
    vars(copy)["__signature__"] = signature.replace(parameters=parameters)
    return copy
