"""Everything that can be recalled of one workspace, for the model's tools and for people alike.

It has no argument by which another workspace could be named. What it hands out says where it comes from. The index
follows the journal a moment behind; whoever asks here waits for it, for a short while.
"""

from __future__ import annotations

import asyncio
import builtins
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol

import msgspec

from mainstay.core.entries import entry_of
from mainstay.core.errors import InputRefused, MemoryUnknown
from mainstay.core.events import ApprovalAnswered, ApprovalAsked, Guarded, MessageAdded, ToolFinished, TurnEnded
from mainstay.core.ports import Clock, Store
from mainstay.core.recall import (
    CONVERSATION,
    Embedder,
    Entry,
    Fact,
    Hit,
    Memory,
    Query,
    Summary,
    Tiers,
    is_untrusted,
    message_id,
    split_id,
)
from mainstay.core.withheld import is_provisional, withheld
from mainstay.memory.legs import read_decided
from mainstay.memory.pages import (
    PAGE_CHARS,
    WORKFLOW,
    Forgotten,
    Page,
    Status,
    begins,
    fact_hit,
    memory_hit,
    memory_id,
    memory_tags,
    memory_text,
    page_of,
    page_of_hit,
    query_of,
    shown,
    unknown,
    window,
    within,
)
from mainstay.memory.search import Found, search, semantic

CATCH_UP_S = 2.0
PINNED_BYTES_MAX = 6 * 1024
LISTED_MAX = 10_000
COPIES_MAX = 100
NEAR = 200  # records after a message that may be about it
FACTS_MAX = 100_000


class Following(Protocol):
    """Whoever keeps the tiers up with the journal."""

    @property
    def note(self) -> str:
        """What is missing and why, in a sentence; empty if nothing is."""
        ...

    def caught_up(self, timeout_s: float) -> Awaitable[Any]: ...

    def forget(self, key: str, seqs: Sequence[int] | None = None) -> Awaitable[None]:
        """From every tier, and not while something of it is on its way there."""
        ...


class Library:
    """`on_change` is awaited when memories were kept, pinned or forgotten. `redact` forgets records of a session;
    whoever has that session in memory puts something better in its place."""

    def __init__(
        self, tiers: Tiers, store: Store, follower: Following, clock: Clock, embedder: Embedder | None = None
    ) -> None:
        self.clock = clock
        self.on_change: Callable[[], Awaitable[None]] | None = None
        self.redact: Callable[[str, Sequence[int]], Awaitable[None]] = store.redact
        self._tiers = tiers
        self._store = store
        self._follower = follower
        self._embedder = embedder
        self._writing = asyncio.Lock()  # the pinned are counted before another is added

    # --- finding ---------------------------------------------------------------------------------

    async def search(
        self,
        text: str,
        k: int = 10,
        *,
        start: int | None = None,
        end: int | None = None,
        speaker: str = "",
        session: str = "",
    ) -> Found:
        """By words and meaning, the best first."""
        query = query_of(text, k, start, end, speaker, session)
        await self._catch_up()
        return await search(self._tiers, self._embedder, query)

    async def semantic(
        self,
        text: str,
        k: int = 10,
        *,
        start: int | None = None,
        end: int | None = None,
        speaker: str = "",
        session: str = "",
    ) -> Found:
        """By meaning alone."""
        query = query_of(text, k, start, end, speaker, session)
        await self._catch_up()
        return await semantic(self._tiers, self._embedder, query)

    async def recall(self, topic: str, limit: int = 20) -> builtins.list[Hit]:
        """What is known about something: facts, then what was remembered. Neither crowds out the other."""
        query = query_of(topic, limit, None, None, "", "")
        await self._catch_up()
        facts = await self._tiers.facts.recall(query.text, limit)
        found = await self._tiers.memories.match(query, limit=limit + 1)
        kept = [memory_hit(memory, score) for memory, score in found if WORKFLOW not in memory.tags]
        room = max(limit - len(kept), limit - limit // 2)
        facts = facts[:room]
        return [*map(fact_hit, facts), *kept[: limit - len(facts)]]

    async def summaries(
        self, start: int | None = None, end: int | None = None, limit: int = 50
    ) -> builtins.list[Summary]:
        """What conversations of this time were about, in order."""
        await self._catch_up()
        found = await self._tiers.summaries.between(start, end, within(limit, "limit", LISTED_MAX))
        outside = {key for key in {one.session for one in found} if await self._is_from_outside(key)}
        return [msgspec.structs.replace(one, origin=CONVERSATION) if one.session in outside else one for one in found]

    # --- reading ---------------------------------------------------------------------------------

    async def get(self, id: str, offset: int = 0, limit: int = PAGE_CHARS) -> Page:
        """A page of a message, a fact or a memory."""
        await self._catch_up()
        if (spot := split_id(id)) is not None and (entry := await self._message(*spot)) is not None:
            return page_of(entry, id, offset, limit)
        if (memory := await self._memory(id)) is not None:
            return page_of_hit(memory_hit(memory), offset, limit)
        if (fact := await self._fact(id)) is not None:
            return page_of_hit(fact_hit(fact), offset, limit)
        raise MemoryUnknown(unknown(id))

    async def result(self, session: str, ref: str, offset: int = 0, limit: int = PAGE_CHARS) -> Page:
        """A page of what a tool gave. `ref` is a call of this session, `session/call` of another one of the
        workspace, or a message."""
        await self._catch_up()
        other, slash, call = ref.rpartition("/")
        places = [(session, ref), *([(other, call)] if slash else [])]
        for key, id in places:
            if key and id and (page := await self._result(key, id, offset, limit)) is not None:
                return page
        if (spot := split_id(ref)) is not None and (entry := await self._message(*spot)) is not None:
            if entry.ref and (page := await self._result(entry.session, entry.ref, offset, limit)) is not None:
                return page
            return page_of(entry, ref, offset, limit)
        raise MemoryUnknown(unknown(ref))

    # --- keeping and forgetting ------------------------------------------------------------------

    async def remember(
        self,
        text: str,
        tags: Sequence[str] = (),
        pin: bool = False,
        source: str = "",
        origin: str = "",
        key: str = "",
    ) -> Memory:
        """Keep something for good. The same again, or under the same `key`, is kept once."""
        memory = Memory(
            id=memory_id(key or f"{self.clock.now_ms()}\0{text}"),
            text=memory_text(text),
            tags=memory_tags(tags),
            at=self.clock.now_ms(),
            source=source,
            origin=origin,
        )
        trusted = not is_untrusted(origin)
        async with self._writing:
            if pin and trusted:
                await self._room_for(memory)
            kept = await self._tiers.memories.keep(memory)
            if trusted and is_untrusted(kept.origin):  # now somebody says it who may
                await self._tiers.memories.forget([kept.id])
                kept = await self._tiers.memories.keep(memory)
            if pin and trusted and not kept.pinned:
                await self._tiers.memories.pin(kept.id, True)
                kept = msgspec.structs.replace(kept, pinned=True)
        await self._changed()
        return kept

    async def pin(self, id: str, pinned: bool = True) -> Memory:
        """Whether the model always has it before it."""
        async with self._writing:
            memory = await self._memory(id)
            if memory is None or WORKFLOW in memory.tags:
                raise MemoryUnknown(f"there is no memory {shown(id)}")
            if pinned and is_untrusted(memory.origin):
                raise InputRefused("this came from outside and cannot be pinned; remember it in your own words instead")
            if pinned and not memory.pinned:
                await self._room_for(memory)
            await self._tiers.memories.pin(id, pinned)
        await self._changed()
        return msgspec.structs.replace(memory, pinned=pinned)

    async def forget(self, id: str) -> Forgotten:
        """Remove a message, a fact or a memory from every tier; a message from its journal too."""
        await self._catch_up()
        if (spot := split_id(id)) is not None and (entry := await self._message(*spot)) is not None:
            session, seq = spot
            await self.redact(session, [seq, *await self._beside(session, seq)])
            await self._follower.forget(session, [seq])
            await self._changed()
            return Forgotten(id, "message", await self._copies(entry))
        if await self._tiers.memories.forget([id]):
            await self._changed()
            return Forgotten(id, "memory")
        said = [one for one in await self._tiers.facts.facts(limit=FACTS_MAX) if one.id == id]
        if await self._tiers.facts.forget([id]):
            await self._unlearn(said)
            return Forgotten(id, "fact")
        raise MemoryUnknown(unknown(id))

    async def _beside(self, session: str, seq: int) -> builtins.list[int]:
        """Records that repeat what a message says: what was asked about its calls, and what guards said."""
        found: builtins.list[int] = []
        for record in await self._store.read(session, after=seq, limit=NEAR):
            match record.event:
                case ApprovalAsked() | ApprovalAnswered() | Guarded():
                    found.append(record.seq)
                case MessageAdded(role="assistant") | TurnEnded():
                    break
        return found

    async def forget_origin(self, origin: str) -> builtins.list[Forgotten]:
        """Every fact and memory whose origin begins so: `untrusted` is all that came from outside."""
        if not origin.strip():
            raise InputRefused("say which origin, for example `untrusted` or `untrusted:fetch`")
        memories = [one.id for one in await self.list(origin=origin, limit=LISTED_MAX)]
        known = await self.facts(origin=origin, limit=LISTED_MAX)
        facts = [one.id for one in known]
        await self._tiers.memories.forget(memories)
        await self._tiers.facts.forget(facts)
        await self._unlearn(known)
        await self._changed()
        return [*(Forgotten(id, "memory") for id in memories), *(Forgotten(id, "fact") for id in facts)]

    # --- looking over it -------------------------------------------------------------------------

    async def list(
        self, *, tag: str = "", origin: str = "", pinned: bool | None = None, limit: int = 100
    ) -> builtins.list[Memory]:
        """What was remembered, the newest first. `origin` is how theirs begins."""
        await self._catch_up()
        most = within(limit, "limit", LISTED_MAX)
        found = await self._tiers.memories.memories(tag=tag, pinned=pinned, limit=LISTED_MAX if origin else most)
        return [one for one in found if begins(one.origin, origin)][:most]

    async def facts(self, *, origin: str = "", limit: int = 100) -> builtins.list[Fact]:
        await self._catch_up()
        most = within(limit, "limit", LISTED_MAX)
        found = await self._tiers.facts.facts(limit=FACTS_MAX if origin else most)
        return [one for one in found if begins(one.origin, origin)][:most]

    async def pinned(self) -> builtins.list[Memory]:
        """What the model always has before it, the oldest first. Does not wait: these follow no journal."""
        found = await self._tiers.memories.memories(pinned=True, limit=LISTED_MAX)
        return sorted((one for one in found if not is_untrusted(one.origin)), key=lambda one: (one.at, one.id))

    async def status(self) -> Status:
        await self._catch_up()
        tiers = self._tiers
        vectors = tiers.vectors if self._embedder is not None else None
        memories = await tiers.memories.memories(limit=LISTED_MAX)
        return Status(
            messages=await tiers.messages.count(),
            summaries=len(await tiers.summaries.between(None, None, LISTED_MAX)),
            facts=len(await tiers.facts.facts(limit=FACTS_MAX)),
            memories=len(memories),
            pinned=sum(one.pinned for one in memories),
            vectors=await vectors.count() if vectors is not None else 0,
            vector_model=self._embedder.name if self._embedder is not None and vectors is not None else "",
            behind=await self._behind(),
            note=self._follower.note or ("" if vectors is not None else "search is by words only: vectors are off"),
        )

    # --- helpers ---------------------------------------------------------------------------------

    async def _catch_up(self) -> None:
        await self._follower.caught_up(CATCH_UP_S)

    async def _changed(self) -> None:
        if self.on_change is not None:
            await self.on_change()

    async def _message(self, session: str, seq: int) -> Entry | None:
        """From the journal itself: whole, and there even where the index keeps only the newest."""
        records = await self._store.read(session, after=seq - 1, limit=1) if seq > 0 else []
        if not records or records[0].seq != seq:
            return None
        if is_provisional(records[0].event):  # it is there if it stands
            since, _ = await read_decided(self._store, session, seq - 1, NEAR)
            if not since or seq in withheld(since, drafts=True):
                return None
        return entry_of(session, records[0])

    async def _result(self, session: str, ref: str, offset: int, limit: int) -> Page | None:
        offset, limit = window(offset, limit)
        kept = await self._store.kept(session, ref, offset, limit)
        entry = await self._tiers.messages.find(session, ref) or await self._in_journal(session, ref)
        if kept is not None:
            unknown_origin = CONVERSATION if entry is None and await self._is_from_outside(session) else ""
            about = entry or Entry(session, 0, 0, "tool", "", origin=unknown_origin)
            id = message_id(session, about.seq) if about.seq else ""
            return Page(
                id=ref, text=kept[0], offset=offset, total=kept[1], kind="result", session=session, message_id=id,
                at=about.at, speaker=about.speaker, origin=about.origin,
            )  # fmt: skip
        return None if entry is None else page_of(entry, ref, offset, limit, "result")

    async def _in_journal(self, session: str, ref: str) -> Entry | None:
        """A result that the index does not have, or has no more."""
        after = 0
        while records := await self._store.read(session, after=after):
            for record in records:
                if isinstance(record.event, ToolFinished) and record.event.result.call_id == ref:
                    return entry_of(session, record)
            after = records[-1].seq
        return None

    async def _is_from_outside(self, session: str) -> bool:
        """Whether something that came from there is in this conversation, and so perhaps in what sums it up."""
        standing = await self._store.get(session)
        return standing is not None and standing.untrusted

    async def _memory(self, id: str) -> Memory | None:
        return next((one for one in await self._tiers.memories.memories(limit=LISTED_MAX) if one.id == id), None)

    async def _copies(self, entry: Entry) -> tuple[str, ...]:
        """Other messages that say the very same: forks copy, and people repeat themselves."""
        spots = await self._tiers.messages.match(Query(text=entry.text[:1000], k=COPIES_MAX), COPIES_MAX)
        found = await self._tiers.messages.fetch(spots)
        return tuple(message_id(one.session, one.seq) for one in found if one.text == entry.text)

    async def _unlearn(self, facts: Sequence[Fact]) -> None:
        """Out of the folds that taught them, so that they are not learned from there again."""
        for session in {fact.session for fact in facts if fact.session}:
            await self._store.unlearn(session, [fact for fact in facts if fact.session == session])

    async def _fact(self, id: str) -> Fact | None:
        return next((one for one in await self._tiers.facts.facts(limit=FACTS_MAX) if one.id == id), None)

    async def _room_for(self, memory: Memory) -> None:
        others = [one for one in await self.pinned() if one.id != memory.id and one.text != memory.text]
        size = sum(len(one.text.encode()) for one in others) + len(memory.text.encode())
        if size > PINNED_BYTES_MAX:
            raise InputRefused(
                f"what is pinned would have {size} bytes, and at most {PINNED_BYTES_MAX} can be; unpin something first"
            )

    async def _behind(self) -> int:
        heads, positions = await self._store.heads(), await self._tiers.messages.positions()
        return sum(max(0, head - positions.get(key, 0)) for key, head in heads.items())
