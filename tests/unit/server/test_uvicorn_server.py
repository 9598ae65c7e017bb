"""Connections over real sockets: silent, slow or non-reading clients do not keep others out."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from typing import Any

import pytest
import uvloop

from mainstay.server import uvicorn_server
from mainstay.server.uvicorn_server import CONNECTIONS_MAX, CONNECTIONS_PER_ADDRESS_MAX, bind_socket, serve_asgi

LONG_S = 120.0
GET = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
HALF = b"POST / HTTP/1.1\r\nHost: x\r\n"
BODILESS = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\n"
ANSWER = b"x" * 60_000

Pair = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Run = Callable[[Coroutine[Any, Any, None]], None]


@pytest.fixture(params=["asyncio", "uvloop"] if os.environ.get("MAINSTAY_TEST_ALL") else ["uvloop"])
def run(request: pytest.FixtureRequest) -> Iterator[Run]:
    loops = {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}
    with asyncio.Runner(loop_factory=loops[request.param]) as runner:
        yield runner.run


async def app(scope: Any, receive: Any, send: Any) -> None:
    """Answers when all of a body is there."""
    if scope["type"] == "lifespan":
        while (await receive())["type"] == "lifespan.startup":
            await send({"type": "lifespan.startup.complete"})
        await send({"type": "lifespan.shutdown.complete"})
        return
    while (message := await receive()).get("more_body"):
        pass
    if message["type"] == "http.request":
        headers = [(b"content-length", str(len(ANSWER)).encode())]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": ANSWER})


@contextlib.asynccontextmanager
async def serving() -> AsyncIterator[Callable[..., Coroutine[Any, Any, Pair]]]:
    """Gives what connects to it, and lets go of all of them in the end."""
    made: list[Pair] = []
    with bind_socket("127.0.0.1", 0) as at:
        port, stop = at.getsockname()[1], asyncio.Event()
        task = asyncio.create_task(serve_asgi(app, at, stop))

        async def connect(said: bytes = b"", source: str = "127.0.0.1") -> Pair:
            pair = await asyncio.open_connection("127.0.0.1", port, local_addr=(source, 0))
            made.append(pair)
            pair[1].write(said)
            return pair

        try:
            yield connect
        finally:
            for _, writer in made:
                writer.transport.abort()
            stop.set()
            await task


async def status(pair: Pair) -> int:
    async with asyncio.timeout(LONG_S):
        return int((await pair[0].readuntil(b"\r\n\r\n")).split()[1])


async def closed(pair: Pair) -> None:
    """Returns when the other side has let go; however much it says before."""
    async with asyncio.timeout(LONG_S):
        with contextlib.suppress(ConnectionError):
            while await pair[0].read(65536):
                pass


def test_silent_connections_keep_no_client_out(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uvicorn_server, "SLOW_CLIENT_S", 3600.0)  # they are not gone because they are slow

    async def main() -> None:
        async with serving() as connect:
            silent = [await connect(b"" if number % 2 else HALF) for number in range(2 * CONNECTIONS_MAX)]
            assert await status(await connect(GET)) == 200
            await closed(silent[0])  # it has made room

    run(main())


@pytest.mark.parametrize(
    "said", [b"", HALF, GET, GET + b"G"], ids=["nothing", "half a head", "one request", "and more"]
)
def test_a_client_that_stops_sending_is_cut_off(run: Run, said: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uvicorn_server, "SLOW_CLIENT_S", 0.5)
    monkeypatch.setattr(uvicorn_server, "KEEP_ALIVE_S", 0.2)

    async def main() -> None:
        async with serving() as connect:
            await closed(await connect(said))

    run(main())


def test_a_byte_now_and_then_is_not_enough(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uvicorn_server, "SLOW_CLIENT_S", 0.5)

    async def drip(writer: asyncio.StreamWriter) -> None:
        while True:
            writer.write(b"X-A: b\r\n")
            await asyncio.sleep(0.05)

    async def main() -> None:
        async with serving() as connect:
            pair = await connect(HALF)
            dripping = asyncio.create_task(drip(pair[1]))
            await closed(pair)
            dripping.cancel()

    run(main())


@pytest.mark.parametrize(
    "last", [GET, GET.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")], ids=["open", "ends"]
)
def test_a_client_that_does_not_read_its_response_is_cut_off(
    run: Run, last: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(uvicorn_server, "SLOW_CLIENT_S", 0.5)

    async def main() -> None:
        async with serving() as connect:
            await connect()  # it is there
            _, near = await connect()
            deaf = socket.create_connection(near.get_extra_info("peername"))
            with deaf:
                deaf.setblocking(False)
                loop = asyncio.get_running_loop()
                with contextlib.suppress(ConnectionError):
                    async with asyncio.timeout(LONG_S):
                        await loop.sock_sendall(deaf, GET * 500 + last)
                        while True:  # until it is refused, as by a closed connection
                            await asyncio.sleep(0.1)
                            await loop.sock_sendall(deaf, GET)

    run(main())


def test_a_request_that_takes_its_time_is_not_cut_off(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uvicorn_server, "SLOW_CLIENT_S", 0.3)

    async def main() -> None:
        async with serving() as connect:
            slow, silent = await connect(BODILESS), await connect()
            await closed(silent)
            await closed(await connect())
            slow[1].write(b"12345")
            assert await status(slow) == 200

    run(main())


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have one loopback address")
def test_one_address_does_not_take_every_connection(run: Run) -> None:
    async def main() -> None:
        async with serving() as connect:
            busy = [await connect(BODILESS) for _ in range(CONNECTIONS_PER_ADDRESS_MAX)]
            assert await status(await connect(GET)) == 503
            assert await status(await connect(GET, "127.0.0.2")) == 200
            busy[0][1].write(b"12345")
            assert await status(busy[0]) == 200

    run(main())
