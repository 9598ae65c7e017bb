"""`read`: a page of a text file with its line numbers, or an image; of a folder, what is in it."""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from typing import BinaryIO

from mainstay.core.ports import Tool, ToolContext
from mainstay.io.beneath import PathIsFolder, PathMissing
from mainstay.io.files import Opened
from mainstay.tools.common import Arguments, BuiltIn, Files, ToolRefused
from mainstay.tools.images import image_of
from mainstay.tools.ls import listed
from mainstay.tools.text import PROBE, encoding_of, kind_of
from mainstay.tools.work import Work

LINES_DEFAULT = 2_000
PAGE_BYTES = 50 * 1024
LINE_CHARS = 2_000
IMAGE_BYTES_MAX = 5 * 1024 * 1024
IMAGE_HEAD = 256 * 1024  # a photograph may carry much before it says how large it is
CHUNK = 1 << 20


class _Read(Arguments, frozen=True):
    path: str
    offset: int = 1
    limit: int = LINES_DEFAULT


class Read(BuiltIn):
    name = "read"
    description = "Read a text file, lines numbered, or see an image. offset: first line."
    arguments = _Read
    capabilities: tuple[str, ...] = ("fs.read",)

    def __init__(self, files: Files) -> None:
        self._files = files

    async def run(self, arguments: _Read, context: ToolContext) -> str:
        work = Work(self._files, context)
        return await work.aside(lambda: _read(work, arguments))


def read_tool(files: Files) -> Tool:
    return Read(files)


def _read(work: Work, wanted: _Read) -> str:
    try:
        opened = work.confined.open_read(wanted.path)
    except PathMissing as error:
        work.bring_names(error.near)
        raise
    except PathIsFolder:  # whoever asks what is in it is told; a small model has no other tool for that
        return listed(work, wanted.path)
    with opened:
        work.bring(opened.path, opened.mark)
        head = opened.file.read(PROBE)
        encoding, bom = encoding_of(head)
        if image_of(head) is not None:
            return _seen(work, opened)
        if not encoding:
            shown = work.confined.shown(opened.path)
            raise ToolRefused(f"{shown} is {kind_of(head)} of {opened.stat.st_size} bytes, not text.")
        opened.file.seek(len(bom))
        page = _Page(max(wanted.offset, 1), min(max(wanted.limit, 1), LINES_DEFAULT * 10))
        page.take(_lines(opened.file, encoding, work.context))
        return page.told(encoding, bom, opened.stat.st_size)


def _seen(work: Work, opened: Opened) -> str:
    size, shown = opened.stat.st_size, work.confined.shown(opened.path)
    opened.file.seek(0)
    image = image_of(opened.file.read(IMAGE_HEAD))
    assert image is not None, "it was one a moment ago"
    sides = f" of {image.width}x{image.height}" if image.width else ""
    if size > IMAGE_BYTES_MAX:
        raise ToolRefused(
            f"{shown} is {image.mime}{sides}, {size} bytes: over the {IMAGE_BYTES_MAX} that can be shown."
        )
    opened.file.seek(0)
    work.context.attach(image.mime, opened.file.read(IMAGE_BYTES_MAX), opened.path)
    return f"{shown}: {image.mime}{sides}, {size} bytes."


def _lines(file: BinaryIO, encoding: str, context: ToolContext) -> Iterator[str]:
    """Without ever holding more than a piece of the file; a line that never ends comes in the same pieces."""
    decoder = codecs.getincrementaldecoder(encoding)(errors="replace")
    rest: list[str] = []
    size = 0
    while data := file.read(CHUNK):
        if context.cancelled:
            return
        first, *more = decoder.decode(data).split("\n")
        if size < LINE_CHARS * 2:
            rest.append(first[:CHUNK])
        size += len(first)
        for line in more:
            yield _line(rest, size)
            rest, size = [line], len(line)
    if last := decoder.decode(b"", True):
        rest.append(last)
        size += len(last)
    if size:
        yield _line(rest, size)


def _line(pieces: list[str], size: int) -> str:
    text = pieces[0] if len(pieces) == 1 else "".join(pieces)
    if size <= LINE_CHARS:
        return text
    return f"{text[:LINE_CHARS]} [cut: this line has {size} characters]"


class _Page:
    """Lines from one on, as many as fit."""

    def __init__(self, first: int, most: int) -> None:
        self.first = first
        self._most = most
        self._lines: list[str] = []
        self._count = 0  # of lines that were come across
        self._more = False
        self._returns = False

    def take(self, lines: Iterator[str]) -> None:
        size = 0
        for self._count, line in enumerate(lines, start=1):
            if self._count < self.first:
                continue
            if line.endswith("\r"):
                line, self._returns = line[:-1], True
            numbered = f"{self._count}\t{line}"
            size += len(numbered.encode(errors="replace")) + 1
            if len(self._lines) >= self._most or (size > PAGE_BYTES and self._lines):
                self._more = True
                return
            self._lines.append(numbered)

    def told(self, encoding: str, bom: bytes, size: int) -> str:
        if not self._lines:
            if not self._count:
                return "(The file is empty.)"
            raise ToolRefused(f"The file has only {self._count} line{'' if self._count == 1 else 's'}.")
        notes: list[str] = []
        if self._more:
            after = self.first + len(self._lines)
            notes.append(f"more follows, {size} bytes in all: read on with offset={after}")
        if encoding != "utf-8" or bom:
            guessed = " (a guess: it is not UTF-8)" if encoding == "latin-1" else ""
            notes.append(f"{encoding}{' with a byte order mark' if bom else ''}{guessed}")
        if self._returns:
            notes.append("lines end with CRLF")
        return "\n".join([*self._lines, *([f"[{'; '.join(notes)}]"] if notes else [])])
