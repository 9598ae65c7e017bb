"""A database of the first schema: opened, carried over, gone on with."""

from __future__ import annotations

from pathlib import Path

import apsw
import pytest

from mainstay.core.entries import entries_of
from mainstay.core.events import Received, SessionChanged
from mainstay.core.journal import encode
from mainstay.core.messages import Text
from mainstay.core.recall import Query
from mainstay.core.session import Session
from mainstay.store.sqlite import SqliteStore
from mainstay.store.sqlite.database import migrations
from mainstay.testing.writing import Writing


@pytest.fixture
def path(tmp_path: Path) -> str:
    """Two sessions, one of which was told its instructions twice."""
    db = apsw.Connection(str(tmp_path / "workspace.db"))
    db.execute(migrations()[0])
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
            [((number << 32) + seq, encode(event).decode()) for seq, event in enumerate(events, start=1)],
        )
    db.close()
    return str(tmp_path / "workspace.db")


async def test_the_instructions_are_found_in_the_record_that_holds_them(path: str) -> None:
    store = SqliteStore(path)
    await store.open()
    standings = {one.key: one for one in await store.sessions()}
    assert (standings["a"].fixed, standings["a"].title) == (3, "ferries")
    assert standings["b"].fixed == 0
    tail = await store.load("a", 1)
    assert tail is not None
    assert Session.of(tail).instructions == "Be exact."
    await store.close()


async def test_it_goes_on_and_everything_can_be_followed_from_the_beginning(path: str) -> None:
    store = SqliteStore(path)
    await store.open()
    tiers = store.tiers()
    assert await tiers.messages.positions() == {}
    for key in await store.heads():
        records = await store.read(key)
        await tiers.messages.absorb(key, entries_of(key, records), records[-1].seq)
    assert len(await tiers.messages.match(Query(text="ferry"), 5)) == 2
    writing = Writing(store, "a")
    tail = await store.load("a", 10**9)
    assert tail is not None
    writing.view = Session.of(tail)
    await writing.turn("another")
    await store.close()
    store = SqliteStore(path)
    await store.open()
    assert len(await store.read("a")) == 8
    await store.close()
