"""What the library hands out, and what it takes: its nouns, and a bound on each of its arguments."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Literal

import msgspec

from mainstay.core.errors import InputRefused
from mainstay.core.recall import Entry, Fact, Hit, Kind, Memory, Query, message_id, split_id

QUERY_CHARS_MAX = 8_000  # what is longer is cut: it would only find more of the same
K_MAX = 100
PAGE_CHARS = 16_000
NAME_CHARS_MAX = 512
MEMORY_BYTES_MAX = 8 * 1024
TAGS_MAX = 16
TAG_CHARS_MAX = 64
WORKFLOW = "workflow"  # the tag of what turns did; nobody else's


class Page(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Some of something that was kept: these characters from `offset` on, of `total`."""

    id: str
    text: str
    offset: int = 0
    total: int = 0
    kind: Kind | Literal["result"] = "message"
    session: str = ""
    message_id: str = ""
    at: int = 0
    speaker: str = ""
    origin: str = ""

    @property
    def next(self) -> int | None:
        """Where to read on; None at the end."""
        end = self.offset + len(self.text)
        return end if self.text and end < self.total else None


class Forgotten(msgspec.Struct, frozen=True):
    """What was removed; what it said is not repeated."""

    id: str
    kind: Kind
    copies: tuple[str, ...] = ()  # other messages that say the very same: a fork's, or said twice


class Status(msgspec.Struct, frozen=True, kw_only=True):
    """How much is remembered. `behind` is how many records the index has yet to see."""

    messages: int = 0
    summaries: int = 0
    facts: int = 0
    memories: int = 0
    pinned: int = 0
    vectors: int = 0
    vector_model: str = ""
    behind: int = 0
    note: str = ""


def begins(origin: str, wanted: str) -> bool:
    """Whole words of it: `untrusted` is also `untrusted:fetch`, but `untrusted:f` is not."""
    name = wanted.removesuffix(":")
    return not wanted or origin == name or origin.startswith((name + ":", name + "+"))


# --- what is handed out --------------------------------------------------------------------------


def page_of(entry: Entry, id: str, offset: int, limit: int, kind: Literal["message", "result"] = "message") -> Page:
    text, total = cut(entry.text, offset, limit)
    return Page(
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


def page_of_hit(hit: Hit, offset: int, limit: int) -> Page:
    text, total = cut(hit.text, offset, limit)
    return Page(
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


def fact_hit(fact: Fact) -> Hit:
    return Hit(
        text=f"{fact.subject} {fact.predicate} {fact.object}",
        session=fact.session,
        message_id=message_id(fact.session, fact.source) if fact.source else "",
        at=fact.at,
        score=fact.confidence,
        kind="fact",
        origin=fact.origin,
        id=fact.id,
    )


def memory_hit(memory: Memory, score: float = 0.0) -> Hit:
    source = split_id(memory.source)
    return Hit(
        text=memory.text,
        session=source[0] if source is not None else "",
        message_id=memory.source,
        at=memory.at,
        score=score,
        kind="memory",
        origin=memory.origin,
        id=memory.id,
    )


def unknown(id: str) -> str:
    return f"there is nothing under {shown(id)}; an id looks like session#12, or is one that a search gave"


def shown(id: str) -> str:
    return repr(id if len(id) <= 80 else id[:80] + "…")


# --- what is taken -------------------------------------------------------------------------------


def query_of(text: str, k: int, start: int | None, end: int | None, speaker: str, session: str) -> Query:
    for given in (text, speaker, session):
        if not isinstance(given, str):
            raise InputRefused(f"a query is text, not {type(given).__name__}")
    words = clean(text[:QUERY_CHARS_MAX]).strip()
    if not words:
        raise InputRefused("say what to look for in a few words")
    if start is not None and end is not None and end <= start:
        raise InputRefused("the time to search ends before it begins")
    return Query(
        text=words,
        k=within(k, "k", K_MAX),
        start=start,
        end=end,
        speaker=clean(speaker[:NAME_CHARS_MAX]),
        session=clean(session[:NAME_CHARS_MAX]),
    )


def within(number: int, name: str, most: int) -> int:
    if not 1 <= number <= most:
        raise InputRefused(f"{name} is {number}; it must be from 1 to {most}")
    return number


def window(offset: int, limit: int) -> tuple[int, int]:
    if offset < 0:
        raise InputRefused(f"offset is {offset}; it must not be negative")
    return offset, within(limit, "limit", PAGE_CHARS)


def cut(text: str, offset: int, limit: int) -> tuple[str, int]:
    """A page of a text, and how long it is in all."""
    offset, limit = window(offset, limit)
    return text[offset : offset + limit], len(text)


def memory_text(text: str) -> str:
    if not isinstance(text, str):
        raise InputRefused(f"a memory is text, not {type(text).__name__}")
    text = clean(text).strip()
    if not text:
        raise InputRefused("there is nothing to remember in an empty text")
    if (size := len(text.encode())) > MEMORY_BYTES_MAX:
        raise InputRefused(f"a memory has at most {MEMORY_BYTES_MAX} bytes, and this has {size}; say it in fewer words")
    return text


def memory_tags(tags: Sequence[str]) -> tuple[str, ...]:
    if isinstance(tags, str):
        raise InputRefused("tags is a list, even if there is only one")
    made = tuple(dict.fromkeys(tag for tag in (clean(one).strip() for one in tags) if tag))
    if len(made) > TAGS_MAX:
        raise InputRefused(f"a memory has at most {TAGS_MAX} tags, and this has {len(made)}")
    if any(len(tag) > TAG_CHARS_MAX for tag in made):
        raise InputRefused(f"a tag has at most {TAG_CHARS_MAX} characters")
    if WORKFLOW in made:
        raise InputRefused(f"the tag {WORKFLOW!r} is for what turns did; choose another")
    return made


def memory_id(key: str) -> str:
    """The same whenever the same call is made again."""
    return "m" + hashlib.sha256(key.encode(errors="replace")).hexdigest()[:10]


def clean(text: str) -> str:
    """Fit to be kept and asked for: no half characters, no NUL."""
    return text.encode(errors="replace").decode().replace("\0", " ")
