"""Journal cursor of one memory tier: its position in each session, and retries after errors."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

from mainstay.core.events import Folded
from mainstay.core.journal import Record
from mainstay.core.memory_tiers import Fact, Summary, Tier
from mainstay.core.ports import Clock, Store
from mainstay.core.provisional_answers import decided_records

log = logging.getLogger("mainstay.memory")

CACHED_SESSIONS_MAX = 2_000  # sessions whose positions are cached in memory
LAG_MAX = 256  # records without content for a tier before the new position is stored anyway
RETRY_S = 1.0
RETRY_MAX_S = 300.0
UNDECIDED_MAX = 4_096  # records after an answer in which the judges' verdict on it is searched

TierProjection = Callable[[str, Sequence[Record]], Sequence[object]]


async def read_decided_records(store: Store, key: str, after: int, size: int) -> tuple[Sequence[Record], bool]:
    """Read the next records, and return whether they are the last ones so far.

    They end before an answer without a verdict: only accepted answers are indexed, and the verdict may be in a later
    page.
    """
    while True:
        records = await store.read_records(key, after, size)
        settled, whole = decided_records(records), len(records) < size
        if settled or whole:
            return settled, whole
        if size >= UNDECIDED_MAX:  # give up on this answer; later records must not wait for it
            return records, whole
        size *= 4


class IngestingTier(Tier, Protocol):
    """A tier that stores items derived from journals."""

    async def ingest(self, session: str, items: Sequence[Any], position: int, /) -> None: ...


class TierJournalCursor:
    """Position of a tier in each session. `project` extracts the tier's items from records.

    After an error the tier is paused, with exponential backoff.
    """

    def __init__(self, tier: IngestingTier, project: TierProjection, clock: Clock) -> None:
        self.tier = tier
        self.missed_sessions: set[str] = set()  # sessions that changed while the tier was paused
        self._project = project
        self._clock = clock
        self._stored_positions: dict[str, int] = {}  # cache of stored positions, of recently indexed sessions
        # later positions not stored yet: those records had nothing for the tier
        self._unstored_positions: dict[str, int] = {}
        self._retry_delay_s = 0.0
        self._paused_until = 0.0

    # --- position --------------------------------------------------------------------------------

    async def position(self, key: str) -> int:
        position = self._stored_positions.get(key)
        if position is None:
            position = await self.tier.position(key)
            self._cache_position(key, position)
        return max(position, self._unstored_positions.get(key, 0))

    async def find_outdated_sessions(self, heads: dict[str, int]) -> list[str]:
        """Return the sessions with records beyond their position. Drops sessions that no longer exist."""
        positions = await self._list_positions()
        for key in positions.keys() - heads.keys():
            await self.tier.delete_derived(key)
        return [key for key, head in heads.items() if positions.get(key, 0) < head]

    async def count_unindexed(self, heads: dict[str, int]) -> int:
        """Return the number of records beyond the positions."""
        positions = await self._list_positions()
        return sum(max(0, head - positions.get(key, 0)) for key, head in heads.items())

    async def _list_positions(self) -> dict[str, int]:
        """Return the position in every session that the tier has indexed, stored or not."""
        positions = dict(await self.tier.positions())
        for key, position in self._unstored_positions.items():
            positions[key] = max(position, positions.get(key, 0))
        return positions

    def _cache_position(self, key: str, position: int) -> None:
        self._stored_positions.pop(key, None)
        self._stored_positions[key] = position
        if len(self._stored_positions) > CACHED_SESSIONS_MAX:  # evict the least recently indexed session
            del self._stored_positions[next(iter(self._stored_positions))]

    # --- indexing --------------------------------------------------------------------------------

    async def index_records(self, key: str, records: Sequence[Record]) -> None:
        """Index these records, except those before the position."""
        upto = records[-1].seq
        if upto <= (position := await self.position(key)):
            return
        items = self._project(key, [record for record in records if record.seq > position])
        if items or upto - self._stored_positions.get(key, 0) >= LAG_MAX:
            await self.store_items(key, items, upto)
        else:
            self._unstored_positions[key] = upto

    async def store_items(self, key: str, items: Sequence[object], upto: int) -> None:
        try:
            await self.tier.ingest(key, items, upto)
        except BaseException:
            self._stored_positions.pop(key, None)  # it may be stored or not
            raise
        self._cache_position(key, upto)
        self._unstored_positions.pop(key, None)

    def skip_to(self, key: str, upto: int) -> None:
        self._unstored_positions[key] = upto

    async def flush_positions(self) -> None:
        """Store the positions behind records without content, so that they are not read again."""
        for key, upto in list(self._unstored_positions.items()):
            await self.store_items(key, (), upto)

    # --- errors ----------------------------------------------------------------------------------

    @property
    def is_paused(self) -> bool:
        return self._clock.monotonic() < self._paused_until

    def pause(self, keys: Iterable[str], error: Exception) -> float:
        """Pause the tier and return for how many seconds."""
        self.missed_sessions.update(keys)
        self._retry_delay_s = min(max(self._retry_delay_s * 2, RETRY_S), RETRY_MAX_S)
        self._paused_until = self._clock.monotonic() + self._retry_delay_s
        log.warning(
            "indexing into %s failed, retrying in %g s: %s: %s",
            self.tier.name,
            self._retry_delay_s,
            type(error).__name__,
            error,
        )
        return self._retry_delay_s

    def reset_backoff(self) -> None:
        self._retry_delay_s = 0.0


def extract_summaries(session: str, records: Sequence[Record]) -> list[Summary]:
    return [
        Summary(part.first, part.last, part.start, part.end, part.text, session)
        for record in records
        if isinstance(record.event, Folded)
        for part in record.event.parts
    ]


def extract_facts(session: str, records: Sequence[Record]) -> list[Fact]:
    """Return the facts of all folds, each with the time of its source message as far as the fold knows it."""
    return [
        Fact(
            fact.subject,
            fact.predicate,
            fact.object,
            fact.source,
            fact.confidence,
            fact.origin,
            fact.many,
            session,
            fact.at or _fact_time(record, fact.source),
        )
        for record in records
        if isinstance(record.event, Folded)
        for fact in record.event.facts
    ]


def _fact_time(record: Record, seq: int) -> int:
    assert isinstance(record.event, Folded)
    ends = [part.end for part in record.event.parts if part.first <= seq <= part.last and part.end]
    return min([record.at, *ends])
