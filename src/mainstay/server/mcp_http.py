"""MCP over streamable HTTP on the loopback address, with Host and Origin checks against DNS rebinding."""

from __future__ import annotations

import asyncio
import socket

from mcp.server.transport_security import TransportSecuritySettings

from mainstay.server.mcp_server import McpServer
from mainstay.server.uvicorn_server import serve_asgi

MCP_HOST = "127.0.0.1"
MCP_PATH = "/mcp"
SESSIONS_MAX = 64


async def serve_mcp_http(mcp_server: McpServer, sock: socket.socket, stop: asyncio.Event) -> None:
    """Serve until `stop` is set."""
    port: int = sock.getsockname()[1]
    names = (f"{MCP_HOST}:{port}", f"localhost:{port}")
    security = TransportSecuritySettings(
        enable_dns_rebinding_protection=True,
        allowed_hosts=list(names),
        allowed_origins=[f"http://{name}" for name in names],
    )
    app = mcp_server.server.streamable_http_app(
        streamable_http_path=MCP_PATH, transport_security=security, max_sessions=SESSIONS_MAX
    )

    def on_stopping() -> None:
        mcp_server.turns.stopping = True

    await serve_asgi(app, sock, stop, on_stopping)
