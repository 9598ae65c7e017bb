"""Conformance suites of the memory tiers for messages and summaries. Subclass one and override `make`:

class TestMyMessages(MessageSuite):
    @asynccontextmanager
    async def make(self, folder: Path) -> AsyncIterator[MessageTier]: ...
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path

from mainstay.core.events import MessageAdded, Received, ToolFinished
from mainstay.core.journal import Record
from mainstay.core.memory_tiers import IndexedMessage, MemoryQuery, MessageRef, MessageTier, Summary, SummaryTier
from mainstay.core.messages import Text, ToolResult
from mainstay.core.searchable_messages import searchable_messages

HOSTILE_TEXTS = (
    '"',
    '""',
    "a\"b'c",
    "NEAR(ferry, 2)",
    "text : ferry",
    "-text:ferry",
    "ferry*",
    "^ferry + timetable",
    "ferry AND NOT",
    "OR OR OR",
    "(((",
    "\0ferry\0",
    "\x00\x01\x02\x1b[31m",
    "\ud800 ferry \udfff",
    "'; DROP TABLE messages; --",
    "{a b}: x",
    "٣ 漢字 🧵 \u202e\ufeff",
    "ferry " * 170_000,
    "x" * 1_000_000,
    " ",
    "",
)


def build_records(session: str, lines: Iterable[str], at: int = 1_000) -> list[Record]:
    """Return records of a conversation: user and model alternate, a second apart."""
    records = []
    for seq, line in enumerate(lines, start=1):
        event = Received((Text(line),), sender="ana") if seq % 2 else MessageAdded("assistant", (Text(line),))
        records.append(Record(seq, at + seq * 1_000, event))
    return records


class TierSuiteBase:
    """Base of the tier suites. A tier that reads the journal itself overrides `write_journal`."""

    async def write_journal(self, session: str, records: Sequence[Record]) -> None:
        """Write these records to the session's journal. Does nothing by default."""


class MessageSuite(TierSuiteBase):
    """Tests of a MessageTier."""

    def make(self, folder: Path) -> AbstractAsyncContextManager[MessageTier]:
        raise NotImplementedError("override `make`: it creates the tier")

    async def ingest(self, tier: MessageTier, session: str, records: Sequence[Record]) -> list[IndexedMessage]:
        await self.write_journal(session, records)
        messages = searchable_messages(session, records)
        await tier.ingest(session, messages, records[-1].seq)
        return messages

    async def test_messages_are_found_by_words_in_any_inflection(self, tmp_path: Path) -> None:
        async with self.make(tmp_path) as tier:
            await self.ingest(
                tier, "a", build_records("a", ["We are moving to Lisbon in spring", "Lovely! Which flat?", "Any"])
            )
            await self.ingest(tier, "b", build_records("b", ["A recipe for soup", "Onions, and some more onions"]))
            for text in ("move", "MOVED to lisbon?", "LISBON", "the flat moved"):
                refs = await tier.search(MemoryQuery(text=text), 10)
                assert (refs[0].session, refs[0].seq) in {("a", 1), ("a", 2)}, text
                assert all(ref.score > 0 for ref in refs)
            assert [(ref.session, ref.seq) for ref in await tier.search(MemoryQuery(text="onion"), 10)] == [("b", 2)]
            assert await tier.search(MemoryQuery(text="zeppelin"), 10) == []
            assert await tier.count() == 5

    async def test_the_best_matches_come_first_up_to_the_limit(self, tmp_path: Path) -> None:
        async with self.make(tmp_path) as tier:
            lines = [f"nothing of note happened on day {n}" for n in range(40)]
            lines[7] = "the ferry"
            lines[20] = "the ferry timetable"
            await self.ingest(tier, "a", build_records("a", lines))
            refs = await tier.search(MemoryQuery(text="ferry timetable"), 10)
            assert [ref.seq for ref in refs] == [21, 8]
            assert refs[0].score > refs[1].score
            assert len(await tier.search(MemoryQuery(text="nothing happened"), 3)) == 3
            assert await tier.search(MemoryQuery(text="ferry"), 0) == []

    async def test_ingesting_the_same_again_changes_nothing(self, tmp_path: Path) -> None:
        async with self.make(tmp_path) as tier:
            records = build_records("a", ["one ferry", "two ferries", "three boats", "four boats"])
            messages = await self.ingest(tier, "a", records)
            assert await tier.positions() == {"a": 4}
            before = await tier.search(MemoryQuery(text="ferry"), 10)
            await tier.ingest("a", messages, 4)
            await tier.ingest("a", messages[:2], 2)
            await tier.ingest("a", [], 3)
            assert await tier.positions() == {"a": 4}
            assert await tier.count() == 4
            assert await tier.search(MemoryQuery(text="ferry"), 10) == before

    async def test_a_position_moves_without_messages(self, tmp_path: Path) -> None:
        async with self.make(tmp_path) as tier:
            await self.write_journal("a", build_records("a", ["x"] * 9))
            assert await tier.positions() == {}
            await tier.ingest("a", [], 9)
            assert await tier.positions() == {"a": 9}
            assert await tier.count() == 0

    async def test_a_cancelled_ingestion_leaves_nothing_half_done(self, tmp_path: Path) -> None:
        async with self.make(tmp_path) as tier:
            records = build_records("a", [f"line {n} " + "ferry " * 500 for n in range(300)])
            await self.write_journal("a", records)
            messages = searchable_messages("a", records)
            task = asyncio.ensure_future(tier.ingest("a", messages, 300))
            for _ in range(5):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            position = (await tier.positions()).get("a", 0)
            assert await tier.count() >= position
            await tier.ingest("a", messages, 300)
            assert (await tier.positions(), await tier.count()) == ({"a": 300}, 300)
            assert len(await tier.search(MemoryQuery(text="ferry"), 1_000)) == 300

    async def test_time_speaker_and_session_filter_the_matches(self, tmp_path: Path) -> None:
        async with self.make(tmp_path) as tier:
            await self.ingest(tier, "a", build_records("a", ["ferry one", "ferry two", "ferry three"]))
            await self.ingest(tier, "b", build_records("b", ["ferry four"], at=50_000))

            async def matching(query: MemoryQuery) -> list[tuple[str, int]]:
                refs = await tier.search(query, 10)
                everything = await tier.search(MemoryQuery(text="ferry"), 10)
                assert {(ref.session, ref.seq) for ref in await tier.filter_refs(everything, query)} == {
                    (ref.session, ref.seq) for ref in refs
                }
                return sorted((ref.session, ref.seq) for ref in refs)

            assert len(await matching(MemoryQuery(text="ferry"))) == 4
            assert await matching(MemoryQuery(text="ferry", start=3_000)) == [("a", 2), ("a", 3), ("b", 1)]
            assert await matching(MemoryQuery(text="ferry", start=3_000, end=4_000)) == [("a", 2)]
            assert await matching(MemoryQuery(text="ferry", end=10**30, start=-(10**30), session="b")) == [("b", 1)]
            assert await matching(MemoryQuery(text="ferry", session="a", speaker="assistant")) == [("a", 2)]
            assert await matching(MemoryQuery(text="ferry", speaker="Ana")) == [("a", 1), ("a", 3), ("b", 1)]
            assert await matching(MemoryQuery(text="ferry", speaker="user", session="a")) == [("a", 1), ("a", 3)]
            assert await matching(MemoryQuery(text="ferry", session="nobody")) == []

    async def test_neighbours_of_a_message_are_from_its_own_session(self, tmp_path: Path) -> None:
        async with self.make(tmp_path) as tier:
            for key in ("a", "b", "c"):
                await self.ingest(tier, key, build_records(key, [f"{key} line {n}" for n in range(1, 8)]))
            refs = [
                MessageRef("b", 1),
                MessageRef("b", 4),
                MessageRef("b", 7),
                MessageRef("a", 7),
                MessageRef("b", 99),
                MessageRef("nobody", 1),
            ]
            neighbours = await tier.find_neighbours(refs, 2)
            assert [[(ref.session, ref.seq) for ref in group] for group in neighbours[:4]] == [
                [("b", 1), ("b", 2), ("b", 3)],
                [("b", 2), ("b", 3), ("b", 4), ("b", 5), ("b", 6)],
                [("b", 5), ("b", 6), ("b", 7)],
                [("a", 5), ("a", 6), ("a", 7)],
            ]
            assert all(ref.session == "b" for ref in neighbours[4])
            assert neighbours[5] == []
            assert await tier.find_neighbours([], 2) == []
            assert [[ref.seq for ref in group] for group in await tier.find_neighbours([MessageRef("a", 3)], 0)] == [
                [3]
            ]

    async def test_messages_are_fetched_whole_in_the_requested_order(self, tmp_path: Path) -> None:
        async with self.make(tmp_path) as tier:
            long = "the longest story " * 20_000
            result = ToolFinished(ToolResult("call_7", "look", "all quiet", origin="untrusted:look"))
            records = [*build_records("a", ["first", long]), Record(3, 9_000, result)]
            messages = await self.ingest(tier, "a", records)
            refs = [
                MessageRef("a", 3),
                MessageRef("a", 2),
                MessageRef("nobody", 1),
                MessageRef("a", 77),
                MessageRef("a", 1),
            ]
            assert await tier.fetch_messages(refs) == [messages[2], messages[1], messages[0]]
            assert await tier.find_tool_result("a", "call_7") == messages[2]
            assert messages[2].origin == "untrusted:look"
            assert await tier.find_tool_result("a", "call_8") is None
            assert await tier.find_tool_result("a", "") is None
            assert await tier.find_tool_result("nobody", "call_7") is None

    async def test_deleted_messages_do_not_come_back(self, tmp_path: Path) -> None:
        async with self.make(tmp_path) as tier:
            records = build_records("a", ["ferry one", "ferry two", "ferry three"])
            messages = await self.ingest(tier, "a", records)
            await self.ingest(tier, "b", build_records("b", ["ferry four", "ferry five"]))
            await tier.delete_derived("a", [2, 99])
            await tier.delete_derived("nobody")
            assert sorted(ref.seq for ref in await tier.search(MemoryQuery(text="ferry", session="a"), 9)) == [1, 3]
            assert [ref.seq for ref in (await tier.find_neighbours([MessageRef("a", 1)], 5))[0]] == [1, 3]
            assert (await tier.positions())["a"] == 3
            await tier.ingest("a", messages, 3)
            assert await tier.count() == 4
            await tier.delete_derived("a")
            assert {ref.session for ref in await tier.search(MemoryQuery(text="ferry"), 9)} == {"b"}
            assert await tier.positions() == {"a": 3, "b": 2}
            await tier.ingest("a", messages, 3)
            assert await tier.count() == 2

    async def test_trimming_keeps_only_the_newest(self, tmp_path: Path) -> None:
        async with self.make(tmp_path) as tier:
            await self.ingest(tier, "new", build_records("new", [f"ferry {n}" for n in range(100)], at=10_000_000))
            await self.ingest(tier, "old", build_records("old", [f"ferry {n}" for n in range(100)]))
            await tier.trim(30)
            assert await tier.count() == 30
            refs = await tier.search(MemoryQuery(text="ferry"), 100)
            assert sorted((ref.session, ref.seq) for ref in refs) == [("new", seq) for seq in range(71, 101)]
            assert await tier.positions() == {"new": 100, "old": 100}

    async def test_any_text_is_a_query_and_none_is_syntax(self, tmp_path: Path) -> None:
        async with self.make(tmp_path) as tier:
            texts = [text[:1_000].encode(errors="replace").decode() for text in HOSTILE_TEXTS]  # as a journal has them
            await self.ingest(tier, "a", build_records("a", ["the ferry leaves at nine", *texts]))
            for text in HOSTILE_TEXTS:
                refs = await tier.search(MemoryQuery(text=text), 10)
                assert isinstance(refs, list), text[:40]
                if "ferry" in text:
                    assert refs, text[:40]
            assert await tier.search(MemoryQuery(text="ferry", speaker='" OR 1=1 --'), 10) == []
            assert await tier.search(MemoryQuery(text="ferry", session="' OR ''='"), 10) == []

    async def test_scripts_without_spaces_are_searchable(self, tmp_path: Path) -> None:
        async with self.make(tmp_path) as tier:
            await self.ingest(
                tier, "a", build_records("a", ["明日は東京に行きます", "了解しました", "mañana en la ciudad", "Straße"])
            )
            assert [ref.seq for ref in await tier.search(MemoryQuery(text="東京"), 5)] == [1]
            assert [ref.seq for ref in await tier.search(MemoryQuery(text="manana"), 5)] == [3]


class SummarySuite(TierSuiteBase):
    """Tests of a SummaryTier."""

    def make(self, folder: Path) -> AbstractAsyncContextManager[SummaryTier]:
        raise NotImplementedError("override `make`: it creates the tier")

    async def ingest(self, tier: SummaryTier, session: str, summaries: Sequence[Summary], position: int = 90) -> None:
        await self.write_journal(session, build_records(session, ["x"] * position))
        await tier.ingest(session, summaries, position)

    async def test_summaries_are_found_by_time_in_order(self, tmp_path: Path) -> None:
        async with self.make(tmp_path) as tier:
            first, second = Summary(1, 10, 100, 200, "about soup"), Summary(11, 20, 200, 300, "about ferries")
            await self.ingest(tier, "a", [first, second])
            await self.ingest(tier, "b", [Summary(1, 9, 150, 250, "about boats")])
            assert [summary.text for summary in await tier.list_between(None, None)] == [
                "about soup",
                "about boats",
                "about ferries",
            ]
            assert [summary.text for summary in await tier.list_between(251, None)] == ["about ferries"]
            assert [summary.text for summary in await tier.list_between(None, 150)] == ["about soup"]
            assert [summary.text for summary in await tier.list_between(-(10**30), 10**30, 2)] == [
                "about boats",
                "about ferries",
            ]
            assert await tier.list_between(301, None) == []
            assert (await tier.list_between(None, 150))[0] == Summary(1, 10, 100, 200, "about soup", "a")

    async def test_ingesting_the_same_again_changes_nothing_and_a_new_summary_replaces_the_old(
        self, tmp_path: Path
    ) -> None:
        async with self.make(tmp_path) as tier:
            await self.ingest(tier, "a", [Summary(1, 10, 100, 200, "about soup")], position=20)
            await tier.ingest("a", [Summary(1, 10, 100, 200, "about something else")], 20)
            assert [summary.text for summary in await tier.list_between(None, None)] == ["about soup"]
            await tier.ingest("a", [Summary(1, 10, 100, 200, "about broth")], 30)
            assert [summary.text for summary in await tier.list_between(None, None)] == ["about broth"]
            assert await tier.search(MemoryQuery(text="soup"), 5) == []
            assert await tier.positions() == {"a": 30}

    async def test_summaries_are_found_by_words_time_and_session(self, tmp_path: Path) -> None:
        async with self.make(tmp_path) as tier:
            await self.ingest(
                tier, "a", [Summary(1, 9, 100, 200, "ferries to Tallinn"), Summary(10, 19, 300, 400, "soups")]
            )
            await self.ingest(tier, "b", [Summary(1, 9, 500, 600, "a ferry strike")])
            assert len(await tier.search(MemoryQuery(text="ferry"), 5)) == 2
            assert [summary.session for summary in await tier.search(MemoryQuery(text="ferry", start=450), 5)] == ["b"]
            assert [summary.text for summary in await tier.search(MemoryQuery(text="ferry", session="a"), 5)] == [
                "ferries to Tallinn"
            ]
            for text in HOSTILE_TEXTS:
                assert isinstance(await tier.search(MemoryQuery(text=text), 5), list)

    async def test_summaries_from_a_deleted_record_on_are_deleted(self, tmp_path: Path) -> None:
        async with self.make(tmp_path) as tier:
            summaries = [Summary(n, n + 9, n * 10, n * 10 + 90, f"stretch {n}") for n in (1, 11, 21)]
            await self.ingest(tier, "a", summaries)
            await self.ingest(tier, "b", [Summary(1, 50, 1, 2, "another session")])
            await tier.delete_derived("a", [15])
            assert {summary.text for summary in await tier.list_between(None, None)} == {"stretch 1", "another session"}
            await tier.delete_derived("a")
            assert [summary.text for summary in await tier.list_between(None, None)] == ["another session"]
            assert await tier.positions() == {"a": 90, "b": 90}
