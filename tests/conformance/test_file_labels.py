"""Labels of files through one suite: in memory, and on SQLite, where they survive a restart."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import pytest

from mainstay.core.errors import StoreFailed
from mainstay.core.limits import Limits
from mainstay.core.tool_ports import FileLabelStore, FileOriginLabel
from mainstay.store.memory import file_labels as known
from mainstay.store.memory.file_labels import InMemoryFileLabels
from mainstay.store.sqlite.file_labels import SqliteFileLabels
from mainstay.store.sqlite.reader_thread import ReaderThread
from mainstay.store.sqlite.store import SqliteStore
from mainstay.store.sqlite.workspace_database import JournalDatabase

OUT = "untrusted:fetch"
Make = Callable[[], AbstractAsyncContextManager[FileLabelStore]]


@asynccontextmanager
async def sqlite_labels(folder: Path) -> AsyncIterator[SqliteFileLabels]:
    store = SqliteStore(str(folder / "workspace.db"))
    await store.open()
    reader = ReaderThread(store.path, busy_s=Limits().store_busy_s, vfs=None)
    made = SqliteFileLabels(JournalDatabase(reader, store._submit))
    await made.open()
    try:
        yield made
    finally:
        await reader.close()
        await store.close()


@asynccontextmanager
async def memory_labels() -> AsyncIterator[InMemoryFileLabels]:
    yield InMemoryFileLabels()


@pytest.fixture(params=["memory", "sqlite"])
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Make:
    return memory_labels if request.param == "memory" else lambda: sqlite_labels(tmp_path)


async def test_a_label_is_found_replaced_and_removed(make: Make) -> None:
    async with make() as labels:
        assert labels.get("/w/f") is None
        await labels.save([FileOriginLabel("/w/f", OUT, "s", "1:2:3"), FileOriginLabel("/w/g")])
        assert labels.get("/w/f") == FileOriginLabel("/w/f", OUT, "s", "1:2:3")
        await labels.save([FileOriginLabel("/w/f", "", "t")])
        assert labels.get("/w/f") == FileOriginLabel("/w/f", "", "t")
        await labels.remove(["/w/f", "/w/never"])
        assert labels.get("/w/f") is None
        assert labels.get("/w/g") == FileOriginLabel("/w/g")
        await labels.save([])
        await labels.remove([])


async def test_a_folder_knows_whether_it_holds_untrusted_files(make: Make) -> None:
    async with make() as labels:
        await labels.save(
            [FileOriginLabel("/w/a/b/f", OUT), FileOriginLabel("/w/c/g"), FileOriginLabel("/w/ab/h", "private:x")]
        )
        answers = {
            folder: labels.has_untrusted(folder) for folder in ("/", "/w", "/w/", "/w/a", "/w/a/b", "/w/c", "/w/ab")
        }
        assert answers == {
            "/": True,
            "/w": True,
            "/w/": True,
            "/w/a": True,
            "/w/a/b": True,
            "/w/c": False,
            "/w/ab": False,
        }
        await labels.save([FileOriginLabel("/w/a/b/f", "")])
        assert not labels.has_untrusted("/")
        await labels.save([FileOriginLabel("/w/a/x", "untrusted+private:file"), FileOriginLabel("/w/a/y", OUT)])
        await labels.remove(["/w/a/x"])
        assert labels.has_untrusted("/w/a")
        await labels.remove(["/w/a/y"])
        assert not labels.has_untrusted("/w/a")


async def test_odd_paths_stay_distinct(make: Make) -> None:
    odd = [
        "/w/É",
        "/w/e\u0301",
        "/w/%",
        "/w/a_b",
        "/w/a%b",
        "/w/'; DROP TABLE files;--",
        "/w/\n",
        "/w/ ",
        "/w/A",
        "/w/a",
    ]
    async with make() as labels:
        await labels.save([FileOriginLabel(path, OUT, str(number)) for number, path in enumerate(odd)])
        found = [labels.get(path) for path in odd]
        assert [one.session for one in found if one is not None] == [str(number) for number in range(len(odd))]


async def test_above_the_limit_the_oldest_label_of_the_agent_is_dropped_and_untrusted_ones_stay(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(known, "LABELS_MAX", 10)
    async with make() as labels:
        await labels.save([FileOriginLabel("/w/out", OUT)])
        for number in range(15):
            await labels.save([FileOriginLabel(f"/w/{number}")])
        left = [number for number in range(15) if labels.get(f"/w/{number}") is not None]
        assert left == list(range(6, 15))
        assert labels.get("/w/out") is not None


async def test_labels_survive_a_restart(tmp_path: Path) -> None:
    async with sqlite_labels(tmp_path) as labels:
        await labels.save(
            [FileOriginLabel("/w/f", OUT, "s", "1:2:3"), FileOriginLabel("/w/g"), FileOriginLabel("/w/h")]
        )
        await labels.remove(["/w/h"])
    async with sqlite_labels(tmp_path) as labels:
        assert labels.get("/w/f") == FileOriginLabel("/w/f", OUT, "s", "1:2:3")
        assert labels.get("/w/g") == FileOriginLabel("/w/g")
        assert labels.get("/w/h") is None
        assert labels.has_untrusted("/w")


async def test_a_label_that_could_not_be_stored_is_not_trusted(tmp_path: Path) -> None:
    async with sqlite_labels(tmp_path) as labels:
        await labels.save([FileOriginLabel("/w/f", OUT)])
    with pytest.raises(StoreFailed):
        await labels.save([FileOriginLabel("/w/f", "")])
    found = labels.get("/w/f")
    assert found is not None
    assert found.origin == OUT


async def test_files_that_a_deleted_session_created_have_no_creator(make: Make) -> None:
    async with make() as labels:
        await labels.save([FileOriginLabel("/w/f", OUT, "s", "1:2:3"), FileOriginLabel("/w/g", "", "other")])
        await labels.clear_session("s")
        assert labels.get("/w/f") == FileOriginLabel("/w/f", OUT, "", "1:2:3"), "it still comes from outside"
        assert labels.get("/w/g") == FileOriginLabel("/w/g", "", "other")
