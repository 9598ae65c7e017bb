"""Pure: several scores become one, and one is enough or not.

A judge that failed counts as 0. It is not left out: then the fewer judges answer, the easier it would be to pass.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import fsum
from typing import Literal

import msgspec

from mainstay.core.events import Score
from mainstay.core.judging import THRESHOLD

Combining = Literal["mean", "median", "min", "max", "weighted", "vote"]


class Rule(msgspec.Struct, frozen=True):
    """`vote` passes if more than half of the judges do; any other way, if the one score reaches the threshold."""

    combine: Combining = "mean"
    threshold: float = THRESHOLD

    def verdict(self, scores: Sequence[Score]) -> tuple[float, bool]:
        """The combined score, and whether it is enough. Nothing has passed of which nobody has said anything."""
        if all(one.score is None for one in scores):
            return 0.0, False
        if self.combine == "vote":
            share = sum(self.satisfies(one) for one in scores) / len(scores)
            return share, share > 0.5
        score = _WAYS[self.combine](scores)
        return score, score >= self.threshold

    def satisfies(self, score: Score) -> bool:
        return score.score is not None and score.score >= self.threshold

    def complains(self, score: Score) -> bool:
        """It did judge, and found too little."""
        return score.score is not None and score.score < self.threshold


def value_of(score: Score) -> float:
    return 0.0 if score.score is None else score.score


def mean(scores: Sequence[Score]) -> float:
    values = [value_of(one) for one in scores]
    return _between(fsum(values) / len(values), values)


def median(scores: Sequence[Score]) -> float:
    values = sorted(value_of(one) for one in scores)
    middle = len(values) // 2
    if len(values) % 2:
        return values[middle]
    return _between((values[middle - 1] + values[middle]) / 2, values[middle - 1 : middle + 1])


def lowest(scores: Sequence[Score]) -> float:
    return min(value_of(one) for one in scores)


def highest(scores: Sequence[Score]) -> float:
    return max(value_of(one) for one in scores)


def weighted(scores: Sequence[Score]) -> float:
    heaviest = max(one.weight for one in scores)
    shares = [one.weight / heaviest for one in scores]  # so that no sum of weights is too large to be a number
    values = [value_of(one) for one in scores]
    total = fsum(share * value for share, value in zip(shares, values, strict=True))
    return _between(total / fsum(shares), values)


def _between(score: float, values: Sequence[float]) -> float:
    """No rounding makes a mean smaller than the least, or 0.7 three times less than 0.7."""
    return min(max(score, min(values)), max(values))


_WAYS: dict[str, Callable[[Sequence[Score]], float]] = {
    "mean": mean,
    "median": median,
    "min": lowest,
    "max": highest,
    "weighted": weighted,
}
