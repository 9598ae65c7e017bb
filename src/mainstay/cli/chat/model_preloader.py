"""Preloads a model that runs in a process of ours while the user types the first prompt."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from mainstay.agent.model_providers import build_model_info, list_failover_entries
from mainstay.config.loader import Config
from mainstay.core.errors import ConfigError
from mainstay.core.ports import LoadableProvider
from mainstay.providers import registry


@asynccontextmanager
async def preload_model(spec: str, config: Config) -> AsyncIterator[None]:
    """Load the model in the background while the context is open.

    Loading errors are ignored here: the first prompt reports them.
    """
    model = _build_provider(spec, config)
    if model is None:
        yield
        return
    loading = asyncio.ensure_future(model.load())
    loading.add_done_callback(lambda done: done.cancelled() or done.exception())
    try:
        yield
    finally:
        loading.cancel()
        await model.close()


def _build_provider(spec: str, config: Config) -> LoadableProvider | None:
    settings = config.providers.get(spec.partition("/")[0])
    info = build_model_info(list_failover_entries(spec, config)[0])
    try:
        provider = registry.build_provider(spec, settings, None, config.limits, info)
    except ConfigError:  # the weights were removed
        return None
    return provider if isinstance(provider, LoadableProvider) else None
