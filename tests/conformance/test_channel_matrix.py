"""Matrix through the suite of channels, and its own behaviour, against a real homeserver.

A third of it by default: what the homeserver has a say in. All of it with MAINSTAY_TEST_ALL=1; what the channel makes
of an answer is also asked in tests/unit/channels, and the suite of every other platform.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from urllib.parse import quote

import msgspec
import pytest

pytest.importorskip("nio", reason="this needs matrix-nio")

from support.chat_world import World, running
from support.matrix_platform import ANN, BEN, BOT, MatrixRig, People, matrix_rig
from support.synapse_server import synapse

from mainstay import tool
from mainstay.channels.matrix.channel import MatrixChannel
from mainstay.channels.matrix.client import TIMELINE_EVENTS_MAX, MatrixCredentials
from mainstay.config.schema import PolicySettings
from mainstay.core.channels import DeliveryDeferred, DeliveryRejected, IncomingFile
from mainstay.core.chat_addresses import ChatAddress
from mainstay.core.errors import ConfigError
from mainstay.core.ports import Context, Options
from mainstay.providers.scripted import Step
from mainstay.testing import Call
from mainstay.testing.channel_rig import (
    RecordingMessageHandler,
    eventually,
    room_address,
    start_thread,
    wait_for_post,
    wait_until,
)
from mainstay.testing.channel_suite import ChannelSuite

WHOLE = bool(os.environ.get("MAINSTAY_TEST_ALL"))
SAMPLE = {
    "test_a_post_to_a_room_begins_a_thread",
    "test_a_message_is_edited_and_deleted",
    "test_a_repeated_key_is_posted_once_or_can_be_found",
    "test_a_file_is_posted_with_its_comment",
    "test_a_message_delivered_twice_has_the_same_id_and_address",
    "test_messages_sent_while_disconnected_are_received_later",
    "test_files_are_received_and_downloaded",
    "test_history_returns_messages_oldest_first_with_own_messages_marked",
    "test_search_finds_messages_of_the_room",
}


def whole(test: Callable[..., object]) -> Callable[..., object] | None:
    """Not part of the sample."""
    return test if WHOLE else None


@pytest.fixture(scope="session")
def people(tmp_path_factory: pytest.TempPathFactory) -> Iterator[People]:
    """One homeserver for all of it, in every process that tests run in."""
    with synapse(tmp_path_factory.mktemp("synapse")) as server:
        found = People(server)
        asyncio.run(found.come())
        yield found


class TestMatrixChannel(ChannelSuite):
    people: People

    @pytest.fixture(autouse=True)
    def _people(self, people: People) -> None:
        self.people = people

    def make(self, folder: Path) -> AbstractAsyncContextManager[MatrixRig]:
        return matrix_rig(self.people, folder)


for _name in dir(ChannelSuite):
    if _name.startswith("test_") and not WHOLE and _name not in SAMPLE:
        setattr(TestMatrixChannel, _name, None)


def test_the_sample_is_of_the_suite() -> None:
    assert set(dir(ChannelSuite)) >= SAMPLE


# --- what is Matrix's own ------------------------------------------------------------------------


@pytest.fixture
async def rig(people: People, tmp_path: Path) -> AsyncIterator[MatrixRig]:
    async with matrix_rig(people, tmp_path) as made:
        yield made


def with_password(rig: MatrixRig, password: str = "agent") -> MatrixChannel:
    account = MatrixCredentials(homeserver=rig.proxy.url, user="agent", password=password)
    made = MatrixChannel(
        "mx", account, state_path=str(rig.where / "state" / "mx.json"), is_inviter_allowed=lambda user: False
    )
    rig.made_too(made)
    return made


async def test_a_password_logs_in_once_and_its_device_is_stored_privately(rig: MatrixRig) -> None:
    first = with_password(rig)
    await first.start(RecordingMessageHandler())
    await first.close()
    file = rig.where / "state" / "mx.json"
    kept = msgspec.json.decode(file.read_bytes())
    assert file.stat().st_mode & 0o777 == 0o600
    ear = RecordingMessageHandler()
    second = with_password(rig)
    await second.start(ear)
    await rig.send_message(rig.room, "still there?", mention=True)
    await ear.wait_for("still there?")
    assert msgspec.json.decode(file.read_bytes())["device"] == kept["device"]
    assert rig.proxy.asked("/login") == 1


@whole
async def test_a_token_that_is_taken_away_is_replaced_where_there_is_a_password(rig: MatrixRig) -> None:
    channel, ear = with_password(rig), RecordingMessageHandler()
    await channel.start(ear)
    kept = msgspec.json.decode((rig.where / "state" / "mx.json").read_bytes())
    await rig.people.synapse.call(kept["token"], "POST", "logout", {})
    rig.proxy.end_syncs()
    await rig.send_message(rig.room, "after the logout", mention=True)
    await ear.wait_for("after the logout")
    assert (rig.proxy.asked("/login"), channel.state) == (2, "connected")


@whole
async def test_a_wrong_token_or_password_is_a_configuration_error(rig: MatrixRig) -> None:
    account = MatrixCredentials(homeserver=rig.proxy.url, user=BOT, token="syt_wrong")
    for channel in (
        MatrixChannel("mx", account, state_path=str(rig.where / "other.json"), is_inviter_allowed=lambda user: False),
        with_password(rig, "not this"),
    ):
        with pytest.raises(ConfigError, match="mx: the account cannot be used: the homeserver answered with M_"):
            await channel.start(RecordingMessageHandler())
        assert channel.state == "closed"


@whole
async def test_a_token_of_another_account_is_not_used(rig: MatrixRig) -> None:
    account = MatrixCredentials(homeserver=rig.proxy.url, user=BOT, token=rig.people.tokens[BEN])
    channel = MatrixChannel(
        "mx", account, state_path=str(rig.where / "other.json"), is_inviter_allowed=lambda user: False
    )
    with pytest.raises(ConfigError, match="the token belongs to @ben:localhost, not to @agent:localhost"):
        await channel.start(RecordingMessageHandler())


async def test_the_name_of_a_room_is_fetched_once_and_then_followed(rig: MatrixRig) -> None:
    named = await rig.people.room(ANN, BOT, BEN, more={"name": "General"})
    ear = RecordingMessageHandler()
    await rig.channel.start(ear)
    for room, text in ((named, "one"), (named, "two"), (rig.room, "three"), (rig.room, "four"), (rig.direct_room, "5")):
        await rig.send_message(room, text, mention=True)
        await ear.wait_for(text)
    await rig.people.call(ANN, "PUT", f"rooms/{quote(named)}/state/m.room.name", {"name": "Renamed"})
    await rig.send_message(named, "six", mention=True)
    await ear.wait_for("six")
    assert [one.room_name for one in ear.received] == ["General", "General", "", "", "", "Renamed"]
    assert rig.proxy.asked("/state/m.room.name") == 2, "once for each room"


async def test_nothing_is_stored_as_read_before_it_was_handled(rig: MatrixRig) -> None:
    ear = RecordingMessageHandler()
    await rig.channel.start(ear)
    ear.failures_left = 1_000_000
    for number in range(3):
        await rig.send_message(rig.room, f"word {number}", mention=True)
    await wait_until(lambda: ear.rejected, "it was refused")
    await rig.channel.close()
    later = RecordingMessageHandler()
    await rig.recreate_channel().start(later)
    await later.wait_for("word 2")
    assert [one.text for one in later.received] == ["word 0", "word 1", "word 2"]


@whole
async def test_more_than_one_sync_tells_is_caught_up_with_in_order(rig: MatrixRig) -> None:
    ear = RecordingMessageHandler()
    await rig.channel.start(ear)
    await rig.send_message(rig.room, "before", mention=True)
    await ear.wait_for("before")
    await rig.channel.close()
    for number in range(TIMELINE_EVENTS_MAX + 5):
        await rig.send_message(rig.room, f"meanwhile {number}.")
    later = RecordingMessageHandler()
    await rig.recreate_channel().start(later)
    await later.wait_for(f"meanwhile {TIMELINE_EVENTS_MAX + 4}.")
    assert [one.text for one in later.received] == [f"meanwhile {number}." for number in range(TIMELINE_EVENTS_MAX + 5)]


async def test_an_invitation_from_a_permitted_user_is_accepted_and_their_messages_are_received(rig: MatrixRig) -> None:
    people, ear = rig.people, RecordingMessageHandler()
    await rig.channel.start(ear)
    unwelcome = await people.room(BEN, BOT, join=False)
    welcome = await people.room(ANN, join=False)
    await people.send(ANN, welcome, {"msgtype": "m.text", "body": "not for you"})
    await people.call(ANN, "POST", f"rooms/{quote(welcome)}/invite", {"user_id": BOT})
    await people.send(ANN, welcome, {"msgtype": "m.text", "body": "welcome!"})
    heard = await ear.wait_for("welcome!")
    assert (heard.address.room, heard.direct) == (welcome, True)
    joined = (await people.call(BOT, "GET", "joined_rooms"))["joined_rooms"]
    assert unwelcome not in joined
    assert not any(one.text == "not for you" for one in ear.received)
    await people.send(BEN, unwelcome, {"msgtype": "m.text", "body": "let me in"})
    rig.welcome.add(BEN)  # paired meanwhile
    rig.proxy.end_syncs()
    assert (await ear.wait_for("let me in")).address.room == unwelcome


@whole
async def test_an_encrypted_room_is_told_once_that_it_is_not_supported(rig: MatrixRig) -> None:
    ear = RecordingMessageHandler()
    await rig.channel.start(ear)
    secret = {"algorithm": "m.megolm.v1.aes-sha2", "ciphertext": "AwgA", "session_id": "x"}
    for _ in range(2):
        await rig.people.send(ANN, rig.room, secret, "m.room.encrypted")
    await wait_for_post(rig, rig.room, "end-to-end encrypted")
    await rig.channel.close()
    await rig.recreate_channel().start(ear)
    await rig.people.send(ANN, rig.room, secret, "m.room.encrypted")
    await rig.send_message(rig.room, "in plain words", mention=True)
    await ear.wait_for("in plain words")
    assert len(await rig.posted_messages(rig.room)) == 1


async def test_edits_notices_and_reactions_are_ignored_and_a_reply_is_read_without_its_quotation(
    rig: MatrixRig,
) -> None:
    people, ear = rig.people, RecordingMessageHandler()
    await rig.channel.start(ear)
    id = await rig.send_message(rig.room, "frist", mention=True)
    new = {"msgtype": "m.text", "body": "first"}
    edit = {**new, "body": "* first", "m.new_content": new, "m.relates_to": {"rel_type": "m.replace", "event_id": id}}
    await people.send(ANN, rig.room, edit)
    await people.send(BEN, rig.room, {"msgtype": "m.notice", "body": "The Agent: I am a program too"})
    reaction = {"m.relates_to": {"rel_type": "m.annotation", "event_id": id, "key": "👍"}}
    await people.send(BEN, rig.room, reaction, "m.reaction")
    reply = {"msgtype": "m.text", "body": f"> <{ANN}> frist\n> of all\n\n@agent:localhost, and second"}
    await people.send(BEN, rig.room, {**reply, "m.relates_to": {"m.in_reply_to": {"event_id": id}}})
    heard = await ear.wait_for("second")
    assert [one.text for one in ear.received] == ["frist", "and second"]
    assert (heard.mentioned, heard.user, heard.name) == (True, BEN, "ben")
    told = await rig.channel.history(ear.received[0].address, 0, 10)
    assert [one.text for one in told] == ["first"], "by now it was edited"


@whole
async def test_an_answer_is_shown_as_html_and_mentions_no_user(rig: MatrixRig) -> None:
    ear = RecordingMessageHandler()
    await rig.channel.start(ear)
    at = await start_thread(rig, ear)
    sent = await rig.channel.post(at, "**Look** @room, @ann:localhost <b>x</b> ![i](https://x.org/i.png)", key="k")
    event = next(one for one in await rig.people.events(rig.room) if one["event_id"] == sent.id)
    content = event["content"]
    assert content["m.mentions"] == {}
    assert content["formatted_body"].startswith("<strong>Look</strong> @room")
    assert "&lt;b&gt;" in content["formatted_body"]
    assert "<img" not in content["formatted_body"]


async def test_the_homeservers_own_rate_limit_says_how_long_to_wait(rig: MatrixRig) -> None:
    await rig.channel.start(RecordingMessageHandler())
    path = f"/_synapse/admin/v1/users/{BOT}/override_ratelimit"
    await rig.people.call(ANN, "POST", path, {"messages_per_second": 1, "burst_count": 1})

    async def talk_fast() -> None:
        for number in range(20):
            await rig.channel.post(room_address(rig), f"number {number}", key=f"k{number}")

    try:
        with pytest.raises(DeliveryDeferred) as refused:
            await talk_fast()
    finally:  # 0: as if there were no limit
        await rig.people.call(ANN, "POST", path, {"messages_per_second": 0, "burst_count": 0})
    assert refused.value.retry_after_s is not None
    assert 0 < refused.value.retry_after_s <= 5


@whole
async def test_nothing_is_sent_to_a_room_that_removed_us(rig: MatrixRig) -> None:
    ear = RecordingMessageHandler()
    await rig.channel.start(ear)
    at = await start_thread(rig, ear)
    await rig.people.call(ANN, "POST", f"rooms/{quote(rig.room)}/kick", {"user_id": BOT})
    for doing in (
        rig.channel.post(at, "hello?", key="k"),
        rig.channel.edit(at, at.thread, "changed"),
        rig.channel.delete(at, at.thread),
    ):
        with pytest.raises(DeliveryRejected, match="M_FORBIDDEN"):
            await doing


@whole
async def test_a_room_of_two_is_direct_until_a_third_member_joins(rig: MatrixRig) -> None:
    people, ear = rig.people, RecordingMessageHandler()
    room = await people.room(ANN, BOT)
    await rig.channel.start(ear)
    await rig.send_message(room, "just us")
    assert (await ear.wait_for("just us")).direct
    sent = await rig.channel.post(ChatAddress("mx", room), "indeed", key="k")
    assert sent.thread == "", "one talk, and no thread"
    await people.call(ANN, "POST", f"rooms/{quote(room)}/invite", {"user_id": BEN})
    await people.call(BEN, "POST", f"join/{quote(room)}", {})
    await rig.send_message(room, "not any more")
    assert not (await ear.wait_for("not any more")).direct


async def test_a_file_is_fetched_from_the_homeserver_and_nowhere_else(rig: MatrixRig) -> None:
    """F39"""
    await rig.channel.start(RecordingMessageHandler())
    before = len(rig.proxy.paths)
    for ref in ("mxc://localhost/../../account/whoami", "http://127.0.0.1/x", "mxc://a/b/c", "mxc://a@b/c", ""):
        with pytest.raises(DeliveryRejected, match="not a file on a Matrix homeserver"):
            await rig.channel.download(IncomingFile(ref=ref), str(rig.where / "x"), 1000)
    assert not [path for path in rig.proxy.paths[before:] if not path.endswith("/sync")]
    assert not (rig.where / "x").exists()


@whole
async def test_an_error_while_listening_does_not_end_the_channel(rig: MatrixRig) -> None:
    ear, asked = RecordingMessageHandler(), list[str]()

    def broken(user: str) -> bool:
        asked.append(user)
        raise KeyError("a bug of the caller's")

    rig.channel = MatrixChannel("mx", rig.account, state_path=str(rig.where / "mx.json"), is_inviter_allowed=broken)
    rig.made_too(rig.channel)
    await rig.channel.start(ear)
    room = await rig.people.room(ANN, BOT, join=False)
    await wait_until(lambda: len(asked) > 1, "it was asked again")
    assert rig.channel.state == "receiving failed; retrying"
    await rig.people.call(BOT, "POST", f"join/{quote(room)}", {})
    await rig.send_message(rig.room, "still there?", mention=True)
    assert not ear.received, "nothing is passed over"


def test_it_works_on_uvloop_too(people: People, tmp_path: Path) -> None:
    uvloop = pytest.importorskip("uvloop", reason="this needs uvloop")

    async def talk() -> None:
        async with matrix_rig(people, tmp_path) as rig:
            ear = RecordingMessageHandler()
            await rig.channel.start(ear)
            at = await start_thread(rig, ear)
            await rig.channel.post(at, "an answer", key="k")
            await rig.drop_connection()
            await rig.send_message(rig.room, "still there?", thread=at.thread)
            await ear.wait_for("still there?")
            assert [one.own for one in await rig.channel.history(at, 0, 10)] == [False, True, False]

    uvloop.run(talk())


# --- approvals -----------------------------------------------------------------------------------


async def test_a_long_call_is_attached_whole_and_is_approved_and_denied_in_the_room(
    rig: MatrixRig, tmp_path: Path
) -> None:
    launched: list[str] = []
    what = "".join(f"line {number}: rm -rf /{number}\n" for number in range(2_200)) + "\u202ethe end"

    @tool(effect="unsafe", sink=["to"], untrusted=False)
    def launch(what: str = "", to: str = "") -> str:
        """Launch."""
        launched.append(what)
        return "launched"

    def script(context: Context, options: Options) -> Step:
        return "It flies." if context.messages[-1].role == "tool" else [Call("launch", {"what": what})]

    world = World(tmp_path / "world", rig, script=script)
    world.tools = [launch]
    world.config = {"policy": PolicySettings(ask=("launch",))}
    async with running(world):
        await rig.send_message(rig.direct_room, "launch it")
        asked = await world.shown(rig, rig.direct_room, "/approve")

        async def find_file() -> bytes | None:
            files = [file for message in await rig.posted_messages(rig.direct_room) for file in message.files]
            return files[0][1] if files else None

        whole_call = (await eventually(find_file, "the whole call is attached")).decode()
        assert "line 2199: rm -rf /2199" in whole_call
        assert "the end" in whole_call
        assert "\u202e" not in whole_call + asked.text
        assert not launched
        await rig.send_message(rig.direct_room, "/deny not now")
        await world.shown(rig, rig.direct_room, "It flies.")
        assert not launched
        await rig.send_message(rig.direct_room, "launch it again")
        await eventually(lambda: _count_requests(rig, 2), "it is asked about again")
        await rig.send_message(rig.direct_room, "/approve")
        await wait_until(lambda: launched == [what], "it was approved after it was shown")


async def _count_requests(rig: MatrixRig, count: int) -> bool:
    messages = await rig.posted_messages(rig.direct_room)
    return sum(bool(message.files) for message in messages) >= count
