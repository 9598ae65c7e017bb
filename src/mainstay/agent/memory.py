"""`agent.memory`: search, recall and manage the memory of a workspace."""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from datetime import datetime

from mainstay.core.memory_tiers import Fact, Memory, SearchHit, Summary
from mainstay.memory.time_expressions import TimeExpression, parse_time
from mainstay.memory.types import PAGE_CHARS_MAX, ForgetResult, MemoryPage, MemoryStatus
from mainstay.operations import memory as operations
from mainstay.operations.client_protocol import OperationClient


class AgentMemory:
    """Memory of a workspace. Times are a datetime, text (`2026-11-02`, `yesterday`, `7d`) or milliseconds since 1970;
    without a zone they are UTC."""

    def __init__(self, client: OperationClient) -> None:
        self._execute = client.execute

    async def search(
        self,
        query: str,
        k: int = 10,
        *,
        start: TimeExpression | None = None,
        end: TimeExpression | None = None,
        speaker: str | None = None,
        session: str | None = None,
    ) -> builtins.list[SearchHit]:
        """Search messages and memories by words and meaning, the best first."""
        request = operations.SearchMemory(
            q=query,
            k=k,
            start=_to_operation_time(start),
            end=_to_operation_time(end),
            speaker=speaker or "",
            in_session=session or "",
        )
        return (await self._execute(request)).hits

    async def semantic(
        self,
        query: str,
        k: int = 10,
        *,
        start: TimeExpression | None = None,
        end: TimeExpression | None = None,
        speaker: str | None = None,
        session: str | None = None,
    ) -> builtins.list[SearchHit]:
        """Search by meaning alone; finds nothing where there are no vectors, and `status().note` says why."""
        request = operations.SearchVectors(
            q=query,
            k=k,
            start=_to_operation_time(start),
            end=_to_operation_time(end),
            speaker=speaker or "",
            in_session=session or "",
        )
        return (await self._execute(request)).hits

    async def recall(self, topic: str, limit: int = 20) -> builtins.list[SearchHit]:
        """Return facts and memories about a topic; each names the message it comes from."""
        return (await self._execute(operations.RecallTopic(topic=topic, limit=limit))).hits

    async def summaries(
        self, start: TimeExpression | None = None, end: TimeExpression | None = None, limit: int = 50
    ) -> builtins.list[Summary]:
        """Return summaries of the conversations of this period, in order."""
        request = operations.ListSummaries(start=_to_operation_time(start), end=_to_operation_time(end), limit=limit)
        return (await self._execute(request)).summaries

    async def get(self, id: str, offset: int = 0, limit: int = PAGE_CHARS_MAX) -> MemoryPage:
        """Return a message (`session#12`), a fact or a memory; long ones a page at a time."""
        return await self._execute(operations.GetMemory(id=id, offset=offset, limit=limit))

    async def remember(self, text: str, tags: Sequence[str] = (), pin: bool = False) -> Memory:
        """Store a memory permanently. A pinned memory is in every context."""
        tag_list = tags if isinstance(tags, str) else list(tags)
        return await self._execute(operations.Remember(text=text, tags=tag_list, pin=pin))

    async def forget(self, id: str) -> ForgetResult:
        """Delete a message, a fact or a memory everywhere. This cannot be undone."""
        return await self._execute(operations.ForgetMemory(id=id))

    async def forget_origin(self, origin: str) -> builtins.list[ForgetResult]:
        """Delete every fact and memory of this origin: `untrusted` is everything from outside."""
        return (await self._execute(operations.ForgetOrigin(origin=origin))).deleted

    async def list(
        self, *, tag: str = "", origin: str = "", pinned: bool | None = None, limit: int = 100
    ) -> builtins.list[Memory]:
        """Return stored memories, the newest first."""
        request = operations.ListMemories(tag=tag, origin=origin, pinned=pinned, limit=limit)
        return (await self._execute(request)).memories

    async def facts(self, *, origin: str = "", limit: int = 100) -> builtins.list[Fact]:
        """Return the facts that were extracted when conversations were folded."""
        return (await self._execute(operations.ListFacts(origin=origin, limit=limit))).facts

    async def pin(self, id: str) -> Memory:
        return await self._execute(operations.PinMemory(id=id, pinned=True))

    async def unpin(self, id: str) -> Memory:
        return await self._execute(operations.PinMemory(id=id, pinned=False))

    async def status(self) -> MemoryStatus:
        """Count what is stored; `note` says when search is by words only, and why."""
        return await self._execute(operations.GetMemoryStatus())


def _to_operation_time(time: TimeExpression | None) -> str | int:
    """Return a datetime as milliseconds; text is parsed where the operation runs."""
    if time is None:
        return ""
    return parse_time(time, 0) or 0 if isinstance(time, datetime) else time
