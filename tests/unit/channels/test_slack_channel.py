"""Slack as a channel: what goes out by the Web API, and what its answers mean."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import logging
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from support.slack_platform import (
    ANN,
    APP_TOKEN,
    BEN,
    BOT_ID,
    DIRECT,
    OTHER_ROOM,
    QUICK,
    ROOM,
    SECRET,
    TOKEN,
    Platform,
    SlackRig,
    bounds,
    by_socket,
)

from mainstay.channels.slack.attachments import hash_key
from mainstay.channels.slack.channel import SlackChannel
from mainstay.core.channels import ChannelError, DeliveryDeferred, DeliveryRejected, DeliveryUnknown, IncomingFile
from mainstay.core.chat_addresses import ChatAddress
from mainstay.core.errors import ConfigError
from mainstay.testing.channel_rig import RecordingMessageHandler, wait_until

AT = ChatAddress("team", ROOM)
DM = ChatAddress("team", DIRECT)


def says(error: str, status: int = 200, **more: Any) -> Callable[[Any], web.Response]:
    return lambda _: web.json_response({"ok": False, "error": error, **more}, status=status)


# --- configuration -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"token": ""}, r"the bot token \(xoxb-…\) is missing"),
        ({"token": "xapp-1-2"}, "app_token"),
        ({"app_token": ""}, "signing_secret"),
        ({"app_token": "xoxb-1"}, "xapp-"),
        ({"token": "xoxb-\n1"}, "characters"),
        ({"base_url": "ftp://slack.example"}, "base_url"),
    ],
)
def test_missing_or_mixed_settings_are_reported_at_once(given: dict[str, str], said: str) -> None:
    settings = {"token": TOKEN, "app_token": APP_TOKEN} | given
    with pytest.raises(ConfigError, match=said) as raised:
        SlackChannel("team", **settings)
    assert "channels.team" in str(raised.value)


def test_without_the_library_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    real = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "slack_sdk" else real(name))
    with pytest.raises(ConfigError, match=r"'.\[slack\]'"):
        SlackChannel("team", TOKEN, app_token=APP_TOKEN)


def test_the_library_is_not_imported_before_it_is_needed() -> None:
    code = (
        "import sys, mainstay.channels.slack.channel; print([m for m in ('aiohttp', 'slack_sdk') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("method", ["auth.test", "apps.connections.open"])
@pytest.mark.parametrize("error", ["invalid_auth", "account_inactive", "token_revoked", "missing_scope"])
async def test_a_token_that_is_refused_ends_the_start(method: str, error: str) -> None:
    async with by_socket() as rig:
        rig.platform.spoils[method] = [says(error, needed="connections:write")]
        with pytest.raises(ConfigError) as raised:
            await rig.channel.start(RecordingMessageHandler())
        assert error in str(raised.value) or "connections:write" in str(raised.value)
        assert TOKEN not in str(raised.value)
        assert rig.channel.state == "not started"
        await rig.channel.start(RecordingMessageHandler())  # once it is put right
        assert rig.channel.state == "connected"


async def test_a_slack_that_cannot_be_reached_is_no_fault_of_the_configuration() -> None:
    channel = SlackChannel("team", TOKEN, app_token=APP_TOKEN, base_url="http://127.0.0.1:9/api", limits=QUICK)
    with pytest.raises(DeliveryDeferred, match="cannot be reached"):
        await channel.start(RecordingMessageHandler())
    assert channel.state == "not started"
    with pytest.raises(DeliveryDeferred):
        await channel.post(AT, "hello", key="k")
    await channel.close()


# --- what answers mean ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        ("channel_not_found", DeliveryRejected),
        ("is_archived", DeliveryRejected),
        ("not_in_channel", DeliveryRejected),
        ("msg_too_long", DeliveryRejected),
        ("restricted_action", DeliveryRejected),
        ("missing_scope", DeliveryRejected),
        ("ratelimited", DeliveryDeferred),
        ("service_unavailable", DeliveryDeferred),
        ("token_revoked", DeliveryDeferred),
        ("internal_error", DeliveryUnknown),
        ("fatal_error", DeliveryUnknown),
    ],
)
async def test_an_error_says_whether_the_message_was_sent(error: str, kind: type[ChannelError]) -> None:
    async with by_socket() as rig:
        await rig.channel.start(RecordingMessageHandler())
        rig.platform.spoils["chat.postMessage"] = [says(error)]
        with pytest.raises(kind) as raised:
            await rig.channel.post(AT, "hello", key="k")
        assert str(raised.value).endswith(".")
        assert not await rig.posted_messages(ROOM)


def cut(request: web.Request) -> None:
    assert request.transport is not None
    request.transport.abort()


ODD: dict[str, tuple[Callable[[Any], Any], type[ChannelError]]] = {
    "bad gateway": (lambda _: web.Response(status=502, text="<html>", content_type="text/html"), DeliveryUnknown),
    "bad gateway in plain text": (lambda _: web.Response(status=502, text="no"), DeliveryUnknown),
    "unavailable": (lambda _: web.Response(status=503, text="<html>", content_type="text/html"), DeliveryDeferred),
    "a list": (lambda _: web.json_response([1, 2]), DeliveryUnknown),
    "broken JSON": (lambda _: web.Response(text="{", content_type="application/json"), DeliveryUnknown),
    "no bytes of UTF-8": (lambda _: web.Response(body=b"\xff\xfe", content_type="application/json"), DeliveryUnknown),
    "nothing": (lambda _: web.json_response({}), DeliveryUnknown),
    "no time": (lambda _: web.json_response({"ok": True}), DeliveryUnknown),
    "a time that is none": (lambda _: web.json_response({"ok": True, "ts": 5}), DeliveryUnknown),
    "the connection is cut": (cut, DeliveryUnknown),
    "too soon, without a time": (lambda _: web.json_response({"ok": False}, status=429), DeliveryDeferred),
    "too soon, with nonsense": (
        lambda _: web.json_response({"ok": False}, status=429, headers={"Retry-After": "-1e9"}),
        DeliveryDeferred,
    ),
}


@pytest.mark.parametrize(("answer", "kind"), ODD.values(), ids=ODD)
async def test_every_response_is_a_channel_error_and_sent_once_f45(
    answer: Callable[[Any], Any], kind: type[ChannelError]
) -> None:
    """F45: the library would try again by itself, and the message might be there twice."""
    async with by_socket() as rig:
        await rig.channel.start(RecordingMessageHandler())
        rig.platform.spoils["chat.postMessage"] = [answer]
        with pytest.raises(kind) as raised:
            await rig.channel.post(AT, "hello", key="k")
        if isinstance(raised.value, DeliveryDeferred) and "wait" in str(raised.value):
            assert raised.value.retry_after_s is not None
            assert 0 < raised.value.retry_after_s <= 3600
        assert [method for method, _ in rig.platform.calls].count("chat.postMessage") == 1


async def test_no_answer_in_time_may_have_been_sent_and_no_connection_was_not() -> None:
    async with by_socket(bounds(request_timeout_s=1.0)) as rig:
        await rig.channel.start(RecordingMessageHandler())
        waits = asyncio.Event()

        class Never(web.Response):
            async def prepare(self, request: Any) -> Any:
                await waits.wait()

        rig.platform.spoils["chat.postMessage"] = [lambda _: Never()]
        with pytest.raises(DeliveryUnknown, match="in time"):
            await rig.channel.post(AT, "hello", key="k")
        rig.platform.spoils["conversations.history"] = [lambda _: Never()]
        with pytest.raises(DeliveryDeferred, match="in time"):  # what only reads has no fate
            await rig.channel.find_posted(AT, "k")
        waits.set()


async def test_a_revoked_token_is_seen_in_the_state_until_it_works_again() -> None:
    async with by_socket() as rig:
        await rig.channel.start(RecordingMessageHandler())
        rig.platform.spoils["chat.postMessage"] = [says("token_revoked")]
        with pytest.raises(DeliveryDeferred):
            await rig.channel.post(AT, "hello", key="k")
        assert rig.channel.state == "Slack refuses the token (token_revoked)"
        await rig.channel.post(AT, "hello", key="k")
        assert rig.channel.state == "connected"


# --- messages ------------------------------------------------------------------------------------


async def test_a_post_shows_no_link_previews_and_hides_its_key() -> None:
    """A link that is shown is fetched by Slack: an attacker whose text the model read could have it carry secrets."""
    async with by_socket() as rig:
        await rig.channel.start(RecordingMessageHandler())
        await rig.channel.post(AT, "<https://a.example>", key="team:C1:private-session/7")
        asked = next(asked for method, asked in rig.platform.calls if method == "chat.postMessage")
        assert (asked["unfurl_links"], asked["unfurl_media"]) == ("false", "false")
        assert "thread_ts" not in asked
        assert "private-session" not in json.dumps(asked)


async def test_a_message_is_found_by_its_key_pages_away_and_after_it_was_edited() -> None:
    async with by_socket() as rig:
        await rig.channel.start(RecordingMessageHandler())
        begun = await rig.channel.post(AT, "the beginning", key="k0")
        at = ChatAddress("team", ROOM, begun.thread)
        for number in range(4):
            rig.platform.say(ROOM, ANN, f"before {number}", thread=begun.thread)
        sent = await rig.channel.post(at, "here", key="k1")
        for number in range(4):
            rig.platform.say(ROOM, ANN, f"after {number}", thread=begun.thread)
            rig.platform.say(ROOM, ANN, f"beside {number}")
        await rig.channel.edit(at, sent.id, "here it is")
        assert await rig.channel.find_posted(at, "k1") == sent
        assert await rig.channel.find_posted(AT, "k0") == begun
        assert await rig.channel.find_posted(at, "k2") is None
        assert await rig.channel.find_posted(ChatAddress("team", ROOM, "1.000001"), "k1") is None
        with pytest.raises(DeliveryRejected):
            await rig.channel.find_posted(ChatAddress("team", "C0GONE"), "k1")


async def test_another_users_message_with_our_key_is_not_taken_for_ours() -> None:
    async with by_socket() as rig:
        await rig.channel.start(RecordingMessageHandler())
        forged = rig.platform.say(ROOM, BEN, "not yours")
        forged["metadata"] = {"event_type": "mainstay", "event_payload": {"key": hash_key("k1")}}
        forged["blocks"] = [{"type": "section", "block_id": hash_key("k1")}]
        assert await rig.channel.find_posted(AT, "k1") is None


async def test_a_history_too_long_to_search_is_an_unknown_delivery() -> None:
    async with by_socket(bounds(history_pages_max=2)) as rig:
        await rig.channel.start(RecordingMessageHandler())
        for number in range(7):
            rig.platform.say(ROOM, ANN, f"word {number}")
        with pytest.raises(DeliveryUnknown):
            await rig.channel.find_posted(AT, "k1")


async def test_a_direct_message_is_one_conversation_unless_a_user_starts_a_thread() -> None:
    async with by_socket() as rig:
        ear = RecordingMessageHandler()
        await rig.channel.start(ear)
        rig.platform.say(DIRECT, ANN, "one")
        rig.platform.say(DIRECT, ANN, "two")
        assert (await ear.wait_for("one")).address == (await ear.wait_for("two")).address == DM
        sent = await rig.channel.post(DM, "answer", key="k1")
        assert sent.thread == ""
        assert (await rig.posted_messages(DIRECT))[0].thread == ""
        rig.platform.say(DIRECT, ANN, "aside", thread=sent.id)
        aside = await ear.wait_for("aside")
        assert (aside.address, aside.direct) == (ChatAddress("team", DIRECT, sent.id), True)
        told = await rig.channel.history(DM, 0, 50)
        assert [(one.text, one.own, one.address) for one in told] == [
            ("one", False, DM),
            ("two", False, DM),
            ("answer", True, DM),
        ]


async def test_of_a_long_thread_the_newest_messages_since_the_given_one_are_read() -> None:
    async with by_socket() as rig:
        await rig.channel.start(RecordingMessageHandler())
        begun = await rig.channel.post(AT, "the beginning", key="k0")
        at = ChatAddress("team", ROOM, begun.thread)
        said = [rig.platform.say(ROOM, ANN, f"word {number}", thread=begun.thread) for number in range(10)]
        assert [one.text for one in await rig.channel.history(at, 0, 4)] == [f"word {n}" for n in (6, 7, 8, 9)]
        assert len(await rig.channel.history(at, 0, 100)) == 11
        said[9]["ts"] = f"{int(said[9]['ts'].split('.')[0]) + 60}.000000"
        after = int(said[9]["ts"].split(".")[0]) * 1000 - 1000
        assert [one.text for one in await rig.channel.history(at, after, 100)] == ["word 9"]
        assert await rig.channel.history(ChatAddress("team", ROOM, "1.000001"), 0, 5) == []


async def test_search_reads_the_room_and_the_thread_it_is_asked_from() -> None:
    async with by_socket() as rig:
        await rig.channel.start(RecordingMessageHandler())
        first = rig.platform.say(ROOM, ANN, "The Quick &amp; <https://a.example|brown> fox")
        rig.platform.say(ROOM, BEN, "a quick reply", thread=first["ts"])
        for number in range(5):
            rig.platform.say(ROOM, ANN, f"noise {number}")
        rig.platform.say(OTHER_ROOM, ANN, "quick, elsewhere")
        found = await rig.channel.search(ChatAddress("team", ROOM, first["ts"]), "quick", 10)
        assert [(one.author, one.text) for one in found] == [
            ("Ben", "a quick reply"),
            ("Ann", "The Quick & [brown](https://a.example) fox"),
        ]
        assert [one.author for one in await rig.channel.search(AT, "FOX quick", 10)] == ["Ann"]
        assert await rig.channel.search(AT, "nothing of that", 10) == []


async def test_deleting_twice_succeeds() -> None:
    async with by_socket() as rig:
        await rig.channel.start(RecordingMessageHandler())
        sent = await rig.channel.post(AT, "oops", key="k")
        await rig.channel.delete(AT, sent.id)
        await rig.channel.delete(AT, sent.id)
        await rig.channel.delete(AT, "F0GONE")
        with pytest.raises(DeliveryRejected, match="no longer exists"):
            await rig.channel.edit(AT, sent.id, "back?")


async def test_where_being_busy_cannot_be_shown_it_is_not_tried_again() -> None:
    async with by_socket() as rig:
        await rig.channel.start(RecordingMessageHandler())
        rig.platform.spoils["assistant.threads.setStatus"] = [says("missing_scope", needed="chat:write")]
        at = ChatAddress("team", ROOM, "1.000001")
        for _ in range(3):
            await rig.channel.show_typing(at, "bash")
        await rig.channel.show_typing(AT)
        assert [method for method, _ in rig.platform.calls].count("assistant.threads.setStatus") == 1


async def test_names_are_asked_for_once_and_not_to_know_them_holds_nothing_up() -> None:
    async with by_socket() as rig:
        ear = RecordingMessageHandler()
        await rig.channel.start(ear)
        rig.platform.say(ROOM, ANN, f"hello <@{BEN}> and <@U0GONE001>")
        rig.platform.say(ROOM, ANN, "hello again")
        first, again = await ear.wait_for("hello"), await ear.wait_for("again")
        assert (first.name, first.text, again.name) == ("Ann", "hello @Ben and @U0GONE001", "Ann")
        asked = [asked["user"] for method, asked in rig.platform.calls if method == "users.info"]
        assert sorted(asked) == sorted([ANN, BEN, "U0GONE001"])
        rig.platform.spoils["users.info"] = [lambda _: web.Response(status=500)]
        rig.platform.say(ROOM, "U0NEW0001", "nobody knows me")
        assert (await ear.wait_for("nobody knows me")).name == ""


async def test_the_name_of_a_room_is_asked_for_once_and_again_when_it_is_old_or_could_not_be_read() -> None:
    async with by_socket() as rig:
        ear = RecordingMessageHandler()
        await rig.channel.start(ear)
        rig.platform.room_names = {ROOM: "general"}
        for text in ("one", "two"):
            rig.platform.say(ROOM, ANN, text)
            assert (await ear.wait_for(text)).room_name == "general"
        rig.platform.say(DIRECT, ANN, "three")
        assert (await ear.wait_for("three")).room_name == ""
        assert [asked["channel"] for method, asked in rig.platform.calls if method == "conversations.info"] == [ROOM]
    async with by_socket(bounds(name_ttl_s=0.0)) as rig:
        ear = RecordingMessageHandler()
        await rig.channel.start(ear)
        rig.platform.spoils["conversations.info"] = [lambda _: web.Response(status=500)]
        for name in ("", "general", "renamed"):
            rig.platform.room_names = {ROOM: name}
            rig.platform.say(ROOM, ANN, f"in {name}.")
            assert (await ear.wait_for(f"in {name}.")).room_name == name


async def test_an_app_that_may_not_read_the_name_of_a_room_does_not_ask_again() -> None:
    async with by_socket(bounds(name_ttl_s=0.0)) as rig:
        ear = RecordingMessageHandler()
        await rig.channel.start(ear)
        for text in ("one", "two"):
            rig.platform.say(ROOM, ANN, text)
            assert (await ear.wait_for(text)).room_name == ""
        assert [method for method, _ in rig.platform.calls].count("conversations.info") == 1


async def test_messages_of_our_own_and_of_other_bots_are_distinguished() -> None:
    async with by_socket() as rig:
        ear = RecordingMessageHandler()
        await rig.channel.start(ear)
        await rig.channel.post(AT, "mine", key="k")
        for bot, text in ((BOT_ID, "mine too"), ("B0OTHER01", "of another")):
            told = {"type": "message", "subtype": "bot_message", "bot_id": bot, "text": text, "channel": ROOM}
            rig.platform.tell(told | {"ts": rig.platform.stamp(), "username": "robot"})
        await ear.wait_for("of another")
        assert [(one.text, one.own) for one in ear.received] == [
            ("mine", True),
            ("mine too", True),
            ("of another", False),
        ]
        assert (ear.received[-1].user, ear.received[-1].name) == ("B0OTHER01", "robot")


# --- files ---------------------------------------------------------------------------------------


async def test_an_upload_is_found_by_its_key_and_its_receipt_is_the_message(tmp_path: Path) -> None:
    async with by_socket() as rig:
        await rig.channel.start(RecordingMessageHandler())
        path = tmp_path / "a"
        path.write_bytes(b"content")
        for number, comment in enumerate(("", "see *this*", "x" * 7000)):
            sent = await rig.channel.upload(AT, str(path), "a.txt", comment, key=f"k{number}")
            assert await rig.channel.find_posted(AT, f"k{number}") == sent
            assert sent.thread == sent.id
            shown = (await rig.posted_messages(ROOM))[-1]
            assert (shown.id, shown.text, shown.files) == (sent.id, comment, (("a.txt", b"content"),))


async def test_a_file_that_cannot_be_sent_is_never_sent_and_one_that_was_not_taken_is_not(tmp_path: Path) -> None:
    async with by_socket(bounds(file_bytes_max=10)) as rig:
        await rig.channel.start(RecordingMessageHandler())
        path = tmp_path / "a"
        path.write_bytes(b"x" * 11)
        for wrong in (str(path), str(tmp_path), str(tmp_path / "none"), "/dev/zero"):
            with pytest.raises(DeliveryRejected):
                await rig.channel.upload(AT, wrong, "a", "", key="k")
        path.write_bytes(b"x")
        rig.platform.spoils["files.getUploadURLExternal"] = [
            lambda _: web.json_response({"ok": True, "upload_url": "http://127.0.0.1:9/", "file_id": "F1"})
        ]
        with pytest.raises(DeliveryDeferred):
            await rig.channel.upload(AT, str(path), "a", "", key="k")
        rig.platform.spoils["files.completeUploadExternal"] = [says("internal_error")]
        with pytest.raises(DeliveryUnknown):
            await rig.channel.upload(AT, str(path), "a", "", key="k")
        assert not await rig.posted_messages(ROOM)


async def test_the_token_goes_to_slack_only_and_no_private_address_is_fetched_f39(tmp_path: Path) -> None:
    """F39: what a message says of where its files are is the claim of its sender."""
    async with by_socket() as rig, Platform().serving() as stranger:
        await rig.channel.start(RecordingMessageHandler())
        target = str(tmp_path / "fetched")
        there = stranger.keep_file("a", b"x")["url_private"]
        for ref in (
            there,  # loopback, and not where Slack is
            there.replace("127.0.0.1", "localhost"),
            rig.platform.url.replace("127.0.0.1", "127.1") + "/files-pri/T-F/a",
            rig.platform.url.replace("127.0.0.1", f"{TOKEN}@127.0.0.1") + "/files-pri/T-F/a",
            "http://169.254.169.254/latest/meta-data/",
            "http://[::ffff:127.0.0.1]/",
            "http://files.slack.com.127.0.0.1.nip.example:1/",
            "file:///etc/passwd",
            "https://",
            "F0GONE",
            "",
        ):
            with pytest.raises(ChannelError):
                await rig.channel.download(IncomingFile(ref=ref), target, 1000)
        assert stranger.downloads == []
        assert not Path(target).exists()


async def test_a_third_party_host_is_asked_without_the_token_f39(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F39: a file on another public host; here the public host is on loopback."""
    async with by_socket() as rig, Platform().serving() as stranger:
        await rig.channel.start(RecordingMessageHandler())
        resolve, connect = socket.getaddrinfo, asyncio.open_connection
        public, port = "93.184.216.34", int(stranger.url.rpartition(":")[2])

        def resolved(host: Any, *rest: Any, **more: Any) -> Any:
            return resolve(public if host == "files.example" else host, *rest, **more)

        async def connected(host: str, at: int, **more: Any) -> Any:
            return await connect("127.0.0.1" if host == public else host, port if host == public else at, **more)

        monkeypatch.setattr(socket, "getaddrinfo", resolved)
        monkeypatch.setattr(asyncio, "open_connection", connected)
        target = tmp_path / "fetched"
        ref = "http://files.example/files-pri/T-F1/a"
        assert await rig.channel.download(IncomingFile(ref=ref), str(target), 1000) == "text/html"
        assert stranger.downloads == [("/files-pri/T-F1/a", "")]


async def test_a_file_known_by_its_id_alone_is_asked_for(tmp_path: Path) -> None:
    async with by_socket() as rig:
        ear = RecordingMessageHandler()
        await rig.channel.start(ear)
        file = rig.platform.keep_file("shared.png", b"png", "image/png")
        partly = {"id": file["id"], "file_access": "check_file_info", "mode": "file_access"}
        gone = {"id": "F2", "mode": "tombstone"}
        rig.platform.say(ROOM, ANN, "from elsewhere", files=[partly, gone, {"id": 5}, "x"])
        heard = await ear.wait_for("from elsewhere")
        assert [one.ref for one in heard.files] == [file["id"]]
        target = tmp_path / "fetched"
        assert await rig.channel.download(heard.files[0], str(target), 1000) == "image/png"
        assert target.read_bytes() == b"png"
        with pytest.raises(DeliveryDeferred):  # never over a file that is there
            await rig.channel.download(heard.files[0], str(target), 1000)
        assert target.read_bytes() == b"png"


async def test_a_page_to_sign_in_is_not_taken_for_the_file(tmp_path: Path) -> None:
    async with by_socket() as rig:
        await rig.channel.start(RecordingMessageHandler())
        file = rig.platform.keep_file(
            "a.png", b"<html>", "text/html"
        )  # what Slack returns without permission to read files
        with pytest.raises(DeliveryRejected, match="files:read"):
            await rig.channel.download(
                IncomingFile(ref=file["url_private"], mime="image/png"), str(tmp_path / "f"), 1000
            )
        assert not (tmp_path / "f").exists()


# --- and all of it -------------------------------------------------------------------------------


async def test_no_token_and_no_message_text_is_in_any_log(caplog: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    with caplog.at_level(logging.DEBUG):
        async with by_socket() as rig:
            ear = RecordingMessageHandler()
            await rig.channel.start(ear)
            await rig.send_message(ROOM, "between ourselves", mention=True, files=[("a", b"x")])
            heard = await ear.wait_for("between ourselves")
            await rig.channel.download(heard.files[0], str(tmp_path / "f"), 10)
            await rig.channel.post(heard.address, "my answer", key="k")
            rig.platform.spoils["apps.connections.open"] = [says("internal_error")]
            await rig.platform.hang_up()
            await wait_until(lambda: "internal_error" in caplog.text, "the trouble is in the log")
            await wait_until(lambda: rig.channel.state == "connected", "it is connected again")
    ours = "\n".join(
        one.getMessage() for one in caplog.records if not one.name.startswith(("asyncio", "aiohttp.server"))
    )
    for secret in (TOKEN, APP_TOKEN, SECRET, "ticket=", "between ourselves", "my answer"):
        assert secret not in ours


def test_all_of_it_runs_on_uvloop(tmp_path: Path) -> None:
    import uvloop

    async def life() -> None:
        async with by_socket() as rig:
            ear = RecordingMessageHandler()
            await rig.channel.start(ear)
            await rig.send_message(ROOM, "hello", mention=True, files=[("a", b"content")])
            heard = await ear.wait_for("hello")
            await rig.channel.download(heard.files[0], str(tmp_path / "f"), 100)
            sent = await rig.channel.upload(heard.address, str(tmp_path / "f"), "b", "c", key="k")
            assert await rig.channel.find_posted(heard.address, "k") == sent
            await again(rig, ear)

    async def again(rig: SlackRig, ear: RecordingMessageHandler) -> None:
        await rig.platform.hang_up()
        await rig.send_message(ROOM, "after it", mention=True)
        await ear.wait_for("after it")
        await wait_until(lambda: rig.channel.state == "connected", "it is connected again")

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(life())


async def test_closing_it_leaves_no_task_and_no_connection() -> None:
    async with by_socket() as rig:
        before = asyncio.all_tasks()
        await rig.channel.start(RecordingMessageHandler())
        await rig.channel.close()
        await wait_until(lambda: not rig.platform.sockets, "Slack has seen us leave")
        here = {task.get_name() for task in asyncio.all_tasks() - before}
        assert not {name for name in here if "slack" in name}
        assert rig.channel.state == "closed"
