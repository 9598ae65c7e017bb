"""Queries with very frequent words: bounded work, and still the right answers first."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mainstay.core.memory_tiers import MemoryQuery, MessageTier
from mainstay.core.searchable_messages import searchable_messages
from mainstay.store.sqlite import message_tier
from mainstay.store.sqlite.workspace_tiers import SeparateTierDatabase
from mainstay.testing.conversation_tier_suites import build_records


@asynccontextmanager
async def tier_with(lines: Sequence[str]) -> AsyncIterator[MessageTier]:
    owner = SeparateTierDatabase(":memory:", vectors=False)
    tiers = await owner.open()
    await tiers.messages.ingest("a", searchable_messages("a", build_records("a", lines)), len(lines))
    yield tiers.messages
    await owner.close()


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(message_tier, "POSTINGS_MAX", 10)
    monkeypatch.setattr(message_tier, "FREQUENT_WORD_MESSAGES", 60)


LINES = [
    *("harbour office report" for _ in range(40)),
    "harbour walrus",
    "walrus alone in the cold northern water",
    "harbour office walrus walrus",
    *("office party" for _ in range(10)),
]


async def test_the_rare_word_selects_and_the_frequent_ones_only_rank() -> None:
    async with tier_with(LINES) as tier:
        found = [spot.seq for spot in await tier.search(MemoryQuery(text="harbour walrus office"), 50)]
        assert set(found) == {41, 42, 43}
        assert found[0] in (41, 43)
        assert found[-1] == 42, "who has the other words too comes first"


async def test_where_every_word_is_frequent_the_newest_are_scored() -> None:
    async with tier_with(LINES) as tier:
        found = [spot.seq for spot in await tier.search(MemoryQuery(text="harbour"), 50)]
        assert len(found) == 10
        assert set(found) == {41, 43, *range(33, 41)}
        both = await tier.search(MemoryQuery(text="harbour office"), 5)
        assert len(both) == 5
        assert all(spot.score >= 0 for spot in both)


async def test_filters_hold_for_frequent_words_too() -> None:
    async with tier_with(LINES) as tier:
        found = await tier.search(MemoryQuery(text="harbour", end=6_000), 50)
        assert sorted(spot.seq for spot in found) == [1, 2, 3, 4]
        assert {spot.seq % 2 for spot in await tier.search(MemoryQuery(text="office", speaker="assistant"), 50)} == {0}


async def test_an_unknown_word_changes_nothing() -> None:
    async with tier_with(LINES) as tier:
        plain = await tier.search(MemoryQuery(text="walrus"), 50)
        assert [spot.seq for spot in await tier.search(MemoryQuery(text="walrus zeppelin"), 50)] == [
            s.seq for s in plain
        ]


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(st.lists(st.text(max_size=60), max_size=8), st.text(max_size=20), st.integers(), st.integers(-5, 2_000))
async def test_any_query_is_answered(texts: list[str], speaker: str, start: int, limit: int) -> None:
    async with tier_with(
        ["harbour office", *[text.encode(errors="replace").decode() or "-" for text in texts]]
    ) as tier:
        for text in (*texts, " ".join(texts), '"'.join(texts), "harbour NEAR " + "*".join(texts)):
            found = await tier.search(MemoryQuery(text=text, speaker=speaker, start=start), limit)
            assert len(found) <= max(0, limit)
            assert await tier.filter_refs(found, MemoryQuery(text="", speaker=speaker, start=start)) == found
