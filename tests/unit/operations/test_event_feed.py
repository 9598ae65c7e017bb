"""Events of a session, from the journal and live: each record once and in order, also when the agent is replaced."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from support.fixed_home import opened_workspace

from mainstay import Agent
from mainstay.core.events import Event, Lagged, TextDelta, TurnEnded
from mainstay.core.messages import Text
from mainstay.lane.replies import PendingReply
from mainstay.operations.caller import OWNER, Caller
from mainstay.operations.event_feed import Subscription, follow_journal
from mainstay.operations.execute import open_stream
from mainstay.operations.input_submission import accept_prompt
from mainstay.operations.turns import Prompt
from mainstay.testing import ScriptedProvider, Stall


async def until_the_end(events: AsyncIterator[Event], turn: int = 1) -> list[Event]:
    found: list[Event] = []
    async with asyncio.timeout(120):
        async for event in events:
            found.append(event)
            if isinstance(event, TurnEnded) and event.turn == turn:
                break
    return found


def sequences(events: list[Event]) -> list[int]:
    return [one.sequence for one in events if one.sequence]


async def record_seqs(agent: Agent, key: str) -> list[int]:
    return [record.seq for record in await agent.sessions.records(key)]


async def accept(agent: Agent, key: str, text: str) -> PendingReply:
    return await accept_prompt(await agent.runtime(), key, [Text(text)])


@pytest.mark.parametrize("after", [0, 1, 3])
async def test_a_follower_gets_every_record_after_its_position_once_and_in_order(tmp_path: Path, after: int) -> None:
    async with Agent(ScriptedProvider(["hello"] * 3), home=tmp_path) as agent:
        await (await accept(agent, "s", "one")).reply
        following = asyncio.ensure_future(until_the_end(follow_journal(agent, "s", after), turn=3))
        await (await accept(agent, "s", "two")).reply
        await (await accept(agent, "s", "three")).reply
        heard = await following
        assert sequences(heard) == [seq for seq in await record_seqs(agent, "s") if seq > after]


async def test_a_follower_that_is_far_too_slow_still_gets_every_record(tmp_path: Path) -> None:
    async with Agent(ScriptedProvider(["word " * 40] * 200), home=tmp_path) as agent:
        events = follow_journal(agent, "s")
        first = asyncio.ensure_future(anext(events))
        for number in range(60):
            await (await accept(agent, "s", str(number))).reply
        heard = [await first, *await until_the_end(events, turn=60)]
        assert sequences(heard) == await record_seqs(agent, "s")
        assert any(isinstance(one, Lagged) for one in heard), "it was told that partial things are missing"


async def test_following_what_was_just_accepted_misses_nothing_though_it_is_already_running(tmp_path: Path) -> None:
    async with Agent(ScriptedProvider(["hello there"] * 50), home=tmp_path) as agent:
        for number in range(50):
            ticket = await accept(agent, f"s{number}", "hi")
            for _ in range(number % 7):
                await asyncio.sleep(0)
            heard = await until_the_end(follow_journal(agent, f"s{number}", ticket.seq - 1))
            assert sequences(heard) == await record_seqs(agent, f"s{number}")


async def test_partial_things_have_no_sequence_and_come_as_they_happen(tmp_path: Path) -> None:
    stall = Stall(then="done")
    async with Agent(ScriptedProvider([stall]), home=tmp_path) as agent:
        ticket = await accept(agent, "s", "hi")
        following = asyncio.ensure_future(until_the_end(follow_journal(agent, "s", ticket.seq - 1)))
        await stall.reached.wait()
        stall.release()
        deltas = [one for one in await following if isinstance(one, TextDelta)]
        assert "".join(one.text for one in deltas) == "done"
        assert {one.sequence for one in deltas} == {0}


async def test_a_subscription_from_before_the_prompt_has_the_first_text_though_it_is_read_late(tmp_path: Path) -> None:
    async with Agent(ScriptedProvider(["hello there"] * 3), home=tmp_path) as agent:
        hub = (await agent.runtime()).services.hub
        subscription = Subscription(hub, "s")
        ticket = await accept(agent, "s", "hi")
        await ticket.reply  # all of it was written before the subscription
        events = follow_journal(agent, "s", ticket.seq - 1, subscription)
        heard = await until_the_end(events)
        assert "".join(one.text for one in heard if isinstance(one, TextDelta)) == "hello there"
        assert sequences(heard) == await record_seqs(agent, "s")
        await events.aclose()
        assert not hub.has_watchers("s")


async def test_a_stream_that_was_opened_and_never_read_leaves_no_watcher(tmp_path: Path) -> None:
    async with Agent(ScriptedProvider(["hello"]), home=tmp_path) as agent:
        hub = (await agent.runtime()).services.hub
        stream = await open_stream(Caller(OWNER, agent), Prompt(session="s", text="hi"))
        assert hub.has_watchers("s")
        assert stream.pending_reply is not None
        await stream.aclose()
        assert not hub.has_watchers("s")
        assert (await stream.pending_reply.reply).text == "hello", "the turn goes on"


async def test_a_follower_goes_on_with_the_agent_that_replaces_the_one_it_followed(tmp_path: Path) -> None:
    first = Agent(ScriptedProvider(["from the first"]), home=tmp_path)
    workspace = await opened_workspace(first)
    following = asyncio.ensure_future(until_the_end(follow_journal(workspace, "s"), turn=2))
    await (await accept(first, "s", "one")).reply
    workspace.suspend()
    await first.aclose()
    async with Agent(ScriptedProvider(["from the second"]), home=tmp_path) as second:
        workspace.replace_agent(second)
        await (await accept(second, "s", "two")).reply
        heard = await following
        assert sequences(heard) == await record_seqs(second, "s")
        assert "from the second" in "".join(one.text for one in heard if isinstance(one, TextDelta))


async def test_a_follower_ends_when_the_agent_is_closed_and_not_replaced(tmp_path: Path) -> None:
    agent = Agent(ScriptedProvider(["hello"]), home=tmp_path)
    await agent.runtime()
    await (await accept(agent, "s", "one")).reply
    events = follow_journal(agent, "s")
    await until_the_end(events)
    following = asyncio.ensure_future(anext(events))
    await agent.aclose()
    with pytest.raises(StopAsyncIteration):
        await following
