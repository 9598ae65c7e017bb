"""MCP over a process's standard streams: one message a line, each bounded, and nothing else on stdout.

Reading and writing happen in threads that nobody waits for: a pipe that is full, or says nothing, holds nobody up.
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

from mainstay.core.workers import in_thread
from mainstay.server.lines import LINE_BYTES_MAX, Lines
from mainstay.server.mcp import McpServer

CHUNK_BYTES = 64 * 1024
LINGER_S = 1.0  # for what was asked just before the host hung up
FLUSH_S = 2.0


async def serve_stdio(offered: McpServer, stop: asyncio.Event) -> None:
    """Until the host hangs up, or `stop` is set."""
    with _taken() as (source, sink):
        arriving, inbound = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        outbound, leaving = anyio.create_memory_object_stream[SessionMessage](0)
        wire = _Wire(offered, stop, arriving, outbound.clone())
        reading = asyncio.create_task(wire.read(source))
        writing = asyncio.create_task(wire.write(sink, leaving))
        try:
            await offered.server.run(inbound, outbound, offered.server.create_initialization_options())
            await asyncio.wait((writing,), timeout=FLUSH_S)
        finally:
            for task in (reading, writing):
                task.cancel()
            await asyncio.gather(reading, writing, return_exceptions=True)
            for stream in (arriving, inbound, outbound, leaving):
                stream.close()


@contextmanager
def _taken() -> Iterator[tuple[int, int]]:
    """The host's streams, off their usual numbers: whatever prints reaches stderr, whatever reads finds nothing."""
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
        # the two others stay open: a thread may still be waiting at one of them


class _Wire:
    """Between the host's bytes and the server's messages."""

    def __init__(
        self,
        offered: McpServer,
        stop: asyncio.Event,
        arriving: MemoryObjectSendStream[SessionMessage | Exception],
        refusals: MemoryObjectSendStream[SessionMessage],
    ) -> None:
        self._offered = offered
        self._stop = stop
        self._arriving = arriving
        self._refusals = refusals
        self._asked: set[str | int] = set()  # requests that have no answer yet

    async def read(self, fd: int) -> None:
        lines = Lines()
        stopped = asyncio.create_task(self._stop.wait())
        try:
            while data := await _chunk(fd, stopped):
                for line in lines.feed(data):
                    await self._deliver(line)
            if not stopped.done():
                for line in lines.end():
                    await self._deliver(line)
                await self._linger(stopped)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            pass  # it is served no more
        finally:
            self._offered.turns.ending = True
            stopped.cancel()
            self._refusals.close()
            self._arriving.close()

    async def write(self, fd: int, leaving: MemoryObjectReceiveStream[SessionMessage]) -> None:
        async for one in leaving:
            line = one.message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n"
            try:
                await in_thread(partial(_write_all, fd, line))
            except OSError:  # nobody reads any more
                self._stop.set()
            if isinstance(one.message, JSONRPCResponse | JSONRPCError) and one.message.id is not None:
                self._asked.discard(one.message.id)

    async def _deliver(self, line: bytes | None) -> None:
        if line is None:
            await self._refuse(INVALID_REQUEST, f"a message has at most {LINE_BYTES_MAX // 2**20} MB")
            return
        if not line.strip():
            return
        try:
            message = jsonrpc_message_adapter.validate_json(line, by_name=False)
        except ValidationError:
            await self._refuse(*_wrong(line))
            return
        if isinstance(message, JSONRPCRequest):
            self._asked.add(message.id)
        elif isinstance(message, JSONRPCNotification) and _has_id(line):  # one that cannot be an id
            await self._refuse(*_wrong(line))
            return
        await self._arriving.send(SessionMessage(message))

    async def _refuse(self, code: int, why: str, id: str | int | None = None) -> None:
        error = JSONRPCError(jsonrpc="2.0", id=id, error=ErrorData(code=code, message=why))
        await self._refusals.send(SessionMessage(error))

    async def _linger(self, stopped: asyncio.Task[bool]) -> None:
        """Whoever pipes requests in hears the quick answers; a turn that takes longer is not waited for."""
        until = asyncio.get_running_loop().time() + LINGER_S
        while self._asked and not stopped.done() and asyncio.get_running_loop().time() < until:
            await asyncio.wait((stopped,), timeout=0.02)


async def _chunk(fd: int, stopped: asyncio.Task[bool]) -> bytes:
    """What came; nothing at the end, and when we are to stop."""
    reading = in_thread(partial(os.read, fd, CHUNK_BYTES))
    await asyncio.wait((reading, stopped), return_when=asyncio.FIRST_COMPLETED)
    if stopped.done():
        reading.cancel()
        return b""
    try:
        return bytes(reading.result())
    except OSError:  # a terminal that went away
        return b""


def _write_all(fd: int, data: bytes) -> None:
    while data:
        data = data[os.write(fd, data) :]


def _wrong(line: bytes) -> tuple[int, str, str | int | None]:
    """Why a line is no message, and whose answer that is, if it can be told."""
    try:
        data = msgspec.json.decode(line)
    except (msgspec.DecodeError, RecursionError):
        return PARSE_ERROR, "this is not JSON", None
    id = data.get("id") if isinstance(data, dict) else None
    known = id if isinstance(id, str | int) and not isinstance(id, bool) else None
    return INVALID_REQUEST, "this is not a JSON-RPC 2.0 message", known


def _has_id(line: bytes) -> bool:
    data = msgspec.json.decode(line)
    return isinstance(data, dict) and "id" in data
