"""What every tier of memory must do. Subclass the suite of your tier, say how to make one, and let your test runner
find the tests.

class TestMyMessages(MessageSuite):
    @asynccontextmanager
    async def made(self, where: Path) -> AsyncIterator[MessageTier]: ...
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path

from mainstay.core.entries import entries_of
from mainstay.core.events import MessageAdded, Received, ToolFinished
from mainstay.core.journal import Record
from mainstay.core.messages import Text, ToolResult
from mainstay.core.recall import Entry, MessageTier, Query, Spot, Summary, SummaryTier

HOSTILE = (
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


def said(session: str, lines: Iterable[str], at: int = 1_000) -> list[Record]:
    """People and models in turn, a second apart."""
    records = []
    for seq, line in enumerate(lines, start=1):
        event = Received((Text(line),), sender="ana") if seq % 2 else MessageAdded("assistant", (Text(line),))
        records.append(Record(seq, at + seq * 1_000, event))
    return records


class Journaled:
    """For tiers that lie beside a journal and read from it: the suite says what is in it."""

    async def journal(self, session: str, records: Sequence[Record]) -> None:
        """These records stand in this session's journal now."""


class MessageSuite(Journaled):
    def made(self, where: Path) -> AbstractAsyncContextManager[MessageTier]:
        raise NotImplementedError("say how to make your tier")

    async def tell(self, tier: MessageTier, session: str, records: Sequence[Record]) -> list[Entry]:
        await self.journal(session, records)
        entries = entries_of(session, records)
        await tier.absorb(session, entries, records[-1].seq)
        return entries

    async def test_what_was_said_is_found_by_its_words_however_they_end(self, tmp_path: Path) -> None:
        async with self.made(tmp_path) as tier:
            await self.tell(tier, "a", said("a", ["We are moving to Lisbon in spring", "Lovely! Which flat?", "Any"]))
            await self.tell(tier, "b", said("b", ["A recipe for soup", "Onions, and some more onions"]))
            for text in ("move", "MOVED to lisbon?", "LISBON", "the flat moved"):
                found = await tier.match(Query(text=text), 10)
                assert (found[0].session, found[0].seq) in {("a", 1), ("a", 2)}, text
                assert all(spot.score > 0 for spot in found)
            assert [(spot.session, spot.seq) for spot in await tier.match(Query(text="onion"), 10)] == [("b", 2)]
            assert await tier.match(Query(text="zeppelin"), 10) == []
            assert await tier.count() == 5

    async def test_the_best_come_first_and_no_more_than_asked_for(self, tmp_path: Path) -> None:
        async with self.made(tmp_path) as tier:
            lines = [f"nothing of note happened on day {n}" for n in range(40)]
            lines[7] = "the ferry"
            lines[20] = "the ferry timetable"
            await self.tell(tier, "a", said("a", lines))
            found = await tier.match(Query(text="ferry timetable"), 10)
            assert [spot.seq for spot in found] == [21, 8]
            assert found[0].score > found[1].score
            assert len(await tier.match(Query(text="nothing happened"), 3)) == 3
            assert await tier.match(Query(text="ferry"), 0) == []

    async def test_the_same_again_changes_nothing(self, tmp_path: Path) -> None:
        async with self.made(tmp_path) as tier:
            records = said("a", ["one ferry", "two ferries", "three boats", "four boats"])
            entries = await self.tell(tier, "a", records)
            assert await tier.positions() == {"a": 4}
            before = await tier.match(Query(text="ferry"), 10)
            await tier.absorb("a", entries, 4)
            await tier.absorb("a", entries[:2], 2)
            await tier.absorb("a", [], 3)
            assert await tier.positions() == {"a": 4}
            assert await tier.count() == 4
            assert await tier.match(Query(text="ferry"), 10) == before

    async def test_a_position_moves_though_there_was_nothing_to_keep(self, tmp_path: Path) -> None:
        async with self.made(tmp_path) as tier:
            await self.journal("a", said("a", ["x"] * 9))
            assert await tier.positions() == {}
            await tier.absorb("a", [], 9)
            assert await tier.positions() == {"a": 9}
            assert await tier.count() == 0

    async def test_whoever_gives_up_waiting_leaves_nothing_half_done(self, tmp_path: Path) -> None:
        async with self.made(tmp_path) as tier:
            records = said("a", [f"line {n} " + "ferry " * 500 for n in range(300)])
            await self.journal("a", records)
            entries = entries_of("a", records)
            task = asyncio.ensure_future(tier.absorb("a", entries, 300))
            for _ in range(5):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            done = (await tier.positions()).get("a", 0)
            assert await tier.count() >= done
            await tier.absorb("a", entries, 300)
            assert (await tier.positions(), await tier.count()) == ({"a": 300}, 300)
            assert len(await tier.match(Query(text="ferry"), 1_000)) == 300

    async def test_time_speaker_and_session_narrow_it_down(self, tmp_path: Path) -> None:
        async with self.made(tmp_path) as tier:
            await self.tell(tier, "a", said("a", ["ferry one", "ferry two", "ferry three"]))
            await self.tell(tier, "b", said("b", ["ferry four"], at=50_000))

            async def places(query: Query) -> list[tuple[str, int]]:
                found = await tier.match(query, 10)
                everything = await tier.match(Query(text="ferry"), 10)
                assert {(s.session, s.seq) for s in await tier.select(everything, query)} == {
                    (s.session, s.seq) for s in found
                }
                return sorted((spot.session, spot.seq) for spot in found)

            assert len(await places(Query(text="ferry"))) == 4
            assert await places(Query(text="ferry", start=3_000)) == [("a", 2), ("a", 3), ("b", 1)]
            assert await places(Query(text="ferry", start=3_000, end=4_000)) == [("a", 2)]
            assert await places(Query(text="ferry", end=10**30, start=-(10**30), session="b")) == [("b", 1)]
            assert await places(Query(text="ferry", session="a", speaker="assistant")) == [("a", 2)]
            assert await places(Query(text="ferry", speaker="Ana")) == [("a", 1), ("a", 3), ("b", 1)]
            assert await places(Query(text="ferry", speaker="user", session="a")) == [("a", 1), ("a", 3)]
            assert await places(Query(text="ferry", session="nobody")) == []

    async def test_what_stands_around_a_message_is_of_its_own_session(self, tmp_path: Path) -> None:
        async with self.made(tmp_path) as tier:
            for key in ("a", "b", "c"):
                await self.tell(tier, key, said(key, [f"{key} line {n}" for n in range(1, 8)]))
            asked = [Spot("b", 1), Spot("b", 4), Spot("b", 7), Spot("a", 7), Spot("b", 99), Spot("nobody", 1)]
            found = await tier.near(asked, 2)
            assert [[(spot.session, spot.seq) for spot in some] for some in found[:4]] == [
                [("b", 1), ("b", 2), ("b", 3)],
                [("b", 2), ("b", 3), ("b", 4), ("b", 5), ("b", 6)],
                [("b", 5), ("b", 6), ("b", 7)],
                [("a", 5), ("a", 6), ("a", 7)],
            ]
            assert all(spot.session == "b" for spot in found[4])
            assert found[5] == []
            assert await tier.near([], 2) == []
            assert [[spot.seq for spot in some] for some in await tier.near([Spot("a", 3)], 0)] == [[3]]

    async def test_messages_are_fetched_whole_in_the_order_asked(self, tmp_path: Path) -> None:
        async with self.made(tmp_path) as tier:
            long = "the longest story " * 20_000
            result = ToolFinished(ToolResult("call_7", "look", "all quiet", origin="untrusted:look"))
            records = [*said("a", ["first", long]), Record(3, 9_000, result)]
            entries = await self.tell(tier, "a", records)
            asked = [Spot("a", 3), Spot("a", 2), Spot("nobody", 1), Spot("a", 77), Spot("a", 1)]
            assert await tier.fetch(asked) == [entries[2], entries[1], entries[0]]
            assert await tier.find("a", "call_7") == entries[2]
            assert entries[2].origin == "untrusted:look"
            assert await tier.find("a", "call_8") is None
            assert await tier.find("a", "") is None
            assert await tier.find("nobody", "call_7") is None

    async def test_what_is_dropped_is_gone_and_does_not_come_back(self, tmp_path: Path) -> None:
        async with self.made(tmp_path) as tier:
            records = said("a", ["ferry one", "ferry two", "ferry three"])
            entries = await self.tell(tier, "a", records)
            await self.tell(tier, "b", said("b", ["ferry four", "ferry five"]))
            await tier.drop("a", [2, 99])
            await tier.drop("nobody")
            assert sorted(s.seq for s in await tier.match(Query(text="ferry", session="a"), 9)) == [1, 3]
            assert [s.seq for s in (await tier.near([Spot("a", 1)], 5))[0]] == [1, 3]
            assert (await tier.positions())["a"] == 3
            await tier.absorb("a", entries, 3)
            assert await tier.count() == 4
            await tier.drop("a")
            assert {s.session for s in await tier.match(Query(text="ferry"), 9)} == {"b"}
            assert await tier.positions() == {"a": 3, "b": 2}
            await tier.absorb("a", entries, 3)
            assert await tier.count() == 2

    async def test_only_the_newest_stay_when_it_is_trimmed(self, tmp_path: Path) -> None:
        async with self.made(tmp_path) as tier:
            await self.tell(tier, "new", said("new", [f"ferry {n}" for n in range(100)], at=10_000_000))
            await self.tell(tier, "old", said("old", [f"ferry {n}" for n in range(100)]))
            await tier.trim(30)
            assert await tier.count() == 30
            found = await tier.match(Query(text="ferry"), 100)
            assert sorted((spot.session, spot.seq) for spot in found) == [("new", seq) for seq in range(71, 101)]
            assert await tier.positions() == {"new": 100, "old": 100}

    async def test_any_text_is_a_query_and_none_is_syntax(self, tmp_path: Path) -> None:
        async with self.made(tmp_path) as tier:
            texts = [text[:1_000].encode(errors="replace").decode() for text in HOSTILE]  # as a journal has them
            await self.tell(tier, "a", said("a", ["the ferry leaves at nine", *texts]))
            for text in HOSTILE:
                found = await tier.match(Query(text=text), 10)
                assert isinstance(found, list), text[:40]
                if "ferry" in text:
                    assert found, text[:40]
            assert await tier.match(Query(text="ferry", speaker='" OR 1=1 --'), 10) == []
            assert await tier.match(Query(text="ferry", session="' OR ''='"), 10) == []

    async def test_writing_without_spaces_is_found_too(self, tmp_path: Path) -> None:
        async with self.made(tmp_path) as tier:
            await self.tell(
                tier, "a", said("a", ["明日は東京に行きます", "了解しました", "mañana en la ciudad", "Straße"])
            )
            assert [spot.seq for spot in await tier.match(Query(text="東京"), 5)] == [1]
            assert [spot.seq for spot in await tier.match(Query(text="manana"), 5)] == [3]


class SummarySuite(Journaled):
    def made(self, where: Path) -> AbstractAsyncContextManager[SummaryTier]:
        raise NotImplementedError("say how to make your tier")

    async def tell(self, tier: SummaryTier, session: str, summaries: Sequence[Summary], upto: int = 90) -> None:
        await self.journal(session, said(session, ["x"] * upto))
        await tier.absorb(session, summaries, upto)

    async def test_summaries_are_found_by_time_in_order(self, tmp_path: Path) -> None:
        async with self.made(tmp_path) as tier:
            first, second = Summary(1, 10, 100, 200, "about soup"), Summary(11, 20, 200, 300, "about ferries")
            await self.tell(tier, "a", [first, second])
            await self.tell(tier, "b", [Summary(1, 9, 150, 250, "about boats")])
            assert [one.text for one in await tier.between(None, None)] == [
                "about soup",
                "about boats",
                "about ferries",
            ]
            assert [one.text for one in await tier.between(251, None)] == ["about ferries"]
            assert [one.text for one in await tier.between(None, 150)] == ["about soup"]
            assert [one.text for one in await tier.between(-(10**30), 10**30, 2)] == ["about boats", "about ferries"]
            assert await tier.between(301, None) == []
            assert (await tier.between(None, 150))[0] == Summary(1, 10, 100, 200, "about soup", "a")

    async def test_the_same_again_changes_nothing_and_the_same_stretch_is_replaced(self, tmp_path: Path) -> None:
        async with self.made(tmp_path) as tier:
            await self.tell(tier, "a", [Summary(1, 10, 100, 200, "about soup")], upto=20)
            await tier.absorb("a", [Summary(1, 10, 100, 200, "about something else")], 20)
            assert [one.text for one in await tier.between(None, None)] == ["about soup"]
            await tier.absorb("a", [Summary(1, 10, 100, 200, "about broth")], 30)
            assert [one.text for one in await tier.between(None, None)] == ["about broth"]
            assert await tier.match(Query(text="soup"), 5) == []
            assert await tier.positions() == {"a": 30}

    async def test_summaries_are_found_by_words_time_and_session(self, tmp_path: Path) -> None:
        async with self.made(tmp_path) as tier:
            await self.tell(
                tier, "a", [Summary(1, 9, 100, 200, "ferries to Tallinn"), Summary(10, 19, 300, 400, "soups")]
            )
            await self.tell(tier, "b", [Summary(1, 9, 500, 600, "a ferry strike")])
            assert len(await tier.match(Query(text="ferry"), 5)) == 2
            assert [one.session for one in await tier.match(Query(text="ferry", start=450), 5)] == ["b"]
            assert [one.text for one in await tier.match(Query(text="ferry", session="a"), 5)] == ["ferries to Tallinn"]
            for text in HOSTILE:
                assert isinstance(await tier.match(Query(text=text), 5), list)

    async def test_what_reaches_as_far_as_a_dropped_record_is_gone(self, tmp_path: Path) -> None:
        async with self.made(tmp_path) as tier:
            stretches = [Summary(n, n + 9, n * 10, n * 10 + 90, f"stretch {n}") for n in (1, 11, 21)]
            await self.tell(tier, "a", stretches)
            await self.tell(tier, "b", [Summary(1, 50, 1, 2, "another session")])
            await tier.drop("a", [15])
            assert {one.text for one in await tier.between(None, None)} == {"stretch 1", "another session"}
            await tier.drop("a")
            assert [one.text for one in await tier.between(None, None)] == ["another session"]
            assert await tier.positions() == {"a": 90, "b": 90}
