"""Uvicorn HTTP and WebSocket protocols with connection limits, and timeouts for slow clients.

A slow client sends no headers or body, sends a byte at a time, or does not read.
"""

from __future__ import annotations

import asyncio
import logging
import re
import socket
from typing import TYPE_CHECKING, Any, cast

import h11
from h11._receivebuffer import ReceiveBuffer
from uvicorn.protocols.http.h11_impl import H11Protocol

from mainstay.core.asgi import Receive, Scope, Send
from mainstay.server.connection_limits import ConnectionLimiter, ConnectionLimits, EvictableConnection
from mainstay.server.problems import Problem, encode_problem
from mainstay.server.rejection_log import RejectionLog

if TYPE_CHECKING:
    from uvicorn.config import Config
    from uvicorn.server import ServerState

HEADERS_BYTES_MAX = 16 * 1024
BODY_BYTES_MIN = 1024  # of a body, in each `body_timeout_s`: less is no progress

_HEAD_END = re.compile(rb"\n\r?\n")  # as h11 finds it
_BARE_LF = re.compile(rb"(?<!\r)\n")
_HTTP_VERSIONS = (b"1.0", b"1.1")
_NOT_HTTP = "this is not an HTTP request, or its headers are too large"

log = logging.getLogger("mainstay.http")


class StrictReceiveBuffer(ReceiveBuffer):
    """h11's buffer, which refuses headers and trailers with lines that end with a bare LF."""

    def maybe_extract_lines(self) -> list[bytearray] | None:
        end = _HEAD_END.search(self._data, self._multiple_lines_search)
        if self._data[:1] == b"\n" or (end is not None and _BARE_LF.search(self._data, 0, end.end())):
            raise RequestRefusal("a line of its headers ends with LF instead of CR LF")
        return super().maybe_extract_lines()


class RequestRefusal(h11.RemoteProtocolError):
    """A request that h11 would accept; the message completes a sentence about it."""


class StrictConnection(h11.Connection):
    """HTTP/1.1 without the tolerance of h11, and with faster chunks.

    A proxy in front may read a tolerated request differently, and so pass a second request inside of it (request
    smuggling). Chunks of a streamed response are framed here: h11 takes three times as long, and there are many.
    """

    is_chunked = False
    refusal = ""  # what is wrong with the request, if this class refused it

    def __init__(self, our_role: type[h11.CLIENT] | type[h11.SERVER], max_incomplete_event_size: int) -> None:
        super().__init__(our_role, max_incomplete_event_size)
        self._receive_buffer = StrictReceiveBuffer()

    def next_event(self) -> Any:
        try:
            event = super().next_event()
            if type(event) is h11.Request:
                self._check_request(event)
        except RequestRefusal as refusal:
            self.refusal = str(refusal)
            raise
        return event

    def _check_request(self, request: h11.Request) -> None:
        if request.http_version not in _HTTP_VERSIONS:
            raise RequestRefusal(f"HTTP/{request.http_version.decode('ascii')} is not supported; use HTTP/1.1")
        names = dict(request.headers)
        if b"transfer-encoding" in names and (b"content-length" in names or request.http_version != b"1.1"):
            raise RequestRefusal("it has Transfer-Encoding together with Content-Length, or in HTTP/1.0")

    def send(self, event: h11.Event) -> Any:
        if self.is_chunked and type(event) is h11.Data:
            return b"%x\r\n%b\r\n" % (len(event.data), event.data) if event.data else b""
        data = super().send(event)
        if type(event) is h11.Response:
            self.is_chunked = b"\r\ntransfer-encoding: chunked\r\n" in (data or b"").lower()
        elif type(event) is h11.EndOfMessage:
            self.is_chunked = False
        return data


class LimitedHttpProtocol(H11Protocol):
    """Uvicorn's HTTP/1.1 protocol with the limits of one server, which are class attributes of a subclass."""

    limiter: ConnectionLimiter
    limits: ConnectionLimits
    rejection_log: RejectionLog
    client_timer: asyncio.TimerHandle | None = None  # while waiting for the client: it aborts the connection
    body_timer: asyncio.TimerHandle | None = None  # while a body is being received: it checks the progress
    bytes_since_check = 0  # bytes received since the last check

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self.conn: StrictConnection = StrictConnection(h11.SERVER, HEADERS_BYTES_MAX)
        self.limit_concurrency = None  # ConnectionLimiter does it

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        enable_tcp_keepalive(transport, self.limits.read_timeout_s)
        sock = transport.get_extra_info("socket")
        descriptor = sock.fileno() if sock is not None else -1
        if not self.limiter.admit(self, self.client[0] if self.client else "", descriptor):
            self.app = respond_busy
        self._update_timers()

    def data_received(self, data: bytes) -> None:
        self.bytes_since_check += len(data)
        super().data_received(data)
        self._update_timers()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._update_timers()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._update_timers()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._update_timers()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._stop_client_timer()
        self._stop_body_timer()
        self.limiter.remove(self)

    def evict(self) -> None:
        self.connections.discard(self)
        self.transport.abort()

    def handle_websocket_upgrade(self, event: h11.Request) -> None:
        self._stop_client_timer()
        self._stop_body_timer()
        if self.app is respond_busy:
            self.transport.abort()
            return
        super().handle_websocket_upgrade(event)
        self.limiter.replace(self, cast(EvictableConnection, self.transport.get_protocol()))

    def send_400_response(self, msg: str) -> None:
        """Send the error in the shape of all other errors."""
        self.rejection_log.record("not an HTTP request", self.client)
        if self.conn.our_state not in (h11.IDLE, h11.SEND_RESPONSE):  # a response has been started
            self.transport.abort()
            return
        refusal = self.conn.refusal
        sentence = f"the request is refused: {refusal}" if refusal else _NOT_HTTP
        _, headers, body = encode_problem(Problem(400, "invalid_request", sentence))
        headers = [*headers, (b"connection", b"close")]
        for part in (h11.Response(status_code=400, headers=headers), h11.Data(data=body), h11.EndOfMessage()):
            self.transport.write(self.conn.send(part))
        self.transport.close()

    # --- slow clients ------------------------------------------------------------------------

    def _update_timers(self) -> None:
        if self.transport.get_protocol() is not self:
            return  # upgraded to a WebSocket
        has_no_request = self.conn.our_state in (h11.IDLE, h11.DONE)
        paused = self.flow.write_paused
        if not (has_no_request or paused or self.transport.is_closing()):
            self._stop_client_timer()
        elif self.client_timer is None:  # a byte now and then does not restart it
            self.client_timer = self.loop.call_later(
                self.limits.read_timeout_s if paused else self.limits.headers_timeout_s, self.transport.abort
            )
            self.limiter.mark_waiting(self)
        if self.body_timer is None and self._expects_body():
            self.bytes_since_check = 0
            self.body_timer = self.loop.call_later(self.limits.body_timeout_s, self._check_body_progress)

    def _expects_body(self) -> bool:
        """True while the client has to send more of the body, and reading is not paused on our side."""
        coming = self.conn.their_state is h11.SEND_BODY and self.conn.our_state is h11.SEND_RESPONSE
        return coming and not self.flow.read_paused

    def _check_body_progress(self) -> None:
        self.body_timer = None
        if not self._expects_body():
            return
        if self.bytes_since_check < BODY_BYTES_MIN:
            self.rejection_log.record("the request body arrives too slowly", self.client)
            self.transport.abort()
            return
        self.bytes_since_check = 0
        self.body_timer = self.loop.call_later(self.limits.body_timeout_s, self._check_body_progress)

    def _stop_body_timer(self) -> None:
        if self.body_timer is not None:
            self.body_timer.cancel()
            self.body_timer = None

    def _stop_client_timer(self) -> None:
        if self.client_timer is not None:
            self.client_timer.cancel()
            self.client_timer = None
            self.limiter.unmark_waiting(self)


def create_http_protocol(limiter: ConnectionLimiter, limits: ConnectionLimits) -> type[asyncio.Protocol]:
    """Return an HTTP protocol class for one server; uvicorn makes an instance for each connection."""

    class ConfiguredHttpProtocol(LimitedHttpProtocol):
        pass

    ConfiguredHttpProtocol.limiter, ConfiguredHttpProtocol.limits, ConfiguredHttpProtocol.rejection_log = (
        limiter,
        limits,
        RejectionLog(log),
    )
    return ConfiguredHttpProtocol


def create_websocket_protocol(limiter: ConnectionLimiter, limits: ConnectionLimits) -> type[asyncio.Protocol]:
    from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol  # optional

    class LimitedWebSocketProtocol(WebSocketsSansIOProtocol):
        """Aborts connections of clients that do not read; uvicorn's pings find those that are gone."""

        client_timer: asyncio.TimerHandle | None = None

        def pause_writing(self) -> None:
            super().pause_writing()
            if self.client_timer is None:
                self.client_timer = self.loop.call_later(limits.read_timeout_s, self.transport.abort)
                limiter.mark_waiting(self)

        def resume_writing(self) -> None:
            super().resume_writing()
            self._stop_client_timer()

        def connection_lost(self, exc: Exception | None) -> None:
            super().connection_lost(exc)
            self._stop_client_timer()
            limiter.remove(self)

        def evict(self) -> None:
            self.transport.abort()

        def _stop_client_timer(self) -> None:
            if self.client_timer is not None:
                self.client_timer.cancel()
                self.client_timer = None
                limiter.unmark_waiting(self)

    return LimitedWebSocketProtocol


def enable_tcp_keepalive(transport: asyncio.Transport, timeout_s: float) -> None:
    """Enable TCP keep-alive and the TCP user timeout: they end the connection of a host that vanished."""
    sock = transport.get_extra_info("socket")
    if sock is None or sock.family not in (socket.AF_INET, socket.AF_INET6):
        return
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in (
            ("TCP_KEEPIDLE", max(round(timeout_s), 1)),
            ("TCP_KEEPINTVL", max(round(timeout_s / 3), 1)),
            ("TCP_KEEPCNT", 3),
            ("TCP_USER_TIMEOUT", round(timeout_s * 1000)),
        ):
            if hasattr(socket, name):
                sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
    except OSError:
        pass  # the client is gone, or the system cannot; the timers work without it


async def respond_busy(scope: Scope, receive: Receive, send: Send) -> None:
    """ASGI application that answers every request with 503, for connections above the limit."""
    sentence = "too many connections are open; try again in a moment"
    status, headers, body = encode_problem(Problem(503, "busy", sentence, retry_after_s=1.0))
    head = [*headers, (b"connection", b"close")]
    await send({"type": "http.response.start", "status": status, "headers": head})
    await send({"type": "http.response.body", "body": body})
