"""What is noted before a reservation goes ahead of the database with it, and may not be kept from there."""

from __future__ import annotations

import asyncio
from pathlib import Path

from mainstay.core.events import Received, Reserved, TurnStarted
from mainstay.core.messages import Text
from mainstay.core.session import Session
from mainstay.lane.hub import Hub
from mainstay.lane.scribe import Pen
from mainstay.store.sqlite import SqliteStore
from mainstay.testing import VirtualClock

RESERVED = Reserved("1.1", "gpt-9", 10, 20, 30, turn=1, step=1)


async def kinds(store: SqliteStore) -> list[str]:
    return [type(one.event).__name__ for one in await store.read("s")]


async def test_what_is_noted_is_soon_in_the_database_however_long_the_call_takes(tmp_path: Path) -> None:
    store = SqliteStore(str(tmp_path / "workspace.db"))
    await store.open()
    pen = Pen(Session("s"), store, VirtualClock(), 0.02, Hub(10))
    await pen.record(Received((Text("hello"),)))
    pen.note(TurnStarted(inputs=(1,), turn=1), soon=True)
    await pen.record(RESERVED)
    assert await kinds(store) == ["Received"], "the call waited for no disk"
    async with asyncio.timeout(10):
        while await kinds(store) != ["Received", "TurnStarted", "Reserved"]:
            await asyncio.sleep(0.01)
    await store.close()


async def test_a_reservation_alone_waits_for_what_follows(tmp_path: Path) -> None:
    store = SqliteStore(str(tmp_path / "workspace.db"))
    await store.open()
    pen = Pen(Session("s"), store, VirtualClock(), 0.02, Hub(10))
    await pen.record(Received((Text("hello"),)), TurnStarted(inputs=(1,), turn=1))
    await pen.record(RESERVED)
    await asyncio.sleep(0.1)
    assert await kinds(store) == ["Received", "TurnStarted"]
    await store.close()


async def test_a_lane_that_closes_leaves_nothing_to_a_timer(tmp_path: Path) -> None:
    store = SqliteStore(str(tmp_path / "workspace.db"))
    await store.open()
    pen = Pen(Session("s"), store, VirtualClock(), 0.02, Hub(10))
    await pen.record(Received((Text("hello"),)))
    pen.note(TurnStarted(inputs=(1,), turn=1), soon=True)
    await pen.record(RESERVED)
    await pen.flush()
    assert await kinds(store) == ["Received", "TurnStarted", "Reserved"]
    await store.close()
    await asyncio.sleep(0.05)  # a timer that is left would write to what is closed
