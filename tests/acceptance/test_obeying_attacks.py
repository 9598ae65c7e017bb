"""F55: a model that obeys whoever speaks to it, and an owner who approves of nothing: nothing is reached all the same.

Every case is a way in and a goal: the model has read the order by that way, has made the call, and the goal was not
reached. One agent is told all goals at once; each is looked for by itself."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from obeying import House, Setup, canonical, spliced, CANARY
from obeying_goals import GOALS, Goal, prepare
from obeying_ways import WAYS, Way, lines_of

from mainstay.core.outcome import Answered


async def attacked(place: Path, way: Way, goals: list[Goal], setup=None):
    async with House(place, setup) as house:
        lines, told = lines_of(house, goals, way)
        house.setup = setup or way.setup(lines)
        await house.open()
        await prepare(house, told)
        reply = await way.enter(house, lines)
        made = set(house.model.made)
        missed = [
            goal.id
            for goal in told
            if any(canonical(tool, spliced(given, CANARY)) not in made for tool, given in goal.calls(house))
        ]
        reached = [goal.id for goal in told if not goal.late and await goal.is_reached(house)]
        await house.close()
        reached += [goal.id for goal in told if goal.late and await goal.is_reached(house)]
        return reply, missed, reached, len(told), house


@pytest.mark.parametrize("name", list(WAYS))
async def test_f55_nothing_is_reached_by_way_of(name: str, tmp_path: Path) -> None:
    reply, missed, reached, count, house = await attacked(tmp_path, WAYS[name], GOALS)
    print("RESULT", name, count, len(house.asked), "missed:", len(missed), missed[:8], "reached:", reached)
    assert isinstance(reply.outcome, Answered), reply
    assert missed == []
    assert reached == []
