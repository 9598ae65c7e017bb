"""A workspace with scripted MCP servers in it, in a real sandbox, for the tests of the client."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from mainstay.core.events import Event, ToolProgress
from mainstay.core.ports import Tool, ToolContext
from mainstay.core.tool_ports import ProcessPermissions, Sandbox
from mainstay.plugins.mcp.server_config import McpLimits, McpServerConfig
from mainstay.plugins.mcp.tool_source import McpToolSource
from mainstay.sandbox.bubblewrap.sandbox import BubblewrapSandbox, bubblewrap_problem
from mainstay.sandbox.host.sandbox import HostSandbox

HERE = Path(__file__).resolve().parent
needs_bubblewrap = pytest.mark.skipif(bubblewrap_problem() is not None, reason=bubblewrap_problem() or "")


def tool(name: str, description: str = "Says it.", **more: Any) -> dict[str, Any]:
    schema = {"type": "object", "properties": {"text": {"type": "string"}}}
    return {"name": name, "description": description, "inputSchema": schema, **more}


class World:
    """Servers run unconfined unless a sandbox is given: most of what they do wrong is the same, and it is faster."""

    def __init__(self, folder: Path, sandbox: Sandbox | None = None) -> None:
        self.folder = folder
        self.workspace = folder / "workspace"
        self.workspace.mkdir(exist_ok=True)
        (folder / "plans").mkdir(exist_ok=True)
        self.confined = sandbox is not None
        self.sandbox = sandbox or HostSandbox()

    def plan(self, name: str = "one", **plan: Any) -> Path:
        path = self.folder / "plans" / f"{name}.json"
        aside = path.with_suffix(".new")
        aside.write_text(json.dumps(plan))
        os.replace(aside, path)
        return path

    def server(self, name: str = "one", **more: Any) -> McpServerConfig:
        path = self.folder / "plans" / f"{name}.json"
        if not path.exists():
            self.plan(name)
        permissions = ProcessPermissions(read=(str(HERE), str(path.parent)), **more.pop("grants", {}))
        env = {"HOME": str(self.home(name)), **more.pop("env", {})}
        words = {"command": "python", "args": (str(HERE / "scripted_mcp.py"), str(path))}
        return McpServerConfig(
            name=name, **{**words, "permissions": permissions, "confined": self.confined, "env": env, **more}
        )

    def home(self, name: str = "one") -> Path:
        return self.workspace / "mcp" / name

    def notes(self, name: str = "one") -> list[str]:
        """What the server has noted."""
        try:
            return (self.home(name) / "notes").read_text().splitlines()
        except FileNotFoundError:
            return []

    def starts(self, name: str = "one") -> int:
        return sum(line.startswith("started") for line in self.notes(name))

    @asynccontextmanager
    async def servers(self, *servers: McpServerConfig, **limits: Any) -> AsyncIterator[McpToolSource]:
        made = self.made(*servers, **limits)
        try:
            yield made
        finally:
            await made.close()

    def made(self, *servers: McpServerConfig, **limits: Any) -> McpToolSource:
        wanted = McpLimits(**{"start_s": 120.0, **limits})
        given = servers or (self.server(),)
        return McpToolSource(given, self.workspace, self.sandbox, unconfined_sandbox=self.sandbox, limits=wanted)


class Call:
    """A call of a tool as a turn makes it, and what came of it."""

    def __init__(self, made: McpToolSource, name: str) -> None:
        self.tool: Tool = next(one for one in made.tools if one.name == name)
        self.events: list[Event] = []
        self.context = ToolContext("s", 1, 1, "c1", self.events.append)

    async def run(self, **arguments: Any) -> str:
        return await self.tool.run(self.tool.parse(json.dumps(arguments)), self.context)

    @property
    def progress(self) -> list[str]:
        return [event.note for event in self.events if isinstance(event, ToolProgress)]


async def call(made: McpToolSource, name: str, **arguments: Any) -> str:
    return await Call(made, name).run(**arguments)


async def until(true: Callable[[], Any], what: str, within_s: float = 120.0) -> None:
    """Looks again and again: real processes take their own time."""
    loop = asyncio.get_running_loop()
    end = loop.time() + within_s
    while not true():
        assert loop.time() < end, f"it did not happen within {within_s:g} s: {what}"
        await asyncio.sleep(0.01)


def bubblewrapped(folder: Path) -> World:
    return World(folder, BubblewrapSandbox())
