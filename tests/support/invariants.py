"""Invariants of a crashed and recovered home: checked on its journal, its ledger and its acknowledgements."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from pathlib import Path

import apsw

from mainstay.core.events import MessageAdded, Received, ToolFinished, TurnEnded, TurnStarted
from mainstay.core.journal import Record
from mainstay.core.messages import ToolCall
from mainstay.lane.replay import replay_journal
from mainstay.store.sqlite.store import SqliteStore


def lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


async def read_journal(home: Path) -> list[Record]:
    store = SqliteStore(str(home / "workspace.db"))
    await store.open()
    try:
        return await store.read_records("s", limit=100_000)
    finally:
        await store.close()


def check_home(home: Path) -> None:
    asyncio.run(check_home_async(home))


async def check_home_async(home: Path) -> None:
    db = apsw.Connection(str(home / "workspace.db"))
    assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    db.close()
    records = await read_journal(home)
    assert [record.seq for record in records] == list(range(1, len(records) + 1))
    check_inputs(home, records)
    check_calls(home, records)
    outcome = await replay_journal(records)
    assert outcome.is_identical, outcome.difference


def check_inputs(home: Path, records: list[Record]) -> None:
    """I1, I3: what was acknowledged ran, once, and its turn ended, once."""
    received = [record.event.id for record in records if isinstance(record.event, Received)]
    assert len(received) == len(set(received)), "an input was accepted twice"
    for prompt in lines(home / "acked"):
        assert prompt in received, f"{prompt!r} was acknowledged and lost"
    started = [seq for record in records if isinstance(record.event, TurnStarted) for seq in record.event.inputs]
    ended = Counter(record.event.turn for record in records if isinstance(record.event, TurnEnded))
    assert len(started) == len(received), "an input did not run, or ran twice"
    assert all(count == 1 for count in ended.values()), "a turn ended twice"
    assert len(ended) == len(received), "a turn did not end"


def check_calls(home: Path, records: list[Record]) -> None:
    """I2: every call has exactly one result, in call order, and no unsafe call had its effect twice."""
    messages = [record.event for record in records if isinstance(record.event, MessageAdded)]
    calls = [part.id for message in messages for part in message.parts if isinstance(part, ToolCall)]
    results = [record.event.result.call_id for record in records if isinstance(record.event, ToolFinished)]
    assert results == calls
    effects = Counter((entry["tool"], entry["key"]) for entry in map(json.loads, lines(home / "ledger")))
    for (tool, key), times in effects.items():
        assert tool == "put" or times == 1, f"{tool} {key} ran {times} times"
