"""`message`: to a room or to another agent, once, and labelled with what it may hold."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from support.tool_world import call, calling

from mainstay.core.memory_tiers import CONVERSATION_ORIGIN
from mainstay.core.tool_ports import CallDestinations, OutgoingMessage
from mainstay.core.tools import BadArguments
from mainstay.testing.in_memory_tool_ports import InMemoryOutbox
from mainstay.tools.base import ToolRefused
from mainstay.tools.message import MessageTool, create_message_tool


def reach(**given: Any) -> CallDestinations:
    tool = MessageTool(InMemoryOutbox())
    return tool.reach(tool.parse(msgspec.json.encode(given).decode()), calling())


async def test_a_message_goes_to_a_room_or_to_an_agent() -> None:
    outbox = InMemoryOutbox()
    tool = create_message_tool(outbox)
    assert await call(tool, to="slack:ops", text="done") == "Sent to slack:ops (m1)."
    assert await call(tool, calling(call="c2"), agent="research", text="look") == "Sent to research (m2)."
    await call(tool, calling(call="c3"), to="agent:research", text="look")
    assert outbox.sent == [
        OutgoingMessage(to="slack:ops", text="done", session="s", key="s/c1"),
        OutgoingMessage(to="agent:research", text="look", session="s", key="s/c2"),
        OutgoingMessage(to="agent:research", text="look", session="s", key="s/c3"),
    ]


async def test_the_same_call_says_it_once() -> None:
    outbox = InMemoryOutbox()
    assert await call(create_message_tool(outbox), to="a:b", text="x") == await call(
        create_message_tool(outbox), to="a:b", text="x"
    )
    assert len(outbox.sent) == 1


async def test_it_is_a_sink_to_where_it_goes() -> None:
    assert create_message_tool(InMemoryOutbox()).effect == "idempotent"
    assert reach(to="slack:ops", text="x").destinations == ("slack:ops",)
    assert reach(agent="research", text="x").destinations == ("research",)
    assert reach(to="agent:research", text="x").destinations == ("research",)
    for one in (reach(to="slack:ops", text="x"), reach(agent="r", text="x"), reach(text="x")):
        assert one.sink
        assert one.leaves_workspace
    assert reach(to="slack:ops", text="x").description == "sends a message to slack:ops"


async def test_it_needs_the_right_to_that_very_channel() -> None:
    tool = MessageTool(InMemoryOutbox())
    assert tool.needs(tool.parse('{"to": "slack:ops", "text": "x"}')) == ("send.slack",)
    assert tool.needs(tool.parse('{"agent": "a", "text": "x"}')) == ("send.agent",)


async def test_a_message_of_a_tainted_conversation_is_labelled() -> None:
    outbox = InMemoryOutbox()
    context = calling()
    context.tainted = True
    await call(create_message_tool(outbox), context, to="a:b", text="x")
    context = calling(call="c2")
    context.tainted = context.has_private_content = True
    await call(create_message_tool(outbox), context, to="a:b", text="x")
    assert [one.origin for one in outbox.sent] == [CONVERSATION_ORIGIN, "untrusted+private:conversation"]


@pytest.mark.parametrize(
    "given",
    [
        {"text": "x"},
        {"text": "x", "to": "a:b", "agent": "c"},
        {"text": "x", "to": "ops"},
        {"text": "x", "to": "a:"},
        {"text": "x", "to": ":b"},
        {"text": "x", "to": "a:b c"},
        {"text": "x", "to": "agent:s"},
        {"text": "x", "to": "a:" + "b" * 500},
        {"text": "x", "agent": "a\nb"},
        {"text": "x", "agent": "s"},
        {"text": " ", "to": "a:b"},
        {"text": "x" * 16_001, "to": "a:b"},
    ],
    ids=[str(number) for number in range(12)],
)
async def test_an_impossible_send_is_one_sentence(given: dict[str, str]) -> None:
    outbox = InMemoryOutbox()
    with pytest.raises(ToolRefused, match="Nothing was sent"):
        await call(create_message_tool(outbox), **given)
    assert outbox.sent == []


def test_arguments_that_do_not_fit_are_refused() -> None:
    with pytest.raises(BadArguments):
        create_message_tool(InMemoryOutbox()).parse('{"to": "a:b"}')
