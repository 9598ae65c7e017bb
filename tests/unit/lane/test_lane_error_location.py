"""Errors carry their location: each its own session, also with a common cause."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from mainstay import Agent, Config, Limits
from mainstay.core.errors import DuplicateInput, LaneFull, RequestRefused, StoreFull, Unauthorised
from mainstay.core.messages import Text
from mainstay.core.outcome import Failed
from mainstay.core.turn_location import TurnLocation
from mainstay.gateway.home_socket import RemoteAgent, serve_socket, single_workspace_callers
from mainstay.lane.turn_attempt import add_location
from mainstay.testing import Raise, ScriptedProvider, Stall


def test_one_failure_of_a_store_is_reported_to_each_session_as_its_own() -> None:
    """A commit of many sessions fails for all of them with one error."""
    failed = StoreFull("no space left")
    one, other = add_location(failed, "a", None), add_location(failed, "b", None)
    assert (one.location, other.location, failed.location) == (TurnLocation("a"), TurnLocation("b"), None)
    assert (type(other), str(other)) == (StoreFull, "no space left")
    assert add_location(one, "b", None) is one, "whoever knew first knew best"


def test_additional_fields_of_an_error_are_kept() -> None:
    seen = add_location(DuplicateInput(7, same=False), "a", None)
    assert (seen.sequence, seen.same, seen.location) == (7, False, TurnLocation("a"))
    refused = add_location(Unauthorised("no key", details="for the operator"), "a", None)
    assert (refused.details, str(refused)) == ("for the operator", "no key")


async def test_a_full_lane_names_its_session_here_and_through_the_socket(tmp_path: Path) -> None:
    stall = Stall("done")
    config = Config(limits=Limits(mailbox_depth_max=1))
    async with (
        Agent(ScriptedProvider([stall, "next"]), home=tmp_path, config=config) as agent,
        serve_socket(single_workspace_callers(agent), tmp_path),
    ):
        turns = [asyncio.create_task(agent.run("s", "go"))]
        await stall.reached.wait()
        turns.append(asyncio.create_task(agent.run("s", "wait")))
        lane = (await agent.runtime()).lanes.get("s")
        async with asyncio.timeout(30):
            while not (await lane.load_session()).queued_inputs:
                await asyncio.sleep(0.01)
        for run in (agent.run, RemoteAgent(tmp_path).run):
            with pytest.raises(LaneFull) as full:
                await run("s", (Text("no room"),))
            assert full.value.location == TurnLocation("s")
        stall.released.set()
        await asyncio.gather(*turns)


async def test_a_turn_has_one_trace_however_often_it_is_asked_for(tmp_path: Path) -> None:
    async with Agent(ScriptedProvider([Raise(RequestRefused("no")), "other"]), home=tmp_path) as agent:
        first = await agent.run("s", "go", id="1")
        second = await agent.run("s", "go on", id="2")
    async with Agent(ScriptedProvider([]), home=tmp_path) as agent:
        assert (await agent.run("s", "go", id="1")).trace == first.trace
        assert (await agent.run("s", "go on", id="2")).trace == second.trace != first.trace
    assert isinstance(first.outcome, Failed)
    assert first.outcome.trace == first.trace
