"""What records of a journal add to the ledger: who spent what, and in which hour. Pure, and the only place that knows;
so whoever counts again from the journals comes to the same."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import msgspec

from mainstay.core.envelope import named_in
from mainstay.core.events import (
    Event,
    Folded,
    Judged,
    MessageAdded,
    Received,
    Reserved,
    Settled,
    Steered,
    ToolFinished,
    TurnStarted,
)
from mainstay.core.following import Stretch
from mainstay.core.journal import Record
from mainstay.core.messages import Usage
from mainstay.core.reservations import closed_by, nanodollars

HOUR_MS = 3_600_000
KEPT_HOURS = 64 * 24  # the youngest in which something was spent: two months, one of which a clock may have been ahead
Scope = Literal["turn", "session", "person", "workspace", "home"]
SCOPES: tuple[Scope, ...] = ("turn", "session", "person", "workspace", "home")  # from the narrowest on
Row = tuple[Scope, str, int, int, int, int]  # scope, name, hour, nanodollars, tokens, tool calls


class Entry(msgspec.Struct, frozen=True, gc=False):
    """Hours are counted from 1970, money in nanodollars; `lost` is money of it that was put aside by a process that
    died."""

    hour: int
    person: str
    money: int = 0
    tokens: int = 0
    calls: int = 0
    lost: int = 0


class Put(msgspec.Struct, frozen=True, gc=False):
    """What was put aside for a call that has no end yet. It counts as spent until that is read."""

    hour: int
    person: str
    money: int
    tokens: int


def entries(stretch: Stretch, open: dict[str, Put]) -> Iterator[Entry]:
    """In order; `open` are the session's reservations before, and then after. Each must be taken."""
    speakers = _Speakers(stretch)
    for record in stretch.earlier:
        speakers.hear(record)
    for record in stretch.records:
        speakers.hear(record)
        yield from _of(record, open, speakers)


def _of(record: Record, open: dict[str, Put], speakers: _Speakers) -> Iterator[Entry]:
    event, hour = record.event, record.at // HOUR_MS
    person = speakers.person
    if isinstance(event, Reserved):
        if (older := open.get(event.id)) is not None:  # its process died, and nothing else tells of it
            yield Entry(older.hour, older.person, lost=older.money)
        put = open[event.id] = Put(hour, event.person, event.cost, event.prompt + event.output)
        yield Entry(hour, put.person, put.money, put.tokens)
        return
    for id in closed_by(event, tuple(open)) if open else ():
        put = open.pop(id)
        person = put.person
        if isinstance(event, Settled) and event.lost:
            yield Entry(put.hour, person, lost=put.money)
        else:
            yield Entry(put.hour, person, -put.money, -put.tokens)
    for usage, cost in _charges(event):
        yield Entry(hour, person, nanodollars(cost), usage.prompt + usage.completion if usage is not None else 0)
    if isinstance(event, ToolFinished) and event.calls:
        yield Entry(hour, person, calls=1)  # what a sub-agent called and spent stands in its own journal


def _charges(event: Event) -> Iterator[tuple[Usage | None, float]]:
    match event:
        case MessageAdded(role="assistant", usage=usage, cost=cost) | Folded(usage=usage, cost=cost):
            if usage is not None:
                yield usage, cost
        case Settled(usage=usage, cost=cost, lost=False) if usage is not None:
            yield usage, cost
        case Judged(scores=scores):
            for score in scores:
                if score.usage is not None:
                    yield score.usage, score.cost


class _Speakers:
    """Who pays for a turn: whoever spoke last in it, or for whom it was sent."""

    def __init__(self, stretch: Stretch) -> None:
        standing = stretch.standing
        self._errand = standing.errand
        self.person = standing.errand.person if standing.errand is not None else standing.person
        self._waiting: dict[int, Received] = {}

    def hear(self, record: Record) -> None:
        match record.event:
            case Received() as received:
                self._waiting[record.seq] = received
            case TurnStarted(inputs=inputs) | Steered(inputs=inputs):
                taken = [self._waiting.pop(seq) for seq in inputs if seq in self._waiting]
                meant = [one for one in taken if one.kind != "overheard"]
                if self._errand is None and taken:
                    self.person = named_in((meant or taken)[-1].sender)
