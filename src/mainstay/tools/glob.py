"""The `glob` tool: finds files by name, newest first."""

from __future__ import annotations

import os

from mainstay.core.ports import Tool, ToolContext
from mainstay.io.file_walk import FileWalk
from mainstay.io.globs import GlobRefused, compile_path_glob
from mainstay.io.path_resolver import PathMissing
from mainstay.tools.base import BuiltInTool, SessionFileAccess, ToolArguments, ToolRefused
from mainstay.tools.dependencies import ToolDependencies
from mainstay.tools.tool_call_file_access import ToolCallFiles

PATHS_SHOWN_MAX = 100


class _GlobArguments(ToolArguments, frozen=True):
    pattern: str
    path: str = "."


class GlobTool(BuiltInTool):
    name = "glob"
    description = "Find files by name, newest first: *.py, src/**/*.{js,ts}. Leaves out what .gitignore does."
    arguments = _GlobArguments
    capabilities: tuple[str, ...] = ("fs.read",)

    def __init__(self, file_access: SessionFileAccess) -> None:
        self._file_access = file_access

    async def run(self, arguments: _GlobArguments, context: ToolContext) -> str:
        call_files = ToolCallFiles(self._file_access, context)
        return await call_files.run_blocking(lambda: _find_files(call_files, arguments))


def build(dependencies: ToolDependencies) -> Tool:
    return GlobTool(dependencies.file_access)


def _find_files(call_files: ToolCallFiles, arguments: _GlobArguments) -> str:
    pattern, path = _split_absolute_pattern(arguments.pattern, arguments.path)
    try:
        is_match = compile_path_glob(pattern)
    except GlobRefused as error:
        raise ToolRefused(f"{error}.") from None
    walk = FileWalk(call_files.confined, path, should_stop=lambda: call_files.context.cancelled)
    matches: list[tuple[int, str]] = []
    try:
        for file in walk:
            if is_match(file.relative_path):
                try:
                    mtime_ns = os.stat(file.name, dir_fd=file.folder_fd, follow_symlinks=False).st_mtime_ns
                except OSError:  # removed meanwhile
                    continue
                matches.append((-mtime_ns, file.path))
    except PathMissing as error:
        call_files.taint_by_names(error.similar_paths)
        raise
    matches.sort()
    listed = [path for _, path in matches[:PATHS_SHOWN_MAX]]
    call_files.taint_by_names(listed)
    notes = [f"{len(matches) - len(listed)} more: narrow the pattern"] if len(matches) > len(listed) else []
    notes += [walk.cut_reason] if walk.cut_reason else []
    lines = [call_files.confined.display_path(path) for path in listed] or [
        "(Nothing; ignored files are not searched.)"
    ]
    return "\n".join([*lines, *([f"[{'; '.join(notes)}]"] if notes else [])])


def _split_absolute_pattern(pattern: str, path: str) -> tuple[str, str]:
    """Split an absolute pattern into the pattern and its leading folder, where the search starts."""
    if not pattern.startswith("/"):
        return pattern, path
    components = pattern.split("/")
    first_wildcard = next(
        (at for at, component in enumerate(components) if any(char in component for char in "*?[{")),
        len(components) - 1,
    )
    return "/" + "/".join(components[first_wildcard:]), "/".join(components[:first_wildcard]) or "/"
