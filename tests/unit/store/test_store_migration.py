"""A database of the first schema: opened, migrated, continued."""

from __future__ import annotations

from pathlib import Path

import apsw
import pytest

from mainstay.core.events import Received, SessionChanged
from mainstay.core.journal import encode_event
from mainstay.core.memory_tiers import MemoryQuery
from mainstay.core.messages import Text
from mainstay.core.searchable_messages import searchable_messages
from mainstay.core.session import Session
from mainstay.store.sqlite.connection import load_migrations
from mainstay.store.sqlite.store import SqliteStore
from mainstay.testing.store_writer import SessionWriter


@pytest.fixture
def path(tmp_path: Path) -> str:
    """Two sessions, one of which was told its instructions twice."""
    db = apsw.Connection(str(tmp_path / "workspace.db"))
    db.execute(load_migrations()[0])
    db.execute("PRAGMA user_version = 1")
    bodies = [
        SessionChanged(instructions="Be kind."),
        Received((Text("the ferry leaves at nine"),)),
        SessionChanged(title="ferries", instructions="Be exact."),
        Received((Text("and at ten"),)),
    ]
    for number, (key, settings) in enumerate(
        [("a", '{"title":"ferries","instructions":"Be exact."}'), ("b", "{}")], start=1
    ):
        events = bodies if key == "a" else bodies[1:2]
        db.execute(
            "INSERT INTO sessions VALUES (?,?,?,0,0,0,'active',0,0,0,0,0,1,1,?)", (number, key, len(events), settings)
        )
        db.executemany(
            "INSERT INTO events VALUES (?,1,?)",
            [((number << 32) + seq, encode_event(event).decode()) for seq, event in enumerate(events, start=1)],
        )
    db.close()
    return str(tmp_path / "workspace.db")


async def test_the_instructions_are_found_in_the_record_that_holds_them(path: str) -> None:
    store = SqliteStore(path)
    await store.open()
    standings = {one.key: one for one in await store.list_sessions()}
    assert (standings["a"].fixed, standings["a"].title) == (3, "ferries")
    assert standings["b"].fixed == 0
    tail = await store.load_tail("a", 1)
    assert tail is not None
    assert Session.from_tail(tail).instructions == "Be exact."
    await store.close()


async def test_it_goes_on_and_everything_can_be_followed_from_the_beginning(path: str) -> None:
    store = SqliteStore(path)
    await store.open()
    tiers = store.tiers()
    assert await tiers.messages.positions() == {}
    for key in await store.list_heads():
        records = await store.read_records(key)
        await tiers.messages.ingest(key, searchable_messages(key, records), records[-1].seq)
    assert len(await tiers.messages.search(MemoryQuery(text="ferry"), 5)) == 2
    writing = SessionWriter(store, "a")
    tail = await store.load_tail("a", 10**9)
    assert tail is not None
    writing.session = Session.from_tail(tail)
    await writing.write_turn("another")
    await store.close()
    store = SqliteStore(path)
    await store.open()
    assert len(await store.read_records("a")) == 8
    await store.close()
