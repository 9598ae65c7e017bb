"""Limits of a request (F20): too much of anything is refused before it is stored, and other clients are not
affected."""

from __future__ import annotations

import asyncio
import gzip
import json
from typing import Any

import pytest
from starlette.requests import Request
from starlette.routing import Route
from support.http_world import HOLDS_S, MAIN, World, world

from mainstay.providers.scripted import Step
from mainstay.server.http_app import HttpSettings, create_app

MOST = 10_000
SMALL = HttpSettings(workspace=MAIN, body_bytes_max=MOST)
PROMPT = "/api/sessions/s/prompt"


def echoing(context: Any, options: Any) -> Step:
    return "yes"


async def status(here: World, said: bytes) -> int:
    got = await here.raw(said)
    return int(got.split()[1]) if got else 0


async def unharmed(here: World) -> None:
    """Nothing was kept, and others are served."""
    assert (await here.ask("GET", "/api/sessions")).json == {"sessions": []}
    assert here.app.state.held_body_bytes == 0
    assert (await here.say("other", "hi")).json["text"] == "yes"


async def test_f20_a_body_of_the_limit_is_taken_and_one_byte_more_is_not() -> None:
    async with world(echoing, settings=SMALL) as here:
        fits = b'{"text": "%s"}' % (b"x" * (MOST - 12))
        assert len(fits) == MOST
        said = {"Content-Type": "application/json"}
        over = await here.ask("POST", PROMPT, fits + b" ", headers=said)
        assert (over.status, over.error) == (413, "too_large")
        await unharmed(here)
        assert (await here.ask("POST", PROMPT, fits, headers=said)).status == 200


HEAD = f"POST {PROMPT} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nConnection: close\r\n".encode()


LIES = [
    (b"Content-Length: 10001\r\n\r\n", {413}),  # before any of it has come
    (b"Content-Length: 99999999999999999999\r\n\r\n", {413, 400}),
    (b"Content-Length: -1\r\n\r\n", {400}),
    (b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nxxxxx", {400}),
    (b"Content-Length: 0x10\r\n\r\n", {400}),
    (b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", {400}),
    (
        b"Transfer-Encoding: chunked\r\n\r\n" + b"1000\r\n" + b"x" * 4096 + b"\r\n" + b"1800\r\n" + b"y" * 6144,
        {413},
    ),
    (b"Transfer-Encoding: chunked\r\n\r\nFFFFFFFFFFFFFFFFFFFFF\r\n", {400}),
    (b"Transfer-Encoding: chunked\r\n\r\nzz\r\n", {400}),
    (b"Transfer-Encoding: gzip, chunked\r\n\r\n", {400, 501}),
    (b"X-Bomb: " + b"x" * 70_000 + b"\r\n\r\n", {400, 431}),
    (b"".join(b"X-%d: y\r\n" % number for number in range(5_000)) + b"\r\n", {400, 431}),
    (b"X-Split: a\r\n b\r\n\r\n", {400}),
    (b"X-Nul: a\0b\r\n\r\n", {400}),
    (b"no colon\r\n\r\n", {400}),
]


async def test_f20_a_false_header_or_length_is_refused() -> None:
    async with world(echoing, settings=SMALL) as here:
        for said, expected in LIES:
            got = await status(here, HEAD + said)
            assert got in expected | {0}, said[:60]  # 0: cut off while it was still sending
        await unharmed(here)


async def test_f20_a_body_that_ends_too_early_is_nothing() -> None:
    async with world(echoing, settings=SMALL) as here:
        assert await here.raw(HEAD + b'Content-Length: 14\r\n\r\n{"text"', close=True) == b""
        await unharmed(here)


async def test_f20_a_compressed_body_is_refused() -> None:
    bomb = gzip.compress(b"\0" * 10_000_000)
    async with world(echoing) as here:
        for coding in ("gzip", "deflate", "br", "zstd", "gzip, gzip"):
            said = {"Content-Type": "application/json", "Content-Encoding": coding}
            refused = await here.ask("POST", PROMPT, bomb, headers=said)
            assert (refused.status, refused.error) == (415, "unsupported_encoding")
        await unharmed(here)


async def test_f20_all_bodies_together_have_a_bound() -> None:
    async with world(echoing, settings=SMALL) as here:
        here.app.state.held_body_bytes = here.app.state.held_body_bytes_max
        refused = await here.say("s", "hi")
        assert (refused.status, refused.error) == (503, "busy")
        here.app.state.held_body_bytes = 0
        await unharmed(here)


async def test_f20_a_websocket_message_over_the_limit_or_an_invalid_frame_ends_only_that_connection() -> None:
    async with world(echoing, settings=SMALL) as here:
        async with here.browser.ws_connect(here.url("/api/ws")) as socket:
            await socket.send_str("x" * (MOST + 1))
            await socket.receive()
            assert socket.close_code == 1009
        upgrade = (
            b"GET /api/ws HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
        )
        lies = [
            b"\x81\xff" + b"\x7f" + b"\xff" * 7 + b"mask",  # 2**63 - 1 bytes are said to come
            b"\x81\xff" + b"\xff" * 8 + b"mask",
            b"\x81\x05hello",  # not masked
            b"\xf1\x85maskhello",  # bits that were not negotiated
            b"\x89\xfe\xff\xffmask",  # a ping of 64 KB
        ]
        for lie in lies:
            reader, writer = await asyncio.open_connection("127.0.0.1", here.port)
            writer.write(upgrade)
            async with asyncio.timeout(HOLDS_S):
                assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 101")
                writer.write(lie)
                assert len(await reader.read()) < 200  # why, and no more
            writer.close()
        await unharmed(here)


UNUSABLE = [
    (b"", "`text`"),
    (b"{", "truncated"),
    (b'{"text": 5}', "$.text"),
    (b'{"text": "x", "wait": "yes"}', "$.wait"),
    (b'{"text": "x", "unknown": 1}', "unknown"),
    (b'{"text": "x"} y', "byte 15"),
    (b'{"text": "\xff"}', "byte 10"),
    (b'\xff\xfe{"text"', "UTF-8"),
    (b"[" * 100_000, "object"),
    (b"{}", "text"),
    (b'{"text": "x", "parts": []}', "text"),
    (b'{"text": "  "}', "empty"),
    (b'{"parts": [{"type": "other"}]}', "$.parts[0].type"),
    (b'{"parts": [{"type": "binary", "mime": "x\\r\\ny", "data": ""}]}', "$.parts[0].mime"),
    (b'{"parts": [{"type": "binary", "mime": "a/b", "data": "***"}]}', "$.parts[0].data"),
    (b'{"text": "x", "id": "%s"}' % (b"x" * 300), "$.id"),
]


async def test_an_invalid_body_is_reported_with_its_place() -> None:
    async with world(echoing) as here:
        for body, place in UNUSABLE:
            refused = await here.ask("POST", PROMPT, body, headers={"Content-Type": "application/json"})
            assert (refused.status, refused.error) == (400, "invalid_request"), body[:40]
            assert place in refused.json["error"]["message"], body[:40]
        await unharmed(here)


async def test_a_body_has_to_say_that_it_is_json() -> None:
    async with world(echoing) as here:
        for kind in (
            "text/plain",
            "application/x-www-form-urlencoded",
            "multipart/form-data",
            "application/json; charset=utf-16",
            "",
        ):
            refused = await here.ask("POST", PROMPT, b'{"text": "x"}', headers={"Content-Type": kind})
            assert (refused.status, refused.error) == (415, "unsupported_type")
        said = {"Content-Type": 'Application/JSON; charset="UTF-8"'}
        await unharmed(here)
        assert (await here.ask("POST", PROMPT, b'{"text": "x"}', headers=said)).status == 200
        assert (await here.ask("GET", "/api/me", b"{}", headers=said)).error == "invalid_request"


TRICKS = [
    "/api/../api/me",
    "/api/%2e%2e/me",
    "/api/sessions/%2E%2E",
    "/api/sessions/..%2f..%2fme",
    "//api/me",
    "/api//me",
    "/api/sessions/a%00b",
    "/api/sessions/a%0d%0aX-Evil:%20yes",
    "/api/sessions/%ff%fe",
    "/api/sessions/%zz",
    "/api/sessions/%",
    "/api\\me",
    "/api/sessions/" + "x" * 5_000,
    "/api/sessions/" + "%41" * 400,
    "/api/sessions?limit=" + "1" * 5_000,
    "/api/sessions?limit=%ff",
    "/api/sessions?offset=-1",
    "http://evil.example/api/me",
    "*",
    "/api/sessions/%E2%80%AE",
]


async def test_manipulated_paths_are_refused() -> None:
    """Dots, double slashes, escapes of escapes, control characters, line breaks: refused, and never in a header."""
    async with world(echoing) as here:
        for path in TRICKS:
            got = await here.raw(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
            assert int(got.split()[1]) in (400, 404, 414), path[:60]
            assert b"evil" not in got.partition(b"\r\n\r\n")[0].lower()
            assert b'{"error":{"type"' in got, path[:60]
        await unharmed(here)


async def test_a_line_break_in_a_name_or_a_key_stays_a_name() -> None:
    async with world(echoing) as here:
        for name in ("a%0d%0aSet-Cookie:%20x=1", "a%0aX: y"):
            got = await here.ask("POST", f"/api/sessions/{name.replace(' ', '%20')}/prompt", {"text": "x"})
            assert (got.status, got.error) == (400, "invalid_request")
            assert "set-cookie" not in got.headers
        forked = await here.say("s", "hi", id="a\r\nX-Evil: yes")
        assert (forked.status, "x-evil" in forked.headers) == (200, False)
        assert (await here.ask("POST", "/api/sessions/s/fork", {"to": "a\r\nb"})).error == "invalid_request"


CHUNKED = b"Transfer-Encoding: chunked\r\nContent-Type: application/json\r\n\r\n"
PROMPT_BODY = b'd\r\n{"text":"hi"}\r\n0\r\n\r\n'
SMUGGLED = b"GET /api/me HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"


@pytest.mark.parametrize(
    ("request_", "why"),
    [
        pytest.param(
            f"POST {PROMPT} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\n".encode() + CHUNKED + PROMPT_BODY,
            "Transfer-Encoding together with Content-Length",
            id="two lengths",
        ),
        pytest.param(
            f"POST {PROMPT} HTTP/1.0\r\nHost: localhost\r\n".encode() + CHUNKED + PROMPT_BODY,
            "in HTTP/1.0",
            id="chunks of an old version",
        ),
        pytest.param(b"GET /healthz HTTP/1.1\nHost: localhost\n\n", "ends with LF", id="bare LF"),
        pytest.param(b"GET /healthz HTTP/1.1\r\nHost: localhost\nX: y\r\n\r\n", "ends with LF", id="one bare LF"),
        pytest.param(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\n", "ends with LF", id="bare LF at the end"),
        pytest.param(b"\nGET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n", "ends with LF", id="bare LF before"),
        *(
            pytest.param(
                f"POST {PROMPT} HTTP/1.1\r\nHost: localhost\r\n".encode() + CHUNKED + PROMPT_BODY[:-2] + trailer,
                "ends with LF",
                id=f"bare LF after the chunks {number}",
            )
            for number, trailer in enumerate((b"\n", b"X: y\n\r\n", b"X: y\r\n\n"))
        ),
        pytest.param(b"GET /healthz HTTP/2.0\r\nHost: localhost\r\n\r\n", "HTTP/2.0 is not supported", id="2.0"),
        pytest.param(b"GET /healthz HTTP/1.7\r\nHost: localhost\r\n\r\n", "HTTP/1.7 is not supported", id="1.7"),
        pytest.param(b"GET /healthz HTTP/0.9\r\nHost: localhost\r\n\r\n", "HTTP/0.9 is not supported", id="0.9"),
    ],
)
async def test_a_request_that_a_proxy_may_read_differently_is_refused_and_the_connection_closed(
    request_: bytes, why: str
) -> None:
    async with world(echoing) as here:
        got = await here.raw(request_ + SMUGGLED)  # returns once the server has closed the connection
        assert got.count(b"HTTP/1.1 ") == 1
        assert got.startswith(b"HTTP/1.1 400")
        assert b"connection: close" in got.lower()
        assert why in json.loads(got.partition(b"\r\n\r\n")[2])["error"]["message"]
        await unharmed(here)


async def test_a_head_that_arrives_byte_by_byte_is_read_as_one_that_arrives_at_once() -> None:
    async with world(echoing) as here:
        reader, writer = await asyncio.open_connection("127.0.0.1", here.port)
        for byte in b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n":
            writer.write(bytes((byte,)))
            await writer.drain()
        async with asyncio.timeout(HOLDS_S):
            assert (await reader.read()).startswith(b"HTTP/1.1 200")
        writer.close()


@pytest.mark.parametrize("escape", ["\\ud800", "\\udc00x", "\\ud800\\ud800", "a\\uDFFF"])
async def test_a_lone_surrogate_is_named_in_the_refusal_and_nothing_is_stored(escape: str) -> None:
    async with world(echoing) as here:
        body = b'{"text": "%b"}' % escape.encode()
        got = await here.ask("POST", PROMPT, body, headers={"Content-Type": "application/json"})
        assert (got.status, got.error) == (400, "invalid_request")
        assert "is a lone surrogate" in got.json["error"]["message"]
        paired = b'{"text": "\\ud83d\\ude00"}'
        await unharmed(here)
        assert (await here.ask("POST", PROMPT, paired, headers={"Content-Type": "application/json"})).status == 200


async def test_a_request_that_memory_is_too_small_for_says_so_and_others_are_served() -> None:
    async def allocate(request: Request) -> None:
        bytearray(1 << 60)

    async with world(echoing) as here:
        app = create_app(here.app.state.gateway, SMALL, routes=[Route("/much", allocate)])
        here.app._router = app._router
        got = await here.ask("GET", "/much")
        assert (got.status, got.error) == (503, "unavailable")
        assert "too little free memory" in got.json["error"]["message"]
        assert "retry-after" in got.headers
        await unharmed(here)


async def test_pipelined_requests_do_not_smuggle_one_another() -> None:
    async with world(echoing) as here:
        inner = b"GET /api/me HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n"
        first = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
        got = await here.raw(first + inner)
        assert got.count(b"HTTP/1.1 200") == 1
        assert got.count(b"HTTP/1.1 403") == 1
