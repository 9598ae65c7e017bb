"""The tiers of one workspace on SQLite."""

from __future__ import annotations

from mainstay.core.limits import Limits
from mainstay.core.recall import Tiers
from mainstay.store.sqlite.desk import Alone, Desk
from mainstay.store.sqlite.facts import SqliteFacts
from mainstay.store.sqlite.memories import SqliteMemories
from mainstay.store.sqlite.messages import SqliteMessages
from mainstay.store.sqlite.summaries import SqliteSummaries
from mainstay.store.sqlite.tier import SqliteTier
from mainstay.store.sqlite.vectors import SqliteVectors, extension

TIERS: tuple[type[SqliteTier], ...] = (SqliteMessages, SqliteSummaries, SqliteFacts, SqliteMemories, SqliteVectors)


def make_tiers(desk: Desk, *, vectors: bool = True) -> Tiers:
    """Without vectors where they are not wanted, or sqlite-vec cannot be had."""
    return Tiers(
        SqliteMessages(desk),
        SqliteSummaries(desk),
        SqliteFacts(desk),
        SqliteMemories(desk),
        SqliteVectors(desk) if vectors and extension() is not None else None,
    )


class SqliteTiers:
    """Tiers in a database of their own: in RAM, or in a file that follows a journal which is kept elsewhere."""

    def __init__(self, path: str = ":memory:", *, vectors: bool = True, limits: Limits | None = None) -> None:
        self._desk = Alone(path, limits or Limits())
        self._vectors = vectors

    async def open(self) -> Tiers:
        await self._desk.open()
        return make_tiers(self._desk, vectors=self._vectors)

    async def close(self) -> None:
        await self._desk.close()
