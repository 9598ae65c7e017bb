"""Rules for facts, shared by all fact tiers: identity, deduplication, and which fact supersedes which. Pure functions.

Two facts are the same if their normalised words and their origins are equal. Of facts with the same topic (subject and
predicate) the newest is current and the others are superseded, except that an untrusted fact never supersedes a trusted
one: then both are current, each with its origin. A fact is stored once for each mention (message that states it).
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import msgspec

from mainstay.core.memory_tiers import UNTRUSTED, Fact

MENTIONS_MAX = 20_000  # mentions of facts per workspace
MENTIONS_PER_FACT_MAX = 8  # mentions per fact; the newest are kept
SUPERSEDED_PER_TOPIC_MAX = 50  # superseded facts per topic
FIELD_CHARS_MAX = 2_000  # of subject, predicate or object


def normalise_text(text: str) -> str:
    return " ".join(text.casefold().split())


def topic_key(fact: Fact) -> str:
    """Return the normalised subject and predicate: a newer fact with the same topic supersedes an older one."""
    return f"{normalise_text(fact.subject)}\x1f{normalise_text(fact.predicate)}"


def fact_id(fact: Fact) -> str:
    """Return the fact's id: equal for equal facts of the same origin, in every tier."""
    key = "\x1f".join((topic_key(fact), normalise_text(fact.object), fact.origin))
    return "f" + hashlib.sha256(key.encode("utf-8", "replace")).hexdigest()[:20]


def clean_fact(fact: Fact) -> Fact | None:
    """Return the fact with valid, bounded text and a confidence from 0 to 1; None if one of its texts is empty."""
    texts = [_clean_text(text) for text in (fact.subject, fact.predicate, fact.object)]
    if not all(texts):
        return None
    subject, predicate, object = texts
    confidence = min(max(fact.confidence, 0.0), 1.0) if fact.confidence == fact.confidence else 0.0
    return msgspec.structs.replace(
        fact,
        subject=subject,
        predicate=predicate,
        object=object,
        confidence=confidence,
        origin=_clean_text(fact.origin),
    )


def _clean_text(text: str) -> str:
    return " ".join(text[:FIELD_CHARS_MAX].encode("utf-8", "replace").decode().replace("\0", " ").split())


def is_trusted(fact: Fact) -> bool:
    return not fact.origin.startswith(UNTRUSTED)


def compute_superseded_times(facts: Sequence[Fact]) -> list[int]:
    """Return, for each of these facts of one topic (oldest first), when it was superseded (ms); 0: it is current."""
    values = [normalise_text(fact.object) for fact in facts]
    trust = [is_trusted(fact) for fact in facts]
    until = [0] * len(facts)
    for earlier in range(len(facts)):
        for later in range(earlier + 1, len(facts)):
            if values[later] != values[earlier] and (trust[later] or not trust[earlier]):
                until[earlier] = facts[later].at or 1
                break
    return _apply_last_mention(facts, until)


def _apply_last_mention(facts: Sequence[Fact], until: list[int]) -> list[int]:
    """Give all mentions of a fact the state of the last: a superseded fact that is stated again is current again."""
    ids = [fact_id(fact) for fact in facts]
    last = dict(zip(ids, until, strict=True))
    return [last[id] for id in ids]


def merge_mentions(mentions: Sequence[Fact]) -> list[Fact]:
    """Return each fact once: its newest mention with the highest confidence of all, in the order of first mention."""
    by_id: dict[str, Fact] = {}
    for fact in mentions:
        other = by_id.get(fact.id)
        if other is None:
            by_id[fact.id] = fact
            continue
        newer = fact if (fact.at, fact.source) > (other.at, other.source) else other
        by_id[fact.id] = msgspec.structs.replace(newer, confidence=max(fact.confidence, other.confidence))
    return list(by_id.values())


def rank_for_topic(fact: Fact, topic: str) -> int:
    """Return how directly a fact names a (normalised) topic: 0 is best, 4 is not at all."""
    subject, object = normalise_text(fact.subject), normalise_text(fact.object)
    tests = (subject == topic, object == topic, topic in subject, topic in object)
    return next((rank for rank, passed in enumerate(tests) if passed), len(tests))
