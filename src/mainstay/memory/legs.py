"""One tier on its way along the journal."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from mainstay.core.events import Folded
from mainstay.core.journal import Record
from mainstay.core.ports import Clock, Store
from mainstay.core.recall import Fact, Summary
from mainstay.core.withheld import decided

log = logging.getLogger("mainstay.memory")

KNOWN_MAX = 2_000  # sessions whose positions are held in memory
LAG_MAX = 256  # records that held nothing for a tier before it is told so
RETRY_S = 1.0
RETRY_MAX_S = 300.0
UNDECIDED_MAX = 4_096  # records after an answer among which a verdict on it is looked for

Made = Callable[[str, Sequence[Record]], Sequence[Any]]


async def read_decided(store: Store, key: str, after: int, size: int) -> tuple[Sequence[Record], bool]:
    """The next records, and whether there are no more yet. They end before an answer that judges still think about:
    what is to be found depends on whether it stands, and that may be said in a later page."""
    while True:
        records = await store.read(key, after, size)
        known, whole = decided(records), len(records) < size
        if known or whole:
            return known, whole
        if size >= UNDECIDED_MAX:  # then it is not found; all that follows is
            return records, whole
        size *= 4


class Leg:
    """How far a tier is in each session, and what it makes of records. One that fails is left alone for a while."""

    def __init__(self, tier: Any, make: Made, clock: Clock) -> None:
        self.tier = tier
        self.missed: set[str] = set()  # sessions that moved on while it was left alone
        self._make = make
        self._clock = clock
        self._kept: dict[str, int] = {}  # what the tier says, of sessions that were followed lately
        self._seen: dict[str, int] = {}  # further on: records that held nothing for it
        self._delay = 0.0
        self._until = 0.0

    # --- where it is -----------------------------------------------------------------------------

    async def at(self, key: str) -> int:
        kept = self._kept.get(key)
        if kept is None:
            kept = await self.tier.position(key)
            self._know(key, kept)
        return max(kept, self._seen.get(key, 0))

    async def behind(self, heads: dict[str, int]) -> list[str]:
        """The sessions that have moved on. What came of those that are no more is dropped."""
        positions = await self.tier.positions()
        for key in positions.keys() - heads.keys():
            await self.tier.drop(key)
        return [key for key, head in heads.items() if max(positions.get(key, 0), self._seen.get(key, 0)) < head]

    def _know(self, key: str, position: int) -> None:
        self._kept.pop(key, None)
        self._kept[key] = position
        if len(self._kept) > KNOWN_MAX:  # the one that was followed longest ago
            del self._kept[next(iter(self._kept))]

    # --- moving on -------------------------------------------------------------------------------

    async def take(self, key: str, records: Sequence[Record]) -> None:
        """What these records hold for the tier."""
        upto = records[-1].seq
        if upto <= (at := await self.at(key)):
            return
        made = self._make(key, [record for record in records if record.seq > at])
        if made or upto - self._kept.get(key, 0) >= LAG_MAX:
            await self.put(key, made, upto)
        else:
            self._seen[key] = upto

    async def put(self, key: str, made: Sequence[Any], upto: int) -> None:
        try:
            await self.tier.absorb(key, made, upto)
        except BaseException:
            self._kept.pop(key, None)  # some of it may be there
            raise
        self._know(key, upto)
        self._seen.pop(key, None)

    def skip(self, key: str, upto: int) -> None:
        self._seen[key] = upto

    async def settle(self) -> None:
        """Tell the tier of what held nothing for it, so that it is not read again."""
        for key, upto in list(self._seen.items()):
            await self.put(key, (), upto)

    # --- trouble ---------------------------------------------------------------------------------

    @property
    def down(self) -> bool:
        return self._clock.monotonic() < self._until

    def failed(self, keys: Iterable[str], error: Exception) -> float:
        """For how long it is left alone."""
        self.missed.update(keys)
        self._delay = min(max(self._delay * 2, RETRY_S), RETRY_MAX_S)
        self._until = self._clock.monotonic() + self._delay
        log.warning("%s cannot be followed for %g s: %s: %s", self.tier.name, self._delay, type(error).__name__, error)
        return self._delay

    def works(self) -> None:
        self._delay = 0.0


def summaries_of(session: str, records: Sequence[Record]) -> list[Summary]:
    return [
        Summary(one.first, one.last, one.start, one.end, one.text, session)
        for record in records
        if isinstance(record.event, Folded)
        for one in record.event.parts
    ]


def facts_of(session: str, records: Sequence[Record]) -> list[Fact]:
    """Each with the time of what it was said in, as closely as the fold knows it."""
    return [
        Fact(
            one.subject,
            one.predicate,
            one.object,
            one.source,
            one.confidence,
            one.origin,
            one.many,
            session,
            one.at or _said_at(record, one.source),
        )
        for record in records
        if isinstance(record.event, Folded)
        for one in record.event.facts
    ]


def _said_at(record: Record, seq: int) -> int:
    assert isinstance(record.event, Folded)
    ends = [part.end for part in record.event.parts if part.first <= seq <= part.last and part.end]
    return min([record.at, *ends])
