"""`ls`: what is in a folder."""

from __future__ import annotations

from mainstay.core.ports import Tool, ToolContext
from mainstay.io.beneath import PathMissing, brief
from mainstay.io.files import Info
from mainstay.tools.common import Arguments, BuiltIn, Files
from mainstay.tools.work import Work

SHOWN_MAX = 500


class _Ls(Arguments, frozen=True):
    path: str = "."
    all: bool = False


class Ls(BuiltIn):
    name = "ls"
    description = "List a folder. all: hidden files too."
    arguments = _Ls
    capabilities: tuple[str, ...] = ("fs.read",)

    def __init__(self, files: Files) -> None:
        self._files = files

    async def run(self, arguments: _Ls, context: ToolContext) -> str:
        work = Work(self._files, context)
        return await work.aside(lambda: listed(work, arguments.path, every=arguments.all))


def ls_tool(files: Files) -> Tool:
    return Ls(files)


def listed(work: Work, path: str, *, every: bool = False) -> str:
    """`every`: hidden ones too."""
    try:
        folder, entries, whole = work.confined.entries(path)
    except PathMissing as error:
        work.bring_names(error.near)
        raise
    visible = [one for one in entries if every or not one.name.startswith(".")]
    shown = visible[:SHOWN_MAX]
    work.bring_names(f"{folder.rstrip('/')}/{one.name}" for one in shown)
    notes: list[str] = []
    if len(visible) > len(shown):
        notes.append(f"{len(visible) - len(shown)} more: use glob")
    if not whole:
        notes.append("the folder is too large to be listed whole")
    if hidden := len(entries) - len(visible):
        notes.append(f"{hidden} hidden: all=true shows them")
    lines = [_line(one) for one in shown] or ["(Nothing.)"]
    return "\n".join([*lines, *([f"[{'; '.join(notes)}]"] if notes else [])])


def _line(info: Info) -> str:
    match info.kind:
        case "folder":
            return f"{brief(info.name)}/"
        case "file":
            return f"{brief(info.name)}\t{info.size}"
        case _:
            return f"{brief(info.name)}\t{info.kind}"
