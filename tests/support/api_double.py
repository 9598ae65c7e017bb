"""A web server that keeps what it was asked and answers as a test says."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Self

import msgspec

from mainstay.core.ports import Tool, ToolContext


class Asked(msgspec.Struct):
    method: str
    target: str
    headers: dict[str, str]
    body: bytes

    @property
    def path(self) -> str:
        return self.target.partition("?")[0]

    @property
    def query(self) -> list[str]:
        return [one for one in self.target.partition("?")[2].split("&") if one]


Answer = Callable[[Asked], bytes]


def answer(value: Any = None, *, status: int = 200, mime: str = "application/json", headers: str = "") -> bytes:
    data = value if isinstance(value, bytes) else msgspec.json.encode(value)
    head = f"HTTP/1.1 {status} X\r\nContent-Type: {mime}\r\nContent-Length: {len(data)}\r\n{headers}\r\n"
    return head.encode() + data


OK = answer({"ok": True})


class ApiServer:
    """One request to a connection. `asked` are all of them, in their order."""

    def __init__(self, reply: Answer | bytes = OK) -> None:
        self._reply: Answer = reply if callable(reply) else (lambda asked: reply)
        self.asked: list[Asked] = []

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = int(self._server.sockets[0].getsockname()[1])
        return self

    async def __aexit__(self, *raised: object) -> None:
        self._server.close()
        await self._server.wait_closed()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
            headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:-2])}
            body = await reader.readexactly(int(headers.get("content-length", "0")))
            method, target, _ = lines[0].split(" ")
            self.asked.append(Asked(method, target, headers, body))
            writer.write(self._reply(self.asked[-1]))
            await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()


def context(session: str = "s") -> ToolContext:
    return ToolContext(session, 1, 1, "c1", lambda event: None)


async def run(tool: Tool, /, **arguments: Any) -> str:
    """As a turn runs it: by its JSON."""
    return await tool.run(tool.parse(msgspec.json.encode(arguments).decode()), context())
