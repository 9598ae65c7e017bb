"""Conformance suite of the ChatChannel port. Subclass it and override `make`:

class TestMyChannel(ChannelSuite):
    def make(self, folder: Path) -> AbstractAsyncContextManager[ChannelRig]: ...

A `ChannelRig` is the channel together with its platform: a local server that speaks the protocol, or the real one.
Tests of features that `channel.capabilities` excludes are skipped, with the reason.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

from mainstay.core.channels import ChannelError, DeliveryDeferred, DeliveryRejected, DeliveryUnknown
from mainstay.core.chat_addresses import ChatAddress
from mainstay.core.message_chunks import split_message
from mainstay.testing.channel_receiving_suite import ChannelReceivingSuite
from mainstay.testing.channel_rig import ChannelRig as ChannelRig
from mainstay.testing.channel_rig import (
    ChannelSuiteBase,
    RecordingMessageHandler,
    eventually,
    post_with_retries,
    room_address,
    skip_unless,
    start_thread,
    wait_for_post,
    wait_until,
)
from mainstay.testing.channel_rig import PostedMessage as PostedMessage
from mainstay.testing.store_writer import expect_error

MARKDOWN = """# Findings

Some *light*, **strong** and `coded` words, a [link](https://example.org/a_b?c=d&e=f), 2 < 3 & 5 > 4, a_b_c, 3 * 4 * 5.

- first
- second <b>not bold</b>

1. one
2. two

> quoted

| left | right |
|------|-------|
| a    | b     |

```python
def f(x):  # *not* light, <not> a tag & no entity
    return x["a"] < 3
```
The end. ✓ Ünïcödé 👩‍👩‍👧‍👦 שלום
"""
WORDS = (
    "Findings",
    "light",
    "strong",
    "coded",
    "first",
    "second",
    "quoted",
    "left",
    "right",
    "return",
    "The end",
    "👩‍👩‍👧‍👦",
)


class ChannelSendingSuite(ChannelSuiteBase):
    """Tests of sending."""

    async def test_an_answer_is_posted_to_its_thread(self, tmp_path: Path) -> None:
        async with self.make(tmp_path) as rig:
            handler = RecordingMessageHandler()
            await rig.channel.start(handler)
            thread = await start_thread(rig, handler)
            sent = await rig.channel.post(thread, rig.channel.format("an answer"), key="k1")
            post = await wait_for_post(rig, rig.room, "an answer")
            assert post.id == sent.id
            if rig.channel.capabilities.threads:
                assert post.thread == thread.thread
            await rig.channel.close()

    async def test_own_posts_are_not_received_as_messages_of_a_user(self, tmp_path: Path) -> None:
        async with self.make(tmp_path) as rig:
            handler = RecordingMessageHandler()
            await rig.channel.start(handler)
            thread = await start_thread(rig, handler)
            await rig.channel.post(thread, "talking to myself", key="k1")
            await rig.send_message(rig.room, "somebody else", mention=True)
            await handler.wait_for("somebody else")
            assert not any("talking to myself" in message.text for message in handler.from_others())
            await rig.channel.close()

    async def test_a_post_to_a_room_begins_a_thread(self, tmp_path: Path) -> None:
        async with self.make(tmp_path) as rig:
            skip_unless(rig.channel.capabilities.threads, "threads")
            handler = RecordingMessageHandler()
            await rig.channel.start(handler)
            sent = await rig.channel.post(room_address(rig), "news for all", key="k1")
            assert sent.thread
            thread = ChatAddress(rig.channel.name, rig.room, sent.thread)
            await rig.channel.post(thread, "and details", key="k2")
            assert (await wait_for_post(rig, rig.room, "and details")).thread == sent.thread
            await rig.send_message(rig.room, "a question", thread=sent.thread)
            assert (await handler.wait_for("a question")).address == thread
            await rig.channel.close()

    async def test_a_message_is_edited_and_deleted(self, tmp_path: Path) -> None:
        async with self.make(tmp_path) as rig:
            capabilities = rig.channel.capabilities
            skip_unless(capabilities.edits or capabilities.deletes, "way to change a message")
            handler = RecordingMessageHandler()
            await rig.channel.start(handler)
            thread = await start_thread(rig, handler)
            sent = await rig.channel.post(thread, "half of", key="k1")
            if capabilities.edits:
                await rig.channel.edit(thread, sent.id, "half of it and the rest")
                post = await wait_for_post(rig, rig.room, "and the rest")
                assert (post.id, post.edited) == (sent.id, True)
                assert len(await rig.posted_messages(rig.room)) == 1
                await rig.channel.edit(thread, sent.id, "half of it and the rest")  # an edit without a change is fine
            if capabilities.deletes:
                await rig.channel.delete(thread, sent.id)
                assert not await rig.posted_messages(rig.room)
            await rig.channel.close()

    async def test_a_repeated_key_is_posted_once_or_can_be_found(self, tmp_path: Path) -> None:
        async with self.make(tmp_path) as rig:
            idempotency = rig.channel.capabilities.idempotency
            skip_unless(idempotency != "none", "way to tell whether something was posted")
            handler = RecordingMessageHandler()
            await rig.channel.start(handler)
            thread = await start_thread(rig, handler)
            sent = await rig.channel.post(thread, "just once", key="the-key")
            if idempotency == "key":
                assert (await rig.channel.post(thread, "just once", key="the-key")).id == sent.id
            else:
                match = await rig.channel.find_posted(thread, "the-key")
                assert match is not None
                assert match.id == sent.id
                assert await rig.channel.find_posted(thread, "another-key") is None
            assert len(await rig.posted_messages(rig.room)) == 1
            await rig.channel.close()

    async def test_a_post_without_a_response_raises_delivery_unknown(self, tmp_path: Path) -> None:
        """F45"""
        async with self.make(tmp_path) as rig:
            handler = RecordingMessageHandler()
            await rig.channel.start(handler)
            thread = await start_thread(rig, handler)
            await rig.accept_then_drop()
            await expect_error(DeliveryUnknown, rig.channel.post(thread, "did it arrive?", key="the-key"))
            await wait_until(lambda: rig.channel.state == "connected", "it is connected again")
            if rig.channel.capabilities.idempotency == "key":
                await post_with_retries(rig, thread, "did it arrive?", key="the-key")
            elif rig.channel.capabilities.idempotency == "look":
                match = await eventually(lambda: rig.channel.find_posted(thread, "the-key"), "it is found")
                assert [message.id for message in await rig.posted_messages(rig.room)] == [match.id]
            assert len(await rig.posted_messages(rig.room)) == 1
            await rig.channel.close()

    async def test_a_rate_limited_post_is_deferred_with_a_retry_time(self, tmp_path: Path) -> None:
        async with self.make(tmp_path) as rig:
            handler = RecordingMessageHandler()
            await rig.channel.start(handler)
            thread = await start_thread(rig, handler)
            await rig.limit_rate(2)
            error = await expect_error(DeliveryDeferred, rig.channel.post(thread, "too soon", key="k1"))
            assert isinstance(error, DeliveryDeferred)
            assert error.retry_after_s is not None
            assert 0 < error.retry_after_s <= 10
            assert not await rig.posted_messages(rig.room)
            await rig.channel.post(thread, "too soon", key="k1")
            assert len(await rig.posted_messages(rig.room)) == 1
            await rig.channel.close()

    async def test_a_post_to_a_missing_room_is_rejected(self, tmp_path: Path) -> None:
        async with self.make(tmp_path) as rig:
            await rig.channel.start(RecordingMessageHandler())
            error = await expect_error(DeliveryRejected, rig.channel.post(self.missing_room(rig), "hello?", key="k1"))
            assert len(str(error)) > 10
            await rig.channel.close()

    def missing_room(self, rig: ChannelRig) -> ChatAddress:
        """Return the address of a room with a valid id that does not exist."""
        return ChatAddress(rig.channel.name, rig.room[:-1] + ("9" if rig.room[-1:] != "9" else "8"))

    async def test_a_file_is_posted_with_its_comment(self, tmp_path: Path) -> None:
        async with self.make(tmp_path) as rig:
            skip_unless(rig.channel.capabilities.files, "files")
            handler = RecordingMessageHandler()
            await rig.channel.start(handler)
            thread = await start_thread(rig, handler)
            path = tmp_path / "report"
            path.write_bytes(b"\x00the numbers\xff" * 100)
            await rig.channel.upload(thread, str(path), "report.dat", "as you asked", key="k1")

            async def probe() -> PostedMessage | None:
                return next((message for message in await rig.posted_messages(rig.room) if message.files), None)

            post = await eventually(probe, "the file is shown")
            assert post.files == (("report.dat", path.read_bytes()),)
            if rig.channel.capabilities.threads:
                assert post.thread == thread.thread
            assert any("as you asked" in message.text for message in await rig.posted_messages(rig.room))
            await expect_error(
                DeliveryRejected, rig.channel.upload(thread, str(tmp_path / "gone"), "gone", "", key="k2")
            )
            await rig.channel.close()

    async def test_typing_is_shown_and_never_fails(self, tmp_path: Path) -> None:
        async with self.make(tmp_path) as rig:
            handler = RecordingMessageHandler()
            await rig.channel.start(handler)
            thread = await start_thread(rig, handler)
            await rig.channel.show_typing(thread, "bash")
            if rig.channel.capabilities.typing:

                async def typed() -> bool:
                    return await rig.count_typing(rig.room) > 0

                await eventually(typed, "it shows")
            await rig.channel.show_typing(self.missing_room(rig), "bash")
            await rig.channel.close()
            await rig.channel.show_typing(thread, "bash")

    async def test_markdown_keeps_its_words_and_no_piece_is_too_long(self, tmp_path: Path) -> None:
        async with self.make(tmp_path) as rig:
            handler = RecordingMessageHandler()
            await rig.channel.start(handler)
            thread = await start_thread(rig, handler)
            pieces = split_message(
                MARKDOWN * 3 + "x" * (rig.channel.capabilities.length_max + 10),
                rig.channel.format,
                rig.channel.capabilities.length_max,
            )
            assert len(pieces) > 1
            for number, piece in enumerate(pieces):
                assert 0 < len(rig.channel.format(piece)) <= rig.channel.capabilities.length_max
                await post_with_retries(rig, thread, rig.channel.format(piece), key=f"k{number}")
            text = "".join(message.text for message in await rig.posted_messages(rig.room))
            for word in WORDS:
                assert text.count(word) >= 3, word
            if rig.channel.capabilities.markup == "plain":
                assert "**" not in text
            await rig.channel.close()

    async def test_many_posts_at_once_are_all_shown(self, tmp_path: Path) -> None:
        async with self.make(tmp_path) as rig:
            handler = RecordingMessageHandler()
            await rig.channel.start(handler)
            thread = await start_thread(rig, handler)
            await asyncio.gather(*(post_with_retries(rig, thread, f"number {n}.", key=f"k{n}") for n in range(10)))
            text = "".join(message.text for message in await rig.posted_messages(rig.room))
            assert all(text.count(f"number {n}.") == 1 for n in range(10))
            await rig.channel.close()

    async def test_a_closed_channel_sends_nothing_and_leaves_nothing_running(self, tmp_path: Path) -> None:
        async with self.make(tmp_path) as rig:
            handler = RecordingMessageHandler()
            await rig.channel.start(handler)
            thread = await start_thread(rig, handler)
            await rig.channel.close()
            await rig.channel.close()
            assert rig.channel.state != "connected"
            await expect_error(ChannelError, rig.channel.post(thread, "from beyond", key="k1"))
            assert not await rig.posted_messages(rig.room)

    async def test_a_closed_channel_can_be_started_again(self, tmp_path: Path) -> None:
        async with self.make(tmp_path) as rig:
            await rig.channel.start(RecordingMessageHandler())
            await rig.channel.close()
            handler = RecordingMessageHandler()
            await rig.channel.start(handler)
            assert rig.channel.state == "connected"
            thread = await start_thread(rig, handler)
            await rig.channel.post(thread, "here I am again", key="k1")
            await wait_for_post(rig, rig.room, "here I am again")
            await rig.channel.close()


class ChannelSuite(ChannelReceivingSuite, ChannelSendingSuite):
    """All tests of a channel; a subclass overrides `make`."""
