"""State shared by the requests of one HTTP server: settings, gateway, rate limits, open streams, shutdown."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Literal, Protocol

import msgspec

from mainstay.gateway.api_rate_limiter import ApiRateLimiter
from mainstay.gateway.operation_gateway import OperationGateway
from mainstay.server.rejection_log import RejectionLog

log = logging.getLogger("mainstay.http")
LARGEST_BODIES_MAX = 8  # request bodies of the largest size that may be in memory at a time


async def _always_ready() -> dict[str, str]:
    return {}


class HttpSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of the HTTP server."""

    host: str = "127.0.0.1"  # address that it listens on
    port: int = 7460
    keys: Literal["auto", "required"] = "auto"
    hosts: tuple[str, ...] = ()  # accepted in the Host header, beside `host` and loopback names
    origins: tuple[str, ...] = ()  # of other sites whose pages may use the API (CORS)
    body_bytes_max: int = 32 * 1024 * 1024
    rate_per_min: int = 600  # requests with one key
    streams_max: int = 64  # open at a time with one key
    version: str = ""
    workspace: str = "default"  # used unless the request names another
    # what is not ready → the reason; empty: everything is
    find_unready: Callable[[], Awaitable[dict[str, str]]] = _always_ready
    render_metrics: Callable[[], str] | None = None  # in the Prometheus text format; None: metrics are off


class OpenStream(Protocol):
    """A response or connection that stays open: server-sent events, a WebSocket, a request that waits for a turn."""

    @property
    def ends_with_turn(self) -> bool:
        """True if it ends by itself, with a turn: a graceful shutdown waits for it."""
        ...

    def end_for_shutdown(self) -> None:
        """End it, because the server is being stopped."""
        ...

    def keep_alive(self, now: float) -> None:
        """Send something if nothing was sent for long; end it if its key is not valid any more."""
        ...


class HttpServerState:
    """Shared state of one HTTP server."""

    def __init__(self, gateway: OperationGateway, settings: HttpSettings) -> None:
        self.gateway = gateway
        self.settings = settings
        self.rate_limiter = ApiRateLimiter()
        self.rejection_log = RejectionLog(log)
        self.open_streams: set[OpenStream] = set()
        self.closing = asyncio.Event()  # requests stop waiting for their turns
        self.draining = False  # no new turns are accepted
        self.held_body_bytes = 0  # bytes of request bodies in memory
        self._keep_alive_timer: asyncio.TimerHandle | None = None

    @property
    def held_body_bytes_max(self) -> int:
        return self.settings.body_bytes_max * LARGEST_BODIES_MAX

    # --- open streams ----------------------------------------------------------------------------

    def add_stream(self, stream: OpenStream, interval_s: float) -> None:
        """Register an open stream; the first one starts the keep-alive timer with this interval."""
        self.open_streams.add(stream)
        if self._keep_alive_timer is None:
            self._keep_streams_alive(interval_s)

    def remove_stream(self, stream: OpenStream) -> None:
        self.open_streams.discard(stream)

    def _keep_streams_alive(self, interval_s: float) -> None:
        """Call `keep_alive` of all streams. One timer serves all of them, and runs while there are any."""
        loop = asyncio.get_running_loop()
        for stream in tuple(self.open_streams):
            stream.keep_alive(loop.time())
        self._keep_alive_timer = (
            loop.call_later(interval_s, self._keep_streams_alive, interval_s) if self.open_streams else None
        )

    # --- shutdown --------------------------------------------------------------------------------

    def drain(self) -> None:
        """Accept no new turns, and end streams that follow a session. Streams of a turn go on to its end."""
        self.draining = True
        for stream in tuple(self.open_streams):
            if not stream.ends_with_turn:
                stream.end_for_shutdown()

    def close(self) -> None:
        """End all streams."""
        self.draining = True
        self.closing.set()
        for stream in tuple(self.open_streams):
            stream.end_for_shutdown()
