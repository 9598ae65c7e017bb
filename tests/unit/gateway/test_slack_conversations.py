"""Conversations on Slack's double, with the whole gateway: slash commands, and answers that grow."""

from __future__ import annotations

from pathlib import Path

from support.chat_world import World, running
from support.slack_platform import ANN, BEN, ROOM, Platform, SlackRig, by_socket

from mainstay.gateway.command_target import AMBIGUOUS_TEXT
from mainstay.providers.scripted import Stall
from mainstay.testing.channel_rig import wait_until


def slash(platform: Platform, command: str, user: str = ANN, room: str = ROOM) -> None:
    """What Slack sends for a slash command, wherever it was typed: no thread."""
    payload = {"command": command.split()[0], "text": command.partition(" ")[2], "channel_id": room, "user_id": user}
    platform.envelope("slash_commands", payload | {"trigger_id": f"t{platform.stamp()}", "user_name": "ann"})


async def whispered(rig: SlackRig, count: int) -> list[tuple[str, str, str]]:
    await wait_until(lambda: len(rig.platform.ephemerals) >= count, f"{count} ephemeral messages")
    return [(one["channel"], one["user"], one["text"]) for one in rig.platform.ephemerals]


async def test_the_slash_commands_stop_and_steer_find_the_thread_and_only_their_sender_sees_the_reply(
    tmp_path: Path,
) -> None:
    """GUPPY-023, GUPPY-024"""
    stalls = [Stall(), Stall(), Stall()]
    script = [stalls[0], stalls[1], stalls[2], "In French, then."]
    async with by_socket() as rig, running(World(tmp_path, rig, script=script)) as world:
        thread = await rig.send_message(ROOM, "first", mention=True)
        await stalls[0].reached.wait()
        slash(rig.platform, "/steer in French, please")
        assert await whispered(rig, 1) == [(ROOM, ANN, "Steering…")]
        slash(rig.platform, "/stop")
        assert (await whispered(rig, 2))[1:] == [(ROOM, ANN, "Stopped.")]
        await world.told(world.session(rig, ROOM, thread))
        slash(rig.platform, "/stop")
        assert (await whispered(rig, 3))[2:] == [(ROOM, ANN, "Nothing is running.")]
        assert not [one for one in await rig.posted_messages(ROOM) if one.text in ("Stopped.", "Steering…")]


async def test_of_several_threads_a_slash_command_means_the_persons_own_or_says_that_it_cannot_tell(
    tmp_path: Path,
) -> None:
    stalls = [Stall() for _ in range(3)]
    script = iter(stalls)
    async with by_socket() as rig:
        world = World(tmp_path, rig, script=lambda context, options: next(script))
        async with running(world):
            first = await rig.send_message(ROOM, "of Ann", mention=True)
            await stalls[0].reached.wait()
            second = await rig.send_message(ROOM, "of Ben", user=BEN, mention=True)
            await stalls[1].reached.wait()
            slash(rig.platform, "/stop", BEN)
            assert await whispered(rig, 1) == [(ROOM, BEN, "Stopped.")]
            await world.told(world.session(rig, ROOM, second))
            await rig.send_message(ROOM, "of Ann again", mention=True)
            await stalls[2].reached.wait()
            slash(rig.platform, "/stop")
            assert (await whispered(rig, 2))[1:] == [(ROOM, ANN, AMBIGUOUS_TEXT)]
            agent = await world.agent()
            assert (await agent.sessions.get(world.session(rig, ROOM, first))).unfinished
