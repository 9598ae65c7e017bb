"""Long-term memory: its types, the storage ports (tiers), and the origin labels of content.

A tier is a projection of the journals: it receives every session's records in order, stores its position in the same
transaction as what it derives, and can be deleted and rebuilt. A tier belongs to one workspace; no argument can reach
another.

A message's id is `session#sequence` wherever users and models see it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal, Protocol

import msgspec

MemoryKind = Literal["message", "summary", "fact", "memory"]
UNTRUSTED = "untrusted"  # prefix of untrusted content's origin: "untrusted:<tool>"
PRIVATE = "private"  # prefix of private content's origin: "private:<tool>", or "untrusted+private:<tool>"
RUNTIME = "runtime"  # origin of the runtime's own messages to the model
CONTEXT_ORIGIN = "context"  # prefix of the origin of notes appended to a turn: "context:skill:<name>"
CONVERSATION_ORIGIN = f"{UNTRUSTED}:conversation"  # origin of what a model writes after it has read untrusted content


def is_untrusted(origin: str) -> bool:
    return origin.startswith(UNTRUSTED) and origin[len(UNTRUSTED) :][:1] in ("", ":", "+")


def is_private(origin: str) -> bool:
    return PRIVATE in origin.partition(":")[0]


def combine_origins(origins: Iterable[str]) -> str:
    """Combine origins: the result is untrusted if one of them is, and private if one of them is."""
    labelled = [origin for origin in origins if origin]
    untrusted = next((origin for origin in labelled if is_untrusted(origin)), "")
    private = next((origin for origin in labelled if is_private(origin)), "")
    if not untrusted or not private or is_private(untrusted):
        return untrusted or private
    return format_origin(untrusted.partition(":")[2], untrusted=True, private=True)


def format_origin(source: str, *, untrusted: bool, private: bool = False) -> str:
    """Return the origin label of content from `source`; empty if it is neither untrusted nor private."""
    labels = (UNTRUSTED if untrusted else "", PRIVATE if private else "")
    return f"{'+'.join(filter(None, labels))}:{source}" if untrusted or private else ""


def message_id(session: str, seq: int) -> str:
    return f"{session}#{seq}"


def parse_message_id(id: str) -> tuple[str, int] | None:
    """Split a message id into session and sequence; None if it is not one."""
    session, mark, seq = id.rpartition("#")
    if not (mark and session and seq.isascii() and seq.isdecimal() and len(seq) <= 10):
        return None
    return session, int(seq)


class SearchHit(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A search result."""

    text: str
    session: str = ""
    message_id: str = ""  # the message itself, or the source of a fact or memory
    at: int = 0  # ms since 1970
    score: float = 0.0
    kind: MemoryKind = "message"
    speaker: str = ""  # the sender, "user", "assistant", or the tool's name
    origin: str = ""  # empty: written by the user or the model
    id: str = ""  # of a fact or a memory


class IndexedMessage(msgspec.Struct, frozen=True, gc=False):
    """A message as the search index stores it."""

    session: str
    seq: int
    at: int  # ms
    role: str  # user, assistant, tool
    text: str
    speaker: str = ""
    origin: str = ""
    call_id: str = ""  # the call id of a tool result


class MemoryQuery(msgspec.Struct, frozen=True, kw_only=True):
    """A search by words or meaning, with optional filters for time, speaker and session."""

    text: str
    k: int = 10
    start: int | None = None  # ms, inclusive
    end: int | None = None  # ms, exclusive
    speaker: str = ""
    session: str = ""


class MessageRef(msgspec.Struct, frozen=True, gc=False):
    """A reference to a message, with a score: higher is better."""

    session: str
    seq: int
    score: float = 0.0


class Summary(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """A summary of consecutive whole turns."""

    first: int  # sequences, inclusive
    last: int
    start: int  # ms
    end: int  # ms
    text: str
    session: str = ""
    origin: str = ""  # untrusted if the conversation contained untrusted content


class Fact(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """A subject-predicate-object fact with its source. A newer fact with the same subject and predicate supersedes an
    older one, unless the predicate allows several objects (`many`)."""

    subject: str
    predicate: str
    object: str
    source: int = 0  # sequence of the message it was taken from
    confidence: float = 1.0  # 0 to 1
    origin: str = ""
    many: bool = False
    session: str = ""
    at: int = 0  # ms
    id: str = ""
    until: int = 0  # ms: when it was superseded; 0: it is current


class Memory(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """A free-form memory, saved on request, or a workflow that was derived from a session."""

    id: str
    text: str
    tags: tuple[str, ...] = ()
    at: int = 0  # ms
    source: str = ""  # id of the message that asked for it
    origin: str = ""
    pinned: bool = False
    data: str = ""  # the steps of a workflow, as JSON


# --- the ports -----------------------------------------------------------------------------------


class Tier(Protocol):
    """Base of all memory tiers: a projection of the workspace's journals."""

    name: str

    async def positions(self) -> dict[str, int]:
        """Return, by session, the last record that was ingested; sessions not yet seen are missing."""
        ...

    async def position(self, session: str) -> int:
        """Return the last record of this session that was ingested; 0: none."""
        ...

    async def delete_derived(self, session: str, seqs: Sequence[int] | None = None) -> None:
        """Delete what was derived from these records (None: from the whole session). The position stays."""
        ...


class MessageTier(Tier, Protocol):
    """Full-text index of all messages."""

    async def ingest(self, session: str, messages: Sequence[IndexedMessage], position: int) -> None:
        """Store messages and the new position in one transaction; idempotent."""
        ...

    async def search(self, query: MemoryQuery, limit: int) -> list[MessageRef]:
        """Search by words, stemmed and without stop words; best first. Query text has no syntax."""
        ...

    async def find_neighbours(self, refs: Sequence[MessageRef], radius: int) -> list[list[MessageRef]]:
        """Return, for each reference, the messages around it in its session, itself included, in order."""
        ...

    async def fetch_messages(self, refs: Sequence[MessageRef]) -> list[IndexedMessage]:
        """Return whole messages in the order of the references; deleted ones are left out."""
        ...

    async def filter_refs(self, refs: Sequence[MessageRef], query: MemoryQuery) -> list[MessageRef]:
        """Return those that match the query's time, speaker and session."""
        ...

    async def find_tool_result(self, session: str, call_id: str) -> IndexedMessage | None:
        """Return the result of a tool call by its call id."""
        ...

    async def count(self) -> int: ...

    async def trim(self, newest_max: int) -> None:
        """Keep only the newest `newest_max` messages in the index."""
        ...


class SummaryTier(Tier, Protocol):
    """Summaries that folds wrote, by date."""

    async def ingest(self, session: str, summaries: Sequence[Summary], position: int) -> None: ...
    async def list_between(self, start: int | None, end: int | None, limit: int = 50) -> list[Summary]:
        """Return the newest `limit` summaries that overlap this period (ms), in order."""
        ...

    async def search(self, query: MemoryQuery, limit: int) -> list[Summary]: ...


class FactTier(Tier, Protocol):
    """Facts about people, things and projects."""

    async def ingest(self, session: str, facts: Sequence[Fact], position: int) -> None:
        """Store facts, superseding those they update; a repeated fact only confirms the stored one."""
        ...

    async def recall(self, topic: str, limit: int = 20, *, past: bool = False) -> list[Fact]:
        """Return facts about a topic: those whose subject or object it names, then related ones.

        With `past`, superseded facts too.
        """
        ...

    async def forget(self, ids: Sequence[str]) -> int: ...
    async def list_facts(self, *, origin: str | None = None, limit: int = 100) -> list[Fact]: ...


class VectorTier(Tier, Protocol):
    """Embedding vectors of all messages, of one model at a time: another model's are replaced, never mixed."""

    async def set_model(self, model: str, dimensions: int) -> None:
        """Set the embedding model; stored vectors of another model are deleted and all positions reset to 0."""
        ...

    async def ingest(self, session: str, vectors: Sequence[tuple[int, bytes]], position: int) -> None:
        """Store (sequence, vector) pairs; vectors are float32 of unit length, and a sequence may have several."""
        ...

    async def find_nearest(self, vector: bytes, limit: int) -> list[MessageRef]:
        """Search by cosine similarity, best first."""
        ...

    async def count(self) -> int: ...


class FreeFormMemoryTier(Tier, Protocol):
    """Free-form memories, and workflows derived from successful turns. The former exist only here, in no journal."""

    async def ingest(self, session: str, memories: Sequence[Memory], position: int) -> None:
        """Store workflows derived from a session, under the ids they have; idempotent."""
        ...

    async def save(self, memory: Memory) -> Memory:
        """Save a memory and return it; if one with the same text and tags exists, return that one."""
        ...

    async def search(
        self, query: MemoryQuery, tags: Sequence[str] = (), limit: int = 10
    ) -> list[tuple[Memory, float]]: ...
    async def list_memories(
        self, *, tag: str = "", origin: str | None = None, pinned: bool | None = None, limit: int = 100
    ) -> list[Memory]: ...
    async def forget(self, ids: Sequence[str]) -> int: ...
    async def pin(self, id: str, pinned: bool) -> bool: ...


class Embedder(Protocol):
    """Converts texts to embedding vectors: float32, unit length. Loading may take seconds, in the background.

    Optional members: `vector_weight`, how much its similarities count where a full-text match counts 1.0; and, of a
    model in this process, `embed_now(texts) -> list[bytes] | None`, which returns None while it is not loaded.
    """

    name: str

    async def load(self) -> int:
        """Load the model and return the vectors' dimensions; raises EmbedderMissing if it is not available."""
        ...

    async def embed(self, texts: Sequence[str]) -> list[bytes]: ...
    async def close(self) -> None: ...


class WorkspaceTiers(msgspec.Struct, frozen=True):
    """The memory tiers of one workspace. `vectors` is None if they are disabled or not available."""

    messages: MessageTier
    summaries: SummaryTier
    facts: FactTier
    memories: FreeFormMemoryTier
    vectors: VectorTier | None = None
