"""Index that matches requests to patterns by weighted words (TF-IDF with the saturation of BM25F).

Fields have different weights. The words of the name, the title and the intents were chosen for matching, so they count
three times; use cases and description are close to how users phrase requests, and count twice; what else the pattern
says (parameters, practices, errors, examples) counts once, and the texts of its templates little. A count saturates,
more slowly in a long pattern, so that neither a repeated word nor a long text outweighs a name. Words are weighted by
how rare they are among the patterns (IDF).

The score is the share of the request that the pattern covers, from 0 to 1. A word of the request that no pattern has
counts as the rarest: small talk that shares one common word with a pattern stays below the threshold.

It is plain Python: postings by stem, rarest stem first. Once the remaining stems could add less than half of the
threshold, only patterns that already have the other half are scored further.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from heapq import nsmallest
from math import log

import msgspec

from mainstay.core.stemming import stem_words
from mainstay.patterns.pattern_template import InstructionPattern

FIELD_CHARS_MAX = 20_000  # of one field
_FIELD_STEMS_MAX = 4_000
_PRUNE_SHARE = (
    0.5  # switch to scoring candidates only, once the remaining stems add at most this share of the threshold
)
_SLACK = 1e-6  # tolerance for floats summed in another order
# weights of words by field
NAME_WEIGHT, USE_CASE_WEIGHT, DESCRIPTION_WEIGHT, BODY_WEIGHT, TEMPLATE_WEIGHT = (3.0, 2.0, 2.0, 1.0, 0.3)
SATURATION = 2.0  # the count at which a word has half of its effect, in a pattern of average length
LENGTH_SHARE = 0.3  # how much of that depends on the pattern's length
_BODY_STEMS_MAX = 1_200  # of all further fields together
_TEMPLATE_STEMS_MAX = 400  # of one template

TermWeights = Mapping[str, float]


class PatternMatch(msgspec.Struct, frozen=True, gc=False):
    pattern: InstructionPattern
    score: float  # 0 to 1


def weigh_terms(pattern: InstructionPattern) -> dict[str, float]:
    """Return the weighted count of each stem of a pattern."""
    counts: dict[str, float] = {}
    _add_counts(counts, NAME_WEIGHT, (pattern.name, pattern.title, *pattern.intents))
    _add_counts(counts, USE_CASE_WEIGHT, pattern.use_cases)
    _add_counts(counts, DESCRIPTION_WEIGHT, (pattern.description, pattern.category, *pattern.tags))
    _add_counts(counts, BODY_WEIGHT, _body_texts(pattern), _BODY_STEMS_MAX)
    _add_counts(counts, TEMPLATE_WEIGHT, (template.text for template in pattern.templates), _TEMPLATE_STEMS_MAX)
    return counts


def _body_texts(pattern: InstructionPattern) -> Iterable[str]:
    for template in pattern.templates:
        yield f"{template.name} {template.description}"
    for parameter in pattern.parameters:
        yield f"{parameter.name} {parameter.description}"
    yield pattern.best_practices
    for error in pattern.common_errors:
        yield f"{error.error} {error.cause} {error.solution}"
    for example in pattern.examples:
        yield f"{example.name} {example.text}"


def _add_counts(
    counts: dict[str, float], weight: float, texts: Iterable[str], stems_max: int = _FIELD_STEMS_MAX
) -> None:
    for text in texts:
        for stem in stem_words(text, chars_max=FIELD_CHARS_MAX, stems_max=stems_max):
            counts[stem] = counts.get(stem, 0.0) + weight


class PatternIndex:
    """Immutable index of patterns."""

    def __init__(self, patterns: Sequence[InstructionPattern], terms: Sequence[TermWeights]) -> None:
        """`terms` are the weighted terms of each pattern, in the same order."""
        self._patterns = tuple(patterns)
        self._terms = tuple(terms)
        numbers_of: dict[str, list[int]] = {}
        for number, pattern_terms in enumerate(self._terms):
            for stem in pattern_terms:
                numbers_of.setdefault(stem, []).append(number)
        count = len(self._patterns)
        self._idf_max = 1.0 + log(1.0 + count)
        self._idf = {stem: 1.0 + log((1.0 + count) / (1.0 + len(numbers))) for stem, numbers in numbers_of.items()}
        self._half_counts = _compute_half_counts(self._terms)
        self._postings = {stem: self._build_posting(stem, numbers) for stem, numbers in numbers_of.items()}
        self._weight_max = {stem: max(weights) for stem, (_, weights) in self._postings.items()}

    def __len__(self) -> int:
        return len(self._patterns)

    def match(self, text: str, limit: int, threshold: float) -> list[PatternMatch]:
        """Return patterns with a similarity of at least `threshold`, best first; ties in the order of the patterns."""
        if limit <= 0 or not self._patterns:
            return []
        query_terms, length = self._weigh_query(text)
        if not query_terms:
            return []
        floor = max(threshold, _SLACK) * length
        scores = self._score_patterns(query_terms, floor)
        best = nsmallest(limit, ((-score, number) for number, score in scores.items() if score >= floor - _SLACK))
        return [PatternMatch(self._patterns[number], min(-score / length, 1.0)) for score, number in best]

    def _weigh_query(self, text: str) -> tuple[list[tuple[str, float]], float]:
        """Return the request's indexed stems with weights, rarest first, and the sum of the weights of all of them."""
        counts: dict[str, int] = {}
        for stem in stem_words(text):
            counts[stem] = counts.get(stem, 0) + 1
        weights = {stem: (1.0 + log(n)) * self._idf.get(stem, self._idf_max) for stem, n in counts.items()}
        length = sum(weights.values())
        known = [(stem, weight) for stem, weight in weights.items() if stem in self._postings]
        known.sort(key=lambda item: len(self._postings[item[0]][0]))
        return known, length

    def _score_patterns(self, query_terms: Sequence[tuple[str, float]], floor: float) -> dict[int, float]:
        """Return exact scores of all patterns that reach `floor`; others may be missing."""
        rest = sum(weight * self._weight_max[stem] for stem, weight in query_terms)
        sums = [0.0] * len(self._patterns)
        done = 0
        for stem, weight in query_terms:
            if rest < floor * _PRUNE_SHARE:
                break
            for number, share in zip(*self._postings[stem], strict=True):
                sums[number] += weight * share
            rest -= weight * self._weight_max[stem]
            done += 1
        enough = floor - max(rest, 0.0) - _SLACK
        scores = {number: score for number, score in enumerate(sums) if score >= enough}
        for stem, weight in query_terms[done:] if scores else ():  # frequent stems, for the remaining candidates only
            for number in scores:
                if (count := self._terms[number].get(stem)) is not None:
                    scores[number] += weight * count / (count + self._half_counts[number])
        return scores

    def _build_posting(self, stem: str, numbers: list[int]) -> tuple[list[int], list[float]]:
        counts = ((self._terms[number][stem], self._half_counts[number]) for number in numbers)
        return numbers, [count / (count + half) for count, half in counts]


def _compute_half_counts(terms: Sequence[TermWeights]) -> list[float]:
    """Return for each pattern the count at which a word has half of its effect."""
    lengths = [sum(pattern_terms.values()) for pattern_terms in terms]
    average = sum(lengths) / len(lengths) if lengths else 1.0
    return [SATURATION * (1.0 - LENGTH_SHARE + LENGTH_SHARE * length / (average or 1.0)) for length in lengths]
