"""What every tier must do that keeps facts, memories or vectors. See `tier_suite` for how to use these."""

from __future__ import annotations

import math
import random
import struct
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path

from mainstay.core.errors import MainstayError
from mainstay.core.recall import Fact, FactTier, Memory, MemoryTier, Query, VectorTier
from mainstay.testing.tier_suite import HOSTILE, Journaled, said


class FactSuite(Journaled):
    def made(self, where: Path) -> AbstractAsyncContextManager[FactTier]:
        raise NotImplementedError("say how to make your tier")

    async def tell(self, tier: FactTier, session: str, facts: Sequence[Fact], upto: int = 50) -> None:
        await self.journal(session, said(session, ["x"] * upto))
        await tier.absorb(session, [_in(session, fact) for fact in facts], upto)

    async def test_a_newer_fact_supersedes_an_older_one_which_is_then_past(self, tmp_path: Path) -> None:
        async with self.made(tmp_path) as tier:
            await self.tell(tier, "a", [Fact("Ana", "lives in", "Lisbon", 3, 0.9, at=100)])
            await self.tell(tier, "b", [Fact(" ana ", "LIVES  in", "Porto", 7, 0.8, at=200)])
            (fact,) = await tier.recall("Ana")
            assert (fact.object, fact.session, fact.source, fact.at, fact.confidence) == ("Porto", "b", 7, 200, 0.8)
            assert fact.until == 0
            both = {fact.object: fact.until for fact in await tier.recall("Ana", past=True)}
            assert both == {"Porto": 0, "Lisbon": 200}
            assert [fact.object for fact in await tier.facts()] == ["Porto"]

    async def test_what_is_told_late_but_was_said_early_supersedes_nothing(self, tmp_path: Path) -> None:
        async with self.made(tmp_path) as tier:
            await self.tell(tier, "a", [Fact("Ana", "lives in", "Porto", 3, at=200)])
            await self.tell(tier, "b", [Fact("Ana", "lives in", "Lisbon", 7, at=100)])
            assert [fact.object for fact in await tier.recall("Ana")] == ["Porto"]

    async def test_saying_the_same_again_only_confirms_it(self, tmp_path: Path) -> None:
        async with self.made(tmp_path) as tier:
            await self.tell(tier, "a", [Fact("Ana", "lives in", "Lisbon", 3, 0.9, at=100)])
            await self.tell(tier, "b", [Fact("ANA", "lives in", "lisbon", 5, 0.5, at=300)])
            (fact,) = await tier.recall("ana")
            assert (fact.at, fact.confidence, fact.session, fact.source) == (300, 0.9, "b", 5)
            await tier.drop("b")
            (fact,) = await tier.recall("ana")
            assert (fact.at, fact.session) == (100, "a"), "it was said there too"

    async def test_what_is_said_again_after_it_was_superseded_holds_again(self, tmp_path: Path) -> None:
        async with self.made(tmp_path) as tier:
            places = ["Lisbon", "Porto", "Lisbon"]
            facts = [Fact("Ana", "lives in", place, n, at=n * 100) for n, place in enumerate(places, start=1)]
            await self.tell(tier, "a", facts)
            assert [(fact.object, fact.at) for fact in await tier.recall("Ana")] == [("Lisbon", 300)]

    async def test_some_predicates_have_several_objects(self, tmp_path: Path) -> None:
        async with self.made(tmp_path) as tier:
            await self.tell(
                tier, "a", [Fact("Ana", "likes", one, n, many=True, at=n) for n, one in enumerate("xyz", 1)]
            )
            assert sorted(fact.object for fact in await tier.recall("Ana")) == ["x", "y", "z"]

    async def test_what_comes_from_outside_never_supersedes_what_was_said_in_trust(self, tmp_path: Path) -> None:
        async with self.made(tmp_path) as tier:
            mail = "untrusted:mail"
            await self.tell(tier, "a", [Fact("Ana", "lives in", "Lisbon", 3, at=100)])
            await self.tell(tier, "b", [Fact("Ana", "lives in", "Moscow", 7, 1.0, mail, at=200)])
            found = {fact.object: (fact.origin, fact.until) for fact in await tier.recall("Ana")}
            assert found == {"Lisbon": ("", 0), "Moscow": (mail, 0)}
            assert [fact.object for fact in await tier.facts(origin="untrusted")] == ["Moscow"]
            assert [fact.object for fact in await tier.facts(origin=mail)] == ["Moscow"]
            assert [fact.object for fact in await tier.facts(origin="")] == ["Lisbon"]
            await self.tell(tier, "c", [Fact("Ana", "lives in", "Porto", 7, at=300)])
            assert [fact.object for fact in await tier.recall("Ana")] == ["Porto"]

    async def test_repeating_a_fact_from_outside_does_not_make_it_surer(self, tmp_path: Path) -> None:
        async with self.made(tmp_path) as tier:
            await self.tell(tier, "a", [Fact("Ana", "lives in", "Lisbon", 3, 0.4, at=100)])
            await self.tell(tier, "b", [Fact("Ana", "lives in", "Lisbon", 3, 1.0, "untrusted:mail", at=200)])
            found = {fact.origin: (fact.confidence, fact.at) for fact in await tier.recall("Ana")}
            assert found == {"": (0.4, 100), "untrusted:mail": (1.0, 200)}

    async def test_a_topic_is_recalled_by_name_by_part_and_by_what_is_next_to_it(self, tmp_path: Path) -> None:
        async with self.made(tmp_path) as tier:
            facts = [
                Fact("Ana", "works at", "the harbour office", 1),
                Fact("the harbour office", "is run by", "Tomás", 2),
                Fact("Tomás", "owns", "two ferries", 3),
                Fact("two ferries", "are painted", "green", 4),
                Fact("Berta", "bakes", "bread", 5),
                Fact("the office dog", "belongs to", "Ana", 6),
            ]
            await self.tell(tier, "a", [_at(fact, 100 + n) for n, fact in enumerate(facts)])
            found = await tier.recall("Ana")
            assert found[0].predicate == "works at"
            assert [fact.predicate for fact in found[:2]] == ["works at", "belongs to"], "those that name it first"
            assert {fact.predicate for fact in found[2:]} == {"is run by", "owns"}, "then two hops"
            assert [fact.predicate for fact in await tier.recall("ferry", 1)] == ["are painted"]
            assert {fact.predicate for fact in await tier.recall("harbour")} >= {"works at", "is run by"}
            assert [fact.predicate for fact in await tier.recall("Ana", 1)] == ["works at"]
            assert await tier.recall("zeppelin") == []
            assert await tier.recall("Ana", 0) == []

    async def test_facts_are_listed_newest_first_each_with_an_id_by_which_it_is_forgotten(self, tmp_path: Path) -> None:
        async with self.made(tmp_path) as tier:
            await self.tell(tier, "a", [Fact("it", f"has {n}", f"value {n}", n, at=n) for n in range(1, 6)])
            found = await tier.facts(limit=3)
            assert [fact.source for fact in found] == [5, 4, 3]
            assert len({fact.id for fact in await tier.facts()}) == 5
            assert await tier.forget([found[0].id, "nothing", found[1].id]) == 2
            assert [fact.source for fact in await tier.facts()] == [3, 2, 1]
            assert await tier.forget([found[0].id]) == 0
            assert await tier.recall("value 5", 1) != [found[0]]

    async def test_when_a_fact_is_forgotten_what_it_superseded_holds_again(self, tmp_path: Path) -> None:
        async with self.made(tmp_path) as tier:
            facts = [Fact("Ana", "lives in", place, n, at=n) for n, place in enumerate(("Lisbon", "Porto"), start=1)]
            await self.tell(tier, "a", facts)
            (porto,) = await tier.recall("Ana")
            await tier.forget([porto.id])
            (lisbon,) = await tier.recall("Ana")
            assert (lisbon.object, lisbon.until) == ("Lisbon", 0)

    async def test_what_a_dropped_message_said_is_gone(self, tmp_path: Path) -> None:
        async with self.made(tmp_path) as tier:
            await self.tell(tier, "a", [Fact("it", f"has {n}", "a value", n, at=n) for n in range(5)])
            await self.tell(tier, "b", [Fact("it", "is", "elsewhere", 2, at=9)])
            await tier.drop("a", [2])
            left = sorted((fact.session, fact.source) for fact in await tier.facts())
            assert left == [("a", 1), ("a", 3), ("a", 4), ("b", 2)], "nor what nobody can say where it was said"
            await tier.drop("a")
            assert [fact.session for fact in await tier.facts()] == ["b"]
            assert await tier.positions() == {"a": 50, "b": 50}
            await tier.absorb("a", [_in("a", Fact("it", "has 1", "a value", 1))], 50)
            assert [fact.session for fact in await tier.facts()] == ["b"]

    async def test_the_same_again_changes_nothing(self, tmp_path: Path) -> None:
        async with self.made(tmp_path) as tier:
            facts = [_in("a", Fact("it", f"has {n}", f"value {n}", n, at=n)) for n in range(1, 40)]
            await self.tell(tier, "a", facts)
            before = await tier.facts()
            await tier.absorb("a", facts, 50)
            await tier.absorb("a", facts, 60)
            assert await tier.facts() == before
            assert await tier.positions() == {"a": 60}

    async def test_nothing_that_is_said_or_asked_does_harm(self, tmp_path: Path) -> None:
        async with self.made(tmp_path) as tier:
            facts = [Fact(text, "is \0 <" + text[:50] + ">", '"' + text + "\\", 1, at=1) for text in HOSTILE]
            await self.tell(tier, "a", [*facts, Fact("", "x", "y"), Fact("x", " ", "y"), Fact("x", "y", "\0")])
            for text in HOSTILE:
                assert isinstance(await tier.recall(text), list)
            assert await tier.forget(["'; DROP TABLE facts; --", '"', "\\", "<x>"]) == 0
            assert len(await tier.facts(limit=1_000)) >= 10


class MemorySuite(Journaled):
    def made(self, where: Path) -> AbstractAsyncContextManager[MemoryTier]:
        raise NotImplementedError("say how to make your tier")

    async def test_a_memory_is_kept_once_by_its_id_and_by_what_it_says(self, tmp_path: Path) -> None:
        async with self.made(tmp_path) as tier:
            first = Memory(
                id="m1", text="Ana likes tea", tags=("food", "ana"), at=5, source="a#3", origin="", data="{}"
            )
            assert await tier.keep(first) == first
            assert await tier.keep(first) == first
            assert await tier.keep(Memory(id="m1", text="something else")) == first
            assert await tier.keep(Memory(id="m2", text=" ana LIKES  tea ", tags=("ana", "Food"))) == first
            other = Memory(id="m3", text="Ana likes tea", tags=("drinks",))
            assert await tier.keep(other) == other
            assert len(await tier.memories()) == 2

    async def test_memories_are_found_by_content_and_by_tags(self, tmp_path: Path) -> None:
        async with self.made(tmp_path) as tier:
            for n, (text, tags) in enumerate(
                [("Ana likes green tea", ("food",)), ("teas of Japan", ("food", "travel")), ("ferries", ("travel",))]
            ):
                await tier.keep(Memory(id=f"m{n}", text=text, tags=tags, at=n * 100, source=f"s{n}#1"))

            async def ids(query: Query, tags: Sequence[str] = (), limit: int = 10) -> list[str]:
                return [memory.id for memory, score in await tier.match(query, tags, limit) if score >= 0]

            assert sorted(await ids(Query(text="tea"))) == ["m0", "m1"]
            assert await ids(Query(text="tea"), ["travel"]) == ["m1"]
            assert await ids(Query(text="tea"), ["TRAVEL", "food"]) == ["m1"]
            assert await ids(Query(text=""), ["travel"]) == ["m2", "m1"]
            assert await ids(Query(text="travel")) != []
            assert await ids(Query(text="tea", start=50)) == ["m1"]
            assert await ids(Query(text="tea", session="s0")) == ["m0"]
            assert len(await ids(Query(text="tea"), limit=1)) == 1
            assert await ids(Query(text="zeppelin")) == []
            for text in HOSTILE:
                assert isinstance(await tier.match(Query(text=text), [text[:99]]), list)
                assert isinstance(await tier.memories(tag=text[:99], origin=text[:99]), list)

    async def test_memories_are_listed_newest_first_by_tag_origin_and_pin(self, tmp_path: Path) -> None:
        async with self.made(tmp_path) as tier:
            for n in range(6):
                origin = "untrusted:mail" if n % 2 else ""
                await tier.keep(Memory(id=f"m{n}", text=f"memory {n}", tags=(f"t{n % 3}",), at=n, origin=origin))
            assert [memory.id for memory in await tier.memories(limit=2)] == ["m5", "m4"]
            assert [memory.id for memory in await tier.memories(tag="t1")] == ["m4", "m1"]
            assert [memory.id for memory in await tier.memories(origin="untrusted")] == ["m5", "m3", "m1"]
            assert [memory.id for memory in await tier.memories(origin="")] == ["m4", "m2", "m0"]
            assert await tier.pin("m2", True)
            assert not await tier.pin("m9", True)
            assert [memory.id for memory in await tier.memories(pinned=True)] == ["m2"]
            assert (await tier.memories(pinned=True))[0].pinned
            assert await tier.pin("m2", False)
            assert await tier.memories(pinned=True) == []
            assert len(await tier.memories(pinned=False)) == 6

    async def test_what_is_forgotten_or_dropped_with_its_source_is_gone(self, tmp_path: Path) -> None:
        async with self.made(tmp_path) as tier:
            for key in ("a", "a#1"):
                await self.journal(key, said(key, ["x"] * 9))
                await tier.absorb(key, [], 9)
            for n, source in enumerate(("a#1", "a#2", "b#1", "", "a#1#5")):
                await tier.keep(Memory(id=f"m{n}", text=f"the canary {n}", source=source, at=n))
            await tier.drop("a", [2, 7])
            assert [memory.id for memory in await tier.memories()] == ["m4", "m3", "m2", "m0"]
            await tier.drop("a")
            assert [memory.id for memory in await tier.memories()] == ["m4", "m3", "m2"]
            assert await tier.forget(["m2", "m2", "m9"]) == 1
            assert [memory.id for memory, _ in await tier.match(Query(text="canary"))] != []
            assert await tier.forget(["m3", "m4"]) == 2
            assert await tier.match(Query(text="canary")) == []

    async def test_what_a_follower_made_is_kept_once_under_its_own_id(self, tmp_path: Path) -> None:
        async with self.made(tmp_path) as tier:
            await self.journal("a", said("a", ["x"] * 30))
            made = [
                Memory(id=f"workflow:a#{n}", text="deploy the site", tags=("workflow",), source=f"a#{n * 10}", at=n)
                for n in (1, 2)
            ]
            await tier.absorb("a", made, 30)
            await tier.absorb("a", made, 30)
            await tier.absorb("a", made, 40)
            assert [memory.id for memory in await tier.memories(tag="workflow")] == ["workflow:a#2", "workflow:a#1"]
            assert await tier.positions() == {"a": 40}
            await tier.drop("a", [25])
            left = {memory.id for memory in await tier.memories()}
            assert "workflow:a#2" not in left, "it tells of what happened up to there"
            await tier.drop("a")
            assert await tier.memories() == []


class VectorSuite(Journaled):
    dimensions = 64

    def made(self, where: Path) -> AbstractAsyncContextManager[VectorTier]:
        raise NotImplementedError("say how to make your tier")

    async def tell(self, tier: VectorTier, session: str, vectors: Sequence[tuple[int, bytes]], upto: int = 500) -> None:
        await self.journal(session, said(session, ["x"] * upto))
        await tier.absorb(session, vectors, upto)

    async def test_the_nearest_are_found_best_first_with_their_cosine(self, tmp_path: Path) -> None:
        async with self.made(tmp_path) as tier:
            await tier.use("model", self.dimensions)
            chance = random.Random(1)
            vectors = {n: unit([chance.gauss(0, 1) for _ in range(self.dimensions)]) for n in range(1, 401)}
            await self.tell(tier, "a", [(n, packed(vector)) for n, vector in vectors.items()])
            assert await tier.count() == 400
            for asked in (7, 77, 277):
                near = unit([x + chance.gauss(0, 0.03) for x in vectors[asked]])
                found = await tier.nearest(packed(near), 20)
                assert found[0].seq == asked
                assert len(found) == 20
                assert [spot.score for spot in found] == sorted((spot.score for spot in found), reverse=True)
                for spot in found:
                    assert abs(spot.score - dot(near, vectors[spot.seq])) < 0.03
                true = sorted(vectors, key=lambda n: -dot(near, vectors[n]))[:10]
                assert len({spot.seq for spot in found} & set(true)) >= 7

    async def test_a_message_with_several_vectors_is_found_once_by_its_best(self, tmp_path: Path) -> None:
        async with self.made(tmp_path) as tier:
            await tier.use("model", self.dimensions)
            await self.tell(tier, "a", [(1, self.axis(0)), (1, self.axis(1)), (1, self.axis(2)), (2, self.axis(3))])
            found = await tier.nearest(self.axis(1), 5)
            assert (found[0].seq, round(found[0].score, 2)) == (1, 1.0)
            assert len({spot.seq for spot in found}) == len(found)
            await tier.absorb("a", [(1, self.axis(7))], 501)
            assert (await tier.nearest(self.axis(7), 1))[0].seq == 1, "one more for an older message"
            assert (await tier.nearest(self.axis(0), 1))[0].seq == 1

    async def test_vectors_of_another_model_replace_the_old_ones(self, tmp_path: Path) -> None:
        async with self.made(tmp_path) as tier:
            await tier.use("model", self.dimensions)
            await self.tell(tier, "a", [(n, self.axis(n % 8)) for n in range(1, 100)])
            await tier.use("model", self.dimensions)
            assert (await tier.positions(), await tier.count()) == ({"a": 500}, 99)
            for model, dimensions in (("another", self.dimensions), ("another", 3 * self.dimensions + 1)):
                await tier.use(model, dimensions)
                assert (await tier.positions(), await tier.count()) == ({}, 0)
                vector = packed([1.0] + [0.0] * (dimensions - 1))
                assert await tier.nearest(vector, 5) == []
                await tier.absorb("a", [(1, vector)], 500)
                assert [(spot.seq, round(spot.score, 2)) for spot in await tier.nearest(vector, 5)] == [(1, 1.0)]
            await _refused(tier.nearest(self.axis(0), 5))

    async def test_the_same_again_changes_nothing(self, tmp_path: Path) -> None:
        async with self.made(tmp_path) as tier:
            await tier.use("model", self.dimensions)
            vectors = [(n // 2 + 1, self.axis(n % 9)) for n in range(100)]
            await self.tell(tier, "a", vectors)
            await tier.absorb("a", vectors, 500)
            assert (await tier.positions(), await tier.count()) == ({"a": 500}, 100)

    async def test_what_is_dropped_is_gone_and_does_not_come_back(self, tmp_path: Path) -> None:
        async with self.made(tmp_path) as tier:
            await tier.use("model", self.dimensions)
            await self.tell(tier, "a", [(1, self.axis(1)), (1, self.axis(2)), (2, self.axis(3))])
            await self.tell(tier, "b", [(1, self.axis(1))])
            await tier.drop("a", [1])
            assert [(spot.session, spot.seq) for spot in await tier.nearest(self.axis(1), 1)] == [("b", 1)]
            assert await tier.count() == 2
            await tier.absorb("a", [(1, self.axis(1))], 600)
            assert await tier.count() == 2
            await tier.drop("a")
            assert {spot.session for spot in await tier.nearest(self.axis(3), 5)} == {"b"}
            assert await tier.positions() == {"a": 600, "b": 500}

    async def test_vectors_that_point_nowhere_or_do_not_fit_do_no_harm(self, tmp_path: Path) -> None:
        async with self.made(tmp_path) as tier:
            await tier.use("model", self.dimensions)
            nowhere = [packed([value] * self.dimensions) for value in (0.0, math.nan, math.inf)]
            await self.tell(tier, "a", [(n, vector) for n, vector in enumerate(nowhere, 1)])
            await tier.absorb("a", [(9, self.axis(1))], 600)
            for vector in nowhere:
                assert isinstance(await tier.nearest(vector, 5), list)
            assert [spot.seq for spot in await tier.nearest(self.axis(1), 1)] == [9]
            await _refused(tier.absorb("a", [(10, b"1234")], 700))
            assert await tier.positions() == {"a": 600}
            assert await tier.nearest(self.axis(1), 0) == []

    def axis(self, n: int) -> bytes:
        """One of eight directions that have nothing to do with each other."""
        return packed(unit([1.0 if place % 9 == n else 0.001 for place in range(self.dimensions)]))


def unit(numbers: Sequence[float]) -> list[float]:
    length = math.sqrt(sum(x * x for x in numbers))
    return [x / length for x in numbers]


def packed(numbers: Sequence[float]) -> bytes:
    return struct.pack(f"{len(numbers)}f", *numbers)


def dot(one: Sequence[float], other: Sequence[float]) -> float:
    return sum(x * y for x, y in zip(one, other, strict=True))


def _in(session: str, fact: Fact) -> Fact:
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


def _at(fact: Fact, at: int) -> Fact:
    return Fact(fact.subject, fact.predicate, fact.object, fact.source, fact.confidence, fact.origin, fact.many, "", at)


async def _refused(work: object) -> None:
    try:
        await work  # type: ignore[misc]
    except MainstayError:
        return
    raise AssertionError("this should have been refused")
