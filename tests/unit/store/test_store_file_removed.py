"""A database file that is removed while it is in use."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import apsw
import pytest

from mainstay.core.errors import StaleWriter, StoreCorrupt, StoreFull
from mainstay.core.events import Received
from mainstay.core.limits import Limits
from mainstay.core.messages import Text
from mainstay.core.session import Session
from mainstay.lane.event_hub import EventHub
from mainstay.lane.journal_writer import JournalWriter
from mainstay.store.sqlite.connection import translate_error
from mainstay.store.sqlite.home_projection_database import HomeProjectionDatabase
from mainstay.store.sqlite.store import SqliteStore
from mainstay.testing import MemoryStore, VirtualClock
from mainstay.testing.store_suite import SessionWriter


@pytest.mark.parametrize("replaced", [False, True])
async def test_a_write_to_a_removed_database_file_is_refused(tmp_path: Path, replaced: bool) -> None:
    path = tmp_path / "workspace.db"
    store = SqliteStore(str(path), limits=Limits())
    await store.open()
    writing = SessionWriter(store, "a")
    await writing.write_turn("before")
    path.rename(tmp_path / "elsewhere.db")
    if replaced:
        path.write_bytes(b"")
    with pytest.raises(StoreCorrupt, match="removed or replaced"):
        await writing.write_turn("after")
    await store.close()


async def test_the_first_error_is_reported_not_the_conflicts_that_follow_from_it() -> None:
    store = MemoryStore()
    pen = JournalWriter(Session("s"), store, VirtualClock(), 0.02, EventHub(64))
    await pen.record(Received((Text("kept"),)))
    store.fail = StoreFull("no space left")
    with pytest.raises(StoreFull):
        await pen.record(Received((Text("lost"),)))
    store.fail = StaleWriter("changed by another writer")
    pen.failure, first = None, pen.failure
    sending = pen._send()
    pen.failure = first
    with pytest.raises(StoreFull):
        await pen._wait_for_append(sending)


@pytest.mark.parametrize("suffixes", [("-wal",), ("-shm",), ("-wal", "-shm")])
async def test_a_removed_log_is_noticed_and_what_it_held_is_saved(tmp_path: Path, suffixes: tuple[str, ...]) -> None:
    path = tmp_path / "workspace.db"
    store = SqliteStore(str(path), limits=Limits())
    await store.open()
    writing = SessionWriter(store, "a")
    await writing.write_turn("before")
    before = len(await store.read_records("a"))
    for suffix in suffixes:
        Path(f"{path}{suffix}").unlink()
    with pytest.raises(StoreCorrupt, match=f"{suffixes[0]} was removed .* Restart Mainstay"):
        await writing.write_turn("after")
    left = tmp_path / "left.db"  # what a killed process leaves: the database without its log
    left.write_bytes(path.read_bytes())
    await store.close()
    again = SqliteStore(str(left), limits=Limits())
    await again.open()
    assert len(await again.read_records("a")) == before
    await again.close()


@pytest.mark.parametrize("left_bytes", [0, 5000])
async def test_a_log_that_is_cut_is_noticed_and_nothing_is_written_over_the_database(
    tmp_path: Path, left_bytes: int
) -> None:
    path = tmp_path / "workspace.db"
    store = SqliteStore(str(path), limits=Limits())
    await store.open()
    writing = SessionWriter(store, "a")
    await writing.write_turn("before")
    await store.close()
    before = path.read_bytes()
    store = SqliteStore(str(path), limits=Limits())
    await store.open()
    writing = SessionWriter(store, "b")
    await writing.write_turn("in the log")
    os.truncate(f"{path}-wal", left_bytes)
    assert "was cut while it was in use" in await store.find_problem()
    with pytest.raises(StoreCorrupt, match="-wal was cut while it was in use, and what it held is lost"):
        await writing.write_turn("after")
    assert path.read_bytes() == before
    left = tmp_path / "left.db"
    left.write_bytes(path.read_bytes())
    await store.close()
    again = SqliteStore(str(left), limits=Limits())
    await again.open()
    assert len(await again.read_records("a")) > 0
    await again.close()


async def test_a_log_that_another_program_moved_into_the_database_is_no_loss(tmp_path: Path) -> None:
    path = tmp_path / "workspace.db"
    store = SqliteStore(str(path), limits=Limits())
    await store.open()
    writing = SessionWriter(store, "a")
    await writing.write_turn("before")
    other = apsw.Connection(str(path))
    assert other.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall() == [(0, 0, 0)]
    other.close()
    assert Path(f"{path}-wal").stat().st_size == 0
    await writing.write_turn("after")
    assert await store.find_problem() == ""
    await store.close()


async def test_a_removed_log_of_the_homes_database_is_noticed(tmp_path: Path) -> None:
    database = HomeProjectionDatabase(str(tmp_path / "gateway.db"))
    await database.open()
    await database.write(lambda db: None)
    (tmp_path / "gateway.db-wal").unlink()
    with pytest.raises(StoreCorrupt, match="-wal was removed"):
        await database.write(lambda db: None)
    await database.close()


def test_a_full_temporary_folder_and_a_lack_of_memory_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(tmp_path / "workspace.db")
    assert str(translate_error(apsw.FullError("full"), path)).startswith(f"no space left for {path}: ")
    monkeypatch.setenv("SQLITE_TMPDIR", "/proc")  # a file system without room
    said = str(translate_error(apsw.FullError("full"), path))
    assert said.startswith(f"no space left for temporary files in /proc, which {path} needs: ")
    said = str(translate_error(apsw.NoMemError("out of memory"), path))
    assert said == f"{path}: out of memory; free some, or raise the memory limit of this process"


async def test_under_load_all_that_was_acknowledged_when_the_log_was_removed_is_saved(
    tmp_path: Path,
) -> None:
    path = tmp_path / "workspace.db"
    store = SqliteStore(str(path), limits=Limits())
    await store.open()
    acknowledged: dict[str, int] = {}

    async def write(key: str) -> None:
        writing = SessionWriter(store, key)
        while True:
            await writing.write_turn("words")
            acknowledged[key] = acknowledged.get(key, 0) + 1

    tasks = [asyncio.create_task(write(f"s{number}")) for number in range(4)]
    async with asyncio.timeout(60):
        while sum(acknowledged.values()) < 20:
            await asyncio.sleep(0.001)
        Path(f"{path}-wal").unlink()
        errors = await asyncio.gather(*tasks, return_exceptions=True)
    assert all(isinstance(error, StoreCorrupt) for error in errors), errors
    left = tmp_path / "left.db"
    left.write_bytes(path.read_bytes())
    db = apsw.Connection(str(left))
    turns = dict(db.execute("SELECT key, turns FROM sessions").fetchall())
    db.close()
    await store.close()
    assert {key: count for key, count in acknowledged.items() if turns.get(key, 0) < count} == {}
