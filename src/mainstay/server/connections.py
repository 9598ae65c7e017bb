"""HTTP and WebSocket connections for whoever gets to the point. Nobody holds one by saying nothing, by saying it a byte
at a time, or by not listening."""

from __future__ import annotations

import asyncio
import logging
import socket
from typing import Any, cast

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from mainstay.server.crowd import Bounds, Connection, Crowd
from mainstay.server.problems import Problem, said
from mainstay.server.refusals import Refusals

HEAD_BYTES_MAX = 16 * 1024
BODY_BYTES_MIN = 1024  # of a body, in each of its spans of time: less is no progress

log = logging.getLogger("mainstay.http")


class Quick(h11.Connection):
    """A piece of a streamed answer is framed here: h11 spends three times as long on it, and there are many."""

    pieces = False

    def send(self, event: Any) -> Any:
        if self.pieces and type(event) is h11.Data:
            return b"%x\r\n%b\r\n" % (len(event.data), event.data) if event.data else b""
        made = super().send(event)
        if type(event) is h11.Response:
            self.pieces = b"\r\ntransfer-encoding: chunked\r\n" in made.lower()
        elif type(event) is h11.EndOfMessage:
            self.pieces = False
        return made


class Prompt(H11Protocol):
    """HTTP, for one server's crowd."""

    crowd: Crowd
    bounds: Bounds
    refusals: Refusals
    waits: asyncio.TimerHandle | None = None  # while it is for the other side to go on
    drips: asyncio.TimerHandle | None = None  # while a body is coming
    got = 0  # bytes, since that was last looked at

    def __init__(
        self,
        config: Any,
        server_state: Any,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self.conn = Quick(h11.SERVER, HEAD_BYTES_MAX)
        self.limit_concurrency = None  # the crowd knows better

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        notice_when_gone(transport, self.bounds.read_s)
        if not self.crowd.admit(self, self.client[0] if self.client else ""):
            self.app = busy
        self._watch()

    def data_received(self, data: bytes) -> None:
        self.got += len(data)
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
        self._stop_drips()
        self.crowd.leave(self)

    def go(self) -> None:
        self.connections.discard(self)
        self.transport.abort()

    def handle_websocket_upgrade(self, event: h11.Request) -> None:
        self._calm()
        self._stop_drips()
        if self.app is busy:
            self.transport.abort()
            return
        super().handle_websocket_upgrade(event)
        self.crowd.succeed(self, cast(Connection, self.transport.get_protocol()))

    def send_400_response(self, msg: str) -> None:
        """In our shape."""
        self.refusals.note("a request that is no HTTP", self.client)
        if self.conn.our_state not in (h11.IDLE, h11.SEND_RESPONSE):  # an answer is under way already
            self.transport.abort()
            return
        _, headers, body = said(Problem(400, "invalid_request", "this is no HTTP request, or its head is too large"))
        headers = [*headers, (b"connection", b"close")]
        for part in (h11.Response(status_code=400, headers=headers), h11.Data(data=body), h11.EndOfMessage()):
            self.transport.write(self.conn.send(part))
        self.transport.close()

    # --- those who keep us waiting -----------------------------------------------------------

    def _watch(self) -> None:
        if self.transport.get_protocol() is not self:
            return  # it speaks another protocol now
        unasked = self.conn.our_state in (h11.IDLE, h11.DONE)
        paused = self.flow.write_paused
        if not (unasked or paused or self.transport.is_closing()):
            self._calm()
        elif self.waits is None:  # a byte now and then does not begin it anew
            self.waits = self.loop.call_later(
                self.bounds.read_s if paused else self.bounds.head_s, self.transport.abort
            )
            self.crowd.wait(self)
        if self.drips is None and self._body_is_due():
            self.got = 0
            self.drips = self.loop.call_later(self.bounds.body_s, self._look)

    def _body_is_due(self) -> bool:
        """It is, and it is not we who keep it."""
        coming = self.conn.their_state is h11.SEND_BODY and self.conn.our_state is h11.SEND_RESPONSE
        return coming and not self.flow.read_paused

    def _look(self) -> None:
        self.drips = None
        if not self._body_is_due():
            return
        if self.got < BODY_BYTES_MIN:
            self.refusals.note("a body that does not come", self.client)
            self.transport.abort()
            return
        self.got = 0
        self.drips = self.loop.call_later(self.bounds.body_s, self._look)

    def _stop_drips(self) -> None:
        if self.drips is not None:
            self.drips.cancel()
            self.drips = None

    def _calm(self) -> None:
        if self.waits is not None:
            self.waits.cancel()
            self.waits = None
            self.crowd.calm(self)


def http_protocol(crowd: Crowd, bounds: Bounds) -> type[asyncio.Protocol]:
    class Ours(Prompt):
        pass

    Ours.crowd, Ours.bounds, Ours.refusals = crowd, bounds, Refusals(log)
    return Ours


def websocket_protocol(crowd: Crowd, bounds: Bounds) -> type[asyncio.Protocol]:
    from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol  # some have none

    class Spoken(WebSocketsSansIOProtocol):
        """Pings tell whether anybody is there; whoever does not read is let go of."""

        waits: asyncio.TimerHandle | None = None

        def pause_writing(self) -> None:
            super().pause_writing()
            if self.waits is None:
                self.waits = self.loop.call_later(bounds.read_s, self.transport.abort)
                crowd.wait(self)

        def resume_writing(self) -> None:
            super().resume_writing()
            self._calm()

        def connection_lost(self, exc: Exception | None) -> None:
            super().connection_lost(exc)
            self._calm()
            crowd.leave(self)

        def go(self) -> None:
            self.transport.abort()

        def _calm(self) -> None:
            if self.waits is not None:
                self.waits.cancel()
                self.waits = None
                crowd.calm(self)

    return Spoken


def notice_when_gone(transport: asyncio.Transport, seconds: float) -> None:
    """A host that vanished says nothing more, not even that: what it does not acknowledge in time ends it."""
    made = transport.get_extra_info("socket")
    if made is None or made.family not in (socket.AF_INET, socket.AF_INET6):
        return
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in (
            ("TCP_KEEPIDLE", max(round(seconds), 1)),
            ("TCP_KEEPINTVL", max(round(seconds / 3), 1)),
            ("TCP_KEEPCNT", 3),
            ("TCP_USER_TIMEOUT", round(seconds * 1000)),
        ):
            if hasattr(socket, name):
                made.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
    except OSError:
        pass  # it is gone already, or the system cannot: the timers above hold all the same


async def busy(scope: Any, receive: Any, send: Any) -> None:
    """For whoever there is no room for."""
    sentence = "too many connections are open here; try again in a moment"
    status, headers, body = said(Problem(503, "busy", sentence, retry_after_s=1.0))
    head = [*headers, (b"connection", b"close")]
    await send({"type": "http.response.start", "status": status, "headers": head})
    await send({"type": "http.response.body", "body": body})
