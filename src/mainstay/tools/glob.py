"""`glob`: files by their names, the newest first."""

from __future__ import annotations

import os

from mainstay.core.ports import Tool, ToolContext
from mainstay.io.beneath import PathMissing
from mainstay.io.globs import BadPattern, glob
from mainstay.io.walk import Walk
from mainstay.tools.common import Arguments, BuiltIn, Files, ToolRefused
from mainstay.tools.work import Work

SHOWN_MAX = 100


class _Glob(Arguments, frozen=True):
    pattern: str
    path: str = "."


class Glob(BuiltIn):
    name = "glob"
    description = "Find files by name, newest first: *.py, src/**/*.{js,ts}. Leaves out what .gitignore does."
    arguments = _Glob
    capabilities: tuple[str, ...] = ("fs.read",)

    def __init__(self, files: Files) -> None:
        self._files = files

    async def run(self, arguments: _Glob, context: ToolContext) -> str:
        work = Work(self._files, context)
        return await work.aside(lambda: _found(work, arguments))


def glob_tool(files: Files) -> Tool:
    return Glob(files)


def _found(work: Work, wanted: _Glob) -> str:
    pattern, path = _split(wanted.pattern, wanted.path)
    try:
        fits = glob(pattern)
    except BadPattern as error:
        raise ToolRefused(f"{error}.") from None
    walk = Walk(work.confined, path, stop=lambda: work.context.cancelled)
    found: list[tuple[int, str]] = []
    try:
        for seen in walk:
            if fits(seen.below):
                try:
                    when = os.stat(seen.name, dir_fd=seen.folder, follow_symlinks=False).st_mtime_ns
                except OSError:  # gone meanwhile
                    continue
                found.append((-when, seen.path))
    except PathMissing as error:
        work.bring_names(error.near)
        raise
    found.sort()
    shown = [path for _, path in found[:SHOWN_MAX]]
    work.bring_names(shown)
    notes = [f"{len(found) - len(shown)} more: narrow the pattern"] if len(found) > len(shown) else []
    notes += [walk.cut] if walk.cut else []
    lines = [work.confined.shown(path) for path in shown] or ["(Nothing; ignored files are not looked at.)"]
    return "\n".join([*lines, *([f"[{'; '.join(notes)}]"] if notes else [])])


def _split(pattern: str, path: str) -> tuple[str, str]:
    """A pattern that begins with a folder from / is looked for there."""
    if not pattern.startswith("/"):
        return pattern, path
    steps = pattern.split("/")
    plain = next((at for at, step in enumerate(steps) if any(char in step for char in "*?[{")), len(steps) - 1)
    return "/" + "/".join(steps[plain:]), "/".join(steps[:plain]) or "/"
