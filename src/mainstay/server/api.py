"""The native API: conversations."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Annotated, Any, cast

import msgspec
from msgspec import Meta

from mainstay.core.errors import AgentClosed
from mainstay.core.events import DURABLE, Event
from mainstay.core.outcome import Reply
from mainstay.core.people import Role, Scope
from mainstay.core.where import Where
from mainstay.server.calls import (
    SEQUENCE_MAX,
    Answer,
    Asked,
    Call,
    Line,
    Nothing,
    Operation,
    Said,
    Sequenced,
    Streamed,
    Word,
)
from mainstay.server.problems import BUSY_S, Problem
from mainstay.server.quota import refused
from mainstay.server.shown import ReplyShown, SessionShown, shown_events, shown_reply, shown_session

PAGE_MAX = 1_000
KEPT = "what you said is kept, and is answered later"


# --- what is asked and answered ------------------------------------------------------------------


class Prompt(Said, frozen=True, kw_only=True):
    """`wait`: until it is answered; otherwise only until it is on disk."""

    wait: bool = True


class Page(Asked, frozen=True, kw_only=True):
    limit: Annotated[int, Meta(ge=1, le=PAGE_MAX)] = 100
    offset: Sequenced = 0


class After(Asked, frozen=True, kw_only=True):
    after: Sequenced = 0  # the sequence of the last event that was seen
    limit: Annotated[int, Meta(ge=1, le=PAGE_MAX)] = PAGE_MAX  # of a page of JSON


class Title(Asked, frozen=True, kw_only=True):
    title: Word


class Fork(Asked, frozen=True, kw_only=True):
    to: Annotated[str, Meta(min_length=1, max_length=512)]
    upto: Annotated[int, Meta(ge=1, le=SEQUENCE_MAX)] | None = None


class Focus(Asked, frozen=True, kw_only=True):
    focus: Line = ""


class Me(msgspec.Struct, frozen=True, kw_only=True):
    person: str  # empty: the owner
    workspace: str
    role: Role
    scopes: list[Scope]
    model: str
    key: str  # its id


class Taken(msgspec.Struct, frozen=True, kw_only=True):
    """It is on disk, and will be answered."""

    session: str
    sequence: int
    turn: int = 0  # 0: it has not begun


class Stopped(msgspec.Struct, frozen=True, kw_only=True):
    aborted: bool  # there was something to stop


class Compacted(msgspec.Struct, frozen=True, kw_only=True):
    summary: str | None  # None: there was nothing to fold


class Happened(msgspec.Struct, frozen=True, kw_only=True):
    """An event where it stands."""

    sequence: int
    at: int  # ms
    event: DURABLE


class Journal(msgspec.Struct, frozen=True, kw_only=True):
    events: list[Happened]
    next: int | None  # what to ask for the next page `after`; None: there is no more yet


class Sessions(msgspec.Struct, frozen=True, kw_only=True):
    sessions: list[SessionShown]


# --- a conversation ------------------------------------------------------------------------------


async def me(call: Call) -> Me:
    who = call.visit.principal
    return Me(
        person=who.person,
        workspace=call.visit.workspace,
        role=who.role,
        scopes=sorted(who.scopes),
        model=call.visit.model,
        key=who.key,
    )


async def prompt(call: Call) -> Any:
    body: Prompt = call.body
    ticket = await call.visit.accept(call.session, body.as_parts(), id=_id(call, body))
    if call.streamed:
        events, seen = call.visit.turn(call.session, ticket), _last_seen(call)
        shown, trace = shown_events(call.visit, call.session), await call.visit.trace(call.session, ticket.turn)
        return Streamed(_unseen(events, seen) if seen else events, shown, ticket.reply, trace)
    if not body.wait:
        trace = await call.visit.trace(call.session, ticket.turn)
        return Answer(Taken(session=call.session, sequence=ticket.seq, turn=ticket.turn), 202, trace)
    reply = await _answered(call, ticket.reply)
    where = Where(call.session, reply.turn, 0, reply.trace)
    if (problem := refused(reply.outcome, reply.usage, where)) is not None:
        raise problem
    return Answer(shown_reply(reply, call.visit, call.session), 200, reply.trace)


async def _answered(call: Call, reply: asyncio.Future[Reply]) -> Reply:
    """The turn goes on whether anybody waits for it or not."""
    closing = asyncio.create_task(call.doors.closing.wait())
    try:
        await asyncio.wait((reply, closing), return_when=asyncio.FIRST_COMPLETED)
    finally:
        closing.cancel()
    if not reply.done():
        raise Problem(503, "stopping", f"the server is being stopped; {KEPT}", BUSY_S)
    try:
        return reply.result()
    except AgentClosed:  # it is opened anew, with other settings
        raise Problem(503, "stopping", f"the turn was put aside; {KEPT}", BUSY_S) from None


def _id(call: Call, body: Said) -> str:
    return body.id or call.request.headers.get("idempotency-key", "")[:200]


def _last_seen(call: Call) -> int:
    """What a client that lost its stream had of it."""
    given = call.request.headers.get("last-event-id", "")
    if not given:
        return 0
    if not (given.isascii() and given.isdigit()) or int(given[:20]) > SEQUENCE_MAX:
        raise Problem(400, "invalid_request", "`Last-Event-ID` is the number of an event")
    return int(given)


async def _unseen(events: AsyncIterator[Event], seen: int) -> AsyncIterator[Event]:
    async for event in events:
        if not event.sequence or event.sequence > seen:
            yield event


async def steer(call: Call) -> Any:
    body: Said = call.body
    ticket = await call.visit.steer(call.session, body.as_parts(), id=_id(call, body))
    return Taken(session=call.session, sequence=ticket.seq, turn=ticket.turn)


async def abort(call: Call) -> Stopped:
    await call.visit.session(call.session)
    return Stopped(aborted=await call.visit.abort(call.session))


async def events(call: Call) -> Any:
    query: After = call.query
    await call.visit.session(call.session)
    shown = shown_events(call.visit, call.session)
    if call.streamed:
        return Streamed(call.visit.follow(call.session, _last_seen(call) or query.after), shown)
    page = await call.visit.records(call.session, query.after, query.limit)
    found = [Happened(sequence=one.seq, at=one.at, event=cast(DURABLE, shown(one.event))) for one in page]
    return Journal(events=found, next=page[-1].seq if len(page) == query.limit else None)


# --- conversations as a whole --------------------------------------------------------------------


async def sessions(call: Call) -> Sessions:
    query: Page = call.query
    found = await call.visit.sessions(query.limit, query.offset)
    return Sessions(sessions=[shown_session(one, call.visit) for one in found])


async def session(call: Call) -> SessionShown:
    return shown_session(await call.visit.session(call.session), call.visit)


async def delete(call: Call) -> None:
    await call.visit.delete(call.session)


async def archive(call: Call) -> SessionShown:
    await call.visit.archive(call.session)
    return await session(call)


async def activate(call: Call) -> SessionShown:
    await call.visit.activate(call.session)
    return await session(call)


async def rename(call: Call) -> SessionShown:
    await call.visit.rename(call.session, call.body.title)
    return await session(call)


async def fork(call: Call) -> SessionShown:
    body: Fork = call.body
    return shown_session(await call.visit.fork(call.session, body.to, body.upto), call.visit)


async def compact(call: Call) -> Compacted:
    return Compacted(summary=await call.visit.compact(call.session, call.body.focus))


_ONE = "/api/sessions/{id}"
CONVERSATIONS = (
    Operation(method="GET", path="/api/me", do=me, says="Who I am here, and what I may do", answers=Me),
    Operation(
        method="POST",
        path=f"{_ONE}/prompt",
        do=prompt,
        says="Say something; the answer as JSON, or as it comes (SSE)",
        body=Prompt,
        answers=ReplyShown,
        streams=True,
    ),
    Operation(
        method="POST",
        path=f"{_ONE}/steer",
        do=steer,
        says="Say something to the running turn",
        body=Said,
        answers=Taken,
    ),
    Operation(
        method="POST", path=f"{_ONE}/abort", do=abort, says="Stop the running turn", body=Nothing, answers=Stopped
    ),
    Operation(
        method="GET",
        path=f"{_ONE}/events",
        do=events,
        says="What has happened, and what happens (SSE); or a page of it, as JSON",
        query=After,
        answers=Journal,
        streams=True,
        always=True,
    ),
    Operation(
        method="GET",
        path="/api/sessions",
        do=sessions,
        says="Conversations, the newest first",
        query=Page,
        answers=Sessions,
    ),
    Operation(method="GET", path=_ONE, do=session, says="A conversation", answers=SessionShown),
    Operation(method="DELETE", path=_ONE, do=delete, says="Forget a conversation", status=204),
    Operation(
        method="POST", path=f"{_ONE}/archive", do=archive, says="Take no more", body=Nothing, answers=SessionShown
    ),
    Operation(
        method="POST", path=f"{_ONE}/activate", do=activate, says="Take more again", body=Nothing, answers=SessionShown
    ),
    Operation(
        method="POST", path=f"{_ONE}/rename", do=rename, says="Give it a title", body=Title, answers=SessionShown
    ),
    Operation(
        method="POST",
        path=f"{_ONE}/fork",
        do=fork,
        says="A new conversation with a copy of its past",
        body=Fork,
        answers=SessionShown,
        status=201,
    ),
    Operation(
        method="POST", path=f"{_ONE}/compact", do=compact, says="Fold its past now", body=Focus, answers=Compacted
    ),
)
