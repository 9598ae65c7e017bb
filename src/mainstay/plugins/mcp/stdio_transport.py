"""Stdio transport: runs a local MCP server in the sandbox and talks to it over its pipes. Imports the SDK."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Literal

from mainstay.core.tool_ports import Sandbox, SandboxProcess
from mainstay.plugins.launcher import ProgramSpec, launch_program
from mainstay.plugins.mcp.flood_guard import FloodGuard
from mainstay.plugins.mcp.message_filter import MessageFilter
from mainstay.plugins.mcp.pending_requests import PendingRequests
from mainstay.plugins.mcp.server_config import McpLimits, McpServerConfig
from mainstay.plugins.mcp.stdio_queue import StdioMessageQueue
from mainstay.plugins.mcp.streams import ReceiveStream, StdioReceiveStream, StdioSendStream
from mainstay.plugins.output_log import PluginLog


@asynccontextmanager
async def open_stdio(
    server: McpServerConfig, sandbox: Sandbox, folder: Path, limits: McpLimits, flood_guard: FloodGuard, log: PluginLog
) -> AsyncIterator[tuple[ReceiveStream, StdioSendStream]]:
    """Run the server until the context exits; yield its receive and send streams. `folder` is the server's home; its
    stderr is only logged."""
    pending = PendingRequests()
    frames = StdioMessageQueue(MessageFilter(limits, flood_guard, pending))
    receive_stream = StdioReceiveStream(frames, flood_guard)

    def output(stream: Literal["stdout", "stderr"], data: bytes) -> bool | None:
        return log.append_output(stream, data) if stream == "stderr" else frames.feed(data)

    name = f"the MCP server {server.name}"
    os.makedirs(folder, mode=0o700, exist_ok=True)
    async with launch_program(
        sandbox, build_program(server, str(folder)), output, name=name, on_refused=log.append_note
    ) as program:
        watch = asyncio.create_task(_close_on_exit(program.process, frames))
        try:
            yield receive_stream, StdioSendStream(program.process.write, limits, pending)
        finally:
            watch.cancel()


def build_program(server: McpServerConfig, folder: str) -> ProgramSpec:
    env = dict(server.env)
    if not server.confined:
        env = {"HOME": os.path.expanduser("~"), **env}  # it runs with the owner's rights
    return ProgramSpec(
        argv=(server.command, *server.args),
        cwd=os.path.expanduser(server.cwd) if server.cwd else folder,
        home=folder,
        permissions=server.permissions,
        protected=server.protected,
        env=env,
        allow_unconfined=not server.confined,
    )


async def _close_on_exit(process: SandboxProcess, queue: StdioMessageQueue) -> None:
    await process.wait()
    queue.close()
