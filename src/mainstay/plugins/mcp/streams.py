"""The streams between the SDK's client and a server: what it says, and what it is told.

This and the modules that say so import the SDK, which takes a second: they are imported when a server is first wanted.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Any

import anyio
from mcp.shared.jsonrpc_dispatcher import cancelled_request_id_from_params
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCError, JSONRPCNotification, JSONRPCRequest, JSONRPCResponse, jsonrpc_message_adapter

from mainstay.core.errors import InputRefused
from mainstay.plugins.mcp.asked import Asked
from mainstay.plugins.mcp.frames import Frames
from mainstay.plugins.mcp.gate import Gate
from mainstay.plugins.mcp.server import McpLimits

BREATH = 16  # messages, after which others have their turn
BREATH_BYTES = 4096  # of one, after which too


class Stream:
    """What the SDK asks of either of its streams beside the messages themselves."""

    async def aclose(self) -> None:
        raise NotImplementedError

    async def __aenter__(self) -> Any:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()


class Heard(Stream):
    """What a server says, as the SDK reads it. `over` is done when nothing more will come; `trouble` is what the way to
    it had to say, and the SDK does not pass on."""

    def __init__(self) -> None:
        self.over: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    @property
    def trouble(self) -> str:
        return ""

    async def _next(self) -> SessionMessage | None:
        raise NotImplementedError

    def __aiter__(self) -> Heard:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        message = await self._next()
        if message is None:
            self._end()
            raise StopAsyncIteration
        return message

    async def receive(self) -> SessionMessage | Exception:
        try:
            return await self.__anext__()
        except StopAsyncIteration:
            raise anyio.EndOfStream from None

    def _end(self) -> None:
        if not self.over.done():
            self.over.set_result(None)

    async def aclose(self) -> None:
        self._end()


class Piped(Heard):
    """From the output of a process."""

    def __init__(self, frames: Frames, gate: Gate) -> None:
        super().__init__()
        self._frames = frames
        self._gate = gate
        self._read = 0

    async def _next(self) -> SessionMessage | None:
        while (line := await self._frames.next()) is not None:
            self._read += 1
            if self._read % BREATH == 0 or len(line) > BREATH_BYTES:
                await asyncio.sleep(0)
            try:
                return SessionMessage(jsonrpc_message_adapter.validate_json(line, by_name=False))
            except ValueError:  # JSON, and yet no message
                self._gate.drop(len(line))
        return None

    async def aclose(self) -> None:
        self._frames.end()
        await super().aclose()


class Sifted(Heard):
    """From the SDK's own stream: what came over the wire was looked through there (events.py)."""

    def __init__(self, inner: Any, gate: Gate, asked: Asked, trouble: Callable[[], str]) -> None:
        super().__init__()
        self._inner = inner
        self._asked = asked
        self._trouble = trouble
        gate.on_flood = self._end

    @property
    def trouble(self) -> str:
        return self._trouble()

    @property
    def last_context(self) -> Any:
        return self._inner.last_context

    async def _next(self) -> SessionMessage | None:
        while True:
            try:
                item = await self._inner.__anext__()
            except StopAsyncIteration:
                return None
            if not isinstance(item, SessionMessage):
                continue
            if isinstance(item.message, JSONRPCResponse | JSONRPCError) and item.message.id is not None:
                self._asked.end(item.message.id)
            return item

    async def aclose(self) -> None:
        await super().aclose()
        await self._inner.aclose()


def heed(item: SessionMessage, asked: Asked) -> None:
    """What is told to a server opens a request, or gives one up."""
    match item.message:
        case JSONRPCRequest(id=id):
            asked.begin(id)
        case JSONRPCNotification(method="notifications/cancelled", params=params):
            if (given_up := cancelled_request_id_from_params(params)) is not None:
                asked.end(given_up)


class Sent(Stream):
    """To the SDK's own stream."""

    def __init__(self, inner: Any, asked: Asked) -> None:
        self._inner = inner
        self._asked = asked

    async def send(self, item: SessionMessage) -> None:
        heed(item, self._asked)
        await self._inner.send(item)

    async def aclose(self) -> None:
        await self._inner.aclose()


class Told(Stream):
    """What a server is told. A message is written to its end even if nobody waits for it any more: half of one would
    spoil the next."""

    def __init__(self, write: Callable[[bytes], Awaitable[None]], limits: McpLimits, asked: Asked) -> None:
        self._write = write
        self._asked = asked
        self._limits = limits
        self._turn = asyncio.Lock()
        self._broken = False
        self._writing: set[asyncio.Task[None]] = set()

    async def send(self, item: SessionMessage) -> None:
        heed(item, self._asked)
        text: str = item.message.model_dump_json(by_alias=True, exclude_unset=True)
        task = asyncio.create_task(self._whole(text.encode() + b"\n"))
        self._writing.add(task)
        task.add_done_callback(self._written)
        await asyncio.shield(task)

    async def _whole(self, data: bytes) -> None:
        async with self._turn:
            if self._broken:
                raise anyio.BrokenResourceError
            try:
                async with asyncio.timeout(self._limits.write_s):
                    await self._write(data)
            except (InputRefused, OSError, TimeoutError):  # it is gone, or does not read
                self._broken = True
                raise anyio.BrokenResourceError from None

    def _written(self, task: asyncio.Task[None]) -> None:
        self._writing.discard(task)
        if not task.cancelled():
            task.exception()  # seen: whoever waited was told

    async def aclose(self) -> None:
        self._broken = True
        for task in list(self._writing):
            task.cancel()
