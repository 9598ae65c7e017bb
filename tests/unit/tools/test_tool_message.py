"""`message`: to a room or to another agent, once, and labelled with what it may hold."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from support.outside_world import call, calling

from mainstay.core.outside import Outgoing, Reach
from mainstay.core.recall import CONVERSATION
from mainstay.core.tools import BadArguments
from mainstay.testing.outside import MemoryOutbox
from mainstay.tools.common import ToolRefused
from mainstay.tools.message import Message, message_tool


def reach(**given: Any) -> Reach:
    tool = Message(MemoryOutbox())
    return tool.reach(tool.parse(msgspec.json.encode(given).decode()), calling())


async def test_a_message_goes_to_a_room_or_to_an_agent() -> None:
    outbox = MemoryOutbox()
    tool = message_tool(outbox)
    assert await call(tool, to="slack:ops", text="done") == "Sent to slack:ops (m1)."
    assert await call(tool, calling(call="c2"), agent="research", text="look") == "Sent to research (m2)."
    await call(tool, calling(call="c3"), to="agent:research", text="look")
    assert outbox.sent == [
        Outgoing(to="slack:ops", text="done", session="s", key="s/c1"),
        Outgoing(to="agent:research", text="look", session="s", key="s/c2"),
        Outgoing(to="agent:research", text="look", session="s", key="s/c3"),
    ]


async def test_the_same_call_says_it_once() -> None:
    outbox = MemoryOutbox()
    assert await call(message_tool(outbox), to="a:b", text="x") == await call(message_tool(outbox), to="a:b", text="x")
    assert len(outbox.sent) == 1


async def test_it_is_a_sink_to_where_it_goes() -> None:
    assert message_tool(MemoryOutbox()).effect == "idempotent"
    assert reach(to="slack:ops", text="x").destinations == ("slack:ops",)
    assert reach(agent="research", text="x").destinations == ("research",)
    assert reach(to="agent:research", text="x").destinations == ("research",)
    for one in (reach(to="slack:ops", text="x"), reach(agent="r", text="x"), reach(text="x")):
        assert one.sink
        assert one.outward
    assert reach(to="slack:ops", text="x").what == "sends a message to slack:ops"


async def test_it_needs_the_right_to_that_very_channel() -> None:
    tool = Message(MemoryOutbox())
    assert tool.needs(tool.parse('{"to": "slack:ops", "text": "x"}')) == ("send.slack",)
    assert tool.needs(tool.parse('{"agent": "a", "text": "x"}')) == ("send.agent",)


async def test_what_a_tainted_conversation_says_is_labelled() -> None:
    outbox = MemoryOutbox()
    context = calling()
    context.tainted = True
    await call(message_tool(outbox), context, to="a:b", text="x")
    context = calling(call="c2")
    context.tainted = context.secret = True
    await call(message_tool(outbox), context, to="a:b", text="x")
    assert [one.origin for one in outbox.sent] == [CONVERSATION, "untrusted+private:conversation"]


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
async def test_what_cannot_be_sent_is_one_sentence(given: dict[str, str]) -> None:
    outbox = MemoryOutbox()
    with pytest.raises(ToolRefused, match="Nothing was sent"):
        await call(message_tool(outbox), **given)
    assert outbox.sent == []


def test_arguments_that_do_not_fit_are_refused() -> None:
    with pytest.raises(BadArguments):
        message_tool(MemoryOutbox()).parse('{"to": "a:b"}')
