"""Rate limit headers of every provider family, and invalid values."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainstay.core.rate_limits import WAIT_MAX_S, RateLimitQuota
from mainstay.providers.wire.rate_limit_headers import parse_rate_limits

NOW_S = 1_790_000_000.0  # 2026-09-21T14:13:20Z


def lefts(headers: dict[str, str]) -> dict[str, RateLimitQuota]:
    return {left.name: left for left in parse_rate_limits(headers, now_s=NOW_S).quotas}


def test_openai_and_its_like_say_requests_and_tokens() -> None:
    found = lefts(
        {
            "x-ratelimit-limit-requests": "60",
            "x-ratelimit-remaining-requests": "59",
            "x-ratelimit-reset-requests": "1s",
            "x-ratelimit-limit-tokens": "150000",
            "x-ratelimit-remaining-tokens": "149984",
            "x-ratelimit-reset-tokens": "6m0s",
        }
    )
    assert found["requests"] == RateLimitQuota("requests", "requests", 59, 60, 1.0)
    assert found["tokens"] == RateLimitQuota("tokens", "tokens", 149984, 150000, 360.0)


def test_anthropic_says_input_and_output_apart_and_resets_are_moments() -> None:
    at = {"date": "Mon, 21 Sep 2026 14:13:20 GMT"}
    found = lefts(
        at
        | {
            "anthropic-ratelimit-requests-limit": "50",
            "anthropic-ratelimit-requests-remaining": "49",
            "anthropic-ratelimit-requests-reset": "2026-09-21T14:13:22Z",
            "anthropic-ratelimit-input-tokens-limit": "30000",
            "anthropic-ratelimit-input-tokens-remaining": "15000",
            "anthropic-ratelimit-input-tokens-reset": "2026-09-21T14:13:50Z",
            "anthropic-ratelimit-output-tokens-limit": "8000",
            "anthropic-ratelimit-output-tokens-remaining": "8000",
            "anthropic-ratelimit-output-tokens-reset": "2026-09-21T14:13:20Z",
        }
    )
    assert found["requests"] == RateLimitQuota("requests", "requests", 49, 50, 2.0)
    assert found["input-tokens"] == RateLimitQuota("input-tokens", "input", 15000, 30000, 30.0)
    assert found["output-tokens"] == RateLimitQuota("output-tokens", "output", 8000, 8000, 0.0)


def test_a_reset_is_reckoned_by_the_servers_own_clock() -> None:
    there = {"date": "Mon, 21 Sep 2026 10:00:00 GMT"}  # hours behind ours
    said = {
        "anthropic-ratelimit-requests-remaining": "0",
        "anthropic-ratelimit-requests-limit": "50",
        "anthropic-ratelimit-requests-reset": "2026-09-21T10:00:07Z",
    }
    assert lefts(there | said)["requests"].resets_in_s == 7.0


def test_azure_says_what_is_left_and_nothing_else() -> None:
    found = lefts({"x-ratelimit-remaining-requests": "119", "x-ratelimit-remaining-tokens": "119980"})
    assert found["requests"] == RateLimitQuota("requests", "requests", 119)
    assert found["tokens"] == RateLimitQuota("tokens", "tokens", 119980)


def test_groq_counts_requests_by_the_day() -> None:
    found = lefts(
        {
            "x-ratelimit-limit-requests": "14400",
            "x-ratelimit-remaining-requests": "14370",
            "x-ratelimit-reset-requests": "2m59.56s",
        }
    )
    assert found["requests"].resets_in_s == pytest.approx(179.56)


def test_some_count_by_the_minute_and_by_the_day() -> None:
    found = lefts(
        {f"x-ratelimit-remaining-{name}": "7" for name in ("requests-day", "requests-minute", "tokens-minute")}
    )
    assert {(left.name, left.kind) for left in found.values()} == {
        ("requests-day", "requests"),
        ("requests-minute", "requests"),
        ("tokens-minute", "tokens"),
    }


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("20ms", 0.02),
        ("1m2.5s", 62.5),
        ("1h", 3600.0),
        ("7", 7.0),
        ("1790000030", 30.0),
        ("1790000030000", 30.0),
        ("2026-09-21T14:13:50+00:00", 30.0),
        ("2020-01-01T00:00:00Z", 0.0),
        ("soon", 0.0),
        ("-5", 0.0),
        ("nan", 0.0),
        ("inf", 0.0),
        ("1e308", 0.0),
        ("9" * 5000, 0.0),
        ("9" * 20 + "h", 0.0),
        ("9999-99-99T99:99:99Z", 0.0),
        ("", 0.0),
    ],
    ids=range(17),
)
def test_a_reset_is_read_as_it_is_written_or_not_at_all(value: str, seconds: float) -> None:
    said = {"x-ratelimit-remaining-requests": "1", "x-ratelimit-reset-requests": value}
    assert lefts(said)["requests"].resets_in_s == pytest.approx(seconds)


@pytest.mark.parametrize(
    ("value", "left"),
    [("-1", 0.0), ("-1e300", 0.0), ("1e300", 1e12), ("nan", None), ("inf", None), ("many", None), ("", None)],
    ids=range(7),
)
def test_less_than_nothing_is_nothing_and_garbage_is_not_a_number(value: str, left: float | None) -> None:
    found = lefts({"x-ratelimit-remaining-requests": value, "x-ratelimit-limit-requests": value})
    assert (found["requests"].remaining if found else None) == left


def test_a_response_without_headers_reports_nothing() -> None:
    assert parse_rate_limits({"content-type": "text/event-stream"}) == parse_rate_limits({})
    assert parse_rate_limits({}).quotas == ()
    assert parse_rate_limits({"retry-after": "7"}).retry_after_s == 7.0


NAMES = st.sampled_from(
    [
        *(f"x-ratelimit-{part}-{what}" for part in ("limit", "remaining", "reset") for what in ("requests", "tokens")),
        *(
            f"anthropic-ratelimit-{what}-{part}"
            for part in ("limit", "remaining", "reset")
            for what in ("requests", "tokens")
        ),
        "retry-after",
        "retry-after-ms",
        "date",
    ]
)


@given(st.dictionaries(NAMES, st.one_of(st.text(max_size=80), st.floats().map(str), st.integers().map(str))))
def test_any_header_value_is_bounded_or_ignored(headers: dict[str, str]) -> None:
    found = parse_rate_limits(headers, now_s=NOW_S)
    assert found.retry_after_s is None or 0 <= found.retry_after_s < math.inf
    for left in found.quotas:
        assert 0 <= left.remaining <= 1e12
        assert 0 <= left.limit <= 1e12
        assert 0 <= left.resets_in_s <= WAIT_MAX_S
