"""A database file that is removed while it is in use."""

from __future__ import annotations

from pathlib import Path

import pytest

from mainstay.core.errors import StaleWriter, StoreCorrupt, StoreFull
from mainstay.core.events import Received
from mainstay.core.limits import Limits
from mainstay.core.messages import Text
from mainstay.core.session import Session
from mainstay.lane.event_hub import EventHub
from mainstay.lane.journal_writer import JournalWriter
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
