"""Hybrid search over past messages: full-text search, vector search and score fusion.

Candidates come from the full-text index and from the vector index. A full-text match is weighted by its coverage of the
query; the vector similarity is added; then each message gets a share of its best neighbour's score, because the answer
to a question often has none of the question's words. The weights were chosen by measurement (benchmarks/retrieval.py).
Without vectors the search uses the full-text index alone, and the result's note says so.
"""

from __future__ import annotations

import asyncio
import re
import unicodedata
from collections.abc import Iterable, Sequence

import msgspec

from mainstay.core.errors import EmbedderMissing, InputRefused, MainstayError
from mainstay.core.memory_tiers import (
    Embedder,
    IndexedMessage,
    MemoryQuery,
    MessageRef,
    MessageTier,
    SearchHit,
    VectorTier,
    WorkspaceTiers,
    message_id,
)
from mainstay.core.stemming import stem_words
from mainstay.memory.types import WORKFLOW_TAG, memory_to_hit

TEXT_CANDIDATES_MAX = 60  # from the full-text index
VECTOR_CANDIDATES_MAX = 60  # from the vector index
BASELINE_CANDIDATES = 20  # with this many vector matches, the last one's similarity counts as zero
FILTER_CANDIDATES_MAX = 1_000  # vector matches fetched when a filter is applied to them afterwards
NEIGHBOUR_SOURCES_MAX = 60  # best messages whose neighbours get a share of their score
EMBED_TIMEOUT_S = 5.0  # for the query's vector; after that only the full-text index is searched
COVERAGE_CHARS_MAX = 2_000_000  # of a message, to compute coverage: more than any has
ACCENT_CHARS_MAX = 4_000  # of those, with accents removed
HIT_CHARS_MAX = 2_000  # of a hit
COVERAGE_EXPONENT = 1.5  # exponent of coverage: half of the query's words count for a third
COVERAGE_MIN = 0.1  # lowest coverage of any full-text match
VECTOR_WEIGHT = 1.0  # of a similarity, as that of a full-text match; an embedder may have its own
# neighbour's distance: its share; the next message may be the answer
NEIGHBOUR_SHARES = {-2: 0.2, -1: 0.3, 1: 0.5, 2: 0.2}
HITS_PER_MEMORY = 3  # at most one hit in this many is a memory
TEXT_ONLY = "only full-text search was used"

_COMBINING_MARKS = re.compile("[\u0300-\u036f]+")

MessageKey = tuple[str, int]  # session, sequence


class MemorySearchResult(msgspec.Struct, frozen=True):
    """Hits, best first. `note` is a sentence about what could not be searched; empty if nothing."""

    hits: list[SearchHit]
    note: str = ""


async def hybrid_search(tiers: WorkspaceTiers, embedder: Embedder | None, query: MemoryQuery) -> MemorySearchResult:
    """Search the full-text index and the vectors. Scores are between 0 and 1, comparable only within one search."""
    terms = QueryTerms(query.text)
    matches = await tiers.messages.search(query, TEXT_CANDIDATES_MAX)
    entries = (
        {(entry.session, entry.seq): entry for entry in await tiers.messages.fetch_messages(matches)} if matches else {}
    )
    nearest, note = await _find_nearest(tiers, embedder, query, VECTOR_CANDIDATES_MAX)
    weight = _vector_weight(embedder) if nearest else 0.0
    fused = fuse_scores(score_text_matches(matches, entries, terms), nearest, weight)
    spots = [MessageRef(*key, score) for key, score in _rank(fused)[:NEIGHBOUR_SOURCES_MAX]]
    scores = spread_to_neighbours(
        fused, await tiers.messages.find_neighbours(spots, max(NEIGHBOUR_SHARES)) if spots else []
    )
    scale = (1 + weight) * (1 + max(NEIGHBOUR_SHARES.values()))
    ranked = [MessageRef(*key, score / scale) for key, score in _rank(scores)]
    if _has_filters(query):
        ranked = await tiers.messages.filter_refs(ranked, query)  # neighbours were not filtered yet
    hits = await _build_hits(tiers, ranked, query, entries)
    memories = await _memory_hits(tiers, query, terms)
    return MemorySearchResult(sorted([*memories, *hits], key=lambda hit: -hit.score)[: query.k], note)


async def semantic_search(tiers: WorkspaceTiers, embedder: Embedder | None, query: MemoryQuery) -> MemorySearchResult:
    """Search the vectors only; scores are cosines. Falls back to the full-text index where there are no vectors."""
    limit = 3 * query.k + 10  # duplicates are removed afterwards
    nearest, note = await _find_nearest(tiers, embedder, query, limit)
    if not nearest and note:
        matches = await tiers.messages.search(query, limit)
        best = max((match.score for match in matches), default=0.0) or 1.0
        nearest = [MessageRef(match.session, match.seq, match.score / best) for match in matches]
    return MemorySearchResult(await _build_hits(tiers, nearest, query, {}), note)


# --- scores --------------------------------------------------------------------------------------


class QueryTerms:
    """Stems of a query, to compute how many of them a text contains."""

    def __init__(self, text: str) -> None:
        self.stems = sorted(set(stem_words(text)))
        self._is_latin = all(word < "\u0590" for word in self.stems)  # Greek and Cyrillic included

    def coverage(self, text: str) -> float:
        """Return the share of the query's stems in the text, 0 to 1; 1 if the query has none, such as a number."""
        if not self.stems:
            return 1.0
        text = text[:COVERAGE_CHARS_MAX].casefold()
        if not text.isascii():  # normalised like the stems
            text = _strip_accents(text[:ACCENT_CHARS_MAX], every_script=not self._is_latin) + text[ACCENT_CHARS_MAX:]
        return sum(_has_word_start(word, text) for word in self.stems) / len(self.stems)

    def relevance(self, text: str) -> float:
        """Return the weight of a full-text match; never 0, because the index may count words that stems() drops."""
        return float(max(self.coverage(text), COVERAGE_MIN) ** COVERAGE_EXPONENT)


def _strip_accents(text: str, every_script: bool) -> str:
    """Remove accents. `every_script` includes non-Latin combining marks, and takes three times as long."""
    text = unicodedata.normalize("NFKD", text)
    if every_script:
        return unicodedata.normalize("NFC", "".join([char for char in text if not unicodedata.combining(char)]))
    return _COMBINING_MARKS.sub("", text)


def _has_word_start(word: str, text: str) -> bool:
    """Return whether a word in the text starts so. str.find is many times faster than a regular expression here."""
    at = text.find(word)
    while at > 0 and word.isascii() and text[at - 1].isalnum():
        at = text.find(word, at + 1)
    return at >= 0


def score_text_matches(
    matches: Sequence[MessageRef], entries: dict[MessageKey, IndexedMessage], terms: QueryTerms
) -> dict[MessageKey, float]:
    """Score full-text matches by the index's score times the query coverage, at most 1."""
    top = max((match.score for match in matches), default=0.0)
    if top <= 0:
        return {}
    return {
        key: max(match.score, 0.0) / top * terms.relevance(entries[key].text)
        for match in matches
        if (key := (match.session, match.seq)) in entries
    }


def fuse_scores(
    text_scores: dict[MessageKey, float], nearest: Sequence[MessageRef], vector_weight: float
) -> dict[MessageKey, float]:
    """Add the scaled vector similarities to the full-text scores. The nearest message gets `vector_weight`."""
    scores = dict(text_scores)
    # similarity ranges differ between models; the last of many candidates is the model's baseline
    high = max((match.score for match in nearest), default=0.0)
    low = min((match.score for match in nearest), default=0.0) * min(1.0, len(nearest) / BASELINE_CANDIDATES)
    near: dict[MessageKey, float] = {}
    for match in nearest:
        key, share = (match.session, match.seq), (match.score - low) / (high - low) if high > low else 1.0
        near[key] = max(near.get(key, 0.0), vector_weight * share)
    for key, score in near.items():
        scores[key] = scores.get(key, 0.0) + score
    return scores


def spread_to_neighbours(
    scores: dict[MessageKey, float], neighbourhoods: Iterable[Sequence[MessageRef]]
) -> dict[MessageKey, float]:
    """Add to each message's score a share of its best neighbour's score.

    `neighbourhoods` has, for each of the best messages in rank order, the messages around it in its session.
    """
    gained: dict[MessageKey, float] = {}
    for (key, score), neighbours in zip(_rank(scores), neighbourhoods, strict=False):
        spots = [(match.session, match.seq) for match in neighbours]
        if key not in spots:  # deleted meanwhile
            continue
        middle = spots.index(key)
        for distance, share in NEIGHBOUR_SHARES.items():
            if 0 <= middle + distance < len(spots):
                other = spots[middle + distance]
                gained[other] = max(gained.get(other, 0.0), score * share)
    return {key: scores.get(key, 0.0) + gained.get(key, 0.0) for key in scores | gained}


def _rank(scores: dict[MessageKey, float]) -> list[tuple[MessageKey, float]]:
    """Sort by score, best first; ties in a stable order."""
    return sorted(scores.items(), key=lambda item: (-item[1], item[0]))


def _vector_weight(embedder: Embedder | None) -> float:
    return float(getattr(embedder, "vector_weight", VECTOR_WEIGHT)) if embedder is not None else 0.0


# --- vectors -------------------------------------------------------------------------------------


async def _find_nearest(
    tiers: WorkspaceTiers, embedder: Embedder | None, query: MemoryQuery, limit: int
) -> tuple[list[MessageRef], str]:
    """Return the nearest messages that pass the query's filters; or none, and why the vectors could not be used."""
    if tiers.vectors is None or embedder is None:
        return [], f"{TEXT_ONLY}: there are no vectors here (they are off, or need pip install -e '.[memory]')"
    vector, note = await _embed_query(embedder, query.text)
    if not any(vector):
        return [], note
    try:
        spots = await _nearest_filtered(tiers.messages, tiers.vectors, vector, query, limit)
    except InputRefused:  # the stored vectors have another model's dimensions
        return [], f"{TEXT_ONLY}: the vectors of {embedder.name} are still being computed"
    if not spots and not await tiers.vectors.count():
        return [], f"{TEXT_ONLY}: no message has a vector yet"
    return spots, ""


async def _nearest_filtered(
    messages: MessageTier, vectors: VectorTier, vector: bytes, query: MemoryQuery, limit: int
) -> list[MessageRef]:
    """The vector index has no filters, so fetch more matches and filter them afterwards."""
    if not _has_filters(query):
        return await vectors.find_nearest(vector, limit)
    spots = await messages.filter_refs(await vectors.find_nearest(vector, FILTER_CANDIDATES_MAX), query)
    return spots[:limit]


async def _embed_query(embedder: Embedder, text: str) -> tuple[bytes, str]:
    """Embed the query; return no vector, and why, if that fails or times out."""
    try:
        async with asyncio.timeout(EMBED_TIMEOUT_S):
            return (await embedder.embed([text]))[0], ""
    except TimeoutError:
        return b"", f"{TEXT_ONLY}: {embedder.name} is not ready yet"
    except EmbedderMissing as error:
        return b"", f"{TEXT_ONLY}: {error}"
    except MainstayError as error:
        return b"", f"{TEXT_ONLY}: {embedder.name} cannot be used at the moment ({error})"


def _has_filters(query: MemoryQuery) -> bool:
    return bool(query.speaker or query.session or query.start is not None or query.end is not None)


# --- hits ----------------------------------------------------------------------------------------


async def _build_hits(
    tiers: WorkspaceTiers, ranked: Sequence[MessageRef], query: MemoryQuery, entries: dict[MessageKey, IndexedMessage]
) -> list[SearchHit]:
    """Build hits without duplicate texts (forks copy messages). `entries` are those already fetched."""
    hits: list[SearchHit] = []
    seen: set[str] = set()
    scores: dict[MessageKey, float] = {}
    for match in ranked:
        scores.setdefault((match.session, match.seq), match.score)  # ranked, so the first is the best
    keys, batch_size = list(scores), query.k + query.k // 2 + 2
    for start in range(0, len(keys), batch_size):
        batch = keys[start : start + batch_size]
        fetched = await tiers.messages.fetch_messages([MessageRef(*key) for key in batch if key not in entries])
        known = entries | {(entry.session, entry.seq): entry for entry in fetched}
        for key in batch:
            if key in known and known[key].text not in seen:
                seen.add(known[key].text)
                hits.append(_build_hit(known[key], scores[key], query))
        if len(hits) >= query.k:
            break
    return hits[: query.k]


def _build_hit(entry: IndexedMessage, score: float, query: MemoryQuery) -> SearchHit:
    return SearchHit(
        text=clip_around_match(entry.text, query.text),
        session=entry.session,
        message_id=message_id(entry.session, entry.seq),
        at=entry.at,
        score=round(score, 4),
        speaker=entry.speaker or entry.role,
        origin=entry.origin,
    )


async def _memory_hits(tiers: WorkspaceTiers, query: MemoryQuery, terms: QueryTerms) -> list[SearchHit]:
    """Score stored memories by query coverage, on the same scale as messages.

    Memories have no speaker and no session, so none match a query that filters by them.
    """
    if query.speaker or query.session:
        return []
    limit = max(1, query.k // HITS_PER_MEMORY)
    matches = await tiers.memories.search(query, limit=2 * limit + 2)
    scored = [
        (memory, terms.relevance(" ".join([memory.text, *memory.tags])))
        for memory, _ in matches
        if WORKFLOW_TAG not in memory.tags
    ]
    scored.sort(key=lambda pair: -pair[1])
    return [memory_to_hit(memory, round(score, 4)) for memory, score in scored[:limit]]


def clip_around_match(text: str, query: str, chars_max: int = HIT_CHARS_MAX) -> str:
    """Return at most `chars_max` characters around the densest match of the query's words."""
    if len(text) <= chars_max:
        return text
    low = text.lower()
    if len(low) != len(text):  # some letters change their length in lower case
        low = text
    positions = sorted(position for word in set(stem_words(query)) if (position := low.find(word)) >= 0)
    best, count_max = 0, 0
    for first, position in enumerate(positions):
        count = sum(1 for other in positions[first:] if other < position + chars_max * 3 // 4)
        if count > count_max:
            best, count_max = position, count
    start = min(max(0, best - chars_max // 8), len(text) - chars_max)
    inside = text[start : start + chars_max - 2].strip()
    return ("…" if start else "") + inside + ("…" if start + chars_max - 2 < len(text) else "")
