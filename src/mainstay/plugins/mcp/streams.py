"""Message streams between the MCP SDK's client and a server, over stdio and streamable HTTP.

Imports the SDK, which takes a second. The modules that do say so, and are imported when a server is first used.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import TYPE_CHECKING, Self

import anyio
from mcp.shared.jsonrpc_dispatcher import cancelled_request_id_from_params
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCError, JSONRPCNotification, JSONRPCRequest, JSONRPCResponse, jsonrpc_message_adapter

from mainstay.core.errors import InputRefused
from mainstay.plugins.mcp.flood_guard import FloodGuard
from mainstay.plugins.mcp.pending_requests import PendingRequests
from mainstay.plugins.mcp.server_config import McpLimits
from mainstay.plugins.mcp.stdio_queue import StdioMessageQueue

if TYPE_CHECKING:
    from mcp.shared._stream_protocols import ReadStream, WriteStream

YIELD_EVERY_MESSAGES = 16  # messages, after which the event loop runs other tasks
YIELD_ABOVE_BYTES = 4096  # of a message, above which it does so too


class SdkStream:
    """Base of the streams: the context manager protocol that the SDK expects."""

    async def aclose(self) -> None:
        raise NotImplementedError

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()


class ReceiveStream(SdkStream):
    """Messages from a server, as the SDK reads them. `closed` is done when no more will arrive; `problem` is an error
    of the transport that the SDK does not pass on."""

    def __init__(self) -> None:
        self.closed: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    @property
    def problem(self) -> str:
        return ""

    async def _receive_next(self) -> SessionMessage | None:
        raise NotImplementedError

    def __aiter__(self) -> ReceiveStream:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        message = await self._receive_next()
        if message is None:
            self._close()
            raise StopAsyncIteration
        return message

    async def receive(self) -> SessionMessage | Exception:
        try:
            return await self.__anext__()
        except StopAsyncIteration:
            raise anyio.EndOfStream from None

    def _close(self) -> None:
        if not self.closed.done():
            self.closed.set_result(None)

    async def aclose(self) -> None:
        self._close()


class StdioReceiveStream(ReceiveStream):
    """Messages from a process's stdout."""

    def __init__(self, queue: StdioMessageQueue, flood_guard: FloodGuard) -> None:
        super().__init__()
        self._queue = queue
        self._flood_guard = flood_guard
        self._read_count = 0

    async def _receive_next(self) -> SessionMessage | None:
        while (line := await self._queue.next_line()) is not None:
            self._read_count += 1
            if self._read_count % YIELD_EVERY_MESSAGES == 0 or len(line) > YIELD_ABOVE_BYTES:
                await asyncio.sleep(0)
            try:
                return SessionMessage(jsonrpc_message_adapter.validate_json(line, by_name=False))
            except ValueError:  # JSON, but not a JSON-RPC message
                self._flood_guard.count_dropped(len(line))
        return None

    async def aclose(self) -> None:
        self._queue.close()
        await super().aclose()


class HttpReceiveStream(ReceiveStream):
    """Messages from the SDK's HTTP transport, which were filtered on arrival (sse_filter.py)."""

    def __init__(
        self,
        inner: ReadStream[SessionMessage | Exception],
        flood_guard: FloodGuard,
        pending: PendingRequests,
        get_problem: Callable[[], str],
    ) -> None:
        super().__init__()
        self._inner = inner
        self._pending = pending
        self._get_problem = get_problem
        flood_guard.on_flood = self._close

    @property
    def problem(self) -> str:
        return self._get_problem()

    @property
    def last_context(self) -> object:
        return getattr(self._inner, "last_context", None)

    async def _receive_next(self) -> SessionMessage | None:
        while True:
            try:
                item = await self._inner.__anext__()
            except StopAsyncIteration:
                return None
            if not isinstance(item, SessionMessage):
                continue
            if isinstance(item.message, JSONRPCResponse | JSONRPCError) and item.message.id is not None:
                self._pending.finish(item.message.id)
            return item

    async def aclose(self) -> None:
        await super().aclose()
        await self._inner.aclose()


def track_request(item: SessionMessage, pending: PendingRequests) -> None:
    """Register an outgoing request as pending, or a cancelled one as finished."""
    match item.message:
        case JSONRPCRequest(id=id):
            pending.add(id)
        case JSONRPCNotification(method="notifications/cancelled", params=params):
            if (cancelled_id := cancelled_request_id_from_params(params)) is not None:
                pending.finish(cancelled_id)


class SendStream(SdkStream):
    """Messages to a server, as the SDK writes them."""

    async def send(self, item: SessionMessage) -> None:
        raise NotImplementedError


class HttpSendStream(SendStream):
    """Messages to the SDK's HTTP transport."""

    def __init__(self, inner: WriteStream[SessionMessage], pending: PendingRequests) -> None:
        self._inner = inner
        self._pending = pending

    async def send(self, item: SessionMessage) -> None:
        track_request(item, self._pending)
        await self._inner.send(item)

    async def aclose(self) -> None:
        await self._inner.aclose()


class StdioSendStream(SendStream):
    """Messages to a process's stdin. A message is written completely even if its caller was cancelled: half a message
    would corrupt the next one."""

    def __init__(self, write: Callable[[bytes], Awaitable[None]], limits: McpLimits, pending: PendingRequests) -> None:
        self._write = write
        self._pending = pending
        self._limits = limits
        self._write_lock = asyncio.Lock()
        self._broken = False
        self._write_tasks: set[asyncio.Task[None]] = set()

    async def send(self, item: SessionMessage) -> None:
        track_request(item, self._pending)
        text: str = item.message.model_dump_json(by_alias=True, exclude_unset=True)
        task = asyncio.create_task(self._write_message(text.encode() + b"\n"))
        self._write_tasks.add(task)
        task.add_done_callback(self._on_written)
        await asyncio.shield(task)

    async def _write_message(self, data: bytes) -> None:
        async with self._write_lock:
            if self._broken:
                raise anyio.BrokenResourceError
            try:
                async with asyncio.timeout(self._limits.write_s):
                    await self._write(data)
            except (InputRefused, OSError, TimeoutError):  # the process has ended, or does not read
                self._broken = True
                raise anyio.BrokenResourceError from None

    def _on_written(self, task: asyncio.Task[None]) -> None:
        self._write_tasks.discard(task)
        if not task.cancelled():
            task.exception()  # retrieved, to silence asyncio: `send` has raised it

    async def aclose(self) -> None:
        self._broken = True
        for task in list(self._write_tasks):
            task.cancel()
