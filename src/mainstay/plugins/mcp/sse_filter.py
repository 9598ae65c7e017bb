"""Filters HTTP responses of a remote MCP server (SSE streams and JSON bodies) before the SDK parses them.

A response is ended as soon as its caller stops waiting. Imports the SDK's HTTP library.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Iterator
from typing import TypeVar

import anyio
import httpx2

from mainstay.plugins.mcp.message_filter import MessageFilter, build_error_response
from mainstay.plugins.mcp.pending_requests import RequestId

EVENT_LINES_MAX = 10_000  # of one event
EVENT_ID_BYTES_MAX = 1000  # of an event id, which is sent back in a header
RETRY_MS_MAX = 10_000
SMALL_CHUNK_BYTES = 64  # a chunk up to this size without a message in it counts against the rate limit
CALLER_GONE = "the caller has stopped waiting"

T = TypeVar("T")


async def run_until(finished: asyncio.Future[None], work: Awaitable[T]) -> T | None:
    """Return the result of `work`; cancel it and return None as soon as `finished` is done."""
    with anyio.CancelScope() as scope:
        inside = True

        def stop(_: object) -> None:
            if inside:
                scope.cancel()

        finished.add_done_callback(stop)
        try:
            return await work
        finally:
            inside = False
            finished.remove_done_callback(stop)
    return None


def format_event(text: bytes) -> bytes:
    """Return a server-sent event that holds a message."""
    return b"event: message\ndata: " + text.replace(b"\n", b" ") + b"\n\n"


class SingleEventStream(httpx2.AsyncByteStream):
    """An event stream of one message, made here."""

    def __init__(self, message: bytes) -> None:
        self._message = message

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield format_event(self._message)


class FilteredEventStream(httpx2.AsyncByteStream):
    """An event stream without the messages that the filter drops. `request_id` is the request that it answers; None for
    the stream of server notifications."""

    def __init__(
        self,
        inner: httpx2.AsyncByteStream,
        message_filter: MessageFilter,
        finished: asyncio.Future[None],
        request_id: RequestId | None = None,
    ) -> None:
        self._inner = inner
        self._message_filter = message_filter
        self._finished = finished
        self._request_id = request_id
        self._partial_event = bytearray()  # an event whose end has not arrived
        self._partial_line_end = b""  # "\r" at the end of a chunk, which may be half of a line break

    async def __aiter__(self) -> AsyncIterator[bytes]:
        chunks = aiter(self._inner)
        while not self._message_filter.flood_guard.flooded:
            try:
                chunk = await run_until(self._finished, anext(chunks))
            except StopAsyncIteration:
                return
            if chunk is None:
                yield self._final_error(CALLER_GONE)
                return
            passed = b"".join(self._filter_chunk(chunk))
            if passed:
                yield passed
            elif len(chunk) <= SMALL_CHUNK_BYTES and not self._message_filter.flood_guard.try_admit():
                self._message_filter.flood_guard.count_dropped(0)
            if len(self._partial_event) > self._message_filter.limits.message_bytes_max:
                self._message_filter.flood_guard.count_dropped(len(self._partial_event))
                yield self._final_error("its answer is too long")
                return
            await asyncio.sleep(0)  # let other tasks run even if the next chunk is ready

    def _final_error(self, reason: str) -> bytes:
        """Return a final error response: the SDK would resume a stream that breaks off, but not an answered one."""
        if self._request_id is None:
            raise httpx2.StreamError(reason)
        return format_event(build_error_response(self._request_id, reason))

    def _filter_chunk(self, chunk: bytes) -> Iterator[bytes]:
        data = self._partial_line_end + chunk
        self._partial_line_end = b"\r" if data.endswith(b"\r") else b""
        data = data.removesuffix(b"\r").replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        search_from, start = max(len(self._partial_event) - 1, 0), 0
        self._partial_event += data
        while (end := self._partial_event.find(b"\n\n", search_from)) >= 0:
            event = bytes(self._partial_event[start:end]).strip(b"\n")
            start = search_from = end + 2
            if passed := self._filter_event(event):
                yield passed
        del self._partial_event[:start]

    def _filter_event(self, event: bytes) -> bytes:
        gate = self._message_filter.flood_guard
        event_type, fields, data = b"", b"", []
        if event.count(b"\n") >= EVENT_LINES_MAX:
            gate.count_dropped(len(event))
            return b""
        for line in event.split(b"\n"):
            field, _, value = line.partition(b":")
            value = value.removeprefix(b" ")
            if field == b"data":
                data.append(value)
            elif field == b"event":
                event_type = value
            elif field == b"id" and len(value) <= EVENT_ID_BYTES_MAX:
                fields += b"id: " + value + b"\n"
            elif field == b"retry" and value.isdigit() and len(value) < 20:
                fields += b"retry: %d\n" % min(int(value), RETRY_MS_MAX)
        text = b"\n".join(data)
        if text and event_type in (b"", b"message"):
            message = self._message_filter.filter_message(text, expected_id=self._request_id)
            return fields + format_event(message) if message is not None else b""
        gate.count_dropped_bytes(len(event))  # a comment that keeps the connection open, or an id to resume from
        if not gate.try_admit():
            gate.count_dropped(0)
            return b""
        return fields + b"data:\n\n" if fields and event_type in (b"", b"message") else b""

    async def aclose(self) -> None:
        await self._inner.aclose()


class BoundedBodyStream(httpx2.AsyncByteStream):
    """Any other response body: bounded, and filtered if it is a JSON message."""

    def __init__(
        self,
        inner: httpx2.AsyncByteStream,
        finished: asyncio.Future[None],
        bytes_max: int,
        reason: str,
        message_filter: MessageFilter | None = None,
    ) -> None:
        self._inner = inner
        self._bytes_left = bytes_max
        self._reason = reason
        self._finished = finished
        self._message_filter = message_filter

    async def __aiter__(self) -> AsyncIterator[bytes]:
        data = bytearray()
        chunks = aiter(self._inner)
        while True:
            try:
                chunk = await run_until(self._finished, anext(chunks))
            except StopAsyncIteration:
                break
            if chunk is None:
                raise httpx2.StreamError(CALLER_GONE)
            self._bytes_left -= len(chunk)
            if self._bytes_left < 0:
                raise httpx2.StreamError(self._reason)
            data += chunk
        yield self._message_filter.filter_body(bytes(data)) if self._message_filter is not None else bytes(data)

    async def aclose(self) -> None:
        await self._inner.aclose()
