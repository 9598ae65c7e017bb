"""Manifest of the embedder `api`, for `<provider>/<model>` of any provider with OpenAI's embeddings API."""

from __future__ import annotations

from mainstay.core.components import Component
from mainstay.core.embedder_settings import EmbedderOptions

COMPONENT = Component(
    kind="embedder",
    name="api",
    summary="The embeddings API of a provider: `<provider>/<model>`, with the provider's address and key.",
    settings=EmbedderOptions,
    factory="mainstay.providers.embeddings.embedder:build_api_embedder",
    check="mainstay.providers.embeddings.health:check_api_embedder",
)
