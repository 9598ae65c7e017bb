"""Every store through one suite."""

from __future__ import annotations

import asyncio
from pathlib import Path

import apsw
from support.example_distributions import import_example

from mainstay.core.events import Received
from mainstay.core.messages import Text
from mainstay.core.ports import Store
from mainstay.store.sqlite.store import SqliteStore
from mainstay.testing import MemoryStore, StoreSuite
from mainstay.testing.store_suite import SessionWriter


class TestMemoryStore(StoreSuite):
    async def make(self, folder: Path) -> Store:
        return MemoryStore()


class TestExampleStore(StoreSuite):
    """The store of `examples/components/store`."""

    async def make(self, folder: Path) -> Store:
        store: Store = import_example("store").FilesStore(folder)
        await store.open()
        return store


class TestSqliteStore(StoreSuite):
    async def make(self, folder: Path) -> Store:
        store = SqliteStore(str(folder / "workspace.db"))
        await store.open()
        return store

    async def test_it_is_all_there_after_reopening(self, tmp_path: Path) -> None:
        store = await self.make(tmp_path)
        writing = SessionWriter(store, "a")
        for number in range(10):
            await writing.write_turn(str(number))
        before = await store.read_records("a")
        await store.close()
        store = await self.make(tmp_path)
        assert await store.read_records("a") == before
        await store.close()

    async def test_full_durability_is_on(self, tmp_path: Path) -> None:
        store = await self.make(tmp_path)
        assert isinstance(store, SqliteStore)
        assert store._writer is not None
        db = store._writer._db
        assert db is not None
        assert db.pragma("journal_mode") == "wal"
        assert db.pragma("synchronous") == 2
        await store.close()

    async def test_many_sessions_share_one_commit(self, tmp_path: Path) -> None:
        store = await self.make(tmp_path)
        commits = 0

        def count() -> int:
            nonlocal commits
            commits += 1
            return 0

        assert isinstance(store, SqliteStore)
        assert store._writer is not None
        assert store._writer._db is not None
        store._writer._db.set_commit_hook(count)
        writers = [SessionWriter(store, f"s{number}") for number in range(200)]
        await asyncio.gather(*(writer.append(Received((Text("x"),))) for writer in writers))
        assert commits < 60
        await store.close()

    async def test_the_journal_can_be_read_with_any_sqlite_tool(self, tmp_path: Path) -> None:
        store = await self.make(tmp_path)
        await SessionWriter(store, "a").write_turn("hello")
        await store.close()
        db = apsw.Connection(str(tmp_path / "workspace.db"))
        rows = db.execute("SELECT sequence, type, body ->> '$.parts[0].text' FROM journal WHERE session='a'").fetchall()
        assert rows[0] == (1, "Received", "hello")
        assert [row[1] for row in rows] == ["Received", "TurnStarted", "MessageAdded", "TurnEnded"]
        db.close()

    async def test_a_read_only_store_reads_beside_the_owner_and_writes_nothing(self, tmp_path: Path) -> None:
        store = await self.make(tmp_path)
        await SessionWriter(store, "a").write_turn("hello")
        other = SqliteStore(str(tmp_path / "workspace.db"), read_only=True)
        await other.open()
        assert len(await other.read_records("a")) == 4
        await SessionWriter(store, "b").write_turn("more")
        assert len(await other.list_sessions()) == 2
        await other.close()
        await store.close()
