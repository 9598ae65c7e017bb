"""What plugins keep, through one suite: in memory, and on SQLite beside a journal, where it outlives a restart."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

from mainstay.core.outside import PluginState, Quota
from mainstay.core.plugin_state import MemoryPluginState
from mainstay.store.sqlite import SqliteStore
from mainstay.testing.plugin_state_suite import PluginStateSuite


@asynccontextmanager
async def held() -> AsyncIterator[PluginState]:
    yield MemoryPluginState()


@asynccontextmanager
async def kept(where: Path) -> AsyncIterator[PluginState]:
    store = SqliteStore(str(where / "workspace.db"))
    await store.open()
    try:
        yield store.plugin_state()
    finally:
        await store.close()


class TestMemory(PluginStateSuite):
    def make(self, where: Path) -> AbstractAsyncContextManager[PluginState]:
        return held()


class TestSqlite(PluginStateSuite):
    def make(self, where: Path) -> AbstractAsyncContextManager[PluginState]:
        return kept(where)

    async def test_it_survives_a_restart_and_so_does_the_count_of_it(self, tmp_path: Path) -> None:
        """OPENTALON-035: each plugin has a key-value namespace of its own that survives a restart."""
        small = Quota(bytes_max=10)
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
            await state.set("weather", "a", "1", Quota())
        async with self.make(tmp_path / "other") as state:
            assert await state.keys("weather") == []
