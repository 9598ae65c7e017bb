"""Background writes: after the appends, in small steps, without an fsync of their own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest
from support.faulty_vfs import FaultyVFS, Plan

from mainstay.core.errors import InputRefused, StoreCorrupt, StoreError, StoreFailed
from mainstay.core.events import Received
from mainstay.core.limits import Limits
from mainstay.core.memory_tiers import Memory
from mainstay.core.messages import Text
from mainstay.core.searchable_messages import searchable_messages
from mainstay.store.sqlite import message_tier as messages_module
from mainstay.store.sqlite.index_maintenance import BackgroundStep
from mainstay.store.sqlite.store import SqliteStore
from mainstay.store.sqlite.writer_thread import BATCHES_BEFORE_BACKGROUND, BackgroundJob
from mainstay.testing.store_writer import SessionWriter


async def opened(where: Path, limits: Limits | None = None) -> SqliteStore:
    store = SqliteStore(str(where / "workspace.db"), limits=limits)
    await store.open()
    return store


def trickle(store: SqliteStore, steps: Iterator[BackgroundStep]) -> asyncio.Future[None]:
    done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    store._submit(BackgroundJob(steps, done))
    return done


def sessions(db: apsw.Connection) -> int:
    row: Any = db.execute("SELECT count(*) FROM sessions").fetchone()
    return int(row[0])


async def test_an_append_that_comes_meanwhile_goes_before_the_next_step(tmp_path: Path) -> None:
    store = await opened(tmp_path)
    going, go = threading.Event(), threading.Event()
    seen: list[int] = []

    def first(db: apsw.Connection) -> None:
        seen.append(sessions(db))
        going.set()
        go.wait(120)

    done = trickle(store, iter([first, lambda db: seen.append(sessions(db))]))
    await asyncio.to_thread(going.wait, 10)
    append = asyncio.ensure_future(SessionWriter(store, "a").append(Received((Text("x"),))))
    await asyncio.sleep(0)
    go.set()
    await asyncio.gather(append, done)
    assert seen == [0, 1]
    await store.close()


async def test_a_step_waits_for_a_bounded_number_of_appends(tmp_path: Path) -> None:
    store = await opened(tmp_path, Limits(commit_batch_max=1))
    going, go = threading.Event(), threading.Event()
    seen: list[int] = []

    def first(db: apsw.Connection) -> None:
        going.set()
        go.wait(120)

    done = trickle(store, iter([first, lambda db: seen.append(sessions(db))]))
    await asyncio.to_thread(going.wait, 10)
    appends = [asyncio.ensure_future(SessionWriter(store, f"s{n}").append(Received((Text("x"),)))) for n in range(100)]
    await asyncio.sleep(0)
    go.set()
    await asyncio.gather(*appends, done)
    assert 0 < seen[0] <= BATCHES_BEFORE_BACKGROUND + 1
    await store.close()


async def test_steps_do_not_wait_for_the_disk_but_everything_else_does(tmp_path: Path) -> None:
    store = await opened(tmp_path)
    modes: list[Any] = []

    def step(db: apsw.Connection) -> None:
        modes.append(db.pragma("synchronous"))

    await trickle(store, iter([step]))
    await store._run_job(step)
    await SessionWriter(store, "a").write_turn("x")
    assert modes == [1, 2]
    assert await store._run_job(lambda db: db.pragma("synchronous")) == 2
    await store.close()


async def test_indexing_costs_no_fsync(tmp_path: Path) -> None:
    class Counting(Plan):
        def harm(self, what: str) -> None:
            syncs.append(what) if what == "sync" else None

    syncs: list[str] = []
    plan = Counting()
    plan.vfs = FaultyVFS("counting", plan)
    store = SqliteStore(str(tmp_path / "workspace.db"), vfs="counting")
    await store.open()
    tiers = store.tiers(vectors=False)
    await SessionWriter(store, "a").append(*(Received((Text(f"message number {n}"),)) for n in range(100)))
    records = await store.read_records("a")
    before = len(syncs)
    await tiers.messages.ingest("a", searchable_messages("a", records), 100)
    assert len(syncs) == before
    await tiers.memories.save(Memory(id="m", text="this one is nowhere else"))
    assert len(syncs) > before
    await store.close()


async def test_a_step_that_fails_leaves_nothing_and_ends_what_it_is_part_of(tmp_path: Path) -> None:
    store = await opened(tmp_path)
    await SessionWriter(store, "a").write_turn("x")
    ran: list[str] = []

    def breaking(error: Exception) -> BackgroundStep:
        def step(db: apsw.Connection) -> None:
            db.execute("DELETE FROM events")
            raise error

        return step

    for raised, told in (
        (apsw.SQLError("no such thing"), StoreFailed),
        (ValueError("what is this"), StoreCorrupt),
        (StoreError("refused"), StoreError),
        (UnicodeEncodeError("utf-8", "\ud800", 0, 1, "half"), InputRefused),
    ):
        with pytest.raises(told):
            await trickle(store, iter([breaking(raised), lambda db: ran.append("on")]))
        with pytest.raises(told):
            await store._run_job(breaking(raised))
        assert await store._run_job(lambda db: db.pragma("synchronous")) == 2
    assert ran == []
    assert len(await store.read_records("a")) == 4
    await SessionWriter(store, "b").write_turn("it goes on")
    await store.close()


async def test_unfinished_steps_are_reported_when_the_store_closes(tmp_path: Path) -> None:
    store = await opened(tmp_path)
    going, go = threading.Event(), threading.Event()

    def first(db: apsw.Connection) -> None:
        going.set()
        go.wait(120)

    done = [trickle(store, iter([first, lambda db: None]))]
    await asyncio.to_thread(going.wait, 10)
    done.append(trickle(store, iter([lambda db: None])))
    writer = store._writer
    assert writer is not None
    closing = asyncio.ensure_future(store.close())
    while writer.queue.qsize() < 2:  # the second piece of work, and the end
        await asyncio.sleep(0)
    go.set()
    await closing
    for one in done:
        with pytest.raises(StoreFailed, match="closed before this was done"):
            await one


async def test_a_large_index_is_written_in_steps_each_with_its_own_position(tmp_path: Path) -> None:
    store = await opened(tmp_path)
    tiers = store.tiers(vectors=False)
    await SessionWriter(store, "a").append(*(Received((Text(f"message {n} " + "ferry " * 200),)) for n in range(100)))
    entries = searchable_messages("a", await store.read_records("a"))
    tier = tiers.messages
    assert isinstance(tier, messages_module.SqliteMessageTier)
    seen: list[tuple[int, int]] = []
    for step in tier._ingest_steps("a", entries, 110):
        await store._run_job(step)
        seen.append((await tier.count(), (await tier.positions())["a"]))
    assert len(seen) > 5
    assert seen[-1] == (100, 110)
    assert all(count == at for count, at in seen if count < 100)
    await store.close()


async def test_appends_are_hardly_slower_while_the_index_is_written(tmp_path: Path) -> None:
    """Counted, not measured; what an append takes is measured by the benchmarks."""
    store = await opened(tmp_path)
    tiers = store.tiers(vectors=False)
    words = [f"word{n}" for n in range(3_000)]
    texts = [" ".join(words[(n * 37 + m * m) % 3_000] for m in range(60)) for n in range(3_000)]
    await SessionWriter(store, "a").append(*(Received((Text(text),)) for text in texts))
    entries = searchable_messages("a", await store.read_records("a", limit=5_000))
    indexing = asyncio.ensure_future(tiers.messages.ingest("a", entries, 3_000))
    live = SessionWriter(store, "live")
    appended = 0
    while not indexing.done() and appended < 200:
        await live.append(Received((Text("x"),)))
        appended += 1
    await indexing
    assert appended >= 20, "an append waits for a step of the indexing, and not for all of it"
    await store.close()
