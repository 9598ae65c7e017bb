"""An ASGI application on a socket, until somebody says stop."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable, Iterator
from typing import Any

from mainstay.core.errors import ConfigError

CONNECTIONS_MAX = 128
PER_ADDRESS_MAX = 96
HEAD_S = 10.0  # for the head of a request to come, and for whoever is answered to read on
IDLE_S = 5  # between two requests
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
        http=_protocol(),
        timeout_keep_alive=IDLE_S,
        log_config=None,
        access_log=False,
        lifespan="on",
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


def _protocol() -> type[asyncio.Protocol]:
    """HTTP for whoever gets to the point. Nobody holds a connection by saying nothing, or by not listening."""
    import h11
    from uvicorn.protocols.http.h11_impl import H11Protocol

    class Prompt(H11Protocol):
        waits: asyncio.TimerHandle | None = None  # while it is for the other side to go on

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            self._make_room()
            self._watch()

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            self._watch()

        def on_response_complete(self) -> None:
            super().on_response_complete()
            self._watch()

        def pause_writing(self) -> None:
            super().pause_writing()
            self._watch()

        def resume_writing(self) -> None:
            super().resume_writing()
            self._watch()

        def connection_lost(self, exc: Exception | None) -> None:
            super().connection_lost(exc)
            self._calm()

        def _watch(self) -> None:
            unasked = self.conn.our_state in (h11.IDLE, h11.DONE)
            if not (unasked or self.flow.write_paused or self.transport.is_closing()):
                self._calm()
            elif self.waits is None:  # a byte now and then does not begin it anew
                self.waits = self.loop.call_later(HEAD_S, self.transport.abort)

        def _calm(self) -> None:
            if self.waits is not None:
                self.waits.cancel()
                self.waits = None

        def _make_room(self) -> None:
            """Whoever has kept us waiting the longest goes first, of one address if that has too many."""
            everybody = [one for one in self.connections if isinstance(one, Prompt)]
            near = [one for one in everybody if one.client and self.client and one.client[0] == self.client[0]]
            if len(near) <= PER_ADDRESS_MAX and len(everybody) < CONNECTIONS_MAX:
                return
            among = near if len(near) > PER_ADDRESS_MAX else everybody
            waiting = [(one.waits.when(), id(one), one) for one in among if one.waits is not None]
            if waiting:
                _, _, longest = min(waiting)
                self.connections.discard(longest)
                longest.transport.abort()
            elif among is near:
                self.limit_concurrency = 0  # it is told to come again later

    return Prompt
