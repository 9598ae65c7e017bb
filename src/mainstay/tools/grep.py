"""`grep`: lines of files by a regular expression."""

from __future__ import annotations

import time
from typing import Literal

import msgspec

from mainstay.core.ports import Tool, ToolContext
from mainstay.io.beneath import PathMissing, PathRefused
from mainstay.io.globs import BadPattern, glob
from mainstay.io.walk import Walk
from mainstay.tools.common import Arguments, BuiltIn, Files, ToolRefused
from mainstay.tools.searching import Found, Searcher, searcher
from mainstay.tools.text import PROBE, encoding_of
from mainstay.tools.work import Work

LIMIT_DEFAULT = 100
LIMIT_MAX = 1_000
CONTEXT_MAX = 20
FILE_BYTES_MAX = 20 * 1024 * 1024
RESULT_CHARS = 40_000
SECONDS_MAX = 10.0
PATTERN_CHARS_MAX = 2_000


class _Grep(Arguments, frozen=True):
    pattern: str
    path: str = "."
    glob: str = ""
    mode: Literal["lines", "files", "count"] = "lines"
    context: int = 0
    ignore_case: bool = False
    limit: int = LIMIT_DEFAULT


class Grep(BuiltIn):
    name = "grep"
    description = "Search file contents with a Python regex. context: lines around each match."
    arguments = _Grep
    capabilities: tuple[str, ...] = ("fs.read",)

    def __init__(self, files: Files, seconds_max: float = SECONDS_MAX) -> None:
        self._files = files
        self._seconds_max = seconds_max

    async def run(self, arguments: _Grep, context: ToolContext) -> str:
        work = Work(self._files, context)
        return await work.aside(lambda: _searched(work, arguments, time.monotonic() + self._seconds_max))


def grep_tool(files: Files, seconds_max: float = SECONDS_MAX) -> Tool:
    return Grep(files, seconds_max)


def _searched(work: Work, wanted: _Grep, until: float) -> str:
    _check(wanted)
    try:
        fits = glob(wanted.glob) if wanted.glob else None
    except BadPattern as error:
        raise ToolRefused(f"{error}.") from None
    search = _Search(work, wanted)
    walk = Walk(work.confined, wanted.path, stop=lambda: work.context.cancelled or time.monotonic() > until)

    def stop() -> bool:
        return work.context.cancelled

    try:
        with searcher(wanted.pattern, ignore_case=wanted.ignore_case, until=until, stop=stop) as ask:
            for seen in walk:
                if fits is not None and not fits(seen.below):
                    continue
                try:
                    with walk.open(seen) as opened:
                        search.look(ask, opened.file.read(FILE_BYTES_MAX + 1), opened.path, opened.mark)
                except PathRefused:  # not ours to read
                    continue
                if search.full:
                    break
    except PathMissing as error:
        work.bring_names(error.near)
        raise
    return search.told(walk.cut)


def _check(wanted: _Grep) -> None:
    if len(wanted.pattern) > PATTERN_CHARS_MAX:
        raise ToolRefused(f"The pattern has more than {PATTERN_CHARS_MAX} characters.")
    if not wanted.pattern:
        raise ToolRefused("The pattern is empty: use glob to find files by name.")


class _Search(msgspec.Struct):
    """What was found so far."""

    work: Work
    wanted: _Grep
    lines: list[str] = []
    matches: int = 0
    files: int = 0
    size: int = 0
    skipped: int = 0

    @property
    def limit(self) -> int:
        return min(max(self.wanted.limit, 1), LIMIT_MAX)

    @property
    def full(self) -> bool:
        count = self.matches if self.wanted.mode == "lines" else self.files
        return count > self.limit or self.size > RESULT_CHARS

    def look(self, ask: Searcher, data: bytes, path: str, mark: str) -> None:
        name, bom = encoding_of(data[:PROBE])
        if not name:
            return
        if len(data) > FILE_BYTES_MAX:
            self.skipped += 1
            return
        mode = self.wanted.mode
        most = 1 if mode == "files" else 1_000_000 if mode == "count" else self.limit - self.matches + 1
        around = min(max(self.wanted.context, 0), CONTEXT_MAX) if mode == "lines" else -1
        found = ask(data[len(bom) :], name, most, around)
        if not found.count:
            return
        self.files += 1
        if self.files > self.limit and mode != "lines":
            return
        shown = self.work.confined.shown(path)
        if mode == "lines":
            self.work.bring(path, mark)
            self._add_lines(found, shown)
        else:
            self._add(f"{shown}:{found.count}" if mode == "count" else shown)
        self.work.bring_names([path])

    def _add_lines(self, found: Found, shown: str) -> None:
        last = 0
        for number, text, hit in found.lines:
            self.matches += hit
            if self.matches > self.limit:
                return
            if last and number > last + 1 and self.wanted.context > 0:
                self._add("--")
            self._add(f"{shown}{':' if hit else '-'}{number}{':' if hit else '-'}{text}")
            last = number

    def _add(self, line: str) -> None:
        self.size += len(line) + 1
        if self.size <= RESULT_CHARS or not self.lines:
            self.lines.append(line)

    def told(self, cut: str) -> str:
        notes: list[str] = []
        if self.full:
            notes.append("more follows: narrow it by path, glob or pattern, or raise limit")
        if self.skipped:
            files = "1 file" if self.skipped == 1 else f"{self.skipped} files"
            notes.append(f"left out: {files} over {FILE_BYTES_MAX >> 20} MB")
        if cut:
            notes.append(cut if cut.startswith("only") else "its time was over before all was looked at: narrow it")
        lines = self.lines or ["(Nothing; ignored and binary files are not looked at.)"]
        return "\n".join([*lines, *([f"[{'; '.join(notes)}]"] if notes else [])])
