"""HTTP/1.1 as far as asking a model needs it: one request at a time on a connection that is kept.

Written by hand because it was measured: a general client spends more on a short streamed answer than reading
and decoding it costs. What a model API needs is little: a POST with a body, a status, headers, and a body that
is chunked, of a known length, or ends with the connection.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import lru_cache
from typing import cast

HEAD_BYTES_MAX = 64 * 1024


class Broken(Exception):
    """The other side went away, or does not speak HTTP."""


class _Closed(Broken):
    """In good order, as far as the connection goes."""


class Head:
    """A response's status and headers, names in lower case."""

    __slots__ = ("headers", "keeps", "status")

    def __init__(self, raw: bytes) -> None:
        lines = raw.split(b"\r\n") if b"\r\n" in raw else raw.split(b"\n")
        version, _, rest = lines[0].partition(b" ")
        if not version.startswith(b"HTTP/1.") or not rest[:3].isdigit():
            raise Broken("the server does not speak HTTP")
        self.status = int(rest[:3])
        self.headers: dict[str, str] = {}
        for line in lines[1:]:
            name, _, value = line.decode("latin-1").partition(":")
            self.headers[name.strip().lower()] = value.strip()
        connection = self.headers.get("connection", "").lower()
        self.keeps = connection != "close" and (version != b"HTTP/1.0" or connection == "keep-alive")


class Connection(asyncio.Protocol):
    """Bytes in, bytes out. Whoever reads takes all that has arrived; `over` says that the response is whole."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport = cast(asyncio.Transport, None)
        self.used = False  # it has answered before, so the server may be about to close it
        self.over = True
        self.keeps = True
        self.on_over: Callable[[Connection], None] | None = None
        self._raw: list[bytes] = []
        self._lost: BaseException | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._failure: BaseException | None = None
        self._chunked = False
        self._left: int | None = None  # bytes of a body of known length; None: until the connection ends
        self._rest = b""  # of a chunk's frame that is not complete
        self._chunk_left = 0
        self._after_chunk = False  # the line end that closes a chunk is next
        self._after_last = False  # the last chunk was seen

    # --- asyncio's side --------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self._raw.append(data)
        self._wake()

    def eof_received(self) -> None:
        self.connection_lost(None)

    def connection_lost(self, error: BaseException | None) -> None:
        if self._lost is None:
            self._lost = error or _Closed("the connection was closed")
        self._wake()

    @property
    def has_more(self) -> bool:
        """Something has arrived that was not read yet."""
        return bool(self._raw) or self._lost is not None

    @property
    def alive(self) -> bool:
        return self._lost is None and not self._raw and not self.transport.is_closing()

    def close(self) -> None:
        self.transport.abort()

    def fail(self, error: BaseException) -> None:
        """Whoever reads gets this instead."""
        self._failure = error
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None:
            if not self._waiter.done():
                self._waiter.set_result(None)
        else:
            self.look()

    def look(self) -> None:
        """Nobody reads any more: see whether what has arrived is the end."""
        if self.on_over is not None and self._raw:
            self._finish_quietly()

    # --- a request and its response --------------------------------------------------------------

    def send(self, request: bytes) -> None:
        self.over = False
        self._rest = b""
        self._chunk_left = 0
        self._after_chunk = self._after_last = False
        self._failure = None
        self.transport.write(request)

    async def head(self) -> Head:
        """The status line and headers; what came after them waits for `read`."""
        raw = await self._arrived()
        while True:
            end, skip = raw.find(b"\r\n\r\n"), 4
            if end < 0:
                end, skip = raw.find(b"\n\n"), 2
            if end >= 0:
                head, raw = Head(raw[:end]), raw[end + skip :]
                if head.status >= 200:  # what comes before is only a sign of life
                    break
                continue
            if len(raw) > HEAD_BYTES_MAX or not raw.startswith(b"HTTP/1."[: len(raw)]):
                raise Broken("the server does not speak HTTP")
            raw += await self._arrived()
        self._begin_body(head, raw)
        return head

    def _begin_body(self, head: Head, rest: bytes) -> None:
        self.keeps = head.keeps
        self._chunked = "chunked" in head.headers.get("transfer-encoding", "").lower()
        length = head.headers.get("content-length", "")
        self._left = int(length) if length.isdigit() and not self._chunked else None
        self.over = self._left == 0 or head.status in (204, 304)
        if self._left is None and not self._chunked:
            self.keeps = False
        if rest:
            self._raw.insert(0, rest)

    async def read(self) -> bytes:
        """More of the body, all that has arrived; empty at its end. Raises if it was cut."""
        while not self.over:
            try:
                data = self._decode(await self._arrived())
            except _Closed:
                if self._left is None and not self._chunked:
                    self.over = True  # this body ends with its connection
                    break
                raise
            if data:
                return data
        return b""

    async def _arrived(self) -> bytes:
        while not self._raw:
            if self._failure is not None:
                raise self._failure
            if isinstance(self._lost, Broken):
                raise self._lost
            if self._lost is not None:
                raise Broken(str(self._lost) or type(self._lost).__name__) from None
            self._waiter = asyncio.get_running_loop().create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
        if self._failure is not None:
            raise self._failure
        raw, self._raw = self._raw, []
        return raw[0] if len(raw) == 1 else b"".join(raw)

    # --- bodies ----------------------------------------------------------------------------------

    def _decode(self, raw: bytes) -> bytes:
        if self._chunked:
            return self._unchunk(raw)
        if self._left is not None:
            raw = raw[: self._left]
            self._left -= len(raw)
            self.over = self._left == 0
        return raw

    def _unchunk(self, raw: bytes) -> bytes:
        """What these bytes hold of chunks, whole or not, without their frames."""
        if self._rest:
            raw, self._rest = self._rest + raw, b""
        pieces: list[bytes] = []
        position, end = 0, len(raw)
        while not self.over:
            if self._chunk_left:
                piece = raw[position : position + self._chunk_left]
                pieces.append(piece)
                position += len(piece)
                self._chunk_left -= len(piece)
                self._after_chunk = not self._chunk_left
                if self._chunk_left:
                    break
            line = raw.find(b"\r\n", position)
            if line < 0:
                break
            if self._after_chunk or self._after_last:
                self._end_of_frame(raw[position:line])
                position = line + 2
                continue
            size = _chunk_size(raw[position:line])
            position = line + 2
            stop = position + size
            if size and stop + 2 <= end and raw[stop : stop + 2] == b"\r\n":  # whole, as nearly all are
                pieces.append(raw[position:stop])
                position = stop + 2
            elif size:
                self._chunk_left = size
            else:
                self._after_last = True
        self._rest = raw[position:] if not self.over else b""
        if len(self._rest) > HEAD_BYTES_MAX:
            raise Broken("a chunk of the answer has no size")
        return b"".join(pieces)

    def _end_of_frame(self, line: bytes) -> None:
        """The empty line after a chunk, or after the last one and whatever trails it."""
        if self._after_last:
            self.over = not line
        elif line:
            raise Broken("a chunk of the answer has no end")
        self._after_chunk = False

    def _finish_quietly(self) -> None:
        """The answer is known, its transfer not over: let the rest come while nobody waits."""
        assert self.on_over is not None
        raw, self._raw = b"".join(self._raw), []
        try:
            self._decode(raw)
        except Broken:
            self.close()
        if self.over:
            on_over, self.on_over = self.on_over, None
            on_over(self)


@lru_cache(maxsize=1024)  # a stream's chunks are of a few sizes, and there are many
def _chunk_size(line: bytes) -> int:
    digits = line.partition(b";")[0].strip()
    if not 0 < len(digits) <= 8 or digits.strip(b"0123456789abcdefABCDEF"):  # int() would take signs and 0x too
        raise Broken("a chunk of the answer has no size")
    return int(digits, 16)
