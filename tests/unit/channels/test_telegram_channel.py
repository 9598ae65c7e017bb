"""A Telegram bot as a channel, against a Bot API on loopback."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from support.telegram_platform import ANN, BASIC, BOB, FORUM, GROUP, ME, TOKEN, ApiError, TelegramRig, telegram

from mainstay.channels.telegram.attachments import TelegramFileBaseUrl, download_file
from mainstay.channels.telegram.channel import TelegramChannel
from mainstay.channels.telegram.client import StrictHttpxRequest, TelegramResponseUnreadable
from mainstay.core.channels import DeliveryDeferred, DeliveryRejected, DeliveryUnknown, IncomingFile, IncomingMessage
from mainstay.core.chat_addresses import ChatAddress
from mainstay.core.errors import ConfigError, StoreFailed
from mainstay.testing.channel_rig import RecordingMessageHandler, wait_for_post, wait_until
from mainstay.testing.store_writer import expect_error

ROOM = ChatAddress("tg", str(GROUP))
PRIVATE = ChatAddress("tg", str(ANN["id"]))


@pytest.fixture
async def rig(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[TelegramRig]:
    monkeypatch.setattr("mainstay.channels.telegram.polling.BACKOFF_FIRST_S", 0.01)
    async with telegram() as made:
        yield made


class RoomRefusingHandler(RecordingMessageHandler):
    """Cannot take in what is said in one room."""

    def __init__(self, room: int, error: Exception) -> None:
        super().__init__()
        self.room = str(room)
        self.error: Exception | None = error

    async def __call__(self, message: IncomingMessage) -> None:
        if message.address.room == self.room and self.error is not None:
            self.rejected.append(message)
            raise self.error
        await super().__call__(message)


# --- listening -----------------------------------------------------------------------------------


async def test_nothing_is_confirmed_before_it_was_stored_and_no_room_blocks_another(rig: TelegramRig) -> None:
    ear = RoomRefusingHandler(GROUP, StoreFailed("the disk is full"))
    await rig.channel.start(ear)
    for number in (1, 2):
        rig.platform.say(GROUP, ANN, text=f"stuck {number}")
    first = rig.platform.updates[0]["update_id"]
    rig.platform.say(BASIC, BOB, text="elsewhere")
    await ear.wait_for("elsewhere")
    await wait_until(lambda: len(ear.rejected) > 2, "it is told again")
    assert rig.platform.confirmed < first
    assert {one.text for one in ear.rejected} == {"stuck 1"}, "in a room, one after the other"
    assert len(ear.received) == 1, "what was taken in is not told again"
    ear.error = None
    await ear.wait_for("stuck 2")
    assert [one.text for one in ear.received] == ["elsewhere", "stuck 1", "stuck 2"]
    await wait_until(lambda: rig.platform.confirmed >= first + 2, "all of it is confirmed")


async def test_a_message_that_always_breaks_the_handler_is_dropped_in_the_end(rig: TelegramRig) -> None:
    ear = RoomRefusingHandler(GROUP, ZeroDivisionError("a bug of ours"))
    await rig.channel.start(ear)
    rig.platform.say(GROUP, ANN, text="poison")
    await wait_until(lambda: not rig.platform.updates, "it is confirmed")
    assert {one.text for one in ear.rejected} == {"poison"}
    assert 1 < len(ear.rejected) < 20


async def test_hostile_updates_block_nothing(rig: TelegramRig) -> None:
    deep = json.loads("[" * 900 + "]" * 900)
    ear = RecordingMessageHandler()
    await rig.channel.start(ear)
    for message in (None, 3, "x", [], {}, {"chat": 1}, {"message_id": -1}, {"text": deep}, {"text": "\ud800"}):
        rig.platform.push(message)
    rig.platform.push({"message_id": 1, "date": -5, "chat": {"id": -7, "type": "group"}, "from": ANN, "text": "\ud800"})
    rig.platform.updates.extend(["nonsense", None, {"update_id": "one"}, {"update_id": -4}, {"update_id": 2**80}])
    rig.platform.push_raw({"edited_message": {}})
    rig.platform.say(GROUP, ANN, text="still there?")
    await ear.wait_for("still there?")
    assert [one.text for one in ear.received] == ["\ufffd", "still there?"]
    assert rig.channel.state == "connected"


async def test_an_update_that_cannot_be_read_is_found_and_it_alone_is_left_out(rig: TelegramRig) -> None:
    platform = rig.platform
    platform.garbage = [b"<html>502</html>"]
    platform.say(GROUP, ANN, text="before it")
    bad = platform.push_raw({})
    platform.updates[-1]["raw"] = b'{"update_id":%d,"message":%s}' % (bad, b"[" * 100_000 + b"]" * 100_000)
    platform.say(GROUP, ANN, text="after it")
    ear = RecordingMessageHandler()
    await rig.channel.start(ear)
    await ear.wait_for("after it")
    assert [one.text for one in ear.received] == ["before it", "after it"]
    await wait_until(lambda: rig.channel.state == "connected" and not platform.updates, "all of it is confirmed")


@pytest.mark.parametrize(
    "answer", [b"", b"[]", b"3", b'{"ok":true}', b"\xff", b"[" * 100_000, b'"x"', b"{" + b'"a":{' * 9999]
)
def test_an_invalid_response_is_recognised(answer: bytes) -> None:
    with pytest.raises(TelegramResponseUnreadable):
        StrictHttpxRequest.parse_json_payload(answer)


@pytest.mark.parametrize(
    "parameters", [None, 3, [], "x", {"retry_after": "soon"}, {"retry_after": -1}, {"migrate_to_chat_id": 2**80}]
)
def test_odd_particulars_of_a_refusal_are_left_out(parameters: object) -> None:
    refusal = {"ok": False, "description": ["x"], "parameters": parameters}
    read = StrictHttpxRequest.parse_json_payload(json.dumps(refusal).encode())
    assert read["parameters"] is None
    assert isinstance(read["description"], str)


async def test_an_album_that_comes_in_pieces_is_one_message(rig: TelegramRig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mainstay.channels.telegram.polling.ALBUM_WAIT_S", 3.0)
    ear = RecordingMessageHandler()
    await rig.channel.start(ear)
    for number in range(3):
        picture = [{"file_id": f"p{number}", "width": 9, "height": 9}]
        caption = {"caption": "the party"} if number == 0 else {}
        rig.platform.say(ANN["id"], ANN, photo=picture, media_group_id="g", **caption)
        await wait_until(lambda: rig.platform.answered, "the first of them is told")
    await ear.wait_for("the party")
    rig.platform.say(ANN["id"], ANN, text="nice?")
    await ear.wait_for("nice?")
    assert [[file.ref for file in one.files] for one in ear.received] == [["p0", "p1", "p2"], []]


async def test_two_that_listen_for_one_bot_say_so(rig: TelegramRig) -> None:
    first, second = rig.channel, TelegramChannel("tg2", TOKEN, base_url=rig.platform.url)
    try:
        await first.start(RecordingMessageHandler())
        await second.start(RecordingMessageHandler())
        await wait_until(
            lambda: any("another client receives" in one.state for one in (first, second)), "one of them is sent away"
        )
    finally:
        await second.close()


async def test_a_token_that_is_refused_is_a_matter_of_configuration(rig: TelegramRig) -> None:
    wrong = TelegramChannel("tg", "99:somebody-elses-token", base_url=rig.platform.url)
    error = await expect_error(ConfigError, wrong.start(RecordingMessageHandler()))
    assert "somebody" not in str(error)
    assert wrong.state != "connected"


@pytest.mark.parametrize(
    ("token", "settings", "named"),
    [
        ("", {}, "token"),
        ("bot123:abc/../x", {}, "token"),
        (TOKEN, {"base_url": "ftp://x"}, "base_url"),
        (TOKEN, {"base_url": "http://u:p@x"}, "base_url"),
        (TOKEN, {"secret": "spa ce"}, "secret"),
        (TOKEN, {"url": "https://agent.example/channels/tg"}, "url"),
    ],
)
def test_impossible_settings_are_reported_before_anything_is_sent(
    token: str, settings: dict[str, str], named: str
) -> None:
    with pytest.raises(ConfigError, match=named):
        TelegramChannel("tg", token, **settings)


async def test_the_token_is_in_no_log(rig: TelegramRig, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        ear = RecordingMessageHandler()
        await rig.channel.start(ear)
        rig.platform.say(GROUP, ANN, text="hello")
        await ear.wait_for("hello")
        await rig.channel.post(ROOM, "hi", key="k")
        await rig.channel.close()
    assert caplog.text
    assert TOKEN not in caplog.text


# --- being told ----------------------------------------------------------------------------------


async def asked(app: Any, body: bytes, *, secret: str | None = "s3cret", method: str = "POST") -> int:
    headers = [] if secret is None else [(b"x-telegram-bot-api-secret-token", secret.encode())]
    halves = [body[: len(body) // 2], body[len(body) // 2 :]]
    answers: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": halves.pop(0), "more_body": bool(halves)}

    async def send(event: dict[str, Any]) -> None:
        answers.append(event)

    await app({"type": "http", "method": method, "headers": headers, "path": "/"}, receive, send)
    return int(answers[0]["status"])


async def test_a_webhook_answers_once_a_message_was_stored(rig: TelegramRig) -> None:
    channel = TelegramChannel(
        "tg", TOKEN, base_url=rig.platform.url, secret="s3cret", url="https://agent.example/channels/tg"
    )
    app, ear = channel.asgi_app(), RecordingMessageHandler()
    told = json.dumps({"update_id": 1, "message": rig.platform.message(ANN["id"], ANN, text="hello")}).encode()
    assert await asked(app, told) == 503, "nobody listens yet"
    await channel.start(ear)
    assert rig.platform.webhook["secret_token"] == "s3cret"
    assert rig.platform.webhook["url"] == "https://agent.example/channels/tg"
    assert await asked(app, told, secret=None) == 401
    assert await asked(app, b"not looked at", secret="wrong") == 401
    assert await asked(app, told, method="GET") == 405
    assert await asked(app, b"x" * 1_100_000) == 413
    assert await asked(app, b"{") == 400
    assert await asked(app, b"\xff\xfe") == 400
    assert await asked(app, b"[" * 100_000) == 400
    assert await asked(app, b'{"update_id":3,"message":{"chat":3}}') == 200, "it would never be better"
    assert ear.received == []
    ear.failures_left = 1
    assert await asked(app, told) == 503, "so that it is told again"
    assert await asked(app, told) == 200
    assert [one.text for one in ear.received] == ["hello"]
    assert await asked(app, told.replace(b"hello", b"half \\ud83d")) == 200, "else it comes again, for ever"
    assert [one.text for one in ear.received] == ["hello", "half \ufffd"]
    assert (await channel.post(PRIVATE, "hi", key="k")).id
    await channel.close()
    assert await asked(app, told) == 503


# --- speaking ------------------------------------------------------------------------------------


async def test_text_that_telegram_rejects_is_sent_as_plain_text(rig: TelegramRig) -> None:
    await rig.channel.start(RecordingMessageHandler())
    sent = await rig.channel.post(ROOM, "if a <b and c> d: <i>x", key="k")
    assert (await wait_for_post(rig, rig.room, "if a")).text == "if a <b and c> d: x"
    await rig.channel.edit(ROOM, sent.id, "1 <2> 3")
    await wait_for_post(rig, rig.room, "1 <2> 3")


async def test_where_things_go(rig: TelegramRig) -> None:
    await rig.channel.start(RecordingMessageHandler())
    topic = await rig.channel.post(ChatAddress("tg", str(FORUM), "topic_7"), "in a topic", key="k1")
    assert rig.platform.messages[FORUM, int(topic.id)]["message_thread_id"] == 7
    assert (await rig.channel.post(PRIVATE, "between us", key="k2")).thread == ""
    gone = await rig.channel.post(ChatAddress("tg", str(GROUP), "9999999"), "what it answered is gone", key="k3")
    assert "reply_to_message" not in rig.platform.messages[GROUP, int(gone.id)]


async def test_no_address_in_a_text_is_looked_up_by_telegram(rig: TelegramRig) -> None:
    forms: list[dict[str, Any]] = []
    send = rig.platform.do_sendmessage

    async def spy(form: dict[str, Any]) -> Any:
        forms.append(form)
        return await send(form)

    rig.platform.do_sendmessage = spy  # type: ignore[method-assign]
    await rig.channel.start(RecordingMessageHandler())
    await rig.channel.post(ROOM, "see https://evil.example/?q=secret", key="k")
    assert json.loads(forms[0]["link_preview_options"]) == {"is_disabled": True}


async def test_a_group_that_has_become_another_one_is_followed(rig: TelegramRig) -> None:
    await rig.channel.start(RecordingMessageHandler())
    while rig.platform.message(GROUP, BOB, text="another's")["message_id"] < 155:
        pass
    rig.platform.chats[BASIC]["moved"] = GROUP
    for number in (1, 2):
        await rig.channel.post(ChatAddress("tg", str(BASIC), "155"), f"number {number}", key=str(number))
    assert [one.text for one in await rig.posted_messages(str(GROUP))] == ["number 1", "number 2"]
    assert not any("reply_to_message" in one for one in rig.platform.messages.values()), "there it answers nothing"
    assert rig.platform.calls.count("sendmessage") == 3, "once it is known, nobody is asked"


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        (ApiError(403, "Forbidden: bot was kicked from the supergroup chat"), DeliveryRejected),
        (ApiError(400, "Bad Request: not enough rights to send text messages to the chat"), DeliveryRejected),
        (ApiError(413, "Request Entity Too Large"), DeliveryRejected),
        (ApiError(401, "Unauthorized"), DeliveryDeferred),
        (ApiError(500, "Internal Server Error"), DeliveryUnknown),
        (ApiError(502, "Bad Gateway"), DeliveryUnknown),
        ("lose", DeliveryUnknown),
        ("drop", DeliveryUnknown),
    ],
    ids=["kicked", "rights", "large", "token", "failed", "gateway", "lost", "dropped"],
)
async def test_the_result_of_a_post_is_reported_correctly(
    rig: TelegramRig, fault: ApiError | str, kind: type[Exception]
) -> None:
    """F45: only what was certainly not sent may be sent again."""
    await rig.channel.start(RecordingMessageHandler())
    rig.platform.faults.append(fault)
    error = await expect_error(kind, rig.channel.post(ROOM, "well?", key="k"))
    assert type(error) is kind
    assert TOKEN not in str(error)


async def test_nothing_is_sent_to_an_unreachable_user(rig: TelegramRig) -> None:
    await rig.channel.start(RecordingMessageHandler())
    await rig.platform.stop()
    assert type(await expect_error(DeliveryDeferred, rig.channel.post(ROOM, "hello?", key="k"))) is DeliveryDeferred
    await wait_until(lambda: rig.channel.state == "Telegram cannot be reached", "it says so")
    await rig.platform.start()  # in a task, so that there is something to stop


@pytest.mark.parametrize("room", ["general", "", "1e3", "9" * 30, "@name"])
async def test_nothing_is_sent_to_an_impossible_room(rig: TelegramRig, room: str) -> None:
    await rig.channel.start(RecordingMessageHandler())
    await expect_error(DeliveryRejected, rig.channel.post(ChatAddress("tg", room), "hello?", key="k"))
    await expect_error(DeliveryRejected, rig.channel.edit(ROOM, "not-a-number", "x"))


async def test_pictures_are_shown_as_such_where_telegram_can(rig: TelegramRig, tmp_path: Path) -> None:
    await rig.channel.start(RecordingMessageHandler())
    for name, content in (("good.png", b"\x89PNG\r\n\x1a\n fine"), ("wide.png", b"\x89PNG\r\n\x1a\n too wide")):
        (tmp_path / name).write_bytes(content)
        await rig.channel.upload(ROOM, str(tmp_path / name), name, "", key=name)
    kinds = [sorted({"photo", "document"} & set(one)) for one in rig.platform.messages.values() if one["from"] == ME]
    assert kinds == [["photo"], ["document"]]
    await rig.channel.upload(ROOM, str(tmp_path / "good.png"), "x.png", "long " * 400, key="k")
    *_, comment, picture = await rig.posted_messages(rig.room)
    assert comment.text.startswith("long")
    assert (picture.text, picture.files[0][0]) == ("", "x.png")


@pytest.mark.parametrize(
    "path",
    [
        "../../etc/passwd",
        "/etc/passwd",
        "http://evil.example/x",
        "//evil.example/x",
        "a/../b",
        "a?b",
        "a@evil.example",
        "",
    ],
)
async def test_a_file_is_fetched_from_telegram_and_from_nowhere_else(
    rig: TelegramRig, tmp_path: Path, path: str
) -> None:
    """F39: where a file is, the platform says by a path within its own host."""
    await rig.channel.start(RecordingMessageHandler())
    rig.platform.files["f"] = (path, b"content")
    target = tmp_path / "got"
    await expect_error(DeliveryRejected, rig.channel.download(IncomingFile(ref="f"), str(target), 1000))
    assert not target.exists()


async def test_a_file_path_reaches_no_other_host(rig: TelegramRig, tmp_path: Path) -> None:
    """F39: no redirect is followed, not even within the host."""
    await rig.channel.start(RecordingMessageHandler())
    rig.platform.files |= {"f": ("documents/elsewhere.bin", b""), "s": ("documents/secret.bin", b"secret")}
    await expect_error(DeliveryDeferred, rig.channel.download(IncomingFile(ref="f"), str(tmp_path / "got"), 1000))
    assert not (tmp_path / "got").exists()
    assert rig.platform.calls.count("file") == 1


async def test_the_usual_server_is_never_one_at_home(rig: TelegramRig, tmp_path: Path) -> None:
    """F39: a name that leads into the private network is not followed, unless the owner has named the server."""
    shelf = TelegramFileBaseUrl(f"{rig.platform.url}/file/bot{TOKEN}")
    rig.platform.files["f"] = ("documents/f.pdf", b"content")
    await expect_error(
        DeliveryDeferred, download_file(shelf, "documents/f.pdf", IncomingFile(ref="f"), str(tmp_path / "got"), 1000)
    )
    assert "file" not in rig.platform.calls


async def test_without_the_library_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("client", "polling", "sender"):  # the modules that import it
        monkeypatch.delitem(sys.modules, f"mainstay.channels.telegram.{name}", raising=False)
    monkeypatch.setitem(sys.modules, "telegram", None)
    error = await expect_error(ConfigError, TelegramChannel("tg", TOKEN).start(RecordingMessageHandler()))
    assert "'.[telegram]'" in str(error)


async def test_an_existing_file_is_not_overwritten(rig: TelegramRig, tmp_path: Path) -> None:
    await rig.channel.start(RecordingMessageHandler())
    rig.platform.files["f"] = ("documents/f.pdf", b"content")
    target = tmp_path / "got"
    assert await rig.channel.download(IncomingFile(ref="f"), str(target), 1000) == "application/pdf"
    assert target.read_bytes() == b"content"
    rig.platform.files["f"] = ("documents/f.pdf", b"other")
    with pytest.raises(Exception, match="cannot be stored"):
        await rig.channel.download(IncomingFile(ref="f"), str(target), 1000)
    assert target.read_bytes() == b"content"
    await expect_error(DeliveryRejected, rig.channel.download(IncomingFile(ref="unknown"), str(tmp_path / "x"), 1000))
