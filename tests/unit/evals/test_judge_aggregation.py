"""Several scores become one: the arithmetic, by properties."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainstay.core.events import Score
from mainstay.core.judges import CORRECTIONS_DEFAULT, CORRECTIONS_MAX, SCORE_THRESHOLD
from mainstay.judges.aggregation import AggregationRule, CombineMethod

WAYS: tuple[CombineMethod, ...] = ("mean", "median", "min", "max", "weighted", "vote")
shares = st.floats(0, 1, allow_nan=False)
weights = st.floats(1e-6, 1e6, allow_nan=False)
scores = st.builds(lambda score, weight: Score("j", score, weight=weight), st.none() | shares, weights)
panels = st.lists(scores, min_size=1, max_size=12)


def combined(way: CombineMethod, panel: Sequence[Score], threshold: float = SCORE_THRESHOLD) -> float:
    return AggregationRule(way, threshold).decide(panel)[0]


def passes(way: CombineMethod, panel: Sequence[Score], threshold: float = SCORE_THRESHOLD) -> bool:
    return AggregationRule(way, threshold).decide(panel)[1]


def of(*values: float | None) -> list[Score]:
    return [Score(f"j{number}", value) for number, value in enumerate(values)]


@pytest.mark.parametrize("way", WAYS)
@given(panel=panels, threshold=shares)
def test_a_score_is_between_0_and_1_for_any_verdicts(way: CombineMethod, panel: list[Score], threshold: float) -> None:
    assert 0 <= combined(way, panel, threshold) <= 1


@pytest.mark.parametrize("way", WAYS)
@given(panel=panels, threshold=shares, random=st.randoms(use_true_random=False))
def test_the_order_of_judges_does_not_matter(
    way: CombineMethod, panel: list[Score], threshold: float, random: Random
) -> None:
    other = list(panel)
    random.shuffle(other)
    assert AggregationRule(way, threshold).decide(panel) == AggregationRule(way, threshold).decide(other)


@pytest.mark.parametrize("way", WAYS)
@given(panel=panels, threshold=shares, at=st.integers(0, 11), better=shares)
def test_a_judge_that_likes_it_better_never_makes_it_worse(
    way: CombineMethod, panel: list[Score], threshold: float, at: int, better: float
) -> None:
    at %= len(panel)
    raised = list(panel)
    raised[at] = Score("j", max(panel[at].score or 0.0, better), weight=panel[at].weight)
    before, after = AggregationRule(way, threshold).decide(panel), AggregationRule(way, threshold).decide(raised)
    assert after[0] >= before[0] or math.isclose(after[0], before[0], abs_tol=1e-12)
    if way != "weighted":  # whose sums may round either way by the last digit
        assert after[1] >= before[1]


@given(panel=panels)
def test_mean_median_and_weighted_lie_between_the_strictest_and_the_most_lenient(panel: list[Score]) -> None:
    low, high = combined("min", panel), combined("max", panel)
    for way in ("mean", "median", "weighted"):
        assert low <= combined(way, panel) <= high  # type: ignore[arg-type]


@given(panel=panels, threshold=shares)
def test_an_answer_passes_exactly_at_or_above_the_threshold(panel: list[Score], threshold: float) -> None:
    for way in WAYS:
        if way != "vote":
            score, passed = AggregationRule(way, threshold).decide(panel)
            assert passed is (score >= threshold and any(one.score is not None for one in panel))


@given(value=shares, number=st.integers(1, 12), weight=weights)
def test_judges_that_agree_are_agreed_with_to_the_last_digit(value: float, number: int, weight: float) -> None:
    panel = [Score("j", value, weight=weight)] * number
    for way in ("mean", "median", "min", "max", "weighted"):
        assert combined(way, panel) == value  # type: ignore[arg-type]
        assert passes(way, panel, value)  # type: ignore[arg-type]


@given(panel=panels)
def test_mean_and_weighted_are_what_exact_arithmetic_says(panel: list[Score]) -> None:
    values = [Fraction(one.score or 0.0) for one in panel]
    heavy = [Fraction(one.weight) for one in panel]
    exact = sum(values) / len(values)
    assert math.isclose(combined("mean", panel), exact, abs_tol=1e-12)
    by_weight = sum(weight * value for weight, value in zip(heavy, values, strict=True)) / sum(heavy)
    assert math.isclose(combined("weighted", panel), by_weight, abs_tol=1e-12)


@given(panel=panels, factor=st.floats(1e-3, 1e3))
def test_only_how_weights_compare_matters(panel: list[Score], factor: float) -> None:
    scaled = [Score("j", one.score, weight=one.weight * factor) for one in panel]
    assert math.isclose(combined("weighted", panel), combined("weighted", scaled), abs_tol=1e-9)


@given(panel=panels, threshold=shares)
def test_a_vote_passes_when_more_than_half_of_the_judges_do(panel: list[Score], threshold: float) -> None:
    yes = sum(one.score is not None and one.score >= threshold for one in panel)
    share, passed = AggregationRule("vote", threshold).decide(panel)
    assert passed is (2 * yes > len(panel))
    assert share == yes / len(panel)


@given(panel=panels, failed=st.integers(0, 11), threshold=st.floats(0.01, 1))
def test_a_judge_that_failed_counts_as_nothing_and_never_helps(
    panel: list[Score], failed: int, threshold: float
) -> None:
    failed %= len(panel)
    for way in WAYS:
        broken = list(panel)
        broken[failed] = Score("j", None, error="it raised", weight=panel[failed].weight)
        as_zero = list(panel)
        as_zero[failed] = Score("j", 0.0, weight=panel[failed].weight)
        assert AggregationRule(way, threshold).decide(broken) == AggregationRule(way, threshold).decide(as_zero)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("threshold", [0.0, 0.7, 1.0])
def test_a_panel_in_which_all_failed_passes_nothing(way: CombineMethod, threshold: float) -> None:
    assert AggregationRule(way, threshold).decide([]) == (0.0, False)
    assert AggregationRule(way, threshold).decide(of(None, None, None)) == (0.0, False)


@pytest.mark.parametrize(
    ("way", "values", "score"),
    [
        ("mean", (0.5, 0.7, 0.9), 0.7),
        ("mean", (0.9, 0.9, None), 0.6),
        ("median", (0.1, 0.8, 0.9), 0.8),
        ("median", (0.2, 0.6, 0.8, 0.9), 0.7),
        ("min", (0.4, 0.9, 1.0), 0.4),
        ("max", (0.4, 0.9, 0.2), 0.9),
        ("vote", (0.7, 0.71, 0.2), 2 / 3),
        ("vote", (0.7, 0.2), 0.5),
    ],
    ids=str,
)
def test_examples_that_one_can_check_by_hand(way: CombineMethod, values: tuple[float, ...], score: float) -> None:
    assert combined(way, of(*values)) == pytest.approx(score)


def test_a_judge_of_weight_three_counts_three_times() -> None:
    panel = [Score("a", 1.0, weight=3.0), Score("b", 0.0, weight=1.0)]
    assert combined("weighted", panel) == pytest.approx(0.75)
    assert combined("mean", panel) == pytest.approx(0.5)


def test_half_of_the_votes_is_not_more_than_half() -> None:
    assert not passes("vote", of(0.9, 0.1))
    assert passes("vote", of(0.9, 0.9, 0.1))


def test_the_threshold_is_0_7_and_there_are_3_corrections_unless_configured() -> None:
    assert (SCORE_THRESHOLD, CORRECTIONS_DEFAULT, CORRECTIONS_MAX) == (0.7, 3, 10)
    assert AggregationRule() == AggregationRule("mean", 0.7)
    assert passes("mean", of(0.7))
    assert not passes("mean", of(0.6999))
