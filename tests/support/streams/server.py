"""A loopback server that plays a script, byte for byte: it can cut, garble, stall and reset wherever it is told."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import struct
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any

import msgspec

RESET = "reset"  # close with RST
CLOSE = "close"  # close with FIN, whatever the headers say
STALL = "stall"  # say nothing more until the client leaves
Action = bytes | float | str
OK = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"


class Asked(msgspec.Struct):
    """A request as it arrived."""

    line: str
    headers: dict[str, str]
    body: dict[str, Any]
    at: float


def closing(*body: Action) -> list[Action]:
    """A body that ends when the connection does: a cut looks just like an end."""
    return [OK + b"Connection: close\r\n\r\n", *body]


def chunked(*body: bytes, end: bool = True) -> list[Action]:
    """Each part as its own HTTP chunk."""
    parts = [b"%x\r\n%b\r\n" % (len(part), part) for part in body]
    return [OK + b"Transfer-Encoding: chunked\r\n\r\n", b"".join(parts) + (b"0\r\n\r\n" if end else b"")]


def status(code: int, body: bytes = b"", headers: Sequence[str] = (), mime: str = "application/json") -> list[Action]:
    extra = "".join(f"{line}\r\n" for line in headers)
    head = f"HTTP/1.1 {code} X\r\nContent-Type: {mime}\r\nContent-Length: {len(body)}\r\n{extra}\r\n"
    return [head.encode() + body]


class Loopback:
    """Answers each request with the next script; with the last one again when they run out."""

    def __init__(self, *scripts: Sequence[Action], now: Callable[[], float] | None = None) -> None:
        self.scripts = list(scripts)
        self.asked: list[Asked] = []
        self.connections = 0
        self.left = asyncio.Event()  # a client closed its connection while a script was playing
        self._now = now or asyncio.get_running_loop().time
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Loopback:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, backlog=1024)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._server is not None
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    @property
    def url(self) -> str:
        assert self._server is not None
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}/v1"

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        self.connections += 1
        # the cancellation is ours, at the end of the test
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
                pairs = (line.partition(": ") for line in head[1:] if line)
                headers = {name.lower(): value for name, _, value in pairs}
                body = await reader.readexactly(int(headers.get("content-length", 0)))
                self.asked.append(Asked(head[0], headers, json.loads(body), self._now()))
                script = self.scripts.pop(0) if len(self.scripts) > 1 else self.scripts[0]
                if not await self._play(script, reader, writer):
                    break
        writer.close()

    async def _play(self, script: Sequence[Action], reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """True if the connection may be used again."""
        for action in script:
            if isinstance(action, bytes):
                writer.write(action)
            elif action == RESET:
                reset(writer)
                return False
            elif action == CLOSE:
                return False
            elif action == STALL:
                await reader.read()
                self.left.set()
                return False
            elif isinstance(action, float):
                await asyncio.sleep(action)
        return b"Connection: close" not in b"".join(part for part in script if isinstance(part, bytes))


def reset(writer: asyncio.StreamWriter) -> None:
    sock = writer.get_extra_info("socket")
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()
