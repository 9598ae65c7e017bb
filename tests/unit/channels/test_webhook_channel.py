"""The webhook channel: only signed requests are read, only durable ones are acknowledged, and a failed delivery is
distinguished from an unknown one."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path
from typing import Any

import pytest
from support.webhook_platform import NAME, SECRET, post, webhook

from mainstay.channels.webhook.channel import FILE_BYTES_MAX, WebhookChannel
from mainstay.channels.webhook.http_receiver import WebhookChannelLimits
from mainstay.core.channels import DeliveryDeferred, DeliveryRejected, DeliveryUnknown, IncomingFile
from mainstay.core.chat_addresses import ChatAddress
from mainstay.core.errors import ConfigError, LaneFull
from mainstay.io.webhook_signatures import SIGNATURE_HEADER, TIMESTAMP_HEADER, sign_webhook
from mainstay.testing.channel_rig import RecordingMessageHandler

MESSAGE = {"id": "1", "room": "r", "user": "u", "text": "hello", "mentioned": True}


def signed(body: bytes, at_s: float | None = None, secret: str = SECRET) -> dict[str, str]:
    return sign_webhook("timestamp", secret, body, at_s=int(time.time() if at_s is None else at_s))


def body_of(**changes: Any) -> bytes:
    return json.dumps(MESSAGE | changes).encode()


async def test_it_answers_once_the_message_is_durable_and_says_so_when_it_is_not() -> None:
    """GUPPY-108"""
    async with webhook() as rig:
        heard = asyncio.Event()

        async def hear(message: Any) -> None:
            await heard.wait()

        await rig.channel.start(hear)
        delivering = asyncio.create_task(rig.deliver(body_of()))
        done, _ = await asyncio.wait((delivering,), timeout=0.2)
        assert not done
        heard.set()
        assert await delivering == (202, {"accepted": True, "id": "1"})

        async def busy(message: Any) -> None:
            raise LaneFull("too many wait")

        await rig.channel.start(busy)
        status, answer = await rig.deliver(body_of(id="2"))
        assert (status, answer["error"]["type"]) == (503, "unavailable")
        assert "too many wait" not in str(answer)


async def test_a_message_with_half_a_character_is_refused_with_a_sentence_that_names_it() -> None:
    async with webhook() as rig:
        await rig.channel.start(RecordingMessageHandler())
        body = body_of(text="so HALF").replace(b"HALF", b"\\ud83d")
        status, answer = await rig.deliver(body)
        assert status == 422
        assert "the escape \\ud83d is a lone surrogate" in answer["error"]["message"]


async def test_f42_a_request_without_a_current_signature_is_refused_unread(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """F42"""
    async with webhook(WebhookChannelLimits(refusal_log_interval_s=0.0)) as rig:
        ear = RecordingMessageHandler()
        await rig.channel.start(ear)
        body = body_of()
        good = signed(body)
        wrong: list[tuple[bytes, dict[str, str]]] = [
            (body, {}),
            (body, signed(body, secret="somebody else's secret")),
            (body, signed(body, at_s=time.time() - 400)),
            (body, signed(body, at_s=time.time() + 400)),
            (body, good | {TIMESTAMP_HEADER: str(int(good[TIMESTAMP_HEADER]) - 1)}),
            (body, good | {SIGNATURE_HEADER: "v1=" + "0" * 64}),
            (body + b" ", good),
            (body.replace(b"hello", b"hullo"), good),
            (b"not even JSON", {}),
        ]
        answers = [await rig.deliver(*one) for one in wrong]
        assert {status for status, _ in answers} == {401}
        assert len({str(answer) for _, answer in answers}) == 1, "nobody learns how near they were"
        assert not ear.received
        assert SECRET not in caplog.text
        assert "hello" not in caplog.text


async def test_f42_a_repeated_delivery_is_accepted_once() -> None:
    """F42"""
    async with webhook() as rig:
        ear = RecordingMessageHandler()
        await rig.channel.start(ear)
        body = body_of()
        headers = signed(body)
        assert (await rig.deliver(body, headers))[0] == 202
        assert await rig.deliver(body, headers) == (202, {"accepted": True, "duplicate": True})
        assert len(ear.received) == 1
        later = RecordingMessageHandler()
        await rig.recreate_channel().start(later)  # another process has no memory of it: ids are what is kept
        await rig.deliver(body, headers)
        assert [one.id for one in later.received] == [one.id for one in ear.received]


async def test_f44_a_message_without_an_id_has_the_one_of_its_content() -> None:
    """F44"""
    async with webhook() as rig:
        ear = RecordingMessageHandler()
        await rig.channel.start(ear)
        body = body_of(id="")
        headers = signed(body)
        await rig.deliver(body, headers)
        await rig.recreate_channel().start(ear)
        await rig.deliver(body, headers)
        await rig.deliver(other := body_of(id="", text="another"), signed(other))
        ids = [one.id for one in ear.received]
        assert ids[0] == ids[1] != ids[2]
        assert ids[0].startswith("hash:")


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"[]", id="a list"),
        pytest.param(b'{"room": "r", "user": "u", "text": "\xff"}', id="no UTF-8"),
        pytest.param(b'{"room": "r", "user": "u", "text": "\\ud800"}', id="half a character"),
        pytest.param(b'{"room": "r", "user": "u", "text": NaN}', id="NaN"),
        pytest.param(b"[" * 100_000, id="deep"),
        pytest.param(body_of(admin=True), id="one field more"),
        pytest.param(body_of(room=7), id="a number for a room"),
        pytest.param(body_of(room=""), id="no room"),
        pytest.param(body_of(user=""), id="nobody"),
        pytest.param(body_of(text="  "), id="empty"),
        pytest.param(body_of(room="r\nx"), id="two lines"),
        pytest.param(body_of(thread="t" * 201), id="long"),
        pytest.param(body_of(at=-1), id="before time"),
        pytest.param(body_of(direct="yes"), id="a word for true"),
        pytest.param(body_of(files=[{"url": "http://x/"}] * 21), id="many files"),
        pytest.param(body_of(files=[{"path": "/etc/passwd"}]), id="another file"),
    ],
)
async def test_an_invalid_message_is_refused_in_a_sentence(body: bytes) -> None:
    async with webhook() as rig:
        ear = RecordingMessageHandler()
        await rig.channel.start(ear)
        status, answer = await rig.deliver(body, signed(body))
        assert (status, answer["error"]["type"]) == (422, "refused")
        assert len(answer["error"]["message"]) < 300
        assert not ear.received
        assert (await rig.deliver(body_of(), signed(body_of())))[0] == 202


async def test_our_own_posts_are_no_messages_to_us() -> None:
    """Both sides know the same secret: what we signed must not be good for the other way."""
    async with webhook() as rig:
        ear = RecordingMessageHandler()
        await rig.channel.start(ear)
        await rig.channel.post(ChatAddress(NAME, rig.room), "hello", key="k")
        head = rig.heads[0]
        body = json.dumps(rig.posts[0], separators=(",", ":")).encode()
        headers = {name: head[name.lower()] for name in (TIMESTAMP_HEADER, SIGNATURE_HEADER)}
        assert (await rig.deliver(body, headers))[0] == 422
        assert not ear.received


async def test_f20_bounds_of_what_is_posted_to_us() -> None:
    """F19, F20"""
    async with webhook(WebhookChannelLimits(body_bytes_max=1000, body_timeout_s=1.0, concurrent_requests_max=2)) as rig:
        await rig.channel.start(RecordingMessageHandler())
        big = body_of(text="x" * 1000)
        assert (await rig.deliver(big, signed(big)))[0] == 413
        packed = signed(body_of()) | {"Content-Encoding": "gzip"}
        assert (await rig.deliver(body_of(), packed))[0] == 415
        assert (await post(rig.door_port, f"/channels/{NAME}/more", body_of(), signed(body_of())))[0] == 404
        for _ in range(2):
            reader, writer = await asyncio.open_connection("127.0.0.1", rig.door_port)
            writer.write(b"POST /channels/hook HTTP/1.1\r\nContent-Length: 900\r\n\r\n" + b"x")
            assert b" 408 " in await asyncio.wait_for(reader.read(), 120), "a body that does not come"
            writer.close()
        reader, writer = await asyncio.open_connection("127.0.0.1", rig.door_port)
        writer.write(b"GET /channels/hook HTTP/1.1\r\n\r\n")
        answer = await reader.read()
        assert b" 405 " in answer
        assert b"allow: POST" in answer
        writer.close()


async def test_closed_it_takes_nothing_in() -> None:
    async with webhook() as rig:
        assert (await rig.deliver(body_of()))[0] == 503
        await rig.channel.start(RecordingMessageHandler())
        assert (await rig.deliver(body_of()))[0] == 202
        await rig.channel.close()
        assert (await rig.deliver(body_of(id="2")))[0] == 503


# --- out -----------------------------------------------------------------------------------------


async def test_an_answer_is_signed_and_has_its_key() -> None:
    async with webhook() as rig:
        await rig.channel.start(RecordingMessageHandler())
        odd = "a key of 世界 " + "x" * 300
        await rig.channel.post(ChatAddress(NAME, rig.room, "t"), "**hello**", key="turn-1")
        await rig.channel.post(ChatAddress(NAME, rig.room, "t"), "again", key=odd)
        assert [one["key"] for one in rig.posts] == ["turn-1", odd]
        assert rig.posts[0] == {"key": "turn-1", "room": rig.room, "thread": "t", "text": "**hello**", "files": []}
        assert rig.heads[0]["idempotency-key"] == "turn-1"
        assert rig.heads[1]["idempotency-key"].startswith("sha256:")


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        pytest.param("400 Bad Request", DeliveryRejected, id="400"),
        pytest.param("410 Gone", DeliveryRejected, id="410"),
        pytest.param("302 Found\r\nLocation: http://169.254.169.254/", DeliveryRejected, id="redirect"),
        pytest.param("307 Again\r\nLocation: /taken", DeliveryRejected, id="redirect to itself"),
        pytest.param("500 Oops", DeliveryUnknown, id="500"),
        pytest.param("504 Gateway Timeout", DeliveryUnknown, id="504"),
        pytest.param("503 Later", DeliveryDeferred, id="503"),
        pytest.param("429 Slow Down\r\nRetry-After: soon", DeliveryDeferred, id="429 without a time"),
        pytest.param("", DeliveryUnknown, id="taken and dropped"),
        pytest.param("nonsense", DeliveryUnknown, id="no HTTP"),
    ],
)
async def test_f45_the_delivery_result_of_an_answer(answer: str, kind: type[Exception]) -> None:
    """F45"""
    async with webhook() as rig:
        await rig.channel.start(RecordingMessageHandler())
        rig.answers.append(answer)
        with pytest.raises(kind) as caught:
            await rig.channel.post(ChatAddress(NAME, rig.room), "hello", key="k")
        assert type(caught.value) is kind
        await rig.channel.post(ChatAddress(NAME, rig.room), "hello", key="k")
        assert len(rig.posts) == 1, "the same key is the same message"


async def test_retry_after_is_seconds_or_a_date_and_never_longer_than_a_day() -> None:
    async with webhook() as rig:
        await rig.channel.start(RecordingMessageHandler())
        date = time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime(time.time() + 60))
        past = "Thu, 01 Jan 1970 00:00:00 GMT"
        for said, least, most in (("7", 7, 7), (date, 50, 61), (past, 0, 0), ("999999999", 86400, 86400)):
            rig.answers.append(f"429 Slow Down\r\nRetry-After: {said}")
            with pytest.raises(DeliveryDeferred) as caught:
                await rig.channel.post(ChatAddress(NAME, rig.room), "hello", key="k")
            assert caught.value.retry_after_s is not None
            assert least <= caught.value.retry_after_s <= most


async def test_a_refused_connection_is_not_sent_and_the_state_says_so() -> None:
    async with webhook() as rig:
        gone = WebhookChannel(NAME, "http://127.0.0.1:9/x", secret=SECRET)
        await gone.start(RecordingMessageHandler())
        with pytest.raises(DeliveryDeferred, match="nothing listens there"):
            await gone.post(ChatAddress(NAME, rig.room), "hello", key="k")
        assert "cannot be posted" in gone.state


async def test_f39_files_in_a_message_are_fetched_only_from_public_addresses(tmp_path: Path) -> None:
    """F39: the owner's own `url` may be private; what others write may not."""
    async with webhook() as rig:
        channel = WebhookChannel(NAME, f"http://127.0.0.1:{rig.port}/taken", secret=SECRET)
        await channel.start(RecordingMessageHandler())
        rig.files.append(b"secret")
        for url in (
            f"http://127.0.0.1:{rig.port}/files/0", f"http://localhost:{rig.port}/files/0", "http://169.254.169.254/x",
            "http://[::1]/x", "http://2130706433/x", "file:///etc/passwd", "gopher://x/", "http://u:p@example.com/",
        ):  # fmt: skip
            with pytest.raises(DeliveryRejected):
                await channel.download(IncomingFile(ref=url), str(tmp_path / "got"), 1000)
        assert not list(tmp_path.iterdir())
        await channel.post(ChatAddress(NAME, rig.room), "hello", key="k")
        assert len(rig.posts) == 1


async def test_a_file_is_written_to_a_new_place_only(tmp_path: Path) -> None:
    async with webhook() as rig:
        await rig.channel.start(RecordingMessageHandler())
        rig.files.append(b"content")
        file = IncomingFile(ref=f"http://127.0.0.1:{rig.port}/files/0")
        (tmp_path / "there").write_text("mine")
        (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
        for name in ("there", "link"):
            with pytest.raises(DeliveryDeferred):
                await rig.channel.download(file, str(tmp_path / name), 1000)
        assert (tmp_path / "there").read_text() == "mine"
        assert not (tmp_path / "elsewhere").exists()


async def test_only_whole_files_of_a_bearable_size_are_sent(tmp_path: Path) -> None:
    async with webhook() as rig:
        await rig.channel.start(RecordingMessageHandler())
        at = ChatAddress(NAME, rig.room)
        (tmp_path / "most").write_bytes(bytes(FILE_BYTES_MAX))
        await rig.channel.upload(at, str(tmp_path / "most"), "most.bin", "", key="k1")
        (tmp_path / "more").write_bytes(bytes(FILE_BYTES_MAX + 1))
        (tmp_path / "link").symlink_to(tmp_path / "most")
        for name in ("more", "link", "gone", "."):
            with pytest.raises(DeliveryRejected):
                await rig.channel.upload(at, str(tmp_path / name), name, "", key=name)
        assert [one["key"] for one in rig.posts] == ["k1"]


@pytest.mark.parametrize(
    ("secret", "url", "why"),
    [
        ("", "http://x.example/", "no secret"),
        ("short", "http://x.example/", "at least 16"),
        (SECRET, "", "http://"),
        (SECRET, "ftp://x.example/", "http://"),
        (SECRET, "http://u:p@x.example/", "password"),
    ],
    ids=["no secret", "a short one", "no url", "no web address", "a password in it"],
)
def test_unusable_settings_are_reported_before_anything_starts(secret: str, url: str, why: str) -> None:
    with pytest.raises(ConfigError, match=why) as caught:
        WebhookChannel(NAME, url, secret=secret)
    assert not secret or secret not in str(caught.value)
