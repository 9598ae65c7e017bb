"""What came from chat platforms and what goes there, through one suite: in memory, and on SQLite beside a journal."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

from mainstay.core.channels import Mail
from mainstay.core.mail import MemoryMail
from mainstay.store.sqlite import SqliteStore
from mainstay.testing.mail_suite import MailSuite, arrival_of, delivery_of


@asynccontextmanager
async def held() -> AsyncIterator[Mail]:
    yield MemoryMail()


@asynccontextmanager
async def kept(where: Path) -> AsyncIterator[Mail]:
    store = SqliteStore(str(where / "workspace.db"))
    await store.open()
    try:
        yield store.mail()
    finally:
        await store.close()


class TestMemory(MailSuite):
    def make(self, where: Path) -> AbstractAsyncContextManager[Mail]:
        return held()


class TestSqlite(MailSuite):
    def make(self, where: Path) -> AbstractAsyncContextManager[Mail]:
        return kept(where)

    async def test_it_survives_a_restart(self, tmp_path: Path) -> None:
        async with self.make(tmp_path) as mail:
            await mail.arrive(arrival_of("1"))
            await mail.put(delivery_of("k", "sending"))
        async with self.make(tmp_path) as mail:
            assert list(await mail.arrivals()) == [arrival_of("1")]
            assert list(await mail.due()) == [delivery_of("k", "sending")]
            assert await mail.put(delivery_of("k")) == delivery_of("k", "sending")
