"""Which facts are the same and which of them hold; and that there are never too many."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainstay.core.errors import HomeUnusable
from mainstay.core.memory_tiers import Fact, FactTier, Memory
from mainstay.store import fact_rules as rules
from mainstay.store.fact_rules import clean_fact, compute_superseded_times, fact_id, merge_mentions, topic_key
from mainstay.store.oxigraph.fact_tier import OxigraphFactTier
from mainstay.store.sqlite import free_form_memory_tier
from mainstay.store.sqlite.workspace_tiers import SeparateTierDatabase


@asynccontextmanager
async def kept_in(where: str) -> AsyncIterator[FactTier]:
    owner: Any
    if where == "oxigraph":
        pytest.importorskip("pyoxigraph")
        owner = OxigraphFactTier()
        await owner.open()
        yield owner
    else:
        owner = SeparateTierDatabase(":memory:", vectors=False)
        yield (await owner.open()).facts
    await owner.close()


def test_case_and_spaces_make_no_difference_but_the_origin_does() -> None:
    one, other = Fact("Ana  Maria", "Lives in", "LISBON"), Fact(" ana maria", "lives  IN", "lisbon ")
    assert fact_id(one) == fact_id(other)
    assert topic_key(one) == topic_key(other)
    assert fact_id(one) != fact_id(Fact("ana maria", "lives in", "lisbon", origin="untrusted:mail"))
    assert fact_id(Fact("a b", "c", "d")) != fact_id(Fact("a", "b c", "d"))


def test_an_empty_statement_is_no_fact_and_a_long_one_is_cut() -> None:
    assert clean_fact(Fact(" ", "is", "x")) is None
    assert clean_fact(Fact("x", "is", "\0 \n")) is None
    long = clean_fact(Fact("x" * 10_000, "is", "y\ud800", confidence=7.0))
    assert long is not None
    assert (len(long.subject), long.object, long.confidence) == (rules.FIELD_CHARS_MAX, "y?", 1.0)
    odd = clean_fact(Fact("x", "is", "y", confidence=float("nan")))
    assert odd is not None
    assert odd.confidence == 0.0


FACTS = st.lists(
    st.builds(
        lambda value, outside: Fact("it", "is", value, origin="untrusted:web" if outside else ""),
        st.sampled_from("xyz"),
        st.booleans(),
    ),
    max_size=12,
)


@given(FACTS)
def test_the_newest_that_was_said_in_trust_always_holds(made: list[Fact]) -> None:
    facts = [Fact(*("it", "is", one.object), origin=one.origin, at=n) for n, one in enumerate(made, start=1)]
    until = compute_superseded_times(facts)
    trusted = [place for place, fact in enumerate(facts) if not fact.origin]
    if trusted:
        last = facts[trusted[-1]]
        held = {fact.object for fact, when in zip(facts, until, strict=True) if not fact.origin and not when}
        assert held == {last.object}
    for place, fact in enumerate(facts):
        if fact.origin and place < (trusted[-1] if trusted else -1) and fact.object != facts[trusted[-1]].object:
            again = [n for n in range(place + 1, len(facts)) if facts[n] == fact or _same(facts[n], fact)]
            assert until[place] or again, "what was said in trust since then supersedes it"
    assert all(when == 0 or when > 0 for when in until)


def _same(one: Fact, other: Fact) -> bool:
    return fact_id(one) == fact_id(other)


@given(FACTS)
def test_each_fact_is_returned_once_as_it_was_said_last(made: list[Fact]) -> None:
    facts = [
        Fact("it", "is", one.object, n, n / 20, one.origin, at=n, id=fact_id(one))
        for n, one in enumerate(made, start=1)
    ]
    told = merge_mentions(facts)
    assert len({fact.id for fact in told}) == len(told) == len({fact.id for fact in facts})
    for fact in told:
        times = [one for one in facts if one.id == fact.id]
        assert (fact.at, fact.confidence) == (times[-1].at, max(one.confidence for one in times))


@pytest.mark.parametrize("where", ["sqlite", "oxigraph"])
async def test_too_many_facts_leave_in_the_order_of_their_worth(monkeypatch: pytest.MonkeyPatch, where: str) -> None:
    monkeypatch.setattr(rules, "MENTIONS_MAX", 10)
    async with kept_in(where) as tier:
        past = [Fact("it", "was", f"value {n}", n, session="a", at=n) for n in range(1, 6)]
        unsure = [Fact("it", f"may be {n}", "x", n, 0.2, session="a", at=n) for n in range(6, 10)]
        await tier.ingest("a", [*past, *unsure], 10)
        assert len(await tier.recall("it", 50, past=True)) == 9
        await tier.ingest("a", [Fact("it", f"is {n}", "x", n, 0.9, session="a", at=n) for n in range(11, 17)], 20)
        left = await tier.recall("it", 50, past=True)
        assert len(left) == 10
        assert sorted(fact.source for fact in left) == [5, 7, 8, 9, *range(11, 17)], (
            "the superseded went first, then the oldest of the least sure"
        )


@pytest.mark.parametrize("where", ["sqlite", "oxigraph"])
async def test_a_fact_that_is_said_all_the_time_is_remembered_a_few_times(where: str) -> None:
    async with kept_in(where) as tier:
        for n in range(1, 30):
            await tier.ingest(f"s{n}", [Fact("it", "is", "so", 1, session=f"s{n}", at=n)], 1)
        (fact,) = await tier.list_facts()
        assert fact.session == "s29"
        for n in range(29, 29 - rules.MENTIONS_PER_FACT_MAX, -1):
            assert len(await tier.list_facts()) == 1
            await tier.delete_derived(f"s{n}")
        assert await tier.list_facts() == []


@pytest.mark.parametrize("where", ["sqlite", "oxigraph"])
async def test_of_what_changes_all_the_time_only_the_recent_past_is_kept(
    monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    monkeypatch.setattr(rules, "SUPERSEDED_PER_TOPIC_MAX", 5)
    async with kept_in(where) as tier:
        for n in range(1, 30):
            await tier.ingest("a", [Fact("it", "is", f"value {n}", n, session="a", at=n)], n)
        assert [fact.object for fact in await tier.list_facts()] == ["value 29"]
        found = await tier.recall("it", 50, past=True)
        assert sorted(fact.source for fact in found) == [24, 25, 26, 27, 28, 29]


async def test_of_what_followers_made_only_the_newest_stay_and_what_was_asked_for_always(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(free_form_memory_tier, "WORKFLOWS_MAX", 5)
    owner = SeparateTierDatabase(":memory:", vectors=False)
    tier = (await owner.open()).memories
    await tier.save(Memory(id="asked", text="keep this"))
    for n in range(1, 20):
        await tier.ingest("a", [Memory(id=f"w{n}", text=f"workflow {n}", source=f"a#{n}", at=n)], n)
    assert [memory.id for memory in await tier.list_memories()] == ["w19", "w18", "w17", "w16", "w15", "asked"]
    await owner.close()


async def test_a_graph_without_its_package_is_a_sentence(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "pyoxigraph", None)
    with pytest.raises(HomeUnusable, match="pip install"):
        await OxigraphFactTier(tmp_path).open()
