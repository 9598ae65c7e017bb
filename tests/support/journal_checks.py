"""Checks of journals, made by tests that kill, starve or load a server."""

from __future__ import annotations

from collections import Counter

from mainstay.core.events import Received, Steered, TurnEnded, TurnStarted
from mainstay.core.journal import Record
from mainstay.core.session import Session
from mainstay.store.sqlite.store import SqliteStore


async def read_journal(store: SqliteStore, session: str) -> list[Record]:
    found: list[Record] = []
    while page := await store.read_records(session, after=found[-1].seq if found else 0):
        found += page
    return found


def check_journal(key: str, records: list[Record]) -> None:
    """A journal is whole: in sequence, no input and no turn twice, and every event can be applied."""
    assert [record.seq for record in records] == list(range(1, len(records) + 1)), key
    ids = Counter(record.event.id for record in records if isinstance(record.event, Received) and record.event.id)
    assert not ids or max(ids.values()) == 1, f"{key}: an input came twice: {ids.most_common(1)}"
    ended = Counter(record.event.turn for record in records if isinstance(record.event, TurnEnded))
    assert not ended or max(ended.values()) == 1, f"{key}: a turn ended twice: {ended.most_common(1)}"
    session = Session(key)
    for record in records:
        session.apply(record.seq, record.at, record.event)


def check_answers(records: list[Record], taken: list[str]) -> None:
    """Every acknowledged prompt is in one turn, and that turn ended."""
    received = {one.event.id: one.seq for one in records if isinstance(one.event, Received)}
    ended = {one.event.turn for one in records if isinstance(one.event, TurnEnded)}
    for id in taken:
        assert id in received, f"{id} was acknowledged, and is lost"
        turns = [
            one.event.turn
            for one in records
            if isinstance(one.event, TurnStarted | Steered) and received[id] in one.event.inputs
        ]
        assert len(turns) == 1, f"{id} is in the turns {turns}"
        assert turns[0] in ended, f"the turn of {id} has no end"
