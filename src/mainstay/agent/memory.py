"""`agent.memory`: what can be recalled of a workspace, at home or through the socket of whoever owns it."""

from __future__ import annotations

import builtins
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import msgspec

from mainstay.agent.world import SystemClock
from mainstay.core.ports import Clock
from mainstay.core.recall import Fact, Hit, Memory, Summary
from mainstay.memory.pages import PAGE_CHARS, Forgotten, Page, Status
from mainstay.memory.times import Moment, moment


class Answer(msgspec.Struct, frozen=True):
    """What a search found, and what it could not do."""

    hits: list[Hit]
    note: str = ""


# what can be asked of a library, and what comes back
VERBS: dict[str, Any] = {
    "search": Answer,
    "semantic": Answer,
    "recall": list[Hit],
    "summaries": list[Summary],
    "get": Page,
    "remember": Memory,
    "forget": Forgotten,
    "forget_origin": list[Forgotten],
    "list": list[Memory],
    "facts": list[Fact],
    "pin": Memory,
    "status": Status,
}


class Recalling:
    """The same questions wherever the library is. Times are a datetime, text (`2026-11-02`, `yesterday`, `7d`) or
    milliseconds since 1970; without a zone they are UTC."""

    clock: Clock = SystemClock()

    async def do(self, verb: str, arguments: dict[str, Any]) -> Any:
        raise NotImplementedError

    async def search(
        self,
        query: str,
        k: int = 10,
        *,
        start: Moment | None = None,
        end: Moment | None = None,
        speaker: str | None = None,
        session: str | None = None,
    ) -> builtins.list[Hit]:
        """Messages and memories by words and meaning, the best first."""
        where = {"speaker": speaker or "", "session": session or ""}
        found: Answer = await self.do("search", {"text": query, "k": k, **self.span(start, end), **where})
        return list(found.hits)

    async def semantic(
        self,
        query: str,
        k: int = 10,
        *,
        start: Moment | None = None,
        end: Moment | None = None,
        speaker: str | None = None,
        session: str | None = None,
    ) -> builtins.list[Hit]:
        """By meaning alone; nothing where there are no vectors, and `status().note` says why."""
        where = {"speaker": speaker or "", "session": session or ""}
        found: Answer = await self.do("semantic", {"text": query, "k": k, **self.span(start, end), **where})
        return list(found.hits)

    async def recall(self, topic: str, limit: int = 20) -> builtins.list[Hit]:
        """Facts and memories about a topic; each names the message it comes from."""
        found: builtins.list[Hit] = await self.do("recall", {"topic": topic, "limit": limit})
        return found

    async def summaries(
        self, start: Moment | None = None, end: Moment | None = None, limit: int = 50
    ) -> builtins.list[Summary]:
        """What conversations of this time were about, in order."""
        found: builtins.list[Summary] = await self.do("summaries", {**self.span(start, end), "limit": limit})
        return found

    async def get(self, id: str, offset: int = 0, limit: int = PAGE_CHARS) -> Page:
        """A message (`session#12`), a fact or a memory; what is long, a page at a time."""
        page: Page = await self.do("get", {"id": id, "offset": offset, "limit": limit})
        return page

    async def remember(self, text: str, tags: Sequence[str] = (), pin: bool = False) -> Memory:
        """Keep something for good. What is pinned the model always has before it."""
        given = tags if isinstance(tags, str) else list(tags)
        memory: Memory = await self.do("remember", {"text": text, "tags": given, "pin": pin})
        return memory

    async def forget(self, id: str) -> Forgotten:
        """Remove a message, a fact or a memory from everywhere. This cannot be undone."""
        gone: Forgotten = await self.do("forget", {"id": id})
        return gone

    async def forget_origin(self, origin: str) -> builtins.list[Forgotten]:
        """Remove every fact and memory whose origin begins so: `untrusted` is all that came from outside."""
        gone: builtins.list[Forgotten] = await self.do("forget_origin", {"origin": origin})
        return gone

    async def list(
        self, *, tag: str = "", origin: str = "", pinned: bool | None = None, limit: int = 100
    ) -> builtins.list[Memory]:
        """What was remembered, the newest first."""
        given = {"tag": tag, "origin": origin, "pinned": pinned, "limit": limit}
        found: builtins.list[Memory] = await self.do("list", given)
        return found

    async def facts(self, *, origin: str = "", limit: int = 100) -> builtins.list[Fact]:
        """What was learned when conversations were folded."""
        found: builtins.list[Fact] = await self.do("facts", {"origin": origin, "limit": limit})
        return found

    async def pin(self, id: str) -> Memory:
        memory: Memory = await self.do("pin", {"id": id, "pinned": True})
        return memory

    async def unpin(self, id: str) -> Memory:
        memory: Memory = await self.do("pin", {"id": id, "pinned": False})
        return memory

    async def status(self) -> Status:
        """How much is remembered; `note` says when search is by words only, and why."""
        status: Status = await self.do("status", {})
        return status

    def span(self, start: Moment | None, end: Moment | None) -> dict[str, int | None]:
        now = self.clock.now_ms()
        return {"start": moment(start, now), "end": moment(end, now, end=True)}


class AgentMemory(Recalling):
    """`opened` gives something that has a `library`; it is not loaded for those who never ask it."""

    def __init__(self, opened: Callable[[], Awaitable[Any]]) -> None:
        self._opened = opened

    async def do(self, verb: str, arguments: dict[str, Any]) -> Any:
        assert verb in VERBS, f"{verb} is nothing that a library does"
        return await getattr((await self._opened()).library, verb)(**arguments)


class RemoteMemory(Recalling):
    """`ask` carries a verb and its arguments to the owner of the home."""

    def __init__(self, ask: Callable[[str, dict[str, Any]], Awaitable[Any]]) -> None:
        self._ask = ask

    async def do(self, verb: str, arguments: dict[str, Any]) -> Any:
        return msgspec.convert(await self._ask(verb, arguments), VERBS[verb])
