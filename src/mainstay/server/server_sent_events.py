"""Server-sent events: the events of a session as a streamed HTTP response.

Each durable event has its journal sequence as its id, so that a client that reconnects can say which it saw last
(`Last-Event-ID`); partial events have none. All events that are available go out in one chunk. There is no other
buffer: a client that does not read delays its own stream only, and catches up from the journal if it reads in time.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import msgspec

from mainstay.core.asgi import Receive, Send
from mainstay.core.errors import MainstayError
from mainstay.core.events import ApprovalAsked, Event, TurnEnded
from mainstay.core.surrogates import replace_surrogates_in
from mainstay.operations.caller import Caller
from mainstay.server.authentication import is_still_authorised
from mainstay.server.error_reporting import report_error
from mainstay.server.http_state import HttpServerState
from mainstay.server.pollable_iterator import PollableIterator
from mainstay.server.problems import PRIVATE_HEADERS, Problem, build_error_response, trace_headers

KEEP_ALIVE_S = 15.0
CHUNK_BYTES = 64 * 1024
KEEP_ALIVE_COMMENT = b":\n\n"
STOPPING_EVENT = b"event: bye\nretry: 1000\ndata: {}\n\n"
RESPONSE_START = {"type": "http.response.start", "status": 200}
RESPONSE_HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"x-accel-buffering", b"no"),  # nginx does not buffer the response then
    *PRIVATE_HEADERS,
]
_encoder = msgspec.json.Encoder()
_event_prefixes: dict[type, bytes] = {}


def write_event(event: Event, buffer: bytearray) -> None:
    """Append an event in the format of server-sent events."""
    if event.sequence:
        buffer += b"id: %d\n" % event.sequence
    kind = type(event)
    opening = _event_prefixes.get(kind)
    if opening is None:
        opening = _event_prefixes[kind] = f"event: {kind.__struct_config__.tag}\ndata: ".encode()
    buffer += opening
    try:
        _encoder.encode_into(event, buffer, -1)
    except UnicodeEncodeError:  # a lone surrogate, from a model that stopped in the middle of a character
        buffer += encode_event(event)
    buffer += b"\n\n"


def encode_event(event: Event) -> bytes:
    """Encode an event as JSON, with lone surrogates replaced."""
    try:
        return _encoder.encode(event)
    except UnicodeEncodeError:
        return _encoder.encode(replace_surrogates_in(msgspec.to_builtins(event)))


class EventStreamResponse:
    """Sends the events of a session to one client. `ends_with_turn`: the stream ends by itself, with its turn."""

    def __init__(
        self, state: HttpServerState, receive: Receive, send: Send, caller: Caller, *, ends_with_turn: bool
    ) -> None:
        self.ends_with_turn = ends_with_turn
        self._caller = caller
        self._state = state
        self._receive = receive
        self._send = send
        self._task: asyncio.Task[object] | None = None
        self._keep_alive_tasks: set[asyncio.Task[None]] = set()
        self._last_chunk: bytes | None = (
            None  # to send when ended early; empty: the client is gone; None: not ended early
        )
        self._sent_at = 0.0
        self._sending = False

    async def run(self, events: AsyncIterator[Event], trace: str = "") -> None:
        """Send events until they end, the client disconnects or the server stops. `trace` is the turn's trace id, or
        ""."""
        iterator = PollableIterator(events)
        self._task = task = asyncio.current_task()
        assert task is not None
        self._sent_at = asyncio.get_running_loop().time()
        disconnect = asyncio.create_task(self._wait_for_disconnect())
        self._state.add_stream(self, KEEP_ALIVE_S / 3)
        last_chunk = b""
        try:
            await self._send({**RESPONSE_START, "headers": [*RESPONSE_HEADERS, *trace_headers(None, trace)]})
            last_event = await self._send_events(iterator)
            seen_before = last_event is None and self.ends_with_turn  # a client that reconnected had all events
            if not (seen_before or isinstance(last_event, TurnEnded | ApprovalAsked)):
                last_chunk = STOPPING_EVENT  # the agent was closed before the turn ended
        except asyncio.CancelledError:
            if self._last_chunk is None or task.uncancel():
                raise  # cancelled by another task
            last_chunk = self._last_chunk
        except MainstayError as error:
            last_chunk = self._encode_error(error)
        finally:
            self._state.remove_stream(self)
            disconnect.cancel()
            await iterator.aclose()
        if self._last_chunk != b"":
            await self._send({"type": "http.response.body", "body": last_chunk, "more_body": False})

    async def _send_events(self, iterator: PollableIterator[Event]) -> Event | None:
        """Send events until they end, and return the last one."""
        waiting = bytearray()
        newest: Event | None = None
        take, wait, now = iterator.poll, iterator.wait_next, asyncio.get_running_loop().time
        try:
            while True:
                event = take()
                if event is None or len(waiting) >= CHUNK_BYTES:
                    if waiting:
                        self._sending = True
                        await self._send({"type": "http.response.body", "body": bytes(waiting), "more_body": True})
                        self._sending = False
                        self._sent_at = now()
                        waiting.clear()
                    if event is None:
                        event = await wait()
                newest = event
                write_event(event, waiting)
        except StopAsyncIteration:
            if waiting:
                await self._send({"type": "http.response.body", "body": bytes(waiting), "more_body": True})
            return newest

    async def _wait_for_disconnect(self) -> None:
        """Wait until the client disconnects: it sends nothing else."""
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self._end_early(b"")

    # --- OpenStream ------------------------------------------------------------------------------

    def end_for_shutdown(self) -> None:
        self._end_early(STOPPING_EVENT)

    def keep_alive(self, now: float) -> None:
        if not is_still_authorised(self._state, self._caller.principal):
            self._end_early(encode_problem_event(Problem(401, "unauthorised", "this API key is not valid any more")))
        elif now - self._sent_at >= KEEP_ALIVE_S and not self._sending:
            self._sent_at = now
            task = asyncio.create_task(self._send_keep_alive())
            self._keep_alive_tasks.add(task)
            task.add_done_callback(self._keep_alive_tasks.discard)

    async def _send_keep_alive(self) -> None:
        if self._last_chunk is None and not self._sending and self in self._state.open_streams:
            await self._send({"type": "http.response.body", "body": KEEP_ALIVE_COMMENT, "more_body": True})

    def _encode_error(self, error: MainstayError) -> bytes:
        return encode_problem_event(report_error(error, "a stream", self._caller))

    def _end_early(self, last_chunk: bytes) -> None:
        if self._last_chunk is None and self._task is not None and self in self._state.open_streams:
            self._last_chunk = last_chunk
            self._task.cancel()


def encode_problem_event(problem: Problem) -> bytes:
    return b"event: problem\ndata: " + msgspec.json.encode(build_error_response(problem)) + b"\n\n"
