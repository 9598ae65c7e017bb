"""Reads one HTTP/1.1 response, strictly and with size limits, from a connection that is then closed."""

from __future__ import annotations

import asyncio
import re
import zlib
from collections.abc import AsyncIterator

from mainstay.core.errors import MainstayError

HEAD_BYTES_MAX = 32 * 1024
HEADERS_MAX = 100
INFORMATIONAL_MAX = 5  # 1xx responses before the final one
READ_BYTES = 64 * 1024
CHUNK_LINE_BYTES_MAX = 4096
CHUNK_FRAMING_BYTES_MAX = 1024 * 1024  # chunk size lines and trailers, which are not content

_STATUS_LINE = re.compile(rb"HTTP/1\.[01] ([1-5][0-9][0-9])(?: [^\r\n\x00]*)?")
_HEADER_NAME = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+")


class FetchFailed(MainstayError):
    """The fetch failed; the message says why."""


class ResponseTooLarge(FetchFailed):
    pass


class HostUnreachable(FetchFailed):
    """The host could not be connected to: certainly nothing was sent."""


class FetchResponseHead:
    """Status and headers of a response. Names are in lower case; repeated headers are joined by commas."""

    __slots__ = ("headers", "status")

    def __init__(self, raw: bytes) -> None:
        lines = [line.removesuffix(b"\r") for line in raw.split(b"\n")]
        match = _STATUS_LINE.fullmatch(lines[0])
        if match is None:
            raise FetchFailed("The server does not speak HTTP.")
        self.status = int(match[1])
        self.headers: dict[str, str] = {}
        if len(lines) > HEADERS_MAX + 1:
            raise FetchFailed(f"The server sent more than {HEADERS_MAX} headers.")
        for line in lines[1:]:
            name, colon, value = line.partition(b":")
            if not colon or not _HEADER_NAME.fullmatch(name) or b"\x00" in value or b"\r" in value:
                raise FetchFailed("The server sent a header that cannot be read.")
            key, text = name.decode().lower(), value.strip(b" \t").decode("latin-1")
            self.headers[key] = f"{self.headers[key]}, {text}" if key in self.headers else text


class PushbackReader:
    """A stream reader into which bytes that were read too far can be pushed back."""

    __slots__ = ("_pushed_back", "_reader")

    def __init__(self, reader: asyncio.StreamReader) -> None:
        self._reader = reader
        self._pushed_back = b""

    async def read_some(self) -> bytes:
        """Return the next bytes, as many as are there; empty at the end."""
        if self._pushed_back:
            piece, self._pushed_back = self._pushed_back, b""
            return piece
        return await self._reader.read(READ_BYTES)

    def push_back(self, data: bytes) -> None:
        self._pushed_back = data + self._pushed_back

    async def read_until(self, delimiters: tuple[bytes, ...], bytes_max: int, error_message: str) -> bytes:
        """Read up to the first of the delimiters, which is dropped. Raises FetchFailed with `error_message`."""
        raw = bytearray()
        while True:
            piece = await self.read_some()
            start = max(0, len(raw) - 3)  # a delimiter may have begun in the previous piece
            raw += piece
            hits = [(at, end) for end in delimiters if (at := raw.find(end, start)) >= 0]
            if hits and min(hits)[0] <= bytes_max:
                at, end = min(hits)
                self.push_back(bytes(raw[at + len(end) :]))
                return bytes(raw[:at])
            if hits or not piece or len(raw) > bytes_max:
                raise FetchFailed(error_message)


async def read_head(reader: PushbackReader) -> FetchResponseHead:
    for _ in range(INFORMATIONAL_MAX):
        raw = await reader.read_until(
            (b"\r\n\r\n", b"\n\n"), HEAD_BYTES_MAX, "The server sent no HTTP head, or too long a one."
        )
        head = FetchResponseHead(raw)
        if head.status >= 200:
            return head
    raise FetchFailed("The server does not get to its answer.")


async def read_body(reader: PushbackReader, head: FetchResponseHead, bytes_max: int) -> bytes:
    """Read the body, decompressed. Neither form may exceed `bytes_max`."""
    if head.status in (204, 304):
        return b""
    decompressor = _create_decompressor(head.headers.get("content-encoding", "").lower().strip())
    body = bytearray()
    received = 0
    async for piece in _iter_body(reader, head, bytes_max):
        received += len(piece)
        if received > bytes_max:
            raise _build_too_large(bytes_max)
        body += decompressor.decompress(piece, bytes_max - len(body)) if decompressor is not None else piece
    if decompressor is not None:
        decompressor.check_finished()
    return bytes(body)


def _iter_body(reader: PushbackReader, head: FetchResponseHead, bytes_max: int) -> AsyncIterator[bytes]:
    coding = head.headers.get("transfer-encoding", "").lower().strip()
    if coding == "chunked":
        return _iter_chunked(reader)
    if coding:
        raise FetchFailed("The server packs its answer in a way that nobody asked for.")
    length = _parse_content_length(head)
    if length is not None and length > bytes_max:  # refused before reading any of it
        raise _build_too_large(bytes_max)
    return _iter_fixed_length(reader, length)


def _parse_content_length(head: FetchResponseHead) -> int | None:
    header = head.headers.get("content-length")
    if header is None:
        return None
    lengths = {value.strip() for value in header.split(",")}
    length = lengths.pop()
    if lengths or not (length.isascii() and length.isdecimal() and len(length) <= 18):
        raise FetchFailed("The server contradicts itself about the length of its answer.")
    return int(length)


async def _iter_fixed_length(reader: PushbackReader, length: int | None) -> AsyncIterator[bytes]:
    left = length
    while left is None or left > 0:
        piece = await reader.read_some()
        if not piece:
            if left is None:  # the body ends with the connection
                return
            raise FetchFailed("The answer ended before it was whole.")
        yield piece if left is None else piece[:left]
        left = None if left is None else left - len(piece)


async def _iter_chunked(reader: PushbackReader) -> AsyncIterator[bytes]:
    framing_bytes = 0
    error_message = "The server sent a chunk that cannot be read."
    while True:
        line = await reader.read_until((b"\n",), CHUNK_LINE_BYTES_MAX, error_message)
        framing_bytes += len(line) + 1
        digits = line.removesuffix(b"\r").partition(b";")[0].strip(b" \t")
        if not 0 < len(digits) <= 8 or digits.strip(b"0123456789abcdefABCDEF"):  # int() also accepts signs and 0x
            raise FetchFailed(error_message)
        left = int(digits, 16)
        if not left:
            return  # trailers are ignored: the connection is closed anyway
        while left:
            piece = await reader.read_some()
            if not piece:
                raise FetchFailed("The answer ended before it was whole.")
            reader.push_back(piece[left:])
            yield piece[:left]
            left -= min(left, len(piece))
        if await reader.read_until((b"\n",), 1, error_message) not in (b"", b"\r"):
            raise FetchFailed(error_message)
        if framing_bytes > CHUNK_FRAMING_BYTES_MAX:
            raise FetchFailed("The server sends more frames than content.")


class _Decompressor:
    """Decompresses gzip or deflate within a limit (protection against decompression bombs)."""

    def __init__(self, coding: str) -> None:
        self._may_be_raw = coding == "deflate"  # some servers send raw deflate, without the zlib header
        self._stream = zlib.decompressobj(47 if coding == "gzip" else 15)

    def decompress(self, data: bytes, bytes_max: int) -> bytes:
        if self._stream.eof:
            return b""
        try:
            out = self._stream.decompress(data, bytes_max + 1)
        except zlib.error:
            if not self._may_be_raw:
                raise FetchFailed("The answer cannot be unpacked.") from None
            self._may_be_raw, self._stream = False, zlib.decompressobj(-15)
            return self.decompress(data, bytes_max)
        self._may_be_raw = False
        if len(out) > bytes_max:
            raise ResponseTooLarge("Unpacked, the answer is larger than can be fetched.")
        return out

    def check_finished(self) -> None:
        if not self._stream.eof:
            raise FetchFailed("The answer ended before it was whole.")


def _create_decompressor(coding: str) -> _Decompressor | None:
    match coding:
        case "" | "identity":
            return None
        case "gzip" | "x-gzip":
            return _Decompressor("gzip")
        case "deflate":
            return _Decompressor("deflate")
    raise FetchFailed("The server packs its answer in a way that nobody asked for.")


def _build_too_large(bytes_max: int) -> ResponseTooLarge:
    return ResponseTooLarge(
        f"It is larger than {bytes_max // (1024 * 1024) or 1} MB, which is the most that is fetched."
    )
