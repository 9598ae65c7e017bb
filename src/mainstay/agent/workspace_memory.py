"""Builds the memory of a workspace from its configuration: tiers, embedder, indexer, memory service."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from contextlib import AsyncExitStack, suppress
from pathlib import Path

import msgspec

from mainstay.config.component_options import resolve_embedder_options
from mainstay.config.schema import Config
from mainstay.core.components import find_component
from mainstay.core.embedder_settings import EmbedderFactoryContext, split_embedding_model
from mainstay.core.errors import ConfigError, EmbedderMissing, ProviderError
from mainstay.core.memory_tiers import Embedder, WorkspaceTiers
from mainstay.core.ports import Clock, Store
from mainstay.core.provider_manifest import ProviderSettings
from mainstay.core.workspace_store import WorkspaceStore
from mainstay.memory.indexer import MemoryIndexer
from mainstay.memory.service import MemoryService

GRAPH_FOLDER = "facts"  # a folder of the workspace, for the oxigraph database
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
    store: Store, workspace_store: WorkspaceStore, config: Config, clock: Clock, folder: Path | None
) -> WorkspaceMemory:
    """Open the memory of a workspace. `folder` is the workspace's, for tiers with a database of their own; None: in
    memory only."""
    has_vectors = config.sessions.memory.embeddings.enabled and config.storage.vector.backend != "none"
    async with AsyncExitStack() as opened:
        tiers = await opened.enter_async_context(workspace_store.open_tiers(vectors=has_vectors))
        if config.storage.memory.knowledge.backend == "oxigraph":
            from mainstay.store.oxigraph.fact_tier import OxigraphFactTier  # an optional dependency

            graph = OxigraphFactTier(folder / GRAPH_FOLDER if folder is not None else None)
            await graph.open()
            opened.push_async_callback(graph.close)
            tiers = msgspec.structs.replace(tiers, facts=graph)
        embedder = build_embedder(config) if has_vectors else None
        messages_max = config.sessions.memory.recent_store.max_messages
        indexer = MemoryIndexer(
            store, tiers, embedder=embedder, clock=clock, limits=config.limits, messages_max=messages_max
        )
        service = MemoryService(tiers, store, indexer, clock, embedder)
        indexer.start()
        return WorkspaceMemory(tiers, indexer, service, embedder, opened.pop_all())


def build_embedder(config: Config) -> Embedder:
    """Build the configured embedder; by default, one that runs on this machine."""
    spec = config.sessions.memory.embeddings.model
    name, model = split_embedding_model(spec)
    try:
        component = find_component("embedder", name)
        options = resolve_embedder_options(config.sessions.memory.embeddings)
        context = EmbedderFactoryContext(
            provider=config.providers.get(model.partition("/")[0]) or ProviderSettings(),
            limits=config.limits,
            environ=os.environ,
        )
        embedder: Embedder = component.load_factory()(model, options, context)
        return embedder
    except ConfigError as error:  # full-text search works without it, and its status says what is missing
        return _UnavailableEmbedder(spec, str(error))


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
