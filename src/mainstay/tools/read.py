"""The `read` tool: a page of a text file with line numbers, an image, or the entries of a folder."""

from __future__ import annotations

import codecs
import struct
from collections.abc import Iterator
from typing import BinaryIO

import msgspec

from mainstay.core.ports import Tool, ToolContext
from mainstay.io.confined_files import OpenFile
from mainstay.io.path_resolver import PathIsFolder, PathMissing
from mainstay.tools.base import BuiltInTool, SessionFileAccess, ToolArguments, ToolRefused
from mainstay.tools.dependencies import ToolDependencies
from mainstay.tools.ls import format_folder
from mainstay.tools.text_encoding import PROBE_BYTES, describe_binary, detect_encoding
from mainstay.tools.tool_call_file_access import ToolCallFiles

LINES_DEFAULT = 2_000
PAGE_BYTES_MAX = 50 * 1024
LINE_CHARS_MAX = 2_000
IMAGE_BYTES_MAX = 5 * 1024 * 1024
IMAGE_HEADER_BYTES = 256 * 1024  # a photograph may have long metadata before its size
CHUNK_BYTES = 1 << 20


class _ReadArguments(ToolArguments, frozen=True):
    path: str
    offset: int = 1
    limit: int = LINES_DEFAULT


class ReadTool(BuiltInTool):
    name = "read"
    description = "Read a text file, lines numbered, or see an image. offset: first line."
    arguments = _ReadArguments
    capabilities: tuple[str, ...] = ("fs.read",)

    def __init__(self, file_access: SessionFileAccess) -> None:
        self._file_access = file_access

    async def run(self, arguments: _ReadArguments, context: ToolContext) -> str:
        call_files = ToolCallFiles(self._file_access, context)
        return await call_files.run_blocking(lambda: _read_path(call_files, arguments))


def build(dependencies: ToolDependencies) -> Tool:
    return ReadTool(dependencies.file_access)


def _read_path(call_files: ToolCallFiles, arguments: _ReadArguments) -> str:
    try:
        opened = call_files.confined.open_read(arguments.path)
    except PathMissing as error:
        call_files.taint_by_names(error.similar_paths)
        raise
    except PathIsFolder:  # list it instead of failing; a small model may have no `ls`
        return format_folder(call_files, arguments.path)
    with opened:
        call_files.taint_by_content(opened.path, opened.fingerprint)
        head = opened.file.read(PROBE_BYTES)
        encoding, bom = detect_encoding(head)
        if parse_image_header(head) is not None:
            return _attach_image(call_files, opened)
        if not encoding:
            display_path = call_files.confined.display_path(opened.path)
            raise ToolRefused(f"{display_path} is {describe_binary(head)} of {opened.stat.st_size} bytes, not text.")
        opened.file.seek(len(bom))
        page = _LinePage(max(arguments.offset, 1), min(max(arguments.limit, 1), LINES_DEFAULT * 10))
        page.fill(_iter_lines(opened.file, encoding, call_files.context))
        return page.format_page(encoding, bom, opened.stat.st_size)


def _attach_image(call_files: ToolCallFiles, opened: OpenFile) -> str:
    size, display_path = opened.stat.st_size, call_files.confined.display_path(opened.path)
    opened.file.seek(0)
    image = parse_image_header(opened.file.read(IMAGE_HEADER_BYTES))
    assert image is not None, "it was one a moment ago"
    sides = f" of {image.width}x{image.height}" if image.width else ""
    if size > IMAGE_BYTES_MAX:
        raise ToolRefused(
            f"{display_path} is {image.mime}{sides}, {size} bytes: over the {IMAGE_BYTES_MAX} that can be shown."
        )
    opened.file.seek(0)
    call_files.context.attach(image.mime, opened.file.read(IMAGE_BYTES_MAX), opened.path)
    return f"{display_path}: {image.mime}{sides}, {size} bytes."


def _iter_lines(file: BinaryIO, encoding: str, context: ToolContext) -> Iterator[str]:
    """Yield the lines without holding the whole file in memory; an overlong line is cut."""
    decoder = codecs.getincrementaldecoder(encoding)(errors="replace")
    rest: list[str] = []
    size = 0
    while data := file.read(CHUNK_BYTES):
        if context.cancelled:
            return
        first, *more = decoder.decode(data).split("\n")
        if size < LINE_CHARS_MAX * 2:
            rest.append(first[:CHUNK_BYTES])
        size += len(first)
        for line in more:
            yield _join_line(rest, size)
            rest, size = [line], len(line)
    if last := decoder.decode(b"", True):
        rest.append(last)
        size += len(last)
    if size:
        yield _join_line(rest, size)


def _join_line(pieces: list[str], size: int) -> str:
    text = pieces[0] if len(pieces) == 1 else "".join(pieces)
    if size <= LINE_CHARS_MAX:
        return text
    return f"{text[:LINE_CHARS_MAX]} [cut: this line has {size} characters]"


class _LinePage:
    """The lines from `first_line` on, as many as fit on a page."""

    def __init__(self, first_line: int, lines_max: int) -> None:
        self.first_line = first_line
        self._lines_max = lines_max
        self._lines: list[str] = []
        self._line_count = 0  # lines read so far
        self._has_more = False
        self._has_crlf = False

    def fill(self, lines: Iterator[str]) -> None:
        size = 0
        for self._line_count, line in enumerate(lines, start=1):
            if self._line_count < self.first_line:
                continue
            if line.endswith("\r"):
                line, self._has_crlf = line[:-1], True
            numbered = f"{self._line_count}\t{line}"
            size += len(numbered.encode(errors="replace")) + 1
            if len(self._lines) >= self._lines_max or (size > PAGE_BYTES_MAX and self._lines):
                self._has_more = True
                return
            self._lines.append(numbered)

    def format_page(self, encoding: str, bom: bytes, size: int) -> str:
        if not self._lines:
            if not self._line_count:
                return "(The file is empty.)"
            raise ToolRefused(f"The file has only {self._line_count} line{'' if self._line_count == 1 else 's'}.")
        notes: list[str] = []
        if self._has_more:
            after = self.first_line + len(self._lines)
            notes.append(f"more follows, {size} bytes in all: read on with offset={after}")
        if encoding != "utf-8" or bom:
            guessed = " (a guess: it is not UTF-8)" if encoding == "latin-1" else ""
            notes.append(f"{encoding}{' with a byte order mark' if bom else ''}{guessed}")
        if self._has_crlf:
            notes.append("lines end with CRLF")
        return "\n".join([*self._lines, *([f"[{'; '.join(notes)}]"] if notes else [])])


class ImageInfo(msgspec.Struct, frozen=True, gc=False):
    mime: str
    width: int = 0  # in pixels; 0: unknown
    height: int = 0


def parse_image_header(head: bytes) -> ImageInfo | None:
    """Parse an image header; None if it is not a PNG, GIF, WebP or JPEG."""
    try:
        if head.startswith(b"\x89PNG\r\n\x1a\n"):
            return ImageInfo("image/png", *struct.unpack(">II", head[16:24]))
        if head.startswith((b"GIF87a", b"GIF89a")):
            return ImageInfo("image/gif", *struct.unpack("<HH", head[6:10]))
        if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
            return ImageInfo("image/webp", *_read_webp_size(head))
        if head.startswith(b"\xff\xd8\xff"):
            return ImageInfo("image/jpeg", *_read_jpeg_size(head))
    except struct.error:  # the header is incomplete
        return None
    return None


def _read_webp_size(head: bytes) -> tuple[int, int]:
    match head[12:16]:
        case b"VP8X":
            return int.from_bytes(head[24:27], "little") + 1, int.from_bytes(head[27:30], "little") + 1
        case b"VP8L":
            bits = int.from_bytes(head[21:25], "little")
            return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
        case b"VP8 ":
            width, height = struct.unpack("<HH", head[26:30])
            return width & 0x3FFF, height & 0x3FFF
    return 0, 0


def _read_jpeg_size(head: bytes) -> tuple[int, int]:
    """Find the size in the start-of-frame segment, skipping the segments before it by their lengths."""
    at = 2
    while at + 9 < len(head) and head[at] == 0xFF:
        kind = head[at + 1]
        if 0xC0 <= kind <= 0xCF and kind not in (0xC4, 0xC8, 0xCC):
            height, width = struct.unpack(">HH", head[at + 5 : at + 9])
            return width, height
        at += 2 + (0 if kind == 0xFF else max(int.from_bytes(head[at + 2 : at + 4], "big"), 2))
    return 0, 0
