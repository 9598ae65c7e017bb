"""Which patterns a request is about: TF-IDF vectors, compared by their cosine.

A pattern is what stands in its fields, and not every field says as much. The words of its name, its title and its
intents were chosen to be found by, so they count three times; use cases are close to how people ask, and count twice;
the description, the category and the tags count once. Counts are dampened (1 + log), so that a long description does
not outweigh a name. A word of a request that no pattern has counts as the rarest there is: small talk that shares one
common word with a pattern is then mostly about something else, and stays below the threshold.

Everything is plain Python: postings by stem, the rarest first. Once the words that are left could not bring a pattern
half of what the threshold asks for, only those that have the other half are looked at further.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from heapq import nsmallest
from math import log, sqrt

import msgspec

from mainstay.core.stems import stems
from mainstay.patterns.pattern import Pattern

CHARS_MAX = 20_000  # of one field
_STEMS_MAX = 4_000
_EARLY = 0.5  # once what is left could bring no more than this part of what is needed, few can still get there
_SLACK = 1e-6  # for sums of floats that were added in another order
NAMED, USED, TOLD = 3.0, 2.0, 1.0  # how much a word of a name, of a use case, of a description counts

Terms = Mapping[str, float]


class Match(msgspec.Struct, frozen=True, gc=False):
    pattern: Pattern
    score: float  # 0 to 1


def terms_of(pattern: Pattern) -> dict[str, float]:
    """How often each stem is in a pattern, by what it counts there, dampened."""
    counts: dict[str, float] = {}
    _count(counts, NAMED, (pattern.name, pattern.title, *pattern.intents))
    _count(counts, USED, pattern.use_cases)
    _count(counts, TOLD, (pattern.description, pattern.category, *pattern.tags))
    return {stem: 1.0 + log(count) for stem, count in counts.items()}


def _count(counts: dict[str, float], weight: float, texts: Iterable[str]) -> None:
    for text in texts:
        for stem in stems(text, chars_max=CHARS_MAX, stems_max=_STEMS_MAX):
            counts[stem] = counts.get(stem, 0.0) + weight


class Index:
    """Never changes once it is made: another is made beside it and takes its place."""

    def __init__(self, patterns: Sequence[Pattern], terms: Sequence[Terms]) -> None:
        """`terms` are those of each pattern, in the same order."""
        self._patterns = tuple(patterns)
        self._terms = tuple(terms)
        found: dict[str, list[int]] = {}
        for number, one in enumerate(self._terms):
            for stem in one:
                found.setdefault(stem, []).append(number)
        count = len(self._patterns)
        self._rarest = 1.0 + log(1.0 + count)
        self._rarity = {stem: 1.0 + log((1.0 + count) / (1.0 + len(numbers))) for stem, numbers in found.items()}
        self._scale = [self._scaled(one) for one in self._terms]
        self._postings = {stem: self._posted(stem, numbers) for stem, numbers in found.items()}
        self._heaviest = {stem: max(weights) for stem, (_, weights) in self._postings.items()}

    def __len__(self) -> int:
        return len(self._patterns)

    def match(self, text: str, limit: int, threshold: float) -> list[Match]:
        """Those at least so similar, best first; equals in the order of their names."""
        if limit <= 0 or not self._patterns:
            return []
        wanted, length = self._read(text)
        if not wanted:
            return []
        floor = max(threshold, _SLACK) * length
        scores = self._score(wanted, floor)
        best = nsmallest(limit, ((-score, number) for number, score in scores.items() if score >= floor - _SLACK))
        return [Match(self._patterns[number], min(-score / length, 1.0)) for score, number in best]

    def _read(self, text: str) -> tuple[list[tuple[str, float]], float]:
        """What the request asks for, the rarest first, and the length of its whole vector."""
        counts: dict[str, int] = {}
        for stem in stems(text):
            counts[stem] = counts.get(stem, 0) + 1
        weights = {stem: (1.0 + log(n)) * self._rarity.get(stem, self._rarest) for stem, n in counts.items()}
        length = sqrt(sum(weight * weight for weight in weights.values()))
        known = [(stem, weight) for stem, weight in weights.items() if stem in self._postings]
        known.sort(key=lambda one: len(self._postings[one[0]][0]))
        return known, length

    def _score(self, wanted: Sequence[tuple[str, float]], floor: float) -> dict[int, float]:
        """Of all that reach `floor`, exactly; what cannot is dropped on the way."""
        rest = sum(weight * self._heaviest[stem] for stem, weight in wanted)
        sums = [0.0] * len(self._patterns)
        done = 0
        for stem, weight in wanted:
            if rest < floor * _EARLY:
                break
            for number, share in zip(*self._postings[stem], strict=True):
                sums[number] += weight * share
            rest -= weight * self._heaviest[stem]
            done += 1
        enough = floor - max(rest, 0.0) - _SLACK
        scores = {number: score for number, score in enumerate(sums) if score >= enough}
        for stem, weight in wanted[done:] if scores else ():  # words that most patterns have, for the few that are left
            factor = weight * self._rarity[stem]
            for number in scores:
                if (count := self._terms[number].get(stem)) is not None:
                    scores[number] += factor * count * self._scale[number]
        return scores

    def _scaled(self, terms: Terms) -> float:
        """One over the length of a pattern's vector."""
        total = sum((count * self._rarity[stem]) ** 2 for stem, count in terms.items())
        return 1.0 / sqrt(total) if total else 0.0

    def _posted(self, stem: str, numbers: list[int]) -> tuple[list[int], list[float]]:
        rarity = self._rarity[stem]
        return numbers, [self._terms[number][stem] * rarity * self._scale[number] for number in numbers]
