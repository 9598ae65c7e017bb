"""Server-sent events: what happens in a session, as it happens, to somebody who may be slow, or gone.

Each durable event has its sequence as its id, so that a client that comes again says which it saw last; partial ones
have none. Whatever waits for a client goes out in one piece. There is no buffer of our own beyond that: a client that
does not read holds up its own stream alone, and catches up from the journal if it reads on in time.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any, cast

import msgspec

from mainstay.core.errors import MainstayError
from mainstay.core.events import ApprovalAsked, Event, TurnEnded
from mainstay.gateway.visit import Visit
from mainstay.server.bounds import Receive, Send
from mainstay.server.doors import Doors
from mainstay.server.entry import stays
from mainstay.server.problems import PRIVATE, Problem, told, traced
from mainstay.server.ready import Ready
from mainstay.server.shown import Shown
from mainstay.server.troubles import trouble_for

KEEP_ALIVE_S = 15.0
PIECE_BYTES = 64 * 1024
ALIVE = b":\n\n"
BYE = b"event: bye\nretry: 1000\ndata: {}\n\n"
HEAD = {"type": "http.response.start", "status": 200}
HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"x-accel-buffering", b"no"),  # a proxy that gathers answers leaves this one alone
    *PRIVATE,
]
_encoder = msgspec.json.Encoder()
_openings: dict[type, bytes] = {}


def write_event(event: Event, into: bytearray) -> None:
    if event.sequence:
        into += b"id: %d\n" % event.sequence
    kind = type(event)
    opening = _openings.get(kind)
    if opening is None:
        opening = _openings[kind] = f"event: {kind.__struct_config__.tag}\ndata: ".encode()
    into += opening
    try:
        _encoder.encode_into(event, into, -1)
    except UnicodeEncodeError:  # half a character, from a model that broke off in its midst
        into += encode(event)
    into += b"\n\n"


def encode(event: Event) -> bytes:
    """As JSON, whatever it holds."""
    try:
        return _encoder.encode(event)
    except UnicodeEncodeError:
        return _encoder.encode(_mended(msgspec.to_builtins(event)))


def _mended(value: Any) -> Any:
    match value:
        case str():
            return value.encode(errors="replace").decode()
        case dict():
            return {_mended(key): _mended(item) for key, item in value.items()}
        case list() | tuple():
            return [_mended(item) for item in value]
    return value


class EventStream:
    """One client and what it hears, for as long as it may. `turn`: it ends by itself, as a turn does."""

    def __init__(self, doors: Doors, receive: Receive, send: Send, visit: Visit, *, turn: bool) -> None:
        self.turn = turn
        self._visit = visit
        self._doors = doors
        self._receive = receive
        self._send = send
        self._task: asyncio.Task[Any] | None = None
        self._nudges: set[asyncio.Task[None]] = set()
        self._why: bytes | None = None  # it was cut short, and this is to be said; empty: there is nobody to hear it
        self._sent_at = 0.0
        self._sending = False

    async def run(self, events: AsyncIterator[Event], shown: Shown, trace: str = "") -> None:
        """Until they end, or the client goes, or the server. `trace` is what they are found under, if that is known."""
        ready = Ready(events)
        self._task = task = cast("asyncio.Task[Any]", asyncio.current_task())
        self._sent_at = asyncio.get_running_loop().time()
        listening = asyncio.create_task(self._listen())
        self._doors.listen(self, KEEP_ALIVE_S / 3)
        last = b""
        try:
            await self._send({**HEAD, "headers": [*HEADERS, *traced(None, trace)]})
            newest = await self._pump(ready, shown)
            seen_before = newest is None and self.turn  # whoever comes again knew its end already
            if not (seen_before or isinstance(newest, TurnEnded | ApprovalAsked)):
                last = BYE  # there was more to come, but nobody to tell it
        except asyncio.CancelledError:
            if self._why is None or task.uncancel():
                raise  # it was not ours
            last = self._why
        except MainstayError as error:
            last = self._trouble(error)
        finally:
            self._doors.leave(self)
            listening.cancel()
            await ready.aclose()
        if self._why != b"":
            await self._send({"type": "http.response.body", "body": last, "more_body": False})

    async def _pump(self, ready: Ready[Event], shown: Shown) -> Event | None:
        """Gives the last."""
        waiting = bytearray()
        newest: Event | None = None
        take, wait, now = ready.take, ready.wait, asyncio.get_running_loop().time
        try:
            while True:
                event = take()
                if event is None or len(waiting) >= PIECE_BYTES:
                    if waiting:
                        self._sending = True
                        await self._send({"type": "http.response.body", "body": bytes(waiting), "more_body": True})
                        self._sending = False
                        self._sent_at = now()
                        waiting.clear()
                    if event is None:
                        event = await wait()
                newest = event
                write_event(shown(event), waiting)
        except StopAsyncIteration:
            if waiting:
                await self._send({"type": "http.response.body", "body": bytes(waiting), "more_body": True})
            return newest

    async def _listen(self) -> None:
        """A client has nothing more to say, but that it hangs up."""
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self._cut(b"")

    # --- from outside ----------------------------------------------------------------------------

    def goodbye(self) -> None:
        self._cut(BYE)

    def heard(self, reply: asyncio.Future[Any]) -> None:
        """What was waited for has come. If that is trouble, no event tells of it."""
        if not reply.cancelled() and isinstance(error := reply.exception(), MainstayError):
            self._cut(self._trouble(error))

    def keep_alive(self, now: float) -> None:
        if not stays(self._doors, self._visit.principal):
            self._cut(trouble(Problem(401, "unauthorised", "this key is not valid any more")))
        elif now - self._sent_at >= KEEP_ALIVE_S and not self._sending:
            self._sent_at = now
            nudge = asyncio.create_task(self._nudge())
            self._nudges.add(nudge)
            nudge.add_done_callback(self._nudges.discard)

    async def _nudge(self) -> None:
        if self._why is None and not self._sending and self in self._doors.listening:
            await self._send({"type": "http.response.body", "body": ALIVE, "more_body": True})

    def _trouble(self, error: MainstayError) -> bytes:
        return trouble(trouble_for(error, "a stream", self._visit))

    def _cut(self, why: bytes) -> None:
        if self._why is None and self._task is not None and self in self._doors.listening:
            self._why = why
            self._task.cancel()


def trouble(problem: Problem) -> bytes:
    return b"event: problem\ndata: " + msgspec.json.encode(told(problem)) + b"\n\n"
