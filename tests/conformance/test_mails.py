"""What came from chat platforms and what goes there, through one suite: in memory, and on SQLite beside a journal."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

from mainstay.core.channels import ChannelQueue
from mainstay.store.memory.channel_queue import InMemoryChannelQueue
from mainstay.store.sqlite.store import SqliteStore
from mainstay.testing.channel_queue_suite import ChannelQueueSuite, build_delivery, build_pending_message


@asynccontextmanager
async def held() -> AsyncIterator[ChannelQueue]:
    yield InMemoryChannelQueue()


@asynccontextmanager
async def kept(where: Path) -> AsyncIterator[ChannelQueue]:
    store = SqliteStore(str(where / "workspace.db"))
    await store.open()
    try:
        yield store.channel_queue()
    finally:
        await store.close()


class TestMemory(ChannelQueueSuite):
    def make(self, folder: Path) -> AbstractAsyncContextManager[ChannelQueue]:
        return held()


class TestSqlite(ChannelQueueSuite):
    def make(self, folder: Path) -> AbstractAsyncContextManager[ChannelQueue]:
        return kept(folder)

    async def test_it_survives_a_restart(self, tmp_path: Path) -> None:
        async with self.make(tmp_path) as mail:
            await mail.add_pending(build_pending_message("1"))
            await mail.add_delivery(build_delivery("k", "sending"))
        async with self.make(tmp_path) as mail:
            assert list(await mail.list_pending()) == [build_pending_message("1")]
            assert list(await mail.list_due()) == [build_delivery("k", "sending")]
            assert await mail.add_delivery(build_delivery("k")) == build_delivery("k", "sending")
