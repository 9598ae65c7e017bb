"""`write`: a file whole."""

from __future__ import annotations

from mainstay.core.outside import Reach
from mainstay.core.ports import Effect, Tool, ToolContext
from mainstay.tools.common import Arguments, BuiltIn, Files
from mainstay.tools.work import Change, Work


class _Write(Arguments, frozen=True):
    path: str
    content: str


class Write(BuiltIn):
    name = "write"
    description = "Make or replace a file; folders are made as needed."
    arguments = _Write
    effect: Effect = "idempotent"
    capabilities: tuple[str, ...] = ("fs.write",)

    def __init__(self, files: Files) -> None:
        self._files = files

    def reach(self, arguments: _Write, context: ToolContext) -> Reach:
        return Work(self._files, context).judge([Change(path=arguments.path, data=b"")])

    async def run(self, arguments: _Write, context: ToolContext) -> str:
        work = Work(self._files, context)
        data = arguments.content.encode()
        [written] = await work.change([Change(path=arguments.path, data=data)])
        assert written is not None, "it was not to be removed"
        count = arguments.content.count("\n") + (not arguments.content.endswith("\n") and arguments.content != "")
        done = "Made" if written.created else "Replaced"
        lines, size = "1 line" if count == 1 else f"{count} lines", "1 byte" if len(data) == 1 else f"{len(data)} bytes"
        return f"{done} {work.confined.shown(written.path)}: {lines}, {size}."


def write_tool(files: Files) -> Tool:
    return Write(files)
