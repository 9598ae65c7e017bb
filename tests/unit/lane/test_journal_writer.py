"""Records before a reservation are written unsynced with it, and reach the database soon."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mainstay.core.events import Received, Reserved, TurnStarted
from mainstay.core.messages import Text
from mainstay.core.session import Session
from mainstay.lane.event_hub import EventHub
from mainstay.lane.journal_writer import UNSYNCED_MAX_S, JournalWriter
from mainstay.store.sqlite.store import SqliteStore
from mainstay.testing import VirtualClock

RESERVED = Reserved("1.1", "gpt-9", 10, 20, 30, turn=1, step=1)


class Late(SqliteStore):
    """What is waited for takes its time."""

    late: asyncio.Event | None = None

    def append(self, *given: Any, **named: Any) -> Any:
        if self.late is None:
            return super().append(*given, **named)
        return asyncio.ensure_future(self._append_late(super().append, given, named))

    async def _append_late(self, append: Any, given: Any, named: Any) -> None:
        assert self.late is not None
        await self.late.wait()
        await append(*given, **named)


async def opened(folder: Path, heard: Callable[[str], None] | None = None) -> tuple[Late, JournalWriter]:
    store = Late(str(folder / "workspace.db"))
    await store.open()
    return store, JournalWriter(Session("s"), store, VirtualClock(), 0.02, EventHub(10), heard)


async def kinds(store: SqliteStore) -> list[str]:
    return [type(one.event).__name__ for one in await store.read_records("s")]


async def test_unsynced_records_are_soon_in_the_database_during_a_long_call(tmp_path: Path) -> None:
    store, pen = await opened(tmp_path)
    await pen.record(Received((Text("hello"),)))
    pen.record_nowait(TurnStarted(inputs=(1,), turn=1), flush_soon=True)
    await pen.record(RESERVED)
    assert await kinds(store) == ["Received"], "the call waited for no disk"
    async with asyncio.timeout(10):
        while await kinds(store) != ["Received", "TurnStarted", "Reserved"]:
            await asyncio.sleep(0.01)
    await store.close()


async def test_a_reservation_alone_waits_for_what_follows_but_not_for_long(tmp_path: Path) -> None:
    store, pen = await opened(tmp_path)
    await pen.record(Received((Text("hello"),)), TurnStarted(inputs=(1,), turn=1))
    await pen.record(RESERVED)
    await asyncio.sleep(0.1)
    assert await kinds(store) == ["Received", "TurnStarted"]
    async with asyncio.timeout(10):
        while await kinds(store) != ["Received", "TurnStarted", "Reserved"]:
            await asyncio.sleep(0.05)
    await store.close()


async def test_a_second_reservation_does_not_keep_what_was_noted_from_the_disk(tmp_path: Path) -> None:
    store, pen = await opened(tmp_path)
    await pen.record(Received((Text("hello"),)))
    pen.record_nowait(TurnStarted(inputs=(1,), turn=1), flush_soon=True)
    await pen.record(RESERVED)
    await pen.record(Reserved("1.2", "gpt-9", 10, 20, 30, turn=1, step=2))
    async with asyncio.timeout(UNSYNCED_MAX_S * 0.8):
        while len(await kinds(store)) < 4:
            await asyncio.sleep(0.01)
    await store.close()


async def test_unsynced_records_follow_only_records_in_the_database(tmp_path: Path) -> None:
    """Killed in this moment, the database would have nothing that the line could follow."""
    store, pen = await opened(tmp_path)
    await pen.record(Received((Text("hello"),)))
    store.late = asyncio.Event()
    sent = asyncio.create_task(pen.record(TurnStarted(inputs=(1,), turn=1)))
    await asyncio.sleep(0)
    reserved = asyncio.create_task(pen.record(RESERVED))
    await asyncio.sleep(0.05)
    assert not reserved.done(), "an append before it is not on the disk yet"
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
    await store.close()
    await asyncio.sleep(0.05)  # a timer that is left would write to what is closed
