"""One HTTP/1.1 response, read from a connection that is then closed: strictly, and no further than its bounds."""

from __future__ import annotations

import asyncio
import re
import zlib
from collections.abc import AsyncIterator

from mainstay.core.errors import MainstayError

HEAD_BYTES_MAX = 32 * 1024
HEADERS_MAX = 100
EARLY_MAX = 5  # responses of the 1xx kind before the real one
PIECE_BYTES = 64 * 1024
CHUNK_LINE_MAX = 4096
FRAMES_BYTES_MAX = 1024 * 1024  # of chunks' sizes and trailers, which are no content

_STATUS = re.compile(rb"HTTP/1\.[01] ([1-5][0-9][0-9])(?: [^\r\n\x00]*)?")
_NAME = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+")


class FetchFailed(MainstayError):
    """It could not be fetched; the sentence says why."""


class TooLarge(FetchFailed):
    pass


class NotReached(FetchFailed):
    """Certainly nothing was sent."""


class Head:
    """Status and headers, names in lower case. One that comes several times is joined by commas."""

    __slots__ = ("headers", "status")

    def __init__(self, raw: bytes) -> None:
        lines = [line.removesuffix(b"\r") for line in raw.split(b"\n")]
        found = _STATUS.fullmatch(lines[0])
        if found is None:
            raise FetchFailed("The server does not speak HTTP.")
        self.status = int(found[1])
        self.headers: dict[str, str] = {}
        if len(lines) > HEADERS_MAX + 1:
            raise FetchFailed(f"The server sent more than {HEADERS_MAX} headers.")
        for line in lines[1:]:
            name, colon, value = line.partition(b":")
            if not colon or not _NAME.fullmatch(name) or b"\x00" in value or b"\r" in value:
                raise FetchFailed("The server sent a header that cannot be read.")
            key, text = name.decode().lower(), value.strip(b" \t").decode("latin-1")
            self.headers[key] = f"{self.headers[key]}, {text}" if key in self.headers else text


class Wire:
    """Bytes as they come, in pieces, with what was read too far kept for the next who asks."""

    __slots__ = ("_reader", "_rest")

    def __init__(self, reader: asyncio.StreamReader) -> None:
        self._reader = reader
        self._rest = b""

    async def some(self) -> bytes:
        """Whatever is next; empty at the end."""
        if self._rest:
            piece, self._rest = self._rest, b""
            return piece
        return await self._reader.read(PIECE_BYTES)

    def back(self, piece: bytes) -> None:
        self._rest = piece + self._rest

    async def until(self, ends: tuple[bytes, ...], most: int, trouble: str) -> bytes:
        """What comes before the first of these ends."""
        raw = bytearray()
        while True:
            piece = await self.some()
            start = max(0, len(raw) - 3)  # an end may have begun in the piece before
            raw += piece
            found = [(at, end) for end in ends if (at := raw.find(end, start)) >= 0]
            if found and min(found)[0] <= most:
                at, end = min(found)
                self.back(bytes(raw[at + len(end) :]))
                return bytes(raw[:at])
            if found or not piece or len(raw) > most:
                raise FetchFailed(trouble)


async def read_head(wire: Wire) -> Head:
    for _ in range(EARLY_MAX):
        raw = await wire.until(
            (b"\r\n\r\n", b"\n\n"), HEAD_BYTES_MAX, "The server sent no HTTP head, or too long a one."
        )
        head = Head(raw)
        if head.status >= 200:
            return head
    raise FetchFailed("The server does not get to its answer.")


async def read_body(wire: Wire, head: Head, bytes_max: int) -> bytes:
    """The content, unpacked. At most `bytes_max` of it are ever held, packed or not."""
    if head.status in (204, 304):
        return b""
    unpack = _unpacker(head.headers.get("content-encoding", "").lower().strip())
    whole = bytearray()
    taken = 0
    async for piece in _content(wire, head, bytes_max):
        taken += len(piece)
        if taken > bytes_max:
            raise _too_large(bytes_max)
        whole += unpack.feed(piece, bytes_max - len(whole)) if unpack is not None else piece
    if unpack is not None:
        unpack.finish()
    return bytes(whole)


def _content(wire: Wire, head: Head, bytes_max: int) -> AsyncIterator[bytes]:
    coding = head.headers.get("transfer-encoding", "").lower().strip()
    if coding == "chunked":
        return _chunks(wire)
    if coding:
        raise FetchFailed("The server packs its answer in a way that nobody asked for.")
    length = _length(head)
    if length is not None and length > bytes_max:  # said before anything of it is read
        raise _too_large(bytes_max)
    return _counted(wire, length)


def _length(head: Head) -> int | None:
    said = head.headers.get("content-length")
    if said is None:
        return None
    lengths = {one.strip() for one in said.split(",")}
    one = lengths.pop()
    if lengths or not (one.isascii() and one.isdecimal() and len(one) <= 18):
        raise FetchFailed("The server contradicts itself about the length of its answer.")
    return int(one)


async def _counted(wire: Wire, length: int | None) -> AsyncIterator[bytes]:
    left = length
    while left is None or left > 0:
        piece = await wire.some()
        if not piece:
            if left is None:  # it ends with its connection
                return
            raise FetchFailed("The answer ended before it was whole.")
        yield piece if left is None else piece[:left]
        left = None if left is None else left - len(piece)


async def _chunks(wire: Wire) -> AsyncIterator[bytes]:
    frames = 0
    trouble = "The server sent a chunk that cannot be read."
    while True:
        line = await wire.until((b"\n",), CHUNK_LINE_MAX, trouble)
        frames += len(line) + 1
        digits = line.removesuffix(b"\r").partition(b";")[0].strip(b" \t")
        if not 0 < len(digits) <= 8 or digits.strip(b"0123456789abcdefABCDEF"):  # int() would take signs and 0x too
            raise FetchFailed(trouble)
        left = int(digits, 16)
        if not left:
            return  # what trails it is of no use, and the connection is closed anyway
        while left:
            piece = await wire.some()
            if not piece:
                raise FetchFailed("The answer ended before it was whole.")
            wire.back(piece[left:])
            yield piece[:left]
            left -= min(left, len(piece))
        if await wire.until((b"\n",), 1, trouble) not in (b"", b"\r"):
            raise FetchFailed(trouble)
        if frames > FRAMES_BYTES_MAX:
            raise FetchFailed("The server sends more frames than content.")


class _Unpack:
    """gzip or deflate, never further than there is room: a few bytes can hold gigabytes."""

    def __init__(self, coding: str) -> None:
        self._raw_too = coding == "deflate"  # some servers mean it without the zlib frame
        self._stream = zlib.decompressobj(47 if coding == "gzip" else 15)

    def feed(self, piece: bytes, room: int) -> bytes:
        if self._stream.eof:
            return b""
        try:
            out = self._stream.decompress(piece, room + 1)
        except zlib.error:
            if not self._raw_too:
                raise FetchFailed("The answer cannot be unpacked.") from None
            self._raw_too, self._stream = False, zlib.decompressobj(-15)
            return self.feed(piece, room)
        self._raw_too = False
        if len(out) > room:
            raise TooLarge("Unpacked, the answer is larger than can be fetched.")
        return out

    def finish(self) -> None:
        if not self._stream.eof:
            raise FetchFailed("The answer ended before it was whole.")


def _unpacker(coding: str) -> _Unpack | None:
    match coding:
        case "" | "identity":
            return None
        case "gzip" | "x-gzip":
            return _Unpack("gzip")
        case "deflate":
            return _Unpack("deflate")
    raise FetchFailed("The server packs its answer in a way that nobody asked for.")


def _too_large(bytes_max: int) -> TooLarge:
    return TooLarge(f"It is larger than {bytes_max // (1024 * 1024) or 1} MB, which is the most that is fetched.")
