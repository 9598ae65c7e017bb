"""Follows one session that is in a chat room, from the first turn that was not told there to the last."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import msgspec
from msgspec.structs import replace

from mainstay.core.addresses import Address
from mainstay.core.channels import ChannelError, Delivery, Mail
from mainstay.core.events import (
    ApprovalAnswered,
    ApprovalAsked,
    Delivered,
    Event,
    Received,
    TurnEnded,
    TurnStarted,
)
from mainstay.core.ports import Clock, Standing
from mainstay.gateway.answers import Telling, question
from mainstay.gateway.delivery import bounded
from mainstay.gateway.drafting import Draft
from mainstay.gateway.office import Office
from mainstay.gateway.rooms import Rooms
from mainstay.lane.curtain import Curtain, behind

CATCH_UP_MS = 7 * 24 * 3600 * 1000  # older answers nobody waits for any more
PAGE = 500
BACK_MAX = 20_000  # records that are read to find where a turn began
QUESTION = "ask"  # how the keys of questions begin
GONE = "…"  # what stands where something was shown that is no answer, and cannot be deleted


class Bench(msgspec.Struct, frozen=True):
    """What reporters of a workspace work with."""

    office: Office
    mail: Mail
    rooms: Rooms
    clock: Clock
    deliver: Callable[[Delivery], Any]
    draft: Callable[[Delivery], Draft | None]


def turn_key(workspace: str, session: str, turn: int) -> str:
    """What the answer of a turn is delivered under."""
    return key_of("turn", workspace, session, str(turn))


def question_key(workspace: str, id: str) -> str:
    """And the question whether something may be done."""
    return key_of(QUESTION, workspace, id)


def is_question(delivery: Delivery) -> bool:
    return delivery.key.startswith(f"{QUESTION}-")


def key_of(kind: str, *parts: str) -> str:
    digest = hashlib.sha256("\0".join(parts).encode(errors="replace")).hexdigest()
    return f"{kind}-{digest[:32]}"


@asynccontextmanager
async def closing(events: AsyncIterator[Event]) -> AsyncIterator[AsyncIterator[Event]]:
    try:
        yield events
    finally:
        if isinstance(events, AsyncGenerator):
            await events.aclose()


class Reporter:
    """One at a time for a session. `newest` says which turn is the last that has begun."""

    def __init__(self, bench: Bench, session: str, newest: Callable[[], int]) -> None:
        self.paused = False  # its turn waits for somebody's word
        self._bench = bench
        self._session = session
        self._newest = newest
        self._telling = Telling()
        self._turn = 0
        self._to: Address | None = None  # where this turn is told
        self._draft: Draft | None = None

    async def run(self) -> int:
        """Returns when there is nothing more to tell just now: the last turn that it has looked at."""
        standing = await self._bench.office.sessions.get(self._session)
        if standing.errand is not None or standing.delivered >= standing.turns:
            return standing.turns
        after = await self._before(standing)
        if after is None:
            return standing.turns
        try:
            following = behind(Curtain(), self._bench.office.follow(self._session, after))
            async with closing(following) as events:
                async for event in events:
                    if await self._take(event) and self._turn >= max(standing.turns, self._newest()):
                        break
        finally:
            if self._draft is not None:
                self._draft.cancel()
        return self._turn

    async def _before(self, standing: Standing) -> int | None:
        """The sequence before the first turn that is to be told; None: all of them are too old."""
        oldest = self._bench.clock.now_ms() - CATCH_UP_MS
        first: int | None = None
        high = standing.head
        while high > 0 and standing.head - high < BACK_MAX:
            low = max(high - PAGE, 0)
            page = await self._bench.office.sessions.records(self._session, after=low, limit=high - low)
            for record in reversed(page):
                if not isinstance(record.event, TurnStarted):
                    continue
                turn = record.event.turn
                under_way = standing.unfinished and turn == standing.turns
                if turn <= standing.delivered or (record.at < oldest and not under_way):
                    return first
                first = record.seq - 1
            high = low
        return first

    async def _take(self, event: Event) -> bool:
        """True if there is nothing to wait for in this turn any more."""
        if isinstance(event, Delivered):
            return False
        if isinstance(event, TurnStarted):
            await self._begin(event)
        self._telling.take(event)
        match event:
            case ApprovalAsked():
                return await self._ask(event)
            case ApprovalAnswered():
                await self._go_on()
            case TurnEnded():
                await self._end(event)
                return True
        return False

    # --- a turn ----------------------------------------------------------------------------------

    async def _begin(self, started: TurnStarted) -> None:
        self._turn, self._to = started.turn, None
        self._telling = Telling()
        office = self._bench.office
        self._to = self._bench.rooms.address(office.workspace, self._session) or await self._spoken_in(started.inputs)
        await self._go_on()

    async def _go_on(self) -> None:
        """Whoever waits sees that somebody is at work, if somebody is."""
        standing = await self._bench.office.sessions.get(self._session)
        if self._to is None or self._draft is not None or standing.turns != self._turn:
            return
        if standing.unfinished and standing.approval is None:
            delivery = await self._delivery(self._to)
            if delivery.state in ("pending", "sending") and not delivery.text:
                self._draft = self._bench.draft(delivery)

    async def _spoken_in(self, inputs: tuple[int, ...]) -> Address | None:
        """Where the last of these came from."""
        if not inputs:
            return None
        low, limit = min(inputs) - 1, max(inputs) - min(inputs) + 1
        found: Address | None = None
        for record in await self._bench.office.sessions.records(self._session, after=low, limit=min(limit, PAGE)):
            match record.event:
                case Received(heard=heard, kind="prompt" | "steer") if record.seq in inputs:
                    found = heard.address if heard is not None else None
        return found if found is not None and self._is_ours(found) else None

    def _is_ours(self, at: Address) -> bool:
        return self._bench.rooms.whose(at) == self._bench.office.workspace

    async def _delivery(self, to: Address) -> Delivery:
        """As it is kept, or as it would be."""
        key = turn_key(self._bench.office.workspace, self._session, self._turn)
        now = self._bench.clock.now_ms()
        made = Delivery(key=key, to=to, session=self._session, turn=self._turn, at=now)
        return await self._bench.mail.find(key) or made

    async def _ask(self, asked: ApprovalAsked) -> bool:
        standing = await self._bench.office.sessions.get(self._session)
        waits = standing.approval is not None and standing.approval.id == asked.id
        if not waits or self._to is None:
            return False
        self.paused = True
        if self._draft is not None:
            await self._draft.end()
            self._draft = None
        if not asked.client:  # that one is for a program, which knows of it
            key = question_key(self._bench.office.workspace, asked.id)
            now = self._bench.clock.now_ms()
            made = Delivery(key=key, to=self._to, session=self._session, text=question(asked), at=now)
            self._bench.deliver(await self._bench.mail.put(made))
        return True

    async def _end(self, ended: TurnEnded) -> None:
        self.paused = False
        to = self._to or self._telling.heard
        if to is None or not self._is_ours(to):
            return
        shown = ""
        if self._draft is not None:
            draft, self._draft = self._draft, None
            delivery = await draft.end()
            shown = draft.shown
        else:
            delivery = await self._delivery(to)
        answer = self._telling.answer(ended, shown)
        if delivery.state in ("pending", "sending") and not delivery.text and not delivery.files:
            if not answer.text:
                await self._say_nothing(delivery, answer.note)
                return
            delivery = await self._keep(replace(delivery, text=answer.text))
        self._bench.deliver(delivery)

    async def _keep(self, delivery: Delivery) -> Delivery:
        """The answer is on disk before any of it is posted as such."""
        kept = await self._bench.mail.put(delivery)
        if kept == delivery or kept.text or kept.state not in ("pending", "sending"):
            return kept
        await self._bench.mail.update(delivery)
        return delivery

    async def _say_nothing(self, delivery: Delivery, note: str) -> None:
        channel = self._bench.rooms.channel(delivery.to.channel)
        if delivery.ids and channel is not None:
            try:
                if channel.shows.deletes:
                    await bounded(channel.delete(delivery.to, delivery.ids[0]))
                else:
                    await bounded(channel.edit(delivery.to, delivery.ids[0], channel.format(GONE)))
            except ChannelError:  # then it stays
                pass
        event = Delivered(delivery.key, delivery.to, (), "silent", note, turn=self._turn)
        await self._bench.office.record(self._session, event)
        await self._bench.mail.update(replace(delivery, state="sent", draft=False))
