"""Functions as actions: what the model is told of them, and what they are given."""

from __future__ import annotations

import asyncio
import threading
from typing import Annotated, Literal

import pytest
from msgspec import Meta

from mainstay.core.errors import ToolDefinitionError
from mainstay.core.tools import BadArguments
from mainstay.kit import ActionFailed, Call, StateRefused, action, state
from mainstay.kit.actions import FunctionAction, find_actions


@action
def add(title: str, times: int = 1) -> str:
    """Keep a note.

    Args:
        title: What to find it by.
    """
    return f"{title} {times}"


@action(effect="pure", timeout_s=5, untrusted=False, sink=["to"])
async def send(to: str, how: Literal["fast", "slow"], call: Call, size: Annotated[int, Meta(ge=1)] = 1) -> list[str]:
    """Send something."""
    return [to, how, call.id, call.context.get("session", ""), str(size)]


def of(function: object) -> FunctionAction:
    return next(iter(find_actions([function]).values()))


def test_a_function_stays_the_function_it_is() -> None:
    assert add("a") == "a 1"
    assert add.__name__ == "add"


def test_the_schema_comes_from_the_hints_and_the_docstring_without_the_call() -> None:
    """OPENTALON-012"""
    assert of(add).tool.description == "Keep a note."
    assert of(add).tool.schema["properties"]["title"] == {"type": "string", "description": "What to find it by."}
    assert list(of(send).tool.schema["properties"]) == ["to", "how", "size"]
    assert of(send).tool.schema["required"] == ["to", "how"]


def test_declarations_go_into_the_manifest() -> None:
    assert of(add).manifest_lines()[:3] == [
        '  - name: "add"',
        '    description: "Keep a note."',
        '    effect: "unsafe"',
    ]
    assert of(send).manifest_lines()[2:6] == [
        '    effect: "pure"',
        "    timeout_s: 5",
        "    untrusted: false",
        '    sink: ["to"]',
    ]


async def test_an_action_is_run_with_its_arguments_and_its_call() -> None:
    assert await of(add).run('{"title": "a", "times": 2}', Call("1", {})) == "a 2"
    said = await of(send).run('{"to": "x", "how": "fast"}', Call("call-7", {"session": "s"}))
    assert said == '["x","fast","call-7","s","1"]'


@pytest.mark.parametrize("text", ["{", "[]", "{}", '{"title": 1}', '{"title": "a", "more": 1}', '{"title": NaN}'])
async def test_arguments_that_do_not_fit_never_reach_the_function(text: str) -> None:
    with pytest.raises(BadArguments, match="Nothing was run"):
        await of(add).run(text, Call("1", {}))


async def test_a_sync_function_runs_beside_the_loop_and_can_see_its_cancellation() -> None:
    begun, ended = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()
    seen: list[bool] = []

    @action
    def dig(call: Call) -> str:
        """Dig."""
        loop.call_soon_threadsafe(begun.set)
        while not call.cancelled:
            ended.wait(0.01)
        seen.append(threading.current_thread() is not threading.main_thread())
        ended.set()
        return "done"

    digging = asyncio.create_task(of(dig).run("{}", Call("1", {})))
    await begun.wait()
    digging.cancel()
    with pytest.raises(asyncio.CancelledError):
        await digging
    assert await asyncio.to_thread(ended.wait, 30)
    assert seen == [True]


def test_a_function_that_cannot_be_an_action_is_refused_where_it_is_declared() -> None:
    def silent(a: str) -> str:
        return a

    def unknown(a: Nothing) -> str:  # type: ignore[name-defined]  # noqa: F821
        """It names a type that is none."""
        return ""

    def any_number(*several: str) -> str:
        """Takes any number."""
        return ""

    for function, why in ((silent, "needs a docstring"), (unknown, "cannot be resolved"), (any_number, "ordinary")):
        with pytest.raises(ToolDefinitionError, match=why):
            action(function)
    with pytest.raises(ToolDefinitionError, match="effect='harmless' must be one of"):
        action(effect="harmless")(add)  # type: ignore[call-overload]


def test_only_marked_functions_are_actions() -> None:
    assert list(find_actions([add, send, len, 5, Call, lambda: 1, ActionFailed])) == ["add", "send"]


def test_state_outside_of_a_plugin_that_serves_says_so() -> None:
    with pytest.raises(StateRefused, match="only to the actions of a running plugin"):
        state.get("a")


async def test_an_async_action_that_blocks_is_told_what_to_write_instead() -> None:
    state.open()
    try:
        with pytest.raises(RuntimeError, match="use `await"):
            state.get("a")
    finally:
        await state.close()
