"""The native API over a WebSocket: several conversations on one connection.

A client says what it wants done, `{"do": "prompt", "session": "s", "text": "hi"}`, and hears events, each with its
session and, if it is durable, its sequence. There is nothing between a session and the connection that could fill up:
what a client does not read in time is told from the journal, or it is let go of.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any, cast

import msgspec
from starlette.requests import HTTPConnection

from mainstay.core.errors import MainstayError
from mainstay.core.events import Event
from mainstay.gateway.visit import Visit
from mainstay.server.bounds import Receive, Scope, Send, decode_body
from mainstay.server.calls import Said, Sequenced
from mainstay.server.doors import Doors
from mainstay.server.entry import BEARER, check_rate, doors_of, enter, stays
from mainstay.server.events_stream import encode
from mainstay.server.problems import BUSY_S, Problem, Trouble, trouble_of
from mainstay.server.shown import shown_events
from mainstay.server.troubles import trouble_for

FOLLOWED_MAX = 32
CHECK_S = 5.0
GOING, UNWELCOME, BROKEN = 1012, 1008, 1011  # why a connection is closed


class Do(msgspec.Struct, frozen=True, kw_only=True, tag_field="do", forbid_unknown_fields=True):
    session: str


class Prompt(Said, frozen=True, kw_only=True, tag_field="do", tag="prompt"):
    session: str


class Steer(Said, frozen=True, kw_only=True, tag_field="do", tag="steer"):
    session: str


class Abort(Do, frozen=True, kw_only=True, tag="abort"):
    pass


class Follow(Do, frozen=True, kw_only=True, tag="follow"):
    after: Sequenced = 0


class Unfollow(Do, frozen=True, kw_only=True, tag="unfollow"):
    pass


Wanted = Prompt | Steer | Abort | Follow | Unfollow


class Done(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="Done", omit_defaults=True):
    """What was wanted is under way."""

    do: str
    session: str
    id: str = ""
    sequence: int = 0
    aborted: bool = False


class Refused(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="Problem", omit_defaults=True):
    error: Trouble
    session: str = ""
    id: str = ""
    retry_after_s: float = 0.0


class Bye(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="Bye"):
    """The server is being stopped: come again in a moment."""

    retry_ms: int = 1000


async def websocket(scope: Scope, receive: Receive, send: Send) -> None:
    """Whoever may not come in is told before anything is accepted. Raises Problem."""
    request = HTTPConnection(scope)
    visit = await enter(request, stream=True)
    offered = scope.get("subprotocols", [])
    spoken = next((one for one in offered if not one.startswith(BEARER)), offered[0] if offered else None)
    await send({"type": "websocket.accept", "subprotocol": spoken})
    await Socket(visit, doors_of(request), receive, send).run()


class Socket:
    def __init__(self, visit: Visit, doors: Doors, receive: Receive, send: Send) -> None:
        self._visit = visit
        self._doors = doors
        self._receive = receive
        self._send = send
        self._task: asyncio.Task[Any] | None = None
        self._followed: dict[str, asyncio.Task[None]] = {}
        self._turns: set[asyncio.Task[None]] = set()
        self._code = 0  # why it is to be closed
        self._trouble: BaseException | None = None

    @property
    def turn(self) -> bool:
        """Something is being said that has an end."""
        return bool(self._turns)

    async def run(self) -> None:
        self._task = task = cast("asyncio.Task[Any]", asyncio.current_task())
        self._doors.listen(self, CHECK_S)
        try:
            await self._hear()
        except asyncio.CancelledError:
            if not self._code or task.uncancel():
                raise
        except OSError:
            return  # they have hung up
        finally:
            self._doors.leave(self)
            await self._stop((*self._followed.values(), *self._turns))
        if self._trouble is not None:
            raise self._trouble
        if self._code:
            await self._part()

    async def _part(self) -> None:
        try:
            if self._code == GOING:
                await self._say(Bye())
            await self._send({"type": "websocket.close", "code": self._code})
        except OSError:
            pass  # they went first

    async def _hear(self) -> None:
        while True:
            message = await self._receive()
            match message["type"]:
                case "websocket.receive":
                    await self._take(message)
                case "websocket.disconnect":
                    return

    async def _take(self, message: Any) -> None:
        if not stays(self._doors, self._visit.principal):
            self._close(UNWELCOME)
            return
        wanted: Wanted | None = None
        try:
            text = message.get("text")
            if text is None:
                raise Problem(400, "invalid_request", "a message is text, and that is JSON")
            wanted = cast(Wanted, decode_body(text.encode(errors="replace"), Wanted))
            check_rate(self._doors, self._visit.principal)
            await self._say(await self._do(wanted))
        except Problem as problem:
            await self._say(refused(problem, wanted))
        except MainstayError as error:
            await self._say(refused(trouble_for(error, "WS /api/ws", self._visit), wanted))

    async def _do(self, wanted: Wanted) -> Done:
        visit, session = self._visit, wanted.session
        match wanted:
            case Prompt(id=id):
                self._check_room()
                ticket = await visit.accept(session, wanted.as_parts(), id=id)
                if session not in self._followed:
                    self._begin(self._turns.add, self._tell(session, visit.turn(session, ticket)), self._turns.discard)
                return Done(do="prompt", session=session, id=id, sequence=ticket.seq)
            case Steer(id=id):
                ticket = await visit.steer(session, wanted.as_parts(), id=id)
                return Done(do="steer", session=session, id=id, sequence=ticket.seq)
            case Abort():
                await visit.session(session)
                return Done(do="abort", session=session, aborted=await visit.abort(session))
            case Follow(after=after):
                await visit.session(session)
                await self._unfollow(session)
                self._check_room()
                self._follow(session, after)
                return Done(do="follow", session=session)
            case Unfollow():
                await self._unfollow(session)
                return Done(do="unfollow", session=session)

    def _check_room(self) -> None:
        if self._doors.draining:
            raise Problem(503, "stopping", "the server is being stopped; try again in a moment", BUSY_S)
        if len(self._followed) + len(self._turns) >= FOLLOWED_MAX:
            raise Problem(429, "too_many_streams", f"{FOLLOWED_MAX} conversations are heard here already", BUSY_S)

    def _follow(self, session: str, after: int) -> None:
        def keep(task: asyncio.Task[None]) -> None:
            self._followed[session] = task

        def drop(task: asyncio.Task[None]) -> None:
            if self._followed.get(session) is task:
                del self._followed[session]

        self._begin(keep, self._tell(session, self._visit.follow(session, after)), drop)

    async def _unfollow(self, session: str) -> None:
        task = self._followed.pop(session, None)
        if task is not None:
            await self._stop((task,))

    def _begin(self, keep: Any, work: Any, drop: Any) -> None:
        task = asyncio.create_task(work)
        keep(task)
        task.add_done_callback(drop)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        """One that broke ends the whole connection: nobody waits for what will not come."""
        if not task.cancelled() and (error := task.exception()) is not None:
            self._trouble = self._trouble or error
            self._close(BROKEN)

    async def _stop(self, tasks: tuple[asyncio.Task[None], ...]) -> None:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _tell(self, session: str, events: AsyncIterator[Event]) -> None:
        shown = shown_events(self._visit, session)
        try:
            async for event in events:
                await self._send({"type": "websocket.send", "text": encode(shown(event)).decode()})
        except MainstayError as error:
            await self._say(refused(trouble_for(error, "WS /api/ws", self._visit), None, session))
        except OSError:
            pass  # they have hung up, and whoever listens to them knows

    async def _say(self, what: Any) -> None:
        await self._send({"type": "websocket.send", "text": msgspec.json.encode(what).decode()})

    # --- from outside ----------------------------------------------------------------------------

    def goodbye(self) -> None:
        self._close(GOING)

    def keep_alive(self, now: float) -> None:
        """The protocol asks whether they are there; we ask whether they still may be."""
        if not stays(self._doors, self._visit.principal):
            self._close(UNWELCOME)

    def _close(self, code: int) -> None:
        if not self._code and self._task is not None and self in self._doors.listening:
            self._code = code
            self._task.cancel()


def refused(problem: Problem, wanted: Wanted | None, session: str = "") -> Refused:
    return Refused(
        error=trouble_of(problem),
        session=wanted.session if wanted is not None else session,
        id=wanted.id if isinstance(wanted, Said) else "",
        retry_after_s=problem.retry_after_s or 0.0,
    )
