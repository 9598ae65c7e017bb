"""Sends answers over HTTP: whole as JSON, or streamed as server-sent events."""

from __future__ import annotations

import asyncio

from mainstay.core.asgi import Receive, Send
from mainstay.core.turn_location import TurnLocation
from mainstay.operations.event_feed import find_trace_id
from mainstay.server.http_state import HttpServerState
from mainstay.server.openai.encoder_protocol import AnswerEncoder, encode_json
from mainstay.server.openai.errors import find_turn_problem
from mainstay.server.openai.turn_follower import TurnFollower
from mainstay.server.problems import JSON_CONTENT_TYPE, PRIVATE_HEADERS, Problem, trace_headers
from mainstay.server.quota_problem import QUOTA_PROBLEM, find_quota_problem
from mainstay.server.server_sent_events import KEEP_ALIVE_COMMENT

HOLD_BACK_S = 0.25  # in which a turn that a budget refuses ends: until then no response is started
HttpHeader = tuple[bytes, bytes]
STREAM_HEADERS: list[HttpHeader] = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"x-accel-buffering", b"no"),  # nginx does not buffer the response then
    *PRIVATE_HEADERS,
]


def session_headers(name: str) -> list[HttpHeader]:
    """Return the header with the session's name, for clients that did not name one; empty if it is not ASCII."""
    return [(b"x-session", name.encode())] if name and name.isascii() and name.isprintable() else []


async def send_json_response(value: object, send: Send, *, session: str = "", trace: str = "") -> None:
    body = encode_json(value)
    headers = [
        JSON_CONTENT_TYPE,
        *PRIVATE_HEADERS,
        *session_headers(session),
        *trace_headers(None, trace),
        (b"content-length", b"%d" % len(body)),
    ]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def find_problem(follower: TurnFollower) -> Problem | None:
    """Return the problem of a turn that ended without an answer, if it did."""
    answer, caller, session = follower.answer, follower.caller, follower.started.session
    problem = find_turn_problem(follower.error, answer.failure, caller, session)
    if problem is not None or find_quota_problem(answer.outcome, answer.usage) is None:
        return problem
    location = TurnLocation(
        session, answer.turn, 0, await find_trace_id(await caller.runtime(), caller.session_key(session), answer.turn)
    )
    return find_quota_problem(answer.outcome, answer.usage, location)


async def stream_response(
    follower: TurnFollower, encoder: AnswerEncoder, state: HttpServerState, receive: Receive, send: Send
) -> bool:
    """Stream the answer. Return False if a budget refused the turn and nothing was sent: the caller sends the error."""
    stream = _ResponseStream(follower, encoder, send)
    connected = False
    try:
        await follower.run(state, receive, stream.send_text, stream.send_keep_alive)
        connected = not follower.is_disconnected
    finally:
        await stream.finish_start(is_connected=connected)
    if follower.is_disconnected:
        return True
    problem = await find_problem(follower)
    if problem is not None and problem.kind == QUOTA_PROBLEM and not stream.started:
        return False
    await stream.send_end(
        encoder.encode_end(follower.answer) if problem is None else encoder.encode_failure(problem, follower.answer)
    )
    return True


class _ResponseStream:
    """The streamed response. Text that comes before a model has written anything is held back for HOLD_BACK_S: a turn
    that a budget refuses ends within that time, and gets an error status, which a started stream could not have."""

    def __init__(self, follower: TurnFollower, encoder: AnswerEncoder, send: Send) -> None:
        self.started = False
        self._follower = follower
        self._encoder = encoder
        self._send = send
        self._first_chunk = encoder.encode_start()
        self._held_back = b""
        self._start_lock = asyncio.Lock()
        self._start_task: asyncio.Task[None] | None = None
        self._start_timer = asyncio.get_running_loop().call_later(HOLD_BACK_S, self._start_on_timer)

    async def send_text(self, text: str) -> None:
        data = self._encoder.encode_text(text)
        if not self.started and not self._follower.answer.has_model_text:
            self._held_back += data
            return
        await self._start()
        await self._write(data)

    async def send_keep_alive(self) -> None:
        await self._start()
        await self._write(KEEP_ALIVE_COMMENT)

    async def send_end(self, last_chunk: bytes) -> None:
        await self._start()
        await self._send({"type": "http.response.body", "body": last_chunk})

    async def finish_start(self, *, is_connected: bool) -> None:
        """Stop the timer, and wait for the task that it started, or cancel the task if the client is gone."""
        self._start_timer.cancel()
        if self._start_task is not None:
            if not is_connected:
                self._start_task.cancel()
            await asyncio.gather(self._start_task, return_exceptions=True)

    def _start_on_timer(self) -> None:
        self._start_task = asyncio.create_task(self._start())

    async def _start(self) -> None:
        async with self._start_lock:
            if self.started:
                return
            caller, started, answer = self._follower.caller, self._follower.started, self._follower.answer
            turn = answer.turn or started.pending.turn
            trace = await find_trace_id(await caller.runtime(), caller.session_key(started.session), turn)
            headers = [*STREAM_HEADERS, *session_headers(started.session), *trace_headers(None, trace)]
            self.started = True
            await self._send({"type": "http.response.start", "status": 200, "headers": headers})
            await self._write(self._first_chunk + self._held_back)

    async def _write(self, body: bytes) -> None:
        await self._send({"type": "http.response.body", "body": body, "more_body": True})
