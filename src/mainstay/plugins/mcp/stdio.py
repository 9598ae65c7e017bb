"""A server on this machine: a process in the sandbox, spoken to over its pipes. Imports the SDK."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Literal

from mainstay.core.outside import Process, Sandbox
from mainstay.plugins.launch import Launch, launched
from mainstay.plugins.logs import PluginLog
from mainstay.plugins.mcp.asked import Asked
from mainstay.plugins.mcp.frames import Frames
from mainstay.plugins.mcp.gate import Gate
from mainstay.plugins.mcp.server import McpLimits, McpServer
from mainstay.plugins.mcp.sieve import Sieve
from mainstay.plugins.mcp.streams import Heard, Piped, Told


@asynccontextmanager
async def piped(
    server: McpServer, sandbox: Sandbox, folder: Path, limits: McpLimits, gate: Gate, said: PluginLog
) -> AsyncIterator[tuple[Heard, Told]]:
    """Runs while this is held. `folder` is the server's own; what it writes to stderr is only ever logged."""
    asked = Asked()
    frames = Frames(Sieve(limits, gate, asked))
    heard = Piped(frames, gate)

    def output(stream: Literal["stdout", "stderr"], data: bytes) -> bool | None:
        return said.take(stream, data) if stream == "stderr" else frames.take(data)

    name = f"the MCP server {server.name}"
    os.makedirs(folder, mode=0o700, exist_ok=True)
    async with launched(sandbox, launch_of(server, str(folder)), output, name=name, note=said.note) as running:
        watch = asyncio.create_task(_until_gone(running.process, frames))
        try:
            yield heard, Told(running.process.write, limits, asked)
        finally:
            watch.cancel()


def launch_of(server: McpServer, folder: str) -> Launch:
    env = dict(server.env)
    if not server.confined:
        env = {"HOME": os.path.expanduser("~"), **env}  # it runs as the owner does
    return Launch(
        words=(server.command, *server.args),
        cwd=os.path.expanduser(server.cwd) if server.cwd else folder,
        home=folder,
        needs=server.needs,
        protected=server.protected,
        env=env,
        unconfined=not server.confined,
    )


async def _until_gone(process: Process, frames: Frames) -> None:
    await process.wait()
    frames.end()
