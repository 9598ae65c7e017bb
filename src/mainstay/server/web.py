"""An ASGI application on a socket, until somebody says stop."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable, Iterator
from typing import Any

from mainstay.core.errors import ConfigError

CONNECTIONS_MAX = 128
GRACE_S = 1


def bind(host: str, port: int) -> socket.socket:
    """Port 0: any that is free."""
    try:
        family, kind, proto, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except OSError as error:
        raise ConfigError(f"{host} is no address of this machine: {error.strerror}") from None
    made = socket.socket(family, kind, proto)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        made.bind(address)
        made.listen(CONNECTIONS_MAX)  # whoever is told of it may come at once
    except OSError as error:
        made.close()
        raise ConfigError(f"port {port} of {host} cannot be had: {error.strerror}") from None
    return made


async def serve_web(app: Any, at: socket.socket, stop: asyncio.Event, ending: Callable[[], None] | None = None) -> None:
    """`ending` is called before those who are still connected are waited for."""
    try:
        import uvicorn
    except ImportError:
        raise ConfigError("this needs uvicorn: pip install 'mainstay[serve]'") from None

    class Server(uvicorn.Server):
        @contextlib.contextmanager
        def capture_signals(self) -> Iterator[None]:
            """Signals are the command's own business."""
            yield

    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        lifespan="on",
        http="h11",
        ws="none",
        server_header=False,
        limit_concurrency=CONNECTIONS_MAX,
        timeout_graceful_shutdown=GRACE_S,
    )
    server = Server(config)
    serving = asyncio.create_task(server.serve(sockets=[at]))
    stopped = asyncio.create_task(stop.wait())
    try:
        await asyncio.wait((serving, stopped), return_when=asyncio.FIRST_COMPLETED)
    finally:
        if ending is not None:
            ending()
        server.should_exit = True
        stopped.cancel()
        await serving
