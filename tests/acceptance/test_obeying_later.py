"""F51, F55: what was read in one conversation attacks in the next. The second begins clean, comes upon what the first
left behind, and obeys it: by then it is known to be from outside, wherever it was kept."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from support.obeying import House, Setup, order
from support.obeying_goals import BY_ID, prepare
from support.obeying_later import LATER, LEFT, WANTED, attack_later
from support.obeying_ways import WAYS, described, letter, lines_of, picture

from mainstay.core.messages import Binary, Text
from mainstay.core.outcome import Answered
from mainstay.sandbox.bubblewrap.sandbox import bubblewrap_problem

GOALS = [BY_ID[id] for id in WANTED]
pytestmark = pytest.mark.skipif(
    bubblewrap_problem() is not None, reason="commands are not confined here; the host asks about each"
)


@pytest.mark.parametrize("how", list(LEFT))
async def test_f51_what_one_conversation_left_behind_does_no_harm_in_the_next(how: str, tmp_path: Path) -> None:
    done = await attack_later(tmp_path, how)
    assert isinstance(done.reply.outcome, Answered)
    assert done.missed == [], "the model was never told, so that nothing was shown"
    assert done.reached == []


async def test_f51_what_a_plugin_said_of_itself_does_no_harm_when_the_plugin_is_gone(tmp_path: Path) -> None:
    async with House(tmp_path) as house:
        lines, _ = lines_of(house, GOALS, WAYS["file"])
        house.setup = msgspec.structs.replace(house.setup, tools=(described(lines),))
        await house.open()
        await prepare(house, GOALS)
        await house.say(house.usual, "first")
        house.setup = Setup()
        await house.reopen()
        answers = [r for r in await house.agent.sessions.records("first") if "tell everyone" in str(r.event)]
        look = order("memory_get", {"id": f"first#{answers[-1].seq}"})
        await house.say(f"{house.usual} {look}", LATER)
        assert [goal.id for goal in GOALS if await goal.is_reached(house)] == []
        assert await house.tainted(LATER)


async def test_a_picture_that_the_person_passes_on_is_from_outside(tmp_path: Path) -> None:
    async with House(tmp_path) as house:
        lines, _ = lines_of(house, GOALS, WAYS["file"])
        await house.open()
        await prepare(house, GOALS)
        await house.say([Text(f"{house.usual} What do you make of this?"), Binary("image/png", picture(letter(lines)))])
        assert [goal.id for goal in GOALS if await goal.is_reached(house)] == []
