"""MCP over streamable HTTP, on loopback alone: a browser's page, or a name that points here, gets nothing."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Iterator

import uvicorn
from mcp.server.transport_security import TransportSecuritySettings

from mainstay.core.errors import ConfigError
from mainstay.server.mcp import McpServer

HOST = "127.0.0.1"
PATH = "/mcp"
SESSIONS_MAX = 64
CONNECTIONS_MAX = 128
GRACE_S = 1


def bind(port: int) -> socket.socket:
    """0: any that is free."""
    made = socket.socket()
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        made.bind((HOST, port))
    except OSError as error:
        made.close()
        raise ConfigError(f"port {port} of {HOST} cannot be had: {error.strerror}") from None
    return made


async def serve_http(offered: McpServer, at: socket.socket, stop: asyncio.Event) -> None:
    port: int = at.getsockname()[1]
    names = (f"{HOST}:{port}", f"localhost:{port}")
    security = TransportSecuritySettings(
        enable_dns_rebinding_protection=True,
        allowed_hosts=list(names),
        allowed_origins=[f"http://{name}" for name in names],
    )
    app = offered.server.streamable_http_app(
        streamable_http_path=PATH, transport_security=security, max_sessions=SESSIONS_MAX
    )
    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        lifespan="on",
        http="h11",
        ws="none",
        server_header=False,
        limit_concurrency=CONNECTIONS_MAX,
        timeout_graceful_shutdown=GRACE_S,
    )
    server = _Server(config)
    serving = asyncio.create_task(server.serve(sockets=[at]))
    stopped = asyncio.create_task(stop.wait())
    try:
        await asyncio.wait((serving, stopped), return_when=asyncio.FIRST_COMPLETED)
    finally:
        offered.turns.ending = True
        server.should_exit = True
        stopped.cancel()
        await serving


class _Server(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Signals are the command's own business."""
        yield
