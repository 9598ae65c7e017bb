"""The `edit` tool: replaces one text by another in a file, if the match is unambiguous."""

from __future__ import annotations

import difflib
import re
import unicodedata

from mainstay.core.ports import Effect, Tool, ToolContext
from mainstay.core.tool_ports import CallDestinations
from mainstay.io.path_resolver import PathMissing
from mainstay.tools.base import BuiltInTool, SessionFileAccess, ToolArguments, ToolRefused
from mainstay.tools.dependencies import ToolDependencies
from mainstay.tools.text_encoding import DecodedText, decode_file
from mainstay.tools.tool_call_file_access import FILE_BYTES_MAX, FileChange, ToolCallFiles

POSITIONS_SHOWN_MAX = 10
HINT_LINES_MAX = 5_000
HINT_CHARS_MAX = 200


class _EditArguments(ToolArguments, frozen=True):
    path: str
    old: str
    new: str
    replace_all: bool = False


class EditTool(BuiltInTool):
    name = "edit"
    description = "Replace old by new in a file. old must occur exactly once, or set replace_all."
    arguments = _EditArguments
    effect: Effect = "reconcile"
    capabilities: tuple[str, ...] = ("fs.write",)

    def __init__(self, file_access: SessionFileAccess) -> None:
        self._file_access = file_access

    def reach(self, arguments: _EditArguments, context: ToolContext) -> CallDestinations:
        return ToolCallFiles(self._file_access, context).judge_reach([FileChange(path=arguments.path, data=b"")])

    async def run(self, arguments: _EditArguments, context: ToolContext) -> str:
        call_files = ToolCallFiles(self._file_access, context)
        change, summary = await call_files.run_blocking(lambda: _prepare_change(call_files, arguments))
        await call_files.apply_changes([change])
        return "\n".join(filter(None, (summary, call_files.unkept_note)))

    async def reconcile(self, arguments: _EditArguments, context: ToolContext) -> str | None:
        """Find out from the file whether the edit was already done."""
        call_files = ToolCallFiles(self._file_access, context)
        decoded, _, _ = await call_files.run_blocking(lambda: _load_text(call_files, arguments.path))
        old, new = _with_file_line_ends(decoded.text, arguments.old, arguments.new)
        remaining = (decoded.text.replace(new, "\0") if new else decoded.text).count(old)
        if remaining == 0 and (not new or new in decoded.text):
            return f"Edited {call_files.confined.display_path(call_files.confined.real_path(arguments.path))}."
        if remaining and new and new in decoded.text and not arguments.replace_all:
            return "Outcome unknown: the process stopped while this ran, and both texts are in the file. Read it."
        return None


def build(dependencies: ToolDependencies) -> Tool:
    return EditTool(dependencies.file_access)


def _load_text(call_files: ToolCallFiles, path: str) -> tuple[DecodedText, str, str]:
    """Return the text, the fingerprint of its file, and its origin."""
    try:
        data, opened = call_files.confined.read_bytes(path, FILE_BYTES_MAX)
    except PathMissing as error:
        call_files.taint_by_names(error.similar_paths)
        raise
    return (
        decode_file(data, call_files.confined.display_path(opened.path)),
        opened.fingerprint,
        call_files.get_origin(opened.path, opened.fingerprint),
    )


def _prepare_change(call_files: ToolCallFiles, arguments: _EditArguments) -> tuple[FileChange, str]:
    if not arguments.old:
        raise ToolRefused(
            "old is empty. To create a file, use write; to insert text, give the text next to it in old and new."
        )
    if arguments.old == arguments.new:
        raise ToolRefused("old and new are the same. Nothing was changed.")
    decoded, mark, base = _load_text(call_files, arguments.path)
    old, new = _with_file_line_ends(decoded.text, arguments.old, arguments.new)
    positions = _find_positions(decoded.text, old)
    if not positions:
        hint = _describe_nearest(decoded.text, arguments.old)
        call_files.taint_by_content(call_files.confined.real_path(arguments.path), mark)  # the message quotes the file
        raise ToolRefused(f"old is not in the file. {hint}Nothing was changed.")
    if len(positions) > 1 and not arguments.replace_all:
        lines = [decoded.text.count("\n", 0, at) + 1 for at in positions[:POSITIONS_SHOWN_MAX]]
        more = ", …" if len(positions) > POSITIONS_SHOWN_MAX else ""
        raise ToolRefused(
            f"old is in the file {len(positions)} times, at lines {', '.join(map(str, lines))}{more}. "
            "Give more of the text around it, or set replace_all. Nothing was changed."
        )
    data = decoded.encode(decoded.text.replace(old, new))
    display_path = call_files.confined.display_path(call_files.confined.real_path(arguments.path))
    line = decoded.text.count("\n", 0, positions[0]) + 1
    where = f"line {line}" if len(positions) == 1 else f"{len(positions)} places"
    return FileChange(
        path=arguments.path, data=data, expected_fingerprint=mark, base_origin=base
    ), f"Edited {display_path}: {where}."


def _with_file_line_ends(text: str, old: str, new: str) -> tuple[str, str]:
    """Return both texts with the line ends of the file: the model does not see CRLF."""
    if old in text or "\r\n" not in text:
        return old, new
    return _to_crlf(old), _to_crlf(new)


def _to_crlf(text: str) -> str:
    return re.sub(r"(?<!\r)\n", "\r\n", text)


def _find_positions(text: str, old: str) -> list[int]:
    """Return the positions of all occurrences, counted as `str.replace` does."""
    positions, at = [], text.find(old)
    while at >= 0:
        positions.append(at)
        at = text.find(old, at + len(old))
    return positions


def _describe_nearest(text: str, old: str) -> str:
    """Return a hint about what `old` may have meant, for the model; "" for none."""
    bare = re.sub(r"(?m)^ *\d+\t", "", old)
    if bare != old and bare in text.replace("\r\n", "\n"):
        return "It occurs without the line numbers that read shows: leave them out. "
    if unicodedata.normalize("NFC", old) in unicodedata.normalize("NFC", text):
        return "It occurs with differently composed accents: copy it from read. "
    lines = text.split("\n")[:HINT_LINES_MAX]
    old_lines = [" ".join(line.split()) for line in old.strip().split("\n")]
    normalized = [" ".join(line.split()) for line in lines]
    for at in range(len(normalized) - len(old_lines) + 1):
        if normalized[at : at + len(old_lines)] == old_lines:
            return f"At line {at + 1} it differs only in white space: {_quote_line(lines[at])}. "
    nearest = difflib.get_close_matches(
        old_lines[0][:HINT_CHARS_MAX], [line[:HINT_CHARS_MAX] for line in normalized], n=1
    )
    if not nearest:
        return ""
    at = next(at for at, line in enumerate(normalized) if line[:HINT_CHARS_MAX] == nearest[0])
    return f"Nearest is line {at + 1}: {_quote_line(lines[at])}. "


def _quote_line(line: str) -> str:
    return ascii(line[:HINT_CHARS_MAX]) if not line.isprintable() else repr(line[:HINT_CHARS_MAX])
