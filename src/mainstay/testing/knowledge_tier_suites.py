"""Conformance suites of the memory tiers for facts, memories and vectors; used like `conversation_tier_suites`."""

from __future__ import annotations

import math
import random
import struct
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path

from mainstay.core.errors import MainstayError
from mainstay.core.memory_tiers import Fact, FactTier, FreeFormMemoryTier, Memory, MemoryQuery, VectorTier
from mainstay.testing.conversation_tier_suites import HOSTILE_TEXTS, TierSuiteBase, build_records


class FactSuite(TierSuiteBase):
    """Tests of a FactTier."""

    def make(self, folder: Path) -> AbstractAsyncContextManager[FactTier]:
        raise NotImplementedError("override `make`: it creates the tier")

    async def ingest(self, tier: FactTier, session: str, facts: Sequence[Fact], position: int = 50) -> None:
        await self.write_journal(session, build_records(session, ["x"] * position))
        await tier.ingest(session, [_with_session(session, fact) for fact in facts], position)

    async def test_a_newer_fact_supersedes_an_older_one_which_is_then_past(self, tmp_path: Path) -> None:
        async with self.make(tmp_path) as tier:
            await self.ingest(tier, "a", [Fact("Ana", "lives in", "Lisbon", 3, 0.9, at=100)])
            await self.ingest(tier, "b", [Fact(" ana ", "LIVES  in", "Porto", 7, 0.8, at=200)])
            (fact,) = await tier.recall("Ana")
            assert (fact.object, fact.session, fact.source, fact.at, fact.confidence) == ("Porto", "b", 7, 200, 0.8)
            assert fact.until == 0
            both = {fact.object: fact.until for fact in await tier.recall("Ana", past=True)}
            assert both == {"Porto": 0, "Lisbon": 200}
            assert [fact.object for fact in await tier.list_facts()] == ["Porto"]

    async def test_an_older_fact_that_is_ingested_later_supersedes_nothing(self, tmp_path: Path) -> None:
        async with self.make(tmp_path) as tier:
            await self.ingest(tier, "a", [Fact("Ana", "lives in", "Porto", 3, at=200)])
            await self.ingest(tier, "b", [Fact("Ana", "lives in", "Lisbon", 7, at=100)])
            assert [fact.object for fact in await tier.recall("Ana")] == ["Porto"]

    async def test_a_repeated_fact_is_only_confirmed(self, tmp_path: Path) -> None:
        async with self.make(tmp_path) as tier:
            await self.ingest(tier, "a", [Fact("Ana", "lives in", "Lisbon", 3, 0.9, at=100)])
            await self.ingest(tier, "b", [Fact("ANA", "lives in", "lisbon", 5, 0.5, at=300)])
            (fact,) = await tier.recall("ana")
            assert (fact.at, fact.confidence, fact.session, fact.source) == (300, 0.9, "b", 5)
            await tier.delete_derived("b")
            (fact,) = await tier.recall("ana")
            assert (fact.at, fact.session) == (100, "a"), "that session has the fact too"

    async def test_a_superseded_fact_that_is_repeated_is_current_again(self, tmp_path: Path) -> None:
        async with self.make(tmp_path) as tier:
            cities = ["Lisbon", "Porto", "Lisbon"]
            facts = [Fact("Ana", "lives in", city, n, at=n * 100) for n, city in enumerate(cities, start=1)]
            await self.ingest(tier, "a", facts)
            assert [(fact.object, fact.at) for fact in await tier.recall("Ana")] == [("Lisbon", 300)]

    async def test_some_predicates_have_several_objects(self, tmp_path: Path) -> None:
        async with self.make(tmp_path) as tier:
            await self.ingest(
                tier, "a", [Fact("Ana", "likes", liked, n, many=True, at=n) for n, liked in enumerate("xyz", 1)]
            )
            assert sorted(fact.object for fact in await tier.recall("Ana")) == ["x", "y", "z"]

    async def test_an_untrusted_fact_never_supersedes_a_trusted_one(self, tmp_path: Path) -> None:
        async with self.make(tmp_path) as tier:
            mail = "untrusted:mail"
            await self.ingest(tier, "a", [Fact("Ana", "lives in", "Lisbon", 3, at=100)])
            await self.ingest(tier, "b", [Fact("Ana", "lives in", "Moscow", 7, 1.0, mail, at=200)])
            recalled = {fact.object: (fact.origin, fact.until) for fact in await tier.recall("Ana")}
            assert recalled == {"Lisbon": ("", 0), "Moscow": (mail, 0)}
            assert [fact.object for fact in await tier.list_facts(origin="untrusted")] == ["Moscow"]
            assert [fact.object for fact in await tier.list_facts(origin=mail)] == ["Moscow"]
            assert [fact.object for fact in await tier.list_facts(origin="")] == ["Lisbon"]
            await self.ingest(tier, "c", [Fact("Ana", "lives in", "Porto", 7, at=300)])
            assert [fact.object for fact in await tier.recall("Ana")] == ["Porto"]

    async def test_an_untrusted_repetition_does_not_raise_the_confidence(self, tmp_path: Path) -> None:
        async with self.make(tmp_path) as tier:
            await self.ingest(tier, "a", [Fact("Ana", "lives in", "Lisbon", 3, 0.4, at=100)])
            await self.ingest(tier, "b", [Fact("Ana", "lives in", "Lisbon", 3, 1.0, "untrusted:mail", at=200)])
            recalled = {fact.origin: (fact.confidence, fact.at) for fact in await tier.recall("Ana")}
            assert recalled == {"": (0.4, 100), "untrusted:mail": (1.0, 200)}

    async def test_a_topic_is_recalled_by_name_by_word_and_by_neighbouring_facts(self, tmp_path: Path) -> None:
        async with self.make(tmp_path) as tier:
            facts = [
                Fact("Ana", "works at", "the harbour office", 1),
                Fact("the harbour office", "is run by", "Tomás", 2),
                Fact("Tomás", "owns", "two ferries", 3),
                Fact("two ferries", "are painted", "green", 4),
                Fact("Berta", "bakes", "bread", 5),
                Fact("the office dog", "belongs to", "Ana", 6),
            ]
            await self.ingest(tier, "a", [_with_time(fact, 100 + n) for n, fact in enumerate(facts)])
            recalled = await tier.recall("Ana")
            assert recalled[0].predicate == "works at"
            assert [fact.predicate for fact in recalled[:2]] == ["works at", "belongs to"], "facts that name it first"
            assert {fact.predicate for fact in recalled[2:]} == {"is run by", "owns"}, "then facts within two hops"
            assert [fact.predicate for fact in await tier.recall("ferry", 1)] == ["are painted"]
            assert {fact.predicate for fact in await tier.recall("harbour")} >= {"works at", "is run by"}
            assert [fact.predicate for fact in await tier.recall("Ana", 1)] == ["works at"]
            assert await tier.recall("zeppelin") == []
            assert await tier.recall("Ana", 0) == []

    async def test_facts_are_listed_newest_first_and_forgotten_by_id(self, tmp_path: Path) -> None:
        async with self.make(tmp_path) as tier:
            await self.ingest(tier, "a", [Fact("it", f"has {n}", f"value {n}", n, at=n) for n in range(1, 6)])
            listed = await tier.list_facts(limit=3)
            assert [fact.source for fact in listed] == [5, 4, 3]
            assert len({fact.id for fact in await tier.list_facts()}) == 5
            assert await tier.forget([listed[0].id, "nothing", listed[1].id]) == 2
            assert [fact.source for fact in await tier.list_facts()] == [3, 2, 1]
            assert await tier.forget([listed[0].id]) == 0
            assert await tier.recall("value 5", 1) != [listed[0]]

    async def test_forgetting_a_fact_makes_the_superseded_one_current_again(self, tmp_path: Path) -> None:
        async with self.make(tmp_path) as tier:
            facts = [Fact("Ana", "lives in", city, n, at=n) for n, city in enumerate(("Lisbon", "Porto"), start=1)]
            await self.ingest(tier, "a", facts)
            (porto,) = await tier.recall("Ana")
            await tier.forget([porto.id])
            (lisbon,) = await tier.recall("Ana")
            assert (lisbon.object, lisbon.until) == ("Lisbon", 0)

    async def test_facts_of_a_deleted_message_are_deleted(self, tmp_path: Path) -> None:
        async with self.make(tmp_path) as tier:
            await self.ingest(tier, "a", [Fact("it", f"has {n}", "a value", n, at=n) for n in range(5)])
            await self.ingest(tier, "b", [Fact("it", "is", "elsewhere", 2, at=9)])
            await tier.delete_derived("a", [2])
            remaining = sorted((fact.session, fact.source) for fact in await tier.list_facts())
            assert remaining == [("a", 1), ("a", 3), ("a", 4), ("b", 2)], "facts without a source are dropped too"
            await tier.delete_derived("a")
            assert [fact.session for fact in await tier.list_facts()] == ["b"]
            assert await tier.positions() == {"a": 50, "b": 50}
            await tier.ingest("a", [_with_session("a", Fact("it", "has 1", "a value", 1))], 50)
            assert [fact.session for fact in await tier.list_facts()] == ["b"]

    async def test_ingesting_the_same_again_changes_nothing(self, tmp_path: Path) -> None:
        async with self.make(tmp_path) as tier:
            facts = [_with_session("a", Fact("it", f"has {n}", f"value {n}", n, at=n)) for n in range(1, 40)]
            await self.ingest(tier, "a", facts)
            before = await tier.list_facts()
            await tier.ingest("a", facts, 50)
            await tier.ingest("a", facts, 60)
            assert await tier.list_facts() == before
            assert await tier.positions() == {"a": 60}

    async def test_hostile_texts_and_queries_are_harmless(self, tmp_path: Path) -> None:
        async with self.make(tmp_path) as tier:
            facts = [Fact(text, "is \0 <" + text[:50] + ">", '"' + text + "\\", 1, at=1) for text in HOSTILE_TEXTS]
            await self.ingest(tier, "a", [*facts, Fact("", "x", "y"), Fact("x", " ", "y"), Fact("x", "y", "\0")])
            for text in HOSTILE_TEXTS:
                assert isinstance(await tier.recall(text), list)
            assert await tier.forget(["'; DROP TABLE facts; --", '"', "\\", "<x>"]) == 0
            assert len(await tier.list_facts(limit=1_000)) >= 10


class MemorySuite(TierSuiteBase):
    """Tests of a FreeFormMemoryTier."""

    def make(self, folder: Path) -> AbstractAsyncContextManager[FreeFormMemoryTier]:
        raise NotImplementedError("override `make`: it creates the tier")

    async def test_a_memory_is_stored_once_by_id_and_by_content(self, tmp_path: Path) -> None:
        async with self.make(tmp_path) as tier:
            first = Memory(
                id="m1", text="Ana likes tea", tags=("food", "ana"), at=5, source="a#3", origin="", data="{}"
            )
            assert await tier.save(first) == first
            assert await tier.save(first) == first
            assert await tier.save(Memory(id="m1", text="something else")) == first
            assert await tier.save(Memory(id="m2", text=" ana LIKES  tea ", tags=("ana", "Food"))) == first
            other = Memory(id="m3", text="Ana likes tea", tags=("drinks",))
            assert await tier.save(other) == other
            assert len(await tier.list_memories()) == 2

    async def test_memories_are_found_by_content_and_by_tags(self, tmp_path: Path) -> None:
        async with self.make(tmp_path) as tier:
            for n, (text, tags) in enumerate(
                [("Ana likes green tea", ("food",)), ("teas of Japan", ("food", "travel")), ("ferries", ("travel",))]
            ):
                await tier.save(Memory(id=f"m{n}", text=text, tags=tags, at=n * 100, source=f"s{n}#1"))

            async def ids(query: MemoryQuery, tags: Sequence[str] = (), limit: int = 10) -> list[str]:
                return [memory.id for memory, score in await tier.search(query, tags, limit) if score >= 0]

            assert sorted(await ids(MemoryQuery(text="tea"))) == ["m0", "m1"]
            assert await ids(MemoryQuery(text="tea"), ["travel"]) == ["m1"]
            assert await ids(MemoryQuery(text="tea"), ["TRAVEL", "food"]) == ["m1"]
            assert await ids(MemoryQuery(text=""), ["travel"]) == ["m2", "m1"]
            assert await ids(MemoryQuery(text="travel")) != []
            assert await ids(MemoryQuery(text="tea", start=50)) == ["m1"]
            assert await ids(MemoryQuery(text="tea", session="s0")) == ["m0"]
            assert len(await ids(MemoryQuery(text="tea"), limit=1)) == 1
            assert await ids(MemoryQuery(text="zeppelin")) == []
            for text in HOSTILE_TEXTS:
                assert isinstance(await tier.search(MemoryQuery(text=text), [text[:99]]), list)
                assert isinstance(await tier.list_memories(tag=text[:99], origin=text[:99]), list)

    async def test_memories_are_listed_newest_first_by_tag_origin_and_pin(self, tmp_path: Path) -> None:
        async with self.make(tmp_path) as tier:
            for n in range(6):
                origin = "untrusted:mail" if n % 2 else ""
                await tier.save(Memory(id=f"m{n}", text=f"memory {n}", tags=(f"t{n % 3}",), at=n, origin=origin))
            assert [memory.id for memory in await tier.list_memories(limit=2)] == ["m5", "m4"]
            assert [memory.id for memory in await tier.list_memories(tag="t1")] == ["m4", "m1"]
            assert [memory.id for memory in await tier.list_memories(origin="untrusted")] == ["m5", "m3", "m1"]
            assert [memory.id for memory in await tier.list_memories(origin="")] == ["m4", "m2", "m0"]
            assert await tier.pin("m2", True)
            assert not await tier.pin("m9", True)
            assert [memory.id for memory in await tier.list_memories(pinned=True)] == ["m2"]
            assert (await tier.list_memories(pinned=True))[0].pinned
            assert await tier.pin("m2", False)
            assert await tier.list_memories(pinned=True) == []
            assert len(await tier.list_memories(pinned=False)) == 6

    async def test_forgotten_memories_and_those_of_deleted_messages_are_gone(self, tmp_path: Path) -> None:
        async with self.make(tmp_path) as tier:
            for key in ("a", "a#1"):
                await self.write_journal(key, build_records(key, ["x"] * 9))
                await tier.ingest(key, [], 9)
            for n, source in enumerate(("a#1", "a#2", "b#1", "", "a#1#5")):
                await tier.save(Memory(id=f"m{n}", text=f"the canary {n}", source=source, at=n))
            await tier.delete_derived("a", [2, 7])
            assert [memory.id for memory in await tier.list_memories()] == ["m4", "m3", "m2", "m0"]
            await tier.delete_derived("a")
            assert [memory.id for memory in await tier.list_memories()] == ["m4", "m3", "m2"]
            assert await tier.forget(["m2", "m2", "m9"]) == 1
            assert [memory.id for memory, _ in await tier.search(MemoryQuery(text="canary"))] != []
            assert await tier.forget(["m3", "m4"]) == 2
            assert await tier.search(MemoryQuery(text="canary")) == []

    async def test_an_ingested_memory_is_stored_once_under_its_id(self, tmp_path: Path) -> None:
        async with self.make(tmp_path) as tier:
            await self.write_journal("a", build_records("a", ["x"] * 30))
            workflows = [
                Memory(id=f"workflow:a#{n}", text="deploy the site", tags=("workflow",), source=f"a#{n * 10}", at=n)
                for n in (1, 2)
            ]
            await tier.ingest("a", workflows, 30)
            await tier.ingest("a", workflows, 30)
            await tier.ingest("a", workflows, 40)
            assert [memory.id for memory in await tier.list_memories(tag="workflow")] == [
                "workflow:a#2",
                "workflow:a#1",
            ]
            assert await tier.positions() == {"a": 40}
            await tier.delete_derived("a", [25])
            remaining = {memory.id for memory in await tier.list_memories()}
            assert "workflow:a#2" not in remaining, "it covers the dropped record"
            await tier.delete_derived("a")
            assert await tier.list_memories() == []


class VectorSuite(TierSuiteBase):
    """Tests of a VectorTier."""

    dimensions = 64

    def make(self, folder: Path) -> AbstractAsyncContextManager[VectorTier]:
        raise NotImplementedError("override `make`: it creates the tier")

    async def ingest(
        self, tier: VectorTier, session: str, vectors: Sequence[tuple[int, bytes]], position: int = 500
    ) -> None:
        await self.write_journal(session, build_records(session, ["x"] * position))
        await tier.ingest(session, vectors, position)

    async def test_the_nearest_are_found_best_first_with_their_cosine(self, tmp_path: Path) -> None:
        async with self.make(tmp_path) as tier:
            await tier.set_model("model", self.dimensions)
            rng = random.Random(1)
            vectors = {n: normalise_vector([rng.gauss(0, 1) for _ in range(self.dimensions)]) for n in range(1, 401)}
            await self.ingest(tier, "a", [(n, pack_vector(vector)) for n, vector in vectors.items()])
            assert await tier.count() == 400
            for seq in (7, 77, 277):
                query = normalise_vector([x + rng.gauss(0, 0.03) for x in vectors[seq]])
                refs = await tier.find_nearest(pack_vector(query), 20)
                assert refs[0].seq == seq
                assert len(refs) == 20
                assert [ref.score for ref in refs] == sorted((ref.score for ref in refs), reverse=True)
                for ref in refs:
                    assert abs(ref.score - dot_product(query, vectors[ref.seq])) < 0.03
                nearest = sorted(vectors, key=lambda n: -dot_product(query, vectors[n]))[:10]
                assert len({ref.seq for ref in refs} & set(nearest)) >= 7

    async def test_a_message_with_several_vectors_is_found_once_by_its_best(self, tmp_path: Path) -> None:
        async with self.make(tmp_path) as tier:
            await tier.set_model("model", self.dimensions)
            await self.ingest(
                tier,
                "a",
                [
                    (1, self.axis_vector(0)),
                    (1, self.axis_vector(1)),
                    (1, self.axis_vector(2)),
                    (2, self.axis_vector(3)),
                ],
            )
            refs = await tier.find_nearest(self.axis_vector(1), 5)
            assert (refs[0].seq, round(refs[0].score, 2)) == (1, 1.0)
            assert len({ref.seq for ref in refs}) == len(refs)
            await tier.ingest("a", [(1, self.axis_vector(7))], 501)
            assert (await tier.find_nearest(self.axis_vector(7), 1))[0].seq == 1, "a further vector of an older message"
            assert (await tier.find_nearest(self.axis_vector(0), 1))[0].seq == 1

    async def test_vectors_of_another_model_replace_the_old_ones(self, tmp_path: Path) -> None:
        async with self.make(tmp_path) as tier:
            await tier.set_model("model", self.dimensions)
            await self.ingest(tier, "a", [(n, self.axis_vector(n % 8)) for n in range(1, 100)])
            await tier.set_model("model", self.dimensions)
            assert (await tier.positions(), await tier.count()) == ({"a": 500}, 99)
            for model, dimensions in (("another", self.dimensions), ("another", 3 * self.dimensions + 1)):
                await tier.set_model(model, dimensions)
                assert (await tier.positions(), await tier.count()) == ({}, 0)
                vector = pack_vector([1.0] + [0.0] * (dimensions - 1))
                assert await tier.find_nearest(vector, 5) == []
                await tier.ingest("a", [(1, vector)], 500)
                assert [(ref.seq, round(ref.score, 2)) for ref in await tier.find_nearest(vector, 5)] == [(1, 1.0)]
            await _expect_refused(tier.find_nearest(self.axis_vector(0), 5))

    async def test_ingesting_the_same_again_changes_nothing(self, tmp_path: Path) -> None:
        async with self.make(tmp_path) as tier:
            await tier.set_model("model", self.dimensions)
            vectors = [(n // 2 + 1, self.axis_vector(n % 9)) for n in range(100)]
            await self.ingest(tier, "a", vectors)
            await tier.ingest("a", vectors, 500)
            assert (await tier.positions(), await tier.count()) == ({"a": 500}, 100)

    async def test_deleted_vectors_do_not_come_back(self, tmp_path: Path) -> None:
        async with self.make(tmp_path) as tier:
            await tier.set_model("model", self.dimensions)
            await self.ingest(tier, "a", [(1, self.axis_vector(1)), (1, self.axis_vector(2)), (2, self.axis_vector(3))])
            await self.ingest(tier, "b", [(1, self.axis_vector(1))])
            await tier.delete_derived("a", [1])
            assert [(ref.session, ref.seq) for ref in await tier.find_nearest(self.axis_vector(1), 1)] == [("b", 1)]
            assert await tier.count() == 2
            await tier.ingest("a", [(1, self.axis_vector(1))], 600)
            assert await tier.count() == 2
            await tier.delete_derived("a")
            assert {ref.session for ref in await tier.find_nearest(self.axis_vector(3), 5)} == {"b"}
            assert await tier.positions() == {"a": 600, "b": 500}

    async def test_degenerate_vectors_and_wrong_dimensions_are_harmless(self, tmp_path: Path) -> None:
        async with self.make(tmp_path) as tier:
            await tier.set_model("model", self.dimensions)
            degenerate = [pack_vector([value] * self.dimensions) for value in (0.0, math.nan, math.inf)]
            await self.ingest(tier, "a", [(n, vector) for n, vector in enumerate(degenerate, 1)])
            await tier.ingest("a", [(9, self.axis_vector(1))], 600)
            for vector in degenerate:
                assert isinstance(await tier.find_nearest(vector, 5), list)
            assert [ref.seq for ref in await tier.find_nearest(self.axis_vector(1), 1)] == [9]
            await _expect_refused(tier.ingest("a", [(10, b"1234")], 700))
            assert await tier.positions() == {"a": 600}
            assert await tier.find_nearest(self.axis_vector(1), 0) == []

    def axis_vector(self, n: int) -> bytes:
        """Return one of nine almost orthogonal unit vectors."""
        return pack_vector(normalise_vector([1.0 if index % 9 == n else 0.001 for index in range(self.dimensions)]))


def normalise_vector(numbers: Sequence[float]) -> list[float]:
    length = math.sqrt(sum(x * x for x in numbers))
    return [x / length for x in numbers]


def pack_vector(numbers: Sequence[float]) -> bytes:
    return struct.pack(f"{len(numbers)}f", *numbers)


def dot_product(first: Sequence[float], second: Sequence[float]) -> float:
    return sum(x * y for x, y in zip(first, second, strict=True))


def _with_session(session: str, fact: Fact) -> Fact:
    return Fact(
        fact.subject,
        fact.predicate,
        fact.object,
        fact.source,
        fact.confidence,
        fact.origin,
        fact.many,
        session,
        fact.at,
    )


def _with_time(fact: Fact, at: int) -> Fact:
    return Fact(fact.subject, fact.predicate, fact.object, fact.source, fact.confidence, fact.origin, fact.many, "", at)


async def _expect_refused(work: object) -> None:
    try:
        await work  # type: ignore[misc]
    except MainstayError:
        return
    raise AssertionError("MainstayError was expected")
