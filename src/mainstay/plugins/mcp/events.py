"""The answers of a server elsewhere, looked through before the SDK sees them, and ended when nobody waits for them any
more. Imports the SDK's library for HTTP.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Iterator
from typing import TypeVar

import anyio
import httpx2

from mainstay.plugins.mcp.asked import Id
from mainstay.plugins.mcp.sieve import Sieve, refusal

LINES_MAX = 10_000  # of one event
ID_BYTES_MAX = 1000  # it is sent back in a header
RETRY_MS_MAX = 10_000
CRUMB_BYTES = 64  # a piece as small as that has a price, where no message comes of it
NOBODY = "nobody waits for this any more"

T = TypeVar("T")


async def until(over: asyncio.Future[None], work: Awaitable[T]) -> T | None:
    """None, and it is cancelled, as soon as that is over."""
    with anyio.CancelScope() as scope:
        inside = True

        def stop(_: object) -> None:
            if inside:
                scope.cancel()

        over.add_done_callback(stop)
        try:
            return await work
        finally:
            inside = False
            over.remove_done_callback(stop)
    return None


def said(text: bytes) -> bytes:
    """An event that holds a message."""
    return b"event: message\ndata: " + text.replace(b"\n", b" ") + b"\n\n"


class Said(httpx2.AsyncByteStream):
    """A stream of one event, which we make."""

    def __init__(self, text: bytes) -> None:
        self._text = text

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield said(self._text)


class Events(httpx2.AsyncByteStream):
    """A stream of events, and of those only messages. `to` is the request that it answers, if it is one's."""

    def __init__(
        self, inner: httpx2.AsyncByteStream, sieve: Sieve, over: asyncio.Future[None], to: Id | None = None
    ) -> None:
        self._inner = inner
        self._sieve = sieve
        self._over = over
        self._to = to
        self._held = bytearray()  # of an event whose end has not come
        self._half = b""  # of a line's end

    async def __aiter__(self) -> AsyncIterator[bytes]:
        parts = aiter(self._inner)
        while not self._sieve.gate.flooded:
            try:
                part = await until(self._over, anext(parts))
            except StopAsyncIteration:
                return
            if part is None:
                yield self._last(NOBODY)
                return
            passed = b"".join(self._taken(part))
            if passed:
                yield passed
            elif len(part) <= CRUMB_BYTES and not self._sieve.gate.admit():
                self._sieve.gate.drop(0)
            if len(self._held) > self._sieve.limits.message_bytes_max:
                self._sieve.gate.drop(len(self._held))
                yield self._last("its answer is too long")
                return
            await asyncio.sleep(0)  # it may have the next one ready, and others want their turn

    def _last(self, reason: str) -> bytes:
        """The SDK comes back for what breaks off; what is answered is at its end."""
        if self._to is None:
            raise httpx2.StreamError(reason)
        return said(refusal(self._to, reason))

    def _taken(self, part: bytes) -> Iterator[bytes]:
        data = self._half + part
        self._half = b"\r" if data.endswith(b"\r") else b""
        data = data.removesuffix(b"\r").replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        look, start = max(len(self._held) - 1, 0), 0
        self._held += data
        while (end := self._held.find(b"\n\n", look)) >= 0:
            event = bytes(self._held[start:end]).strip(b"\n")
            start = look = end + 2
            if passed := self._passed(event):
                yield passed
        del self._held[:start]

    def _passed(self, event: bytes) -> bytes:
        gate = self._sieve.gate
        kind, marks, data = b"", b"", []
        if event.count(b"\n") >= LINES_MAX:
            gate.drop(len(event))
            return b""
        for line in event.split(b"\n"):
            field, _, value = line.partition(b":")
            value = value.removeprefix(b" ")
            if field == b"data":
                data.append(value)
            elif field == b"event":
                kind = value
            elif field == b"id" and len(value) <= ID_BYTES_MAX:
                marks += b"id: " + value + b"\n"
            elif field == b"retry" and value.isdigit() and len(value) < 20:
                marks += b"retry: %d\n" % min(int(value), RETRY_MS_MAX)
        text = b"\n".join(data)
        if text and kind in (b"", b"message"):
            passed = self._sieve.message(text, to=self._to)
            return marks + said(passed) if passed is not None else b""
        gate.weigh(len(event))  # to keep the line open, or to come back to it
        if not gate.admit():
            gate.drop(0)
            return b""
        return marks + b"data:\n\n" if marks and kind in (b"", b"message") else b""

    async def aclose(self) -> None:
        await self._inner.aclose()


class Body(httpx2.AsyncByteStream):
    """Any other answer: bounded, and looked through if it is to be a message."""

    def __init__(
        self,
        inner: httpx2.AsyncByteStream,
        over: asyncio.Future[None],
        bytes_max: int,
        reason: str,
        sieve: Sieve | None = None,
    ) -> None:
        self._inner = inner
        self._left = bytes_max
        self._reason = reason
        self._over = over
        self._sieve = sieve

    async def __aiter__(self) -> AsyncIterator[bytes]:
        held = bytearray()
        parts = aiter(self._inner)
        while True:
            try:
                part = await until(self._over, anext(parts))
            except StopAsyncIteration:
                break
            if part is None:
                raise httpx2.StreamError(NOBODY)
            self._left -= len(part)
            if self._left < 0:
                raise httpx2.StreamError(self._reason)
            held += part
        yield self._sieve.body(bytes(held)) if self._sieve is not None else bytes(held)

    async def aclose(self) -> None:
        await self._inner.aclose()
