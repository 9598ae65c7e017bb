"""Every tier through the suite of its port: SQLite beside a journal, in RAM and in a file of its own, and others."""

from __future__ import annotations

import random
import string
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from mainstay.core.errors import HomeUnusable, StoreFailed
from mainstay.core.journal import Record, encode_event
from mainstay.core.memory_tiers import (
    Fact,
    FactTier,
    FreeFormMemoryTier,
    MessageTier,
    SummaryTier,
    VectorTier,
    WorkspaceTiers,
)
from mainstay.core.ports import SessionInfo
from mainstay.store.oxigraph.fact_tier import OxigraphFactTier
from mainstay.store.sqlite.store import SqliteStore
from mainstay.store.sqlite.workspace_tiers import SeparateTierDatabase
from mainstay.testing import FactSuite, MemorySuite, MessageSuite, SummarySuite, VectorSuite


class BesideJournal:
    """In the journal's own file."""

    store: SqliteStore

    @asynccontextmanager
    async def tiers(self, where: Path) -> AsyncIterator[WorkspaceTiers]:
        self.store = SqliteStore(str(where / "workspace.db"))
        await self.store.open()
        yield self.store.tiers()
        await self.store.close()

    async def write_journal(self, session: str, records: Sequence[Record]) -> None:
        found = await self.store.get_session(session)
        head = found.head if found is not None else 0
        new = [record for record in records if record.seq > head]
        for record in new:  # each with its own time
            standing = SessionInfo(key=session, head=record.seq, created=1, updated=record.at)
            self.store.append(standing, record.seq - 1, [encode_event(record.event)])
        if new:
            await self.store.get_session(session)


class WithoutJournal:
    """In RAM, or in a file that has no journal."""

    path = ""

    @asynccontextmanager
    async def tiers(self, where: Path) -> AsyncIterator[WorkspaceTiers]:
        owner = SeparateTierDatabase(str(where / self.path) if self.path else ":memory:")
        yield await owner.open()
        await owner.close()


class InOwnFile(WithoutJournal):
    path = "tiers.db"


class Messages(MessageSuite):
    @asynccontextmanager
    async def make(self, folder: Path) -> AsyncIterator[MessageTier]:
        async with self.tiers(folder) as tiers:  # type: ignore[attr-defined]
            yield tiers.messages


class Summaries(SummarySuite):
    @asynccontextmanager
    async def make(self, folder: Path) -> AsyncIterator[SummaryTier]:
        async with self.tiers(folder) as tiers:  # type: ignore[attr-defined]
            yield tiers.summaries


class Facts(FactSuite):
    @asynccontextmanager
    async def make(self, folder: Path) -> AsyncIterator[FactTier]:
        async with self.tiers(folder) as tiers:  # type: ignore[attr-defined]
            yield tiers.facts


class Memories(MemorySuite):
    @asynccontextmanager
    async def make(self, folder: Path) -> AsyncIterator[FreeFormMemoryTier]:
        async with self.tiers(folder) as tiers:  # type: ignore[attr-defined]
            yield tiers.memories


class Vectors(VectorSuite):
    @asynccontextmanager
    async def make(self, folder: Path) -> AsyncIterator[VectorTier]:
        pytest.importorskip("sqlite_vec")
        async with self.tiers(folder) as tiers:  # type: ignore[attr-defined]
            yield tiers.vectors


class TestMessagesBesideTheJournal(BesideJournal, Messages): ...


class TestMessagesInRam(WithoutJournal, Messages): ...


class TestMessagesInOwnFile(InOwnFile, Messages): ...


class TestSummariesBesideTheJournal(BesideJournal, Summaries): ...


class TestSummariesInRam(WithoutJournal, Summaries): ...


class TestFactsBesideTheJournal(BesideJournal, Facts): ...


class TestFactsInRam(WithoutJournal, Facts): ...


class TestFactsInOwnFile(InOwnFile, Facts): ...


class TestMemoriesBesideTheJournal(BesideJournal, Memories): ...


class TestMemoriesInRam(WithoutJournal, Memories): ...


class TestVectorsBesideTheJournal(BesideJournal, Vectors): ...


class TestVectorsInRam(WithoutJournal, Vectors): ...


class TestFactsInOxigraph(FactSuite):
    @asynccontextmanager
    async def make(self, folder: Path) -> AsyncIterator[FactTier]:
        pytest.importorskip("pyoxigraph")
        tier = OxigraphFactTier(folder / "facts")
        await tier.open()
        yield tier
        await tier.close()

    async def test_it_is_all_there_after_reopening(self, tmp_path: Path) -> None:
        async with self.make(tmp_path) as tier:
            await self.ingest(tier, "a", [Fact("Ana", "lives in", "Lisbon", 3, at=100)])
            before = await tier.list_facts()
        async with self.make(tmp_path) as tier:
            assert await tier.list_facts() == before
            assert await tier.positions() == {"a": 50}
            await tier.ingest("a", before, 50)
            assert await tier.list_facts() == before

    async def test_erased_data_is_nowhere_on_the_disk(self, tmp_path: Path) -> None:
        async with self.make(tmp_path) as tier:
            # long and without any pattern, so that no compression hides them
            canaries = {
                n: "".join(random.Random(n).choices(string.ascii_letters + string.digits, k=60)) for n in range(1, 50)
            }
            facts = [Fact("Ana", "keeps", canary, n, many=True, at=n) for n, canary in canaries.items()]
            await self.ingest(tier, "a", facts)
            assert holding(tmp_path, canaries[7].encode()) != []
            await tier.delete_derived("a", [7])
        assert holding(tmp_path, canaries[7].encode()) == []
        assert holding(tmp_path, canaries[8].encode()) != []
        async with self.make(tmp_path) as tier:
            assert sorted(fact.source for fact in await tier.list_facts()) == [n for n in canaries if n != 7]

    async def test_a_copy_that_was_not_finished_does_no_harm_and_is_made_again(self, tmp_path: Path) -> None:
        canary = "".join(random.Random(1).choices(string.ascii_letters + string.digits, k=60))
        async with self.make(tmp_path) as tier:
            await self.ingest(tier, "a", [Fact("Ana", "keeps", canary, 1, at=1), Fact("Ana", "likes", "tea", 2, at=2)])
            await tier.delete_derived("a", [1])
            (tmp_path / "facts" / "purge").unlink()  # as if it had stopped before it was closed
        (tmp_path / "facts" / "purge").touch()
        (tmp_path / "facts" / "graph.new").mkdir()
        (tmp_path / "facts" / "graph").rename(tmp_path / "facts" / "graph.old")
        assert holding(tmp_path, canary.encode()) != []
        async with self.make(tmp_path) as tier:
            assert [fact.object for fact in await tier.list_facts()] == ["tea"]
            assert holding(tmp_path, canary.encode()) == []

    async def test_a_graph_that_another_process_has_open_is_a_clear_error(self, tmp_path: Path) -> None:
        async with self.make(tmp_path):
            other = OxigraphFactTier(tmp_path / "facts")
            with pytest.raises(HomeUnusable, match="cannot be opened"):
                await other.open()
            with pytest.raises(StoreFailed, match="not open"):
                await other.list_facts()


def holding(folder: Path, word: bytes) -> list[str]:
    return [path.name for path in folder.rglob("*") if path.is_file() and word in path.read_bytes()]
