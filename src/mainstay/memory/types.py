"""Result types of the memory service, and validation of its arguments."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Literal

import msgspec

from mainstay.core.errors import InputRefused
from mainstay.core.memory_tiers import (
    Fact,
    IndexedMessage,
    Memory,
    MemoryKind,
    MemoryQuery,
    SearchHit,
    message_id,
    parse_message_id,
)

QUERY_CHARS_MAX = 8_000  # longer queries are truncated: more words would only match more of the same
K_MAX = 100
PAGE_CHARS_MAX = 16_000
NAME_CHARS_MAX = 512
MEMORY_BYTES_MAX = 8 * 1024
TAGS_MAX = 16
TAG_CHARS_MAX = 64
WORKFLOW_TAG = "workflow"  # reserved tag of recorded workflows; users cannot set it


class MemoryPage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One page of a stored text: the characters from `offset` on, out of `total`."""

    id: str
    text: str
    offset: int = 0
    total: int = 0
    kind: MemoryKind | Literal["result"] = "message"
    session: str = ""
    message_id: str = ""
    at: int = 0
    speaker: str = ""
    origin: str = ""

    @property
    def next_offset(self) -> int | None:
        """Offset of the next page; None at the end."""
        end = self.offset + len(self.text)
        return end if self.text and end < self.total else None


class ForgetResult(msgspec.Struct, frozen=True):
    """What was removed, without its text."""

    id: str
    kind: MemoryKind
    copies: tuple[str, ...] = ()  # ids of other messages with the same text: copies in forks, or repetitions


class MemoryStatus(msgspec.Struct, frozen=True, kw_only=True):
    """Counts of what is stored. `behind` is the number of journal records that are not indexed yet."""

    messages: int = 0
    summaries: int = 0
    facts: int = 0
    memories: int = 0
    pinned: int = 0
    vectors: int = 0
    vector_model: str = ""
    behind: int = 0
    note: str = ""


def has_origin(origin: str, prefix: str) -> bool:
    """Compare whole labels: `untrusted` also matches `untrusted:fetch`, but `untrusted:f` does not."""
    name = prefix.removesuffix(":")
    return not prefix or origin == name or origin.startswith((name + ":", name + "+"))


# --- results -------------------------------------------------------------------------------------


def page_from_entry(
    entry: IndexedMessage, id: str, offset: int, limit: int, kind: Literal["message", "result"] = "message"
) -> MemoryPage:
    text, total = slice_page(entry.text, offset, limit)
    return MemoryPage(
        id=id,
        text=text,
        offset=offset,
        total=total,
        kind=kind,
        session=entry.session,
        message_id=message_id(entry.session, entry.seq),
        at=entry.at,
        speaker=entry.speaker or entry.role,
        origin=entry.origin,
    )


def page_from_hit(hit: SearchHit, offset: int, limit: int) -> MemoryPage:
    text, total = slice_page(hit.text, offset, limit)
    return MemoryPage(
        id=hit.id,
        text=text,
        offset=offset,
        total=total,
        kind=hit.kind,
        session=hit.session,
        message_id=hit.message_id,
        at=hit.at,
        origin=hit.origin,
    )


def fact_to_hit(fact: Fact) -> SearchHit:
    return SearchHit(
        text=f"{fact.subject} {fact.predicate} {fact.object}",
        session=fact.session,
        message_id=message_id(fact.session, fact.source) if fact.source else "",
        at=fact.at,
        score=fact.confidence,
        kind="fact",
        origin=fact.origin,
        id=fact.id,
    )


def memory_to_hit(memory: Memory, score: float = 0.0) -> SearchHit:
    source = parse_message_id(memory.source)
    return SearchHit(
        text=memory.text,
        session=source[0] if source is not None else "",
        message_id=memory.source,
        at=memory.at,
        score=score,
        kind="memory",
        origin=memory.origin,
        id=memory.id,
    )


def unknown_id_message(id: str) -> str:
    return f"nothing has the id {quote_id(id)}; an id looks like session#12, or comes from a search"


def quote_id(id: str) -> str:
    return repr(id if len(id) <= 80 else id[:80] + "…")


# --- arguments -----------------------------------------------------------------------------------


def build_query(text: str, k: int, start: int | None, end: int | None, speaker: str, session: str) -> MemoryQuery:
    for value in (text, speaker, session):
        if not isinstance(value, str):
            raise InputRefused(f"a query is text, not {type(value).__name__}")
    query = sanitise_text(text[:QUERY_CHARS_MAX]).strip()
    if not query:
        raise InputRefused("say what to look for in a few words")
    if start is not None and end is not None and end <= start:
        raise InputRefused("the time to search ends before it begins")
    return MemoryQuery(
        text=query,
        k=check_range(k, "k", K_MAX),
        start=start,
        end=end,
        speaker=sanitise_text(speaker[:NAME_CHARS_MAX]),
        session=sanitise_text(session[:NAME_CHARS_MAX]),
    )


def check_range(number: int, name: str, maximum: int) -> int:
    if not 1 <= number <= maximum:
        raise InputRefused(f"{name} is {number}; it must be from 1 to {maximum}")
    return number


def check_page_bounds(offset: int, limit: int) -> tuple[int, int]:
    if offset < 0:
        raise InputRefused(f"offset is {offset}; it must not be negative")
    return offset, check_range(limit, "limit", PAGE_CHARS_MAX)


def slice_page(text: str, offset: int, limit: int) -> tuple[str, int]:
    """Return one page of a text, and the length of the whole text in characters."""
    offset, limit = check_page_bounds(offset, limit)
    return text[offset : offset + limit], len(text)


def check_memory_text(text: str) -> str:
    if not isinstance(text, str):
        raise InputRefused(f"a memory is text, not {type(text).__name__}")
    text = sanitise_text(text).strip()
    if not text:
        raise InputRefused("there is nothing to remember in an empty text")
    if (size := len(text.encode())) > MEMORY_BYTES_MAX:
        raise InputRefused(f"a memory has at most {MEMORY_BYTES_MAX} bytes, and this has {size}; say it in fewer words")
    return text


def check_memory_tags(tags: Sequence[str]) -> tuple[str, ...]:
    if isinstance(tags, str):
        raise InputRefused("tags is a list, even if there is only one")
    unique = tuple(dict.fromkeys(cleaned for tag in tags if (cleaned := sanitise_text(tag).strip())))
    if len(unique) > TAGS_MAX:
        raise InputRefused(f"a memory has at most {TAGS_MAX} tags, and this has {len(unique)}")
    if any(len(tag) > TAG_CHARS_MAX for tag in unique):
        raise InputRefused(f"a tag has at most {TAG_CHARS_MAX} characters")
    if WORKFLOW_TAG in unique:
        raise InputRefused(f"the tag {WORKFLOW_TAG!r} is reserved for recorded workflows; choose another")
    return unique


def derive_memory_id(key: str) -> str:
    """Return the id for an idempotency key: a repeated call gets the same id."""
    return "m" + hashlib.sha256(key.encode(errors="replace")).hexdigest()[:10]


def sanitise_text(text: str) -> str:
    """Replace lone surrogates and NUL characters, so that the text can be stored and searched."""
    return text.encode(errors="replace").decode().replace("\0", " ")
