"""The `ls` tool: lists a folder."""

from __future__ import annotations

from mainstay.core.ports import Tool, ToolContext
from mainstay.io.confined_files import FolderEntry
from mainstay.io.path_resolver import PathMissing, shorten_for_message
from mainstay.tools.base import BuiltInTool, SessionFileAccess, ToolArguments
from mainstay.tools.dependencies import ToolDependencies
from mainstay.tools.tool_call_file_access import ToolCallFiles

ENTRIES_SHOWN_MAX = 500


class _LsArguments(ToolArguments, frozen=True):
    path: str = "."
    all: bool = False


class LsTool(BuiltInTool):
    name = "ls"
    description = "List a folder. all: hidden files too."
    arguments = _LsArguments
    capabilities: tuple[str, ...] = ("fs.read",)

    def __init__(self, file_access: SessionFileAccess) -> None:
        self._file_access = file_access

    async def run(self, arguments: _LsArguments, context: ToolContext) -> str:
        call_files = ToolCallFiles(self._file_access, context)
        return await call_files.run_blocking(
            lambda: format_folder(call_files, arguments.path, include_hidden=arguments.all)
        )


def build(dependencies: ToolDependencies) -> Tool:
    return LsTool(dependencies.file_access)


def format_folder(call_files: ToolCallFiles, path: str, *, include_hidden: bool = False) -> str:
    """Format the entries of a folder, with hidden ones if `include_hidden`. Taints the context by their names."""
    try:
        folder, entries, is_complete = call_files.confined.list_folder(path)
    except PathMissing as error:
        call_files.taint_by_names(error.similar_paths)
        raise
    visible = [entry for entry in entries if include_hidden or not entry.name.startswith(".")]
    listed = visible[:ENTRIES_SHOWN_MAX]
    call_files.taint_by_names(f"{folder.rstrip('/')}/{entry.name}" for entry in listed)
    notes: list[str] = []
    if len(visible) > len(listed):
        notes.append(f"{len(visible) - len(listed)} more: use glob")
    if not is_complete:
        notes.append("the folder is too large to be listed whole")
    if hidden := len(entries) - len(visible):
        notes.append(f"{hidden} hidden: all=true shows them")
    lines = [_format_entry(entry) for entry in listed] or ["(Nothing.)"]
    return "\n".join([*lines, *([f"[{'; '.join(notes)}]"] if notes else [])])


def _format_entry(entry: FolderEntry) -> str:
    match entry.kind:
        case "folder":
            return f"{shorten_for_message(entry.name)}/"
        case "file":
            return f"{shorten_for_message(entry.name)}\t{entry.size}"
        case _:
            return f"{shorten_for_message(entry.name)}\t{entry.kind}"
