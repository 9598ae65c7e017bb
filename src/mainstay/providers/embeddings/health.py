"""Health check of the embedder `api`: requests one vector."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from mainstay.core.embedder_settings import EmbedderCheckContext, EmbedderOptions
from mainstay.core.errors import EmbedderMissing, ProviderError
from mainstay.core.health import CheckFinding
from mainstay.providers.embeddings.embedder import ApiEmbedder, build_api_embedder


def check_api_embedder(spec: str, options: EmbedderOptions, context: EmbedderCheckContext) -> Iterator[CheckFinding]:
    """Check the name and the API key; unless offline, also that the server returns a vector."""
    embedder = build_api_embedder(spec, options, context)  # raises ConfigError
    if context.is_offline:
        yield CheckFinding("Memory", "ok", f"full-text and semantic search by {spec}, not called (--offline)")
        return
    try:
        dimensions = asyncio.run(_load_embedder(embedder, context.timeout_s))
    except TimeoutError:
        problem = f"{spec} did not answer within {context.timeout_s:g} s"
    except (EmbedderMissing, ProviderError) as error:
        problem = str(error)
    else:
        yield CheckFinding("Memory", "ok", f"full-text and semantic search by {spec}, {dimensions} dimensions")
        return
    fix = "check sessions.memory.embeddings.model, its provider's base_url and its API key"
    yield CheckFinding("Memory", "warn", f"full-text search only, no semantic search: {problem}", fix)


async def _load_embedder(embedder: ApiEmbedder, timeout_s: float) -> int:
    try:
        async with asyncio.timeout(timeout_s):
            return await embedder.load()
    finally:
        await embedder.close()
