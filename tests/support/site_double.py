"""A web server of a few lines that says exactly what a test wants it to say."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Self

KEYS = Path(__file__).parent / "keys"

Act = Callable[[str, asyncio.StreamWriter], Awaitable[None]]  # the request's head, and where to answer


def ok(body: bytes | str = b"hello", mime: str = "text/plain", *more: str) -> bytes:
    data = body.encode() if isinstance(body, str) else body
    lines = [f"HTTP/1.1 200 OK\r\nContent-Type: {mime}\r\nContent-Length: {len(data)}", *more]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + data


def moved(location: str, status: int = 302) -> bytes:
    return f"HTTP/1.1 {status} Moved\r\nLocation: {location}\r\nContent-Length: 0\r\n\r\n".encode()


class Site:
    """Answers each request with the next of `answers` (the last one again and again): bytes, or something to do.

    `hang` leaves the connection open after that; `gone` is set when the client has disconnected.
    """

    def __init__(self, *answers: bytes | Act, hang: bool = False, tls: bool = False) -> None:
        self._answers = list(answers) or [ok()]
        self._hang = hang
        self._tls = tls
        self.heads: list[str] = []
        self.said = asyncio.Event()
        self.gone = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        context = None
        if self._tls:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(KEYS / "localhost.pem", KEYS / "localhost.key")
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=context)
        self.port = int(self._server.sockets[0].getsockname()[1])
        return self

    async def __aexit__(self, *raised: object) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    @property
    def place(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def url(self) -> str:
        return f"http://{self.place}/"

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            self.heads.append((await reader.readuntil(b"\r\n\r\n")).decode())
            answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
            if isinstance(answer, bytes):
                writer.write(answer)
                await writer.drain()
            else:
                await answer(self.heads[-1], writer)
            self.said.set()
            if self._hang:
                await reader.read()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            self.gone.set()
            self._tasks.discard(task)
            writer.transport.abort() if self._hang else writer.close()
