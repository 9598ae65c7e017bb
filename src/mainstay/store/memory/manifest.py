"""Manifest of the in-memory store."""

from __future__ import annotations

from mainstay.core.component_options import StoreOptions
from mainstay.core.store_components import StoreComponent

COMPONENT = StoreComponent(
    kind="store",
    name="memory",
    summary="Nothing is stored: sessions end with the process. For tests.",
    settings=StoreOptions,
    factory="mainstay.store.memory.store:build_store",
)
