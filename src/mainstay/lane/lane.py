"""One conversation: its turns in order, its inputs made durable, its trouble its own."""

from __future__ import annotations

import asyncio
import logging
from typing import Any, Literal

import msgspec

from mainstay.context.rules import window_bytes
from mainstay.core.envelope import Envelope, check_envelope
from mainstay.core.errors import (
    AgentClosed,
    HomeUnusable,
    InputRefused,
    MainstayError,
    StoreCorrupt,
    StoreError,
    StoreFailed,
    StoreTooNew,
)
from mainstay.core.events import ApprovalAnswered, Event, Received, StepRestarted, TurnResumed, TurnStarted, Waiting
from mainstay.core.messages import text_of
from mainstay.core.outcome import Aborted, Failed, Outcome, Paused
from mainstay.core.ports import Once
from mainstay.core.session import Session
from mainstay.lane.arrivals import Arrivals, check_room, meant_in, prompt_of, received_of
from mainstay.lane.attempt import attempt
from mainstay.lane.contexts import LaneContexts
from mainstay.lane.ending import closing_events, find_reply, lacks_a_tool, reply_of
from mainstay.lane.pausing import check_answer, instead, overdue
from mainstay.lane.scribe import Pen
from mainstay.lane.services import Services
from mainstay.lane.tickets import Ticket, Tickets
from mainstay.lane.whereabouts import BROKEN, CLOSED, placed, running, warn_of_store
from mainstay.turn.control import Control
from mainstay.turn.means import Review

log = logging.getLogger("mainstay.lane")


class Lane:
    """Made on the first message, dropped when idle; while idle it is only a view, no task, no timer."""

    __slots__ = (
        "_arrivals", "_closed", "_contexts", "_control", "_door", "_fresh", "_loading", "_outdated", "_pen",
        "_services", "_task", "_tickets", "_turn_over", "_unwanted", "active_at", "key",
    )  # fmt: skip

    def __init__(self, key: str, services: Services) -> None:
        self.key = key
        self._services = services
        self._pen: Pen | None = None
        self._loading: asyncio.Future[Pen] | None = None
        self._task: asyncio.Task[None] | None = None
        self._control: Control | None = None
        self._turn_over: asyncio.Event | None = None
        self._unwanted = 0  # the turn that was aborted, until its end is on disk
        self._tickets = Tickets()
        self._contexts = LaneContexts(services)
        self._door = asyncio.Lock()
        self._arrivals = Arrivals()
        self._fresh = 0  # the turn that was started with its input and has not run yet
        self._closed = False
        self._outdated = False
        self.active_at = 0.0

    @property
    def busy(self) -> bool:
        return bool(self.tasks or self._tickets) or self._loading is not None

    @property
    def tasks(self) -> list[asyncio.Task[Any]]:
        """At work on its turns, or on a fold beside them."""
        return [task for task in (self._task, self._contexts.folding.running) if task is not None]

    @property
    def control(self) -> Control | None:
        """Of the running turn, for the watchdog."""
        return self._control

    # --- in --------------------------------------------------------------------------------------

    async def accept(self, envelope: Envelope, review: Review | None = None) -> Ticket:
        """Returns when the input is on disk."""
        return await self._take_in(envelope, "prompt", review)

    async def steer(self, envelope: Envelope) -> Ticket:
        """Into the running turn at its next boundary; with nothing running, a prompt."""
        if self._control is None:
            return await self.accept(envelope)
        ticket = await self._take_in(envelope, "steer")
        if self._control is not None and self._pen is not None and ticket.seq in self._pen.session.waiting:
            self._control.steer(ticket.seq)
        return ticket

    async def overhear(self, envelope: Envelope) -> bool:
        """Keep something that is no prompt; it is shown with the next one. False if it was there before."""
        envelope = check_envelope(envelope, self._services.limits)
        async with self._door:
            if await self._services.store.seen(self.key, envelope.id) is not None:
                return False
            pen = await self._ready()
            await pen.record_once(Once(envelope.id, envelope.digest), received_of(envelope, "overheard"))
            return True

    async def abort(self) -> bool:
        """End the running turn now; True if there was one. Waiting prompts still run."""
        pen = self._pen if self._closed else await self._ready()
        if pen is None or (turn := pen.session.open) is None:
            return False
        if self._task is None:  # it waits for an approval, and nobody works on it
            await self._close_turn(pen, Aborted())
            return True
        self._unwanted = turn.turn  # also when a failing store keeps its end from being written now
        if self._control is not None and self._turn_over is not None:
            self._control.abort()
            await self._turn_over.wait()
            if self._unwanted and not self._closed:
                raise StoreFailed("the turn was stopped, but its end cannot be stored yet; that is done when it can")
        return True

    async def answer(self, answered: ApprovalAnswered) -> Ticket:
        """What somebody says to the question that the turn waits for; the ticket's reply is the end of the turn."""
        pen = await self._ready()
        tools = self._services.tools.joined(pen.session.guests)
        answered = check_answer(pen.session, answered, self._services.clock.now_ms(), tools)
        turn = pen.session.open
        assert turn is not None
        ticket = self._tickets.get(turn.inputs[-1]) or self._ticket(turn.inputs[-1], None)
        ticket.turn = turn.turn
        await pen.record(answered)
        self.wake()
        return ticket

    async def change(self, *events: Event) -> None:
        """Settings, imported history, a fold: whatever else must be remembered."""
        pen = await self._ready()
        await pen.record(*events)
        self.wake()

    async def view(self) -> Session:
        return (await self._ready()).session

    async def contexts(self) -> LaneContexts:
        """What the model sees, or would see if it were asked now."""
        pen = await self._ready()
        return self._contexts.of(pen, self._services.choose(pen.session.model).model(), self._control)

    def wake(self) -> None:
        """See to it that whatever is unfinished is being worked on."""
        loop = asyncio.get_running_loop()
        self.active_at = loop.time()
        if self._task is None and not self._closed:
            work = running(self._drain, self.key, lambda: self._pen)
            self._task = loop.create_task(work, name=f"lane {self.key}")

    def refresh(self) -> None:
        """Read the session again, once the turn under way is over. Until then no fold of what it was is recorded."""
        self._outdated = self._contexts.folding.held = True
        if self._task is None:
            self._drop()
        elif self._control is None:
            self._pen = None

    def _drop(self) -> None:
        if self._pen is not None:  # a fold under way may still have it
            self._pen.broken = StoreError("the session was changed behind its lane")
        self._pen = None
        self._outdated = self._contexts.folding.held = False

    async def end(self, why: MainstayError) -> None:
        """For good: the running turn is aborted, nothing else begins, and whoever waits is told why."""
        self._closed = True
        await self.abort()
        await self.close(why)

    async def close(self, why: MainstayError | None = None) -> None:
        """Stop where it stands; what is unfinished is resumed by whoever opens the home next."""
        self._closed = True
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait((self._task,))
        await self._contexts.folding.close()
        if self._pen is not None:
            try:
                await self._pen.flush()
            except StoreError as error:
                log.warning("session %s could not be flushed: %s", self.key, error)
        self._tickets.fail(placed(why or AgentClosed(CLOSED), self.key, self._pen))

    # --- the view --------------------------------------------------------------------------------

    async def _ready(self) -> Pen:
        if self._closed:
            raise AgentClosed("the agent is closed")
        if self._pen is not None and self._pen.broken is None:
            return self._pen
        if self._loading is None:
            self._loading = asyncio.ensure_future(self._load())
        try:
            return await asyncio.shield(self._loading)
        finally:
            if self._loading is not None and self._loading.done():
                self._loading = None

    async def _load(self) -> Pen:
        services = self._services
        tail = await services.store.load(self.key, window_bytes(services.choose("").model(), services.rules))
        session = Session.of(tail) if tail is not None else Session(self.key)
        session.partial = tail is not None and not tail.complete
        limits = services.limits
        self._pen = Pen(session, services.store, services.clock, limits.ride_along_s, services.hub, services.touched)
        return self._pen

    def _ticket(self, seq: int, review: Review | None) -> Ticket:
        if self._closed:  # while the session was being read
            raise AgentClosed("the agent is closed")
        return self._tickets.issue(seq, review)

    async def _take_in(
        self, envelope: Envelope, kind: Literal["prompt", "steer"], review: Review | None = None
    ) -> Ticket:
        envelope = check_envelope(envelope, self._services.limits)
        event = received_of(envelope, kind)
        if not envelope.id:
            return await self._keep(event, None, review)
        async with self._door:  # one at a time, so that the second under an id finds the first
            known = await self._known(envelope, review) if (await self._ready()).session.head else None
            return known or await self._keep(event, Once(envelope.id, envelope.digest), review)

    async def _keep(self, event: Received, once: Once | None, review: Review | None) -> Ticket:
        pen = await self._ready()
        if event.kind == "prompt":
            check_room(pen.session, self._services.limits)
        ticket = self._ticket(pen.session.head + 1, review)
        received, *started = self._with_start(pen.session, event, ticket)
        screen = self._services.screen
        news = screen(text_of(event.parts)) if screen is not None else None
        events = (received, *([news] if news is not None else []), *started)
        try:
            await (pen.record(*events) if once is None else pen.record_once(once, *events))
        except BaseException as error:
            self._tickets.pop(ticket.seq, None)
            if isinstance(error, asyncio.CancelledError):  # its sender went away; it may be on disk, and then it runs
                self.wake()
            raise
        self._arrivals.add(ticket.seq)
        self.wake()
        return ticket

    def _with_start(self, session: Session, event: Received, ticket: Ticket) -> tuple[Event, ...]:
        """An input that finds nothing under way starts its turn in the same write."""
        if session.pending is not None:
            return instead(session, event)
        idle = session.open is None and not session.prompted and self._task is None and session.status != "paused"
        if event.kind == "steer" or not idle or self._services.limits.coalesce_window_s > 0:
            return (event,)
        ticket.turn = self._fresh = session.turns + 1
        return event, *self._started(session, (*session.waiting, ticket.seq), meant_in(event.parts))

    def _started(self, session: Session, inputs: tuple[int, ...], prompt: str) -> tuple[Event, ...]:
        model = session.model or self._services.choose("").model().name
        return self._contexts.begin(session, TurnStarted(inputs, turn=session.turns + 1, model=model), prompt)

    async def _known(self, envelope: Envelope, review: Review | None) -> Ticket | None:
        """The ticket of an input that was accepted before under this id."""
        seen = await self._services.store.seen(self.key, envelope.id)
        if seen is None:
            return None
        seq, digest = seen
        if digest != envelope.digest:
            raise InputRefused(f"the id {envelope.id!r} was already used for a different message")
        if (ticket := self._tickets.get(seq)) is not None:
            return ticket
        ticket = self._ticket(seq, review)  # before looking: its turn may end meanwhile
        if self._pen is not None and (turn := self._pen.session.open) is not None and seq in turn.inputs:
            ticket.turn = turn.turn
        if (reply := await find_reply(self._services.store, self.key, seq)) is not None:
            self._tickets.answer((seq,), reply)
        else:
            self.wake()
        return ticket

    # --- turns -----------------------------------------------------------------------------------

    async def _drain(self) -> None:
        failures = 0
        try:
            while not self._closed:
                try:
                    if not await self._next_turn(sure=failures == 0):
                        break
                    failures = 0
                except (StoreCorrupt, StoreTooNew) as error:  # waiting does not mend a file
                    log.error("session %s cannot go on: %s", self.key, error)
                    self._tickets.fail(placed(error, self.key, self._pen))
                    break
                except (StoreError, HomeUnusable) as error:
                    failures += 1
                    await self._wait_for_store(error, failures)
                except Exception:  # a bug of ours: whoever waits must hear of it, and other lanes must not
                    log.exception("lane %s failed", self.key)
                    self._tickets.fail(placed(MainstayError(BROKEN), self.key, self._pen))
                    break
        finally:
            self._task = None
            self.active_at = asyncio.get_running_loop().time()

    async def _next_turn(self, *, sure: bool) -> bool:
        """Run one turn, the unfinished one first; False if there is nothing to do.

        `sure` of the store: after a failure nothing is asked of a model before something could be written."""
        pen = await self._ready()
        session = pen.session
        turn, resumed = session.open, False
        if session.pending is not None:
            if (expired := overdue(session, self._services.clock.now_ms())) is None:
                self._services.approvals.note(self.key, session.pending)
                return False
            await pen.record(expired)
        if turn is not None and (turn.turn == self._fresh or turn.answered == session.head):
            self._fresh = 0
        elif turn is not None and not self._tickets and lacks_a_tool(turn, self._services.tools):
            log.warning("session %s waits for a process that has the tools of its turn", self.key)
            return False
        elif turn is not None:
            resumed = True
            await pen.record(TurnResumed(turn=turn.turn))  # on disk first: a turn that kills its process is counted
            if turn.partial:  # it was streaming: whoever watches drops what came of it
                reason = "the process that ran this turn stopped"
                restarted = StepRestarted(reason, session=self.key, turn=turn.turn, step=turn.step + 1)
                pen(restarted)
        elif not session.prompted or session.status == "paused":
            return False
        else:
            inputs = await self._choose(session)
            if not inputs:
                return True
            started = self._started(session, inputs, prompt_of(session, inputs))
            if sure:
                pen.note(*started, soon=True)
            else:
                await pen.record(*started)
        await self._run(pen, resumed=resumed)
        return True

    async def _choose(self, session: Session) -> tuple[int, ...]:
        """The next input; within the coalescing window, what the same sender adds to it."""
        window_s = self._services.limits.coalesce_window_s
        if window_s > 0:
            await self._arrivals.wait(window_s, self._services.clock)
        return self._arrivals.take(session.waiting.values(), window_s)

    async def _run(self, pen: Pen, *, resumed: bool) -> None:
        session = pen.session
        turn = session.open
        assert turn is not None
        tickets = [self._tickets[seq] for seq in turn.inputs if seq in self._tickets]
        for ticket in tickets:
            ticket.turn = turn.turn
        control = self._control = Control()
        over = self._turn_over = asyncio.Event()
        try:
            if resumed or turn.answers:  # steers that a crash, or a pause, kept from reaching their turn
                control.steers += [one.seq for one in session.waiting.values() if one.event.kind == "steer"]
            control.aborted = self._unwanted == turn.turn
            review = next((one.review for one in tickets if one.review), None)
            outcome = await attempt(self._services, self._contexts, pen, control, review)
            await self._close_turn(pen, outcome)
        finally:
            self._control = None
            over.set()
        if self._outdated:
            self._drop()
        else:
            self._contexts.after_turn()

    async def _close_turn(self, pen: Pen, outcome: Outcome) -> None:
        session, turn = pen.session, pen.session.open
        assert turn is not None
        reply = reply_of(session, outcome)
        if isinstance(outcome, Failed):
            pen(msgspec.structs.replace(outcome, session=self.key))
        self._services.approvals.note(self.key, session.pending if isinstance(outcome, Paused) else None)
        if not isinstance(outcome, Paused):
            await pen.record(*closing_events(session, outcome))
        self._unwanted = 0
        if not isinstance(outcome, Paused) or session.pending is not None:  # else somebody has answered meanwhile
            self._tickets.answer(turn.inputs, reply)

    async def _wait_for_store(self, error: StoreError | HomeUnusable, failures: int) -> None:
        """Whoever waits is told at once; the work itself goes on when the store does."""
        warn_of_store(self.key, error, failures)
        self._tickets.fail(placed(error, self.key, self._pen))
        limits = self._services.limits
        seconds = min(0.5 * 2 ** min(failures - 1, 20), limits.store_retry_max_s)
        self._services.hub.emit(self.key, Waiting(str(error), seconds, session=self.key))
        await self._services.clock.sleep(seconds)
