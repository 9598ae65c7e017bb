"""Stores of plugin state through one suite: in memory, and on SQLite, where it survives a restart."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

from mainstay.core.tool_ports import PluginState, PluginStateQuota
from mainstay.store.memory.plugin_state import InMemoryPluginState
from mainstay.store.sqlite.store import SqliteStore
from mainstay.testing.plugin_state_suite import PluginStateSuite


@asynccontextmanager
async def memory_state() -> AsyncIterator[PluginState]:
    yield InMemoryPluginState()


@asynccontextmanager
async def sqlite_state(where: Path) -> AsyncIterator[PluginState]:
    store = SqliteStore(str(where / "workspace.db"))
    await store.open()
    try:
        yield store.plugin_state()
    finally:
        await store.close()


class TestMemory(PluginStateSuite):
    def make(self, folder: Path) -> AbstractAsyncContextManager[PluginState]:
        return memory_state()


class TestSqlite(PluginStateSuite):
    def make(self, folder: Path) -> AbstractAsyncContextManager[PluginState]:
        return sqlite_state(folder)

    async def test_it_survives_a_restart_and_so_does_the_count_of_it(self, tmp_path: Path) -> None:
        """OPENTALON-035: each plugin has a key-value namespace of its own that survives a restart."""
        small = PluginStateQuota(bytes_max=10)
        async with self.make(tmp_path) as state:
            await state.set("weather", "a", "12345678", small)
        async with self.make(tmp_path) as state:
            assert await state.get("weather", "a") == "12345678"
            await state.set("weather", "b", "", small)
            assert await state.keys("weather") == ["a", "b"]

    async def test_each_workspace_has_its_own(self, tmp_path: Path) -> None:
        """SIGIL-041: key-value data of plugins is kept per workspace."""
        for name in ("one", "other"):
            (tmp_path / name).mkdir()
        async with self.make(tmp_path / "one") as state:
            await state.set("weather", "a", "1", PluginStateQuota())
        async with self.make(tmp_path / "other") as state:
            assert await state.keys("weather") == []
