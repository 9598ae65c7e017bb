"""HTTP/1.1 client connection, as far as model APIs need it: one request at a time, with keep-alive."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import cast

from mainstay.core.http_response_parser import ConnectionBroken, HttpResponseParser, ResponseHead


class ConnectionClosed(ConnectionBroken):
    """The server closed the connection without an error, which may be the regular end of a body."""


class HttpConnection(HttpResponseParser, asyncio.Protocol):
    """One connection. A read returns everything that has arrived; `is_complete` means that the response has ended.

    It is the parser of what it receives, because a stream has many reads and each would pay for a second object.
    """

    framing_bytes_max = 16 * 1024 * 1024  # a long answer has a chunk for each word

    def __init__(self) -> None:
        super().__init__()
        self.transport: asyncio.Transport = cast(asyncio.Transport, None)
        self.on_complete: Callable[[HttpConnection], None] | None = None
        self._received: list[bytes] = []
        self._lost_error: BaseException | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._failure: BaseException | None = None

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
        self.start_response()
        self._failure = None
        self.transport.write(request)

    async def read_head(self) -> ResponseHead:
        """Return the status and the headers. Body bytes that came with them are left for `read`."""
        while (parsed := self.feed_head(await self._receive())) is None:
            pass
        head, rest = parsed
        if rest:
            self._received.insert(0, rest)
        return head

    async def read(self) -> bytes:
        """Return the next bytes of the body, all that have arrived; empty at its end. Raises if the body was cut."""
        while not self.is_complete:
            try:
                data = self.feed_body(await self._receive())
            except ConnectionClosed:
                if self.ends_with_connection:
                    self.is_complete = True
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

    def _discard_rest(self) -> None:
        """Discard the rest of a response that is not read any more; call `on_complete` at its end."""
        assert self.on_complete is not None
        raw, self._received = b"".join(self._received), []
        try:
            self.feed_body(raw)
        except ConnectionBroken:
            self.close()
        if self.is_complete:
            on_over, self.on_complete = self.on_complete, None
            on_over(self)
