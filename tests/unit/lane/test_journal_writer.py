"""Records before a reservation are written unsynced with it, and reach the database soon."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mainstay.core.events import Received, Reserved, TurnStarted
from mainstay.core.messages import Text
from mainstay.core.session import Session
from mainstay.lane import journal_writer
from mainstay.lane.event_hub import EventHub
from mainstay.lane.journal_writer import UNSYNCED_MAX_S, JournalWriter
from mainstay.store.sqlite.store import SqliteStore
from mainstay.testing import VirtualClock

RIDE_ALONG_S = 0.2
RESERVED = Reserved("1.1", "gpt-9", 10, 20, 30, turn=1, step=1)


class Late(SqliteStore):
    """What is waited for takes its time. `syncs`: whether each append so far was synced."""

    late: asyncio.Event | None = None
    syncs: list[bool]
    order: asyncio.Lock

    def append(self, *given: Any, **named: Any) -> Any:
        self.syncs.append(named.get("synced", True))
        if self.late is None:
            return super().append(*given, **named)
        return asyncio.ensure_future(self._append_late(super().append, given, named))

    async def _append_late(self, append: Any, given: Any, named: Any) -> None:
        assert self.late is not None
        async with self.order:
            await self.late.wait()
            await append(*given, **named)


async def opened(folder: Path, heard: Callable[[str], None] | None = None) -> tuple[Late, JournalWriter]:
    store = Late(str(folder / "workspace.db"))
    store.syncs, store.order = [], asyncio.Lock()
    await store.open()
    return store, JournalWriter(Session("s"), store, VirtualClock(), RIDE_ALONG_S, EventHub(10), heard)


async def kinds(store: SqliteStore) -> list[str]:
    return [type(one.event).__name__ for one in await store.read_records("s")]


async def in_database(store: SqliteStore, *wanted: str) -> None:
    async with asyncio.timeout(120):
        while await kinds(store) != list(wanted):
            await asyncio.sleep(0.01)


async def test_unsynced_records_are_soon_in_the_database_during_a_long_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal_writer, "UNSYNCED_MAX_S", 3600.0)  # so that soon is sooner than this
    store, pen = await opened(tmp_path)
    await pen.record(Received((Text("hello"),)))
    loop = asyncio.get_running_loop()
    began = loop.time()
    pen.record_nowait(TurnStarted(inputs=(1,), turn=1), flush_soon=True)
    await pen.record(RESERVED)
    await in_database(store, "Received", "TurnStarted", "Reserved")
    assert loop.time() - began >= RIDE_ALONG_S, "the call waited for no disk"
    assert store.syncs == [True, False, True]
    await store.close()


async def test_a_reservation_alone_waits_for_what_follows_but_not_for_long(tmp_path: Path) -> None:
    store, pen = await opened(tmp_path)
    await pen.record(Received((Text("hello"),)), TurnStarted(inputs=(1,), turn=1))
    loop = asyncio.get_running_loop()
    began = loop.time()
    await pen.record(RESERVED)
    await in_database(store, "Received", "TurnStarted", "Reserved")
    assert loop.time() - began >= UNSYNCED_MAX_S
    await store.close()


async def test_a_second_reservation_does_not_keep_what_was_noted_from_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal_writer, "UNSYNCED_MAX_S", 3600.0)  # what a reservation alone may wait for
    store, pen = await opened(tmp_path)
    await pen.record(Received((Text("hello"),)))
    pen.record_nowait(TurnStarted(inputs=(1,), turn=1), flush_soon=True)
    await pen.record(RESERVED)
    await pen.record(Reserved("1.2", "gpt-9", 10, 20, 30, turn=1, step=2))
    await in_database(store, "Received", "TurnStarted", "Reserved", "Reserved")
    await store.close()


async def test_unsynced_records_follow_only_records_in_the_database(tmp_path: Path) -> None:
    """Killed in this moment, the database would have nothing that the line could follow."""
    store, pen = await opened(tmp_path)
    await pen.record(Received((Text("hello"),)))
    store.late = asyncio.Event()
    sent = asyncio.create_task(pen.record(TurnStarted(inputs=(1,), turn=1)))
    await asyncio.sleep(0)
    reserved = asyncio.create_task(pen.record(RESERVED))
    await asyncio.sleep(0)
    assert store.syncs == [True, True, True], "an append before it is not on the disk yet"
    assert not reserved.done()
    store.late.set()
    await sent
    await reserved
    assert await kinds(store) == ["Received", "TurnStarted", "Reserved"]
    await store.close()


async def test_followers_are_notified_when_the_record_can_be_read(tmp_path: Path) -> None:
    heard: list[str] = []
    store, pen = await opened(tmp_path, heard.append)
    await pen.record(Received((Text("hello"),)))
    heard.clear()
    await pen.record(RESERVED)
    assert heard == []
    await pen.flush()
    assert heard == ["s"]
    await store.close()


async def test_a_reloaded_session_continues_after_all_records(tmp_path: Path) -> None:
    store, pen = await opened(tmp_path)
    await pen.record(Received((Text("hello"),)))
    await pen.record(RESERVED)
    tail = await store.load_tail("s", 1000)
    assert tail is not None
    assert tail.info.head == 2
    await store.close()


async def test_a_lane_that_closes_leaves_nothing_to_a_timer(tmp_path: Path) -> None:
    store, pen = await opened(tmp_path)
    await pen.record(Received((Text("hello"),)))
    pen.record_nowait(TurnStarted(inputs=(1,), turn=1), flush_soon=True)
    await pen.record(RESERVED)
    await pen.flush()
    assert await kinds(store) == ["Received", "TurnStarted", "Reserved"]
    assert not pen.has_pending_writes, "a timer that is left would write to what is closed"
    await store.close()
