"""Builds the memory of a workspace from its configuration: tiers, embedder, indexer, memory service."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, suppress
from pathlib import Path

import msgspec

from mainstay.config.component_options import resolve_embedder_options, resolve_fact_store_options
from mainstay.config.schema import Config, KnowledgeStorageSettings
from mainstay.core.components import find_component
from mainstay.core.embedder_settings import EmbedderFactoryContext, split_embedding_model
from mainstay.core.errors import ConfigError, EmbedderMissing, ProviderError
from mainstay.core.memory_tiers import Embedder, FactTier, WorkspaceTiers
from mainstay.core.ports import Clock, Store
from mainstay.core.provider_manifest import ProviderSettings
from mainstay.core.store_components import AuxiliaryStores, FactStoreContext
from mainstay.memory.indexer import MemoryIndexer
from mainstay.memory.service import MemoryService

LOAD_TIMEOUT_S = 10.0  # how long a command waits for the embedding model to load


class WorkspaceMemory:
    """The open memory of a workspace. Open it after its store, close it before."""

    def __init__(
        self,
        tiers: WorkspaceTiers,
        indexer: MemoryIndexer,
        service: MemoryService,
        embedder: Embedder | None,
        exit_stack: AsyncExitStack,
    ) -> None:
        self.tiers = tiers
        self.indexer = indexer
        self.service = service
        self.embedder = embedder
        self._exit_stack = exit_stack  # closes what the tiers use

    async def wait_for_embedder(self, timeout_s: float = LOAD_TIMEOUT_S) -> None:
        """Wait until the embedding model is loaded. Returns also if it cannot be loaded: then search works without
        vectors, and the memory service's status says why."""
        if self.embedder is not None:
            with suppress(EmbedderMissing, ProviderError, TimeoutError):
                async with asyncio.timeout(timeout_s):
                    await self.embedder.load()

    async def close(self) -> None:
        await self.indexer.close()
        if self.embedder is not None:
            await self.embedder.close()
        await self._exit_stack.aclose()


async def open_workspace_memory(
    store: Store, auxiliary_stores: AuxiliaryStores, config: Config, clock: Clock, folder: Path | None
) -> WorkspaceMemory:
    """Open the memory of a workspace. `folder` is the workspace's, for tiers with a database of their own; None: in
    memory only."""
    vectors = has_vectors(config)
    async with AsyncExitStack() as opened:
        tiers = await opened.enter_async_context(auxiliary_stores.open_tiers(vectors=vectors))
        context = FactStoreContext(folder=folder, store_facts=tiers.facts)
        facts = await opened.enter_async_context(open_facts(config.storage.memory.knowledge, context))
        tiers = msgspec.structs.replace(tiers, facts=facts)
        embedder = build_embedder(config) if vectors else None
        messages_max = config.sessions.memory.recent_store.max_messages
        indexer = MemoryIndexer(
            store, tiers, embedder=embedder, clock=clock, limits=config.limits, messages_max=messages_max
        )
        service = MemoryService(tiers, store, indexer, clock, embedder)
        indexer.start()
        return WorkspaceMemory(tiers, indexer, service, embedder, opened.pop_all())


def open_facts(settings: KnowledgeStorageSettings, context: FactStoreContext) -> AbstractAsyncContextManager[FactTier]:
    """Open the configured fact store. Raises ConfigError if there is none of that name."""
    factory = find_component("fact store", settings.backend).load_factory()
    facts: AbstractAsyncContextManager[FactTier] = factory(resolve_fact_store_options(settings), context)
    return facts


def build_embedder(config: Config) -> Embedder:
    """Build the configured embedder; by default, one that runs on this machine."""
    spec = config.sessions.memory.embeddings.model
    name, model = split_embedding_model(spec)
    try:
        component = find_component("embedder", name)
        options = resolve_embedder_options(config.sessions.memory.embeddings)
        embedder: Embedder = component.load_factory()(model, options, build_embedder_context(config, model))
        return embedder
    except ConfigError as error:  # full-text search works without it, and its status says what is missing
        return _UnavailableEmbedder(spec, str(error))


def has_vectors(config: Config) -> bool:
    """Return whether semantic search is configured."""
    return config.sessions.memory.embeddings.enabled and config.storage.vector.backend != "none"


def build_embedder_context(config: Config, model: str) -> EmbedderFactoryContext:
    """Return what the factory of an embedder gets, for a model's name without the embedder's."""
    return EmbedderFactoryContext(
        provider=config.providers.get(model.partition("/")[0]) or ProviderSettings(),
        limits=config.limits,
        environ=os.environ,
    )


class _UnavailableEmbedder:
    """An embedder for a model that cannot be used: every call raises EmbedderMissing with the reason."""

    def __init__(self, name: str, reason: str) -> None:
        self.name = name
        self._reason = reason

    async def load(self) -> int:
        raise EmbedderMissing(self._reason)

    async def embed(self, texts: Sequence[str]) -> list[bytes]:
        raise EmbedderMissing(self._reason)

    async def close(self) -> None:
        """Do nothing: no resources were opened."""
