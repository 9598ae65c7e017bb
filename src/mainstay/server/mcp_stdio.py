"""MCP over stdin and stdout: one JSON-RPC message per line, of bounded length, and nothing else on stdout.

Reads and writes run in threads that can be abandoned, so that a silent or full pipe does not block shutdown.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import anyio
import msgspec
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import SessionMessage
from mcp_types import (
    INVALID_REQUEST,
    PARSE_ERROR,
    ErrorData,
    JSONRPCError,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
    jsonrpc_message_adapter,
)
from pydantic import ValidationError

from mainstay.core.worker_threads import run_in_thread
from mainstay.server.line_splitter import LINE_BYTES_MAX, LineSplitter
from mainstay.server.mcp_server import McpServer

CHUNK_BYTES = 64 * 1024
LINGER_S = 1.0  # for requests that came just before the host closed its end
FLUSH_S = 2.0  # for the last responses to be written


async def serve_mcp_stdio(mcp_server: McpServer, stop: asyncio.Event) -> None:
    """Serve until the host closes stdin or `stop` is set."""
    with _claim_standard_streams() as (source, sink):
        incoming_send, incoming = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        outgoing_send, outgoing = anyio.create_memory_object_stream[SessionMessage](0)
        transport = _StdioTransport(mcp_server, stop, incoming_send, outgoing_send.clone())
        reading = asyncio.create_task(transport.read(source))
        writing = asyncio.create_task(transport.write(sink, outgoing))
        try:
            await mcp_server.server.run(incoming, outgoing_send, mcp_server.server.create_initialization_options())
            await asyncio.wait((writing,), timeout=FLUSH_S)
        finally:
            for task in (reading, writing):
                task.cancel()
            await asyncio.gather(reading, writing, return_exceptions=True)
            for stream in (incoming_send, incoming, outgoing_send, outgoing):
                stream.close()


@contextmanager
def _claim_standard_streams() -> Iterator[tuple[int, int]]:
    """Yield descriptors of stdin and stdout, and redirect both meanwhile: prints go to stderr, reads get nothing."""
    sys.stdout.flush()
    source, sink = (fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 3) for fd in (0, 1))
    nothing = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    os.dup2(nothing, 0)
    os.dup2(2, 1)
    os.close(nothing)
    try:
        yield source, sink
    finally:
        sys.stdout.flush()
        os.dup2(source, 0)
        os.dup2(sink, 1)
        # `source` and `sink` stay open: a thread may still be blocked on one of them


class _StdioTransport:
    """Converts between bytes of the host and messages of the server."""

    def __init__(
        self,
        mcp_server: McpServer,
        stop: asyncio.Event,
        incoming: MemoryObjectSendStream[SessionMessage | Exception],
        errors: MemoryObjectSendStream[SessionMessage],
    ) -> None:
        self._mcp_server = mcp_server
        self._stop = stop
        self._incoming = incoming
        self._errors = errors
        self._open_requests: set[str | int] = set()  # ids of requests without a response

    async def read(self, fd: int) -> None:
        lines = LineSplitter()
        stopped = asyncio.create_task(self._stop.wait())
        try:
            while data := await _read_chunk(fd, stopped):
                for line in lines.feed(data):
                    await self._deliver(line)
            if not stopped.done():
                for line in lines.finish():
                    await self._deliver(line)
                await self._wait_for_responses(stopped)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            pass  # the server has ended
        finally:
            self._mcp_server.turns.stopping = True
            stopped.cancel()
            self._errors.close()
            self._incoming.close()

    async def write(self, fd: int, outgoing: MemoryObjectReceiveStream[SessionMessage]) -> None:
        async for item in outgoing:
            line = item.message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n"
            try:
                await run_in_thread(partial(_write_all, fd, line))
            except OSError:  # the host closed its end
                self._stop.set()
            if isinstance(item.message, JSONRPCResponse | JSONRPCError) and item.message.id is not None:
                self._open_requests.discard(item.message.id)

    async def _deliver(self, line: bytes | None) -> None:
        if line is None:
            await self._send_error(INVALID_REQUEST, f"the message is larger than {LINE_BYTES_MAX // 2**20} MB")
            return
        if not line.strip():
            return
        try:
            message = jsonrpc_message_adapter.validate_json(line, by_name=False)
        except ValidationError:
            await self._send_error(*_describe_invalid(line))
            return
        if isinstance(message, JSONRPCRequest):
            self._open_requests.add(message.id)
        elif isinstance(message, JSONRPCNotification) and _has_id(line):  # its id has the wrong type
            await self._send_error(*_describe_invalid(line))
            return
        await self._incoming.send(SessionMessage(message))

    async def _send_error(self, code: int, message: str, id: str | int | None = None) -> None:
        error = JSONRPCError(jsonrpc="2.0", id=id, error=ErrorData(code=code, message=message))
        await self._errors.send(SessionMessage(error))

    async def _wait_for_responses(self, stopped: asyncio.Task[bool]) -> None:
        """Wait briefly for the last responses, for hosts that pipe requests in. Longer turns are not awaited."""
        until = asyncio.get_running_loop().time() + LINGER_S
        while self._open_requests and not stopped.done() and asyncio.get_running_loop().time() < until:
            await asyncio.wait((stopped,), timeout=0.02)


async def _read_chunk(fd: int, stopped: asyncio.Task[bool]) -> bytes:
    """Read a chunk; b"" at the end of the stream, and when stopped."""
    reading = run_in_thread(partial(os.read, fd, CHUNK_BYTES))
    await asyncio.wait((reading, stopped), return_when=asyncio.FIRST_COMPLETED)
    if stopped.done():
        reading.cancel()
        return b""
    try:
        return bytes(reading.result())
    except OSError:  # the terminal is gone
        return b""


def _write_all(fd: int, data: bytes) -> None:
    while data:
        data = data[os.write(fd, data) :]


def _describe_invalid(line: bytes) -> tuple[int, str, str | int | None]:
    """Return error code, message and request id (if there is one) for a line that is no JSON-RPC message."""
    try:
        data = msgspec.json.decode(line)
    except (msgspec.DecodeError, RecursionError):
        return PARSE_ERROR, "this is not JSON", None
    id = data.get("id") if isinstance(data, dict) else None
    valid_id = id if isinstance(id, str | int) and not isinstance(id, bool) else None
    return INVALID_REQUEST, "this is not a JSON-RPC 2.0 message", valid_id


def _has_id(line: bytes) -> bool:
    data = msgspec.json.decode(line)
    return isinstance(data, dict) and "id" in data
