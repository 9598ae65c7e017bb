"""Connections of a whole server (F19): slow, silent or gone clients cost little, and others are served."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import ssl
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest
import uvloop
from support.http_world import HOLDS_S, World, until, world

from mainstay.core.errors import ConfigError
from mainstay.core.messages import FinishReason, Usage
from mainstay.core.ports import StreamFinished, TextPiece
from mainstay.providers.scripted import Pieces, Step
from mainstay.server.connection_limits import ConnectionLimits
from mainstay.server.uvicorn_server import UvicornOptions, bind_socket, create_tls_context, serve_asgi

Run = Callable[[Coroutine[Any, Any, None]], None]
HEAD = b"POST /api/sessions/s/prompt HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
SHORT = ConnectionLimits(
    connections_max=40,
    connections_per_address_max=30,
    headers_timeout_s=1.5,
    body_timeout_s=1.5,
    read_timeout_s=1.5,
    frame_bytes_max=1 << 20,
)


@pytest.fixture(params=["asyncio", "uvloop"] if os.environ.get("MAINSTAY_TEST_ALL") else ["uvloop"])
def run(request: pytest.FixtureRequest) -> Iterator[Run]:
    loops = {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}
    with asyncio.Runner(loop_factory=loops[request.param]) as runner:
        yield runner.run


def echoing(context: Any, options: Any) -> Step:
    return "yes"


async def cut_off(here: World, said: bytes, drip: bytes = b"") -> None:
    """Returns when the server has let go of it, however long this side goes on."""
    reader, writer = await asyncio.open_connection("127.0.0.1", here.port)
    writer.write(said)
    end = asyncio.create_task(reader.read())
    async with asyncio.timeout(HOLDS_S):
        with contextlib.suppress(ConnectionError):
            while not end.done():
                writer.write(drip)
                await asyncio.wait((end,), timeout=0.02)
            await end
    writer.transport.abort()


def test_f19_slow_heads_and_bodies_are_cut_off_and_other_clients_served(run: Run) -> None:
    async def main() -> None:
        async with world(echoing, bounds=SHORT) as here:
            slow = [
                cut_off(here, b""),
                cut_off(here, HEAD, drip=b"X-A: b\r\n"),
                cut_off(here, HEAD + b"Content-Length: 5000\r\n\r\n"),
                cut_off(here, HEAD + b"Content-Length: 5000\r\n\r\n", drip=b"x"),
                cut_off(here, HEAD + b"Transfer-Encoding: chunked\r\n\r\n", drip=b"1\r\nx\r\n"),
                cut_off(here, b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n", drip=b"G"),
            ]
            waiting = asyncio.gather(*slow)
            assert (await here.say("s", "hi")).json["text"] == "yes"
            await waiting
            assert (await here.ask("GET", "/api/sessions/s")).json["turns"] == 1
            assert here.app.state.held_body_bytes == 0

    run(main())


def test_a_body_that_keeps_coming_may_take_its_time(run: Run) -> None:
    async def main() -> None:
        async with world(echoing, bounds=SHORT) as here:
            body = b'{"text": "%b"}' % (b"x" * 12_000)
            reader, writer = await asyncio.open_connection("127.0.0.1", here.port)
            writer.write(HEAD + b"Content-Length: %d\r\nConnection: close\r\n\r\n" % len(body))
            for start in range(0, len(body), 2_000):
                writer.write(body[start : start + 2_000])
                await asyncio.sleep(0.4)  # the client's own pace: longer for all of it than there is for a piece
            assert (await reader.read()).startswith(b"HTTP/1.1 200")
            writer.close()

    run(main())


def flooding(context: Any, options: Any) -> Step:
    if "flood" not in context.messages[-1].text:
        return "yes"
    return Pieces([*(TextPiece("x" * 8_000) for _ in range(400)), StreamFinished(FinishReason.END, Usage(1, 1))])


def deaf(port: int) -> socket.socket:
    made = socket.socket()
    made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
    made.connect(("127.0.0.1", port))
    return made


def test_f19_a_client_that_never_reads_its_stream_is_dropped_and_its_turn_goes_on(run: Run) -> None:
    async def main() -> None:
        async with world(flooding, bounds=SHORT) as here:
            with deaf(here.port) as made:
                body = b'{"text": "flood"}'
                made.sendall(HEAD + b"Accept: text/event-stream\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))
                await until(lambda: here.app.state.open_streams)
                assert (await here.say("t", "hi")).json["text"] == "yes"
                await until(lambda: not here.app.state.open_streams)
            await here.agents["default"].settled()
            assert (await here.ask("GET", "/api/sessions/s")).json["turns"] == 1
            async with here.hear("/api/sessions/s/events") as events:  # a reading client has all of it
                async with asyncio.timeout(HOLDS_S):
                    assert [(await anext(events)).id for _ in range(4)] == [1, 2, 3, 4]

    run(main())


def test_f19_a_websocket_that_never_reads_is_dropped(run: Run) -> None:
    async def main() -> None:
        async with world(flooding, bounds=SHORT) as here:
            with deaf(here.port) as made:
                made.sendall(
                    b"GET /api/ws HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
                )
                await until(lambda: here.app.state.open_streams)
                said = b'{"do": "prompt", "session": "s", "text": "flood"}'
                made.sendall(b"\x81" + bytes([0x80 | len(said)]) + b"\0\0\0\0" + said)
                await until(lambda: not here.app.state.open_streams)
            assert (await here.say("t", "hi")).json["text"] == "yes"

    run(main())


def test_a_websocket_client_that_is_gone_before_it_is_accepted_is_no_error(
    run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        async with world(["yes"]) as here:
            scope = {"type": "websocket", "path": "/api/ws", "raw_path": b"/api/ws", "query_string": b""}
            scope |= {"headers": [(b"host", b"localhost")], "client": ("127.0.0.1", 1), "subprotocols": []}
            sent: list[str] = []

            async def receive() -> dict[str, Any]:
                return {"type": "websocket.connect"}

            async def send(message: dict[str, Any]) -> None:
                sent.append(message["type"])
                raise ConnectionResetError

            await here.app(scope, receive, send)
            assert sent == ["websocket.accept"]

    run(main())
    assert [record.message for record in caplog.records if record.levelname == "ERROR"] == []


def test_f19_half_open_connections_are_noticed_by_the_system(run: Run) -> None:
    """A test cannot pull a cable: what can be seen is that the system was told when to give up."""
    seen: list[int] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            while (await receive())["type"] == "lifespan.startup":
                await send({"type": "lifespan.startup.complete"})
            await send({"type": "lifespan.shutdown.complete"})

    async def main() -> None:
        from mainstay.server import uvicorn_protocols

        before = uvicorn_protocols.enable_tcp_keepalive

        def look(transport: Any, seconds: float) -> None:
            before(transport, seconds)
            made = transport.get_extra_info("socket")
            seen.append(made.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE))
            if hasattr(socket, "TCP_USER_TIMEOUT"):
                assert made.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == seconds * 1000

        with pytest.MonkeyPatch.context() as patch, bind_socket("127.0.0.1", 0) as at:
            patch.setattr(uvicorn_protocols, "enable_tcp_keepalive", look)
            stop = asyncio.Event()
            serving = asyncio.create_task(serve_asgi(app, at, stop))
            _, writer = await asyncio.open_connection(*at.getsockname())
            await until(lambda: seen)
            writer.close()
            stop.set()
            await serving

    run(main())
    assert seen
    assert all(seen)


def test_f19_many_connections_keep_no_client_out(run: Run) -> None:
    """Ten times as many as there may be, silent or in the midst of something; those who work are left alone."""

    async def main() -> None:
        roomy = ConnectionLimits(
            connections_max=40, connections_per_address_max=30, headers_timeout_s=20.0, frame_bytes_max=1 << 20
        )
        async with world(echoing, bounds=roomy) as here:
            await here.say("s", "hi")
            async with here.hear("/api/sessions/s/events") as events:
                silent = [deaf(here.port) for _ in range(400)]
                for number, one in enumerate(silent):
                    if number % 2:
                        with contextlib.suppress(OSError):
                            one.sendall(HEAD)
                async with asyncio.timeout(10.0):  # not because they are gone by then
                    assert (await here.ask("GET", "/api/me")).status == 200
                async with asyncio.timeout(HOLDS_S):
                    assert [(await anext(events)).id for _ in range(4)] == [1, 2, 3, 4]
                for one in silent:
                    one.close()

    run(main())


def test_when_all_connections_are_busy_the_next_client_is_told_to_retry(run: Run) -> None:
    async def main() -> None:
        narrow = ConnectionLimits(connections_max=4, connections_per_address_max=4, frame_bytes_max=1 << 20)
        async with world(echoing, bounds=narrow) as here, contextlib.AsyncExitStack() as stack:
            await here.say("s", "hi")
            for _ in range(4):
                await stack.enter_async_context(here.hear("/api/sessions/s/events"))
            refused = await here.raw(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert refused.startswith(b"HTTP/1.1 503")
            assert b"retry-after: 1" in refused
            assert b'{"error":{"type":"busy"' in refused

    run(main())


def test_tls_is_supported_from_1_2_on(run: Run, tmp_path: Path) -> None:
    certificate, key = made_certificate(tmp_path)

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            while (await receive())["type"] == "lifespan.startup":
                await send({"type": "lifespan.startup.complete"})
            await send({"type": "lifespan.shutdown.complete"})
            return
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": scope["scheme"].encode()})

    async def main() -> None:
        with bind_socket("127.0.0.1", 0) as at:
            stop = asyncio.Event()
            how = UvicornOptions(tls=create_tls_context(str(certificate), str(key)))
            serving = asyncio.create_task(serve_asgi(app, at, stop, None, how))
            port = at.getsockname()[1]
            trusted = ssl.create_default_context(cafile=str(certificate))
            reader, writer = await asyncio.open_connection("localhost", port, ssl=trusted)
            writer.write(b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            assert (await reader.read()).endswith(b"5\r\nhttps\r\n0\r\n\r\n")
            old = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            old.check_hostname, old.verify_mode = False, ssl.CERT_NONE
            old.set_ciphers("ALL:@SECLEVEL=0")
            with pytest.warns(DeprecationWarning, match="TLSv1_1"):
                old.maximum_version = ssl.TLSVersion.TLSv1_1
            with pytest.raises((ssl.SSLError, ConnectionError)):
                await asyncio.open_connection("localhost", port, ssl=old)
            stop.set()
            await serving

    run(main())


def made_certificate(folder: Path) -> tuple[Path, Path]:
    import datetime

    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem, plain = serialization.Encoding.PEM, serialization.NoEncryption()
    (folder / "cert.pem").write_bytes(made.public_bytes(pem))
    (folder / "key.pem").write_bytes(key.private_bytes(pem, serialization.PrivateFormat.PKCS8, plain))
    return folder / "cert.pem", folder / "key.pem"


def test_a_certificate_that_cannot_be_used_is_one_sentence(tmp_path: Path) -> None:
    certificate, key = made_certificate(tmp_path)
    (tmp_path / "rubbish.pem").write_text("rubbish")
    for pair in ((certificate, tmp_path / "none.pem"), (tmp_path / "rubbish.pem", key), (certificate, certificate)):
        with pytest.raises(ConfigError, match="certificate"):
            create_tls_context(*map(str, pair))
