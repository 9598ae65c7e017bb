"""Uses an index in a process that is killed at any write: started by test_tiers_crash, forks a process for each
attempt.

Each line on standard input is an experiment ({"action", "at", "seed"}), each line on standard output what is wrong
with what it left behind: an empty list, if all is well.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sys
import tempfile
import traceback
from pathlib import Path

import apsw

from mainstay.core.events import Received
from mainstay.core.memory_tiers import Fact, Memory, MemoryQuery, WorkspaceTiers
from mainstay.core.messages import Text
from mainstay.core.searchable_messages import searchable_messages
from mainstay.core.session import Session
from mainstay.store.sqlite.store import SqliteStore
from mainstay.testing.knowledge_tier_suites import normalise_vector, pack_vector
from mainstay.testing.store_writer import SessionWriter
from support.faulty_vfs import FaultyVFS, Plan

SESSIONS = ("a", "b")
ROUNDS = 3
EACH = 4  # messages a round
FORGOTTEN = 2  # sequence in "a"


def words(key: str, seq: int) -> str:
    return f"ferry {key}{seq}word"


def vector(seq: int) -> bytes:
    return pack_vector(normalise_vector([1.0 if place == seq else 0.05 for place in range(16)]))


async def run_process(home: Path, plan: Plan) -> None:
    """Says things, has them indexed, forgets one of them, keeps a memory. What is done is noted in a file."""
    vfs = FaultyVFS("faulty", plan)
    plan.vfs = vfs
    store = SqliteStore(str(home / "workspace.db"), vfs="faulty")
    await store.open()
    tiers = store.tiers()
    assert tiers.vectors is not None
    await tiers.vectors.set_model("model", 16)
    for number in range(ROUNDS):
        for key in SESSIONS:
            tail = await store.load_tail(key, 10**9)
            writing = SessionWriter(store, key)
            if tail is not None:
                writing.session = Session.from_tail(tail)
            head = writing.session.head
            await writing.append(*(Received((Text(words(key, head + n)),)) for n in range(1, EACH + 1)))
            note(home, f"said {key} {head + EACH}")
            await follow(store, tiers, key)
        if number == 1:
            await store.redact_records("a", [FORGOTTEN])
            note(home, "forgotten")
            await tiers.memories.save(Memory(id="m", text="a ferry to remember", source="b#1"))
            note(home, "kept")
    await store.close()
    note(home, "closed")


async def follow(store: SqliteStore, tiers: WorkspaceTiers, key: str) -> None:
    """As a follower does, a few records at a time."""
    assert tiers.vectors is not None
    for tier in (tiers.messages, tiers.facts, tiers.vectors):
        at = (await tier.positions()).get(key, 0)
        while records := await store.read_records(key, at, 3):
            at = records[-1].seq
            entries = searchable_messages(key, records)
            if tier is tiers.messages:
                await tiers.messages.ingest(key, entries, at)
            elif tier is tiers.facts:
                facts = [Fact(key, f"said {one.seq}", "ferry", one.seq, session=key, at=one.seq) for one in entries]
                await tiers.facts.ingest(key, facts, at)
            else:
                await tiers.vectors.ingest(key, [(one.seq, vector(one.seq)) for one in entries], at)


def note(home: Path, line: str) -> None:
    with (home / "notes").open("a") as file:
        file.write(line + "\n")


# --- afterwards ----------------------------------------------------------------------------------


async def check(home: Path) -> list[str]:
    notes = (home / "notes").read_text().splitlines() if (home / "notes").exists() else []
    store = SqliteStore(str(home / "workspace.db"))
    await store.open()
    tiers = store.tiers()
    wrong = await consistent(store, tiers)
    for line in notes:
        match line.split():
            case ["said", key, head] if (await store.list_heads()).get(key, 0) < int(head):
                wrong.append(f"{line}, and it is not there")
            case ["forgotten"] if await tiers.messages.search(MemoryQuery(text=words("a", FORGOTTEN).split()[1]), 5):
                wrong.append("what was forgotten is found")
            case ["kept"] if not await tiers.memories.list_memories():
                wrong.append("what was kept is gone")
    assert tiers.vectors is not None
    await tiers.vectors.set_model("model", 16)
    for key in await store.list_heads():
        await follow(store, tiers, key)
    wrong += await consistent(store, tiers)
    for key, head in (await store.list_heads()).items():
        for tier in (tiers.messages, tiers.facts, tiers.vectors):
            if (await tier.positions()).get(key) != head:
                wrong.append(f"{tier.name} does not catch up in {key}")
    await store.close()
    db = apsw.Connection(str(home / "workspace.db"))
    wrong += [f"integrity: {row}" for row in db.execute("PRAGMA integrity_check") if row != ("ok",)]
    for table in ("messages_words", "facts_words", "memories_words"):
        db.execute(f"INSERT INTO {table} ({table}) VALUES ('integrity-check')")
    db.close()
    return wrong


async def consistent(store: SqliteStore, tiers: WorkspaceTiers) -> list[str]:
    """In every tier exactly what stands up to its position, and was not forgotten."""
    wrong: list[str] = []
    found = {
        "messages": {(one.session, one.seq) for one in await tiers.messages.search(MemoryQuery(text="ferry"), 100)},
        "facts": {(one.session, one.source) for one in await tiers.facts.list_facts()},
    }
    if tiers.vectors is not None and await tiers.vectors.count():
        found["vectors"] = {(one.session, one.seq) for one in await tiers.vectors.find_nearest(vector(1), 100)}
    for name, have in found.items():
        tier = getattr(tiers, name)
        wanted = set()
        for key, at in (await tier.positions()).items():
            records = [record for record in await store.read_records(key) if record.seq <= at]
            wanted |= {(key, entry.seq) for entry in searchable_messages(key, records)}
        if name == "vectors":  # a slice comes before its position, and is written again with it
            have = {one for one in have if one in wanted}
        if have != wanted:
            wrong.append(f"{name}: {sorted(have ^ wanted)}")
    return wrong


# --- processes -----------------------------------------------------------------------------------


def apart(work: object) -> tuple[int, str]:
    """In a process of its own: how it ended, and what it said."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read)
        try:
            os.write(write, json.dumps(work()).encode())  # type: ignore[operator]
        except BaseException:
            os.write(write, json.dumps([traceback.format_exc()]).encode())
        os._exit(0)
    os.close(write)
    said = b"".join(iter(lambda: os.read(read, 65536), b""))
    os.close(read)
    _, status = os.waitpid(child, 0)
    return status, said.decode()


def attempt(action: str, at: int, seed: int) -> dict[str, object]:
    home = Path(tempfile.mkdtemp())
    try:

        def life() -> int:
            plan = Plan(action, at, seed=seed)
            asyncio.run(run_process(home, plan))
            return plan.count

        status, said = apart(life)
        operations = json.loads(said) if said else 0
        if isinstance(operations, list):
            return {"operations": 0, "wrong": operations}
        _, wrong = apart(lambda: asyncio.run(check(home)))
        return {"operations": operations, "killed": status != 0, "wrong": json.loads(wrong)}
    finally:
        shutil.rmtree(home)


if __name__ == "__main__":
    for line in sys.stdin:
        print(json.dumps(attempt(**json.loads(line))), flush=True)
