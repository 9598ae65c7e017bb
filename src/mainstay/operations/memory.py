"""Operations on memory: search, recall, summaries, facts, stored memories.

A person who is not an admin of the workspace sees what comes from their own sessions; what the workspace stores as a
whole (facts, memories, their number) is for admins.
"""

from __future__ import annotations

from functools import partial
from typing import Annotated

import msgspec
from msgspec import Meta

from mainstay.core.memory_tiers import Fact, Memory, SearchHit, Summary
from mainstay.memory.secret_hiding import read_hidden_page
from mainstay.memory.time_expressions import parse_time
from mainstay.memory.types import PAGE_CHARS_MAX, ForgetResult, MemoryPage, MemoryStatus, memory_to_hit
from mainstay.operations.caller import Caller
from mainstay.operations.operation import EVERYWHERE, Count, Name, Operation, SessionName
from mainstay.operations.operation_entry import OperationEntry, Route
from mainstay.operations.secret_visibility import SecretVisibility

SEARCH_MAX = 100  # hits that memory returns at most
QueryText = Annotated[str, Meta(min_length=1, max_length=2_000)]
ItemCount = Annotated[int, Meta(ge=1, le=1_000)]
HitCount = Annotated[int, Meta(ge=1, le=SEARCH_MAX)]
# `2026-11-02`, `yesterday`, `7d`, or milliseconds since 1970; UTC
TimeInput = Annotated[str, Meta(max_length=40)] | int


class SearchResult(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Hits, the best first; `note` says what the search could not do."""

    hits: list[SearchHit]
    note: str = ""


class SummaryList(msgspec.Struct, frozen=True, kw_only=True):
    summaries: list[Summary]


class MemoryList(msgspec.Struct, frozen=True, kw_only=True):
    memories: list[Memory]


class FactList(msgspec.Struct, frozen=True, kw_only=True):
    facts: list[Fact]


class DeletedItems(msgspec.Struct, frozen=True, kw_only=True):
    deleted: list[ForgetResult]


class SearchMemory(Operation[SearchResult], frozen=True, kw_only=True):
    """Search messages and memories by words and by meaning, the best first."""

    q: QueryText
    k: HitCount = 10
    start: TimeInput = ""
    end: TimeInput = ""
    speaker: Name = ""
    in_session: Annotated[str, Meta(max_length=512)] = ""


class SearchVectors(Operation[SearchResult], frozen=True, kw_only=True):
    """Search messages by meaning alone (embeddings), the best first."""

    q: QueryText
    k: HitCount = 10
    start: TimeInput = ""
    end: TimeInput = ""
    speaker: Name = ""
    in_session: Annotated[str, Meta(max_length=512)] = ""


class RecallTopic(Operation[SearchResult], frozen=True, kw_only=True):
    """Recall facts and memories about a topic; each names the message it comes from."""

    topic: QueryText
    limit: HitCount = 20


class ListSummaries(Operation[SummaryList], frozen=True, kw_only=True):
    """List summaries of the conversations of a period, in order."""

    start: TimeInput = ""
    end: TimeInput = ""
    limit: ItemCount = 50


class GetMemory(Operation[MemoryPage], frozen=True, kw_only=True):
    """Read a message (`session#12`), a fact or a memory, a page at a time."""

    id: SessionName
    offset: Count = 0
    limit: Annotated[int, Meta(ge=1, le=1_000_000)] = PAGE_CHARS_MAX


class Remember(Operation[Memory], frozen=True, kw_only=True):
    """Store a memory; a pinned one is in every context."""

    text: Annotated[str, Meta(min_length=1, max_length=100_000)]
    tags: list[str] | str = []
    pin: bool = False


class ForgetMemory(Operation[ForgetResult], frozen=True, kw_only=True):
    """Delete a message, a fact or a memory everywhere. This cannot be undone."""

    id: SessionName


class ForgetOrigin(Operation[DeletedItems], frozen=True, kw_only=True):
    """Delete every fact and memory of an origin: `untrusted` is everything from outside."""

    origin: Name


class ListMemories(Operation[MemoryList], frozen=True, kw_only=True):
    """List stored memories, the newest first."""

    tag: Name = ""
    origin: Name = ""
    pinned: bool | None = None
    limit: ItemCount = 100


class ListFacts(Operation[FactList], frozen=True, kw_only=True):
    """List the facts that were extracted when conversations were folded."""

    origin: Name = ""
    limit: ItemCount = 100


class PinMemory(Operation[Memory], frozen=True, kw_only=True):
    """Pin a memory, or unpin it."""

    id: SessionName
    pinned: bool = True


class GetMemoryStatus(Operation[MemoryStatus], frozen=True, kw_only=True):
    """Count what is stored; `note` says when search is by words only, and why."""


async def search_memory(caller: Caller, request: SearchMemory) -> SearchResult:
    runtime = await caller.runtime()
    k = request.k if caller.can_see_all else SEARCH_MAX
    session = caller.session_key(request.in_session) if request.in_session else ""
    start, end = await _parse_time_range(caller, request)
    result = await runtime.memory.search(request.q, k, start=start, end=end, speaker=request.speaker, session=session)
    hits = await _visible_hits(caller, result.hits, request.k)
    return SearchResult(hits=hits, note=result.note)


async def search_vectors(caller: Caller, request: SearchVectors) -> SearchResult:
    runtime = await caller.runtime()
    k = request.k if caller.can_see_all else SEARCH_MAX
    session = caller.session_key(request.in_session) if request.in_session else ""
    start, end = await _parse_time_range(caller, request)
    result = await runtime.memory.semantic(request.q, k, start=start, end=end, speaker=request.speaker, session=session)
    hits = await _visible_hits(caller, result.hits, request.k)
    return SearchResult(hits=hits, note=result.note)


async def _parse_time_range(
    caller: Caller, request: SearchMemory | SearchVectors | ListSummaries
) -> tuple[int | None, int | None]:
    now = (await caller.runtime()).services.clock.now_ms()
    return parse_time(request.start, now), parse_time(request.end, now, end=True)


async def _visible_hits(caller: Caller, hits: list[SearchHit], count: int) -> list[SearchHit]:
    """Keep the first hits of the caller's own sessions, under its names for them; an admin gets those of other people
    without secrets."""
    if caller.can_see_all:
        return await SecretVisibility(caller).redact_all((hit, hit.session) for hit in hits[:count])
    names = ((hit, caller.session_name(hit.session)) for hit in hits)
    return [_with_session_name(hit, name) for hit, name in names if name is not None][:count]


def _with_session_name(hit: SearchHit, name: str) -> SearchHit:
    id = hit.message_id.replace(hit.session, name, 1) if hit.message_id.startswith(hit.session) else hit.message_id
    return msgspec.structs.replace(hit, session=name, message_id=id)


async def recall_topic(caller: Caller, request: RecallTopic) -> SearchResult:
    hits = await (await caller.runtime()).memory.recall(
        request.topic, request.limit if caller.can_see_all else SEARCH_MAX
    )
    return SearchResult(hits=await _visible_hits(caller, hits, request.limit))


async def list_summaries(caller: Caller, request: ListSummaries) -> SummaryList:
    start, end = await _parse_time_range(caller, request)
    summaries = await (await caller.runtime()).memory.summaries(
        start, end, request.limit if caller.can_see_all else 1_000
    )
    if caller.can_see_all:
        visible = await SecretVisibility(caller).redact_all((summary, summary.session) for summary in summaries)
        return SummaryList(summaries=visible)
    names = ((summary, caller.session_name(summary.session)) for summary in summaries)
    own = [msgspec.structs.replace(summary, session=name) for summary, name in names if name is not None]
    return SummaryList(summaries=own[-request.limit :])


async def get_memory(caller: Caller, request: GetMemory) -> MemoryPage:
    read = partial((await caller.runtime()).memory.get, request.id)
    page = await read(request.offset, request.limit)
    guards = await SecretVisibility(caller).find_guards(page.session)
    if guards is None:
        return page
    return await read_hidden_page(read, guards.redact_text, request.offset, request.limit)


async def remember(caller: Caller, request: Remember) -> Memory:
    return await (await caller.runtime()).memory.remember(request.text, request.tags, request.pin)


async def forget_memory(caller: Caller, request: ForgetMemory) -> ForgetResult:
    return await (await caller.runtime()).memory.forget(request.id)


async def forget_origin(caller: Caller, request: ForgetOrigin) -> DeletedItems:
    return DeletedItems(deleted=list(await (await caller.runtime()).memory.forget_origin(request.origin)))


async def list_memories(caller: Caller, request: ListMemories) -> MemoryList:
    memories = await (await caller.runtime()).memory.list(
        tag=request.tag, origin=request.origin, pinned=request.pinned, limit=request.limit
    )
    items = [(memory, memory_to_hit(memory).session) for memory in memories]
    return MemoryList(memories=await SecretVisibility(caller).redact_all(items))


async def list_facts(caller: Caller, request: ListFacts) -> FactList:
    facts = await (await caller.runtime()).memory.facts(origin=request.origin, limit=request.limit)
    return FactList(facts=await SecretVisibility(caller).redact_all((fact, fact.session) for fact in facts))


async def pin_memory(caller: Caller, request: PinMemory) -> Memory:
    return await (await caller.runtime()).memory.pin(request.id, request.pinned)


async def get_memory_status(caller: Caller, request: GetMemoryStatus) -> MemoryStatus:
    return await (await caller.runtime()).memory.status()


ENTRIES = (
    OperationEntry(
        request=SearchMemory, run=search_memory, interfaces=EVERYWHERE, http=Route("GET", "/api/memory/search")
    ),
    OperationEntry(request=SearchVectors, run=search_vectors, http=Route("GET", "/api/memory/semantic")),
    OperationEntry(request=RecallTopic, run=recall_topic, http=Route("GET", "/api/memory/recall")),
    OperationEntry(request=ListSummaries, run=list_summaries, http=Route("GET", "/api/memory/summaries")),
    OperationEntry(request=ListFacts, run=list_facts, access="admin", http=Route("GET", "/api/memory/facts")),
    OperationEntry(
        request=GetMemoryStatus, run=get_memory_status, access="admin", http=Route("GET", "/api/memory/status")
    ),
    OperationEntry(request=ListMemories, run=list_memories, access="admin", http=Route("GET", "/api/memory/items")),
    OperationEntry(request=Remember, run=remember, access="admin", http=Route("POST", "/api/memory/items", status=201)),
    OperationEntry(request=GetMemory, run=get_memory, access="admin", http=Route("GET", "/api/memory/items/{id}")),
    OperationEntry(
        request=ForgetMemory, run=forget_memory, access="admin", http=Route("DELETE", "/api/memory/items/{id}")
    ),
    OperationEntry(request=PinMemory, run=pin_memory, access="admin", http=Route("POST", "/api/memory/items/{id}/pin")),
    OperationEntry(request=ForgetOrigin, run=forget_origin, access="admin", http=Route("POST", "/api/memory/forget")),
)
