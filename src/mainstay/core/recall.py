"""What is remembered beyond the window: its nouns, and the ports of whatever keeps them.

A tier follows the journal: it is told of every session's records in order, keeps how far it has come together
with what it made of them, and can be thrown away and built again. Whatever a tier hands out belongs to the one
workspace it was made for; there is no argument by which it could be asked about another.

A message is known as `session#sequence` wherever people and models meet it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal, Protocol

import msgspec

Kind = Literal["message", "summary", "fact", "memory"]
UNTRUSTED = "untrusted"  # how the origin of whatever came from outside begins: "untrusted:<tool>"
PRIVATE = "private"  # and that of what nobody else should see: "private:<tool>", or "untrusted+private:<tool>"
RUNTIME = "runtime"  # of what we ourselves tell the model
NOTE = "context"  # of what is appended to a turn beside the person's words: "context:skill:<name>"
CONVERSATION = f"{UNTRUSTED}:conversation"  # of what a model says or keeps that has read something from outside


def is_untrusted(origin: str) -> bool:
    return origin.startswith(UNTRUSTED) and origin[len(UNTRUSTED) :][:1] in ("", ":", "+")


def is_private(origin: str) -> bool:
    return PRIVATE in origin.partition(":")[0]


def worst(origins: Iterable[str]) -> str:
    """What is to be said of several things together: from outside if one of them is, private if one of them is."""
    found = [origin for origin in origins if origin]
    outside = next((origin for origin in found if is_untrusted(origin)), "")
    secret = next((origin for origin in found if is_private(origin)), "")
    if not outside or not secret or is_private(outside):
        return outside or secret
    return origin_of(outside.partition(":")[2], untrusted=True, private=True)


def origin_of(source: str, *, untrusted: bool, private: bool = False) -> str:
    """How content from `source` is labelled; empty if there is nothing to say against it."""
    labels = (UNTRUSTED if untrusted else "", PRIVATE if private else "")
    return f"{'+'.join(filter(None, labels))}:{source}" if untrusted or private else ""


def message_id(session: str, seq: int) -> str:
    return f"{session}#{seq}"


def split_id(id: str) -> tuple[str, int] | None:
    """Session and sequence, or None if this is no message's id."""
    session, mark, seq = id.rpartition("#")
    if not (mark and session and seq.isascii() and seq.isdecimal() and len(seq) <= 10):
        return None
    return session, int(seq)


class Hit(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Something that was found, and where it stands."""

    text: str
    session: str = ""
    message_id: str = ""  # where it stands, or where it comes from
    at: int = 0  # ms since 1970
    score: float = 0.0
    kind: Kind = "message"
    speaker: str = ""  # the sender, "user", "assistant", or the tool's name
    origin: str = ""  # empty: said by the person or the model
    id: str = ""  # of a fact or a memory


class Entry(msgspec.Struct, frozen=True, gc=False):
    """A message as the index takes it."""

    session: str
    seq: int
    at: int
    role: str  # user, assistant, tool
    text: str
    speaker: str = ""
    origin: str = ""
    ref: str = ""  # a tool result's call id


class Query(msgspec.Struct, frozen=True, kw_only=True):
    """What to look for: words or meaning, and optionally when, who and where."""

    text: str
    k: int = 10
    start: int | None = None  # ms, inclusive
    end: int | None = None  # ms, exclusive
    speaker: str = ""
    session: str = ""


class Spot(msgspec.Struct, frozen=True, gc=False):
    """A place in a session with a score: higher is better."""

    session: str
    seq: int
    score: float = 0.0


class Summary(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """What a run of whole turns was about."""

    first: int  # sequences, inclusive
    last: int
    start: int  # ms
    end: int
    text: str
    session: str = ""
    origin: str = ""  # untrusted, if something from outside was in that conversation


class Fact(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """Subject, predicate, object, and how it is known. A newer fact with the same subject and predicate supersedes
    an older one, unless the predicate may have several objects (`many`)."""

    subject: str
    predicate: str
    object: str
    source: int = 0  # sequence of the message that said so
    confidence: float = 1.0
    origin: str = ""
    many: bool = False
    session: str = ""
    at: int = 0
    id: str = ""
    until: int = 0  # when it was superseded; 0: it holds


class Memory(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """Kept because somebody asked for it. `data` is what a workflow did, as JSON."""

    id: str
    text: str
    tags: tuple[str, ...] = ()
    at: int = 0
    source: str = ""  # the message it was asked for in
    origin: str = ""
    pinned: bool = False
    data: str = ""


# --- the ports -----------------------------------------------------------------------------------


class Tier(Protocol):
    """Follows the journal."""

    name: str

    async def positions(self) -> dict[str, int]:
        """How far each session has been followed; one that is not named, not at all."""
        ...

    async def position(self, session: str) -> int:
        """How far this one has been followed; 0: not at all."""
        ...

    async def drop(self, session: str, seqs: Sequence[int] | None = None) -> None:
        """Forget what came of these records, or of the whole session. Its position stays."""
        ...


class MessageTier(Tier, Protocol):
    """Every message, by its words."""

    async def absorb(self, session: str, entries: Sequence[Entry], upto: int) -> None:
        """Keep these and the new position in one transaction; the same again changes nothing."""
        ...

    async def match(self, query: Query, limit: int) -> list[Spot]:
        """By words: stemmed, without stop words, best first. Any text is a query, none is syntax."""
        ...

    async def near(self, spots: Sequence[Spot], radius: int) -> list[list[Spot]]:
        """For each spot the messages around it in its session, itself included, in order."""
        ...

    async def fetch(self, spots: Sequence[Spot]) -> list[Entry]:
        """Whole, in the order asked; what is gone is left out."""
        ...

    async def select(self, spots: Sequence[Spot], query: Query) -> list[Spot]:
        """Those that satisfy the query's time, speaker and session."""
        ...

    async def find(self, session: str, ref: str) -> Entry | None:
        """The result of a tool call."""
        ...

    async def count(self) -> int: ...

    async def trim(self, newest: int) -> None:
        """Keep only so many searchable."""
        ...


class SummaryTier(Tier, Protocol):
    async def absorb(self, session: str, summaries: Sequence[Summary], upto: int) -> None: ...
    async def between(self, start: int | None, end: int | None, limit: int = 50) -> list[Summary]:
        """Those that touch this time (ms), in order; the newest `limit`."""
        ...

    async def match(self, query: Query, limit: int) -> list[Summary]: ...


class FactTier(Tier, Protocol):
    async def absorb(self, session: str, facts: Sequence[Fact], upto: int) -> None:
        """Superseding what they update; saying the same again only confirms it."""
        ...

    async def recall(self, topic: str, limit: int = 20, *, past: bool = False) -> list[Fact]:
        """What is known about a topic: facts whose subject or object it names, then those near it. `past` too."""
        ...

    async def forget(self, ids: Sequence[str]) -> int: ...
    async def facts(self, *, origin: str | None = None, limit: int = 100) -> list[Fact]: ...


class VectorTier(Tier, Protocol):
    """Every message by its meaning. Vectors of another model are replaced in the background, never mixed."""

    async def use(self, model: str, dimensions: int) -> None:
        """From now on vectors of this model; if the kept ones are another's, they go and every position is 0."""
        ...

    async def absorb(self, session: str, vectors: Sequence[tuple[int, bytes]], upto: int) -> None:
        """Sequence and vector (float32, unit length); a sequence may have several."""
        ...

    async def nearest(self, vector: bytes, limit: int) -> list[Spot]:
        """By cosine, best first."""
        ...

    async def count(self) -> int: ...


class MemoryTier(Tier, Protocol):
    """Free memories, and what multi-step turns did that worked. The first follow no journal: they are the record."""

    async def absorb(self, session: str, memories: Sequence[Memory], upto: int) -> None:
        """What a follower made of a session (workflows), under ids of its own; the same again changes nothing."""
        ...

    async def keep(self, memory: Memory) -> Memory:
        """The same text under the same tags is kept once: then the one that is there already is returned."""
        ...

    async def match(self, query: Query, tags: Sequence[str] = (), limit: int = 10) -> list[tuple[Memory, float]]: ...
    async def memories(
        self, *, tag: str = "", origin: str | None = None, pinned: bool | None = None, limit: int = 100
    ) -> list[Memory]: ...
    async def forget(self, ids: Sequence[str]) -> int: ...
    async def pin(self, id: str, pinned: bool) -> bool: ...


class Embedder(Protocol):
    """Text to vectors: float32, unit length. Loading may take seconds and happens beside everything else."""

    name: str

    async def load(self) -> int:
        """Ready to embed; returns the dimensions. Raises EmbedderMissing where it cannot be had."""
        ...

    async def embed(self, texts: Sequence[str]) -> list[bytes]: ...
    async def close(self) -> None: ...


class Tiers(msgspec.Struct, frozen=True):
    """The tiers of one workspace. `vectors` is None where they are switched off or cannot be had."""

    messages: MessageTier
    summaries: SummaryTier
    facts: FactTier
    memories: MemoryTier
    vectors: VectorTier | None = None
