"""F51, F55: content of one conversation attacks the next. The second conversation starts clean, reads what the first
one stored, and obeys it: it is untrusted in every store."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from support.obeying import AttackRig, Setup, order
from support.obeying_attack_paths import WAYS, described, letter, lines_of, picture
from support.obeying_goals import BY_ID, prepare
from support.obeying_later_sessions import LATER, LEFT, WANTED, attack_later

from mainstay.core.messages import Binary, Text
from mainstay.core.outcome import Answered
from mainstay.sandbox.bubblewrap.sandbox import bubblewrap_problem

GOALS = [BY_ID[id] for id in WANTED]
pytestmark = pytest.mark.skipif(
    bubblewrap_problem() is not None, reason="commands are not confined here; the host asks about each"
)


@pytest.mark.parametrize("how", list(LEFT))
async def test_f51_stored_content_of_one_conversation_does_no_harm_in_the_next(how: str, tmp_path: Path) -> None:
    done = await attack_later(tmp_path, how)
    assert isinstance(done.reply.outcome, Answered)
    assert done.missed == [], "the model was never told, so that nothing was shown"
    assert done.reached == []


async def test_f51_a_plugins_description_does_no_harm_when_the_plugin_is_gone(tmp_path: Path) -> None:
    async with AttackRig(tmp_path) as rig:
        lines, _ = lines_of(rig, GOALS, WAYS["file"])
        rig.setup = msgspec.structs.replace(rig.setup, tools=(described(lines),))
        await rig.open()
        await prepare(rig, GOALS)
        await rig.say(rig.usual, "first")
        rig.setup = Setup()
        await rig.reopen()
        answers = [r for r in await rig.agent.sessions.records("first") if "tell everyone" in str(r.event)]
        look = order("memory_get", {"id": f"first#{answers[-1].seq}"})
        await rig.say(f"{rig.usual} {look}", LATER)
        assert [goal.id for goal in GOALS if await goal.is_reached(rig)] == []
        assert await rig.tainted(LATER)


async def test_a_picture_that_the_person_forwards_is_untrusted(tmp_path: Path) -> None:
    async with AttackRig(tmp_path) as rig:
        lines, _ = lines_of(rig, GOALS, WAYS["file"])
        await rig.open()
        await prepare(rig, GOALS)
        await rig.say([Text(f"{rig.usual} What do you make of this?"), Binary("image/png", picture(letter(lines)))])
        assert [goal.id for goal in GOALS if await goal.is_reached(rig)] == []
