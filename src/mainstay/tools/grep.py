"""The `grep` tool: searches file contents with a regular expression."""

from __future__ import annotations

import time
from typing import Literal

import msgspec

from mainstay.core.ports import Tool, ToolContext
from mainstay.io.file_walk import FileWalk
from mainstay.io.globs import GlobRefused, compile_path_glob
from mainstay.io.path_resolver import PathMissing, PathRefused
from mainstay.tools.base import BuiltInTool, SessionFileAccess, ToolArguments, ToolRefused
from mainstay.tools.dependencies import ToolDependencies
from mainstay.tools.regex_search import LineMatches, LineSearcher, open_searcher
from mainstay.tools.text_encoding import PROBE_BYTES, detect_encoding
from mainstay.tools.tool_call_file_access import ToolCallFiles

LIMIT_DEFAULT = 100
LIMIT_MAX = 1_000
CONTEXT_LINES_MAX = 20
FILE_BYTES_MAX = 20 * 1024 * 1024
RESULT_CHARS_MAX = 40_000
SECONDS_MAX = 10.0
PATTERN_CHARS_MAX = 2_000


class _GrepArguments(ToolArguments, frozen=True):
    pattern: str
    path: str = "."
    glob: str = ""
    mode: Literal["lines", "files", "count"] = "lines"
    context: int = 0
    ignore_case: bool = False
    limit: int = LIMIT_DEFAULT


class GrepTool(BuiltInTool):
    name = "grep"
    description = "Search file contents with a Python regex. context: lines around each match."
    arguments = _GrepArguments
    capabilities: tuple[str, ...] = ("fs.read",)

    def __init__(self, file_access: SessionFileAccess, seconds_max: float = SECONDS_MAX) -> None:
        self._file_access = file_access
        self._seconds_max = seconds_max

    async def run(self, arguments: _GrepArguments, context: ToolContext) -> str:
        call_files = ToolCallFiles(self._file_access, context)
        return await call_files.run_blocking(
            lambda: _search_files(call_files, arguments, time.monotonic() + self._seconds_max)
        )


def build(dependencies: ToolDependencies) -> Tool:
    return GrepTool(dependencies.file_access)


def _search_files(call_files: ToolCallFiles, arguments: _GrepArguments, deadline: float) -> str:
    _check_arguments(arguments)
    try:
        is_match = compile_path_glob(arguments.glob) if arguments.glob else None
    except GlobRefused as error:
        raise ToolRefused(f"{error}.") from None
    results = _GrepResults(call_files, arguments)
    walk = FileWalk(
        call_files.confined,
        arguments.path,
        should_stop=lambda: call_files.context.cancelled or time.monotonic() > deadline,
    )

    def stop() -> bool:
        return call_files.context.cancelled

    try:
        with open_searcher(
            arguments.pattern, ignore_case=arguments.ignore_case, deadline=deadline, should_stop=stop
        ) as search:
            for file in walk:
                if is_match is not None and not is_match(file.relative_path):
                    continue
                try:
                    with walk.open_file(file) as opened:
                        results.search_file(
                            search, opened.file.read(FILE_BYTES_MAX + 1), opened.path, opened.fingerprint
                        )
                except PathRefused:  # not readable
                    continue
                if results.is_full:
                    break
    except PathMissing as error:
        call_files.taint_by_names(error.similar_paths)
        raise
    return results.format_result(walk.cut_reason)


def _check_arguments(arguments: _GrepArguments) -> None:
    if len(arguments.pattern) > PATTERN_CHARS_MAX:
        raise ToolRefused(f"The pattern has more than {PATTERN_CHARS_MAX} characters.")
    if not arguments.pattern:
        raise ToolRefused("The pattern is empty: use glob to find files by name.")


class _GrepResults(msgspec.Struct):
    """Collects the matches of a search and formats them."""

    call_files: ToolCallFiles
    arguments: _GrepArguments
    lines: list[str] = []
    match_count: int = 0
    file_count: int = 0
    size_chars: int = 0
    skipped_count: int = 0

    @property
    def limit(self) -> int:
        return min(max(self.arguments.limit, 1), LIMIT_MAX)

    @property
    def is_full(self) -> bool:
        count = self.match_count if self.arguments.mode == "lines" else self.file_count
        return count > self.limit or self.size_chars > RESULT_CHARS_MAX

    def search_file(self, search: LineSearcher, data: bytes, path: str, fingerprint: str) -> None:
        name, bom = detect_encoding(data[:PROBE_BYTES])
        if not name:
            return
        if len(data) > FILE_BYTES_MAX:
            self.skipped_count += 1
            return
        mode = self.arguments.mode
        most = 1 if mode == "files" else 1_000_000 if mode == "count" else self.limit - self.match_count + 1
        around = min(max(self.arguments.context, 0), CONTEXT_LINES_MAX) if mode == "lines" else -1
        match = search(data[len(bom) :], name, most, around)
        if not match.count:
            return
        self.file_count += 1
        if self.file_count > self.limit and mode != "lines":
            return
        display_path = self.call_files.confined.display_path(path)
        if mode == "lines":
            self.call_files.taint_by_content(path, fingerprint)
            self._add_lines(match, display_path)
        else:
            self._add(f"{display_path}:{match.count}" if mode == "count" else display_path)
        self.call_files.taint_by_names([path])

    def _add_lines(self, match: LineMatches, display_path: str) -> None:
        last = 0
        for number, text, hit in match.lines:
            self.match_count += hit
            if self.match_count > self.limit:
                return
            if last and number > last + 1 and self.arguments.context > 0:
                self._add("--")
            self._add(f"{display_path}{':' if hit else '-'}{number}{':' if hit else '-'}{text}")
            last = number

    def _add(self, line: str) -> None:
        self.size_chars += len(line) + 1
        if self.size_chars <= RESULT_CHARS_MAX or not self.lines:
            self.lines.append(line)

    def format_result(self, cut_reason: str) -> str:
        notes: list[str] = []
        if self.is_full:
            notes.append("more follows: narrow it by path, glob or pattern, or raise limit")
        if self.skipped_count:
            files = "1 file" if self.skipped_count == 1 else f"{self.skipped_count} files"
            notes.append(f"left out: {files} over {FILE_BYTES_MAX >> 20} MB")
        if cut_reason:
            notes.append(
                cut_reason
                if cut_reason.startswith("only")
                else "the time limit was reached before everything was searched: narrow it"
            )
        lines = self.lines or ["(Nothing; ignored and binary files are not searched.)"]
        return "\n".join([*lines, *([f"[{'; '.join(notes)}]"] if notes else [])])
