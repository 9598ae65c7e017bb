"""Whole conversations on a platform: from a user's message to the answer that they see, and no more than that.

class TestMyChannel(ConversationSuite):
    def make(self, where: Path) -> AbstractAsyncContextManager[Rig]: ...

The rig is that of `mainstay.testing.channel_suite`; behind it are a real gateway, a real agent and a script as model.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from mainstay.core.tool_ports import OutgoingMessage
from mainstay.testing.channel_rig import ChannelRig, ChannelSuiteBase, PostedMessage, eventually, skip_unless
from support.chat_world import World, running

LONG = "\n\n".join(f"Paragraph {number}: " + "words and more words " * 12 for number in range(40))


class ConversationSuite(ChannelSuiteBase):
    """What people see of the agent; `make` is the one thing a subclass must say."""

    @asynccontextmanager
    async def world(self, where: Path) -> AsyncIterator[tuple[World, ChannelRig]]:
        async with self.make(where) as rig, running(World(where / "world", rig, script=_script)) as world:
            yield world, rig

    async def test_a_mention_is_answered_in_its_room_and_a_repeated_one_once(self, tmp_path: Path) -> None:
        async with self.world(tmp_path) as (world, rig):
            id = await rig.send_message(rig.room, "how are you?", mention=True)
            answer = await world.shown(rig, rig.room, "how are you?")
            await rig.redeliver(id)
            await rig.send_message(rig.room, "and now?", mention=True)
            await world.shown(rig, rig.room, "and now?")
            shown = await rig.posted_messages(rig.room)
            assert sum("how are you?" in one.text for one in shown) == 1
            if rig.channel.capabilities.threads:
                thread = await eventually(lambda: _session(world, answer.thread), "its session is there")
                assert [one.turn for one in await world.told(thread)] == [1]

    async def test_a_thread_is_followed(self, tmp_path: Path) -> None:
        async with self.world(tmp_path) as (world, rig):
            skip_unless(rig.channel.capabilities.threads, "threads")
            await rig.send_message(rig.room, "hello", mention=True)
            answer = await world.shown(rig, rig.room, "hello")
            await rig.send_message(rig.room, "without naming you", thread=answer.thread)
            assert (await world.shown(rig, rig.room, "without naming you")).thread == answer.thread

    async def test_unknown_users_get_only_a_code(self, tmp_path: Path) -> None:
        async with self.world(tmp_path) as (world, rig):
            skip_unless(bool(rig.direct_room), "direct messages")
            world.people.set_declared((), ())
            await rig.send_message(rig.direct_room, "let me in")
            await world.shown(rig, rig.direct_room, "Your code is")
            assert len(await rig.posted_messages(rig.direct_room)) == 1
            assert not world.models["main"].asked

    async def test_an_answer_with_an_unknown_delivery_is_shown_once(self, tmp_path: Path) -> None:
        """F45"""
        async with self.world(tmp_path) as (world, rig):
            await rig.accept_then_drop()
            await rig.send_message(rig.room, "short", mention=True)
            session = await eventually(lambda: _session(world), "its session is there")
            (receipt,) = await world.told(session)
            assert sum("re: " in one.text for one in await rig.posted_messages(rig.room)) == 1
            assert receipt.state == ("unknown" if rig.channel.capabilities.idempotency == "none" else "sent")

    async def test_a_platforms_retry_time_is_respected(self, tmp_path: Path) -> None:
        async with self.world(tmp_path) as (world, rig):
            await rig.limit_rate(1)
            await rig.send_message(rig.room, "short", mention=True)
            await world.shown(rig, rig.room, "re: ")
            session = await eventually(lambda: _session(world), "its session is there")
            assert [one.state for one in await world.told(session)] == ["sent"]
            assert len(await rig.posted_messages(rig.room)) == 1

    async def test_a_long_answer_comes_in_pieces_in_order(self, tmp_path: Path) -> None:
        async with self.world(tmp_path) as (world, rig):
            await rig.send_message(rig.room, "at length, please", mention=True)
            session = await eventually(lambda: _session(world), "its session is there")
            await world.told(session)
            told = "".join(one.text for one in await rig.posted_messages(rig.room))
            places = [told.find(f"Paragraph {number}:") for number in range(40)]
            assert -1 not in places
            assert places == sorted(places)

    async def test_a_file_goes_there(self, tmp_path: Path) -> None:
        async with self.world(tmp_path) as (world, rig):
            skip_unless(rig.channel.capabilities.files, "files")
            await rig.send_message(rig.room, "hello", mention=True)
            session = await eventually(lambda: _session(world), "its session is there")
            await world.told(session)
            (tmp_path / "numbers.txt").write_text("42")
            sent = OutgoingMessage(
                to="", text="here", files=(str(tmp_path / "numbers.txt"),), session=session, key="call-1"
            )
            await world.board.send("main", sent)

            async def look() -> PostedMessage | None:
                return next((one for one in await rig.posted_messages(rig.room) if one.files), None)

            shown = await eventually(look, "the file is shown")
            assert shown.files == (("numbers.txt", b"42"),)


def _script(context, options):  # type: ignore[no-untyped-def]
    said = context.messages[-1].text.strip()
    return LONG if "at length" in said else f"re: {said.splitlines()[-1]}"


async def _session(world: World, thread: str = "") -> str | None:
    """The conversation that has had a turn."""
    found = [one.key for one in await (await world.agent()).sessions.list() if one.turns]
    return next((key for key in found if key.endswith(f":{thread}") or not thread), None)
