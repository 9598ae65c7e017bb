"""Answers, on their way to whoever asked."""

from __future__ import annotations

import asyncio
from typing import Any

from mainstay.core.where import Where
from mainstay.server.bounds import Receive, Send
from mainstay.server.doors import Doors
from mainstay.server.events_stream import ALIVE
from mainstay.server.openai.hearing import Hearing
from mainstay.server.openai.refusals import spent
from mainstay.server.openai.voices import Voice, encode
from mainstay.server.problems import JSON, PRIVATE, Problem, traced
from mainstay.server.quota import KIND, refused

BEGINS_S = 0.25  # in which a turn that is refused has ended
Header = tuple[bytes, bytes]
STREAM: list[Header] = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"x-accel-buffering", b"no"),  # a proxy that gathers answers leaves this one alone
    *PRIVATE,
]


def in_session(name: str) -> list[Header]:
    """So that a client that did not name a session can do so from now on; where a header can say it."""
    return [(b"x-session", name.encode())] if name and name.isascii() and name.isprintable() else []


async def tell(value: Any, send: Send, *, session: str = "", trace: str = "") -> None:
    body = encode(value)
    headers = [JSON, *PRIVATE, *in_session(session), *traced(None, trace), (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def problem_with(hearing: Hearing) -> Problem | None:
    """What became of a prompt that was taken, if that is no answer."""
    answer, visit, session = hearing.answer, hearing.visit, hearing.begun.session
    wrong = spent(hearing.trouble, answer.failure, visit, session)
    if wrong is not None or refused(answer.outcome, answer.usage) is None:
        return wrong
    where = Where(session, answer.turn, 0, await visit.trace(session, answer.turn))
    return refused(answer.outcome, answer.usage, where)


async def tell_as_it_comes(hearing: Hearing, voice: Voice, doors: Doors, receive: Receive, send: Send) -> bool:
    """False: nothing was told, because a budget refused the turn; that has a status of its own."""
    stream = _Stream(hearing, voice, send)
    there = False
    try:
        await hearing.run(doors, receive, stream.say, stream.nudge)
        there = not hearing.gone
    finally:
        await stream.settle(there=there)
    if hearing.gone:
        return True
    problem = await problem_with(hearing)
    if problem is not None and problem.kind == KIND and not stream.begun:
        return False
    await stream.end(voice.end(hearing.answer) if problem is None else voice.fail(problem, hearing.answer))
    return True


class _Stream:
    """One message to the connection for whatever is there to be said. A turn that a budget refuses ends at once: what
    comes before a model has spoken is held back for a moment, since there is no status after the first word."""

    def __init__(self, hearing: Hearing, voice: Voice, send: Send) -> None:
        self.begun = False
        self._hearing = hearing
        self._voice = voice
        self._send = send
        self._first = voice.begin()
        self._held = b""
        self._beginning = asyncio.Lock()
        self._task: asyncio.Task[None] | None = None
        self._timer = asyncio.get_running_loop().call_later(BEGINS_S, self._begin_by_itself)

    async def say(self, text: str) -> None:
        said = self._voice.say(text)
        if not self.begun and not self._hearing.answer.spoke:
            self._held += said
            return
        await self._begin()
        await self._write(said)

    async def nudge(self) -> None:
        await self._begin()
        await self._write(ALIVE)

    async def end(self, last: bytes) -> None:
        await self._begin()
        await self._send({"type": "http.response.body", "body": last})

    async def settle(self, *, there: bool) -> None:
        """Whatever it began by itself is done, or left if nobody is `there` to hear it."""
        self._timer.cancel()
        if self._task is not None:
            if not there:
                self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def _begin_by_itself(self) -> None:
        self._task = asyncio.create_task(self._begin())

    async def _begin(self) -> None:
        async with self._beginning:
            if self.begun:
                return
            visit, begun, answer = self._hearing.visit, self._hearing.begun, self._hearing.answer
            trace = await visit.trace(begun.session, answer.turn or begun.ticket.turn)
            headers = [*STREAM, *in_session(begun.session), *traced(None, trace)]
            self.begun = True
            await self._send({"type": "http.response.start", "status": 200, "headers": headers})
            await self._write(self._first + self._held)

    async def _write(self, body: bytes) -> None:
        await self._send({"type": "http.response.body", "body": body, "more_body": True})
