"""Logs of trigger runs through one suite: in memory, and on SQLite, where they survive a restart."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

from mainstay.core.triggers import ALIASES_MAX, RUNS_MAX, TriggerCursor, TriggerLog, WebhookDeliveryId
from mainstay.store.memory.trigger_log import InMemoryTriggerLog
from mainstay.store.sqlite.store import SqliteStore
from mainstay.store.sqlite.trigger_log import SqliteTriggerLog
from mainstay.testing.trigger_log_suite import TriggerLogSuite, build_run


@asynccontextmanager
async def memory_log(runs_max: int, names_max: int) -> AsyncIterator[TriggerLog]:
    yield InMemoryTriggerLog(runs_max=runs_max, aliases_max=names_max)


@asynccontextmanager
async def sqlite_log(where: Path, runs_max: int, names_max: int) -> AsyncIterator[TriggerLog]:
    store = SqliteStore(str(where / "workspace.db"))
    await store.open()
    try:
        usual = (runs_max, names_max) == (RUNS_MAX, ALIASES_MAX)
        given = SqliteTriggerLog(store._workspace_database(), runs_max=runs_max, aliases_max=names_max)
        yield store.trigger_log() if usual else given
    finally:
        await store.close()


class TestMemory(TriggerLogSuite):
    def make(
        self, folder: Path, runs_max: int = RUNS_MAX, aliases_max: int = ALIASES_MAX
    ) -> AbstractAsyncContextManager[TriggerLog]:
        return memory_log(runs_max, aliases_max)


class TestSqlite(TriggerLogSuite):
    def make(
        self, folder: Path, runs_max: int = RUNS_MAX, aliases_max: int = ALIASES_MAX
    ) -> AbstractAsyncContextManager[TriggerLog]:
        return sqlite_log(folder, runs_max, aliases_max)

    async def test_it_survives_a_restart(self, tmp_path: Path) -> None:
        async with self.make(tmp_path) as log:
            await log.record_run(build_run("daily", 1), TriggerCursor(trigger="daily", upto=1000, since=1, digest="d"))
            await log.set_outcome("daily", "time-1", "answered")
            await log.add_alias(WebhookDeliveryId(hook="ci", name="a", key="b"))
        async with self.make(tmp_path) as log:
            assert [one.outcome for one in await log.list_runs()] == ["answered"]
            assert await log.list_cursors() == {"daily": TriggerCursor(trigger="daily", upto=1000, since=1, digest="d")}
            assert not await log.record_run(build_run("daily", 1))
            assert await log.resolve_alias("ci", "a") == "b"
