"""Combines the scores of several judges into one verdict. Pure functions.

A judge that failed counts as 0. If it were left out, answers would pass more easily the fewer judges work.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import fsum
from typing import Literal

import msgspec

from mainstay.core.events import Score
from mainstay.core.judges import SCORE_THRESHOLD

CombineMethod = Literal["mean", "median", "min", "max", "weighted", "vote"]


class AggregationRule(msgspec.Struct, frozen=True):
    """How scores become a verdict.

    `vote` passes if more than half of the judges do; any other way, if the combined score reaches the threshold.
    """

    combine: CombineMethod = "mean"
    threshold: float = SCORE_THRESHOLD

    def decide(self, scores: Sequence[Score]) -> tuple[float, bool]:
        """Return the combined score, and whether it passes. If all judges failed, nothing passes."""
        if all(judged.score is None for judged in scores):
            return 0.0, False
        if self.combine == "vote":
            share = sum(self.is_passing(judged) for judged in scores) / len(scores)
            return share, share > 0.5
        score = _COMBINE_FUNCTIONS[self.combine](scores)
        return score, score >= self.threshold

    def is_passing(self, score: Score) -> bool:
        return score.score is not None and score.score >= self.threshold

    def is_failing(self, score: Score) -> bool:
        """Return whether the judge gave a score, and it is below the threshold."""
        return score.score is not None and score.score < self.threshold


def score_or_zero(score: Score) -> float:
    return 0.0 if score.score is None else score.score


def mean(scores: Sequence[Score]) -> float:
    values = [score_or_zero(score) for score in scores]
    return _clamp(fsum(values) / len(values), values)


def median(scores: Sequence[Score]) -> float:
    values = sorted(score_or_zero(score) for score in scores)
    middle = len(values) // 2
    if len(values) % 2:
        return values[middle]
    return _clamp((values[middle - 1] + values[middle]) / 2, values[middle - 1 : middle + 1])


def lowest(scores: Sequence[Score]) -> float:
    return min(score_or_zero(score) for score in scores)


def highest(scores: Sequence[Score]) -> float:
    return max(score_or_zero(score) for score in scores)


def weighted_mean(scores: Sequence[Score]) -> float:
    heaviest = max(score.weight for score in scores)
    shares = [score.weight / heaviest for score in scores]  # so that the sum cannot overflow
    values = [score_or_zero(score) for score in scores]
    total = fsum(share * value for share, value in zip(shares, values, strict=True))
    return _clamp(total / fsum(shares), values)


def _clamp(score: float, values: Sequence[float]) -> float:
    """Clamp to the range of the values: rounding must not make the mean of three 0.7 less than 0.7."""
    return min(max(score, min(values)), max(values))


_COMBINE_FUNCTIONS: dict[str, Callable[[Sequence[Score]], float]] = {
    "mean": mean,
    "median": median,
    "min": lowest,
    "max": highest,
    "weighted": weighted_mean,
}
