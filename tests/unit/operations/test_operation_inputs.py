"""Inputs of lanes: prompts, overheard messages, steering, history, and client tools."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mainstay import Agent
from mainstay.config.schema import Config, ToolSettings
from mainstay.core.chat_addresses import ChatAddress, PlatformMessage
from mainstay.core.client_tools import ClientTool
from mainstay.core.errors import ApprovalUnknown, InputRefused
from mainstay.core.events import Delivered
from mainstay.core.messages import Text
from mainstay.core.outcome import Paused
from mainstay.operations.input_submission import (
    accept_prompt,
    is_input_accepted,
    offer_client_tools,
    steer_turn,
    store_unaddressed,
    submit_client_result,
)
from mainstay.testing import Call, ScriptedProvider, Stall

WEATHER = ClientTool("weather", "The weather.", {"type": "object", "properties": {}})


async def test_an_overheard_message_waits_for_a_prompt_and_is_known_by_its_id(tmp_path: Path) -> None:
    provider = ScriptedProvider(["hello"])
    async with Agent(provider, home=tmp_path) as agent:
        runtime = await agent.runtime()
        heard = PlatformMessage(ChatAddress("chat", "r:1", "t"), "m1", "U1", "Bo", "lunch?")
        key = runtime.build_session_key("", "ann", heard)
        assert key == "chat:r%3A1:t"
        lunch = [Text("[Bo] lunch?", origin="heard:chat")]
        assert await store_unaddressed(runtime, key, lunch, id="chat:m1", platform_message=heard)
        assert await is_input_accepted(runtime, key, "chat:m1")
        assert not await store_unaddressed(runtime, key, [Text("[Bo] lunch?")], id="chat:m1", platform_message=heard)
        await (await accept_prompt(runtime, key, [Text("well?")], id="chat:m2", sender="ann")).reply
        assert provider.asked[-1].messages[-1] == ("user", "[Bo] lunch?\n\nwell?")
        await runtime.lanes.get(key).record_changes(Delivered(f"{key}#1", heard.address, ("m3",), turn=1))
        assert (await agent.sessions.get(key)).delivered == 1


@pytest.mark.parametrize(
    ("text", "id", "sender"), [("half \ud83d", "", ""), ("hi", "i\udc00", ""), ("hi", "", "ann \ud800")], ids=ascii
)
async def test_text_with_a_lone_surrogate_is_refused_and_nothing_is_stored(text: str, id: str, sender: str) -> None:
    provider = ScriptedProvider(["hello"])
    async with Agent(provider, home=":memory:") as agent:
        with pytest.raises(InputRefused, match=r"character \d is a lone surrogate \(U\+D[89CD]"):
            await agent.run("s", text, id=id, sender=sender)
        assert await agent.sessions.list() == []
        assert provider.asked == []
        assert (await agent.run("s", "a whole \U0001f600")).text == "hello"


async def test_a_lone_surrogate_in_anything_else_is_refused_with_what_it_is_in_and_nothing_is_stored() -> None:
    async with Agent(ScriptedProvider(["hello"]), home=":memory:") as agent:
        await agent.run("s", "hi")
        half = "half \ud83d"
        for refused, what in (
            (agent.run(half, "hi"), "the session's name"),
            (agent.run("s", "hi", id=half), "the id"),
            (agent.sessions.rename("s", half), "the title"),
            (agent.sessions.fork("s", half), "the new session's name"),
            (agent.memory.remember(half), "the message"),
            (agent.memory.remember("fine", tags=["a", half]), "the tags"),
            (agent.import_history("i", [{"role": "user", "content": half}]), "message 0 of the history"),
        ):
            with pytest.raises(InputRefused, match=f"^{what} is not valid text: character 6 is a lone surrogate"):
                await refused
        assert [session.key for session in await agent.sessions.list()] == ["s"]
        assert (await agent.sessions.get("s")).title == ""
        assert await agent.memory.list() == []


async def test_an_imported_result_without_its_call_is_named() -> None:
    async with Agent(ScriptedProvider([]), home=":memory:") as agent:
        messages = [
            {"role": "assistant", "content": "well"},
            {"role": "tool", "tool_call_id": "c1", "content": "snow"},
        ]
        with pytest.raises(InputRefused, match="message 1 of the history is the result of the call 'c1', which"):
            await agent.import_history("i", messages)


async def test_a_call_of_a_client_tool_is_handed_back_and_its_result_accepted(tmp_path: Path) -> None:
    async with Agent(ScriptedProvider([[Call("weather", {})], "22 degrees"]), home=tmp_path) as agent:
        runtime = await agent.runtime()
        await offer_client_tools(runtime, "s", [WEATHER])
        head = (await agent.sessions.get("s")).head
        await offer_client_tools(runtime, "s", [WEATHER])
        assert (await agent.sessions.get("s")).head == head, "the same again is no change"
        reply = await agent.run("s", "warm?")
        assert isinstance(reply.outcome, Paused)
        (pending,) = await agent.approvals.list()
        assert pending.asked.client
        with pytest.raises(InputRefused, match="runs this call itself"):
            await agent.approvals.approve(pending.asked.id)
        with pytest.raises(ApprovalUnknown):
            await submit_client_result(runtime, "s", "another", "22 C")
        ticket = await submit_client_result(runtime, "s", pending.asked.call_id, "22 C")
        assert (await ticket.reply).text == "22 degrees"
        with pytest.raises(ApprovalUnknown):
            await submit_client_result(runtime, "s", pending.asked.call_id, "again")


@pytest.mark.parametrize(
    ("tools", "words"),
    [
        ([ClientTool("add")], "has a tool of its own"),
        ([WEATHER, WEATHER], "the same name"),
        ([ClientTool(f"t{n}") for n in range(200)], "at most 128"),
        ([ClientTool("t", "x" * 300_000)], "at most 128 tools of"),
    ],
    ids=["taken", "twice", "many", "large"],
)
async def test_invalid_client_tools_are_refused_and_change_nothing(
    tmp_path: Path, tools: list[ClientTool], words: str
) -> None:
    def add(a: int, b: int) -> int:
        return a + b

    async with Agent(ScriptedProvider([]), tools=[add], home=tmp_path) as agent:
        with pytest.raises(InputRefused, match=words):
            await offer_client_tools(await agent.runtime(), "s", tools)
        assert await agent.sessions.records("s") == []


async def test_an_external_conversation_with_calls_is_imported_whole(tmp_path: Path) -> None:
    provider = ScriptedProvider(["so it is"])
    history: list[dict[str, Any]] = [
        {"role": "user", "content": "warm?"},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": "{}"}},
                {"id": "c2", "type": "function", "function": {"name": "weather", "arguments": "{}"}},
            ],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "22 C"},
        {"role": "assistant", "content": "22 degrees"},
    ]
    async with Agent(provider, home=tmp_path) as agent:
        await agent.import_history("s", history)
        await agent.run("s", "sure?")
        roles = [role for role, _ in provider.asked[-1].messages]
        assert roles == ["user", "assistant", "tool", "assistant", "user"]
        assert "Outcome unknown" in provider.asked[-1].messages[2][1]
        for wrong in ({"role": "tool", "tool_call_id": "?", "content": "x"}, {"role": "assistant", "tool_calls": 3}):
            with pytest.raises(InputRefused, match="message 0"):
                await agent.import_history("t", [{"content": None, **wrong}])


async def test_a_steer_of_another_sender_into_a_running_turn_waits_for_the_next_one(tmp_path: Path) -> None:
    """The rules of a turn are fixed when it begins: no text runs under another person's rules."""
    stall = Stall(then="for bob")
    provider = ScriptedProvider([stall, "for ann", "again"])
    async with Agent(provider, home=tmp_path) as agent:
        runtime = await agent.runtime()
        first = await accept_prompt(runtime, "s", [Text("slowly")], sender="bob")
        await stall.reached.wait()
        second = await steer_turn(runtime, "s", [Text("delete it all")], sender="ann")
        stall.release()
        assert ((await first.reply).turn, (await second.reply).turn) == (1, 2)
        assert "delete it all" not in str(provider.asked[0].messages)


async def test_a_person_takes_back_only_what_was_said_in_the_conversation_they_are_in(tmp_path: Path) -> None:
    ids: list[str] = []

    def step(context: Any, options: Any) -> Any:
        last = context.messages[-1]
        return [Call("forget", {"id": ids[0]})] if last.role == "user" and ids else "as you wish"

    config = Config(tools=ToolSettings(memory="on"))
    async with Agent(ScriptedProvider(step), home=tmp_path, config=config) as agent:
        await agent.run("web:ann:s", "the code is 4711", sender="ann")
        ids.append("web:ann:s#1")
        await agent.run("web:bob:s", "forget what ann said", sender="bob")
        assert "4711" in str(await agent.sessions.records("web:ann:s"))
        await agent.run("web:ann:s", "forget it", sender="ann")
        assert "4711" not in str(await agent.sessions.records("web:ann:s"))
