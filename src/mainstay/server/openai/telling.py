"""Answers, on their way to whoever asked."""

from __future__ import annotations

from typing import Any

from mainstay.server.bounds import Receive, Send
from mainstay.server.doors import Doors
from mainstay.server.events_stream import ALIVE
from mainstay.server.openai.hearing import Hearing
from mainstay.server.openai.refusals import spent
from mainstay.server.openai.voices import Voice, encode
from mainstay.server.problems import JSON, PRIVATE, traced
from mainstay.server.quota import refused

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


async def tell_as_it_comes(hearing: Hearing, voice: Voice, doors: Doors, receive: Receive, send: Send) -> None:
    """One message to the connection for whatever is there to be said."""

    async def write(body: bytes) -> None:
        await send({"type": "http.response.body", "body": body, "more_body": True})

    async def say(text: str) -> None:
        await write(voice.say(text))

    async def nudge() -> None:
        await write(ALIVE)

    visit, begun = hearing.visit, hearing.begun
    trace = await visit.trace(begun.session, begun.ticket.turn)
    headers = [*STREAM, *in_session(begun.session), *traced(None, trace)]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await write(voice.begin())
    await hearing.run(doors, receive, say, nudge)
    if hearing.gone:
        return
    answer = hearing.answer
    problem = spent(hearing.trouble, answer.failure, visit, begun.session) or refused(answer.outcome, answer.usage)
    last = voice.end(hearing.answer) if problem is None else voice.fail(problem, hearing.answer)
    await send({"type": "http.response.body", "body": last})
