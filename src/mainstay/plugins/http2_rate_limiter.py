"""Rate-limiting relay in front of a gRPC server: bounds the HTTP/2 frames that a plugin may send.

The gRPC library answers every PING and SETTINGS frame at once, whatever limits it is configured with: a program that
sends nothing else would cost a whole CPU and unbounded memory. The relay delays such a client instead.
"""

from __future__ import annotations

import asyncio
import time

from mainstay.plugins.socket_server import BoundedSocketServer

CHUNK_BYTES = 16 * 1024
UNITS_PER_S, BURST_UNITS = 3000.0, 6000.0  # a call costs about ten units
BYTES_PER_UNIT = 4096
HEADERS_FRAME_UNITS = 5  # for a HEADERS frame, which begins a call
_PREFACE_BYTES = 24  # bytes before the first frame
_FRAME_HEADER_BYTES = 9  # bytes: the first three are the payload's length, the fourth is the frame type
_HEADERS_FRAME_TYPE = 1  # the type of a HEADERS frame


class Http2RateLimiter(BoundedSocketServer):
    """Relays one program's connections, which share one token bucket."""

    def __init__(self, connections_max: int) -> None:
        super().__init__(connections_max, read_limit_bytes=CHUNK_BYTES, backlog=connections_max)
        self._server_path = ""
        self._tokens = BURST_UNITS
        self._refilled_at = time.monotonic()

    async def serve(self, socket_path: str, server_path: str) -> None:
        self._server_path = server_path
        await self.listen(socket_path)

    async def _handle_connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        to_server: asyncio.StreamWriter | None = None
        try:
            from_server, to_server = await asyncio.open_unix_connection(self._server_path, limit=CHUNK_BYTES)
            copying = {
                asyncio.create_task(self._forward_requests(reader, to_server, writer)),
                asyncio.create_task(_forward_responses(from_server, writer)),
            }
            try:
                await asyncio.wait(copying, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for task in copying:
                    task.cancel()
                await asyncio.wait(copying)
        except OSError:  # the server is closed
            pass
        finally:
            for side in (writer, to_server):
                if side is not None:
                    side.transport.abort()

    async def _forward_requests(
        self, reader: asyncio.StreamReader, to_server: asyncio.StreamWriter, to_client: asyncio.StreamWriter
    ) -> None:
        frames = Http2FrameCounter()
        try:
            while data := await reader.read(CHUNK_BYTES):
                await self._throttle(frames.count_units(data))
                await to_client.drain()  # a client that does not read its answers sends no further requests
                to_server.write(data)
                await to_server.drain()
        except OSError:  # one side has closed
            pass

    async def _throttle(self, units: float) -> None:
        now = time.monotonic()
        self._tokens = min(BURST_UNITS, self._tokens + (now - self._refilled_at) * UNITS_PER_S) - units
        self._refilled_at = now
        if self._tokens < 0:
            await asyncio.sleep(-self._tokens / UNITS_PER_S)


async def _forward_responses(from_server: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await from_server.read(CHUNK_BYTES):
            writer.write(data)
            await writer.drain()
    except OSError:
        pass


class Http2FrameCounter:
    """Counts the cost of one connection's frames. Data that is not HTTP/2 gets some cost too; the server refuses it."""

    def __init__(self) -> None:
        self._payload_bytes_left = _PREFACE_BYTES  # bytes left of the current payload, or of the preface
        self._partial_header = b""

    def count_units(self, data: bytes) -> float:
        """Return the cost of the next bytes."""
        cost, at = len(data) / BYTES_PER_UNIT, 0
        while at < len(data):
            if self._payload_bytes_left:
                skipped = min(self._payload_bytes_left, len(data) - at)
                self._payload_bytes_left -= skipped
                at += skipped
                continue
            part = data[at : at + _FRAME_HEADER_BYTES - len(self._partial_header)]
            self._partial_header += part
            at += len(part)
            if len(self._partial_header) == _FRAME_HEADER_BYTES:
                self._payload_bytes_left = int.from_bytes(self._partial_header[:3])
                cost += HEADERS_FRAME_UNITS if self._partial_header[3] == _HEADERS_FRAME_TYPE else 1
                self._partial_header = b""
        return cost
