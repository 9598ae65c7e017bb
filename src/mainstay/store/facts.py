"""What makes two facts the same, and which of them holds: pure, for every store that keeps facts.

A fact is known by its normalised words and its origin. Of facts about the same thing (subject and predicate) the
newest holds and the others are past, except that nothing from outside ever supersedes what was said in trust: then
both stand, each with its origin.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import msgspec

from mainstay.core.recall import UNTRUSTED, Fact

FACTS_MAX = 20_000  # of a workspace, counting each time one was said
SAID_MAX = 8  # times that one fact is remembered to have been said
PAST_MAX = 50  # superseded facts about one thing
CHARS_MAX = 2_000  # of subject, predicate or object


def normal(text: str) -> str:
    return " ".join(text.casefold().split())


def topic_of(fact: Fact) -> str:
    """What it is about: a newer fact about the same supersedes it."""
    return f"{normal(fact.subject)}\x1f{normal(fact.predicate)}"


def name_of(fact: Fact) -> str:
    """The same for the same fact of the same origin, on every store."""
    words = "\x1f".join((topic_of(fact), normal(fact.object), fact.origin))
    return "f" + hashlib.sha256(words.encode("utf-8", "replace")).hexdigest()[:20]


def bounded(fact: Fact) -> Fact | None:
    """Fit to be kept; None if it says nothing."""
    words = [_clean(text) for text in (fact.subject, fact.predicate, fact.object)]
    if not all(words):
        return None
    subject, predicate, object = words
    confidence = min(max(fact.confidence, 0.0), 1.0) if fact.confidence == fact.confidence else 0.0
    return msgspec.structs.replace(
        fact, subject=subject, predicate=predicate, object=object, confidence=confidence, origin=_clean(fact.origin)
    )


def _clean(text: str) -> str:
    return " ".join(text[:CHARS_MAX].encode("utf-8", "replace").decode().replace("\0", " ").split())


def trusted(fact: Fact) -> bool:
    return not fact.origin.startswith(UNTRUSTED)


def settled(facts: Sequence[Fact]) -> list[int]:
    """For each of these facts about one thing, oldest first, since when it holds no more; 0 if it does."""
    values = [normal(fact.object) for fact in facts]
    believed = [trusted(fact) for fact in facts]
    until = [0] * len(facts)
    for place in range(len(facts)):
        for later in range(place + 1, len(facts)):
            if values[later] != values[place] and (believed[later] or not believed[place]):
                until[place] = facts[later].at or 1
                break
    return _said_again(facts, until)


def _said_again(facts: Sequence[Fact], until: list[int]) -> list[int]:
    """What was superseded and is said again holds again: every time it was said shares the fate of the last."""
    names = [name_of(fact) for fact in facts]
    last = dict(zip(names, until, strict=True))
    return [last[name] for name in names]


def merged(facts: Sequence[Fact]) -> list[Fact]:
    """Each fact once, as it was said last, as sure as it was ever said; in the order given."""
    found: dict[str, Fact] = {}
    for fact in facts:
        other = found.get(fact.id)
        if other is None:
            found[fact.id] = fact
            continue
        newer = fact if (fact.at, fact.source) > (other.at, other.source) else other
        found[fact.id] = msgspec.structs.replace(newer, confidence=max(fact.confidence, other.confidence))
    return list(found.values())


def nearness(fact: Fact, topic: str) -> int:
    """How directly a fact names a (normalised) topic: 0 is best."""
    subject, object = normal(fact.subject), normal(fact.object)
    tests = (subject == topic, object == topic, topic in subject, topic in object)
    return next((rank for rank, named in enumerate(tests) if named), len(tests))
