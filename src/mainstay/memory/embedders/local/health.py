"""Health check of the embedder `local`: loads its model."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from mainstay.core.embedder_settings import EmbedderCheckContext, EmbedderOptions
from mainstay.core.errors import EmbedderMissing
from mainstay.core.health import CheckFinding
from mainstay.memory.embedders.local.embedder import build_local_embedder
from mainstay.memory.embedders.local.manifest import COMPONENT


def check_local_embedder(model: str, options: EmbedderOptions, context: EmbedderCheckContext) -> Iterator[CheckFinding]:
    embedder = build_local_embedder(model, options, context)  # raises ConfigError if a model is named
    try:
        asyncio.run(embedder.load())
    except EmbedderMissing as error:
        yield CheckFinding("Memory", "warn", f"full-text search only, no semantic search: {error}", COMPONENT.install)
    else:
        yield CheckFinding("Memory", "ok", "full-text and semantic search; the embedding model is part of the wheel")
