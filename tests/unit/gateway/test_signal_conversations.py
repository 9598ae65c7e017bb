"""A conversation on Signal, with the whole gateway, against a daemon that speaks like signal-cli."""

from __future__ import annotations

from pathlib import Path

from support.chat_world import World, running
from support.signal_platform import signal


async def test_miclaw_064_people_talk_with_the_agent_on_signal(tmp_path: Path) -> None:
    """In a direct message and in a group where it is mentioned, with a file, and on after a restart."""
    async with signal() as rig, running(World(tmp_path, rig)) as world:
        await rig.send_message(rig.direct_room, "good day")
        await world.shown(rig, rig.direct_room, "re: good day")
        await rig.send_message(rig.room, "talk among people", user=rig.other_user)
        await rig.send_message(rig.room, "the plan, please", mention=True, files=[("plan.txt", b"nine o'clock")])
        await world.shown(rig, rig.room, "the plan, please")
        (attached,) = (tmp_path / "attachments" / "main").rglob("*plan.txt")
        assert attached.read_bytes() == b"nine o'clock"
        await world.restart()
        await rig.send_message(rig.direct_room, "still there?")
        await world.shown(rig, rig.direct_room, "still there?")
        asked = world.models["main"].asked
        assert any("good day" in text for _, text in asked[-1].messages), "the same conversation"
        assert "talk among people" not in [text for _, text in asked[0].messages]
        assert len(await rig.posted_messages(rig.room)) == 1, "only the mention was answered there"
