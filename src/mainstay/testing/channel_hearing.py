"""What every ChatChannel must do with what comes in; a part of `channel_suite`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from mainstay.core.channels import ChannelError
from mainstay.testing.channel_rig import (
    Ear,
    Stage,
    eventually,
    heard_again,
    needs,
    post_again,
    posted,
    room_of,
    thread_of,
    turns_true,
)
from mainstay.testing.writing import expect


class HearingSuite(Stage):
    """What comes in."""

    async def test_a_message_is_heard_with_who_said_it_where_and_when(self, tmp_path: Path) -> None:
        async with self.make(tmp_path) as rig:
            ear = Ear()
            await rig.channel.start(ear)
            assert rig.channel.state == "connected"
            id = await rig.say(rig.room, "hello, it is *me* & <you> 👋", mention=True)
            heard = await ear.until("hello")
            assert heard.id == id
            assert (heard.address.channel, heard.address.room) == (rig.channel.name, rig.room)
            assert heard.user == rig.user
            assert heard.text == "hello, it is *me* & <you> 👋", "as it was written, without the mention"
            assert heard.at > 1_600_000_000_000
            assert (heard.mentioned, heard.direct, heard.own) == (True, False, False)
            await rig.channel.close()

    async def test_what_does_not_name_us_is_heard_as_such(self, tmp_path: Path) -> None:
        async with self.make(tmp_path) as rig:
            ear = Ear()
            await rig.channel.start(ear)
            await rig.say(rig.room, "among ourselves", user=rig.other)
            heard = await ear.until("among ourselves")
            assert (heard.user, heard.mentioned, heard.direct) == (rig.other, False, False)
            await rig.channel.close()

    async def test_a_direct_message_is_known_as_one(self, tmp_path: Path) -> None:
        async with self.make(tmp_path) as rig:
            needs(bool(rig.direct), "direct messages")
            ear = Ear()
            await rig.channel.start(ear)
            await rig.say(rig.direct, "between us")
            heard = await ear.until("between us")
            assert heard.direct
            assert heard.address.room == rig.direct
            await rig.channel.close()

    async def test_what_is_said_in_a_thread_has_its_address(self, tmp_path: Path) -> None:
        async with self.make(tmp_path) as rig:
            needs(rig.channel.shows.threads, "threads")
            ear = Ear()
            await rig.channel.start(ear)
            begun = await thread_of(rig, ear)
            await rig.say(rig.room, "and more", user=rig.other, thread=begun.thread)
            assert (await ear.until("and more")).address == begun
            await rig.say(rig.room, "something else", mention=True)
            other = (await ear.until("something else")).address
            assert other.thread
            assert other != begun
            await rig.channel.close()

    async def test_a_message_told_twice_has_the_same_id_and_address(self, tmp_path: Path) -> None:
        async with self.make(tmp_path) as rig:
            ear = Ear()
            await rig.channel.start(ear)
            id = await rig.say(rig.room, "once only", mention=True)
            await ear.until("once only")
            await rig.redeliver(id)
            await rig.say(rig.room, "after it", mention=True)
            await ear.until("after it")
            copies = {(one.id, one.address, one.at) for one in ear.heard if one.text == "once only"}
            assert len(copies) == 1
            assert {one[0] for one in copies} == {id}
            await rig.channel.close()

    async def test_what_could_not_be_taken_in_is_heard_when_it_is_told_again(self, tmp_path: Path) -> None:
        async with self.make(tmp_path) as rig:
            ear = Ear()
            await rig.channel.start(ear)
            ear.failures = 1
            id = await rig.say(rig.room, "do not lose me", mention=True)
            await turns_true(lambda: ear.refused, "it was refused")
            await rig.redeliver(id)
            assert (await ear.until("do not lose me")).id == id
            await rig.say(rig.room, "nor me", mention=True)
            await ear.until("nor me")
            await rig.channel.close()

    async def test_what_was_said_while_nobody_listened_is_heard_later(self, tmp_path: Path) -> None:
        async with self.make(tmp_path) as rig:
            needs(rig.keeps, "memory of what nobody heard")
            ear = Ear()
            await rig.channel.start(ear)
            await rig.say(rig.room, "before", mention=True)
            await ear.until("before")
            await rig.channel.close()
            await rig.say(rig.room, "meanwhile", mention=True)
            later = Ear()
            await rig.renew().start(later)
            await later.until("meanwhile")
            await rig.channel.close()

    async def test_a_lost_connection_is_made_again(self, tmp_path: Path) -> None:
        async with self.make(tmp_path) as rig:
            ear = Ear()
            await rig.channel.start(ear)
            await rig.say(rig.room, "one", mention=True)
            at = (await ear.until("one")).address
            for number in (1, 2):
                await rig.drop_connection()
                await turns_true(lambda: rig.channel.state == "connected", "it is connected again")
                await heard_again(rig, ear, f"again {number}")
                await post_again(rig, at, f"answer {number}")
                await posted(rig, rig.room, f"answer {number}")
            await rig.channel.close()

    async def test_files_are_told_and_fetched(self, tmp_path: Path) -> None:
        async with self.make(tmp_path) as rig:
            needs(rig.channel.shows.files, "files")
            ear = Ear()
            await rig.channel.start(ear)
            content = bytes(range(256)) * 40
            await rig.say(rig.room, "look at this", mention=True, files=[("data.bin", content)])
            heard = await ear.until("look at this")
            assert [one.name for one in heard.files] == ["data.bin"]
            target = tmp_path / "fetched"
            await rig.channel.download(heard.files[0], str(target), len(content))
            assert target.read_bytes() == content
            await rig.channel.close()

    async def test_a_file_over_the_bound_is_not_fetched(self, tmp_path: Path) -> None:
        async with self.make(tmp_path) as rig:
            needs(rig.channel.shows.files, "files")
            ear = Ear()
            await rig.channel.start(ear)
            await rig.say(rig.room, "too much", mention=True, files=[("large.bin", b"x" * 50_000)])
            heard = await ear.until("too much")
            target = tmp_path / "fetched"
            await expect(ChannelError, rig.channel.download(heard.files[0], str(target), 49_999))
            assert not target.exists()
            await rig.channel.close()

    async def test_history_tells_what_was_said_the_oldest_first_with_our_own_marked(self, tmp_path: Path) -> None:
        async with self.make(tmp_path) as rig:
            needs(rig.channel.shows.history, "history")
            ear = Ear()
            await rig.channel.start(ear)
            at = await thread_of(rig, ear)
            first = await rig.say(rig.room, "second word", user=rig.other, thread=at.thread)
            await ear.until("second word")
            sent = await rig.channel.post(at, rig.channel.format("third word"), key="k3")
            last = await rig.say(rig.room, "fourth word", thread=at.thread)
            await ear.until("fourth word")
            told = await rig.channel.history(at, 0, 50)
            words = ("second word", "third word", "fourth word")
            found = [one for one in told if any(word in one.text for word in words)]
            assert [one.id for one in found] == [first, sent.id, last]
            assert [one.own for one in found] == [False, True, False]
            assert found[0].user == rig.other
            assert {one.address for one in found} == {at}
            assert len(await rig.channel.history(at, 0, 1)) == 1
            assert not [one for one in await rig.channel.history(at, found[-1].at + 60_000, 50) if one in found]
            await rig.channel.close()

    async def test_search_finds_what_was_said_in_the_room(self, tmp_path: Path) -> None:
        async with self.make(tmp_path) as rig:
            needs(rig.channel.shows.search, "search")
            ear = Ear()
            await rig.channel.start(ear)
            for text in ("the quick fox", "a lazy dog", "the fox again"):
                await rig.say(rig.room, text, mention=True)
                await ear.until(text)

            async def look() -> Sequence[str] | None:
                found = [one.text for one in await rig.channel.search(room_of(rig), "fox", 10)]
                return found if len(found) == 2 else None

            found = await eventually(look, "both are found")
            assert "again" in found[0], "the newest first"
            assert len(await rig.channel.search(room_of(rig), "fox", 1)) == 1
            await rig.channel.close()
