"""Slack's HTTP events: verified, deduplicated, and stored before they are answered."""

from __future__ import annotations

import asyncio
import json
import logging
import time

import pytest
from support.slack_platform import ANN, BOT, DIRECT, ROOM, SECRET, TOKEN, Poster, bounds, by_http, callback, signed

from mainstay.channels.slack.channel import SlackChannel
from mainstay.core.channels import IncomingMessage
from mainstay.testing.channel_rig import RecordingMessageHandler, wait_until

JSON = {"Content-Type": "application/json"}


def event(text: str, ts: str = "1767225600.000100", **more: object) -> bytes:
    told = {"type": "message", "channel": ROOM, "channel_type": "channel", "user": ANN, "text": text, "ts": ts}
    return json.dumps(callback(told | more)).encode()


async def test_the_address_is_verified_with_its_challenge_if_it_is_signed() -> None:
    async with by_http() as (rig, poster):
        await rig.channel.start(RecordingMessageHandler())
        body = json.dumps({"type": "url_verification", "token": "x", "challenge": "3eZbrw1a"}).encode()
        assert await poster.exchange(body, JSON | signed(body)) == (200, b'{"challenge":"3eZbrw1a"}')
        assert (await poster.exchange(body, JSON))[0] == 401


async def test_a_request_without_a_current_signature_is_refused_before_it_is_parsed_f42() -> None:
    """F42: every refusal reads the same, and a body that is no JSON at all is refused for its signature."""
    async with by_http() as (rig, poster):
        ear = RecordingMessageHandler()
        await rig.channel.start(ear)
        body = event("forged")
        good = signed(body)
        stamp, mark = good["X-Slack-Request-Timestamp"], good["X-Slack-Signature"]
        tries: list[tuple[bytes, dict[str, str]]] = [
            (body, {}),
            (body, {"X-Slack-Signature": mark}),
            (body, {"X-Slack-Request-Timestamp": stamp}),
            (body, good | {"X-Slack-Signature": mark[:-1] + ("0" if mark[-1] != "0" else "1")}),
            (body, good | {"X-Slack-Signature": mark.removeprefix("v0=")}),
            (body, good | {"X-Slack-Signature": "v0="}),
            (body, good | {"X-Slack-Signature": "v0=\xe9\xff"}),
            (body, good | {"X-Slack-Request-Timestamp": str(int(stamp) + 1)}),
            (body, good | {"X-Slack-Request-Timestamp": f"{stamp}.0"}),
            (body, good | {"X-Slack-Request-Timestamp": "-1"}),
            (body, good | {"X-Slack-Request-Timestamp": "٣"}),
            (body + b" ", good),
            (body.replace(b"forged", b"forger"), good),
            (b"", good),
            (body, signed(body, secret="another")),
            (body, signed(body, secret="")),
            (body, signed(body, at=time.time() - 400)),
            (body, signed(body, at=time.time() + 400)),
            (body, signed(body, at=0)),
            (b"{not json", signed(b"{not json", secret="another")),
        ]
        answers = {await poster.exchange(content, JSON | headers) for content, headers in tries}
        assert answers == {(401, b'{"error":"the signature is not valid"}')}
        assert ear.received == []
        assert await poster.post(body) == 200
        await ear.wait_for("forged")


async def test_a_request_signed_within_the_window_and_replayed_is_handled_once() -> None:
    async with by_http() as (rig, poster):
        ear = RecordingMessageHandler()
        await rig.channel.start(ear)
        body = event("again and again")
        headers = JSON | signed(body, at=time.time() - 200)
        for retry in ("", "1", "2", "3"):
            more = {"X-Slack-Retry-Num": retry, "X-Slack-Retry-Reason": "http_timeout"} if retry else {}
            assert (await poster.exchange(body, headers | more))[0] == 200
        assert [one.text for one in ear.received] == ["again and again"]


async def test_it_is_answered_only_once_it_is_stored() -> None:
    async with by_http(bounds(http_accept_timeout_s=1.0)) as (rig, poster):
        kept = asyncio.Event()
        heard: list[str] = []

        async def slow(message: IncomingMessage) -> None:
            await kept.wait()
            heard.append(message.text)

        await rig.channel.start(slow)
        body = event("keep me")
        assert await poster.post(body) == 503, "Slack will post it again"
        assert heard == []
        kept.set()
        assert await poster.post(body, headers={"X-Slack-Retry-Num": "1"}) == 200
        assert await poster.post(body, headers={"X-Slack-Retry-Num": "2"}) == 200
        assert heard == ["keep me"]


async def test_a_mention_and_its_message_at_once_are_one() -> None:
    async with by_http() as (rig, poster):
        ear = RecordingMessageHandler()
        await rig.channel.start(ear)
        bodies = [event(f"<@{BOT}> hi"), event(f"<@{BOT}> hi", type="app_mention"), event(f"<@{BOT}> hi")]
        assert await asyncio.gather(*map(poster.post, bodies)) == [200, 200, 200]
        assert [(one.text, one.mentioned) for one in ear.received] == [("hi", True)]


async def test_commands_come_as_if_they_were_written() -> None:
    async with by_http() as (rig, poster):
        ear = RecordingMessageHandler()
        await rig.channel.start(ear)
        fields = {"channel_id": ROOM, "user_id": ANN, "user_name": "ann", "team_id": "T1", "response_url": "https://x"}
        for number, (command, text) in enumerate(
            (("/stop", ""), ("/steer", "be brief"), ("/mainstay", "stop  now"), ("/mainstay", "hi &amp; bye"))
        ):
            given = fields | {"command": command, "text": text, "trigger_id": f"1.2.{number}"}
            assert await poster.command(given) == (200, b"")
            assert await poster.command(given) == (200, b"")  # told twice
        assert [one.text for one in ear.received] == ["/stop", "/steer be brief", "/stop now", "hi & bye"]
        assert {(one.user, one.name, one.mentioned, one.address.room) for one in ear.received} == {
            (ANN, "ann", True, ROOM)
        }
        assert await poster.command(fields | {"command": "/stop", "channel_id": DIRECT, "trigger_id": "x"}) == (
            200,
            b"",
        )
        assert ear.received[-1].direct
        assert await poster.command({"command": "/stop"}) == (200, b""), "nothing can be made of it"
        assert await poster.command({"ssl_check": "1"}) == (200, b"")
        assert len(ear.received) == 5


async def test_half_a_character_in_an_event_is_replaced_and_the_message_is_delivered() -> None:
    """Slack would send a refused event again, and then switch the subscription off."""
    async with by_http() as (rig, poster):
        ear = RecordingMessageHandler()
        await rig.channel.start(ear)
        assert await poster.post(event("hello").replace(b"hello", b"half \\ud83d")) == 200
        await wait_until(lambda: bool(ear.received), "the message")
        assert [one.text for one in ear.received] == ["half \ufffd"]


async def test_a_signed_invalid_request_changes_nothing() -> None:
    async with by_http() as (rig, poster):
        ear = RecordingMessageHandler()
        await rig.channel.start(ear)
        for body in (b"", b"{", b"\xff\xfe", b"[" * 100_000, b"nope", b"[1]", b"null"):
            assert await poster.post(body) == 400, body[:20]
        assert await poster.post(b"&" * 500, media="application/x-www-form-urlencoded") in (200, 400)
        assert await poster.post(b"%ff=%fe&" * 200, media="application/x-www-form-urlencoded") == 400
        for odd in (
            {},
            {"type": "app_rate_limited"},
            {"type": "event_callback"},
            {"type": 3},
            {"type": "event_callback", "event": []},
        ):
            assert await poster.post(json.dumps(odd).encode()) == 200
        assert await poster.post(event("still here")) == 200
        assert [one.text for one in ear.received] == ["still here"]


async def test_too_large_too_slow_and_other_methods_are_refused_f20() -> None:
    """F20, F19: before it is read whole, with any declared length."""
    async with by_http(bounds(body_bytes_max=10_000, body_timeout_s=1.0)) as (rig, poster):
        await rig.channel.start(RecordingMessageHandler())
        large = b"x" * 10_001
        assert (await poster.exchange(large, JSON | signed(large)))[0] == 413

        async def pieces():  # type: ignore[no-untyped-def]
            for _ in range(3):
                yield b"x" * 5_000

        async with poster.session.post(poster.url, data=pieces()) as response:
            assert response.status == 413
        async with poster.session.get(poster.url) as response:
            assert (response.status, response.headers["Allow"]) == (405, "POST")
        assert await half_a_request(poster) == b"HTTP/1.1 408"
        assert await poster.post(event("and so on")) == 200


async def half_a_request(poster: Poster) -> bytes:
    port = int(poster.url.split(":")[2].partition("/")[0])
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"POST /channels/team HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n{")
    answer = await reader.read(12)
    writer.close()
    return answer


async def test_before_it_is_started_and_after_it_is_closed_nothing_is_taken() -> None:
    async with by_http() as (rig, poster):
        assert await poster.post(event("too early")) == 503
        ear = RecordingMessageHandler()
        await rig.channel.start(ear)
        await rig.channel.close()
        assert await poster.post(event("too late")) == 503
        assert (await poster.exchange(b"{}", JSON))[0] == 401, "who is not Slack does not learn that"
        assert ear.received == []


async def test_refusals_are_logged_at_a_limited_rate_without_secrets(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        async with by_http() as (rig, poster):
            await rig.channel.start(RecordingMessageHandler())
            for _ in range(5):
                await poster.exchange(b"{}", JSON)
            await poster.post(event("fine"))
            await wait_until(lambda: poster.statuses[-1] == 200, "it was taken")
    lines = [one.getMessage() for one in caplog.records if one.name.startswith("mainstay")]
    assert len([one for one in lines if "refused a request from 127.0.0.1" in one]) == 1
    assert SECRET not in caplog.text
    assert TOKEN not in caplog.text


def test_without_a_signing_secret_nothing_is_served() -> None:
    assert SlackChannel("team", TOKEN, app_token="xapp-1").asgi_app() is None
