"""The tools that other hosts are offered, called by a client of the MCP library."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from mcp import Client, MCPError
from support.serving import operated, until

from mainstay import tool
from mainstay.core.errors import Unauthorised
from mainstay.core.tool_ports import CallDestinations
from mainstay.providers.scripted import Call, Raise, Stall
from mainstay.server.mcp_server import REQUESTS_MAX
from mainstay.server.mcp_tools import MCP_TOOLS

ERAS = ["legacy", "2026-07-28"]


def said(result: Any) -> str:
    return "\n".join(one.text for one in result.content)


@pytest.mark.parametrize("era", ERAS)
async def test_every_tool_is_described_with_its_side_effects(era: str) -> None:
    async with operated([]) as (_, offered), Client(offered.server, mode=era) as client:
        tools = {one.name: one for one in (await client.list_tools()).tools}
    assert set(tools) == set(MCP_TOOLS) == {"run", "steer", "abort", "memory_search", "sessions"}
    for name, one in tools.items():
        assert one.description, name
        assert one.annotations is not None, name
        assert one.input_schema["type"] == one.output_schema["type"] == "object", name  # type: ignore[index]
        assert one.input_schema["additionalProperties"] is False, name
        assert one.annotations.read_only_hint is (name in ("memory_search", "sessions")), name
    assert tools["run"].annotations is not None
    assert tools["run"].annotations.open_world_hint


@pytest.mark.parametrize("era", ERAS)
async def test_a_conversation_goes_on_under_the_name_it_was_given(era: str) -> None:
    async with operated(["Hello.", "You said hello."]) as (_, offered), Client(offered.server, mode=era) as client:
        first = await client.call_tool("run", {"prompt": "hello"})
        assert not first.is_error
        assert first.structured_content == {"session": "new-1", "turn": 1, "outcome": "Answered", "text": "Hello."}
        assert [one.text for one in first.content] == [  # type: ignore[union-attr]
            "Hello.",
            "(session new-1: name it to continue this conversation)",
        ]
        second = await client.call_tool("run", {"prompt": "what did I say?", "session": "new-1"})
        assert second.structured_content["turn"] == 2
        assert second.structured_content["text"] == "You said hello."


async def test_a_turn_that_needs_an_approval_says_what_waits_and_cannot_be_answered_from_here() -> None:
    @tool(untrusted=False, sink=False)
    def send(to: str) -> str:
        """Send it."""
        return f"sent to {to}"

    send.sink = True
    send.reach = lambda arguments, context: CallDestinations(sink=True, leaves_workspace=True, destinations=("x",))  # type: ignore[attr-defined]
    page = tool(untrusted=True)(lookup)
    steps = [Call("lookup"), Call("send", {"to": "x"})]
    async with operated(steps, [send, page]) as (_, offered), Client(offered.server) as client:
        result = await client.call_tool("run", {"prompt": "look it up and tell them"})
        assert not result.is_error
        assert result.structured_content["outcome"] == "Paused"
        approval = result.structured_content["approval"]
        assert (approval["tool"], approval["arguments"]) == ("send", '{"to":"x"}')
        assert f"send waits: {approval['id']}" in said(result)
        listed = await client.call_tool("sessions", {})
        assert listed.structured_content["sessions"][0]["waits_for"] == approval["id"]
        assert approval["id"] in said(listed)
        assert not [name for name in MCP_TOOLS if "appro" in name]


def lookup() -> str:
    """Look it up."""
    return "what a stranger wrote"


async def test_a_failed_turn_is_an_error_with_one_sentence() -> None:
    steps = [Raise(Unauthorised("the key was refused"))]
    async with operated(steps) as (_, offered), Client(offered.server) as client:
        result = await client.call_tool("run", {"prompt": "hello"})
    assert result.is_error
    assert result.structured_content["outcome"] == "Failed"
    assert "the key was refused" in said(result)


async def test_a_running_turn_is_steered_and_stopped_from_beside_it() -> None:
    hold = Stall("never said")
    async with operated([hold, Stall("nor this")]) as (_, offered), Client(offered.server) as client:
        running = asyncio.create_task(client.call_tool("run", {"prompt": "go", "session": "s"}))
        await hold.reached.wait()
        steered = await client.call_tool("steer", {"session": "s", "text": "in French"})
        assert (steered.is_error, steered.structured_content) == (False, {"session": "s"})
        stopped = await client.call_tool("abort", {"session": "s"})
        assert stopped.structured_content == {"session": "s", "aborted": True}
        result = await running
        assert result.is_error
        assert result.structured_content["outcome"] == "Aborted"
        again = await client.call_tool("abort", {"session": "s"})
        assert again.structured_content == {"session": "s", "aborted": False}
        assert "Nothing was running." in said(again)


async def test_messages_are_found() -> None:
    async with operated(["Noted."]) as (_, offered), Client(offered.server) as client:
        nothing = await client.call_tool("memory_search", {"query": "xyzzy"})
        assert nothing.structured_content == {"hits": []}
        assert "No results." in said(nothing)
        await client.call_tool("run", {"prompt": "the flat in Lisbon costs 900", "session": "home"})
        found = await client.call_tool("memory_search", {"query": "Lisbon", "k": 1})
        [hit] = found.structured_content["hits"]
        assert (hit["session"], hit["speaker"], hit["untrusted"]) == ("home", "user", False)
        assert "Lisbon" in hit["text"]


@pytest.mark.parametrize(
    ("name", "arguments", "why"),
    [
        ("run", {}, "prompt"),
        ("run", {"prompt": 5, "session": "s"}, "prompt"),
        ("run", {"prompt": "x", "sessions": "s"}, "sessions"),
        ("run", {"prompt": ""}, "empty"),
        ("run", {"prompt": "x", "session": "a\nb"}, "name"),
        ("memory_search", {"query": "x", "k": 0}, "k"),
        ("memory_search", {"query": "x", "k": 51}, "k"),
        ("sessions", {"limit": 100_000}, "limit"),
    ],
    ids=str,
)
async def test_arguments_that_do_not_fit_are_an_error_result_and_nothing_runs(
    name: str, arguments: dict[str, Any], why: str
) -> None:
    async with operated([]) as (operations, offered), Client(offered.server) as client:
        result = await client.call_tool(name, arguments)
        assert result.is_error
        assert why in said(result)
        assert await operations.agent.sessions.list() == []


async def test_an_unknown_tool_is_refused_by_the_protocol() -> None:
    async with operated([]) as (_, offered), Client(offered.server) as client:
        with pytest.raises(MCPError, match="there is no tool 'approve'"):
            await client.call_tool("approve", {"id": "x"})


async def test_requests_over_the_limit_are_refused_and_later_ones_accepted() -> None:
    holds = [Stall("done") for _ in range(REQUESTS_MAX)]
    async with operated(holds) as (_, offered), Client(offered.server, cache=None) as client:
        running = [
            asyncio.create_task(client.call_tool("run", {"prompt": "go", "session": f"s{n}"}))
            for n in range(REQUESTS_MAX)
        ]
        await until(lambda: offered.running_requests == REQUESTS_MAX)
        with pytest.raises(MCPError, match="running already"):
            await client.list_tools()
        for hold in holds:
            hold.release()
        assert {(await one).structured_content["text"] for one in running} == {"done"}
        assert offered.running_requests == 0
        assert (await client.list_tools()).tools
