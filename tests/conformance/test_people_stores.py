"""Stores of people through one suite: in memory, and on SQLite, where they survive restarts and crashes."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import apsw
import pytest

from mainstay.core.errors import HomeUnusable, StoreCorrupt, StoreTooNew
from mainstay.core.people import PeopleStore
from mainstay.store.memory.people_store import InMemoryPeopleStore
from mainstay.store.sqlite.people_store import SqlitePeopleStore, load_gateway_migrations
from mainstay.testing.people_store_suite import ANN, PeopleStoreSuite, build_identity, build_key, build_pairing


class TestMemory(PeopleStoreSuite):
    def make(self, folder: Path) -> PeopleStore:
        return InMemoryPeopleStore()


class TestSqlite(PeopleStoreSuite):
    def make(self, folder: Path) -> PeopleStore:
        return SqlitePeopleStore(str(folder / "gateway.db"))

    async def test_it_survives_a_restart(self, tmp_path: Path) -> None:
        async with self.open_store(tmp_path) as store:
            await store.put_person(ANN)
            await store.put_identity(build_identity("u1"))
            await store.put_pairing(build_pairing(1, "a"))
            await store.put_key(build_key(1))
        async with self.open_store(tmp_path) as store:
            assert (await store.list_people(), await store.list_identities()) == ([ANN], [build_identity("u1")])
            assert (await store.list_pairings(), await store.list_keys()) == ([build_pairing(1, "a")], [build_key(1)])

    async def test_only_the_owner_can_read_the_database_and_the_files_beside_it(self, tmp_path: Path) -> None:
        before = os.umask(0)
        try:
            async with self.open_store(tmp_path) as store:
                await store.put_person(ANN)
                found = {one.name: stat.S_IMODE(one.stat().st_mode) for one in tmp_path.iterdir()}
        finally:
            os.umask(before)
        assert found == {"gateway.db": 0o600, "gateway.db-wal": 0o600, "gateway.db-shm": 0o600}

    async def test_a_database_that_others_could_read_is_made_private(self, tmp_path: Path) -> None:
        async with self.open_store(tmp_path):
            pass
        (tmp_path / "gateway.db").chmod(0o644)
        async with self.open_store(tmp_path):
            assert stat.S_IMODE((tmp_path / "gateway.db").stat().st_mode) == 0o600

    async def test_a_link_is_not_followed(self, tmp_path: Path) -> None:
        (tmp_path / "gateway.db").symlink_to(tmp_path / "elsewhere.db")
        with pytest.raises(HomeUnusable, match="is a symbolic link"):
            async with self.open_store(tmp_path):
                pass
        assert not (tmp_path / "elsewhere.db").exists()

    async def test_a_folder_in_place_of_the_database_is_reported_in_a_sentence(self, tmp_path: Path) -> None:
        (tmp_path / "gateway.db").mkdir()
        with pytest.raises(HomeUnusable, match=r"gateway\.db"):
            async with self.open_store(tmp_path):
                pass

    async def test_a_database_of_a_newer_release_is_refused_and_not_touched(self, tmp_path: Path) -> None:
        async with self.open_store(tmp_path) as store:
            await store.put_person(ANN)
        path = tmp_path / "gateway.db"
        db = apsw.Connection(str(path))
        db.execute(f"PRAGMA user_version = {len(load_gateway_migrations()) + 1}")
        db.close()
        before = path.read_bytes()
        with pytest.raises(StoreTooNew, match="written by a newer release"):
            async with self.open_store(tmp_path):
                pass
        assert path.read_bytes() == before

    async def test_a_file_that_is_no_database_is_not_touched(self, tmp_path: Path) -> None:
        path = tmp_path / "gateway.db"
        path.write_bytes(b"not a database at all, and quite long enough to tell" * 40)
        before = path.read_bytes()
        with pytest.raises(StoreCorrupt, match="damaged"):
            async with self.open_store(tmp_path):
                pass
        assert path.read_bytes() == before

    async def test_manual_damage_is_reported_in_a_sentence(self, tmp_path: Path) -> None:
        async with self.open_store(tmp_path) as store:
            await store.put_person(ANN)
        db = apsw.Connection(str(tmp_path / "gateway.db"))
        db.execute("""UPDATE people SET roles='{"team":"emperor"}'""")
        db.close()
        async with self.open_store(tmp_path) as store:
            with pytest.raises(StoreCorrupt, match="emperor"):
                await store.list_people()

    @pytest.mark.parametrize("replaced", [False, True])
    async def test_a_write_to_a_removed_database_file_is_refused(self, tmp_path: Path, replaced: bool) -> None:
        async with self.open_store(tmp_path) as store:
            (tmp_path / "gateway.db").rename(tmp_path / "elsewhere.db")
            if replaced:
                (tmp_path / "gateway.db").write_bytes(b"")
            with pytest.raises(StoreCorrupt, match="removed or replaced"):
                await store.put_person(ANN)

    async def test_erased_data_is_not_left_in_the_file(self, tmp_path: Path) -> None:
        async with self.open_store(tmp_path) as store:
            await store.put_pairing(build_pairing(1, "a-canary-account"))
            await store.delete_expired_pairings(10_000)
        assert b"a-canary-account" not in (tmp_path / "gateway.db").read_bytes()
