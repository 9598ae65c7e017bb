"""In-memory AuxiliaryStores, for stores that keep journals only."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from mainstay.core.limits import Limits
from mainstay.core.memory_tiers import WorkspaceTiers
from mainstay.store.memory.channel_queue import InMemoryChannelQueue
from mainstay.store.memory.file_labels import InMemoryFileLabels
from mainstay.store.memory.plugin_state import InMemoryPluginState
from mainstay.store.memory.trigger_log import InMemoryTriggerLog


class InMemoryAuxiliaryStores:
    """The AuxiliaryStores port in memory: everything ends with the process. The memory tiers are derived from the
    journals again each time they are opened."""

    def __init__(self, limits: Limits | None = None) -> None:
        self._limits = limits
        self._file_labels = InMemoryFileLabels()
        self._plugin_state = InMemoryPluginState()
        self._trigger_log = InMemoryTriggerLog()
        self._channel_queue = InMemoryChannelQueue()

    async def load_file_labels(self) -> InMemoryFileLabels:
        return self._file_labels

    def plugin_state(self) -> InMemoryPluginState:
        return self._plugin_state

    def trigger_log(self) -> InMemoryTriggerLog:
        return self._trigger_log

    def channel_queue(self) -> InMemoryChannelQueue:
        return self._channel_queue

    @asynccontextmanager
    async def open_tiers(self, *, vectors: bool) -> AsyncIterator[WorkspaceTiers]:
        from mainstay.store.sqlite.workspace_tiers import SeparateTierDatabase  # imports the database engine

        database = SeparateTierDatabase(":memory:", vectors=vectors, limits=self._limits)
        tiers = await database.open()
        try:
            yield tiers
        finally:
            await database.close()
