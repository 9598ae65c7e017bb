"""An ASGI application on a socket, until somebody says stop."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import msgspec

from mainstay.core.errors import ConfigError
from mainstay.server.crowd import CONNECTIONS_MAX as CONNECTIONS_MAX
from mainstay.server.crowd import PER_ADDRESS_MAX as PER_ADDRESS_MAX
from mainstay.server.crowd import Bounds, Crowd

HEAD_S = 10.0  # for the head of a request to come, and for whoever is answered to read on
IDLE_S = 5  # between two requests
GRACE_S = 1
PING_S = 20.0  # between two questions whether somebody is still there, and for the answer
BACKLOG = 2048
TICK_S = 1.0


class Serving(msgspec.Struct, frozen=True, kw_only=True):
    """How a whole server differs from a few webhooks."""

    bounds: Bounds = Bounds()
    tls: ssl.SSLContext | None = None
    drain: Callable[[], Awaitable[None]] | None = None  # returns when turns have ended, or long enough after `ending`
    last: Callable[[], None] | None = None  # whoever is still connected is told goodbye


def bind(host: str, port: int) -> socket.socket:
    """Port 0: any that is free."""
    try:
        family, kind, proto, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except OSError as error:
        raise ConfigError(f"{host} is no address of this machine: {error.strerror}") from None
    made = socket.socket(family, kind, proto)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        made.bind(address)
        made.listen(CONNECTIONS_MAX)  # whoever is told of it may come at once
    except OSError as error:
        made.close()
        raise ConfigError(f"port {port} of {host} cannot be had: {error.strerror}") from None
    return made


def tls_context(certificate: str, key: str) -> ssl.SSLContext:
    """From two PEM files; TLS 1.2 and newer."""
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    made.minimum_version = ssl.TLSVersion.TLSv1_2
    made.set_alpn_protocols(["http/1.1"])
    try:
        # an encrypted key would be asked for on the terminal, where nobody is
        made.load_cert_chain(certificate, key or None, password=_no_password)
    except ssl.SSLError as error:
        said = error.reason or "they cannot be read"
        raise ConfigError(f"the certificate {certificate} and its key are not usable: {said}") from None
    except OSError as error:
        raise ConfigError(f"the certificate {certificate} or its key cannot be read: {error.strerror}") from None
    return made


def _no_password() -> str:
    raise ConfigError("the private key is protected by a password; give one that is not")


async def serve_web(
    app: Any,
    at: socket.socket,
    stop: asyncio.Event,
    ending: Callable[[], None] | None = None,
    serving: Serving | None = None,
) -> None:
    """`ending` is called before those who are still connected are waited for: nobody else is let in then."""
    given = serving or Serving(bounds=Bounds(head_s=HEAD_S, read_s=HEAD_S))
    try:
        import uvicorn

        config = _configured(app, given)
    except ImportError as error:
        missing = (error.name or "uvicorn").partition(".")[0]
        raise ConfigError(f"this needs {missing}: pip install -e '.[serve]'") from None

    leave = asyncio.Event()

    class Server(uvicorn.Server):
        async def main_loop(self) -> None:
            """A look at the clock now and then, for the date in answers."""
            while not await self.on_tick(0):
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(TICK_S):
                        await leave.wait()

        @contextlib.contextmanager
        def capture_signals(self) -> Iterator[None]:
            """Signals are the command's own business."""
            yield

    server = Server(config)
    running = asyncio.create_task(server.serve(sockets=[at]))
    stopped = asyncio.create_task(stop.wait())
    with contextlib.ExitStack() as told:
        if ending is not None:
            told.callback(ending)
        try:
            await asyncio.wait((running, stopped), return_when=asyncio.FIRST_COMPLETED)
            for one in getattr(server, "servers", ()):  # nobody new from here on
                one.close()
            told.close()
            if given.drain is not None and not running.done():
                await given.drain()
        finally:
            told.close()
            if given.last is not None:
                given.last()
            server.should_exit = True
            leave.set()
            stopped.cancel()
            await running


def _configured(app: Any, given: Serving) -> Any:
    import uvicorn

    from mainstay.server.connections import http_protocol, websocket_protocol

    bounds, crowd = given.bounds, Crowd(given.bounds)
    made = uvicorn.Config(
        app,
        http=http_protocol(crowd, bounds),
        ws=websocket_protocol(crowd, bounds) if bounds.frame_bytes_max else "none",
        ws_max_size=bounds.frame_bytes_max,
        ws_ping_interval=PING_S,
        ws_ping_timeout=PING_S,
        ws_per_message_deflate=False,  # a small frame may unpack into a huge one
        proxy_headers=False,  # whoever connects says what it likes of who it is
        timeout_keep_alive=IDLE_S,
        log_config=None,
        log_level="error",  # it writes whole addresses into the log, with whatever is in their query
        access_log=False,
        lifespan="on",
        server_header=False,
        backlog=BACKLOG,
        timeout_graceful_shutdown=GRACE_S,
    )
    made.load()
    made.ssl = given.tls
    return made
