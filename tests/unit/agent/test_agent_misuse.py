"""The library used wrongly: one sentence that says what is wrong."""

from __future__ import annotations

from typing import Any

import pytest

from mainstay import Agent, tool
from mainstay.core.errors import ConfigError, InputRefused, ToolDefinitionError
from mainstay.testing import ScriptedProvider


@tool(untrusted=False, sink=False)
def add(a: int, b: int) -> int:
    return a + b


@pytest.mark.parametrize(
    ("arguments", "error", "said"),
    [
        ({"model": 5}, ConfigError, "nor a Provider"),
        ({"config": {"limits": {}}}, ConfigError, r"mainstay\.Config"),
        ({"tools": add}, ToolDefinitionError, "a list of tools"),
        ({"tools": ["nope"]}, ToolDefinitionError, "neither a tool nor a function"),
    ],
    ids=["model", "config", "one tool", "no tool"],
)
def test_an_agent_that_cannot_be_made_says_why(arguments: dict[str, Any], error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        Agent(**arguments)


@pytest.mark.parametrize("prompt", [None, 5, b"bytes", {"role": "user"}, [None], []])
async def test_an_invalid_prompt_is_refused_and_nothing_is_stored(prompt: Any) -> None:
    async with Agent(ScriptedProvider([]), home=":memory:") as agent:
        with pytest.raises(InputRefused):
            await agent.run("s", prompt)
        assert await agent.sessions.list() == []


async def test_a_session_is_named_by_text() -> None:
    async with Agent(ScriptedProvider([]), home=":memory:") as agent:
        name: Any = 5
        with pytest.raises(InputRefused, match="text, not int"):
            await agent.run(name, "hi")
        with pytest.raises(InputRefused, match="await run instead"):
            agent.run_sync("s", "hi")
