"""Additive increase, multiplicative decrease: where it converges to, and how soon."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mainstay.metering.adaptive_rate import EXPIRY_S, AdaptiveRate


def feed(
    pace: AdaptiveRate, begin: float, seconds: float, bears: float, bucket: float = 1.0
) -> tuple[float, list[float]]:
    """Calls as fast as allowed, at a provider that accepts so many a second: how many were answered, and when not."""
    answered, refused, level, now = 0, [], bucket, begin
    while now < begin + seconds:
        wait_s = pace.wait_s(now)
        if wait_s > 0:
            pace.increase(now)
            passed = min(max(wait_s, 0.001), 1.0)  # a rate limiter looks at least once a second
            now, level = now + passed, min(bucket, level + bears * passed)
            continue
        pace.consume(now)
        if level >= 1:
            level -= 1
            answered += 1
            pace.record_answer(now)
        else:
            refused.append(now)
            pace.slow_down(now, 0.25, in_streak=False)
            now += 0.25
            level = min(bucket, level + bears * 0.25)
    return answered, refused


def test_the_rate_is_unlimited_before_the_first_refusal() -> None:
    pace = AdaptiveRate()
    assert (pace.rate, pace.wait_s(5.0)) == (None, 0.0)


@given(st.floats(0.5, 200), st.floats(0.5, 10))
@settings(max_examples=15, deadline=None)
def test_it_finds_what_a_provider_bears_and_stays_near(bears: float, bucket_s: float) -> None:
    pace = AdaptiveRate()
    bucket = max(2.0, bears * bucket_s)
    for number in range(int(3 * bears) + 3):
        pace.record_answer(number / max(bears, 1.0))
    begin = 10.0
    pace.slow_down(begin, 0.25, in_streak=False)
    feed(pace, begin + 0.25, 30.0, bears, bucket)
    answered, refused = feed(pace, begin + 30.25, 60.0, bears, bucket)
    assert answered >= 0.7 * bears * 60 - 2
    assert len(refused) <= 60, "and does not ask again and again beyond it"


def test_a_burst_of_refusals_says_nothing_about_the_rate_of_a_provider() -> None:
    pace = AdaptiveRate()
    for number in range(400):
        pace.record_answer(number / 100)
    pace.slow_down(4.0, 0.25, in_streak=False)
    before, _ = feed(pace, 4.25, 10.0, bears=100, bucket=100)
    for number in range(20):
        pace.slow_down(15.0 + number, 1.0, in_streak=number > 0)
    after, _ = feed(pace, 36.0, 10.0, bears=100, bucket=100)
    assert after >= 0.8 * before


def test_begun_without_a_refusal_it_is_not_forgotten_at_once() -> None:
    pace = AdaptiveRate()
    pace.start_limiting(1000.0)
    pace.expire(1000.1)
    assert pace.rate == 10
    answered, refused = feed(pace, 1000.1, 4.0, bears=1e5, bucket=1e5)
    assert answered > 1000, "it doubles twice a second"
    assert refused == []


def test_after_long_without_a_refusal_there_is_no_pace() -> None:
    pace = AdaptiveRate()
    pace.slow_down(0.0, 0.25, in_streak=False)
    pace.expire(EXPIRY_S)
    assert pace.rate is not None
    pace.expire(EXPIRY_S + 1)
    assert pace.rate is None


def test_the_rate_never_gets_too_low_to_recover() -> None:
    pace = AdaptiveRate()
    for number in range(200):
        pace.slow_down(float(number), 0.25, in_streak=False)
    assert pace.rate is not None
    answered, _ = feed(pace, 200.25, 120.0, bears=50, bucket=50)
    assert answered > 50 * 120 * 0.3


@pytest.mark.parametrize("jump", [-1e6, 0.0, 1e6], ids=["back", "none", "far ahead"])
def test_a_clock_that_jumps_does_no_harm(jump: float) -> None:
    pace = AdaptiveRate()
    pace.slow_down(1e6, 0.25, in_streak=False)
    pace.consume(1e6 + 1)
    wait_s = pace.wait_s(1e6 + 1 + jump)
    pace.increase(1e6 + 1 + jump)
    assert 0 <= wait_s < 100
    assert pace.rate is not None
    assert 0 < pace.rate < 100
