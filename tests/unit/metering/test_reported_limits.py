"""Rate limits reported by a provider, followed call by call, and doubted where they prove wrong."""

from __future__ import annotations

import heapq
import itertools
import random

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from mainstay.core.rate_limits import QuotaKind, RateLimitQuota
from mainstay.metering.quota_estimator import DISTRUST_S, TEST_MAX_S, TEST_S, TESTS_ANSWERED_MAX, ReportedLimits


class Call:
    def __init__(self, tokens: float = 1.0) -> None:
        self.tokens = tokens
        self.marks: dict[str, float] = {}

    def weigh(self, kind: QuotaKind) -> float:
        return 1.0 if kind == "requests" else self.tokens


ONE = Call().weigh


def quota(left: float, limit: float = 100.0, whole_in_s: float | None = None, per_s: float = 1.0) -> RateLimitQuota:
    return RateLimitQuota(
        "requests", "requests", left, limit, (limit - left) / per_s if whole_in_s is None else whole_in_s
    )


def test_before_the_first_report_no_call_is_held_back() -> None:
    claims = ReportedLimits()
    assert not claims
    assert claims.wait_s(ONE, 0.0) == 0
    assert claims.consume(ONE, 0.0) == {}


def test_calls_in_flight_are_counted_before_the_provider_reports_them() -> None:
    claims, first, others = ReportedLimits(), Call(), [Call() for _ in range(40)]
    claims.apply_report([quota(50)], first, others, 0.0)
    assert claims.buckets["requests"].level_at(0.0) == 10
    for other, left in zip(others, range(49, 9, -1), strict=True):
        claims.apply_report([quota(left)], other, [], 0.0)
    assert claims.buckets["requests"].level_at(0.0) == pytest.approx(10)


def test_the_quota_refills_as_fast_as_the_reset_says() -> None:
    claims = ReportedLimits()
    claims.apply_report([quota(0, limit=100, whole_in_s=20.0)], Call(), [], 0.0)
    assert claims.buckets["requests"].rate == 5
    assert claims.wait_s(ONE, 0.0) == pytest.approx(0.4), "and a little more, because calls overtake each other"
    assert claims.wait_s(ONE, 0.5) == 0


def test_a_clock_that_jumps_back_neither_gives_nor_takes() -> None:
    claims = ReportedLimits()
    claims.apply_report([quota(10)], Call(), [], 1000.0)
    assert claims.buckets["requests"].level_at(3.0) == 10
    assert claims.buckets["requests"].level_at(1001.0) == pytest.approx(11)


def test_a_call_that_is_larger_than_the_limit_goes_when_all_of_it_is_there() -> None:
    claims = ReportedLimits()
    huge = Call(tokens=1e9)
    claims.apply_report([RateLimitQuota("tokens", "tokens", 500, 1000, 10.0)], huge, [], 0.0)
    assert claims.wait_s(huge.weigh, 0.0) == pytest.approx(10)
    assert claims.wait_s(huge.weigh, 10.0) == 0


@given(
    st.integers(0, 2**32),
    st.floats(1, 1000),
    st.floats(0.5, 60),
    st.floats(0.0, 2.0),
)
@example(504, 711.8835282335261, 0.5, 1.7303954866305724)
@settings(max_examples=30, deadline=None)
def test_the_estimate_stays_near_the_truth_with_late_and_unordered_answers(
    seed: int, rate: float, size_s: float, late_s: float
) -> None:
    """One account, calls at random times, each answered after a while of its own: the estimate is never far off.

    It goes on until 50 calls were answered that were sent after the first report: only those have a mark of the time
    when they were sent.
    """
    chance = random.Random(seed)
    size = max(rate * size_s, 1.0)
    truth, at, now = size, 0.0, 0.0
    claims = ReportedLimits()
    answers: list[tuple[float, int, RateLimitQuota]] = []  # a heap: when, to which call, what is left
    unanswered: dict[int, Call] = {}  # in the order of sending
    marked: set[int] = set()
    marked_answers = 0
    for number in itertools.count():
        if number >= 400 and (not claims or marked_answers >= 50):
            break
        now += chance.expovariate(2 * rate)
        while answers and answers[0][0] <= now:
            answered_at, sent, left = heapq.heappop(answers)
            claims.apply_report([left], unanswered.pop(sent), unanswered.values(), answered_at)
            marked_answers += sent in marked
        truth, at = min(size, truth + rate * (now - at)), now
        call = Call()
        if claims.wait_s(call.weigh, now) > 0 or truth < 1:
            continue
        call.marks = claims.consume(call.weigh, now)
        if call.marks:
            marked.add(number)
        truth -= 1
        unanswered[number] = call
        heapq.heappush(answers, (now + chance.uniform(0, late_s), number, quota(truth, size, per_s=rate)))
    if claims:
        believed = claims.buckets["requests"].level_at(now)
        assert abs(believed - truth) <= 2 + 0.05 * size


def test_reported_limits_that_prove_too_low_are_ignored_for_a_while() -> None:
    claims = ReportedLimits()
    claims.apply_report([quota(0, whole_in_s=1e6)], Call(), [], 0.0)
    now = 0.0
    for number in range(TESTS_ANSWERED_MAX):
        assert claims.wait_s(ONE, now) > 0
        now += claims.until_test_s(now)
        assert claims.should_test(ONE, now)
        claims.start_test(now)
        assert not claims.should_test(ONE, now), "one at a time"
        assert claims.record_test_answered(now) == (number == TESTS_ANSWERED_MAX - 1)
    assert now < 4 * TEST_S
    assert claims.wait_s(ONE, now) == 0
    assert not claims.is_trusted(now)
    assert claims.is_trusted(now + DISTRUST_S)


def test_claims_that_prove_right_are_tested_ever_more_seldom() -> None:
    claims = ReportedLimits()
    claims.apply_report([quota(0, whole_in_s=1e6)], Call(), [], 0.0)
    now, times = 0.0, []
    for _ in range(12):
        now += claims.until_test_s(now)
        times.append(now)
        claims.start_test(now)
        claims.record_test_refused(now)
    gaps = [later - earlier for earlier, later in itertools.pairwise(times)]
    assert gaps[0] == 2 * TEST_S
    assert gaps[-1] == TEST_MAX_S


def test_a_test_needs_a_claim_that_leaves_no_doubt() -> None:
    claims = ReportedLimits()
    claims.apply_report([RateLimitQuota("tokens", "tokens", 900, 20_000, 1e6)], Call(), [], 0.0)
    assert not claims.should_test(Call(tokens=1000).weigh, 100.0), "most of it is there: an answer proves nothing"
    assert claims.should_test(Call(tokens=10_000).weigh, 100.0)


hostile = st.one_of(st.floats(0, 1e12), st.sampled_from([0.0, 1e-9, 1.0, 1e12]))


@given(st.lists(st.tuples(hostile, hostile, st.floats(0, 2.7e6)), min_size=1, max_size=30), st.integers(1, 10**6))
def test_with_any_reported_limits_calls_get_through_in_the_end(
    claimed: list[tuple[float, float, float]], tokens: int
) -> None:
    claims, call, now = ReportedLimits(), Call(tokens=tokens), 0.0
    for left, limit, whole_in_s in claimed:
        now += 0.1
        call.marks = claims.consume(call.weigh, now)
        claims.apply_report([RateLimitQuota("tokens", "tokens", left, limit, whole_in_s)], call, [Call()], now)
    waited_s = claims.wait_s(call.weigh, now)
    assert 0 <= waited_s < 1e15
    assert (
        waited_s == 0
        or claims.should_test(call.weigh, now + TEST_MAX_S)
        or claims.wait_s(call.weigh, now + waited_s) < 1
    )
