"""MCP over streamable HTTP, on loopback alone: a browser's page, or a name that points here, gets nothing."""

from __future__ import annotations

import asyncio
import socket

from mcp.server.transport_security import TransportSecuritySettings

from mainstay.server.mcp import McpServer
from mainstay.server.web import serve_web

HOST = "127.0.0.1"
PATH = "/mcp"
SESSIONS_MAX = 64


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

    def ending() -> None:
        offered.turns.ending = True

    await serve_web(app, at, stop, ending)
