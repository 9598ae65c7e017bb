"""HTTP/1.1 by hand: every way a body may come, every place it may be cut, and connections that are kept."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
from support.paths import KEYS

from mainstay.core.errors import Unreachable
from mainstay.core.http_response_parser import (
    CHUNK_LINE_BYTES_MAX,
    HEAD_BYTES_MAX,
    HEADERS_MAX,
    RESPONSES_MAX,
    ConnectionBroken,
)
from mainstay.core.limits import Limits
from mainstay.providers.wire.http1 import HttpConnection
from mainstay.providers.wire.http_client import HttpClient

Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]

TEXT = b"one two " * 40
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"".join(
    b"%x\r\n%b\r\n" % (len(piece), piece) for piece in (TEXT[:1], TEXT[1:17], TEXT[17:])
)
BODIES = {
    "chunked": (CHUNKED + b"0\r\n\r\n", TEXT, True),
    "extensions and trailers": (
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: Chunked\r\n\r\n5;a=b\r\nhello\r\n0\r\nX-More: yes\r\n\r\n",
        b"hello",
        True,
    ),
    "a known length": (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", b"hello", True),
    "nothing": (b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", b"", True),
    "until it ends": (b"HTTP/1.1 200 OK\r\n\r\nhello", b"hello", False),
    "an old server": (b"HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\nhello", b"hello", False),
    "a server that closes": (b"HTTP/1.1 200 OK\r\nConnection: Close\r\nContent-Length: 2\r\n\r\nhi", b"hi", False),
    "line feeds": (
        b"HTTP/1.1 200 OK\nX: y\nTransfer-Encoding: chunked\n\n5\r\na\r\n\r\n\r\n0\r\n\r\n",
        b"a\r\n\r\n",
        True,
    ),
    "a length said twice": (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\nhi", b"hi", True),
    "a server that closes among other words": (
        b"HTTP/1.1 200 OK\r\nConnection: keep-alive\r\nConnection: close\r\nContent-Length: 2\r\n\r\nhi",
        b"hi",
        False,
    ),
    "chunks and a length": (
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
        b"hello",
        False,
    ),
    "signs of life first": (
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n"
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi",
        b"hi",
        True,
    ),
}


class FakeTransport(asyncio.Transport):
    def __init__(self) -> None:
        super().__init__()
        self.closed = False

    def write(self, data: bytes | bytearray | memoryview) -> None: ...

    def is_closing(self) -> bool:
        return self.closed

    def abort(self) -> None:
        self.closed = True


def connection() -> HttpConnection:
    made = HttpConnection()
    made.connection_made(FakeTransport())
    made.send(b"")
    return made


async def whole(made: HttpConnection) -> bytes:
    await made.read_head()
    body = b""
    while more := await made.read():
        body += more
    return body


@pytest.mark.parametrize("name", BODIES)
async def test_a_response_is_read_the_same_however_it_is_cut(name: str) -> None:
    raw, body, keeps = BODIES[name]
    for cut in range(len(raw) + 1):
        made = connection()
        reading = asyncio.ensure_future(whole(made))
        for piece in (raw[:cut], raw[cut:]):
            if piece:
                made.data_received(piece)
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        made.connection_lost(None)
        assert await reading == body
        assert made.is_complete
        assert made.keep_alive is keeps
    made = connection()
    reading = asyncio.ensure_future(whole(made))
    for byte in raw:
        made.data_received(bytes([byte]))
        await asyncio.sleep(0)
    made.connection_lost(None)
    assert await reading == body


async def test_a_head_with_line_feeds_ends_where_it_ends_whatever_the_body_has() -> None:
    for body in (b"\r\n\r\n", b"x" * HEAD_BYTES_MAX + b"\r\n\r\n", b"a: b\r\n\r\n", b"\n\n"):
        made = connection()
        made.data_received(b"HTTP/1.1 200 OK\nX: y\nContent-Length: %d\n\n" % len(body) + body)
        assert await whole(made) == body


@pytest.mark.parametrize("name", ["chunked", "a known length"])
async def test_f12_a_response_that_is_cut_is_never_whole(name: str) -> None:
    raw, _, _ = BODIES[name]
    for cut in range(len(raw)):
        for error in (None, ConnectionResetError("reset")):
            made = connection()
            made.data_received(raw[:cut])
            made.connection_lost(error)
            with pytest.raises(ConnectionBroken):
                await whole(made)
    made = connection()
    made.data_received(BODIES["until it ends"][0])
    made.connection_lost(ConnectionResetError("reset"))
    with pytest.raises(ConnectionBroken, match="reset"):
        await whole(made)


OK = b"HTTP/1.1 200 OK\r\n"
CHUNKS = OK + b"Transfer-Encoding: chunked\r\n\r\n"
END = b"Content-Length: 2\r\n\r\nhi"
REFUSED = {
    "another protocol": b"SSH-2.0-OpenSSH_9.6\r\n",
    "http/2": b"HTTP/2 200 OK\r\n\r\n",
    "a version of letters": b"HTTP/1.x 200 OK\r\n" + END,
    "a status of letters": b"HTTP/1.1 abc\r\n\r\n",
    "a long status": b"HTTP/1.1 2000 OK\r\n" + END,
    "a status of 600": b"HTTP/1.1 600 OK\r\n" + END,
    "headers without end": OK + b"X: y\r\n" * HEAD_BYTES_MAX,
    "many headers": OK + b"X: y\r\n" * HEADERS_MAX + END,
    "a long head": OK + b"X: " + b"y" * HEAD_BYTES_MAX + b"\r\n" + END,
    "a space before the colon": OK + b"Content-Length : 2\r\n\r\nhi",
    "no colon": OK + b"hello\r\n" + END,
    "a folded header": OK + b"A: b\r\n c: d\r\n" + END,
    "a nameless header": OK + b": b\r\n" + END,
    "a NUL in a header": OK + b"A: \x00\r\n" + END,
    "a carriage return in a header": OK + b"A: b\rContent-Length: 9\r\n" + END,
    "a line feed in a header": OK + b"A: b\nC: d\r\n" + END,
    "two lengths": OK + b"Content-Length: 5\r\n" + END,
    "a length with a sign": OK + b"Content-Length: +2\r\n\r\nhi",
    "a length in words": OK + b"Content-Length: two\r\n\r\nhi",
    "an empty length": OK + b"Content-Length:\r\n\r\nhi",
    "an unknown transfer coding": OK + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    "a coding that is not chunked": OK + b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
    "chunked twice": OK + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "signs of life only": b"HTTP/1.1 100 Continue\r\n\r\n" * RESPONSES_MAX + OK + END,
    "a negative size": CHUNKS + b"-5\r\nhello\r\n",
    "a size with 0x": CHUNKS + b"0x5\r\nhello\r\n",
    "a size with an underscore": CHUNKS + b"1_0\r\nhello\r\n",
    "no size": CHUNKS + b"\r\nhello\r\n",
    "a huge size": CHUNKS + b"ffffffffff\r\nhello\r\n",
    "a chunk too long": CHUNKS + b"5\r\nhelloXX\r\n0\r\n\r\n",
    "a line feed after a size": CHUNKS + b"5\n\r\nhello\r\n0\r\n\r\n",
    "a line feed in an extension": CHUNKS + b"5;a\nb\r\nhello\r\n0\r\n\r\n",
    "chunks with line feeds": CHUNKS + b"5\nhello\n0\n\n",
    "a size without end": CHUNKS + b"0" * (HEAD_BYTES_MAX + 9),
    "a long extension": CHUNKS + b"5;" + b"x" * CHUNK_LINE_BYTES_MAX + b"\r\nhello\r\n0\r\n\r\n",
    "a long trailer": CHUNKS + b"0\r\nX: " + b"y" * CHUNK_LINE_BYTES_MAX + b"\r\n\r\n",
}


@pytest.mark.parametrize("raw", REFUSED.values(), ids=REFUSED.keys())
async def test_a_response_that_is_not_http_is_refused(raw: bytes) -> None:
    for cut in (0, *range(1, min(len(raw), 200)), len(raw) - 1):
        made = connection()
        reading = asyncio.ensure_future(whole(made))
        for piece in (raw[:cut], raw[cut:]):
            made.data_received(piece)
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        made.connection_lost(None)
        with pytest.raises(ConnectionBroken):
            await reading


@pytest.mark.parametrize(
    ("start", "frame"),
    [(b"", b"1;" + b"x" * 4000 + b"\r\na\r\n"), (b"0\r\n", b"X: y\r\n" * 1000)],
    ids=["extensions", "trailers"],
)
async def test_frames_without_end_are_refused(start: bytes, frame: bytes) -> None:
    made = connection()
    made.data_received(CHUNKS)
    await made.read_head()
    made.feed_body(start)

    def feed_frames() -> None:
        for _ in range(2 * made.framing_bytes_max // len(frame)):
            made.feed_body(frame)

    with pytest.raises(ConnectionBroken, match="more frames than content"):
        feed_frames()


# --- connections ---------------------------------------------------------------------------------


@asynccontextmanager
async def serving(handler: Handler, tls: ssl.SSLContext | None = None) -> AsyncIterator[int]:
    server = await asyncio.start_server(handler, "127.0.0.1", 0, ssl=tls)
    async with server:
        yield server.sockets[0].getsockname()[1]


async def read_request(reader: asyncio.StreamReader) -> tuple[bytes, bytes]:
    head = await reader.readuntil(b"\r\n\r\n")
    length = next(int(line[15:]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:"))
    return head, await reader.readexactly(length)


def answering(seen: list[bytes], answer: bytes = CHUNKED + b"0\r\n\r\n", times: int = 1000) -> Handler:
    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            for _ in range(times):
                head, body = await read_request(reader)
                seen.append(head + body)
                writer.write(answer)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    return handle


async def ask(client: HttpClient, url: str) -> None:
    reply = await client.open_stream(url, {"X-Test": "yes"}, b"{}")
    while await reply.read():
        pass
    reply.is_done = True
    reply.close()


async def test_a_connection_is_used_again_and_a_dead_one_is_replaced_silently() -> None:
    seen: list[bytes] = []
    made = 0

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal made
        made += 1
        await answering(seen, times=3)(reader, writer)  # closes after the third answer, as servers do

    async with serving(handle) as port:
        client = HttpClient("it", Limits())
        for _ in range(7):
            await ask(client, f"http://127.0.0.1:{port}/v1/x?y=z")
            await asyncio.sleep(0.01)
        await client.close()
    assert len(seen) == 7
    assert made == 3
    assert seen[0].startswith(b"POST /v1/x?y=z HTTP/1.1\r\nHost: 127.0.0.1:")
    assert seen[0].endswith(b"X-Test: yes\r\nContent-Length: 2\r\n\r\n{}")


@pytest.mark.parametrize("answer", [CHUNKED + b"0\r\n\r\n", OK + b"Content-Length: 2\r\n\r\nhi"])
@pytest.mark.parametrize("more", [b"", b"HTTP/1.1 200 OK\r\nContent-Le"], ids=["the answer", "and more"])
async def test_a_connection_with_more_than_its_answer_is_not_used_again(answer: bytes, more: bytes) -> None:
    seen: list[bytes] = []
    made = 0

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal made
        made += 1
        await answering(seen, answer + more)(reader, writer)

    async with serving(handle) as port:
        client = HttpClient("it", Limits())
        for _ in range(3):
            await ask(client, f"http://127.0.0.1:{port}/")
        await client.close()
    assert made == (3 if more else 1)


async def test_an_answer_that_is_left_early_closes_its_connection() -> None:
    gone = asyncio.Event()

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(CHUNKED)
        try:
            assert await reader.read() == b""
        except ConnectionError:
            pass
        gone.set()
        writer.close()

    async with serving(handle) as port:
        client = HttpClient("it", Limits())
        reply = await client.open_stream(f"http://127.0.0.1:{port}/", {}, b"{}")
        reply.close()
        await asyncio.wait_for(gone.wait(), 120)
        await client.close()


def server_tls() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(KEYS / "localhost.pem", KEYS / "localhost.key")
    return context


async def test_https_is_checked_against_the_known_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[bytes] = []
    async with serving(answering(seen), server_tls()) as port:
        strict = HttpClient("it", Limits())
        with pytest.raises(
            Unreachable, match=f"certificate of it at https://localhost:{port} is not trusted"
        ) as refused:
            await ask(strict, f"https://localhost:{port}/")
        assert not refused.value.retryable, "a certificate does not change within seconds"
        await strict.close()
        monkeypatch.setenv("SSL_CERT_FILE", str(KEYS / "localhost.pem"))
        client = HttpClient("it", Limits())
        await ask(client, f"https://localhost:{port}/")
        await ask(client, f"https://localhost:{port}/")
        await client.close()
    assert len(seen) == 2


async def test_a_proxy_of_the_environment_is_used_for_http(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[bytes] = []
    async with serving(answering(seen)) as port:
        monkeypatch.setenv("http_proxy", f"http://user:pa%20ss@127.0.0.1:{port}")
        monkeypatch.setenv("no_proxy", "")
        client = HttpClient("it", Limits())
        await ask(client, "http://models.example/v1")
        await client.close()
    assert seen[0].startswith(b"POST http://models.example/v1 HTTP/1.1\r\nHost: models.example\r\n")
    assert b"Proxy-Authorization: Basic dXNlcjpwYSBzcw==\r\n" in seen[0]


async def test_https_goes_through_a_proxy_by_a_tunnel(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[bytes] = []
    asked: list[bytes] = []

    async def proxy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        asked.append(head.split(b"\r\n")[0])
        if b":1 " in asked[-1]:
            writer.write(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n")
            return writer.close()
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", int(asked[-1].split(b":")[1].split()[0]))
        writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")

        async def pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
            while data := await source.read(65536):
                sink.write(data)
            sink.close()

        await asyncio.gather(pump(reader, far_writer), pump(far_reader, writer), return_exceptions=True)

    async with serving(answering(seen), server_tls()) as port, serving(proxy) as proxy_port:
        monkeypatch.setenv("https_proxy", f"127.0.0.1:{proxy_port}")
        monkeypatch.setenv("no_proxy", "")
        monkeypatch.setenv("SSL_CERT_FILE", str(KEYS / "localhost.pem"))
        client = HttpClient("it", Limits())
        await ask(client, f"https://localhost:{port}/v1")
        with pytest.raises(Unreachable, match="localhost:1"):
            await ask(client, "https://localhost:1/v1")
        await client.close()
    assert asked[0] == f"CONNECT localhost:{port} HTTP/1.1".encode()
    assert seen[0].startswith(b"POST /v1 HTTP/1.1\r\n")
