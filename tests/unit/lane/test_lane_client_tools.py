"""Client tools: the model calls them, the client runs them, and the turn waits for the result."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.kernel_world import World, make_store, virtual

from mainstay.core.client_tools import ClientTool
from mainstay.core.errors import ApprovalUnknown
from mainstay.core.events import ApprovalAnswered, ApprovalAsked, SessionChanged
from mainstay.core.outcome import Answered, Paused
from mainstay.core.tools import tool
from mainstay.testing import Call, VirtualClock
from mainstay.turn.dependencies import TrustServices

WEATHER = ClientTool("weather", "The weather of a place.", {"type": "object", "properties": {"at": {"type": "string"}}})
IN_TIME: dict[str, Any] = {"trust": TrustServices(now_ms=lambda: VirtualClock().now_ms())}
CALL = [Call("weather", {"at": "Lisbon"})]


async def hand_in(world: World, content: str, key: str = "s") -> Any:
    lane = world.lanes.get(key)
    pending = (await lane.load_session()).pending_approval
    assert pending is not None
    assert pending.client
    return await (await lane.answer_approval(ApprovalAnswered(pending.id, "approved", result=content))).reply


def offered(world: World) -> list[str]:
    return list(world.provider.asked[-1].tools)


@virtual
async def test_a_call_is_handed_back_and_its_result_goes_on_with_the_turn() -> None:
    async with World([CALL, "22 degrees"], more=IN_TIME) as world:
        await world.lanes.get("s").record_changes(SessionChanged(guests=(WEATHER,)))
        reply = await world.ask("how warm is Lisbon?")
        assert isinstance(reply.outcome, Paused)
        assert offered(world) == ["weather"]
        asked = next(one for one in await world.journal() if isinstance(one, ApprovalAsked))
        assert (asked.client, asked.name, asked.input) == (True, "weather", '{"at":"Lisbon"}')
        reply = await hand_in(world, "22 C")
        assert (reply.text, reply.outcome) == ("22 degrees", Answered())
        (result,) = await world.results()
        assert (result.content, result.is_error) == ("22 C", False)
        assert (await world.lanes.get("s").load_session()).untrusted, "what somebody else ran comes from outside"
        await world.check_replay()


@virtual
async def test_several_calls_are_handed_back_one_after_the_other_among_the_agents_own() -> None:
    @tool(untrusted=False, sink=False)
    async def add(a: int, b: int) -> int:
        return a + b

    calls = [Call("weather", {"at": "Lisbon"}), Call("add", {"a": 1, "b": 2}), Call("weather", {"at": "Porto"})]
    async with World([calls, "done"], [add], more=IN_TIME) as world:
        await world.lanes.get("s").record_changes(SessionChanged(guests=(WEATHER,)))
        await world.ask("go")
        assert isinstance((await hand_in(world, "22 C")).outcome, Paused)
        assert (await hand_in(world, "19 C")).text == "done"
        assert [one.content for one in await world.results()] == ["22 C", "3", "19 C"]


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_it_waits_through_a_crash_and_the_tools_are_still_offered(kind: str, tmp_path: Path) -> None:
    @virtual
    async def life() -> None:
        world = World([CALL], store=make_store(kind, tmp_path), more=IN_TIME)
        await world.store.open()
        await world.lanes.get("s").record_changes(SessionChanged(guests=(WEATHER,)))
        await world.ask("how warm is Lisbon?")
        await world.crash()
        async with world.after(["22 degrees", "still here"], more=IN_TIME) as later:
            await later.lanes.resume_unfinished()
            assert (await hand_in(later, "22 C")).text == "22 degrees"
            assert offered(later) == ["weather"]

    life()


@virtual
async def test_a_client_that_continues_without_a_result_has_denied_the_call() -> None:
    async with World([CALL, "never mind"], more=IN_TIME) as world:
        await world.lanes.get("s").record_changes(SessionChanged(guests=(WEATHER,)))
        await world.ask("how warm is Lisbon?")
        assert (await world.ask("forget it")).text == "never mind"
        (result,) = await world.results()
        assert result.is_error
        with pytest.raises(ApprovalUnknown):
            await world.lanes.get("s").answer_approval(ApprovalAnswered("x", "approved", result="late"))


@virtual
async def test_a_tool_of_the_agents_own_is_never_replaced() -> None:
    ran: list[str] = []

    @tool(untrusted=False, sink=False)
    async def weather(at: str) -> str:
        ran.append(at)
        return "mine"

    async with World([CALL, "ok"], [weather]) as world:
        await world.lanes.get("s").record_changes(SessionChanged(guests=(WEATHER,)))
        await world.ask("how warm is Lisbon?")
        assert ran == ["Lisbon"]


@virtual
async def test_invalid_arguments_are_answered_at_once() -> None:
    async with World([[Call("weather", "[1]")], "sorry"]) as world:
        await world.lanes.get("s").record_changes(SessionChanged(guests=(WEATHER,)))
        assert (await world.ask("go")).text == "sorry"
        (result,) = await world.results()
        assert result.is_error
