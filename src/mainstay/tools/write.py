"""The `write` tool: creates or replaces a whole file."""

from __future__ import annotations

from mainstay.core.ports import Effect, Tool, ToolContext
from mainstay.core.tool_ports import CallDestinations
from mainstay.tools.base import BuiltInTool, SessionFileAccess, ToolArguments
from mainstay.tools.dependencies import ToolDependencies
from mainstay.tools.tool_call_file_access import FileChange, ToolCallFiles


class _WriteArguments(ToolArguments, frozen=True):
    path: str
    content: str


class WriteTool(BuiltInTool):
    name = "write"
    description = "Make or replace a file; folders are made as needed."
    arguments = _WriteArguments
    effect: Effect = "idempotent"
    capabilities: tuple[str, ...] = ("fs.write",)

    def __init__(self, file_access: SessionFileAccess) -> None:
        self._file_access = file_access

    def reach(self, arguments: _WriteArguments, context: ToolContext) -> CallDestinations:
        return ToolCallFiles(self._file_access, context).judge_reach([FileChange(path=arguments.path, data=b"")])

    async def run(self, arguments: _WriteArguments, context: ToolContext) -> str:
        call_files = ToolCallFiles(self._file_access, context)
        data = arguments.content.encode()
        [written] = await call_files.apply_changes([FileChange(path=arguments.path, data=data)])
        assert written is not None, "it was not to be removed"
        count = arguments.content.count("\n") + (not arguments.content.endswith("\n") and arguments.content != "")
        done = "Made" if written.created else "Replaced"
        lines, size = "1 line" if count == 1 else f"{count} lines", "1 byte" if len(data) == 1 else f"{len(data)} bytes"
        made = f"{done} {call_files.confined.display_path(written.path)}: {lines}, {size}."
        return "\n".join(filter(None, (made, call_files.unkept_note)))


def build(dependencies: ToolDependencies) -> Tool:
    return WriteTool(dependencies.file_access)
