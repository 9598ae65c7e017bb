"""JSON-RPC 2.0 client for the signal-cli daemon, with one JSON message per line."""

from __future__ import annotations

import asyncio
import itertools
import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from mainstay.core.channels import ChannelError

LINE_BYTES_MAX = 32 * 1024 * 1024  # fits a file of 20 MiB in base64
CHUNK_BYTES = 256 * 1024
CONNECT_TIMEOUT_S = 10.0
REQUESTS_MAX = 256  # concurrent

_log = logging.getLogger(__name__)


class SignalResponseLost(ChannelError):
    """The connection was lost after the request was sent, or the response timed out."""


class SignalNotConnected(ChannelError):
    """The request was not sent."""


class SignalRequestRefused(ChannelError):
    """signal-cli responded with an error."""

    def __init__(self, code: int, message: str, data: Any) -> None:
        super().__init__(message)
        self.code = code
        self.data = data


class SignalClient:
    """A connection on which responses arrive in any order, mixed with notifications."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._ids = itertools.count(1)
        self._pending: dict[str, asyncio.Future[Any]] = {}
        self._closed = False

    async def listen(self, on_notification: Callable[[str, Any], Awaitable[None]]) -> None:
        """Read responses and notifications until the connection is lost."""
        try:
            async for line in _read_lines(self._reader):
                await self._handle_line(line, on_notification)
        except OSError:
            pass
        finally:
            self.close()

    async def request(self, method: str, params: dict[str, Any], timeout_s: float) -> Any:
        if self._closed or self._writer.is_closing():
            raise SignalNotConnected("signal-cli is not connected.")
        if len(self._pending) >= REQUESTS_MAX:
            raise SignalNotConnected("Too many requests to signal-cli are under way.")
        id = str(next(self._ids))
        response: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        line = json.dumps({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).encode() + b"\n"
        self._pending[id] = response
        try:
            async with asyncio.timeout(timeout_s):
                self._writer.write(line)
                await self._writer.drain()
                return await response
        except TimeoutError:
            raise SignalResponseLost("signal-cli did not answer in time.") from None
        except OSError:
            raise SignalResponseLost("The connection to signal-cli was lost.") from None
        finally:
            self._pending.pop(id, None)
            response.cancel()

    def close(self) -> None:
        self._closed = True
        self._writer.transport.abort()
        for response in self._pending.values():
            if not response.done():
                response.set_exception(SignalResponseLost("The connection to signal-cli was lost."))

    async def _handle_line(self, line: bytes, on_notification: Callable[[str, Any], Awaitable[None]]) -> None:
        try:
            message = json.loads(line.decode("utf-8", "replace"))
        except (ValueError, RecursionError):
            _log.warning("signal-cli sent a line of %d bytes that is not JSON", len(line))
            return
        if not isinstance(message, dict):
            return
        method, id = message.get("method"), message.get("id")
        if isinstance(method, str):
            await on_notification(method, message.get("params"))
            return
        response = self._pending.get(id) if isinstance(id, str) else None
        if response is None or response.done():
            return  # the request has timed out
        if message.get("error") is not None:
            response.set_exception(_decode_error(message["error"]))
        else:
            response.set_result(message.get("result"))


def _decode_error(error: Any) -> SignalRequestRefused:
    details = error if isinstance(error, dict) else {}
    code, message = details.get("code"), details.get("message")
    return SignalRequestRefused(
        code if type(code) is int else 0, str(message or "no reason given")[:300], details.get("data")
    )


async def connect(address: str) -> SignalClient:
    """Connect to `host:port` or the path of a Unix socket. Raises OSError."""
    try:
        async with asyncio.timeout(CONNECT_TIMEOUT_S):
            if "/" in address:
                return SignalClient(*await asyncio.open_unix_connection(address))
            host, _, port = address.rpartition(":")
            return SignalClient(*await asyncio.open_connection(host.strip("[]"), int(port)))
    except TimeoutError:
        raise ConnectionError("the connection timed out") from None


async def _read_lines(reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
    """Yield lines without their line ends. Lines that are too long are skipped."""
    buffer = bytearray()
    skipping = False
    while chunk := await reader.read(CHUNK_BYTES):
        *complete, rest = chunk.split(b"\n")
        for part in complete:
            if not skipping and len(buffer) + len(part) <= LINE_BYTES_MAX:
                yield bytes(buffer + part)
            buffer.clear()
            skipping = False
        if skipping:
            continue
        buffer += rest
        if len(buffer) > LINE_BYTES_MAX:
            _log.warning("signal-cli sent a line of more than %d bytes, which is skipped", LINE_BYTES_MAX)
            buffer.clear()
            skipping = True
