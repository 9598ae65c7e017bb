"""A workspace for the tests of the memory service: a journal, tiers in RAM, and an indexer that is up to date."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Self

from mainstay.core.events import Event, Folded, Received, ToolFinished
from mainstay.core.journal import encode_event
from mainstay.core.memory_tiers import Fact, Summary, WorkspaceTiers
from mainstay.core.messages import Text, ToolResult
from mainstay.core.ports import ToolContext
from mainstay.core.searchable_messages import searchable_messages
from mainstay.core.session import Session
from mainstay.memory.service import MemoryService
from mainstay.store.sqlite.workspace_tiers import SeparateTierDatabase
from mainstay.testing import MemoryStore
from mainstay.testing.virtual_time import START_MS

DAY = 24 * 3600 * 1000


class StillClock:
    """It is noon, and stays so until a test says otherwise."""

    def __init__(self) -> None:
        self.ms = START_MS + DAY // 2

    def now_ms(self) -> int:
        return self.ms

    def monotonic(self) -> float:
        return self.ms / 1000

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(0)


class Catching:
    """Follows when it is asked to, and counts how often that was."""

    def __init__(self, store: MemoryStore, tiers: WorkspaceTiers) -> None:
        self.store, self.tiers = store, tiers
        self.note = ""
        self.asked: list[float] = []

    async def wait_until_indexed(self, timeout_s: float) -> None:
        self.asked.append(timeout_s)
        behind = await self.tiers.messages.positions()
        for key, head in (await self.store.list_heads()).items():
            if behind.get(key, 0) < head:
                records = await self.store.read_records(key, after=behind.get(key, 0), limit=10_000)
                folds = [(record.seq, record.event) for record in records if isinstance(record.event, Folded)]
                facts = [fact for _, fold in folds for fact in fold.facts]
                parts = [part for _, fold in folds for part in fold.parts]
                await self.tiers.messages.ingest(key, searchable_messages(key, records), head)
                await self.tiers.facts.ingest(key, facts, head)
                await self.tiers.summaries.ingest(key, parts, head)

    async def count_unindexed(self) -> int:
        heads, positions = await self.store.list_heads(), await self.tiers.messages.positions()
        return sum(head - positions.get(key, 0) for key, head in heads.items())

    async def forget(self, key: str, seqs: Sequence[int] | None = None) -> None:
        tiers = self.tiers
        for tier in (tiers.messages, tiers.summaries, tiers.facts, tiers.memories):
            await tier.delete_derived(key, seqs)


class World:
    """Open it with `async with`; its tiers have a thread."""

    def __init__(self) -> None:
        self.store = MemoryStore()
        self.clock = StillClock()
        self._views: dict[str, Session] = {}
        self._database = SeparateTierDatabase(":memory:")

    async def __aenter__(self) -> Self:
        self.tiers = await self._database.open()
        self.follower = Catching(self.store, self.tiers)
        self.library = MemoryService(self.tiers, self.store, self.follower, self.clock)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._database.close()

    async def add(self, session: str, *events: Event, at: int = START_MS) -> int:
        """Returns the sequence of the last."""
        view = self._views.setdefault(session, Session(session))
        before = view.head
        for event in events:
            view.apply(view.head + 1, at, event)
        await self.store.append(view.to_info(), before, [encode_event(event) for event in events])
        return view.head

    async def say(self, session: str, text: str, *, at: int = START_MS, sender: str = "", origin: str = "") -> str:
        seq = await self.add(session, Received((Text(text, origin=origin),), sender=sender), at=at)
        return f"{session}#{seq}"

    async def give(self, session: str, call: str, content: str, *, origin: str = "", name: str = "fetch") -> str:
        seq = await self.add(session, ToolFinished(ToolResult(call, name, content, origin=origin)))
        return f"{session}#{seq}"

    async def fold(self, session: str, *facts: Fact, parts: Sequence[Summary] = (), at: int = START_MS) -> None:
        whose = [
            Fact(f.subject, f.predicate, f.object, f.source, f.confidence, f.origin, f.many, session, at) for f in facts
        ]
        await self.add(
            session, Folded(self._views[session].head, "a summary", parts=tuple(parts), facts=tuple(whose)), at=at
        )


def calling(session: str = "s", *, source: int = 0, tainted: bool = False, call: str = "call_1_1_0") -> ToolContext:
    context = ToolContext(session, 1, 1, call, lambda event: None)
    context.message_seq = source
    context.tainted = tainted
    return context
