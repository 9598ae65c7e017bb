"""Conversations on Slack's double, with the whole gateway: slash commands, and answers that grow."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.chat_world import World, running
from support.slack_platform import ANN, BEN, ROOM, Platform, SlackRig, by_socket

from mainstay import tool
from mainstay.config.schema import PolicySettings
from mainstay.core.channels import SentMessage
from mainstay.core.chat_addresses import ChatAddress
from mainstay.core.messages import FinishReason
from mainstay.core.ports import StreamFinished, TextPiece, ToolCallPiece
from mainstay.gateway import draft_stream
from mainstay.gateway.slash_commands import AMBIGUOUS_TEXT
from mainstay.providers.scripted import Pieces, Stall
from mainstay.testing.channel_rig import PostedMessage, wait_until


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


BEGINNING = "The beginning of an answer"


def written(*pieces: str | Stall) -> Pieces:
    return Pieces(
        [TextPiece(one) if isinstance(one, str) else one for one in pieces] + [StreamFinished(FinishReason.END)]
    )


def chat_calls(rig: SlackRig) -> list[str]:
    return [method.removeprefix("chat.") for method, _ in rig.platform.calls if method.startswith("chat.")]


async def answered(rig: SlackRig, world: World, thread: str) -> PostedMessage:
    """Return the one message that the answer became."""
    await world.told(world.session(rig, ROOM, thread))
    (shown,) = await rig.posted_messages(ROOM)
    assert not rig.platform.streams, "no stream is left open"
    return shown


async def test_an_answer_grows_in_a_stream_of_slacks_and_is_not_edited(tmp_path: Path) -> None:
    """GUPPY-041"""
    first, second = Stall(), Stall()
    async with by_socket() as rig:
        world = World(tmp_path, rig, script=[written(BEGINNING, first, ", its **middle**", second, " and its end.")])
        async with running(world):
            thread = await rig.send_message(ROOM, "tell me", mention=True)
            begun = await world.shown(rig, ROOM, BEGINNING)
            assert begun.thread == thread
            first.release()
            await world.shown(rig, ROOM, "middle")
            second.release()
            shown = await answered(rig, world, thread)
            assert shown.text == f"{BEGINNING}, its **middle** and its end."
            assert not shown.edited
            assert chat_calls(rig) == ["startStream", "appendStream", "stopStream"]


async def test_an_answer_with_a_link_goes_on_as_a_message_that_is_edited(tmp_path: Path) -> None:
    stall = Stall()
    async with by_socket() as rig:
        world = World(tmp_path, rig, script=[written(BEGINNING, stall, ": https://example.com/?q=1 has it.")])
        async with running(world):
            thread = await rig.send_message(ROOM, "tell me", mention=True)
            await world.shown(rig, ROOM, BEGINNING)
            stall.release()
            assert "https://example.com" in (await answered(rig, world, thread)).text
            assert "example.com" not in str([one for one in rig.platform.calls if one[0].endswith("Stream")])


@pytest.mark.parametrize("at", ["stream recorded", "stream not recorded"])
async def test_after_a_crash_an_answer_ends_in_the_stream_that_was_open(tmp_path: Path, at: str) -> None:
    stall = Stall()
    script = iter([written(BEGINNING, stall), written("All of the answer, said again.")])
    async with by_socket() as rig, running(World(tmp_path, rig, script=lambda context, options: next(script))) as world:
        if at == "stream not recorded":  # the process ends before it hears of the stream
            start = rig.channel.start_stream

            async def start_and_hang(to: ChatAddress, text: str, *, asker: str, key: str) -> SentMessage | None:
                await start(to, text, asker=asker, key=key)
                await Stall().hold()
                return None

            rig.channel.start_stream = start_and_hang  # type: ignore[method-assign]
        thread = await rig.send_message(ROOM, "tell me", mention=True)
        begun = await world.shown(rig, ROOM, BEGINNING)
        await world.restart()
        shown = await answered(rig, world, thread)
        assert (shown.id, shown.text) == (begun.id, "All of the answer, said again.")


async def test_a_stream_ends_before_slack_would_end_it_with_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While a tool runs, nothing is said for long."""
    monkeypatch.setattr(draft_stream, "IDLE_S_MAX", 0.05)
    working = Stall()
    has_ended = False

    @tool(effect="pure", untrusted=False, sink=False)
    async def look_up() -> str:
        """Look it up."""
        nonlocal has_ended
        try:
            await working.released.wait()
        finally:
            has_ended = True
        return "42"

    called = Pieces([TextPiece(BEGINNING), ToolCallPiece(0, "look_up", "{}"), StreamFinished(FinishReason.TOOL_CALLS)])
    async with by_socket() as rig:
        world = World(tmp_path, rig, script=[called, "It is 42."])
        world.tools = [look_up]
        async with running(world):
            thread = await rig.send_message(ROOM, "tell me", mention=True)
            await wait_until(lambda: "stopStream" in chat_calls(rig), "the stream has ended")
            assert not has_ended, "it ended although the tool was still running"
            working.release()
            assert (await answered(rig, world, thread)).text == f"{BEGINNING}\n\nIt is 42."


async def test_a_stream_ends_while_an_approval_is_waited_for(tmp_path: Path) -> None:
    @tool(effect="unsafe", untrusted=False, sink=False)
    async def launch() -> str:
        """Launch."""
        return "launched"

    stall = Stall()
    call = ToolCallPiece(0, "launch", "{}")
    called = Pieces([TextPiece(BEGINNING), stall, call, StreamFinished(FinishReason.TOOL_CALLS)])
    async with by_socket() as rig:
        world = World(tmp_path, rig, script=[called, "It is up."])
        world.tools, world.config = [launch], {"policy": PolicySettings(ask=("launch",))}
        async with running(world):
            thread = await rig.send_message(ROOM, "go", mention=True)
            await world.shown(rig, ROOM, BEGINNING)
            stall.release()
            await world.shown(rig, ROOM, "/approve")
            assert not rig.platform.streams
            await rig.send_message(ROOM, "/approve", thread=thread)
            await world.told(world.session(rig, ROOM, thread))
            assert f"{BEGINNING}\n\nIt is up." in [one.text for one in await rig.posted_messages(ROOM)]
