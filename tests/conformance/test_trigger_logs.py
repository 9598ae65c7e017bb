"""What triggers did, through one suite: in memory, and on SQLite beside a journal, where it outlives a restart."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

from mainstay.core.trigger_log import NAMES_MAX, RUNS_MAX, MemoryTriggerLog
from mainstay.core.triggers import Mark, Name, TriggerLog
from mainstay.store.sqlite import SqliteStore
from mainstay.store.sqlite.triggers import SqliteTriggerLog
from mainstay.testing.trigger_log_suite import TriggerLogSuite, run_of


@asynccontextmanager
async def held(runs_max: int, names_max: int) -> AsyncIterator[TriggerLog]:
    yield MemoryTriggerLog(runs_max=runs_max, names_max=names_max)


@asynccontextmanager
async def kept(where: Path, runs_max: int, names_max: int) -> AsyncIterator[TriggerLog]:
    store = SqliteStore(str(where / "workspace.db"))
    await store.open()
    try:
        usual = (runs_max, names_max) == (RUNS_MAX, NAMES_MAX)
        given = SqliteTriggerLog(store._beside(), runs_max=runs_max, names_max=names_max)
        yield store.triggers() if usual else given
    finally:
        await store.close()


class TestMemory(TriggerLogSuite):
    def make(
        self, where: Path, runs_max: int = RUNS_MAX, names_max: int = NAMES_MAX
    ) -> AbstractAsyncContextManager[TriggerLog]:
        return held(runs_max, names_max)


class TestSqlite(TriggerLogSuite):
    def make(
        self, where: Path, runs_max: int = RUNS_MAX, names_max: int = NAMES_MAX
    ) -> AbstractAsyncContextManager[TriggerLog]:
        return kept(where, runs_max, names_max)

    async def test_it_survives_a_restart(self, tmp_path: Path) -> None:
        async with self.make(tmp_path) as log:
            await log.record(run_of("daily", 1), Mark(trigger="daily", upto=1000, since=1, digest="d"))
            await log.ended("daily", "time-1", "answered")
            await log.name(Name(hook="ci", name="a", key="b"))
        async with self.make(tmp_path) as log:
            assert [one.outcome for one in await log.runs()] == ["answered"]
            assert await log.marks() == {"daily": Mark(trigger="daily", upto=1000, since=1, digest="d")}
            assert not await log.record(run_of("daily", 1))
            assert await log.named("ci", "a") == "b"
