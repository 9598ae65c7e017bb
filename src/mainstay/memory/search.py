"""Finding what was said: by its words, by its meaning, and by what stands next to it.

Candidates come from the word index and from the vectors. A match by words counts as much as it has of the question;
what is near by meaning is added; then each message gets a share of what its best neighbour has, because the answer to
a question often has none of the question's words. How much each counts was chosen by measuring
(benchmarks/retrieval.py). Where there are no vectors, words alone must do, and whoever asked is told so.
"""

from __future__ import annotations

import asyncio
import re
import unicodedata
from collections.abc import Iterable, Sequence

import msgspec

from mainstay.core.errors import EmbedderMissing, InputRefused, MainstayError
from mainstay.core.recall import (
    Embedder,
    Entry,
    Hit,
    MessageTier,
    Query,
    Spot,
    Tiers,
    VectorTier,
    message_id,
)
from mainstay.core.stems import stems
from mainstay.memory.pages import WORKFLOW, memory_hit

CANDIDATES = 60  # by words
MEANT = 60  # by meaning
MANY = 20
FILTERED_MAX = 1_000  # of which those are chosen that satisfy a filter
SPREAD_MAX = 60  # the best, whose neighbours are looked at
EMBED_TIMEOUT_S = 5.0  # a question does not wait longer for its vector
READ_CHARS_MAX = 2_000_000  # of a message, to see how much of the question is in it: more than any has
UNMARKED_CHARS_MAX = 4_000  # of those, with and without accents
TEXT_CHARS_MAX = 2_000  # of a hit
SHARPNESS = 1.5  # half of the question's words count for a third
LEAST = 0.1  # of the question, that whatever the index found is taken to have
TRUST = {"local/wordllama-256": 0.3}  # how much a model's opinion counts beside the words' 1.0
TRUST_OTHERS = 1.0
SHARES = {-2: 0.2, -1: 0.3, 1: 0.5, 2: 0.2}  # what a neighbour gets: one that follows may be the answer
MEMORIES_SHARE = 3  # at most one hit in so many is a memory
ONLY_WORDS = "search was by words only"

_ACCENTS = re.compile("[\u0300-\u036f]+")

Place = tuple[str, int]  # session, sequence


class Found(msgspec.Struct, frozen=True):
    """The best first. `note` says what could not be done, in a sentence for whoever asked."""

    hits: list[Hit]
    note: str = ""


async def search(tiers: Tiers, embedder: Embedder | None, query: Query) -> Found:
    """By words and by meaning. Scores lie between 0 and 1 and are only good for comparing the hits of one search."""
    asked = Asked(query.text)
    words = await tiers.messages.match(query, CANDIDATES)
    read = {(entry.session, entry.seq): entry for entry in await tiers.messages.fetch(words)} if words else {}
    meant, note = await _meant(tiers, embedder, query, MEANT)
    trust = _trust(embedder) if meant else 0.0
    own = fuse(worth(words, read, asked), meant, trust)
    spots = [Spot(*place, score) for place, score in _best(own)[:SPREAD_MAX]]
    scores = spread(own, await tiers.messages.near(spots, max(SHARES)) if spots else [])
    most = (1 + trust) * (1 + max(SHARES.values()))
    ranked = [Spot(*place, score / most) for place, score in _best(scores)]
    if _filters(query):
        ranked = await tiers.messages.select(ranked, query)  # a neighbour may be somebody else's
    hits = await _hits(tiers, ranked, query, read)
    kept = await _memories(tiers, query, asked)
    return Found(sorted([*kept, *hits], key=lambda hit: -hit.score)[: query.k], note)


async def semantic(tiers: Tiers, embedder: Embedder | None, query: Query) -> Found:
    """By meaning alone; the score is the cosine. By words where there are no vectors."""
    limit = 3 * query.k + 10  # some may say the same
    meant, note = await _meant(tiers, embedder, query, limit)
    if not meant and note:
        words = await tiers.messages.match(query, limit)
        best = max((spot.score for spot in words), default=0.0) or 1.0
        meant = [Spot(spot.session, spot.seq, spot.score / best) for spot in words]
    return Found(await _hits(tiers, meant, query, {}), note)


# --- scores --------------------------------------------------------------------------------------


class Asked:
    """A question's words, to see how many of them are in a text."""

    def __init__(self, text: str) -> None:
        self.words = sorted(set(stems(text)))
        self._latin = all(word < "\u0590" for word in self.words)  # or Greek, or Cyrillic

    def coverage(self, text: str) -> float:
        """From 0 to 1. All of nothing where the question has no words that tell, such as a number."""
        if not self.words:
            return 1.0
        text = text[:READ_CHARS_MAX].casefold()
        if not text.isascii():  # as the words were made
            text = _unmarked(text[:UNMARKED_CHARS_MAX], every=not self._latin) + text[UNMARKED_CHARS_MAX:]
        return sum(_begins_a_word(word, text) for word in self.words) / len(self.words)

    def worth(self, text: str) -> float:
        """Of a text in which the index found something: a little, even if it is no word that counts here."""
        return float(max(self.coverage(text), LEAST) ** SHARPNESS)


def _unmarked(text: str, every: bool) -> str:
    """Without accents; `every` script has its own, and looking for those takes three times as long."""
    text = unicodedata.normalize("NFKD", text)
    if every:
        return unicodedata.normalize("NFC", "".join([char for char in text if not unicodedata.combining(char)]))
    return _ACCENTS.sub("", text)


def _begins_a_word(word: str, text: str) -> bool:
    """Finding and then looking at what stands before is many times quicker than a regular expression."""
    at = text.find(word)
    while at > 0 and word.isascii() and text[at - 1].isalnum():
        at = text.find(word, at + 1)
    return at >= 0


def worth(words: Sequence[Spot], read: dict[Place, Entry], asked: Asked) -> dict[Place, float]:
    """Matches by words, the index's score weighed with how much of the question is there. The best may have 1."""
    top = max((spot.score for spot in words), default=0.0)
    if top <= 0:
        return {}
    return {
        place: max(spot.score, 0.0) / top * asked.worth(read[place].text)
        for spot in words
        if (place := (spot.session, spot.seq)) in read
    }


def fuse(words: dict[Place, float], meant: Sequence[Spot], trust: float) -> dict[Place, float]:
    """The nearest by meaning has `trust`; who is found by words too has both."""
    scores = dict(words)
    # every model has its own idea of near; the last of many candidates shows what it says of anything
    high = max((spot.score for spot in meant), default=0.0)
    low = min((spot.score for spot in meant), default=0.0) * min(1.0, len(meant) / MANY)
    near: dict[Place, float] = {}
    for spot in meant:
        place, part = (spot.session, spot.seq), (spot.score - low) / (high - low) if high > low else 1.0
        near[place] = max(near.get(place, 0.0), trust * part)
    for place, score in near.items():
        scores[place] = scores.get(place, 0.0) + score
    return scores


def spread(own: dict[Place, float], around: Iterable[Sequence[Spot]]) -> dict[Place, float]:
    """Each message's own score, and a share of that of its best neighbour.

    `around` is, for each of the best in their order, what stands around it.
    """
    gained: dict[Place, float] = {}
    for (place, score), row in zip(_best(own), around, strict=False):
        spots = [(spot.session, spot.seq) for spot in row]
        if place not in spots:  # it was forgotten meanwhile
            continue
        middle = spots.index(place)
        for step, share in SHARES.items():
            if 0 <= middle + step < len(spots):
                other = spots[middle + step]
                gained[other] = max(gained.get(other, 0.0), score * share)
    return {place: own.get(place, 0.0) + gained.get(place, 0.0) for place in own | gained}


def _best(scores: dict[Place, float]) -> list[tuple[Place, float]]:
    """Of equals, in an order that is always the same."""
    return sorted(scores.items(), key=lambda item: (-item[1], item[0]))


def _trust(embedder: Embedder | None) -> float:
    return TRUST.get(embedder.name, TRUST_OTHERS) if embedder is not None else 0.0


# --- meaning -------------------------------------------------------------------------------------


async def _meant(tiers: Tiers, embedder: Embedder | None, query: Query, limit: int) -> tuple[list[Spot], str]:
    """The nearest that satisfy the query; or none, and why vectors could not be asked."""
    if tiers.vectors is None or embedder is None:
        return [], f"{ONLY_WORDS}: there are no vectors here (they are off, or need pip install -e '.[memory]')"
    vector, note = await _vector(embedder, query.text)
    if not any(vector):
        return [], note
    try:
        spots = await _nearest(tiers.messages, tiers.vectors, vector, query, limit)
    except InputRefused:  # they are as long as another model's
        return [], f"{ONLY_WORDS}: messages are being given vectors of {embedder.name}"
    if not spots and not await tiers.vectors.count():
        return [], f"{ONLY_WORDS}: no message has a vector yet"
    return spots, ""


async def _nearest(messages: MessageTier, vectors: VectorTier, vector: bytes, query: Query, limit: int) -> list[Spot]:
    """Vectors know no filters: more of them are asked, and then sorted out."""
    if not _filters(query):
        return await vectors.nearest(vector, limit)
    spots = await messages.select(await vectors.nearest(vector, FILTERED_MAX), query)
    return spots[:limit]


async def _vector(embedder: Embedder, text: str) -> tuple[bytes, str]:
    """Of the question; nothing, and why, where it cannot be had in time."""
    try:
        async with asyncio.timeout(EMBED_TIMEOUT_S):
            return (await embedder.embed([text]))[0], ""
    except TimeoutError:
        return b"", f"{ONLY_WORDS}: {embedder.name} is not ready yet"
    except EmbedderMissing as error:
        return b"", f"{ONLY_WORDS}: {error}"
    except MainstayError as error:
        return b"", f"{ONLY_WORDS}: {embedder.name} cannot be asked at the moment ({error})"


def _filters(query: Query) -> bool:
    return bool(query.speaker or query.session or query.start is not None or query.end is not None)


# --- hits ----------------------------------------------------------------------------------------


async def _hits(tiers: Tiers, ranked: Sequence[Spot], query: Query, read: dict[Place, Entry]) -> list[Hit]:
    """The same text is shown once, where it scored best: forks copy what was said. `read` was read already."""
    hits: list[Hit] = []
    seen: set[str] = set()
    scores: dict[Place, float] = {}
    for spot in ranked:
        scores.setdefault((spot.session, spot.seq), spot.score)  # the best first
    wanted, step = list(scores), query.k + query.k // 2 + 2
    for start in range(0, len(wanted), step):
        some = wanted[start : start + step]
        fetched = await tiers.messages.fetch([Spot(*place) for place in some if place not in read])
        known = read | {(entry.session, entry.seq): entry for entry in fetched}
        for place in some:
            if place in known and known[place].text not in seen:
                seen.add(known[place].text)
                hits.append(_hit(known[place], scores[place], query))
        if len(hits) >= query.k:
            break
    return hits[: query.k]


def _hit(entry: Entry, score: float, query: Query) -> Hit:
    return Hit(
        text=clip(entry.text, query.text),
        session=entry.session,
        message_id=message_id(entry.session, entry.seq),
        at=entry.at,
        score=round(score, 4),
        speaker=entry.speaker or entry.role,
        origin=entry.origin,
    )


async def _memories(tiers: Tiers, query: Query, asked: Asked) -> list[Hit]:
    """What somebody asked to keep, by how much of the question is in it: all of it is as good as a message can be.
    They have no speaker and no session."""
    if query.speaker or query.session:
        return []
    room = max(1, query.k // MEMORIES_SHARE)
    found = await tiers.memories.match(query, limit=2 * room + 2)
    scored = [
        (memory, asked.worth(" ".join([memory.text, *memory.tags])))
        for memory, _ in found
        if WORKFLOW not in memory.tags
    ]
    scored.sort(key=lambda pair: -pair[1])
    return [memory_hit(memory, round(score, 4)) for memory, score in scored[:room]]


def clip(text: str, asked: str, room: int = TEXT_CHARS_MAX) -> str:
    """At most so many characters, around the place where most of the question's words stand."""
    if len(text) <= room:
        return text
    low = text.lower()
    if len(low) != len(text):  # rare letters change their length with their case
        low = text
    found = sorted(at for word in set(stems(asked)) if (at := low.find(word)) >= 0)
    best, most = 0, 0
    for first, at in enumerate(found):
        count = sum(1 for other in found[first:] if other < at + room * 3 // 4)
        if count > most:
            best, most = at, count
    start = min(max(0, best - room // 8), len(text) - room)
    inside = text[start : start + room - 2].strip()
    return ("…" if start else "") + inside + ("…" if start + room - 2 < len(text) else "")
