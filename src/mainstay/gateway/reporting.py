"""Every turn of a session that is in a chat room is told there when it ends, whoever prompted it.

What happens in a workspace is watched, and each turn is then followed in the journal itself, so that nothing is missed
by being slow. After a restart, and now and then, the sessions are looked through for turns that nobody was told of.
"""

from __future__ import annotations

import asyncio
import logging

from mainstay.core.addresses import Address
from mainstay.core.channels import Delivery, Mail
from mainstay.core.envelope import SINGLE
from mainstay.core.errors import MainstayError, SessionUnknown
from mainstay.core.events import Delivered, Event, Lagged, Received
from mainstay.core.ports import Clock, Standing
from mainstay.gateway.delivery import Courier
from mainstay.gateway.drafting import Draft, Writing
from mainstay.gateway.office import Office
from mainstay.gateway.reporter import CATCH_UP_MS, Bench, Reporter, closing, is_question, question_key
from mainstay.gateway.rooms import Rooms

log = logging.getLogger("mainstay.delivery")

SWEEP_S = 60.0
SWEEP_MARGIN_MS = 10 * 60 * 1000
PRUNE_EVERY = 60  # sweeps
PAGE = 500
LOOKED_MAX = 10_000
EVIDENCE = 50  # records that are read to learn where a session was spoken to
RETRY_S = 2.0
RETRY_MAX_S = 60.0
ANSWERED = "it was answered before it could be posted"
BY_PERSON = "user:"  # how a session's key begins where lanes are by person (core/envelope)


class Reporters:
    """Those of one workspace."""

    def __init__(self, office: Office, mail: Mail, rooms: Rooms, courier: Courier, clock: Clock) -> None:
        self._bench = Bench(office, mail, rooms, clock, self.deliver, self._begin_draft)
        self._office = office
        self._mail = mail
        self._rooms = rooms
        self._courier = courier
        self._clock = clock
        self._running: dict[str, asyncio.Task[None]] = {}
        self._newest: dict[str, int] = {}  # turns that have been seen, of sessions that are being followed
        self._writing: dict[str, Writing] = {}
        self._heard: dict[str, Address] = {}  # where sessions were last spoken to, whose keys do not say it
        self._looked: dict[str, int] = {}  # sessions that there was nothing to tell of, up to this turn
        self._since = 0
        self._wake = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """From now on what happens is told, and what was not told yet."""
        loop = asyncio.get_running_loop()
        watching = asyncio.Event()
        self._tasks = [loop.create_task(self._watch(watching))]
        await watching.wait()
        await self.catch_up()
        self._tasks.append(loop.create_task(self._sweep_now_and_then()))

    async def catch_up(self) -> None:
        """With what could not be told before: nobody was there, or the channel was not."""
        await self._learn_rooms()
        self._looked.clear()
        self._since = 0
        await self._sweep()
        for delivery in await self._mail.due():
            if delivery.text or delivery.files:  # else it is a draft, and its turn goes on
                self.deliver(delivery)

    async def close(self) -> None:
        tasks = [*self._tasks, *self._running.values()]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    @property
    def busy(self) -> bool:
        return bool(self._running)

    def address(self, session: str) -> Address | None:
        """Where this session is spoken to."""
        known = self._heard.get(session)
        if known is not None and self._rooms.whose(known) == self._office.workspace:
            return known
        return self._rooms.address(self._office.workspace, session)

    # --- watching --------------------------------------------------------------------------------

    async def _watch(self, watching: asyncio.Event) -> None:
        while True:
            try:
                async with closing(self._office.watch()) as events:
                    asyncio.get_running_loop().call_soon(watching.set)  # by then it listens
                    async for event in events:
                        self._note(event)
                return  # the office is closed
            except MainstayError as error:
                log.warning("what happens in %s cannot be watched now: %s", self._office.workspace, error)
            await self._clock.sleep(RETRY_S)
            self._wake.set()

    def _note(self, event: Event) -> None:
        if isinstance(event, Lagged):
            self._wake.set()
            for writing in self._writing.values():
                writing.miss()
            return
        session = event.session
        match event:
            case Received(kind="prompt" | "steer", heard=heard) if heard and Address.parse(session) != heard.address:
                self._heard[session] = heard.address
        if not event.turn or isinstance(event, Delivered) or event.turn <= self._looked.get(session, 0):
            return
        if session in self._running:
            self._newest[session] = max(event.turn, self._newest.get(session, 0))
        elif self.address(session) is not None:
            self._follow(session)
        else:
            return
        self._writing[session].take(event)

    def _follow(self, session: str) -> None:
        if session not in self._running:
            made = asyncio.get_running_loop().create_task(self._report(session), name=f"report {session}")
            self._running[session] = made
            self._writing[session] = Writing()

    async def _report(self, session: str) -> None:
        """Until there is nothing more to tell of it."""
        tries = 0
        try:
            while True:
                try:
                    reporter = Reporter(self._bench, session, lambda: self._newest.get(session, 0))
                    told = await reporter.run()
                    if self._newest.get(session, 0) <= told:
                        self._remember(session, told - reporter.paused)
                        return
                except SessionUnknown:
                    return
                except MainstayError as error:
                    log.warning("the answer in %s waits: %s", session, error)
                    tries += 1
                    await self._clock.sleep(min(RETRY_S * 2 ** min(tries - 1, 10), RETRY_MAX_S))
        finally:
            self._running.pop(session, None)
            self._newest.pop(session, None)
            self._writing.pop(session, None)

    def _remember(self, session: str, turn: int) -> None:
        """What was looked into is not looked into again."""
        self._looked.pop(session, None)
        self._looked[session] = turn
        while len(self._looked) > LOOKED_MAX:
            del self._looked[next(iter(self._looked))]

    # --- looking through -------------------------------------------------------------------------

    async def _sweep_now_and_then(self) -> None:
        sweeps = 0
        while True:
            try:
                async with asyncio.timeout(SWEEP_S):
                    await self._wake.wait()
            except TimeoutError:
                pass
            self._wake.clear()
            try:
                await self._sweep()
                sweeps += 1
                if sweeps % PRUNE_EVERY == 0:
                    await self._mail.prune(self._clock.now_ms() - CATCH_UP_MS)
            except MainstayError as error:
                log.warning("%s was not looked through for answers: %s", self._office.workspace, error)
            await self._clock.sleep(RETRY_S)  # whoever lags once may lag often

    async def _sweep(self) -> None:
        """Sessions that have changed since the last time, or in the last days."""
        now, offset = self._clock.now_ms(), 0
        since = self._since or now - CATCH_UP_MS
        while page := await self._office.sessions.list(limit=PAGE, offset=offset):
            for standing in page:
                if standing.delivered < standing.turns and await self._to_be_told(standing):
                    self._follow(standing.key)
            offset += len(page)
            if page[-1].updated < since:
                break
        self._since = now - SWEEP_MARGIN_MS

    async def _to_be_told(self, standing: Standing) -> bool:
        if standing.errand is not None or self._looked.get(standing.key, 0) >= standing.turns:
            return False
        if standing.key == SINGLE or standing.key.startswith(BY_PERSON):  # its turns say where it is
            return True
        at = Address.parse(standing.key)
        if at is None or not self._rooms.known(at.channel):
            return False
        if self._rooms.whose(at) != self._office.workspace:
            await self._learn(standing.key)
        return self._rooms.whose(at) == self._office.workspace

    async def _learn_rooms(self) -> None:
        """Before anybody else could take a room for theirs that somebody of this workspace spoke to us alone in."""
        if self._rooms.has_all(self._office.workspace):
            return
        looked: set[tuple[str, str]] = set()
        offset = 0
        while page := await self._office.sessions.list(limit=PAGE, offset=offset):
            offset += len(page)
            for key in (standing.key for standing in page if standing.errand is None):
                at = Address.parse(key) or Address("")
                by_person = key == SINGLE or key.startswith(BY_PERSON)
                ours = not self._rooms.known(at.channel) or self._rooms.whose(at) == self._office.workspace
                if by_person or not (ours or (at.channel, at.room) in looked):
                    looked.add((at.channel, at.room))
                    await self._learn(key)

    async def _learn(self, session: str) -> None:
        """A room where somebody spoke to us alone is of the workspace that they are of, whosever the channel is; of
        this one, if they are nobody any more."""
        for record in await self._office.sessions.records(session, limit=EVIDENCE):
            match record.event:
                case Received(heard=heard) if heard is not None and heard.direct:
                    if self._rooms.known(heard.address.channel):
                        self._rooms.recall(heard.address, heard.user, self._office.workspace)
                    return

    # --- out -------------------------------------------------------------------------------------

    def deliver(self, delivery: Delivery) -> asyncio.Future[Delivery] | None:
        """Something that is in the mail. None: there is no way to post it now; it stays there."""
        channel = self._rooms.channel(delivery.to.channel)
        if channel is None or self._rooms.whose(delivery.to) != self._office.workspace:
            return None
        outdated = self._answered if is_question(delivery) else None
        return self._courier.deliver(delivery, channel, self._mail, self._record, outdated)

    async def _answered(self, question: Delivery) -> str:
        """A question that could not be posted for a while may have been answered elsewhere, or have expired."""
        try:
            asked = (await self._office.sessions.get(question.session)).approval
        except SessionUnknown:
            asked = None
        if asked is not None and question_key(self._office.workspace, asked.id) == question.key:
            return ""
        return ANSWERED

    def _begin_draft(self, delivery: Delivery) -> Draft | None:
        channel = self._rooms.channel(delivery.to.channel)
        if channel is None:
            return None
        writing = self._writing[delivery.session]
        draft = Draft(delivery, writing, channel, self._mail, self._courier, self._clock)
        draft.begin(stream=self._rooms.rules(channel.name).stream)
        return draft

    async def _record(self, delivery: Delivery) -> None:
        """A receipt in the journal of whose it is."""
        if not delivery.session:
            return
        if delivery.turn and (await self._office.sessions.get(delivery.session)).delivered >= delivery.turn:
            return
        state = delivery.state
        assert state in ("sent", "unknown", "failed"), "it has come to its end"
        said = "silent" if state == "sent" and not delivery.ids else state
        event = Delivered(delivery.key, delivery.to, delivery.ids, said, delivery.note, turn=delivery.turn)
        await self._office.record(delivery.session, event)
