"""The writer threads live: a value that cannot be stored, or a bug, fails its callers and nothing else."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest

from mainstay.core.errors import InputRefused, StaleWriter, StoreFailed
from mainstay.core.ports import SessionInfo
from mainstay.core.supervision import list_task_failures
from mainstay.store.sqlite.home_projection_database import HomeProjectionDatabase
from mainstay.store.sqlite.journal_append import JournalAppend
from mainstay.store.sqlite.store import SqliteStore
from mainstay.store.sqlite.writer_thread import WriterThread

EVENT = b'{"type":"TurnResumed","turn":1}'


async def open_store(folder: Path) -> SqliteStore:
    store = SqliteStore(str(folder / "workspace.db"))
    await store.open()
    return store


def info(key: str, head: int = 1, **fields: Any) -> SessionInfo:
    return SessionInfo(key=key, head=head, **fields)


async def block_writer(store: SqliteStore) -> threading.Event:
    """Hold the writer thread in a job, so that what is queued meanwhile is one batch; set the event to let it go on."""
    release, running = threading.Event(), threading.Event()

    def work(db: apsw.Connection) -> None:
        running.set()
        assert release.wait(60)

    holding = asyncio.ensure_future(store._run_job(work))
    while not running.is_set():
        await asyncio.sleep(0.001)
    holding.add_done_callback(lambda done: done.exception())
    return release


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (info("bad", prompt_tokens=2**63), "64 bits"),
        (info("bad", completion_tokens=2**70), "64 bits"),
        (info("bad\ud800"), "lone surrogates"),
        (info("bad", cost=float("nan")), "cannot be stored"),
    ],
    ids=["2^63", "2^70", "surrogate", "nan"],
)
async def test_f56_a_value_that_sqlite_cannot_store_fails_its_append_alone(
    tmp_path: Path, bad: SessionInfo, reason: str
) -> None:
    store = await open_store(tmp_path)
    release = await block_writer(store)
    appends = [store.append(each, 0, [EVENT]) for each in (info("a"), bad, info("b"))]
    release.set()
    results = await asyncio.wait_for(asyncio.gather(*appends, return_exceptions=True), 60)
    assert (results[0], results[2]) == (None, None)
    assert isinstance(results[1], InputRefused)
    assert reason in str(results[1])
    await store.append(info("a", 2), 1, [EVENT])
    assert await store.list_heads() == {"a": 2, "b": 1}
    assert list_task_failures() == {}
    await store.close()


async def test_f56_a_body_that_is_not_text_leaves_nothing_of_its_append(tmp_path: Path) -> None:
    store = await open_store(tmp_path)
    with pytest.raises(InputRefused):
        await store.append(info("a"), 0, [EVENT, b"\xff"])
    assert await store.list_heads() == {}
    await store.append(info("a"), 0, [EVENT])
    await store.close()


async def test_f56_a_value_written_ahead_that_cannot_be_stored_is_refused_and_does_not_keep_the_home_from_opening(
    tmp_path: Path,
) -> None:
    store = await open_store(tmp_path)
    await store.append(info("a"), 0, [EVENT])
    await store.append(info("b"), 0, [EVENT])
    await store.append(info("a", 2, prompt_tokens=2**63), 1, [EVENT], synced=False)
    (tmp_path / "copy-ahead").write_bytes((tmp_path / "workspace.db-ahead").read_bytes())
    await store.append(info("b", 2), 1, [EVENT])  # commits both
    with pytest.raises(StaleWriter):
        await store.append(info("a", 3), 2, [EVENT])
    await store.close()
    (tmp_path / "copy-ahead").rename(tmp_path / "workspace.db-ahead")
    store = await open_store(tmp_path)
    assert await store.list_heads() == {"a": 1, "b": 2}
    await store.append(info("a", 2), 1, [EVENT])
    await store.close()


async def test_f57_a_bug_in_an_append_fails_the_batch_and_the_thread_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = await open_store(tmp_path)

    def fail(append: JournalAppend, db: apsw.Connection) -> None:
        raise ZeroDivisionError

    with monkeypatch.context() as patch:
        patch.setattr(JournalAppend, "execute", fail)
        with pytest.raises(StoreFailed, match="ZeroDivisionError"):
            await asyncio.wait_for(asyncio.ensure_future(store.append(info("a"), 0, [EVENT])), 60)
    assert list(list_task_failures()) == [f"writer of {store.path}"]
    await store.append(info("a"), 0, [EVENT])
    await store.close()
    assert list_task_failures() == {}


async def test_f57_a_bug_outside_of_an_append_fails_the_batch_and_the_thread_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = await open_store(tmp_path)

    def fail(thread: WriterThread, appends: object) -> None:
        raise ZeroDivisionError

    with monkeypatch.context() as patch:
        patch.setattr(WriterThread, "_commit_appends", fail)
        for _ in range(2):
            with pytest.raises(StoreFailed, match=r"internal error \(ZeroDivisionError\)"):
                await asyncio.wait_for(asyncio.ensure_future(store.append(info("a"), 0, [EVENT])), 60)
    assert "it failed" in list_task_failures()[f"writer of {store.path}"]
    await store.append(info("a"), 0, [EVENT])
    await store.close()


async def test_f57_a_bug_in_a_write_or_background_job_is_raised_to_its_caller(tmp_path: Path) -> None:
    store = await open_store(tmp_path)
    database = store._workspace_database()

    def divide(db: apsw.Connection) -> int:
        return 1 // 0

    def overflow(db: apsw.Connection) -> None:
        db.execute("SELECT ?", (2**63,)).fetchall()

    def steps() -> Iterator[Callable[[apsw.Connection], None]]:
        yield lambda db: None
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await asyncio.wait_for(database.write(divide), 60)
    with pytest.raises(InputRefused, match="64 bits"):
        await asyncio.wait_for(database.write(overflow), 60)
    with pytest.raises(ZeroDivisionError):
        await asyncio.wait_for(database.run_in_background(steps()), 60)
    await store.append(info("a"), 0, [EVENT])
    await store.close()


async def test_f57_a_writer_that_cannot_go_on_refuses_every_later_call_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = await open_store(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(WriterThread, "_collect_batch", lambda thread: 1 // 0)
        await store.append(info("a"), 0, [EVENT])  # ends the wait of the working method
        for head in (2, 3):
            with pytest.raises(StoreFailed, match="its writer stopped"):
                await asyncio.wait_for(asyncio.ensure_future(store.append(info("a", head), head - 1, [EVENT])), 60)
    assert "it stopped" in list_task_failures()[f"writer of {store.path}"]
    await asyncio.wait_for(store.close(), 60)


async def test_f57_a_bug_in_a_callback_of_the_home_database_fails_its_callers_and_the_thread_goes_on(
    tmp_path: Path,
) -> None:
    database = HomeProjectionDatabase(str(tmp_path / "gateway.db"))
    await database.open()

    def fail(committed: bool) -> None:
        raise ZeroDivisionError

    database.transaction_callbacks.append(fail)
    with pytest.raises(StoreFailed, match="ZeroDivisionError"):
        await asyncio.wait_for(database.write(lambda db: None), 60)
    assert f"writer of {database.path}" in list_task_failures()
    database.transaction_callbacks.clear()
    assert await asyncio.wait_for(database.write(lambda db: 5), 60) == 5
    await database.close()


async def test_f57_a_writer_that_dies_with_appends_in_its_hands_fails_their_callers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = await open_store(tmp_path)
    release = await block_writer(store)

    def die(thread: WriterThread, appends: object) -> None:
        raise SystemExit

    with monkeypatch.context() as patch:
        patch.setattr(WriterThread, "_commit_appends", die)
        appends = [asyncio.ensure_future(store.append(info(key), 0, [EVENT])) for key in ("a", "b")]
        await asyncio.sleep(0)  # both are in the queue
        release.set()
        results = await asyncio.wait_for(asyncio.gather(*appends, return_exceptions=True), 60)
    assert [str(result) for result in results] == [
        f"{store.path} cannot be written any more: its writer stopped (SystemExit); restart"
    ] * 2
    assert "it stopped" in list_task_failures()[f"writer of {store.path}"]
    await asyncio.wait_for(store.close(), 60)


async def test_f57_a_writer_of_the_home_database_that_dies_fails_its_callers_and_is_reported(tmp_path: Path) -> None:
    database = HomeProjectionDatabase(str(tmp_path / "gateway.db"))
    await database.open()

    def die(db: apsw.Connection) -> None:
        raise SystemExit

    for work in (die, lambda db: None):
        with pytest.raises(StoreFailed, match=r"its writer stopped \(SystemExit\)"):
            await asyncio.wait_for(database.write(work), 60)
    assert "it stopped" in list_task_failures()[f"writer of {database.path}"]
    await asyncio.wait_for(database.close(), 60)
