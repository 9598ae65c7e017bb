"""One agent with every provider: only the name of the model differs."""

from __future__ import annotations

import json

import pytest
from support.streams.formats import KEY, Format
from support.streams.more import FORMATS
from support.streams.server import Loopback, chunked, status

from mainstay import Agent
from mainstay.core.tools import tool

THINKS = {"openai-responses": "gpt-5", "bedrock": "anthropic.m"}  # others do not get thoughts back


@pytest.mark.parametrize("api", FORMATS, ids=lambda one: one.name)
async def test_the_same_agent_works_with_every_provider(api: Format) -> None:
    """It calls a tool, is told the result, answers, and is shown all of it again in the next turn."""
    added: list[tuple[int, int]] = []

    @tool(effect="pure", untrusted=False, sink=False)
    def add(a: int, b: int) -> int:
        """Add two integers."""
        added.append((a, b))
        return a + b

    thought, call = api.thinking("let me see"), api.call(0, "add", '{"a": 1900, "b": 88}')
    scripts = [
        chunked(*api.begin(), *thought, *call, *api.end("tool_calls"), *api.tail()),
        chunked(*api.begin(), *api.text("It is ", "1988."), *api.end("end"), *api.tail()),
    ]
    if api.name == "ollama":
        scripts.insert(0, status(200, b"{}"))  # it is asked about the model first
    async with Loopback(*scripts) as server:
        model, place = f"{api.name}/{THINKS.get(api.name, 'm')}", server.url
        async with Agent(model, tools=[add], base_url=place, api_key=KEY, home=":memory:") as agent:
            first = await agent.run("s", "what is 1900 + 88?")
            second = await agent.run("s", "sure?")
    assert added == [(1900, 88)]
    assert [first.text, second.text] == ["It is 1988.", "It is 1988."]
    assert first.usage.prompt == 2 * api.usage.prompt
    *_, told, again = (json.dumps(asked.body) for asked in server.asked)
    assert told.count("1988") == 1
    assert again.index("what is 1900 + 88?") < again.index("It is 1988.") < again.index("sure?")
    kept = api.signature.rpartition(":")[2]
    assert kept in again, "a signature goes back to whom it came from"
