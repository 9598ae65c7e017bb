"""A unix socket that a confined program connects to, and a bounded number of ways from there to somewhere else."""

from __future__ import annotations

import asyncio


class Ways:
    """Base of what leads them on: a subclass has `_lead`, which is one way from its beginning to its end."""

    def __init__(self, connections_max: int, *, head_bytes: int, backlog: int) -> None:
        self._most = connections_max
        self._head_bytes = head_bytes
        self._backlog = backlog
        self._server: asyncio.Server | None = None
        self._ways: set[asyncio.Task[None]] = set()

    async def listen(self, path: str) -> None:
        self._server = await asyncio.start_unix_server(self._came, path, limit=self._head_bytes, backlog=self._backlog)

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None
        for way in tuple(self._ways):
            way.cancel()
        if self._ways:
            await asyncio.wait(self._ways)

    def _came(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._ways) >= self._most or self._server is None:
            writer.transport.abort()
            return
        way = asyncio.create_task(self._lead(reader, writer))
        self._ways.add(way)
        way.add_done_callback(self._ways.discard)

    async def _lead(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        raise NotImplementedError
