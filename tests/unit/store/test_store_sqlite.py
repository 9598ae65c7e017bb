"""What the SQLite store promises beyond the suite that every store passes."""

from __future__ import annotations

import asyncio
import os
import random
import resource
import time
from pathlib import Path
from typing import Any

import apsw
import msgspec
import pytest

from mainstay.core.errors import HomeUnusable, InputRefused, StoreError, StoreFailed
from mainstay.core.events import MessageAdded, Received, TurnEnded, TurnStarted
from mainstay.core.journal import encode_event
from mainstay.core.limits import Limits
from mainstay.core.messages import Text
from mainstay.core.outcome import Answered
from mainstay.core.ports import IdempotencyKey, SessionInfo
from mainstay.store.sqlite.store import SqliteStore
from mainstay.testing.store_suite import SessionWriter


async def opened(where: Path, limits: Limits | None = None) -> SqliteStore:
    store = SqliteStore(str(where / "workspace.db"), limits=limits)
    await store.open()
    return store


async def test_loom_101_the_records_of_one_append_are_stored_wholly_or_not_at_all(tmp_path: Path) -> None:
    store = await opened(tmp_path)
    writing = SessionWriter(store, "a")
    await writing.append(Received((Text("x"),)))
    assert store._writer is not None
    assert store._writer._db is not None
    store._writer._db.execute(
        "CREATE TRIGGER no BEFORE INSERT ON events WHEN NEW.body LIKE '%third%' BEGIN SELECT RAISE(FAIL, 'no'); END"
    )
    many = [MessageAdded("assistant", (Text(text),)) for text in ("first", "second", "third", "fourth")]
    with pytest.raises(StoreFailed):
        await writing.append(*many)
    assert [record.seq for record in await store.read_records("a")] == [1]
    found = await store.get_session("a")
    assert found is not None
    assert found.head == 1, "the row that says where it stands is of the same transaction"
    await store.close()


@pytest.mark.parametrize(
    "totals",
    [{"prompt_tokens": 2**63}, {"completion_tokens": 10**30}, {"cost": float("nan")}],
    ids=repr,
)
async def test_f56_an_append_with_totals_that_sqlite_cannot_hold_is_refused_alone(
    tmp_path: Path, totals: dict[str, Any]
) -> None:
    store = await opened(tmp_path)
    body = encode_event(Received((Text("x"),)))
    row = SessionInfo(key="a", head=1, created=1, updated=1)
    refused, stored = (
        store.append(msgspec.structs.replace(row, **totals), 0, [body]),
        store.append(msgspec.structs.replace(row, key="b"), 0, [body]),
    )
    with pytest.raises(InputRefused, match="cannot be stored"):
        await refused
    await stored
    assert [info.key for info in await store.list_sessions()] == ["b"]
    await store.close()


async def test_commit_batch_max_bounds_how_many_appends_share_a_commit(tmp_path: Path) -> None:
    store = await opened(tmp_path, Limits(commit_batch_max=10))
    sizes: list[int] = []
    writer = store._writer
    assert writer is not None
    commit = writer._commit_appends
    writer._commit_appends = lambda appends: (sizes.append(len(appends)), commit(appends))  # type: ignore[assignment,method-assign]
    await asyncio.gather(*(SessionWriter(store, f"s{n}").append(Received((Text("x"),))) for n in range(95)))
    assert sum(sizes) == 95
    assert max(sizes) <= 10
    assert len(await store.list_sessions(limit=1000)) == 95
    await store.close()


async def test_concurrent_appends_of_one_session_stay_in_order(tmp_path: Path) -> None:
    store = await opened(tmp_path)
    writing = SessionWriter(store, "a")
    await asyncio.gather(*(writing.append(Received((Text(str(n)),))) for n in range(200)))
    read = await store.read_records("a")
    assert [record.event.parts[0].text for record in read] == [str(n) for n in range(200)]  # type: ignore[attr-defined]
    await store.close()


async def test_a_store_that_is_not_open_says_so(tmp_path: Path) -> None:
    store = await opened(tmp_path)
    await store.close()
    with pytest.raises(StoreFailed, match="not open for writing"):
        await SessionWriter(store, "a").append(Received((Text("x"),)))
    await store.close()


async def test_f48_a_missing_folder_is_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(HomeUnusable, match="cannot write"):
        await SqliteStore(str(tmp_path / "nowhere" / "workspace.db")).open()


async def test_f48_when_no_file_handles_are_left_what_already_runs_is_still_served(tmp_path: Path) -> None:
    store = await opened(tmp_path)
    writing = SessionWriter(store, "a")
    await writing.write_turn("before")
    held: list[int] = []
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(soft, 256), hard))
    try:
        while True:
            held.append(os.open("/dev/null", os.O_RDONLY))
    except OSError:
        await writing.write_turn("during")
        assert len(await store.read_records("a")) == 8
        with pytest.raises((HomeUnusable, StoreError)):
            await SqliteStore(str(tmp_path / "another.db")).open()
    finally:
        for fd in held:
            os.close(fd)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    await writing.write_turn("after")
    await store.close()


async def test_opening_again_migrates_nothing_and_changes_nothing(tmp_path: Path) -> None:
    store = await opened(tmp_path)
    await SessionWriter(store, "a").write_turn("x")
    await store.close()
    before = (tmp_path / "workspace.db").read_bytes()
    store = await opened(tmp_path)
    await store.close()
    assert (tmp_path / "workspace.db").read_bytes() == before
    assert not (tmp_path / "workspace.db-wal").exists(), "a closed store is one file"


async def test_loom_114_u19_a_turn_takes_little_on_disk_beside_its_text_and_grows_by_the_turn(tmp_path: Path) -> None:
    store = await opened(tmp_path)
    writing = SessionWriter(store, "a")

    async def one_turn() -> None:
        number = writing.session.turns + 1
        await writing.append(
            Received((Text("q" * 100),)),
            TurnStarted((writing.session.head + 1,), turn=number),
            MessageAdded("assistant", (Text("a" * 100),), turn=number, step=1),
            TurnEnded(Answered(), turn=number),
        )

    async def size_after(turns: int) -> int:
        await asyncio.gather(*(one_turn() for _ in range(turns)))
        db = apsw.Connection(str(tmp_path / "workspace.db"))
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        db.close()
        return (tmp_path / "workspace.db").stat().st_size

    first = await size_after(500)
    second = await size_after(500)
    third = await size_after(1000)
    assert (second - first) / 500 < 200 + 1024
    assert third - second == pytest.approx(2 * (second - first), rel=0.2), "in proportion, not with its square"
    await store.close()


async def test_storing_and_loading_are_quick(tmp_path: Path) -> None:
    """A tripwire, in processor time; what it really takes is measured by the benchmarks."""
    store = await opened(tmp_path)
    writing = SessionWriter(store, "a")
    await writing.append(
        *(MessageAdded(("user", "assistant")[n % 2], (Text(f"message {n} " + "x" * 200),)) for n in range(600))  # type: ignore[arg-type]
    )
    stores, loads = [], []
    for n in range(50):
        before = time.process_time()
        await writing.append(Received((Text(str(n)),)))
        stores.append(time.process_time() - before)
        before = time.process_time()
        assert await store.load_tail("a", 500_000)
        loads.append(time.process_time() - before)
    assert sorted(stores)[25] < 0.015
    assert sorted(loads)[25] < 0.060
    await store.close()


CANARY = "canary-7f3a9c "


def holding_canaries(folder: Path) -> list[Path]:
    return [path for path in folder.iterdir() if CANARY.encode() in path.read_bytes()]


@pytest.mark.parametrize("size", [20, 300, 3_000, 50_000])
async def test_after_closing_nothing_of_a_blanked_session_is_left_in_the_file(tmp_path: Path, size: int) -> None:
    """Among others that grow beside it, so that pages are split and copies left in their unused parts."""
    for seed in range(5):
        chance = random.Random(seed)
        home = tmp_path / str(seed)
        home.mkdir()
        store = await opened(home)
        sessions = [SessionWriter(store, f"s{n}") for n in range(4)]
        waiting = []
        for n in range(300):
            one = chance.choice(sessions)
            secret = one is sessions[1]
            text = (CANARY * (size // 14 + 1))[: chance.randint(14, size)] if secret else "x" * chance.randint(10, 3000)
            once = IdempotencyKey(f"{CANARY}{n}", "d") if secret else None
            waiting.append(asyncio.ensure_future(one.append(Received((Text(text),)), idempotency_key=once)))
            await asyncio.sleep(0)
        await asyncio.gather(*waiting)
        await store.blank_session("s1", 1)
        await store.close()
        assert holding_canaries(home) == []
        store = await opened(home)
        assert (
            len(await store.read_records("s0"))
            + len(await store.read_records("s2"))
            + len(await store.read_records("s3"))
            > 150
        )
        await store.close()


async def test_blanked_records_are_overwritten_at_once_and_not_only_at_the_next_closing(tmp_path: Path) -> None:
    store = await opened(tmp_path)
    await SessionWriter(store, "a").append(Received((Text(CANARY * 1000),)))
    await store.blank_session("a", 1)
    other = apsw.Connection(str(tmp_path / "workspace.db"))
    other.set_busy_timeout(30_000)  # the writer may still be closing its statement
    assert other.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0] == 0, "somebody held the log"
    other.close()
    assert holding_canaries(tmp_path) == []
    await store.close()


async def test_the_same_session_key_in_other_case_or_form_is_another_session(tmp_path: Path) -> None:
    store = await opened(tmp_path)
    keys = ["a", "A", "é", "e\u0301", "a ", "a\0b", "\uff41"]
    for key in keys:
        await SessionWriter(store, key).write_turn(key)
    for key in keys:
        assert len(await store.read_records(key)) == 4
    assert len(await store.list_sessions()) == len(keys)
    await store.close()


async def test_ids_of_inputs_are_exact_too(tmp_path: Path) -> None:
    store = await opened(tmp_path)
    writing = SessionWriter(store, "a")
    for id in ("m", "M", "m ", "m\0"):
        await writing.append(Received((Text("x"),), id=id), idempotency_key=IdempotencyKey(id, "d"))
    assert [(await store.find_input("a", id)) is not None for id in ("m", "M", "m ", "m\0", "n")] == [True] * 4 + [
        False
    ]
    await store.close()
