"""What only Bedrock does: frames with checksums, requests that are signed, and errors as frames of their own."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest
from support.streams.formats import ask
from support.streams.more import BedrockFormat, framed
from support.streams.server import Loopback, chunked
from test_providers import HELLO, call_stream, joined, parse_parts

from mainstay.core import errors
from mainstay.core.messages import Message, Text, ToolCall, ToolResult
from mainstay.core.ports import Context, Options, StreamFinished
from mainstay.providers.bedrock.aws_auth import AwsCredentials, sign_headers
from mainstay.providers.bedrock.provider import BedrockProvider

api = BedrockFormat()
KEYS = AwsCredentials("AKID", "SECRET/+", "eu-west-1")
HEADERS = {
    "Content-Type": "application/json",
    "Accept": "application/vnd.amazon.eventstream",
    "Accept-Encoding": "identity",
    "User-Agent": "mainstay",
}
URL = (
    "https://bedrock-runtime.eu-west-1.amazonaws.com/model/eu.anthropic.claude-sonnet-4-5-20250929-v1%3A0/"
    "converse-stream"
)


@pytest.mark.parametrize(
    ("token", "signature"),
    [
        ("", "cad91d9d8cd2eb909d36a831fbdbc140ea4cd3197628cecdcff97e7d97964b49"),
        ("TOKEN//+==", "292134eb7c6b1c051b36558d3baa734618c885a9c29e1a75e9b626fcf74904cb"),
    ],
    ids=["keys that stay", "keys that expire"],
)
def test_a_request_is_signed_as_amazons_own_client_signs_it(token: str, signature: str) -> None:
    """The signatures are those that botocore 1.44 makes of the same."""
    now = datetime(2026, 11, 15, 9, 0, 0, tzinfo=UTC)
    keys = AwsCredentials(KEYS.access_key_id, KEYS.secret_access_key, KEYS.region, token)
    made = sign_headers(URL, HEADERS, b'{"messages":[]}', keys, now)
    assert made["Authorization"].endswith(f"Signature={signature}")
    assert made["X-Amz-Date"] == "20261115T090000Z"
    assert made.get("X-Amz-Security-Token", "") == token


async def test_keys_are_used_and_never_sent() -> None:
    async with Loopback(chunked(*api.text("x"), *api.end("end"), *api.tail())) as server:
        provider = BedrockProvider("a.b:0", base_url=server.url, api_key=KEYS)
        pieces, error = await ask(provider, HELLO)
        await provider.close()
    assert error is None
    assert joined(pieces)[0] == ("text", "x")
    (asked,) = server.asked
    assert asked.line == "POST /v1/model/a.b%3A0/converse-stream HTTP/1.1"
    assert asked.headers["authorization"].startswith("AWS4-HMAC-SHA256 Credential=AKID/")
    assert KEYS.secret_access_key not in str(asked) + repr(KEYS) + repr(provider)


def test_f12_a_garbled_frame_breaks_the_stream_at_any_position() -> None:
    """F12: one bit of any byte after the first frame."""
    events = [*api.begin(), *api.text("x"), *api.end("end"), *api.tail()]
    body, first = b"".join(events), len(events[0])
    end = len(b"".join(events[:-1]))
    for place in range(first, end):
        garbled = body[:place] + bytes([body[place] ^ 1]) + body[place + 1 :]
        said, finished, error = parse_parts(api, garbled)
        assert finished is None, place
        assert error is None or isinstance(error, errors.StreamBroken), place
        assert said in ([], [("text", "x")]), place


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("throttlingException", errors.RateLimited),
        ("serviceUnavailableException", errors.Overloaded),
        ("modelStreamErrorException", errors.Overloaded),
        ("internalServerException", errors.Overloaded),
        ("validationException", errors.RequestRefused),
    ],
)
def test_f16_every_exception_is_mapped(kind: str, expected: type) -> None:
    _, _, error = parse_parts(api, api.error({"type": kind, "message": "so it is"}))
    assert type(error) is expected
    assert "so it is" in str(error)


def test_an_error_without_a_known_format_is_reported_too() -> None:
    headers = {":message-type": "error", ":error-code": "InternalError", ":error-message": 'it "broke" \\ off'}
    _, _, error = parse_parts(api, framed(headers, b""))
    assert isinstance(error, errors.Overloaded)
    assert "broke" in str(error)


def test_f14_interleaved_blocks_are_separated() -> None:
    a, b = api.call(0, "a", '{"n"', ":1}"), api.call(1, "b", '{"n"', ":2}")
    events = [piece for pair in zip(a, b, strict=True) for piece in pair]
    assert parse_parts(api, *events)[0] == [("call", "a", '{"n":1}'), ("call", "b", '{"n":2}')]


def test_headers_of_every_type_are_skipped() -> None:
    """The nine types of a header's value, between those that matter."""
    values = {
        0: b"",
        1: b"",
        2: b"\1",
        3: b"\0\1",
        4: b"\0" * 4,
        5: b"\0" * 8,
        6: b"\0\2ab",
        8: b"\0" * 8,
        9: b"\0" * 16,
    }
    plain = api.frame(b'{"contentBlockIndex":0,"delta":{"text":"x"}}')
    size = int.from_bytes(plain[4:8])
    head, payload = plain[12 : 12 + size], plain[12 + size : -4]
    odd = b"".join(b"\1h" + bytes([kind]) + value for kind, value in values.items())
    frame = _sealed(odd + head, payload)
    assert parse_parts(api, frame, *api.end("end"))[0] == [("text", "x")]


def _sealed(head: bytes, payload: bytes) -> bytes:
    import struct
    import zlib

    prelude = struct.pack(">II", len(head) + len(payload) + 16, len(head))
    body = prelude + struct.pack(">I", zlib.crc32(prelude)) + head + payload
    return body + struct.pack(">I", zlib.crc32(body))


def test_false_header_lengths_break_the_stream() -> None:
    good = api.frame(b"{}")
    _, _, error = parse_parts(api, good + _sealed(b"\xffabc", b"{}"))
    assert isinstance(error, errors.StreamBroken)


@pytest.mark.parametrize("reason", ["malformed_model_output", "malformed_tool_use"])
def test_an_answer_that_the_model_garbled_is_broken(reason: str) -> None:
    said, finished, error = parse_parts(api, *api.text("x"), api.event("messageStop", {"stopReason": reason}))
    assert (said, finished) == ([("text", "x")], None)
    assert isinstance(error, errors.StreamBroken)


def test_frames_that_come_byte_by_byte_are_not_joined_each_time() -> None:
    """Or a long answer would cost its square: what is held is only looked at once there is more to know."""
    cutter = api.cutter()
    frame = api.frame(b'{"delta":{"text":"' + b"x" * 50_000 + b'"}}')
    assert [cutter.feed(frame[at : at + 1]) for at in range(len(frame) - 1)] == [[]] * (len(frame) - 1)
    assert len(cutter._partial_line) > 40_000
    assert len(cutter.feed(frame[-1:])) == 1


def test_the_whole_stream_is_read_in_one_piece() -> None:
    said, finished, _ = parse_parts(api, b"".join(call_stream(api)))
    assert said[0] == ("text", "so")
    assert isinstance(finished, StreamFinished)


def test_a_history_with_calls_is_never_sent_without_tools() -> None:
    """It would be refused: a session may go on in an agent that has none any more."""
    call = ToolCall("c1", "add", "{}")
    said = Message(1, "user", (Text('{"toolUse":{}} is only text'),))
    made, done = Message(2, "assistant", (call,)), Message(3, "tool", (ToolResult("c1", "add", "2"),))
    provider = api.make("http://127.0.0.1:1")
    assert "toolConfig" not in json.loads(provider.build_body(Context("", [said]), Options()))
    body = json.loads(provider.build_body(Context("", [said, made, done]), Options()))
    assert [one["toolSpec"]["name"] for one in body["toolConfig"]["tools"]] == ["none"]
