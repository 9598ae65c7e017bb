"""Judged answers in a chat room: people read one that has passed, and never two."""

from __future__ import annotations

from pathlib import Path

from support.chat_world import World, running
from support.judge_rules import judges, spoken

from mainstay.testing import Stall
from mainstay.testing.loopback_channel import LoopbackRig


async def test_a_room_reads_only_the_answer_that_has_passed(tmp_path: Path) -> None:
    rig = LoopbackRig()
    world = World(tmp_path, rig, script=[spoken("a secret that is long enough to be shown"), spoken("the answer")])
    world.config = {"judges": judges()}
    async with running(world):
        thread = await rig.send_message("C1", "tell me", mention=True)
        await world.told(world.session(rig, "C1", thread))
        assert [one.text for one in await rig.posted_messages("C1")] == ["the answer"]
        assert not any("secret" in str(edit) for edit in rig.platform.edits)


async def test_a_draft_that_did_not_pass_becomes_the_answer_that_did(tmp_path: Path) -> None:
    rig, stall = LoopbackRig(), Stall()
    first = spoken("a secret that is long enough to be shown", stall)
    world = World(tmp_path, rig, script=[first, spoken("the answer")])
    world.config = {"judges": judges("draft")}
    async with running(world):
        thread = await rig.send_message("C1", "tell me", mention=True)
        begun = await world.shown(rig, "C1", "a secret")
        stall.release()
        (receipt,) = await world.told(world.session(rig, "C1", thread))
        shown = await rig.posted_messages("C1")
        assert [(one.id, one.text) for one in shown] == [(begun.id, "the answer")]
        assert receipt.ids == (begun.id,)


async def test_an_answer_that_never_passed_is_read_all_the_same_once(tmp_path: Path) -> None:
    rig = LoopbackRig()
    world = World(tmp_path, rig, script=[spoken("secret one, which nobody reads"), spoken("secret two")])
    world.config = {"judges": judges(corrections=1)}
    async with running(world):
        thread = await rig.send_message("C1", "tell me", mention=True)
        await world.told(world.session(rig, "C1", thread))
        assert [one.text for one in await rig.posted_messages("C1")] == ["secret two"]
