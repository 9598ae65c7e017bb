"""Queues of incoming and outgoing channel messages through one suite: in memory and on SQLite."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

from mainstay.core.channels import ChannelQueue
from mainstay.store.memory.channel_queue import InMemoryChannelQueue
from mainstay.store.sqlite.store import SqliteStore
from mainstay.testing.channel_queue_suite import ChannelQueueSuite, build_delivery, build_pending_message


@asynccontextmanager
async def memory_queue() -> AsyncIterator[ChannelQueue]:
    yield InMemoryChannelQueue()


@asynccontextmanager
async def sqlite_queue(where: Path) -> AsyncIterator[ChannelQueue]:
    store = SqliteStore(str(where / "workspace.db"))
    await store.open()
    try:
        yield store.channel_queue()
    finally:
        await store.close()


class TestMemory(ChannelQueueSuite):
    def make(self, folder: Path) -> AbstractAsyncContextManager[ChannelQueue]:
        return memory_queue()


class TestSqlite(ChannelQueueSuite):
    def make(self, folder: Path) -> AbstractAsyncContextManager[ChannelQueue]:
        return sqlite_queue(folder)

    async def test_it_survives_a_restart(self, tmp_path: Path) -> None:
        async with self.make(tmp_path) as mail:
            await mail.add_pending(build_pending_message("1"))
            await mail.add_delivery(build_delivery("k", "sending"))
        async with self.make(tmp_path) as mail:
            assert list(await mail.list_pending()) == [build_pending_message("1")]
            assert list(await mail.list_due()) == [build_delivery("k", "sending")]
            assert await mail.add_delivery(build_delivery("k")) == build_delivery("k", "sending")
