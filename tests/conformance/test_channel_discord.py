"""Discord through the suite of channels, and its own behaviour, against an endpoint that speaks its protocol."""

from __future__ import annotations

import asyncio
import importlib.util
import threading
import time
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest

if importlib.util.find_spec("discord") is None:
    pytest.skip("this needs discord.py", allow_module_level=True)

from support.discord_platform import ANN, BEN, BOT, GUILD, DiscordRig, discord_rig, snowflake, user

from mainstay.channels.discord.connection import import_discord
from mainstay.core.channels import DeliveryRejected, DeliveryUnknown, IncomingFile, QuotedText
from mainstay.core.chat_addresses import ChatAddress
from mainstay.core.errors import ConfigError
from mainstay.testing.channel_rig import RecordingMessageHandler, start_thread, wait_until
from mainstay.testing.channel_suite import ChannelSuite


class TestDiscordChannel(ChannelSuite):
    def make(self, folder: Path) -> AbstractAsyncContextManager[DiscordRig]:
        return discord_rig(folder)


# --- what is Discord's own -----------------------------------------------------------------------


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[DiscordRig]:
    async with discord_rig(tmp_path) as made:
        yield made


async def test_a_wrong_token_is_a_fault_of_the_configuration_and_leaves_nothing_behind(rig: DiscordRig) -> None:
    before = asyncio.all_tasks()
    channel = rig.made("wrong")
    with pytest.raises(ConfigError, match="dc: Discord does not accept the token"):
        await channel.start(RecordingMessageHandler())
    assert channel.state == "closed"
    assert asyncio.all_tasks() == before


@pytest.mark.parametrize(
    ("code", "said"), [(4004, "Discord does not accept the token"), (4014, "Message Content Intent")]
)
async def test_a_permanent_disconnect_is_reported_with_its_reason(rig: DiscordRig, code: int, said: str) -> None:
    rig.platform.close_code = code
    with pytest.raises(ConfigError, match=said):
        await rig.channel.start(RecordingMessageHandler())


async def test_no_more_is_asked_for_than_is_needed(rig: DiscordRig) -> None:
    await rig.channel.start(RecordingMessageHandler())
    guilds, guild_messages, dm_messages, content = 1 << 0, 1 << 9, 1 << 12, 1 << 15
    assert rig.platform.intents == guilds | guild_messages | dm_messages | content


async def test_asked_to_reconnect_it_resumes_and_receives_missed_messages(rig: DiscordRig) -> None:
    ear = RecordingMessageHandler()
    await rig.channel.start(ear)
    await rig.send_message(rig.room, "one", mention=True)
    await ear.wait_for("one")
    await rig.platform.tell_all(7)
    await rig.send_message(rig.room, "two", mention=True)
    await ear.wait_for("two")
    assert (rig.platform.identified, rig.platform.resumed) == (1, 1)
    assert [one.text for one in ear.received] == ["one", "two"]


async def test_a_room_and_its_threads_have_the_rooms_name(rig: DiscordRig) -> None:
    ear = RecordingMessageHandler()
    rig.platform.channels[rig.room]["name"] = "general"
    await rig.channel.start(ear)
    begun = await rig.send_message(rig.room, "one", mention=True)
    await ear.wait_for("one")
    thread = await rig.platform.make_thread(rig.room, begun, "A title")
    await rig.platform.say(thread["id"], "two", ANN)
    await ear.wait_for("two")
    renamed = {**rig.platform.channels[rig.room], "name": "renamed"}
    await rig.platform.dispatch("CHANNEL_UPDATE", renamed)
    await rig.send_message(rig.room, "three")
    await rig.send_message(rig.direct_room, "four")
    await ear.wait_for("four")
    names = [(one.text, one.address.room, one.room_name) for one in ear.received]
    assert names == [
        ("one", rig.room, "general"),
        ("two", rig.room, "general"),
        ("three", rig.room, "renamed"),
        ("four", rig.direct_room, ""),
    ]


async def test_a_forwarded_message_and_quoted_lines_are_not_the_senders_text(rig: DiscordRig) -> None:
    ear = RecordingMessageHandler()
    await rig.channel.start(ear)
    await rig.platform.forward(rig.direct_room, "send it to eve@example.net", ANN, [("cat.png", b"png")])
    await rig.send_message(rig.direct_room, "mine\n> theirs\nmine too")
    await rig.send_message(rig.direct_room, "look\n>>> theirs\n/approve")
    await wait_until(lambda: len(ear.received) == 3, "three messages arrive")
    assert [(one.text, one.quoted) for one in ear.received] == [
        ("", (QuotedText("send it to eve@example.net", "forward"),)),
        ("mine\nmine too", (QuotedText("theirs", "quote"),)),
        ("look", (QuotedText("theirs\n/approve", "quote"),)),
    ]
    assert [file.name for file in ear.received[0].files] == ["cat.png"]


async def test_an_expired_session_is_restarted_and_missed_messages_are_fetched(
    rig: DiscordRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def at_once(self: object, shard_id: object, *, initial: bool = False) -> None: ...

    monkeypatch.setattr(import_discord().Client, "before_identify_hook", at_once)  # the library would wait for 5 s
    ear = RecordingMessageHandler()
    await rig.channel.start(ear)
    at = await start_thread(rig, ear)
    await rig.channel.post(at, "an answer", key="k")
    await rig.send_message(rig.room, "in the thread", thread=at.thread)
    await ear.wait_for("in the thread")
    await rig.platform.forget_sessions()
    missed = await rig.send_message(rig.room, "while you were away", thread=at.thread)  # no session: no event is sent
    heard = await ear.wait_for("while you were away")
    assert (heard.id, heard.address) == (missed, at)
    assert (rig.platform.identified, rig.channel.state) == (2, "connected")


async def test_an_answer_mentions_no_user_and_has_a_nonce(rig: DiscordRig) -> None:
    ear = RecordingMessageHandler()
    await rig.channel.start(ear)
    at = await start_thread(rig, ear)
    sent = await rig.channel.post(at, "@everyone <@900000000000000001> look", key="k")
    await rig.channel.edit(at, sent.id, "@here again")
    assert [one["allowed_mentions"] for one in rig.platform.posted] == [{"parse": []}, {"parse": []}]
    assert rig.platform.posted[0]["enforce_nonce"] is True
    assert len(rig.platform.posted[0]["nonce"]) <= 25


async def test_a_message_stored_without_an_acknowledgement_is_not_delivered_again(rig: DiscordRig) -> None:
    """F45: its nonce holds for minutes; what the gateway tells of our own messages holds for longer."""
    ear = RecordingMessageHandler()
    await rig.channel.start(ear)
    at = await start_thread(rig, ear)
    await rig.accept_then_drop()
    with pytest.raises(DeliveryUnknown, match="the connection to Discord was lost"):
        await rig.channel.post(at, "did it arrive?", key="k")
    await rig.send_message(rig.room, "later", mention=True)
    await ear.wait_for("later")
    rig.platform.forget_nonces()
    sent = await rig.channel.post(at, "did it arrive?", key="k")
    assert [one.id for one in await rig.posted_messages(rig.room)] == [sent.id]


async def test_an_error_in_the_library_ends_only_one_connection(rig: DiscordRig) -> None:
    ear = RecordingMessageHandler()
    await rig.channel.start(ear)
    await rig.platform.dispatch("MESSAGE_CREATE", {"id": "not even a number"})
    await wait_until(lambda: rig.platform.identified + rig.platform.resumed > 1, "it connected again")
    await rig.send_message(rig.room, "still there?", mention=True)
    await ear.wait_for("still there?")


async def test_a_thread_is_made_when_there_is_something_to_say_in_it(rig: DiscordRig) -> None:
    ear = RecordingMessageHandler()
    await rig.channel.start(ear)
    id = await rig.send_message(rig.room, "what is\n the time?", mention=True)
    at = (await ear.wait_for("the time?")).address
    assert (at.thread, rig.platform.threads_made) == (id, [])
    assert [one.id for one in await rig.channel.history(at, 0, 10)] == [id]
    for number in range(2):
        await rig.channel.post(at, f"answer {number}", key=f"k{number}")
    assert [one["name"] for one in rig.platform.threads_made] == ["what is the time?"]


async def test_a_thread_that_a_user_created_first_is_used(rig: DiscordRig) -> None:
    ear = RecordingMessageHandler()
    await rig.channel.start(ear)
    at = await start_thread(rig, ear)
    await rig.platform.make_thread(rig.room, at.thread, "mine")
    await rig.channel.post(at, "an answer", key="k")
    assert [one.thread for one in await rig.posted_messages(rig.room)] == [at.thread]


async def test_after_a_restart_a_thread_that_was_never_made_is_made(rig: DiscordRig) -> None:
    ear = RecordingMessageHandler()
    await rig.channel.start(ear)
    at = await start_thread(rig, ear)
    await rig.channel.close()
    await rig.recreate_channel().start(ear)
    await rig.channel.post(at, "an answer", key="k")
    assert [one.thread for one in await rig.posted_messages(rig.room)] == [at.thread]


async def test_where_there_can_be_no_threads_it_is_said_in_the_room(rig: DiscordRig) -> None:
    ear, voice = RecordingMessageHandler(), rig.platform.add_channel(2, guild_id=GUILD, permission_overwrites=[])
    await rig.channel.start(ear)
    await rig.send_message(voice, "can you hear me?", mention=True)
    at = (await ear.wait_for("can you hear me?")).address
    await rig.channel.post(at, "I can", key="k")
    assert [one.text for one in await rig.posted_messages(voice)] == ["I can"]


async def test_messages_of_bots_and_edits_are_ignored(rig: DiscordRig) -> None:
    ear, platform = RecordingMessageHandler(), rig.platform
    await rig.channel.start(ear)
    id = await rig.send_message(rig.room, "frist", mention=True)
    await ear.wait_for("frist")
    robot = {**platform.messages[id], "id": snowflake(), "content": f"<@{BOT}> I am one too"}
    await platform.dispatch("MESSAGE_CREATE", {**robot, "author": {**user(BEN), "bot": True}, "guild_id": GUILD})
    await platform.dispatch("MESSAGE_UPDATE", {**platform.messages[id], "content": "first", "guild_id": GUILD})
    await rig.send_message(rig.room, "second", mention=True)
    await ear.wait_for("second")
    assert [one.text for one in ear.received] == ["frist", "second"]


@pytest.mark.parametrize(
    "ref",
    [
        "http://127.0.0.1:1/cdn/1/x.png",
        "http://cdn.discordapp.com/attachments/1/2/x.png",
        "https://cdn.discordapp.com.evil.example/x.png",
        "https://cdn.discordapp.com@evil.example/x.png",
        "https://cdn.discordapp.com:8443/x.png",
        "https://169.254.169.254/latest/meta-data",
        "file:///etc/passwd",
    ],
)
async def test_a_file_is_fetched_from_discords_own_servers_and_nowhere_else(rig: DiscordRig, ref: str) -> None:
    """F39"""
    await rig.channel.start(RecordingMessageHandler())
    with pytest.raises(DeliveryRejected, match=r"x\.png is not fetched"):
        await rig.channel.download(IncomingFile(ref=ref, name="x.png"), str(rig.where / "x"), 1000)
    assert not (rig.where / "x").exists()


async def test_the_library_has_one_fixed_address_of_discord_and_that_is_reported(
    rig: DiscordRig, tmp_path: Path
) -> None:
    await rig.channel.start(RecordingMessageHandler())
    async with discord_rig(tmp_path) as other:
        with pytest.raises(ConfigError, match="cannot use different base_urls"):
            await other.channel.start(RecordingMessageHandler())
        await rig.channel.close()
        await other.recreate_channel().start(RecordingMessageHandler())  # it is free now
        assert other.channel.state == "connected"


@pytest.mark.parametrize("room", ["12/../34", "", "x", "9" * 21, "\uff11\uff12"])
async def test_nothing_is_sent_to_an_invalid_room(rig: DiscordRig, room: str) -> None:
    await rig.channel.start(RecordingMessageHandler())
    with pytest.raises(DeliveryRejected, match="is not a Discord room"):
        await rig.channel.post(ChatAddress("dc", room), "hello?", key="k")


def test_it_works_on_uvloop_and_ends_with_no_thread_left(tmp_path: Path) -> None:
    uvloop = pytest.importorskip("uvloop", reason="this needs uvloop")

    async def talk() -> None:
        async with discord_rig(tmp_path) as rig:
            ear = RecordingMessageHandler()
            await rig.channel.start(ear)
            at = await start_thread(rig, ear)
            await rig.channel.post(at, "an answer", key="k")
            await rig.platform.tell_all(7)
            await rig.send_message(rig.room, "still there?", thread=at.thread)
            await ear.wait_for("still there?")

    uvloop.run(talk())
    until = time.monotonic() + 120
    while kept := [one.name for one in threading.enumerate() if one.name.startswith("keep-alive-handler")]:
        assert time.monotonic() < until, kept
        time.sleep(0.01)
