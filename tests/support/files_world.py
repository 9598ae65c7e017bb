"""A workspace on disk and the file tools in it, for their tests."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import msgspec

from mainstay.agent.builtin_tool_factory import load_tool_builder
from mainstay.core.builtin_tool_table import BUILT_IN_TOOLS
from mainstay.core.ports import Tool, ToolContext
from mainstay.core.tool_ports import CallDestinations, FileOriginLabel, SessionFolders
from mainstay.store.memory.file_labels import InMemoryFileLabels
from mainstay.tools.base import SessionFileAccess
from mainstay.tools.dependencies import ToolDependencies
from mainstay.tools.grep import GrepTool


def list_file_tools() -> list[str]:
    """Return the built-in tools that need nothing but files."""
    from mainstay.agent.config_warnings import build_inspection_tools

    built = [tool for tool in build_inspection_tools() if tool.name in BUILT_IN_TOOLS]
    return [tool.name for tool in built if tool.capabilities and set(tool.capabilities) <= {"fs.read", "fs.write"}]


class World:
    """`run` calls a tool as a session would; what the call said of itself is in `context` afterwards."""

    def __init__(self, folder: Path, grep_s: float = 10.0) -> None:
        self.home = Path(os.path.realpath(folder))
        self.root = self.home / "work"
        self.root.mkdir()
        self.grounds = SessionFolders(cwd=str(self.root), writable=(str(self.root),))
        self.labels = InMemoryFileLabels()
        self.files = files = SessionFileAccess(lambda session: self.grounds, self.labels)
        self.tools: dict[str, Tool] = {}
        for name in list_file_tools():
            tool = load_tool_builder(name)(ToolDependencies(file_access=files))
            assert tool is not None
            self.tools[name] = tool
        self.tools["grep"] = GrepTool(files, grep_s)
        self.calls = 0
        self.context: ToolContext

    def lay(self, **changed: Any) -> None:
        self.grounds = msgspec.structs.replace(self.grounds, **changed)

    def put(self, path: str, content: str | bytes) -> Path:
        """A file that was there before."""
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content if isinstance(content, bytes) else content.encode())
        return file

    def new_context(self, *, tainted: bool = False, secret: bool = False, session: str = "s") -> ToolContext:
        self.calls += 1
        self.context = ToolContext(session, 1, 1, f"c{self.calls}", lambda event: None)
        self.context.tainted, self.context.has_private_content = tainted, secret
        return self.context

    async def run(self, name: str, *, tainted: bool = False, session: str = "s", **arguments: Any) -> str:
        tool = self.tools[name]
        context = self.new_context(tainted=tainted, session=session)
        return await tool.run(tool.parse(json.dumps(arguments)), context)

    async def reconcile(self, name: str, **arguments: Any) -> str | None:
        tool = self.tools[name]
        return await tool.reconcile(tool.parse(json.dumps(arguments)), self.new_context())

    def reach(self, name: str, *, session: str = "s", **arguments: Any) -> CallDestinations:
        tool: Any = self.tools[name]
        return tool.reach(tool.parse(json.dumps(arguments)), self.new_context(session=session))

    def label(self, path: str) -> FileOriginLabel | None:
        return self.labels.get(str(self.root / path))
