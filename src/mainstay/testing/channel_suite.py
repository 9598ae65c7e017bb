"""What every ChatChannel must do. Subclass it, say how to make a rig, and let your test runner find the tests.

class TestMyChannel(ChannelSuite):
    def make(self, where: Path) -> AbstractAsyncContextManager[Rig]: ...

A `Rig` is the channel together with the platform's side of it: an endpoint on loopback that speaks its protocol, or
the real thing. What `channel.shows` says the platform cannot do is skipped, with the reason.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

from mainstay.core.addresses import Address
from mainstay.core.channels import ChannelError, MaybeSent, NeverSent, NotSent
from mainstay.core.chunks import chunks
from mainstay.testing.channel_hearing import HearingSuite
from mainstay.testing.channel_rig import (
    Ear,
    Stage,
    eventually,
    needs,
    post_again,
    posted,
    room_of,
    thread_of,
    turns_true,
)
from mainstay.testing.channel_rig import Rig as Rig
from mainstay.testing.channel_rig import Shown as Shown
from mainstay.testing.writing import expect

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


class SpeakingSuite(Stage):
    """What goes out."""

    async def test_an_answer_is_shown_where_it_belongs(self, tmp_path: Path) -> None:
        async with self.make(tmp_path) as rig:
            ear = Ear()
            await rig.channel.start(ear)
            at = await thread_of(rig, ear)
            sent = await rig.channel.post(at, rig.channel.format("an answer"), key="k1")
            shown = await posted(rig, rig.room, "an answer")
            assert shown.id == sent.id
            if rig.channel.shows.threads:
                assert shown.thread == at.thread
            await rig.channel.close()

    async def test_our_own_words_are_not_heard_as_somebodys(self, tmp_path: Path) -> None:
        async with self.make(tmp_path) as rig:
            ear = Ear()
            await rig.channel.start(ear)
            at = await thread_of(rig, ear)
            await rig.channel.post(at, "talking to myself", key="k1")
            await rig.say(rig.room, "somebody else", mention=True)
            await ear.until("somebody else")
            assert not any("talking to myself" in one.text for one in ear.others())
            await rig.channel.close()

    async def test_a_post_to_a_room_begins_a_thread(self, tmp_path: Path) -> None:
        async with self.make(tmp_path) as rig:
            needs(rig.channel.shows.threads, "threads")
            ear = Ear()
            await rig.channel.start(ear)
            sent = await rig.channel.post(room_of(rig), "news for all", key="k1")
            assert sent.thread
            thread = Address(rig.channel.name, rig.room, sent.thread)
            await rig.channel.post(thread, "and details", key="k2")
            assert (await posted(rig, rig.room, "and details")).thread == sent.thread
            await rig.say(rig.room, "a question", thread=sent.thread)
            assert (await ear.until("a question")).address == thread
            await rig.channel.close()

    async def test_a_message_is_edited_and_deleted(self, tmp_path: Path) -> None:
        async with self.make(tmp_path) as rig:
            shows = rig.channel.shows
            needs(shows.edits or shows.deletes, "way to change a message")
            ear = Ear()
            await rig.channel.start(ear)
            at = await thread_of(rig, ear)
            sent = await rig.channel.post(at, "half of", key="k1")
            if shows.edits:
                await rig.channel.edit(at, sent.id, "half of it and the rest")
                shown = await posted(rig, rig.room, "and the rest")
                assert (shown.id, shown.edited) == (sent.id, True)
                assert len(await rig.shown(rig.room)) == 1
                await rig.channel.edit(at, sent.id, "half of it and the rest")  # the same again is no trouble
            if shows.deletes:
                await rig.channel.delete(at, sent.id)
                assert not await rig.shown(rig.room)
            await rig.channel.close()

    async def test_the_same_key_is_posted_once_or_can_be_looked_for(self, tmp_path: Path) -> None:
        async with self.make(tmp_path) as rig:
            once = rig.channel.shows.once
            needs(once != "none", "way to tell whether something was posted")
            ear = Ear()
            await rig.channel.start(ear)
            at = await thread_of(rig, ear)
            sent = await rig.channel.post(at, "just once", key="the-key")
            if once == "key":
                assert (await rig.channel.post(at, "just once", key="the-key")).id == sent.id
            else:
                found = await rig.channel.find(at, "the-key")
                assert found is not None
                assert found.id == sent.id
                assert await rig.channel.find(at, "another-key") is None
            assert len(await rig.shown(rig.room)) == 1
            await rig.channel.close()

    async def test_a_post_whose_fate_is_unknown_says_so(self, tmp_path: Path) -> None:
        """F45"""
        async with self.make(tmp_path) as rig:
            ear = Ear()
            await rig.channel.start(ear)
            at = await thread_of(rig, ear)
            await rig.accept_then_drop()
            await expect(MaybeSent, rig.channel.post(at, "did it arrive?", key="the-key"))
            await turns_true(lambda: rig.channel.state == "connected", "it is connected again")
            if rig.channel.shows.once == "key":
                await post_again(rig, at, "did it arrive?", key="the-key")
            elif rig.channel.shows.once == "look":
                found = await eventually(lambda: rig.channel.find(at, "the-key"), "it is found")
                assert [one.id for one in await rig.shown(rig.room)] == [found.id]
            assert len(await rig.shown(rig.room)) == 1
            await rig.channel.close()

    async def test_too_soon_is_not_sent_and_says_how_long_to_wait(self, tmp_path: Path) -> None:
        async with self.make(tmp_path) as rig:
            ear = Ear()
            await rig.channel.start(ear)
            at = await thread_of(rig, ear)
            await rig.limit_rate(2)
            error = await expect(NotSent, rig.channel.post(at, "too soon", key="k1"))
            assert isinstance(error, NotSent)
            assert error.retry_after_s is not None
            assert 0 < error.retry_after_s <= 10
            assert not await rig.shown(rig.room)
            await rig.channel.post(at, "too soon", key="k1")
            assert len(await rig.shown(rig.room)) == 1
            await rig.channel.close()

    async def test_a_room_that_is_not_there_is_never_sent_to(self, tmp_path: Path) -> None:
        async with self.make(tmp_path) as rig:
            await rig.channel.start(Ear())
            error = await expect(NeverSent, rig.channel.post(self.nowhere(rig), "hello?", key="k1"))
            assert len(str(error)) > 10
            await rig.channel.close()

    def nowhere(self, rig: Rig) -> Address:
        """A room that could be, and is not."""
        return Address(rig.channel.name, rig.room[:-1] + ("9" if rig.room[-1:] != "9" else "8"))

    async def test_a_file_is_posted_with_its_comment(self, tmp_path: Path) -> None:
        async with self.make(tmp_path) as rig:
            needs(rig.channel.shows.files, "files")
            ear = Ear()
            await rig.channel.start(ear)
            at = await thread_of(rig, ear)
            path = tmp_path / "report"
            path.write_bytes(b"\x00the numbers\xff" * 100)
            await rig.channel.upload(at, str(path), "report.dat", "as you asked", key="k1")

            async def look() -> Shown | None:
                return next((one for one in await rig.shown(rig.room) if one.files), None)

            shown = await eventually(look, "the file is shown")
            assert shown.files == (("report.dat", path.read_bytes()),)
            if rig.channel.shows.threads:
                assert shown.thread == at.thread
            assert any("as you asked" in one.text for one in await rig.shown(rig.room))
            await expect(NeverSent, rig.channel.upload(at, str(tmp_path / "gone"), "gone", "", key="k2"))
            await rig.channel.close()

    async def test_being_busy_is_shown_and_never_fails(self, tmp_path: Path) -> None:
        async with self.make(tmp_path) as rig:
            ear = Ear()
            await rig.channel.start(ear)
            at = await thread_of(rig, ear)
            await rig.channel.typing(at, "bash")
            if rig.channel.shows.typing:

                async def typed() -> bool:
                    return await rig.typed(rig.room) > 0

                await eventually(typed, "it shows")
            await rig.channel.typing(self.nowhere(rig), "bash")
            await rig.channel.close()
            await rig.channel.typing(at, "bash")

    async def test_markdown_keeps_its_words_and_no_piece_is_too_long(self, tmp_path: Path) -> None:
        async with self.make(tmp_path) as rig:
            ear = Ear()
            await rig.channel.start(ear)
            at = await thread_of(rig, ear)
            pieces = chunks(
                MARKDOWN * 3 + "x" * (rig.channel.shows.length + 10), rig.channel.format, rig.channel.shows.length
            )
            assert len(pieces) > 1
            for number, piece in enumerate(pieces):
                assert 0 < len(rig.channel.format(piece)) <= rig.channel.shows.length
                await post_again(rig, at, rig.channel.format(piece), key=f"k{number}")
            told = "".join(one.text for one in await rig.shown(rig.room))
            for word in WORDS:
                assert told.count(word) >= 3, word
            if rig.channel.shows.markup == "plain":
                assert "**" not in told
            await rig.channel.close()

    async def test_many_posts_at_once_are_all_shown(self, tmp_path: Path) -> None:
        async with self.make(tmp_path) as rig:
            ear = Ear()
            await rig.channel.start(ear)
            at = await thread_of(rig, ear)
            await asyncio.gather(*(post_again(rig, at, f"number {n}.", key=f"k{n}") for n in range(10)))
            told = "".join(one.text for one in await rig.shown(rig.room))
            assert all(told.count(f"number {n}.") == 1 for n in range(10))
            await rig.channel.close()

    async def test_closed_it_sends_nothing_and_leaves_nothing_running(self, tmp_path: Path) -> None:
        async with self.make(tmp_path) as rig:
            ear = Ear()
            await rig.channel.start(ear)
            at = await thread_of(rig, ear)
            await rig.channel.close()
            await rig.channel.close()
            assert rig.channel.state != "connected"
            await expect(ChannelError, rig.channel.post(at, "from beyond", key="k1"))
            assert not await rig.shown(rig.room)


class ChannelSuite(HearingSuite, SpeakingSuite):
    """Everything that a channel promises; `make` is the one thing a subclass must say."""
