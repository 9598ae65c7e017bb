"""The memory service of one workspace: search, recall, remember and forget, for the model's tools and for users.

No argument can name another workspace. Every result names its source. The index is updated shortly after the journal;
calls wait for it, at most `INDEX_WAIT_S` seconds.
"""

from __future__ import annotations

import asyncio
import builtins
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

import msgspec

from mainstay.core.errors import InputRefused, MemoryUnknown
from mainstay.core.events import ApprovalAnswered, ApprovalAsked, Guarded, MessageAdded, ToolFinished, TurnEnded
from mainstay.core.memory_tiers import (
    CONVERSATION_ORIGIN,
    Embedder,
    Fact,
    IndexedMessage,
    Memory,
    MemoryQuery,
    SearchHit,
    Summary,
    WorkspaceTiers,
    is_untrusted,
    message_id,
    parse_message_id,
)
from mainstay.core.ports import Clock, Store
from mainstay.core.provisional_answers import hidden_seqs, is_provisional_answer
from mainstay.core.searchable_messages import searchable_message
from mainstay.memory.hybrid_search import MemorySearchResult, hybrid_search, semantic_search
from mainstay.memory.secret_hiding import SecretHiding
from mainstay.memory.tier_journal_cursor import read_decided_records
from mainstay.memory.types import (
    PAGE_CHARS_MAX,
    WORKFLOW_TAG,
    ForgetResult,
    MemoryPage,
    MemoryStatus,
    build_query,
    check_memory_tags,
    check_memory_text,
    check_page_bounds,
    check_range,
    derive_memory_id,
    fact_to_hit,
    has_origin,
    memory_to_hit,
    page_from_entry,
    page_from_hit,
    quote_id,
    unknown_id_message,
)

INDEX_WAIT_S = 2.0
PINNED_BYTES_MAX = 6 * 1024
LISTED_MAX = 10_000
COPIES_MAX = 100
RELATED_RECORDS_MAX = 200  # records after a message in which related ones are searched
FACTS_MAX = 100_000

RedactRecords = Callable[[str, Sequence[int]], Awaitable[None]]  # takes a session and sequences


class Indexer(Protocol):
    """Keeps the memory tiers up to date with the journal."""

    @property
    def note(self) -> str:
        """One sentence about what cannot be indexed and why; empty if nothing."""
        ...

    def wait_until_indexed(self, timeout_s: float) -> Awaitable[object]: ...

    def count_unindexed(self) -> Awaitable[int]:
        """Return the number of journal records that message search does not cover yet."""
        ...

    def forget(self, key: str, seqs: Sequence[int] | None = None) -> Awaitable[None]:
        """Remove a session's records from every tier, never while that session is being indexed."""
        ...


class MemoryService:
    """Memory of one workspace.

    Records of a session are blanked in the store, unless `connect` names another function.
    """

    def __init__(
        self, tiers: WorkspaceTiers, store: Store, indexer: Indexer, clock: Clock, embedder: Embedder | None = None
    ) -> None:
        self.clock = clock
        self._on_change: Callable[[], Awaitable[None]] | None = None
        self._redact: RedactRecords = store.redact_records
        self._tiers = tiers
        self._store = store
        self._indexer = indexer
        self._embedder = embedder
        self.secret_hiding = SecretHiding(store)
        self._write_lock = asyncio.Lock()  # the size of all pinned memories is checked before one is added

    def connect(
        self, *, on_change: Callable[[], Awaitable[None]] | None = None, redact: RedactRecords | None = None
    ) -> None:
        """Await `on_change` after memories were stored, pinned or deleted. Blank records of a session with `redact`, in
        a process that may have the session loaded."""
        self._on_change = on_change or self._on_change
        self._redact = redact or self._redact

    # --- search ----------------------------------------------------------------------------------

    async def search(
        self,
        text: str,
        k: int = 10,
        *,
        start: int | None = None,
        end: int | None = None,
        speaker: str = "",
        session: str = "",
    ) -> MemorySearchResult:
        """Search the full-text index and the vectors, best hits first."""
        query = build_query(text, k, start, end, speaker, session)
        await self._wait_for_index()
        return await hybrid_search(self._tiers, self._embedder, query)

    async def semantic(
        self,
        text: str,
        k: int = 10,
        *,
        start: int | None = None,
        end: int | None = None,
        speaker: str = "",
        session: str = "",
    ) -> MemorySearchResult:
        """Search the vectors only."""
        query = build_query(text, k, start, end, speaker, session)
        await self._wait_for_index()
        return await semantic_search(self._tiers, self._embedder, query)

    async def recall(self, topic: str, limit: int = 20) -> builtins.list[SearchHit]:
        """Return facts, then memories about a topic; each kind gets at least half of `limit` if it has that many."""
        query = build_query(topic, limit, None, None, "", "")
        await self._wait_for_index()
        facts = await self._tiers.facts.recall(query.text, limit)
        matches = await self._tiers.memories.search(query, limit=limit + 1)
        memories = [memory_to_hit(memory, score) for memory, score in matches if WORKFLOW_TAG not in memory.tags]
        facts_max = max(limit - len(memories), limit - limit // 2)
        facts = facts[:facts_max]
        return [*map(fact_to_hit, facts), *memories[: limit - len(facts)]]

    async def summaries(
        self, start: int | None = None, end: int | None = None, limit: int = 50
    ) -> builtins.list[Summary]:
        """Return summaries of conversations in this time span (ms), in order."""
        await self._wait_for_index()
        summaries = await self._tiers.summaries.list_between(start, end, check_range(limit, "limit", LISTED_MAX))
        untrusted = {key for key in {summary.session for summary in summaries} if await self._is_session_tainted(key)}
        return [
            msgspec.structs.replace(summary, origin=CONVERSATION_ORIGIN) if summary.session in untrusted else summary
            for summary in summaries
        ]

    # --- reading ---------------------------------------------------------------------------------

    async def get(self, id: str, offset: int = 0, limit: int = PAGE_CHARS_MAX) -> MemoryPage:
        """Return a page of a message, a fact or a memory. Raises MemoryUnknown."""
        await self._wait_for_index()
        if (position := parse_message_id(id)) is not None and (
            entry := await self._load_message(*position)
        ) is not None:
            return page_from_entry(entry, id, offset, limit)
        if (memory := await self._find_memory(id)) is not None:
            return page_from_hit(memory_to_hit(memory), offset, limit)
        if (fact := await self._find_fact(id)) is not None:
            return page_from_hit(fact_to_hit(fact), offset, limit)
        raise MemoryUnknown(unknown_id_message(id))

    async def read_result(self, session: str, ref: str, offset: int = 0, limit: int = PAGE_CHARS_MAX) -> MemoryPage:
        """Return a page of a tool result. Raises MemoryUnknown.

        `ref` is the id of a call in this session, `session/call` for another session of the workspace, or a message id.
        """
        await self._wait_for_index()
        other_session, slash, call = ref.rpartition("/")
        candidates = [(session, ref), *([(other_session, call)] if slash else [])]
        for key, id in candidates:
            if key and id and (page := await self._load_result(key, id, offset, limit)) is not None:
                return page
        if (position := parse_message_id(ref)) is not None and (
            entry := await self._load_message(*position)
        ) is not None:
            if (
                entry.call_id
                and (page := await self._load_result(entry.session, entry.call_id, offset, limit)) is not None
            ):
                return page
            return page_from_entry(entry, ref, offset, limit)
        raise MemoryUnknown(unknown_id_message(ref))

    # --- writing and deleting --------------------------------------------------------------------

    async def remember(
        self,
        text: str,
        tags: Sequence[str] = (),
        pin: bool = False,
        source: str = "",
        origin: str = "",
        key: str = "",
    ) -> Memory:
        """Store a memory permanently. The same text, or the same idempotency `key`, is stored once."""
        memory = Memory(
            id=derive_memory_id(key or f"{self.clock.now_ms()}\0{text}"),
            text=check_memory_text(text),
            tags=check_memory_tags(tags),
            at=self.clock.now_ms(),
            source=source,
            origin=origin,
        )
        trusted = not is_untrusted(origin)
        async with self._write_lock:
            if pin and trusted:
                await self._check_pinned_size(memory)
            stored = await self._tiers.memories.save(memory)
            if trusted and is_untrusted(stored.origin):  # a trusted copy replaces the untrusted one
                await self._tiers.memories.forget([stored.id])
                stored = await self._tiers.memories.save(memory)
            if pin and trusted and not stored.pinned:
                await self._tiers.memories.pin(stored.id, True)
                stored = msgspec.structs.replace(stored, pinned=True)
        await self._notify_change()
        return stored

    async def pin(self, id: str, pinned: bool = True) -> Memory:
        """Pin or unpin a memory. Pinned memories are in every context of the model."""
        async with self._write_lock:
            memory = await self._find_memory(id)
            if memory is None or WORKFLOW_TAG in memory.tags:
                raise MemoryUnknown(f"there is no memory {quote_id(id)}")
            if pinned and is_untrusted(memory.origin):
                raise InputRefused(
                    "this memory comes from an untrusted source and cannot be pinned; "
                    "remember it in your own words instead"
                )
            if pinned and not memory.pinned:
                await self._check_pinned_size(memory)
            await self._tiers.memories.pin(id, pinned)
        await self._notify_change()
        return msgspec.structs.replace(memory, pinned=pinned)

    async def forget(self, id: str) -> ForgetResult:
        """Remove a message, a fact or a memory from every tier; a message from its journal too."""
        await self._wait_for_index()
        if (position := parse_message_id(id)) is not None and (
            entry := await self._load_message(*position)
        ) is not None:
            session, seq = position
            await self._redact(session, [seq, *await self._find_related_records(session, seq)])
            await self._indexer.forget(session, [seq])
            await self._notify_change()
            return ForgetResult(id, "message", await self._find_copies(entry))
        if await self._tiers.memories.forget([id]):
            await self._notify_change()
            return ForgetResult(id, "memory")
        facts = [fact for fact in await self._tiers.facts.list_facts(limit=FACTS_MAX) if fact.id == id]
        if await self._tiers.facts.forget([id]):
            await self._remove_from_folds(facts)
            return ForgetResult(id, "fact")
        raise MemoryUnknown(unknown_id_message(id))

    async def _find_related_records(self, session: str, seq: int) -> builtins.list[int]:
        """Return the records that repeat a message's content: approvals of its calls, and guard findings."""
        seqs: builtins.list[int] = []
        for record in await self._store.read_records(session, after=seq, limit=RELATED_RECORDS_MAX):
            match record.event:
                case ApprovalAsked() | ApprovalAnswered() | Guarded():
                    seqs.append(record.seq)
                case MessageAdded(role="assistant") | TurnEnded():
                    break
        return seqs

    async def forget_origin(self, origin: str) -> builtins.list[ForgetResult]:
        """Delete every fact and memory with this origin or a narrower one: `untrusted` is all external content."""
        if not origin.strip():
            raise InputRefused("name the origin to forget, for example `untrusted` or `untrusted:fetch`")
        memory_ids = [item.id for item in await self.list(origin=origin, limit=LISTED_MAX)]
        facts = await self.facts(origin=origin, limit=LISTED_MAX)
        fact_ids = [item.id for item in facts]
        await self._tiers.memories.forget(memory_ids)
        await self._tiers.facts.forget(fact_ids)
        await self._remove_from_folds(facts)
        await self._notify_change()
        return [*(ForgetResult(id, "memory") for id in memory_ids), *(ForgetResult(id, "fact") for id in fact_ids)]

    # --- listing ---------------------------------------------------------------------------------

    async def list(
        self, *, tag: str = "", origin: str = "", pinned: bool | None = None, limit: int = 100
    ) -> builtins.list[Memory]:
        """Return memories, newest first. `origin` matches that origin and narrower ones."""
        await self._wait_for_index()
        maximum = check_range(limit, "limit", LISTED_MAX)
        memories = await self._tiers.memories.list_memories(
            tag=tag, pinned=pinned, limit=LISTED_MAX if origin else maximum
        )
        return [memory for memory in memories if has_origin(memory.origin, origin)][:maximum]

    async def facts(self, *, origin: str = "", limit: int = 100) -> builtins.list[Fact]:
        await self._wait_for_index()
        maximum = check_range(limit, "limit", LISTED_MAX)
        facts = await self._tiers.facts.list_facts(limit=FACTS_MAX if origin else maximum)
        return [fact for fact in facts if has_origin(fact.origin, origin)][:maximum]

    async def list_pinned(self) -> builtins.list[Memory]:
        """Return the trusted pinned memories, oldest first. Does not wait for the index: they are not derived."""
        memories = await self._tiers.memories.list_memories(pinned=True, limit=LISTED_MAX)
        return sorted(
            (memory for memory in memories if not is_untrusted(memory.origin)),
            key=lambda memory: (memory.at, memory.id),
        )

    async def status(self) -> MemoryStatus:
        await self._wait_for_index()
        tiers = self._tiers
        vectors = tiers.vectors if self._embedder is not None else None
        memories = await tiers.memories.list_memories(limit=LISTED_MAX)
        return MemoryStatus(
            messages=await tiers.messages.count(),
            summaries=len(await tiers.summaries.list_between(None, None, LISTED_MAX)),
            facts=len(await tiers.facts.list_facts(limit=FACTS_MAX)),
            memories=len(memories),
            pinned=sum(memory.pinned for memory in memories),
            vectors=await vectors.count() if vectors is not None else 0,
            vector_model=self._embedder.name if self._embedder is not None and vectors is not None else "",
            behind=await self._indexer.count_unindexed(),
            note=self._indexer.note
            or ("" if vectors is not None else "only full-text search is used: vectors are off"),
        )

    # --- helpers ---------------------------------------------------------------------------------

    async def _wait_for_index(self) -> None:
        await self._indexer.wait_until_indexed(INDEX_WAIT_S)

    async def _notify_change(self) -> None:
        if self._on_change is not None:
            await self._on_change()

    async def _load_message(self, session: str, seq: int) -> IndexedMessage | None:
        """Read a message from the journal: complete, and available even if the index holds only the newest ones."""
        records = await self._store.read_records(session, after=seq - 1, limit=1) if seq > 0 else []
        if not records or records[0].seq != seq:
            return None
        if is_provisional_answer(records[0].event):  # readable only if the judges accepted it
            later, _ = await read_decided_records(self._store, session, seq - 1, RELATED_RECORDS_MAX)
            if not later or seq in hidden_seqs(later, include_drafts=True):
                return None
        return searchable_message(session, records[0])

    async def _load_result(self, session: str, ref: str, offset: int, limit: int) -> MemoryPage | None:
        offset, limit = check_page_bounds(offset, limit)
        stored = await self._store.read_value(session, ref, offset, limit)
        entry = await self._tiers.messages.find_tool_result(session, ref) or await self._find_result_in_journal(
            session, ref
        )
        if stored is not None:
            unknown_origin = CONVERSATION_ORIGIN if entry is None and await self._is_session_tainted(session) else ""
            known = entry or IndexedMessage(session, 0, 0, "tool", "", origin=unknown_origin)
            id = message_id(session, known.seq) if known.seq else ""
            return MemoryPage(
                id=ref, text=stored[0], offset=offset, total=stored[1], kind="result", session=session, message_id=id,
                at=known.at, speaker=known.speaker, origin=known.origin,
            )  # fmt: skip
        return None if entry is None else page_from_entry(entry, ref, offset, limit, "result")

    async def _find_result_in_journal(self, session: str, ref: str) -> IndexedMessage | None:
        """Find a tool result that is not, or no longer, in the index."""
        after = 0
        while records := await self._store.read_records(session, after=after):
            for record in records:
                if isinstance(record.event, ToolFinished) and record.event.result.call_id == ref:
                    return searchable_message(session, record)
            after = records[-1].seq
        return None

    async def _is_session_tainted(self, session: str) -> bool:
        """Return whether the session holds untrusted content, so that its summaries may, too."""
        info = await self._store.get_session(session)
        return info is not None and info.untrusted

    async def _find_memory(self, id: str) -> Memory | None:
        return next(
            (memory for memory in await self._tiers.memories.list_memories(limit=LISTED_MAX) if memory.id == id), None
        )

    async def _find_copies(self, entry: IndexedMessage) -> tuple[str, ...]:
        """Return the ids of messages with the same text: copies in forks, or repetitions."""
        spots = await self._tiers.messages.search(MemoryQuery(text=entry.text[:1000], k=COPIES_MAX), COPIES_MAX)
        entries = await self._tiers.messages.fetch_messages(spots)
        return tuple(message_id(other.session, other.seq) for other in entries if other.text == entry.text)

    async def _remove_from_folds(self, facts: Sequence[Fact]) -> None:
        """Remove facts from the journal's folds, so that a rebuild does not extract them again."""
        for session in {fact.session for fact in facts if fact.session}:
            await self._store.remove_facts(session, [fact for fact in facts if fact.session == session])

    async def _find_fact(self, id: str) -> Fact | None:
        return next((fact for fact in await self._tiers.facts.list_facts(limit=FACTS_MAX) if fact.id == id), None)

    async def _check_pinned_size(self, memory: Memory) -> None:
        others = [other for other in await self.list_pinned() if other.id != memory.id and other.text != memory.text]
        size = sum(len(other.text.encode()) for other in others) + len(memory.text.encode())
        if size > PINNED_BYTES_MAX:
            raise InputRefused(
                f"pinned memories would have {size} bytes, and the limit is {PINNED_BYTES_MAX}; unpin something first"
            )
