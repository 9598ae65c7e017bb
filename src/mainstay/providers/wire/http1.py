"""HTTP/1.1 client connection, as far as model APIs need it: one request at a time, with keep-alive.

Written by hand because it was measured: a general client spends more on a short streamed response than reading and
decoding it costs. A model API needs little: a POST with a body, a status, headers, and a body that is chunked, of a
known length, or ends with the connection.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import lru_cache
from typing import cast

HEAD_BYTES_MAX = 64 * 1024


class ConnectionBroken(Exception):
    """The server closed the connection, or does not speak HTTP."""


class ConnectionClosed(ConnectionBroken):
    """The server closed the connection without an error, which may be the regular end of a body."""


class ResponseHead:
    """Status and headers of a response. Header names are in lower case."""

    __slots__ = ("headers", "keep_alive", "status")

    def __init__(self, raw: bytes) -> None:
        lines = raw.split(b"\r\n") if b"\r\n" in raw else raw.split(b"\n")
        version, _, rest = lines[0].partition(b" ")
        if not version.startswith(b"HTTP/1.") or not rest[:3].isdigit():
            raise ConnectionBroken("the server does not speak HTTP")
        self.status = int(rest[:3])
        self.headers: dict[str, str] = {}
        for line in lines[1:]:
            name, _, value = line.decode("latin-1").partition(":")
            self.headers[name.strip().lower()] = value.strip()
        connection = self.headers.get("connection", "").lower()
        self.keep_alive = connection != "close" and (version != b"HTTP/1.0" or connection == "keep-alive")


class HttpConnection(asyncio.Protocol):
    """One connection. A read returns everything that has arrived; `is_complete` means that the response has ended."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport = cast(asyncio.Transport, None)
        self.is_complete = True
        self.keep_alive = True
        self.on_complete: Callable[[HttpConnection], None] | None = None
        self._received: list[bytes] = []
        self._lost_error: BaseException | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._failure: BaseException | None = None
        self._chunked = False
        self._body_left: int | None = None  # bytes left of a body; None: chunked, or until the connection ends
        self._partial_frame = b""  # an incomplete chunk header or trailer
        self._chunk_left = 0
        self._expects_chunk_end = False  # the line end after a chunk is next
        self._saw_last_chunk = False  # the last chunk was seen

    # --- asyncio.Protocol ------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self._received.append(data)
        self._wake_reader()

    def eof_received(self) -> None:
        self.connection_lost(None)

    def connection_lost(self, error: BaseException | None) -> None:
        if self._lost_error is None:
            self._lost_error = error or ConnectionClosed("the connection was closed")
        self._wake_reader()

    @property
    def has_unread(self) -> bool:
        """Data or the end of the connection has arrived and was not read yet."""
        return bool(self._received) or self._lost_error is not None

    @property
    def is_alive(self) -> bool:
        return self._lost_error is None and not self._received and not self.transport.is_closing()

    def close(self) -> None:
        self.transport.abort()

    def fail(self, error: BaseException) -> None:
        """Raise this error in the current and in later reads."""
        self._failure = error
        self._wake_reader()

    def _wake_reader(self) -> None:
        if self._waiter is not None:
            if not self._waiter.done():
                self._waiter.set_result(None)
        else:
            self.check_complete()

    def check_complete(self) -> None:
        """After the last read: check whether the received data completes the response, then call `on_complete`."""
        if self.on_complete is not None and self._received:
            self._discard_rest()

    # --- a request and its response --------------------------------------------------------------

    def send(self, request: bytes) -> None:
        self.is_complete = False
        self._partial_frame = b""
        self._chunk_left = 0
        self._expects_chunk_end = self._saw_last_chunk = False
        self._failure = None
        self.transport.write(request)

    async def read_head(self) -> ResponseHead:
        """Return the status and the headers. Body bytes that came with them are left for `read`."""
        raw = await self._receive()
        while True:
            end, skip = raw.find(b"\r\n\r\n"), 4
            if end < 0:
                end, skip = raw.find(b"\n\n"), 2
            if end >= 0:
                head, raw = ResponseHead(raw[:end]), raw[end + skip :]
                if head.status >= 200:  # skip informational responses (1xx)
                    break
                continue
            if len(raw) > HEAD_BYTES_MAX or not raw.startswith(b"HTTP/1."[: len(raw)]):
                raise ConnectionBroken("the server does not speak HTTP")
            raw += await self._receive()
        self._begin_body(head, raw)
        return head

    def _begin_body(self, head: ResponseHead, rest: bytes) -> None:
        self.keep_alive = head.keep_alive
        self._chunked = "chunked" in head.headers.get("transfer-encoding", "").lower()
        length = head.headers.get("content-length", "")
        self._body_left = int(length) if length.isdigit() and not self._chunked else None
        self.is_complete = self._body_left == 0 or head.status in (204, 304)
        if self._body_left is None and not self._chunked:
            self.keep_alive = False
        if rest:
            self._received.insert(0, rest)

    async def read(self) -> bytes:
        """Return the next bytes of the body, all that have arrived; empty at its end. Raises if the body was cut."""
        while not self.is_complete:
            try:
                data = self._decode_body(await self._receive())
            except ConnectionClosed:
                if self._body_left is None and not self._chunked:
                    self.is_complete = True  # the end of the connection ends this body
                    break
                raise
            if data:
                return data
        return b""

    async def _receive(self) -> bytes:
        while not self._received:
            if self._failure is not None:
                raise self._failure
            if isinstance(self._lost_error, ConnectionBroken):
                raise self._lost_error
            if self._lost_error is not None:
                raise ConnectionBroken(str(self._lost_error) or type(self._lost_error).__name__) from None
            self._waiter = asyncio.get_running_loop().create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
        if self._failure is not None:
            raise self._failure
        raw, self._received = self._received, []
        return raw[0] if len(raw) == 1 else b"".join(raw)

    # --- bodies ----------------------------------------------------------------------------------

    def _decode_body(self, raw: bytes) -> bytes:
        if self._chunked:
            return self._decode_chunks(raw)
        if self._body_left is not None:
            raw = raw[: self._body_left]
            self._body_left -= len(raw)
            self.is_complete = self._body_left == 0
        return raw

    def _decode_chunks(self, raw: bytes) -> bytes:
        """Return the chunk data in these bytes, of whole and partial chunks, without the framing."""
        if self._partial_frame:
            raw, self._partial_frame = self._partial_frame + raw, b""
        chunks: list[bytes] = []
        position, end = 0, len(raw)
        while not self.is_complete:
            if self._chunk_left:
                chunk = raw[position : position + self._chunk_left]
                chunks.append(chunk)
                position += len(chunk)
                self._chunk_left -= len(chunk)
                self._expects_chunk_end = not self._chunk_left
                if self._chunk_left:
                    break
            line = raw.find(b"\r\n", position)
            if line < 0:
                break
            if self._expects_chunk_end or self._saw_last_chunk:
                self._handle_frame_end(raw[position:line])
                position = line + 2
                continue
            size = _parse_chunk_size(raw[position:line])
            position = line + 2
            stop = position + size
            if size and stop + 2 <= end and raw[stop : stop + 2] == b"\r\n":  # a whole chunk, as nearly always
                chunks.append(raw[position:stop])
                position = stop + 2
            elif size:
                self._chunk_left = size
            else:
                self._saw_last_chunk = True
        self._partial_frame = raw[position:] if not self.is_complete else b""
        if len(self._partial_frame) > HEAD_BYTES_MAX:
            raise ConnectionBroken("a chunk of the response has an invalid size")
        return b"".join(chunks)

    def _handle_frame_end(self, line: bytes) -> None:
        """Handle the line end after a chunk, or a trailer line after the last chunk."""
        if self._saw_last_chunk:
            self.is_complete = not line
        elif line:
            raise ConnectionBroken("a chunk of the response is not terminated")
        self._expects_chunk_end = False

    def _discard_rest(self) -> None:
        """Discard the rest of a response that is not read any more; call `on_complete` at its end."""
        assert self.on_complete is not None
        raw, self._received = b"".join(self._received), []
        try:
            self._decode_body(raw)
        except ConnectionBroken:
            self.close()
        if self.is_complete:
            on_over, self.on_complete = self.on_complete, None
            on_over(self)


@lru_cache(maxsize=1024)  # a stream has many chunks of few different sizes
def _parse_chunk_size(line: bytes) -> int:
    digits = line.partition(b";")[0].strip()
    if not 0 < len(digits) <= 8 or digits.strip(b"0123456789abcdefABCDEF"):  # int() accepts signs and 0x too
        raise ConnectionBroken("a chunk of the response has an invalid size")
    return int(digits, 16)
