"""Manifest of the embedder `local`."""

from __future__ import annotations

from mainstay.core.components import Component
from mainstay.core.embedder_settings import EmbedderOptions

COMPONENT = Component(
    kind="embedder",
    name="local",
    summary="Word vectors on this machine, best for English; no request leaves it.",
    settings=EmbedderOptions,
    factory="mainstay.memory.embedders.local.embedder:build_local_embedder",
    libraries={"wordllama": "wordllama", "numpy": "numpy", "tokenizers": "tokenizers"},
    install="pip install -e '.[memory]'",
    check="mainstay.memory.embedders.local.health:check_local_embedder",
)
