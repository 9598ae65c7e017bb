"""Unix socket server with a bounded number of connections, base of the egress proxy and the gRPC relay."""

from __future__ import annotations

import asyncio


class BoundedSocketServer:
    """Base class. A subclass implements `_handle_connection`, which serves one connection until it ends."""

    def __init__(self, connections_max: int, *, read_limit_bytes: int, backlog: int) -> None:
        self._connections_max = connections_max
        self._read_limit_bytes = read_limit_bytes
        self._backlog = backlog
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()

    async def listen(self, socket_path: str) -> None:
        self._server = await asyncio.start_unix_server(
            self._on_connect, socket_path, limit=self._read_limit_bytes, backlog=self._backlog
        )

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None
        for task in tuple(self._connections):
            task.cancel()
        if self._connections:
            await asyncio.wait(self._connections)

    def _on_connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._connections) >= self._connections_max or self._server is None:
            writer.transport.abort()
            return
        task = asyncio.create_task(self._handle_connection(reader, writer))
        self._connections.add(task)
        task.add_done_callback(self._connections.discard)

    async def _handle_connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        raise NotImplementedError
