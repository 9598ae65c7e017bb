"""The indexer: records of sessions reach every tier, in the background, once, despite any failure."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from mainstay.agent.system_clock import SystemClock
from mainstay.core.errors import EmbedderMissing, StoreCorrupt, StoreFailed, Unreachable
from mainstay.core.events import (
    Event,
    Folded,
    Judged,
    MessageAdded,
    Received,
    SessionChanged,
    ToolFinished,
    TurnEnded,
    TurnStarted,
)
from mainstay.core.journal import Record
from mainstay.core.limits import Limits
from mainstay.core.memory_tiers import Fact, Memory, MemoryQuery, MessageRef, Summary, WorkspaceTiers
from mainstay.core.messages import Text, ToolCall, ToolResult
from mainstay.core.outcome import Answered
from mainstay.core.ports import Store
from mainstay.memory import index_queue, indexer, tier_journal_cursor, vector_indexer
from mainstay.memory.indexer import MemoryIndexer
from mainstay.store.oxigraph.fact_tier import OxigraphFactTier
from mainstay.store.sqlite.store import SqliteStore
from mainstay.store.sqlite.workspace_tiers import SeparateTierDatabase
from mainstay.testing import MemoryStore
from mainstay.testing.knowledge_tier_suites import normalise_vector, pack_vector
from mainstay.testing.store_suite import SessionWriter

TOPICS = ("ferry", "soup", "tax", "violin")


class Topics:
    """An embedder that knows four words. `fails` raises that often; `missing` is why it cannot be had."""

    def __init__(self, name: str = "topics", dimensions: int = 16) -> None:
        self.name = name
        self.dimensions = dimensions
        self.texts: list[str] = []
        self.missing = ""
        self.fails = 0
        self.loads = 0

    async def load(self) -> int:
        self.loads += 1
        if self.missing:
            raise EmbedderMissing(self.missing)
        return self.dimensions

    async def embed(self, texts: Sequence[str]) -> list[bytes]:
        if self.fails:
            self.fails -= 1
            raise Unreachable("nobody answers")
        self.texts += texts
        return [self.vector(text) for text in texts]

    def vector(self, text: str) -> bytes:
        return pack_vector(
            normalise_vector([1.0 + 5 * text.count(topic) for topic in TOPICS] + [0.5] * (self.dimensions - 4))
        )

    async def close(self) -> None: ...


class Counted:
    """A store that counts and can refuse what is read of it."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.reads: list[tuple[str, int]] = []
        self.broken: set[str] = set()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.store, name)

    async def read_records(self, key: str, after: int = 0, limit: int = 1000) -> list[Record]:
        self.reads.append((key, after))
        if key in self.broken:
            raise StoreCorrupt("this one is damaged")
        return await self.store.read_records(key, after, limit)


class World:
    def __init__(self, store: Store, tiers: WorkspaceTiers) -> None:
        self.store = Counted(store)
        self.tiers = tiers
        self.follower: MemoryIndexer

    def follow(self, embedder: Topics | None = None, **settings: Any) -> MemoryIndexer:
        self.follower = MemoryIndexer(
            self.store, self.tiers, embedder=embedder, clock=SystemClock(), limits=Limits(), **settings
        )
        self.follower.start()
        return self.follower

    async def say(self, key: str, *events: Event) -> SessionWriter:
        writing = SessionWriter(self.store.store, key)
        tail = await self.store.load_tail(key, 10**9)
        if tail is not None:
            writing.session = type(writing.session).from_tail(tail)
        await writing.append(*events)
        self.follower.mark_changed(key)
        return writing

    async def holds(self, messages: int) -> bool:
        return await self.tiers.messages.count() == messages

    async def found(self, text: str) -> list[tuple[str, int]]:
        assert await self.follower.wait_until_indexed(120)
        return sorted((spot.session, spot.seq) for spot in await self.tiers.messages.search(MemoryQuery(text=text), 50))


@asynccontextmanager
async def world() -> AsyncIterator[World]:
    owner = SeparateTierDatabase(":memory:")
    made = World(MemoryStore(), await owner.open())
    try:
        yield made
    finally:
        await made.follower.close()
        await owner.close()


async def eventually(*checks: Callable[[], Any]) -> None:
    """Background work with timers and threads of its own: looked at until it is done, or the test's time is over."""
    while True:
        found = [check() for check in checks]
        if all([await one if asyncio.iscoroutine(one) else one for one in found]):
            return
        await asyncio.sleep(0.005)


async def _count(made: Awaitable[Sequence[Any]], wanted: int) -> bool:
    return len(await made) == wanted


def received(text: str) -> Received:
    return Received((Text(text),))


def turn(number: int, input: int, *calls: str, answer: str = "done") -> list[Event]:
    made: list[Event] = [TurnStarted((input,), turn=number)]
    for step, name in enumerate(calls, start=1):
        call = ToolCall(f"call_{number}_{step}_1", name, '{"path": "x"}')
        made.append(MessageAdded("assistant", (call,), turn=number, step=step))
        made.append(ToolFinished(ToolResult(call.id, name, f"result of {name}"), turn=number, step=step))
    made.append(MessageAdded("assistant", (Text(answer),), turn=number, step=len(calls) + 1))
    made.append(TurnEnded(Answered(), turn=number))
    return made


async def test_a_new_message_is_found_at_once_by_any_search() -> None:
    async with world() as here:
        here.follow()
        assert await here.found("ferry") == []
        await here.say("a", received("the ferry leaves at nine"))
        assert await here.found("ferries") == [("a", 1)]
        await here.say("b", received("a ferry too"), MessageAdded("assistant", (Text("which ferry?"),)))
        assert await here.found("ferry") == [("a", 1), ("b", 1), ("b", 2)]


async def test_without_a_search_records_are_indexed_a_little_later_in_one_batch() -> None:
    async with world() as here:
        here.follow()
        await here.follower.wait_until_indexed(120)
        here.store.reads.clear()
        for n in range(20):
            await here.say("a", received(f"ferry {n}"))
        assert here.store.reads == []
        await eventually(lambda: here.holds(20))
        assert here.store.reads == [("a", 0)], "one batch"


async def test_records_missed_while_no_indexer_ran_are_found_after_the_start() -> None:
    async with world() as here:
        for key in ("a", "b", "c"):
            writing = SessionWriter(here.store.store, key)
            for n in range(100):
                await writing.write_turn(f"ferry {n}")
        here.follow()
        assert len(await here.found("ferry")) == 50
        assert await here.tiers.messages.count() == 600
        assert await here.tiers.messages.positions() == await here.store.list_heads()


async def test_folds_bring_summaries_and_facts_with_where_and_when() -> None:
    async with world() as here:
        here.follow()
        writing = await here.say("a", received("I moved to Lisbon"))
        parts = (Summary(1, 1, 900, 950, "Ana moved"),)
        facts = (Fact("Ana", "lives in", "Lisbon", 1, 0.9), Fact("Ana", "is", "happy", 99))
        await here.say("a", SessionChanged(title="x"), Folded(1, "Ana moved", parts=parts, facts=facts))
        assert await here.follower.wait_until_indexed(120)
        assert await here.tiers.summaries.list_between(None, None) == [Summary(1, 1, 900, 950, "Ana moved", "a")]
        found = {fact.object: fact for fact in await here.tiers.facts.recall("Ana")}
        assert (found["Lisbon"].session, found["Lisbon"].source, found["Lisbon"].at) == ("a", 1, 950)
        assert found["happy"].at == (await here.store.read_records("a"))[2].at
        assert writing.session.head == 1


async def test_workflows_are_learned_from_whole_turns_whenever_they_end() -> None:
    async with world() as here:
        learned: list[Memory] = []
        here.follow().connect(learned.extend)
        events = turn(1, 1, "look", "write")
        await here.say("a", received("tidy up my notes"), *events[:3])
        assert await here.follower.wait_until_indexed(120)
        assert learned == []
        await here.say("a", received("and then my photos"), *events[3:])
        assert await here.follower.wait_until_indexed(120)
        assert [memory.text for memory in learned] == ["tidy up my notes"]
        await here.say("a", *turn(2, 5, "look", "write"))
        assert await here.follower.wait_until_indexed(120)
        assert [memory.text for memory in learned] == ["tidy up my notes", "and then my photos"], (
            "the prompt stood before the end of the turn before it"
        )
        await here.say("a", received("thanks"), *turn(3, 16))
        assert await here.follower.wait_until_indexed(120)
        assert [memory.id for memory in await here.tiers.memories.list_memories()] == ["workflow:a#2", "workflow:a#1"]


async def test_a_workflow_is_learned_though_its_turn_began_in_another_process() -> None:
    async with world() as here:
        here.follow()
        events = turn(1, 1, "look", "write")
        await here.say("a", received("tidy up my notes"), *events[:3])
        assert await here.follower.wait_until_indexed(120)
        await here.follower.close()
        here.follow()
        await here.say("a", *events[3:])
        assert await here.follower.wait_until_indexed(120)
        assert [memory.text for memory in await here.tiers.memories.list_memories()] == ["tidy up my notes"]


async def test_records_that_hold_nothing_are_not_read_again_after_a_restart() -> None:
    async with world() as here:
        here.follow()
        for n in range(5):
            await here.say(f"s{n}", received("ferry"), *turn(1, 1))
        assert await here.follower.wait_until_indexed(120)
        await here.follower.close()
        assert await here.tiers.facts.positions() == await here.store.list_heads()
        here.store.reads.clear()
        here.follow()
        assert await here.follower.wait_until_indexed(120)
        assert here.store.reads == []


# --- meaning -------------------------------------------------------------------------------------


async def test_messages_are_found_by_meaning_and_facts_by_the_message_that_said_them() -> None:
    async with world() as here:
        embedder = Topics()
        here.follow(embedder)
        await here.say(
            "a", received("about the soup"), received("nothing"), MessageAdded("assistant", (Text("the ferry"),))
        )
        fact = Fact("Ana", "plays the", "violin", 2)
        await here.say("a", Folded(1, "x", facts=(fact, Fact("a", "b", "c"))))
        assert await here.follower.wait_until_indexed(120)
        vectors = here.tiers.vectors
        assert vectors is not None
        for topic, seq in (("soup", 1), ("ferry", 3), ("violin", 2)):
            assert (await vectors.find_nearest(embedder.vector(topic), 1))[0].seq == seq
        assert embedder.loads == 1
        assert here.follower.note == ""


async def test_a_long_message_has_several_vectors_but_not_without_end() -> None:
    async with world() as here:
        embedder = Topics()
        here.follow(embedder)
        long = "words and words. " * 200 + "the violin. " + "more words. " * 10_000
        await here.say("a", received(long), received("the soup"))
        assert await here.follower.wait_until_indexed(120)
        assert here.tiers.vectors is not None
        assert await here.tiers.vectors.count() == vector_indexer.MESSAGE_CHUNKS_MAX + 1
        assert (await here.tiers.vectors.find_nearest(embedder.vector("violin"), 1))[0].seq == 1


async def test_a_different_model_means_embedding_again_in_the_background() -> None:
    async with world() as here:
        here.follow(Topics())
        await here.say("a", received("the soup"), received("the ferry"))
        assert await here.follower.wait_until_indexed(120)
        await here.follower.close()
        other = Topics("others", 32)
        here.follow(other)
        assert await here.follower.wait_until_indexed(120)
        assert here.tiers.vectors is not None
        assert await here.tiers.vectors.count() == 2
        assert (await here.tiers.vectors.find_nearest(other.vector("ferry"), 1))[0] == MessageRef(
            "a", 2, pytest.approx(1, abs=0.05)
        )


async def test_no_model_to_be_had_is_said_and_words_still_work() -> None:
    async with world() as here:
        embedder = Topics()
        embedder.missing = "install the extra"
        here.follow(embedder)
        await here.say("a", received("the soup"))
        assert await here.found("soup") == [("a", 1)]
        assert here.follower.note == "only full-text search is used: install the extra"
        await here.say("a", received("more soup"))
        assert await here.found("soup") == [("a", 1), ("a", 2)]
        assert embedder.loads == 1


async def test_a_model_that_fails_is_paused_and_tried_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for module in (vector_indexer, index_queue):
        monkeypatch.setattr(module, "RETRY_S", 0.01)
    caplog.set_level(logging.CRITICAL, "mainstay.memory")
    async with world() as here:
        embedder = Topics()
        embedder.fails = 3
        here.follow(embedder)
        notes: list[str] = []
        tell = here.follower._vector_indexer._on_note  # type: ignore[union-attr]
        here.follower._vector_indexer._on_note = lambda note: (notes.append(note), tell(note))  # type: ignore[union-attr]
        await here.say("a", received("the soup"))
        await here.follower.wait_until_indexed(120)
        await eventually(lambda: any("nobody answers" in note for note in notes))
        assert [spot.seq for spot in await here.tiers.messages.search(MemoryQuery(text="soup"), 5)] == [1]
        assert here.tiers.vectors is not None
        await eventually(lambda: here.follower.note == "")
        assert await here.tiers.vectors.count() == 1


async def test_a_home_in_which_nothing_was_said_loads_no_model() -> None:
    async with world() as here:
        embedder = Topics()
        here.follow(embedder)
        for _ in range(20):
            await asyncio.sleep(0)
        assert await here.tiers.messages.positions() == {}
        assert embedder.loads == 0


async def test_vectors_without_their_library_are_reported_in_a_sentence() -> None:
    owner = SeparateTierDatabase(":memory:", vectors=False)
    here = World(MemoryStore(), await owner.open())
    follower = here.follow(Topics())
    assert follower.note.startswith("only full-text search is used")
    await follower.close()
    await owner.close()


async def test_facts_in_another_store_follow_by_their_own_position(tmp_path: Path) -> None:
    pytest.importorskip("pyoxigraph")
    async with world() as here:
        graph = OxigraphFactTier(tmp_path / "facts")
        await graph.open()
        here.tiers = msgspec.structs.replace(here.tiers, facts=graph)
        here.follow()
        await here.say(
            "a", received("I moved to Lisbon"), Folded(1, "x", facts=(Fact("Ana", "lives in", "Lisbon", 1),))
        )
        assert await here.follower.wait_until_indexed(120)
        await here.follower.close()
        await graph.close()
        here.follow()
        await here.say("a", received("and now to Porto"), Folded(3, "x", facts=(Fact("Ana", "lives in", "Porto", 3),)))
        await here.follower.wait_until_indexed(0.01)
        await graph.open()  # it was away for a while
        here.follower.mark_changed("a")
        await eventually(
            lambda: here.follower.wait_until_indexed(120), lambda: _count(graph.recall("Ana", past=True), 2)
        )
        assert [fact.object for fact in await graph.recall("Ana")] == ["Porto"]
        assert (await graph.positions())["a"] == 4
        await here.follower.close()
        await graph.close()


# --- trouble -------------------------------------------------------------------------------------


async def test_a_tier_that_fails_disturbs_no_other_and_gets_the_missed_records_later(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(tier_journal_cursor, "RETRY_S", 0.05)
    caplog.set_level(logging.CRITICAL, "mainstay.memory")
    async with world() as here:
        facts, works = here.tiers.facts, [False]
        ingest = facts.ingest

        async def failing(session: str, made: Sequence[Fact], upto: int) -> None:
            if not works[0]:
                raise ConnectionResetError("the graph is away")
            await ingest(session, made, upto)

        monkeypatch.setattr(facts, "ingest", failing)
        here.follow()
        for key in ("a", "b"):
            await here.say(key, received("the soup"), Folded(1, "x", facts=(Fact(key, "likes", "soup", 1),)))
        assert await here.found("soup") == [("a", 1), ("b", 1)]
        assert await facts.list_facts() == []
        works[0] = True
        await eventually(lambda: here.follower.wait_until_indexed(120), lambda: _count(facts.list_facts(), 2))
        assert await here.tiers.messages.count() == 2


async def test_workflows_that_could_not_be_kept_are_learned_later(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(tier_journal_cursor, "RETRY_S", 0.01)
    caplog.set_level(logging.CRITICAL, "mainstay.memory")
    async with world() as here:
        memories, failures = here.tiers.memories, [2]
        ingest = memories.ingest

        async def failing(session: str, made: Sequence[Memory], upto: int) -> None:
            if failures[0]:
                failures[0] -= 1
                raise StoreFailed("not now")
            await ingest(session, made, upto)

        monkeypatch.setattr(memories, "ingest", failing)
        here.follow()
        await here.say("a", received("tidy up my notes"), *turn(1, 1, "look", "write"))
        await eventually(lambda: here.follower.wait_until_indexed(120), lambda: _count(memories.list_memories(), 1))


async def test_a_tier_that_cannot_even_say_where_it_is_is_asked_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(tier_journal_cursor, "RETRY_S", 0.02)
    caplog.set_level(logging.CRITICAL, "mainstay.memory")
    async with world() as here:
        positions, failures = here.tiers.messages.positions, [2]

        async def failing() -> dict[str, int]:
            if failures[0]:
                failures[0] -= 1
                raise StoreFailed("not now")
            return await positions()

        monkeypatch.setattr(here.tiers.messages, "positions", failing)
        await SessionWriter(here.store.store, "a").write_turn("the soup")
        here.follow()
        await eventually(lambda: here.follower.wait_until_indexed(120), lambda: here.holds(2))


async def test_a_follower_that_stops_anywhere_is_continued_by_the_next() -> None:
    async with world() as here:
        writing = SessionWriter(here.store.store, "a")
        for number in range(1, 40):
            await writing.append(received(f"ferry {number}"), *turn(number, writing.session.head + 1, "look", "write"))
        fact = Fact("Ana", "plays", "the violin", 1)
        await writing.append(Folded(1, "x", parts=(Summary(1, 1, 1, 2, "x"),), facts=(fact,)))
        embedder = Topics()
        for steps in range(0, 120, 4):
            follower = here.follow(embedder)
            for _ in range(steps):
                await asyncio.sleep(0)
            await follower.close()
        here.follow(embedder)
        assert await here.follower.wait_until_indexed(120)
        said = len(indexer.searchable_messages("a", await here.store.read_records("a")))
        assert await here.tiers.messages.count() == said
        assert here.tiers.vectors is not None
        assert await here.tiers.vectors.count() == said + 1, "each once, and the fact"
        assert len(await here.tiers.memories.list_memories(limit=500)) == 39
        assert len(await here.tiers.summaries.list_between(None, None)) == len(await here.tiers.facts.list_facts()) == 1
        for tier in (here.tiers.messages, here.tiers.vectors):
            assert await tier.positions() == {"a": writing.session.head}


async def test_records_that_hold_nothing_to_search_are_not_counted_as_missing() -> None:
    async with world() as here:
        here.follow()
        await here.say("a", received("the soup"))
        assert await here.follower.wait_until_indexed(120)
        await here.say("a", Folded(1, "x"), SessionChanged(title="lunch"))
        assert await here.follower.wait_until_indexed(120)
        assert await here.tiers.messages.positions() == {"a": 1}  # it is stored later
        assert await here.follower.count_unindexed() == 0
        here.store.broken = {"a", "b"}
        await here.say("a", received("the ferry"))
        await here.say("b", received("the ferry"), received("the tax"))
        await here.follower.wait_until_indexed(0.1)
        assert await here.follower.count_unindexed() == 3


async def test_a_session_that_cannot_be_read_does_not_stop_the_others(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL, "mainstay.memory")
    async with world() as here:
        here.store.broken = {"bad"}
        for key in ("bad", "good"):
            await SessionWriter(here.store.store, key).write_turn("the soup")
        here.follow()
        assert await here.found("soup") == [("good", 1), ("good", 3)]
        here.store.broken = set()
        here.follower.mark_changed("bad")
        assert len(await here.found("soup")) == 4


async def test_a_caller_does_not_wait_longer_than_requested(monkeypatch: pytest.MonkeyPatch) -> None:
    async with world() as here:
        held = asyncio.Event()
        ingest = here.tiers.messages.ingest

        async def slow(session: str, entries: Any, upto: int) -> None:
            await held.wait()
            await ingest(session, entries, upto)

        monkeypatch.setattr(here.tiers.messages, "ingest", slow)
        here.follow()
        await here.say("a", received("the soup"))
        assert not await here.follower.wait_until_indexed(0.01)
        held.set()
        assert await here.found("soup") == [("a", 1)]


async def test_sessions_that_were_deleted_meanwhile_are_dropped_at_the_start() -> None:
    async with world() as here:
        here.follow(Topics())
        for key in ("a", "b"):
            fold = Folded(1, "x", parts=(Summary(1, 1, 1, 2, "soup"),), facts=(Fact(key, "likes", "soup", 1),))
            await here.say(key, received("the soup"), fold)
        assert await here.follower.wait_until_indexed(120)
        await here.follower.close()
        await here.store.blank_session("a", 1)
        here.follow(Topics())
        assert await here.found("soup") == [("b", 1)]
        assert [fact.session for fact in await here.tiers.facts.list_facts()] == ["b"]
        assert [one.session for one in await here.tiers.summaries.list_between(None, None)] == ["b"]
        assert here.tiers.vectors is not None
        assert await here.tiers.vectors.count() == 2


async def test_a_message_forgotten_before_indexing_is_not_indexed(monkeypatch: pytest.MonkeyPatch) -> None:
    async with world() as here:
        read, reading, go = here.store.read_records, asyncio.Event(), asyncio.Event()

        async def slow(key: str, after: int = 0, limit: int = 1000) -> list[Record]:
            found = await read(key, after, limit)
            reading.set()
            await go.wait()
            return found

        monkeypatch.setattr(here.store, "read_records", slow)
        here.follow()
        await here.say("a", received("the soup"), received("the ferry"))
        waiting = asyncio.ensure_future(here.follower.wait_until_indexed(120))
        await reading.wait()
        await here.store.redact_records("a", [1])
        forgetting = asyncio.ensure_future(here.follower.forget("a", [1]))
        go.set()
        await asyncio.gather(waiting, forgetting)
        assert await here.found("soup") == []
        assert await here.found("ferry") == [("a", 2)]


async def test_beside_the_journal_a_page_read_before_brings_nothing_back(tmp_path: Path) -> None:
    store = SqliteStore(str(tmp_path / "workspace.db"))
    await store.open()
    tiers = store.tiers(vectors=False)
    await SessionWriter(store, "a").append(received("the soup"), received("the ferry"))
    records = await store.read_records("a")
    await store.redact_records("a", [1])
    await tiers.messages.ingest("a", indexer.searchable_messages("a", records), 2)
    assert await tiers.messages.search(MemoryQuery(text="soup"), 5) == []
    assert len(await tiers.messages.search(MemoryQuery(text="ferry"), 5)) == 1
    await store.blank_session("a", 1)
    await tiers.messages.ingest("a", indexer.searchable_messages("a", records), 3)
    assert await tiers.messages.count() == 0
    await store.close()


async def test_only_the_newest_stay_searchable_where_that_is_wanted() -> None:
    async with world() as here:
        here.follow(messages_max=10)
        for n in range(30):
            await here.say("a", received(f"soup {n}"))
        assert await here.found("soup") == [("a", seq) for seq in range(21, 31)]


async def test_a_notification_about_a_session_costs_next_to_nothing() -> None:
    async with world() as here:
        here.follow()
        await here.follower.wait_until_indexed(120)
        keys = [f"s{n}" for n in range(100)]
        best = min(_timed(here.follower, keys) for _ in range(20))
        assert best < 1e-6
        await here.follower.close()


def _timed(follower: MemoryIndexer, keys: list[str]) -> float:
    before = time.perf_counter()
    for key in keys:
        follower.mark_changed(key)
    return (time.perf_counter() - before) / len(keys)


def attempt(text: str, step: int, provisional: Any = "held") -> MessageAdded:
    return MessageAdded("assistant", (Text(text),), provisional=provisional, turn=1, step=step)


def said_of(step: int, *, passed: bool) -> Judged:
    return Judged((), float(passed), passed, attempt=step, turn=1, step=step)


@pytest.mark.parametrize("provisional", ["held", "shown"])
async def test_an_attempt_at_an_answer_is_found_once_it_stands_and_never_if_it_does_not(provisional: str) -> None:
    embedder = Topics()
    async with world() as here:
        here.follow(embedder)
        await here.say("a", received("ask"), TurnStarted((1,), turn=1), attempt("ferry one", 1, provisional))
        assert await here.found("ferry") == [], "judges think about it"
        assert await here.found("ask") == [("a", 1)]
        await here.say("a", said_of(1, passed=False), attempt("ferry two", 2, provisional))
        assert await here.found("ferry") == []
        await here.say("a", said_of(2, passed=True))
        assert await here.found("ferry") == [("a", 5)]
        await here.say("a", TurnEnded(Answered(1.0), turn=1))
        assert await here.found("ferry") == [("a", 5)]
        assert "ferry one" not in embedder.texts
        assert embedder.texts.count("ferry two") == 1


@pytest.mark.parametrize("between", [0, 1, 126, 127, 128, 129, 600])
async def test_a_verdict_in_another_page_of_the_journal_counts_the_same(between: int) -> None:
    async with world() as here:
        writing = SessionWriter(here.store.store, "a")
        await writing.append(received("ask"), TurnStarted((1,), turn=1), attempt("ferry one", 1))
        await writing.append(*(received(f"soup {n}") for n in range(between)))
        await writing.append(said_of(1, passed=False), attempt("ferry two", 2))
        await writing.append(*(received(f"tax {n}") for n in range(between)))
        await writing.append(said_of(2, passed=True), TurnEnded(Answered(1.0), turn=1))
        here.follow()
        assert await here.found("ferry") == [("a", between + 5)]
        assert await here.tiers.messages.count() == 2 * between + 2


async def test_an_answer_of_which_nothing_is_said_for_too_long_is_left_out_and_the_rest_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tier_journal_cursor, "UNDECIDED_MAX", 256)
    async with world() as here:
        writing = SessionWriter(here.store.store, "a")
        await writing.append(received("ask"), TurnStarted((1,), turn=1), attempt("ferry", 1))
        await writing.append(*(received(f"soup {n}") for n in range(600)))
        here.follow()
        assert await here.found("ferry") == []
        assert await here.tiers.messages.count() == 601
