"""F44: the same message delivered again is answered once, with the same reply."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from support.kernel_world import World, make_store, virtual

from mainstay.core.errors import InputRefused, StoreFailed
from mainstay.core.events import SessionChanged
from mainstay.core.limits import Limits
from mainstay.core.ports import Store
from mainstay.core.tools import tool
from mainstay.testing import Call, MemoryStore, Stall


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    return make_store(request.param, tmp_path)


async def test_f44_the_same_id_and_body_is_answered_once_and_gives_the_same_reply(store: Store) -> None:
    async with World(["hello", "other"], store=store) as world:
        reply = await world.ask("hi", id="m1")
        assert await world.ask("hi", id="m1") == reply
        assert (await world.ask("hi", id="m2")).turn == 2
        assert await world.ask("hi", id="m1") == reply
        assert (await world.kinds()).count("Received") == 2


async def test_f44_across_a_restart_too(store: Store) -> None:
    async with World(["hello"], store=store) as world:
        reply = await world.ask("hi", id="m1")
    async with world.after([]) as later:
        assert await later.ask("hi", id="m1") == reply
        assert later.provider.asked == []


async def test_f44_while_the_first_is_still_running_too(store: Store) -> None:
    stall = Stall("hello")
    async with World([stall], store=store) as world:
        first = await world.send("hi", id="m1")
        await stall.reached.wait()
        again = await world.send("hi", id="m1")
        stall.release()
        assert await first.reply == await again.reply
        assert len(world.provider.asked) == 1


async def test_f44_many_deliveries_at_the_very_same_time(store: Store) -> None:
    async with World(["hello"], store=store) as world:
        replies = await asyncio.gather(*(world.ask("hi", id="m1") for _ in range(20)))
        assert {reply.text for reply in replies} == {"hello"}
        assert len(world.provider.asked) == 1
        assert (await world.kinds()).count("Received") == 1
        assert "TurnResumed" not in await world.kinds()


async def test_f44_the_same_id_with_another_body_is_refused(store: Store) -> None:
    async with World(["hello", "fine"], store=store) as world:
        await world.ask("hi", id="m1", sender="ann")
        with pytest.raises(InputRefused, match="'m1' was already used for a different message"):
            await world.ask("pay bob 100", id="m1", sender="ann")
        with pytest.raises(InputRefused):
            await world.ask("hi", id="m1", sender="bob")
        assert (await world.ask("hi", id="m2")).text == "fine", "and the session goes on"


async def test_f44_two_bodies_under_one_id_at_the_same_time_are_one_answer_and_one_refusal(store: Store) -> None:
    async with World(["hello"], store=store) as world:
        outcomes = await asyncio.gather(
            world.ask("hi", id="m1"), world.ask("something else", id="m1"), return_exceptions=True
        )
        assert sorted(type(outcome).__name__ for outcome in outcomes) == ["InputRefused", "Reply"]


async def test_f44_an_id_belongs_to_its_session(store: Store) -> None:
    async with World(["one", "two"], store=store) as world:
        assert (await world.ask("hi", "a", id="m1")).text == "one"
        assert (await world.ask("hi", "b", id="m1")).text == "two"


async def test_f44_a_duplicate_is_answered_even_when_the_lane_is_full_or_its_session_is_over(store: Store) -> None:
    async with World(["hello"], store=store, limits=Limits(session_turns_max=1)) as world:
        reply = await world.ask("hi", id="m1")
        assert await world.ask("hi", id="m1") == reply
        await world.lanes.get("s").record_changes(SessionChanged(status="archived"))
        assert await world.ask("hi", id="m1") == reply


@virtual
async def test_f44_the_same_id_again_long_after_the_lane_went_to_sleep() -> None:
    async with World(["hello"]) as world:
        reply = await world.ask("hi", id="m1")
        await asyncio.sleep(3600)
        assert len(world.lanes) == 0
        assert await world.ask("hi", id="m1") == reply


@virtual
async def test_f44_a_reply_read_back_has_the_text_usage_and_outcome_of_its_own_turn() -> None:
    @tool(untrusted=False, sink=False)
    async def act() -> str:
        return "acted"

    script = [Call("act"), "first", "second", Call("act"), "third"]
    async with World(script, [act]) as world:
        replies = [await world.ask(text, id=text) for text in ("a", "b", "c")]
        await asyncio.sleep(3600)
        assert [await world.ask(text, id=text) for text in ("a", "b", "c")] == replies
        assert [reply.text for reply in replies] == ["first", "second", "third"]


@virtual
async def test_f44_joined_messages_are_each_known_by_their_id() -> None:
    async with World(["both"], limits=Limits(coalesce_window_s=1)) as world:
        first, second = await asyncio.gather(world.ask("a", id="m1"), world.ask("b", id="m2"))
        assert first == second
        await asyncio.sleep(3600)
        assert await world.ask("b", id="m2") == first


@virtual
async def test_f44_an_input_that_could_not_be_stored_may_be_sent_again_under_its_id() -> None:
    store = MemoryStore()
    async with World(["hello"], store=store) as world:
        store.fail = StoreFailed("no")
        with pytest.raises(StoreFailed):
            await world.ask("hi", id="m1")
        store.fail = None
        assert (await world.ask("hi", id="m1")).text == "hello"
