"""Functions as actions of a plugin: the schema comes from the type hints, the description from the docstring."""

from __future__ import annotations

import inspect
import json
import types
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, TypeVar, overload

from mainstay.core.errors import MainstayError, ToolDefinitionError
from mainstay.core.tools import FunctionTool, render
from mainstay.core.workers import in_thread

F = TypeVar("F", bound=Callable[..., Any])
Effect = Literal["pure", "idempotent", "unsafe"]
_MARK = "__mainstay_action__"


class ActionFailed(MainstayError):
    """Raise it with one sentence that the model is to read."""


class Call:
    """What an action may know of a call. A parameter annotated with this gets it."""

    __slots__ = ("_cancelled", "context", "id")

    def __init__(self, id: str, context: Mapping[str, str]) -> None:
        self.id = id
        self.context = context  # what the manifest asked for and the owner granted: "session", "prompt", …
        self._cancelled = False

    @property
    def cancelled(self) -> bool:
        """Nobody waits any more. An async action is cancelled; one that is not should look at this now and then."""
        return self._cancelled

    def cancel(self) -> None:
        self._cancelled = True


class Action:
    """A function with what the manifest says about it."""

    def __init__(self, function: Callable[..., Any], tool: FunctionTool, call_name: str) -> None:
        self.name = tool.name
        self.tool = tool
        self._function = function
        self._call_name = call_name

    async def run(self, arguments: str, call: Call) -> str:
        """Raises BadArguments, or whatever the function raises."""
        given = self.tool.parse(arguments)
        if self._call_name:
            given[self._call_name] = call
        try:
            if inspect.iscoroutinefunction(self._function):
                return render(await self._function(**given))
            return str(await in_thread(lambda: render(self._function(**given))))
        finally:
            call.cancel()  # a thread that is still at it finds out

    def lines(self) -> list[str]:
        """Its entry in `plugin.yaml`; JSON is YAML, and needs no library."""
        tool = self.tool
        said: dict[str, Any] = {"name": tool.name, "description": tool.description, "effect": tool.effect}
        if tool.timeout_s is not None:
            said["timeout_s"] = tool.timeout_s
        if not tool.untrusted:
            said["untrusted"] = False
        if tool.sink:
            said["sink"] = tool.sink
        said["parameters"] = {key: value for key, value in tool.schema.items() if value != []}
        lines = [f"{key}: {json.dumps(value, ensure_ascii=False)}" for key, value in said.items()]
        return [f"  - {lines[0]}", *(f"    {line}" for line in lines[1:])]


@overload
def action(function: F, /) -> F: ...
@overload
def action(
    *,
    description: str | None = None,
    effect: Effect = "unsafe",
    timeout_s: float | None = None,
    untrusted: bool = True,
    sink: bool | Sequence[str] = False,
) -> Callable[[F], F]: ...
def action(
    function: F | None = None,
    /,
    *,
    description: str | None = None,
    effect: Effect = "unsafe",
    timeout_s: float | None = None,
    untrusted: bool = True,
    sink: bool | Sequence[str] = False,
) -> F | Callable[[F], F]:
    """Make a function an action; it stays the function it is.

    `pure`: no effect, may run again and beside others. `idempotent`: may run again. `unsafe`: never run twice.
    `sink` names the parameters that are destinations. What is said here goes into `plugin.yaml` (`--manifest`).
    """

    def decorate(function: F) -> F:
        call_name = _call_parameter(function)
        tool = FunctionTool(
            _without(function, call_name),
            description=description,
            effect=effect,
            timeout_s=timeout_s,
            untrusted=untrusted,
            sink=sink,
        )
        if not tool.description:
            raise ToolDefinitionError(f"action {tool.name} needs a docstring: the model reads what it is for")
        setattr(function, _MARK, Action(function, tool, call_name))
        return function

    return decorate if function is None else decorate(function)


def actions_of(functions: Iterable[Any]) -> dict[str, Action]:
    """Those of them that are actions, by name."""
    found = (getattr(one, _MARK, None) for one in functions if inspect.isfunction(one))
    return {one.name: one for one in found if isinstance(one, Action)}


def _call_parameter(function: Callable[..., Any]) -> str:
    try:
        hints = typing.get_type_hints(function)
    except NameError as error:
        raise ToolDefinitionError(f"action {function.__name__}: a type hint cannot be resolved: {error}") from error
    return next((name for name, kind in hints.items() if kind is Call and name != "return"), "")


def _without(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    """The function as the model sees it: without the parameter that only we can fill."""
    if not name or not isinstance(function, types.FunctionType):
        return function
    shown = types.FunctionType(
        function.__code__, function.__globals__, function.__name__, function.__defaults__, function.__closure__
    )
    shown.__doc__ = function.__doc__
    shown.__kwdefaults__ = function.__kwdefaults__
    hints = typing.get_type_hints(function, include_extras=True)
    shown.__annotations__ = {key: kind for key, kind in hints.items() if key != name}
    whole = inspect.signature(function)
    left = [one for one in whole.parameters.values() if one.name != name]
    vars(shown)["__signature__"] = whole.replace(parameters=left)
    return shown
