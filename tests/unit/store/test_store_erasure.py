"""Erased data is gone: from the journal, from every tier, and from the bytes of the file."""

from __future__ import annotations

import random
import string
from pathlib import Path

import apsw
import pytest

from mainstay.core.events import Received, ToolFinished
from mainstay.core.memory_tiers import Fact, Memory, MemoryQuery, Summary
from mainstay.core.messages import Text, ToolResult
from mainstay.core.searchable_messages import searchable_messages
from mainstay.store.sqlite import vector_tier as vectors_module
from mainstay.store.sqlite import workspace_tiers as tiers_module
from mainstay.store.sqlite.index_maintenance import purge_steps
from mainstay.store.sqlite.store import SqliteStore
from mainstay.testing.knowledge_tier_suites import normalise_vector, pack_vector
from mainstay.testing.store_writer import SessionWriter

CANARIES = ["".join(random.Random(n).choices(string.ascii_lowercase, k=24)) + "zq" for n in range(6)]
MEANING = pack_vector(normalise_vector([(n * 7919 % 1009) / 1009 - 0.5 for n in range(256)]))


async def opened(home: Path) -> SqliteStore:
    store = SqliteStore(str(home / "workspace.db"))
    await store.open()
    return store


async def fill(store: SqliteStore) -> None:
    """Other sessions before and after; the secret one says the canaries in every tier."""
    chance = random.Random(1)
    tiers = store.tiers()
    assert tiers.vectors is not None
    await tiers.vectors.set_model("model", 256)
    for number in range(20):
        key = "secret" if number == 10 else f"s{number}"
        texts = [" ".join(f"word{chance.randint(0, 5_000)}" for _ in range(60)) for _ in range(20)]
        if key == "secret":
            texts = [f"{text} {CANARIES[0]}" for text in texts]
        await SessionWriter(store, key).append(
            *(Received((Text(text),)) for text in texts),
            ToolFinished(ToolResult("call_1", "look", texts[0])),
        )
        records = await store.read_records(key)
        await tiers.messages.ingest(key, searchable_messages(key, records), records[-1].seq)
        if key == "secret":
            await store.save_value(key, "call_1", f"{CANARIES[1]} " * 5_000)
            await tiers.summaries.ingest(key, [Summary(1, 20, 1, 2, f"about {CANARIES[2]}")], 21)
            await tiers.facts.ingest(key, [Fact("Ana", "keeps", CANARIES[3], 5, session=key)], 21)
            await tiers.memories.save(Memory(id="m1", text=f"the {CANARIES[4]}", source="secret#5", data=CANARIES[5]))
        vector = MEANING if key == "secret" else pack_vector(normalise_vector([chance.gauss(0, 1) for _ in range(256)]))
        await tiers.vectors.ingest(key, [(5, vector)], 21)


def fingerprints() -> list[bytes]:
    """Everything that must not be in the file: words as they are and as the index has them, and both vectors."""
    fine = vectors_module._quantise(MEANING, 256)
    assert fine is not None
    db = apsw.Connection(":memory:")
    assert vectors_module.load_extension(db)
    ((bits,),) = db.execute("SELECT vec_quantize_binary(vec_int8(?))", (fine,))
    return [*(canary.encode() for canary in CANARIES), fine, bits]  # type: ignore[list-item]


def found_in(home: Path) -> set[int]:
    """Which of them. The index shares the beginnings of words, so their ends count too."""
    data = b"".join(path.read_bytes() for path in home.iterdir() if path.name.startswith("workspace.db"))
    return {
        place
        for place, mark in enumerate(fingerprints())
        if mark in data or (place < len(CANARIES) and mark[2:].rstrip(b"q") in data)
    }


def everything() -> set[int]:
    return set(range(len(fingerprints())))


@pytest.mark.parametrize("way", ["blank", "redact"])
async def test_f41_after_closing_nothing_of_it_is_in_the_file(tmp_path: Path, way: str) -> None:
    pytest.importorskip("sqlite_vec")
    store = await opened(tmp_path)
    await fill(store)
    await store.close()
    assert found_in(tmp_path) == everything(), "or this test could not fail"
    store = await opened(tmp_path)
    if way == "blank":
        await store.blank_session("secret", 1)
    else:
        await store.redact_records("secret", range(1, 22))
    await store.close()
    assert found_in(tmp_path) == set()
    store = await opened(tmp_path)
    tiers = store.tiers()
    assert await tiers.messages.count() == 19 * 21
    assert len(await tiers.messages.search(MemoryQuery(text=" ".join(f"word{n}" for n in range(16))), 500)) > 5
    await store.close()


@pytest.mark.parametrize("way", ["blank", "redact"])
async def test_nothing_of_it_is_found_at_once_and_its_bytes_go_soon_after(tmp_path: Path, way: str) -> None:
    """A gateway may never close: what is left in the indexes is cleared in the background."""
    pytest.importorskip("sqlite_vec")
    store = await opened(tmp_path)
    await fill(store)
    tiers = store.tiers()
    assert tiers.vectors is not None
    if way == "blank":
        await store.blank_session("secret", 1)
    else:
        await store.redact_records("secret", [*range(1, 22), 99])
    for canary in CANARIES:
        assert await tiers.messages.search(MemoryQuery(text=canary), 5) == []
        assert await tiers.facts.recall(canary) == []
        assert await tiers.memories.search(MemoryQuery(text=canary)) == []
        assert await tiers.summaries.search(MemoryQuery(text=canary), 5) == []
    assert {spot.session for spot in await tiers.vectors.find_nearest(MEANING, 50)} == {
        f"s{number}" for number in range(20) if number != 10
    }
    assert await store.read_value("secret", "call_1", 0, 10) is None
    await store.tiers().messages._database.run_in_background(iter(()))  # type: ignore[attr-defined]  # everything queued is done first
    other = apsw.Connection(str(tmp_path / "workspace.db"))
    other.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    other.close()
    assert found_in(tmp_path) == set()
    await store.close()


async def test_single_facts_and_memories_leave_nothing_either(tmp_path: Path) -> None:
    pytest.importorskip("sqlite_vec")
    store = await opened(tmp_path)
    await fill(store)
    tiers = store.tiers()
    (fact,) = await tiers.facts.list_facts()
    assert await tiers.facts.forget([fact.id]) == 1
    assert await tiers.memories.forget(["m1"]) == 1
    await store.close()
    assert found_in(tmp_path) & {3, 4, 5} == set()


async def test_clearing_goes_on_after_a_crash_in_the_middle(tmp_path: Path) -> None:
    pytest.importorskip("sqlite_vec")
    store = await opened(tmp_path)
    await fill(store)
    writer = store._writer
    assert writer is not None
    await store._run_job(lambda db: None)
    store._erase = _only_the_transaction(store)  # type: ignore[method-assign]
    await store.blank_session("secret", 1)
    writer.needs_purge = False  # as if the process had ended here
    await store.close()
    assert 0 in found_in(tmp_path), "its words are still in the index"
    store = await opened(tmp_path)
    assert store._writer is not None
    assert store._writer.needs_purge
    await store.close()
    assert found_in(tmp_path) == set()


def _only_the_transaction(store: SqliteStore):  # type: ignore[no-untyped-def]
    return store._run_job


async def test_forgetting_again_while_the_first_is_cleared_is_not_lost(tmp_path: Path) -> None:
    store = await opened(tmp_path)
    steps = purge_steps()
    await store._run_job(lambda db: db.execute("INSERT INTO chores VALUES ('purge', 1)"))
    await store._run_job(next(steps))
    await store._run_job(lambda db: db.execute("UPDATE chores SET times = times + 1"))
    for step in steps:
        await store._run_job(step)
    assert await store._run_read(lambda db: db.execute("SELECT times FROM chores").fetchall()) == [(2,)]
    await store.close()


async def test_vectors_can_be_erased_without_their_library_and_are_rebuilt_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("sqlite_vec")
    store = await opened(tmp_path)
    await fill(store)
    await store.close()
    with monkeypatch.context() as without:
        for module in (vectors_module, tiers_module):
            without.setattr(module, "find_extension", lambda: None)
        store = await opened(tmp_path)
        assert store.tiers().vectors is None
        await store.blank_session("secret", 1)
        await store.close()
    assert found_in(tmp_path) == set()
    store = await opened(tmp_path)
    tiers = store.tiers()
    assert tiers.vectors is not None
    await tiers.vectors.set_model("model", 256)
    assert await tiers.vectors.count() == 19
    assert len(await tiers.vectors.find_nearest(MEANING, 50)) == 19
    assert len(await tiers.vectors.positions()) == 19, "nothing is embedded again"
    await store.close()


async def test_memories_and_facts_of_other_sessions_stay(tmp_path: Path) -> None:
    store = await opened(tmp_path)
    tiers = store.tiers()
    for key in ("a", "b"):
        await SessionWriter(store, key).write_turn("x")
        await tiers.facts.ingest(key, [Fact(key, "likes", "tea", 1, session=key, at=1)], 4)
        await tiers.memories.save(Memory(id=key, text=f"{key} likes tea", source=f"{key}#1"))
        await tiers.summaries.ingest(key, [Summary(1, 4, 1, 2, "tea")], 4)
    await store.blank_session("a", 1)
    assert [fact.session for fact in await tiers.facts.list_facts()] == ["b"]
    assert [memory.id for memory in await tiers.memories.list_memories()] == ["b"]
    assert [one.session for one in await tiers.summaries.list_between(None, None)] == ["b"]
    assert await tiers.messages.positions() == {}
    await store.close()
