"""JSON-RPC 2.0, a line for each message, as signal-cli's daemon speaks it."""

from __future__ import annotations

import asyncio
import itertools
import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from mainstay.core.channels import ChannelError

LINE_BYTES_MAX = 32 * 1024 * 1024  # a file of 20 MiB in base64 is in one
CHUNK_BYTES = 256 * 1024
CONNECT_S = 10.0
REQUESTS_MAX = 256  # under way at a time

_log = logging.getLogger(__name__)


class Lost(ChannelError):
    """The connection was lost after a request was handed over, or no answer came in time."""


class NotConnected(ChannelError):
    """The request was not handed over."""


class Refused(ChannelError):
    """The daemon has answered that it did not do it."""

    def __init__(self, code: int, message: str, data: Any) -> None:
        super().__init__(message)
        self.code = code
        self.data = data


class Connection:
    """Requests go out and their answers come back in any order; in between come notifications."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._ids = itertools.count(1)
        self._waiting: dict[str, asyncio.Future[Any]] = {}
        self._closed = False

    async def listen(self, notify: Callable[[str, Any], Awaitable[None]]) -> None:
        """Until the connection is lost."""
        try:
            async for line in _lines(self._reader):
                await self._take(line, notify)
        except OSError:
            pass
        finally:
            self.close()

    async def request(self, method: str, params: dict[str, Any], time_s: float) -> Any:
        if self._closed or self._writer.is_closing():
            raise NotConnected("signal-cli is not connected.")
        if len(self._waiting) >= REQUESTS_MAX:
            raise NotConnected("Too many requests to signal-cli are under way.")
        id = str(next(self._ids))
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        line = json.dumps({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).encode() + b"\n"
        self._waiting[id] = answer
        try:
            async with asyncio.timeout(time_s):
                self._writer.write(line)
                await self._writer.drain()
                return await answer
        except TimeoutError:
            raise Lost("signal-cli did not answer in time.") from None
        except OSError:
            raise Lost("The connection to signal-cli was lost.") from None
        finally:
            self._waiting.pop(id, None)
            answer.cancel()

    def close(self) -> None:
        self._closed = True
        self._writer.transport.abort()
        for answer in self._waiting.values():
            if not answer.done():
                answer.set_exception(Lost("The connection to signal-cli was lost."))

    async def _take(self, line: bytes, notify: Callable[[str, Any], Awaitable[None]]) -> None:
        try:
            message = json.loads(line.decode("utf-8", "replace"))
        except (ValueError, RecursionError):
            _log.warning("a line of %d bytes that is no JSON came from signal-cli", len(line))
            return
        if not isinstance(message, dict):
            return
        method, id = message.get("method"), message.get("id")
        if isinstance(method, str):
            await notify(method, message.get("params"))
            return
        answer = self._waiting.get(id) if isinstance(id, str) else None
        if answer is None or answer.done():
            return  # nobody waits for it any more
        if message.get("error") is not None:
            answer.set_exception(_refusal(message["error"]))
        else:
            answer.set_result(message.get("result"))


def _refusal(error: Any) -> Refused:
    given = error if isinstance(error, dict) else {}
    code, message = given.get("code"), given.get("message")
    return Refused(code if type(code) is int else 0, str(message or "no reason given")[:300], given.get("data"))


async def connect(address: str) -> Connection:
    """`host:port`, or the path of a socket. Raises OSError."""
    try:
        async with asyncio.timeout(CONNECT_S):
            if "/" in address:
                return Connection(*await asyncio.open_unix_connection(address))
            host, _, port = address.rpartition(":")
            return Connection(*await asyncio.open_connection(host.strip("[]"), int(port)))
    except TimeoutError:
        raise ConnectionError("no answer in time") from None


async def _lines(reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
    """Each line without its end. One that is too long is read past, and the next is as good as any."""
    buffer = bytearray()
    skipping = False
    while chunk := await reader.read(CHUNK_BYTES):
        *ended, rest = chunk.split(b"\n")
        for part in ended:
            if not skipping and len(buffer) + len(part) <= LINE_BYTES_MAX:
                yield bytes(buffer + part)
            buffer.clear()
            skipping = False
        if skipping:
            continue
        buffer += rest
        if len(buffer) > LINE_BYTES_MAX:
            _log.warning("a line of more than %d bytes came from signal-cli and is left out", LINE_BYTES_MAX)
            buffer.clear()
            skipping = True
