"""Serves an ASGI application with uvicorn on a bound socket, with graceful shutdown."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Awaitable, Callable, Iterator
from typing import TYPE_CHECKING

import msgspec

from mainstay.core.asgi import ASGIApp
from mainstay.core.errors import ConfigError
from mainstay.server.connection_limits import CONNECTIONS_MAX as CONNECTIONS_MAX
from mainstay.server.connection_limits import CONNECTIONS_PER_ADDRESS_MAX as CONNECTIONS_PER_ADDRESS_MAX
from mainstay.server.connection_limits import ConnectionLimiter, ConnectionLimits

if TYPE_CHECKING:
    import uvicorn

SLOW_CLIENT_S = 10.0  # for the headers of a request to arrive, and for a client to go on reading
KEEP_ALIVE_S = 5  # keep-alive between two requests
CLOSE_GRACE_S = 1  # for connections to close at the end
WEBSOCKET_PING_S = 20.0  # between two WebSocket pings, and for the pong
BACKLOG = 2048
DATE_UPDATE_S = 1.0  # between two updates of the Date header


class UvicornOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of a full server; webhooks alone need none of them."""

    limits: ConnectionLimits = ConnectionLimits()
    tls: ssl.SSLContext | None = None
    drain: Callable[[], Awaitable[None]] | None = None  # waits until running turns have ended, or for long enough
    on_stopped: Callable[[], None] | None = None  # ends streams that are still open


def bind_socket(host: str, port: int) -> socket.socket:
    """Return a listening socket; port 0 is any free port. Raises ConfigError."""
    try:
        family, kind, proto, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except OSError as error:
        raise ConfigError(f"{host} is not an address of this machine: {error.strerror}") from None
    sock = socket.socket(family, kind, proto)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        sock.bind(address)
        sock.listen(CONNECTIONS_MAX)  # clients may connect before uvicorn has started
    except OSError as error:
        sock.close()
        raise ConfigError(f"cannot listen on port {port} of {host}: {error.strerror}") from None
    return sock


def create_tls_context(certificate: str, key: str) -> ssl.SSLContext:
    """Create a context from two PEM files, for TLS 1.2 and newer. Raises ConfigError."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    try:
        # without a callback, OpenSSL asks for the password of an encrypted key on the terminal
        context.load_cert_chain(certificate, key or None, password=_refuse_password)
    except ssl.SSLError as error:
        reason = error.reason or "they cannot be read"
        raise ConfigError(f"the certificate {certificate} and its key are not usable: {reason}") from None
    except OSError as error:
        raise ConfigError(f"the certificate {certificate} or its key cannot be read: {error.strerror}") from None
    return context


def _refuse_password() -> str:
    raise ConfigError("the private key is protected by a password; use one without")


async def serve_asgi(
    app: ASGIApp,
    sock: socket.socket,
    stop: asyncio.Event,
    on_stopping: Callable[[], None] | None = None,
    options: UvicornOptions | None = None,
) -> None:
    """Serve until `stop` is set. Then no connection is accepted, `on_stopping` is called, and open requests may finish.
    Raises ConfigError if uvicorn is not installed."""
    options = options or UvicornOptions(
        limits=ConnectionLimits(headers_timeout_s=SLOW_CLIENT_S, read_timeout_s=SLOW_CLIENT_S)
    )
    try:
        import uvicorn

        config = _build_config(app, options)
    except ImportError as error:
        missing = (error.name or "uvicorn").partition(".")[0]
        raise ConfigError(f"this needs {missing}: pip install -e '.[serve]'") from None

    leave = asyncio.Event()

    class UvicornServer(uvicorn.Server):
        async def main_loop(self) -> None:
            """Update the Date header once per DATE_UPDATE_S; uvicorn's own loop wakes ten times a second."""
            while not await self.on_tick(0):
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(DATE_UPDATE_S):
                        await leave.wait()

        @contextlib.contextmanager
        def capture_signals(self) -> Iterator[None]:
            """Install no signal handlers: the command has its own."""
            yield

    server = UvicornServer(config)
    running = asyncio.create_task(server.serve(sockets=[sock]))
    stopped = asyncio.create_task(stop.wait())
    with contextlib.ExitStack() as notices:
        if on_stopping is not None:
            notices.callback(on_stopping)
        try:
            await asyncio.wait((running, stopped), return_when=asyncio.FIRST_COMPLETED)
            for listener in getattr(server, "servers", ()):  # no new connections
                listener.close()
            notices.close()
            if options.drain is not None and not running.done():
                await options.drain()
        finally:
            notices.close()
            if options.on_stopped is not None:
                options.on_stopped()
            server.should_exit = True
            leave.set()
            stopped.cancel()
            await running


def _build_config(app: ASGIApp, options: UvicornOptions) -> uvicorn.Config:
    import uvicorn

    from mainstay.server.uvicorn_protocols import create_http_protocol, create_websocket_protocol

    limits, limiter = options.limits, ConnectionLimiter(options.limits)
    config = uvicorn.Config(
        app,
        http=create_http_protocol(limiter, limits),
        ws=create_websocket_protocol(limiter, limits) if limits.frame_bytes_max else "none",
        ws_max_size=limits.frame_bytes_max,
        ws_ping_interval=WEBSOCKET_PING_S,
        ws_ping_timeout=WEBSOCKET_PING_S,
        ws_per_message_deflate=False,  # a small frame could decompress into a huge one
        proxy_headers=False,  # a client could claim any address
        timeout_keep_alive=KEEP_ALIVE_S,
        log_config=None,
        log_level="error",  # below that it logs whole URLs, with secrets in their query
        access_log=False,
        lifespan="on",
        server_header=False,
        backlog=BACKLOG,
        timeout_graceful_shutdown=CLOSE_GRACE_S,
    )
    config.load()
    config.ssl = options.tls
    return config
