"""Reads one HTTP/1.1 response, decompressed and with size limits, from a connection that is then closed."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import AsyncIterator

from mainstay.core.errors import MainstayError
from mainstay.core.http_response_parser import ConnectionBroken, HttpResponseParser, ResponseHead

READ_BYTES = 64 * 1024


class FetchFailed(MainstayError):
    """The fetch failed; the message says why."""


class ResponseTooLarge(FetchFailed):
    pass


class HostUnreachable(FetchFailed):
    """The host could not be connected to: certainly nothing was sent."""


class HttpResponseReader:
    """Reads a response from a stream: `read_head`, then `read_body`. Raises ConnectionBroken if it is no proper one."""

    __slots__ = ("_parser", "_reader", "_unparsed")

    def __init__(self, reader: asyncio.StreamReader) -> None:
        self._reader = reader
        self._parser = HttpResponseParser()
        self._parser.start_response()
        self._unparsed = b""  # bytes of the body that came with the head

    async def read_head(self) -> ResponseHead:
        while raw := await self._reader.read(READ_BYTES):
            if parsed := self._parser.feed_head(raw):
                head, self._unparsed = parsed
                return head
        raise ConnectionBroken("the server sent no HTTP response")

    async def read_body(self, head: ResponseHead, bytes_max: int) -> bytes:
        """Read the body, decompressed. Neither form may exceed `bytes_max`. Raises FetchFailed, too."""
        if self._parser.is_complete:
            return b""
        decompressor = _create_decompressor(head.headers.get("content-encoding", "").lower().strip())
        if self._parser.bytes_left is not None and self._parser.bytes_left > bytes_max:
            raise _build_too_large(bytes_max)  # before any of it is read
        body = bytearray()
        received = 0
        async for piece in self._iter_body():
            received += len(piece)
            if received > bytes_max:
                raise _build_too_large(bytes_max)
            body += decompressor.decompress(piece, bytes_max - len(body)) if decompressor is not None else piece
        if decompressor is not None:
            decompressor.check_finished()
        return bytes(body)

    async def _iter_body(self) -> AsyncIterator[bytes]:
        raw, parser = self._unparsed, self._parser
        if raw:
            yield parser.feed_body(raw)
        while not parser.is_complete:
            if raw := await self._reader.read(READ_BYTES):
                yield parser.feed_body(raw)
            elif parser.ends_with_connection:
                return
            else:
                raise ConnectionBroken("the answer is incomplete")


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
                raise FetchFailed("The answer cannot be decompressed.") from None
            self._may_be_raw, self._stream = False, zlib.decompressobj(-15)
            return self.decompress(data, bytes_max)
        self._may_be_raw = False
        if len(out) > bytes_max:
            raise ResponseTooLarge("The decompressed answer is larger than the limit.")
        return out

    def check_finished(self) -> None:
        if not self._stream.eof:
            raise FetchFailed("The answer is incomplete.")


def _create_decompressor(coding: str) -> _Decompressor | None:
    match coding:
        case "" | "identity":
            return None
        case "gzip" | "x-gzip":
            return _Decompressor("gzip")
        case "deflate":
            return _Decompressor("deflate")
    raise FetchFailed("The server uses an unsupported content encoding.")


def _build_too_large(bytes_max: int) -> ResponseTooLarge:
    return ResponseTooLarge(
        f"It is larger than {bytes_max // (1024 * 1024) or 1} MB, which is the most that is fetched."
    )
