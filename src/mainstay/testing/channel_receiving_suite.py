"""Conformance tests of a ChatChannel for receiving messages, files, history and search; part of `channel_suite`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from mainstay.core.channels import ChannelError
from mainstay.testing.channel_rig import (
    ChannelSuiteBase,
    RecordingMessageHandler,
    eventually,
    post_with_retries,
    room_address,
    send_and_receive,
    skip_unless,
    start_thread,
    wait_for_post,
    wait_until,
)
from mainstay.testing.store_writer import expect_error


class ChannelReceivingSuite(ChannelSuiteBase):
    """Tests of receiving."""

    async def test_a_message_is_received_with_sender_address_and_time(self, tmp_path: Path) -> None:
        async with self.make(tmp_path) as rig:
            handler = RecordingMessageHandler()
            await rig.channel.start(handler)
            assert rig.channel.state == "connected"
            id = await rig.send_message(rig.room, "hello, it is *me* & <you> 👋", mention=True)
            message = await handler.wait_for("hello")
            assert message.id == id
            assert (message.address.channel, message.address.room) == (rig.channel.name, rig.room)
            assert message.user == rig.user
            assert message.text == "hello, it is *me* & <you> 👋", "as it was written, without the mention"
            assert message.at > 1_600_000_000_000
            assert (message.mentioned, message.direct, message.own) == (True, False, False)
            await rig.channel.close()

    async def test_a_message_without_a_mention_is_received_as_such(self, tmp_path: Path) -> None:
        async with self.make(tmp_path) as rig:
            handler = RecordingMessageHandler()
            await rig.channel.start(handler)
            await rig.send_message(rig.room, "among ourselves", user=rig.other_user)
            message = await handler.wait_for("among ourselves")
            assert (message.user, message.mentioned, message.direct) == (rig.other_user, False, False)
            await rig.channel.close()

    async def test_a_direct_message_is_marked_as_direct(self, tmp_path: Path) -> None:
        async with self.make(tmp_path) as rig:
            skip_unless(bool(rig.direct_room), "direct messages")
            handler = RecordingMessageHandler()
            await rig.channel.start(handler)
            await rig.send_message(rig.direct_room, "between us")
            message = await handler.wait_for("between us")
            assert message.direct
            assert message.address.room == rig.direct_room
            await rig.channel.close()

    async def test_a_message_in_a_thread_has_the_address_of_the_thread(self, tmp_path: Path) -> None:
        async with self.make(tmp_path) as rig:
            skip_unless(rig.channel.capabilities.threads, "threads")
            handler = RecordingMessageHandler()
            await rig.channel.start(handler)
            thread = await start_thread(rig, handler)
            await rig.send_message(rig.room, "and more", user=rig.other_user, thread=thread.thread)
            assert (await handler.wait_for("and more")).address == thread
            await rig.send_message(rig.room, "something else", mention=True)
            other_thread = (await handler.wait_for("something else")).address
            assert other_thread.thread
            assert other_thread != thread
            await rig.channel.close()

    async def test_a_message_delivered_twice_has_the_same_id_and_address(self, tmp_path: Path) -> None:
        async with self.make(tmp_path) as rig:
            handler = RecordingMessageHandler()
            await rig.channel.start(handler)
            id = await rig.send_message(rig.room, "once only", mention=True)
            await handler.wait_for("once only")
            await rig.redeliver(id)
            await rig.send_message(rig.room, "after it", mention=True)
            await handler.wait_for("after it")
            copies = {(copy.id, copy.address, copy.at) for copy in handler.received if copy.text == "once only"}
            assert len(copies) == 1
            assert {copy[0] for copy in copies} == {id}
            await rig.channel.close()

    async def test_a_message_that_the_handler_rejected_is_received_when_redelivered(self, tmp_path: Path) -> None:
        async with self.make(tmp_path) as rig:
            handler = RecordingMessageHandler()
            await rig.channel.start(handler)
            handler.failures_left = 1
            id = await rig.send_message(rig.room, "do not lose me", mention=True)
            await wait_until(lambda: handler.rejected, "it was refused")
            await rig.redeliver(id)
            assert (await handler.wait_for("do not lose me")).id == id
            await rig.send_message(rig.room, "nor me", mention=True)
            await handler.wait_for("nor me")
            await rig.channel.close()

    async def test_messages_sent_while_disconnected_are_received_later(self, tmp_path: Path) -> None:
        async with self.make(tmp_path) as rig:
            skip_unless(rig.delivers_missed, "delivery of messages sent while the channel is not connected")
            handler = RecordingMessageHandler()
            await rig.channel.start(handler)
            await rig.send_message(rig.room, "before", mention=True)
            await handler.wait_for("before")
            await rig.channel.close()
            await rig.send_message(rig.room, "meanwhile", mention=True)
            second_handler = RecordingMessageHandler()
            await rig.recreate_channel().start(second_handler)
            await second_handler.wait_for("meanwhile")
            await rig.channel.close()

    async def test_a_lost_connection_is_reestablished(self, tmp_path: Path) -> None:
        async with self.make(tmp_path) as rig:
            handler = RecordingMessageHandler()
            await rig.channel.start(handler)
            await rig.send_message(rig.room, "one", mention=True)
            address = (await handler.wait_for("one")).address
            for number in (1, 2):
                await rig.drop_connection()
                await wait_until(lambda: rig.channel.state == "connected", "it is connected again")
                await send_and_receive(rig, handler, f"again {number}")
                await post_with_retries(rig, address, f"answer {number}")
                await wait_for_post(rig, rig.room, f"answer {number}")
            await rig.channel.close()

    async def test_files_are_received_and_downloaded(self, tmp_path: Path) -> None:
        async with self.make(tmp_path) as rig:
            skip_unless(rig.channel.capabilities.files, "files")
            handler = RecordingMessageHandler()
            await rig.channel.start(handler)
            content = bytes(range(256)) * 40
            await rig.send_message(rig.room, "look at this", mention=True, files=[("data.bin", content)])
            message = await handler.wait_for("look at this")
            assert [file.name for file in message.files] == ["data.bin"]
            target = tmp_path / "fetched"
            await rig.channel.download(message.files[0], str(target), len(content))
            assert target.read_bytes() == content
            await rig.channel.close()

    async def test_a_file_over_the_size_limit_is_not_downloaded(self, tmp_path: Path) -> None:
        async with self.make(tmp_path) as rig:
            skip_unless(rig.channel.capabilities.files, "files")
            handler = RecordingMessageHandler()
            await rig.channel.start(handler)
            await rig.send_message(rig.room, "too much", mention=True, files=[("large.bin", b"x" * 50_000)])
            message = await handler.wait_for("too much")
            target = tmp_path / "fetched"
            await expect_error(ChannelError, rig.channel.download(message.files[0], str(target), 49_999))
            assert not target.exists()
            await rig.channel.close()

    async def test_history_returns_messages_oldest_first_with_own_messages_marked(self, tmp_path: Path) -> None:
        async with self.make(tmp_path) as rig:
            skip_unless(rig.channel.capabilities.history, "history")
            handler = RecordingMessageHandler()
            await rig.channel.start(handler)
            thread = await start_thread(rig, handler)
            first = await rig.send_message(rig.room, "second word", user=rig.other_user, thread=thread.thread)
            await handler.wait_for("second word")
            sent = await rig.channel.post(thread, rig.channel.format("third word"), key="k3")
            last = await rig.send_message(rig.room, "fourth word", thread=thread.thread)
            await handler.wait_for("fourth word")
            history = await rig.channel.history(thread, 0, 50)
            words = ("second word", "third word", "fourth word")
            messages = [message for message in history if any(word in message.text for word in words)]
            assert [message.id for message in messages] == [first, sent.id, last]
            assert [message.own for message in messages] == [False, True, False]
            assert messages[0].user == rig.other_user
            assert {message.address for message in messages} == {thread}
            assert len(await rig.channel.history(thread, 0, 1)) == 1
            later = await rig.channel.history(thread, messages[-1].at + 60_000, 50)
            assert not [message for message in later if message in messages]
            await rig.channel.close()

    async def test_search_finds_messages_of_the_room(self, tmp_path: Path) -> None:
        async with self.make(tmp_path) as rig:
            skip_unless(rig.channel.capabilities.search, "search")
            handler = RecordingMessageHandler()
            await rig.channel.start(handler)
            for text in ("the quick fox", "a lazy dog", "the fox again"):
                await rig.send_message(rig.room, text, mention=True)
                await handler.wait_for(text)

            async def probe() -> Sequence[str] | None:
                texts = [match.text for match in await rig.channel.search(room_address(rig), "fox", 10)]
                return texts if len(texts) == 2 else None

            texts = await eventually(probe, "both are found")
            assert "again" in texts[0], "the newest first"
            assert len(await rig.channel.search(room_address(rig), "fox", 1)) == 1
            await rig.channel.close()
