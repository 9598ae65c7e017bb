"""Somebody who listens to a turn until there is something for them to do. If they go away, it goes on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any, cast

from mainstay.core.errors import AgentClosed, MainstayError
from mainstay.core.events import ApprovalAsked, Event, Steered, TurnStarted
from mainstay.gateway.visit import NotAllowed, Visit
from mainstay.server.bounds import Receive
from mainstay.server.doors import Doors
from mainstay.server.entry import stays
from mainstay.server.openai.answer import Answer, closing
from mainstay.server.openai.ids import Spot
from mainstay.server.openai.memory import Begun
from mainstay.server.ready import Ready

KEEP_ALIVE_S = 15.0
PIECE_CHARS = 16 * 1024  # so much is gathered at most before it is sent
STOPPED = "the server is being stopped; what was asked goes on when it is started again"

Say = Callable[[str], Awaitable[None]]
Nudge = Callable[[], Awaitable[None]]


class Hearing:
    """Made right after the prompt was taken: it listens from then on, so that nothing of the answer is lost."""

    turn = True  # it ends by itself

    def __init__(self, visit: Visit, begun: Begun, *, partial: bool) -> None:
        self.begun = begun
        self.visit = visit
        self.answer = Answer(begun.session, begun.call, partial=partial, late=begun.again)
        self.trouble: MainstayError | None = None
        self.gone = False
        self._results = dict(begun.results)
        self._ready: Ready[Event] = Ready(self._events())
        self._first = self._begin()
        self._doors: Doors | None = None
        self._task: asyncio.Task[Any] | None = None
        self._cut_short = False
        self._nudge: Nudge | None = None
        self._nudges: set[asyncio.Task[None]] = set()
        self._said_at = 0.0
        self._saying = False

    def _begin(self) -> Event | None:
        try:
            return self._ready.take()
        except StopAsyncIteration:  # and is told so again
            return None

    async def run(self, doors: Doors, receive: Receive, say: Say | None = None, nudge: Nudge | None = None) -> None:
        """To the end. `say` hears what is said, as much at a time as is there; `nudge` is called if there is nothing
        for long. What went wrong is `trouble`."""
        self._doors, self._nudge = doors, nudge
        self._task = task = cast("asyncio.Task[Any]", asyncio.current_task())
        self._said_at = asyncio.get_running_loop().time()
        listening = asyncio.create_task(self._listen(receive))
        doors.listen(self, KEEP_ALIVE_S / 3)
        try:
            if self.begun.more:
                await self.visit.steer(self.begun.session, self.begun.more)
            await self._pump(say)
        except asyncio.CancelledError:
            if not self._cut_short or task.uncancel():
                raise  # it was not ours
        except MainstayError as error:
            self.trouble = error
        finally:
            doors.leave(self)
            listening.cancel()
            await self._ready.aclose()

    async def close(self) -> None:
        await self._ready.aclose()

    async def _pump(self, say: Say | None) -> None:
        waiting: list[str] = []
        size = 0
        event, self._first = self._first, None
        try:
            while True:
                if event is not None and (text := self.answer.take(event)):
                    waiting.append(text)
                    size += len(text)
                event = self._ready.take() if size < PIECE_CHARS else None
                if event is None and waiting:
                    await self._say(say, waiting)
                    size = 0
                elif event is None:
                    event = await self._ready.wait()
        except StopAsyncIteration:
            waiting.append(self.answer.end())
            await self._say(say, waiting)
        if not self.answer.over and self.answer.asked is None:
            self.trouble = AgentClosed(STOPPED)

    async def _say(self, say: Say | None, waiting: list[str]) -> None:
        text = "".join(waiting)
        waiting.clear()
        if say is not None and text:
            self._saying = True
            await say(text)
            self._saying = False
            self._said_at = asyncio.get_running_loop().time()

    async def _events(self) -> AsyncGenerator[Event, None]:
        """Of the turn, until there is something for the client to do. Results that it sent in advance are handed in
        as the model comes to them."""
        session, ticket = self.begun.session, self.begun.ticket
        while True:
            asked: ApprovalAsked | None = None
            ticket.reply.add_done_callback(self._look)
            async with closing(self.visit.turn(session, ticket, drafts=False)) as events:
                async for event in events:
                    yield event
                    if self.answer.over:
                        asked = self.answer.asked
                        break
            if asked is None or asked.call_id not in self._results:
                return
            ticket = await self.visit.hand_in(session, asked.call_id, self._results.pop(asked.call_id))
            self.answer.go_on(asked.call_id)

    # --- from outside ----------------------------------------------------------------------------

    async def _listen(self, receive: Receive) -> None:
        """Whoever asked has nothing more to say, but that they hang up."""
        while (await receive())["type"] != "http.disconnect":
            pass
        self.gone = True
        self._cut(None)

    def _look(self, reply: asyncio.Future[Any]) -> None:
        """A turn that could not go on has no end on record that one could wait for."""
        if not reply.cancelled() and isinstance(error := reply.exception(), MainstayError):
            self._cut(error)

    def goodbye(self) -> None:
        self._cut(AgentClosed(STOPPED))

    def keep_alive(self, now: float) -> None:
        if self._doors is not None and not stays(self._doors, self.visit.principal):
            self._cut(NotAllowed("this key is not valid any more"))
        if self._nudge is None or self._saying or now - self._said_at < KEEP_ALIVE_S:
            return
        self._said_at = now
        nudge = asyncio.create_task(self._still(self._nudge))
        self._nudges.add(nudge)
        nudge.add_done_callback(self._nudges.discard)

    async def _still(self, nudge: Nudge) -> None:
        if not self._saying and self._doors is not None and self in self._doors.listening:
            await nudge()

    def _cut(self, error: MainstayError | None) -> None:
        running = self._doors is not None and self in self._doors.listening
        if running and not self._cut_short and self._task is not None:
            self._cut_short, self.trouble = True, error
            self._task.cancel()


async def recorded(visit: Visit, spot: Spot) -> Answer:
    """What has come of a response by now, as the journal has it. Raises SessionUnknown."""
    answer = Answer(spot.session, spot.call, partial=False)
    head = (await visit.session(spot.session)).head
    turn = 0
    async with closing(visit.follow(spot.session, spot.seq - 1, upto=head, drafts=False)) as events:
        async for event in events:
            if isinstance(event, TurnStarted | Steered) and spot.seq in event.inputs:
                turn = event.turn
            if turn and event.turn == turn:
                answer.take(event)
            if answer.over or event.sequence >= head:
                break
    return answer
