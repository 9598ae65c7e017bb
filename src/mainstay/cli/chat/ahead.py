"""A model on this machine is loaded while somebody still types."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from mainstay.agent.models import entries_of, info_of
from mainstay.config.loading import Config
from mainstay.core.errors import ConfigError
from mainstay.providers.local.provider import LocalProvider, make_local


@asynccontextmanager
async def loaded_ahead(spec: str, config: Config) -> AsyncIterator[None]:
    """What is wrong with it, they hear when they ask."""
    model = _made(spec, config)
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


def _made(spec: str, config: Config) -> LocalProvider | None:
    try:
        return make_local(spec.partition("/")[2], config.limits, info_of(entries_of(spec, config)[0]))
    except ConfigError:  # its weights are gone
        return None
