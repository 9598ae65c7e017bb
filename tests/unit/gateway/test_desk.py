"""The agent of a workspace as the gateway uses it: what is accepted is followed, each record once and in order."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from mainstay import Agent
from mainstay.config.schema import Config, ToolSettings
from mainstay.core.addresses import Address, Heard
from mainstay.core.errors import ApprovalUnknown, InputRefused
from mainstay.core.events import Delivered, Event, Lagged, TextDelta, TurnEnded
from mainstay.core.guests import GuestTool
from mainstay.core.messages import Text
from mainstay.core.outcome import Paused
from mainstay.gateway import desk as desks
from mainstay.gateway.desk import Desk
from mainstay.testing import Call, ScriptedProvider, Stall

WEATHER = GuestTool("weather", "The weather.", {"type": "object", "properties": {}})


async def until_the_end(events: AsyncIterator[Event], turn: int = 1) -> list[Event]:
    found: list[Event] = []
    async with asyncio.timeout(20):
        async for event in events:
            found.append(event)
            if isinstance(event, TurnEnded) and event.turn == turn:
                break
    return found


def sequences(events: list[Event]) -> list[int]:
    return [one.sequence for one in events if one.sequence]


async def kept(desk: Desk, key: str) -> list[int]:
    return [record.seq for record in await desk.sessions.records(key)]


@pytest.mark.parametrize("after", [0, 1, 3])
async def test_a_follower_hears_every_record_after_its_place_once_and_in_order(tmp_path: Path, after: int) -> None:
    async with Agent(ScriptedProvider(["hello"] * 3), home=tmp_path) as agent:
        desk = await Desk.of(agent)
        await (await desk.accept("s", [Text("one")])).reply
        following = asyncio.ensure_future(until_the_end(desk.follow("s", after), turn=3))
        await (await desk.accept("s", [Text("two")])).reply
        await (await desk.accept("s", [Text("three")])).reply
        heard = await following
        assert sequences(heard) == [seq for seq in await kept(desk, "s") if seq > after]


async def test_a_follower_that_is_far_too_slow_still_hears_every_record(tmp_path: Path) -> None:
    async with Agent(ScriptedProvider(["word " * 40] * 200), home=tmp_path) as agent:
        desk = await Desk.of(agent)
        events = desk.follow("s")
        first = asyncio.ensure_future(anext(events))
        for number in range(60):
            await (await desk.accept("s", [Text(str(number))])).reply
        heard = [await first, *await until_the_end(events, turn=60)]
        assert sequences(heard) == await kept(desk, "s")
        assert any(isinstance(one, Lagged) for one in heard), "it was told that partial things are missing"


async def test_following_what_was_just_accepted_misses_nothing_though_it_is_already_running(tmp_path: Path) -> None:
    async with Agent(ScriptedProvider(["hello there"] * 50), home=tmp_path) as agent:
        desk = await Desk.of(agent)
        for number in range(50):
            ticket = await desk.accept(f"s{number}", [Text("hi")])
            for _ in range(number % 7):
                await asyncio.sleep(0)
            heard = await until_the_end(desk.follow(f"s{number}", ticket.seq - 1))
            assert sequences(heard) == await kept(desk, f"s{number}")


async def test_partial_things_have_no_sequence_and_come_as_they_happen(tmp_path: Path) -> None:
    stall = Stall(then="done")
    async with Agent(ScriptedProvider([stall]), home=tmp_path) as agent:
        desk = await Desk.of(agent)
        ticket = await desk.accept("s", [Text("hi")])
        following = asyncio.ensure_future(until_the_end(desk.follow("s", ticket.seq - 1)))
        await stall.reached.wait()
        stall.release()
        deltas = [one for one in await following if isinstance(one, TextDelta)]
        assert "".join(one.text for one in deltas) == "done"
        assert {one.sequence for one in deltas} == {0}


async def test_what_is_overheard_waits_for_a_prompt_and_is_known_by_its_id(tmp_path: Path) -> None:
    provider = ScriptedProvider(["hello"])
    async with Agent(provider, home=tmp_path) as agent:
        desk = await Desk.of(agent)
        heard = Heard(Address("chat", "r:1", "t"), "m1", "U1", "Bo", "lunch?")
        key = desk.key("", "ann", heard)
        assert key == "chat:r%3A1:t"
        assert await desk.overhear(key, [Text("[Bo] lunch?", origin="heard:chat")], id="chat:m1", heard=heard)
        assert await desk.seen(key, "chat:m1")
        assert not await desk.overhear(key, [Text("[Bo] lunch?")], id="chat:m1", heard=heard)
        await (await desk.accept(key, [Text("well?")], id="chat:m2", sender="ann")).reply
        assert provider.asked[-1].messages[-1] == ("user", "[Bo] lunch?\n\nwell?")
        await desk.record(key, Delivered(f"{key}#1", heard.address, ("m3",), turn=1))
        assert (await desk.sessions.get(key)).delivered == 1


async def test_a_brought_tool_is_handed_back_and_its_result_handed_in(tmp_path: Path) -> None:
    async with Agent(ScriptedProvider([[Call("weather", {})], "22 degrees"]), home=tmp_path) as agent:
        desk = await Desk.of(agent)
        await desk.offer("s", [WEATHER])
        head = (await desk.sessions.get("s")).head
        await desk.offer("s", [WEATHER])
        assert (await desk.sessions.get("s")).head == head, "the same again is no change"
        reply = await (await desk.accept("s", [Text("warm?")])).reply
        assert isinstance(reply.outcome, Paused)
        (pending,) = await desk.approvals.list()
        assert pending.asked.client
        with pytest.raises(InputRefused, match="runs this call itself"):
            await desk.approvals.approve(pending.asked.id)
        with pytest.raises(ApprovalUnknown):
            await desk.hand_in("s", "another", "22 C")
        assert (await (await desk.hand_in("s", pending.asked.call_id, "22 C")).reply).text == "22 degrees"
        with pytest.raises(ApprovalUnknown):
            await desk.hand_in("s", pending.asked.call_id, "again")


@pytest.mark.parametrize(
    ("tools", "words"),
    [
        ([GuestTool("add")], "has a tool of its own"),
        ([WEATHER, WEATHER], "the same name"),
        ([GuestTool(f"t{n}") for n in range(200)], "at most 128"),
        ([GuestTool("t", "x" * 300_000)], "at most 128 tools of"),
    ],
    ids=["taken", "twice", "many", "large"],
)
async def test_tools_that_cannot_be_brought_are_refused_and_change_nothing(
    tmp_path: Path, tools: list[GuestTool], words: str
) -> None:
    def add(a: int, b: int) -> int:
        return a + b

    async with Agent(ScriptedProvider([]), tools=[add], home=tmp_path) as agent:
        desk = await Desk.of(agent)
        with pytest.raises(InputRefused, match=words):
            await desk.offer("s", tools)
        assert await kept(desk, "s") == []


async def test_a_conversation_with_calls_is_brought_from_elsewhere_whole(tmp_path: Path) -> None:
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
        desk = await Desk.of(agent)
        await desk.import_history("s", history)
        await (await desk.accept("s", [Text("sure?")])).reply
        roles = [role for role, _ in provider.asked[-1].messages]
        assert roles == ["user", "assistant", "tool", "assistant", "user"]
        assert "Outcome unknown" in provider.asked[-1].messages[2][1]
        for wrong in ({"role": "tool", "tool_call_id": "?", "content": "x"}, {"role": "assistant", "tool_calls": 3}):
            with pytest.raises(InputRefused, match="message 0"):
                await desk.import_history("t", [{"content": None, **wrong}])


async def test_what_somebody_else_says_into_a_running_turn_waits_for_the_next_one(tmp_path: Path) -> None:
    """Whose rules hold is settled when a turn begins: nobody's words run under another's."""
    stall = Stall(then="for bob")
    provider = ScriptedProvider([stall, "for ann", "again"])
    async with Agent(provider, home=tmp_path) as agent:
        desk = await Desk.of(agent)
        first = await desk.accept("s", [Text("slowly")], sender="bob")
        await stall.reached.wait()
        second = await desk.steer("s", [Text("delete it all")], sender="ann")
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
        desk = await Desk.of(agent)
        await (await desk.accept("web:ann:s", [Text("the code is 4711")], sender="ann")).reply
        ids.append("web:ann:s#1")
        await (await desk.accept("web:bob:s", [Text("forget what ann said")], sender="bob")).reply
        assert "4711" in str(await desk.sessions.records("web:ann:s"))
        await (await desk.accept("web:ann:s", [Text("forget it")], sender="ann")).reply
        assert "4711" not in str(await desk.sessions.records("web:ann:s"))


async def test_whoever_was_expected_hears_the_first_word_though_they_come_late(tmp_path: Path) -> None:
    async with Agent(ScriptedProvider(["hello there"] * 3), home=tmp_path) as agent:
        desk = await Desk.of(agent)
        since = desk.expect("s")
        ticket = await desk.accept("s", [Text("hi")])
        await ticket.reply  # all of it was said before anybody listened
        heard = await until_the_end(desk.follow("s", ticket.seq - 1, since))
        assert "".join(one.text for one in heard if isinstance(one, TextDelta)) == "hello there"
        assert sequences(heard) == await kept(desk, "s")
        assert not desk._early


async def test_whoever_was_expected_and_never_came_is_waited_for_no_longer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(desks, "EXPECT_S", 0.01)
    async with Agent(ScriptedProvider([]), home=tmp_path) as agent:
        desk = await Desk.of(agent)
        desk.expect("s")
        hub = desk._open.services.hub
        assert hub.wanted("s")
        async with asyncio.timeout(10):
            while hub.wanted("s"):
                await asyncio.sleep(0.005)
        assert not desk._early
