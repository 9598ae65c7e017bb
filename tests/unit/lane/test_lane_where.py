"""Errors say where they arose: each its own session, whatever they have in common."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from mainstay import Agent, Config, Limits
from mainstay.core.errors import DuplicateInput, LaneFull, RequestRefused, StoreFull, Unauthorised
from mainstay.core.messages import Text
from mainstay.core.outcome import Failed
from mainstay.core.where import Where
from mainstay.gateway.owner import Alone, Remote, serving
from mainstay.lane.whereabouts import placed
from mainstay.testing import Raise, ScriptedProvider, Stall


def test_one_failure_of_a_store_is_told_to_each_session_as_its_own() -> None:
    """A commit of many sessions fails for all of them with one error."""
    failed = StoreFull("no space left")
    one, other = placed(failed, "a", None), placed(failed, "b", None)
    assert (one.where, other.where, failed.where) == (Where("a"), Where("b"), None)
    assert (type(other), str(other)) == (StoreFull, "no space left")
    assert placed(one, "b", None) is one, "whoever knew first knew best"


def test_what_an_error_knows_beside_its_sentence_stays_with_it() -> None:
    seen = placed(DuplicateInput(7, same=False), "a", None)
    assert (seen.sequence, seen.same, seen.where) == (7, False, Where("a"))
    refused = placed(Unauthorised("no key", details="for the operator"), "a", None)
    assert (refused.details, str(refused)) == ("for the operator", "no key")


async def test_a_full_lane_names_its_session_here_and_through_the_socket(tmp_path: Path) -> None:
    stall = Stall("done")
    config = Config(limits=Limits(mailbox_depth_max=1))
    async with (
        Agent(ScriptedProvider([stall, "next"]), home=tmp_path, config=config) as agent,
        serving(Alone(agent), tmp_path),
    ):
        turns = [asyncio.create_task(agent.run("s", "go"))]
        await stall.reached.wait()
        turns.append(asyncio.create_task(agent.run("s", "wait")))
        lane = (await agent.opened()).lanes.get("s")
        async with asyncio.timeout(30):
            while not (await lane.view()).waiting:
                await asyncio.sleep(0.01)
        for run in (agent.run, Remote(tmp_path).run):
            with pytest.raises(LaneFull) as full:
                await run("s", (Text("no room"),))
            assert full.value.where == Where("s")
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
