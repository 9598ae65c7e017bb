"""A workspace's memory, put together as its configuration says: tiers, what makes vectors, what follows the journal."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from mainstay.config.schema import LOCAL, Config
from mainstay.core.errors import ConfigError, EmbedderMissing, MainstayError, ProviderError
from mainstay.core.ports import Clock, Store
from mainstay.core.recall import Embedder, Tiers
from mainstay.memory.follow import Follower
from mainstay.memory.library import Library

GRAPH = "facts"  # a folder of the workspace
READY_S = 10.0  # for the model of the vectors, where somebody waits at a terminal


class Recollection:
    """Opened after its store and closed before it."""

    def __init__(
        self,
        tiers: Tiers,
        follower: Follower,
        library: Library,
        embedder: Embedder | None,
        closing: Sequence[Callable[[], Awaitable[None]]] = (),
    ) -> None:
        self.tiers = tiers
        self.follower = follower
        self.library = library
        self.embedder = embedder
        self._closing = closing

    async def ready(self, timeout_s: float = READY_S) -> None:
        """Returns when meaning can be searched too, or never will be: then the library says why."""
        if self.embedder is not None:
            with suppress(EmbedderMissing, ProviderError, TimeoutError):
                async with asyncio.timeout(timeout_s):
                    await self.embedder.load()

    async def close(self) -> None:
        await self.follower.close()
        if self.embedder is not None:
            await self.embedder.close()
        for close in self._closing:
            await close()


async def recollect(store: Store, config: Config, clock: Clock, folder: Path | None) -> Recollection:
    """`folder` is the workspace's, for what is not kept in its database; None where nothing is kept."""
    wanted = config.sessions.memory.embeddings.enabled and config.storage.vector.backend != "none"
    closing: list[Callable[[], Awaitable[None]]] = []
    if hasattr(store, "tiers"):
        tiers: Tiers = store.tiers(vectors=wanted)
    else:
        from mainstay.store.sqlite.tiers import SqliteTiers  # its engine is loaded only where something is recalled

        database = SqliteTiers(":memory:", vectors=wanted, limits=config.limits)
        tiers = await database.open()
        closing.append(database.close)
    if config.storage.memory.knowledge.backend == "oxigraph":
        from mainstay.store.oxigraph.facts import OxigraphFacts  # for those who chose it

        graph = OxigraphFacts(folder / GRAPH if folder is not None else None)
        try:
            await graph.open()
        except MainstayError:
            for close in closing:
                await close()
            raise
        closing.append(graph.close)
        tiers = msgspec.structs.replace(tiers, facts=graph)
    embedder = embedder_of(config) if wanted else None
    newest = config.sessions.memory.recent_store.max_messages
    follower = Follower(store, tiers, embedder=embedder, clock=clock, limits=config.limits, newest=newest)
    follower.start()
    return Recollection(tiers, follower, Library(tiers, store, follower, clock, embedder), embedder, closing)


def embedder_of(config: Config) -> Embedder:
    """What makes the vectors: on this machine, unless somebody configured otherwise."""
    model = config.sessions.memory.embeddings.model
    if model == LOCAL:
        from mainstay.memory.embed import LocalEmbedder

        return LocalEmbedder()
    from mainstay.providers import embeddings  # the wire is loaded only by those who use it

    given = config.providers.get(model.partition("/")[0])
    address, key = (given.base_url, given.api_key) if given else (None, None)
    try:
        return embeddings.make(model, base_url=address, api_key=key, limits=config.limits)
    except ConfigError as error:  # words can be searched without it, and the library says what is missing
        return _Missing(model, str(error))


class _Missing:
    """A model that cannot be had, and why."""

    def __init__(self, name: str, why: str) -> None:
        self.name = name
        self._why = why

    async def load(self) -> int:
        raise EmbedderMissing(self._why)

    async def embed(self, texts: Sequence[str]) -> list[bytes]:
        raise EmbedderMissing(self._why)

    async def close(self) -> None:
        """Nothing was opened."""
