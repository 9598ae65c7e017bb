"""Projections of the journals: each record once for each projection, through any crash, and failures stay separate."""

from __future__ import annotations

import asyncio
import logging
import os
import random
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from mainstay.core.errors import StoreError, StoreFull
from mainstay.core.events import (
    Event,
    Forked,
    MessageAdded,
    Received,
    StepCheckpointed,
    ToolFinished,
    TurnEnded,
    TurnStarted,
)
from mainstay.core.journal import Record
from mainstay.core.messages import Text, ToolCall, ToolResult
from mainstay.core.outcome import Answered
from mainstay.core.ports import Store
from mainstay.core.projection_ports import JournalBatch, Projection
from mainstay.observe import projection_runner as following
from mainstay.observe.projection_runner import ProjectionRunner, open_records
from mainstay.operations.sessions import copy_session
from mainstay.store.memory.store import MemoryStore
from mainstay.store.sqlite.store import SqliteStore
from mainstay.testing.store_writer import SessionWriter

PATIENCE_S = 120.0
ALL = os.environ.get("MAINSTAY_TEST_ALL") == "1"


class Noting:
    """A reader that keeps what it is given, as one with a database would. It raises `trouble` while there is some."""

    def __init__(self, name: str = "noting") -> None:
        self.name = name
        self.places: dict[str, int] = {}
        self.taken: dict[str, list[Record]] = {}
        self.stretches: list[JournalBatch] = []
        self.trouble: Exception | None = None
        self.picky: str = ""  # a session that it cannot take
        self.replaced = False  # its places are of another journal

    async def positions(self) -> dict[str, int]:
        return dict(self.places)

    async def apply(self, batch: JournalBatch) -> None:
        await asyncio.sleep(0)
        key = batch.info.key
        if self.trouble is not None:
            raise self.trouble
        if key == self.picky:
            raise ZeroDivisionError("a bug of this reader's")
        first = batch.records[0]
        follows = first.seq == self.places.get(key, 0) + 1 or isinstance(first.event, Forked)
        assert follows or self.replaced, "nothing is left out, nothing told twice"
        self.taken.setdefault(key, []).extend(batch.records)
        self.places[key] = batch.records[-1].seq
        self.stretches.append(batch)

    def seqs(self, key: str) -> list[int]:
        return [record.seq for record in self.taken.get(key, [])]


@asynccontextmanager
async def followed(store: Store, *readers: Projection) -> AsyncIterator[ProjectionRunner]:
    follower = ProjectionRunner(store, readers, workspace="blue")
    follower.start()
    try:
        yield follower
    finally:
        await follower.close()


@pytest.fixture(params=["memory", "sqlite"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    made: Store = MemoryStore() if request.param == "memory" else SqliteStore(str(tmp_path / "workspace.db"))
    await made.open()
    yield made
    await made.close()


async def until(follower: ProjectionRunner, reader: Noting, key: str, seq: int) -> None:
    """A reader that was in trouble is tried again, some time."""
    async with asyncio.timeout(PATIENCE_S):
        while reader.places.get(key, 0) < seq:
            await follower.retry_failed()
            await follower.wait_caught_up(PATIENCE_S)
            await asyncio.sleep(0.01)


# --- each record once ----------------------------------------------------------------------------


async def test_every_reader_is_given_each_record_once_and_in_order(store: Store) -> None:
    one, other = Noting("one"), Noting("other")
    async with followed(store, one, other) as follower:
        talks = [SessionWriter(store, f"s{number}") for number in range(70)]  # more than are followed at once
        for text in ("a", "b", "c"):
            for talk in talks:
                await talk.write_turn(text)
                follower.notify(talk.session.key)
            assert await follower.wait_caught_up(PATIENCE_S)
        for talk in talks:
            assert one.seqs(talk.session.key) == other.seqs(talk.session.key) == list(range(1, talk.session.head + 1))
    assert {stretch.info.workspace for stretch in one.stretches} == {"blue"}


async def test_a_session_longer_than_a_page_is_followed_to_its_end(store: Store) -> None:
    reader, talk = Noting(), SessionWriter(store, "s")
    for number in range(following.PAGE_RECORDS // 2):
        await talk.write_turn(str(number))
    async with followed(store, reader) as follower:
        assert await follower.wait_caught_up(PATIENCE_S)
        await talk.write_turn("more")
        follower.notify("s")
        assert await follower.wait_caught_up(PATIENCE_S)
    assert reader.seqs("s") == list(range(1, talk.session.head + 1))
    assert len(reader.stretches) > 2


async def test_records_written_while_no_runner_ran_are_caught_up_exactly_once(store: Store) -> None:
    reader, talk = Noting(), SessionWriter(store, "s")
    await talk.write_turn("a")
    async with followed(store, reader) as follower:
        assert await follower.wait_caught_up(PATIENCE_S)
    await talk.write_turn("b")
    await SessionWriter(store, "new").write_turn("c")
    async with followed(store, reader) as follower:
        assert await follower.wait_caught_up(PATIENCE_S)
        assert reader.seqs("s") == list(range(1, 9))
        assert reader.seqs("new") == [1, 2, 3, 4]


async def test_a_session_that_begins_while_readers_say_where_they_are_is_not_cut(store: Store) -> None:
    """What was on disk when the second was asked was news to the first one too."""
    talk = SessionWriter(store, "s")

    class Slow(Noting):
        async def positions(self) -> dict[str, int]:
            await talk.write_turn("meanwhile")
            return await super().positions()

    first, second = Noting("first"), Slow("second")
    async with followed(store, first, second) as follower:
        assert await follower.wait_caught_up(PATIENCE_S)
        await talk.write_turn("after")
        follower.notify("s")
        assert await follower.wait_caught_up(PATIENCE_S)
    assert first.seqs("s") == second.seqs("s") == list(range(1, talk.session.head + 1))


async def test_touched_sessions_are_still_followed_when_the_agent_closes(store: Store) -> None:
    reader, talk = Noting(), SessionWriter(store, "s")
    async with followed(store, reader) as follower:
        assert await follower.wait_caught_up(PATIENCE_S)
        await talk.write_turn("the last thing it did")
        follower.notify("s")
    assert reader.seqs("s") == [1, 2, 3, 4]


async def test_a_quiet_agent_is_followed_without_being_asked(store: Store) -> None:
    reader, talk = Noting(), SessionWriter(store, "s")
    async with followed(store, reader) as follower:
        await talk.write_turn("a")
        follower.notify("s")
        async with asyncio.timeout(PATIENCE_S):
            while not reader.seqs("s"):
                await asyncio.sleep(0.05)


async def test_records_copied_by_a_fork_are_not_applied_again(store: Store) -> None:
    reader, talk = Noting(), SessionWriter(store, "s")
    for number in range(following.PAGE_RECORDS // 3):
        await talk.write_turn(str(number))
    async with followed(store, reader) as follower:
        await copy_session(store, "s", "copy", None, 5_000)
        follower.notify("copy")
        await follower.wait_caught_up(PATIENCE_S)
        told = [stretch for stretch in reader.stretches if stretch.info.key == "copy"]
        assert [type(record.event) for record in told[0].records] == [Forked]


# --- trouble -------------------------------------------------------------------------------------


async def test_a_failing_projection_delays_no_other_and_gets_all_records_later(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    well, full, talk = Noting("well"), Noting("full"), SessionWriter(store, "s")
    async with followed(store, full, well) as follower:
        full.trouble = StoreFull("no space left")
        for text in ("a", "b"):
            await talk.write_turn(text)
            follower.notify("s")
            assert await follower.wait_caught_up(PATIENCE_S)
        assert well.seqs("s") == list(range(1, 9))
        assert full.seqs("s") == []
        assert follower.errors == {"full": "no space left"}
        assert follower.get_error("well") == ""
        full.trouble = None
        await until(follower, full, "s", 8)
        assert full.seqs("s") == list(range(1, 9))
        assert not follower.errors
    assert [one.levelname for one in caplog.records if "full is behind" in one.message and one.levelno > 20] == [
        "ERROR"
    ]


async def test_a_projection_with_a_failed_but_committed_write_is_asked_for_its_position(store: Store) -> None:
    class Unsure(Noting):
        fails = 1

        async def apply(self, batch: JournalBatch) -> None:
            await super().apply(batch)
            if self.fails:
                self.fails -= 1
                raise StoreError("it may be on disk or not")

    reader, talk = Unsure(), SessionWriter(store, "s")
    async with followed(store, reader) as follower:
        await talk.write_turn("a")
        follower.notify("s")
        await follower.wait_caught_up(PATIENCE_S)
        await talk.write_turn("b")
        follower.notify("s")
        await until(follower, reader, "s", 8)
    assert reader.seqs("s") == list(range(1, 9))


async def test_a_reader_that_cannot_say_where_it_is_joins_later(store: Store) -> None:
    class Late(Noting):
        broken = True

        async def positions(self) -> dict[str, int]:
            if self.broken:
                raise StoreError("not yet")
            return await super().positions()

    late, well, talk = Late("late"), Noting("well"), SessionWriter(store, "s")
    await talk.write_turn("a")
    async with followed(store, late, well) as follower:
        assert await follower.wait_caught_up(PATIENCE_S)
        assert well.seqs("s") == [1, 2, 3, 4]
        assert not late.seqs("s")
        await talk.write_turn("b")
        follower.notify("s")
        late.broken = False
        await until(follower, late, "s", 8)
    assert late.seqs("s") == well.seqs("s") == list(range(1, 9))


async def test_a_bug_with_one_session_does_not_affect_the_others(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    reader = Noting()
    reader.picky = "odd"
    caplog.set_level(logging.CRITICAL, "mainstay.observe")
    async with followed(store, reader) as follower:
        for key in ("odd", "even"):
            await SessionWriter(store, key).write_turn("a")
            follower.notify(key)
        assert await follower.wait_caught_up(PATIENCE_S)
        assert reader.seqs("even") == [1, 2, 3, 4]
        assert not reader.seqs("odd")
        assert "session 'odd' cannot be processed" in follower.get_error(reader.name)
        reader.picky = ""
        follower.notify("odd")
        await follower.wait_caught_up(PATIENCE_S)
        assert reader.seqs("odd") == [1, 2, 3, 4]
        assert not follower.get_error(reader.name)


async def test_an_unreadable_journal_is_read_again_later(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(following, "START_RETRY_S", 0.01)
    caplog.set_level(logging.CRITICAL, "mainstay.observe")

    class Flaky(MemoryStore):
        fails = 3

        async def list_heads(self) -> dict[str, int]:
            if self.fails:
                self.fails -= 1
                raise StoreError("busy")
            return await super().list_heads()

    store, reader = Flaky(), Noting()
    await SessionWriter(store, "s").write_turn("a")
    async with followed(store, reader) as follower:
        assert await follower.wait_caught_up(PATIENCE_S)
        assert reader.seqs("s") == [1, 2, 3, 4]


async def test_a_caller_that_waits_for_a_hanging_projection_is_told_in_time() -> None:
    hangs = asyncio.Event()

    class Hanging(Noting):
        async def apply(self, batch: JournalBatch) -> None:
            await hangs.wait()

    store = MemoryStore()
    async with followed(store, Hanging()) as follower:
        await SessionWriter(store, "s").write_turn("a")
        follower.notify("s")
        assert not await follower.wait_caught_up(0.05)
        hangs.set()


async def test_a_waiting_caller_is_served_under_any_load() -> None:
    """The reader touches other sessions with every one that it is given: there is always something new."""
    store = MemoryStore()

    class Busy(Noting):
        more = 0

        async def apply(self, batch: JournalBatch) -> None:
            await super().apply(batch)
            self.more += 1
            await SessionWriter(store, f"more {self.more}").write_turn("a")
            follower.notify(f"more {self.more}")

    reader = Busy()
    async with followed(store, reader) as follower:
        await SessionWriter(store, "s").write_turn("a")
        follower.notify("s")
        assert await follower.wait_caught_up(PATIENCE_S)
        assert reader.seqs("s") == [1, 2, 3, 4]


async def test_a_place_beyond_the_end_of_a_journal_is_its_end(store: Store) -> None:
    """A backup of the journal was put back, of before what the reader was told."""
    reader, talk = Noting(), SessionWriter(store, "s")
    await talk.write_turn("a")
    reader.places["s"], reader.replaced = 9, True
    async with followed(store, reader) as follower:
        await follower.wait_caught_up(PATIENCE_S)
        await talk.write_turn("b")
        follower.notify("s")
        await follower.wait_caught_up(PATIENCE_S)
        assert reader.seqs("s") == [5, 6, 7, 8]


# --- what was before -----------------------------------------------------------------------------


def random_session(seed: int) -> list[Event]:
    """Turns with tool calls; inputs come before turns and in the middle of them."""
    chance = random.Random(seed)
    events: list[Event] = []
    waiting: list[int] = []

    def say() -> None:
        events.append(Received((Text("hello"),), kind=chance.choice(["prompt", "prompt", "overheard"])))
        if events[-1].kind == "prompt":  # type: ignore[attr-defined]
            waiting.append(len(events))

    for turn in range(1, chance.randint(2, 6)):
        while not waiting:
            say()
        events.append(TurnStarted(tuple(waiting), turn=turn))
        waiting.clear()
        for step in range(chance.randint(0, 4)):
            call = f"call_{turn}_{step}"
            events.append(MessageAdded("assistant", (ToolCall(call, "look", "{}"),), turn=turn))
            if chance.random() < 0.3:
                say()
            events.append(StepCheckpointed("more", turn=turn))
            events.append(ToolFinished(ToolResult(call, "look", "found"), turn=turn))
        if turn < 5 or chance.random() < 0.5:
            events.append(TurnEnded(Answered(), turn=turn))
        if chance.random() < 0.5:
            say()
    return events


def expected_before(records: Sequence[Record], place: int) -> list[int]:
    """By the words of the port: of the turn that is open there, what was told; and inputs that waited."""
    return [record.seq for record in open_records((), records[:place])]


@pytest.mark.parametrize("seed", range(200 if ALL else 25))
async def test_a_projection_is_told_its_part_of_the_open_turn_from_any_position(seed: int) -> None:
    chance = random.Random(seed)
    store, talk, events = MemoryStore(), SessionWriter(MemoryStore(), "s"), random_session(seed)
    talk.store = store
    readers = [Noting("quick"), Noting("slow"), Noting("later")]
    follower = ProjectionRunner(store, readers)
    follower.start()
    for event in events:
        await talk.append(event)
        follower.notify("s")
        for reader in readers[1:]:
            reader.trouble = StoreError("busy") if chance.random() < 0.4 else None
        if chance.random() < 0.5:
            await follower.retry_failed()
            await follower.wait_caught_up(PATIENCE_S)
        if chance.random() < 0.1:  # the agent is closed, and opened again
            await follower.close()
            follower = ProjectionRunner(store, readers)
            follower.start()
    for reader in readers:
        reader.trouble = None
        follower.notify("s")
        await until(follower, reader, "s", len(events))
    await follower.close()
    records = await store.read_records("s", 0, 10_000)
    for reader in readers:
        assert reader.seqs("s") == list(range(1, len(events) + 1))
        for stretch in reader.stretches:
            place = stretch.records[0].seq - 1
            assert [record.seq for record in stretch.earlier] == expected_before(records, place)


async def test_the_start_of_a_very_long_turn_is_searched_within_a_limit() -> None:
    store, talk, reader = MemoryStore(), SessionWriter(MemoryStore(), "s"), Noting()
    talk.store = store
    await talk.append(Received((Text("a"),)), TurnStarted((1,), turn=1))
    steps = [MessageAdded("assistant", (Text("so"),), turn=1) for _ in range(700)]
    await talk.append(*steps)
    reader.places["s"] = 690
    async with followed(store, reader) as follower:
        await follower.wait_caught_up(PATIENCE_S)
    assert [record.seq for record in reader.stretches[0].earlier] == list(range(1, 691))
