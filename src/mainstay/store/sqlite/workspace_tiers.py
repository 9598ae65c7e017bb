"""Builds the SQLite memory tiers of one workspace."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager, nullcontext

from mainstay.core.component_options import FactStoreOptions
from mainstay.core.limits import Limits
from mainstay.core.memory_tiers import FactTier, WorkspaceTiers
from mainstay.core.store_components import FactStoreContext
from mainstay.store.sqlite.fact_tier import SqliteFactTier
from mainstay.store.sqlite.free_form_memory_tier import SqliteMemoryTier
from mainstay.store.sqlite.message_tier import SqliteMessageTier
from mainstay.store.sqlite.summary_tier import SqliteSummaryTier
from mainstay.store.sqlite.tier_base import SqliteTier
from mainstay.store.sqlite.vector_tier import SqliteVectorTier, find_extension
from mainstay.store.sqlite.workspace_database import StandaloneDatabase, WorkspaceDatabase

TIER_CLASSES: tuple[type[SqliteTier], ...] = (
    SqliteMessageTier,
    SqliteSummaryTier,
    SqliteFactTier,
    SqliteMemoryTier,
    SqliteVectorTier,
)


def build_tiers(database: WorkspaceDatabase, *, vectors: bool = True) -> WorkspaceTiers:
    """Return all tiers; without vectors if they are disabled or sqlite-vec is not available."""
    return WorkspaceTiers(
        SqliteMessageTier(database),
        SqliteSummaryTier(database),
        SqliteFactTier(database),
        SqliteMemoryTier(database),
        SqliteVectorTier(database) if vectors and find_extension() is not None else None,
    )


def open_store_facts(options: FactStoreOptions, context: FactStoreContext) -> AbstractAsyncContextManager[FactTier]:
    """Factory of the fact store `sqlite`: the facts of the workspace's store, which opens and closes them."""
    return nullcontext(context.store_facts)


class SeparateTierDatabase:
    """Tiers in their own database, in memory or in a file, for a journal that is in another store."""

    def __init__(self, path: str = ":memory:", *, vectors: bool = True, limits: Limits | None = None) -> None:
        self._database = StandaloneDatabase(path, limits or Limits())
        self._vectors = vectors

    async def open(self) -> WorkspaceTiers:
        await self._database.open()
        return build_tiers(self._database, vectors=self._vectors)

    async def close(self) -> None:
        await self._database.close()
