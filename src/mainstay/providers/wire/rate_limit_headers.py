"""Parses rate limit and Retry-After headers of model APIs. Invalid values count as absent.

Most providers write as OpenAI does (`x-ratelimit-remaining-requests`, a reset like `6m0s`), Azure and Groq among them.
Anthropic has its own header names, and its resets are timestamps. Some providers have limits per minute and per day.
Gemini, Bedrock and local servers send no such headers.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import lru_cache
from typing import NamedTuple

from mainstay.core.rate_limits import NO_RATE_LIMITS, WAIT_MAX_S, QuotaKind, RateLimitQuota, RateLimitStatus

VALUE_CHARS_MAX = 64
COUNT_MAX = 1e12
_DURATION = re.compile(r"(\d{1,12}(?:\.\d{1,12})?)(ms|us|µs|d|h|m|s|)")
_UNIT_S = {"us": 1e-6, "µs": 1e-6, "ms": 0.001, "": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_EPOCH_MIN_S, _EPOCH_MIN_MS = 1e9, 1e11  # a number from here on is a Unix timestamp, in seconds or in milliseconds


class RateLimitHeaders(NamedTuple):
    """Header names of one rate limit, with the limit's name and what it counts."""

    name: str
    kind: QuotaKind
    remaining: str
    limit: str
    reset: str


def _openai_headers(name: str, kind: QuotaKind) -> RateLimitHeaders:
    return RateLimitHeaders(
        name, kind, f"x-ratelimit-remaining-{name}", f"x-ratelimit-limit-{name}", f"x-ratelimit-reset-{name}"
    )


def _anthropic_headers(name: str, kind: QuotaKind) -> RateLimitHeaders:
    start = f"anthropic-ratelimit-{name}"
    return RateLimitHeaders(name, kind, f"{start}-remaining", f"{start}-limit", f"{start}-reset")


_GENERIC_HEADERS = RateLimitHeaders(
    "requests", "requests", "x-ratelimit-remaining", "x-ratelimit-limit", "x-ratelimit-reset"
)
_HEADERS_BY_MARKER: dict[str, tuple[RateLimitHeaders, ...]] = {  # by a header that only this family sends
    "x-ratelimit-remaining-requests": (_openai_headers("requests", "requests"), _openai_headers("tokens", "tokens")),
    "x-ratelimit-remaining-tokens": (_openai_headers("tokens", "tokens"),),
    "anthropic-ratelimit-requests-remaining": (
        _anthropic_headers("requests", "requests"),
        _anthropic_headers("tokens", "tokens"),
        _anthropic_headers("input-tokens", "input"),
        _anthropic_headers("output-tokens", "output"),
    ),
    "anthropic-ratelimit-tokens-remaining": (_anthropic_headers("tokens", "tokens"),),
    "x-ratelimit-remaining-requests-day": (
        _openai_headers("requests-day", "requests"),
        _openai_headers("requests-minute", "requests"),
        _openai_headers("tokens-minute", "tokens"),
        _openai_headers("tokens-day", "tokens"),
    ),
    "x-ratelimit-remaining-req-minute": (
        _openai_headers("req-minute", "requests"),
        _openai_headers("tokens-minute", "tokens"),
    ),
    "x-ratelimit-remaining": (_GENERIC_HEADERS,),
}


def parse_rate_limits(headers: Mapping[str, str], *, now_s: float | None = None) -> RateLimitStatus:
    """Return the rate limits in these headers. Header names must be in lower case, as `http1` returns them.

    `now_s` is the Unix time that timestamps are compared with; None means the system clock.
    """
    asked_s = _parse_requested_wait_s(headers, now_s)
    for marker, family in _HEADERS_BY_MARKER.items():
        if marker in headers:
            lefts = tuple(left for names in family if (left := _parse_quota(headers, names, now_s)) is not None)
            return RateLimitStatus(lefts, asked_s)
    return NO_RATE_LIMITS if asked_s is None else RateLimitStatus((), asked_s)


def _parse_quota(headers: Mapping[str, str], names: RateLimitHeaders, now_s: float | None) -> RateLimitQuota | None:
    left = _parse_count(headers.get(names.remaining))
    if left is None:
        return None
    limit = _parse_count(headers.get(names.limit)) or 0.0
    return RateLimitQuota(names.name, names.kind, left, limit, _parse_reset_s(headers.get(names.reset), headers, now_s))


def _parse_count(value: str | None) -> float | None:
    """Return the number, at least 0; None if the value is not a finite number."""
    if not value or len(value) > VALUE_CHARS_MAX:
        return None
    try:
        number = float(value)
    except ValueError:
        return None
    return min(max(number, 0.0), COUNT_MAX) if math.isfinite(number) else None


def _parse_reset_s(value: str | None, headers: Mapping[str, str], now_s: float | None) -> float:
    """Return the seconds until a reset: `20ms`, `6m0s`, `7`, a date, or a Unix timestamp in seconds or milliseconds.

    0 for anything else.
    """
    if not value or len(value) > VALUE_CHARS_MAX:
        return 0.0
    number = _parse_number(value)
    if number is None:
        seconds = parse_duration_s(value) or seconds_until(value, headers, now_s) or 0.0
    elif number >= _EPOCH_MIN_S:
        now = time.time() if now_s is None else now_s
        seconds = (number / 1000 if number >= _EPOCH_MIN_MS else number) - now
    else:
        seconds = number
    return seconds if 0 < seconds <= WAIT_MAX_S else 0.0


# --- when to retry --------------------------------------------------------------------------------


def parse_retry_after_s(headers: Mapping[str, str], *, now_s: float) -> float | None:
    """Return how long an error response asks to wait, in seconds; None if its headers do not say."""
    asked_s = _parse_requested_wait_s(headers, now_s)
    if asked_s is not None or headers.get("retry-after"):
        return asked_s
    return _longest_reset_s(headers, now_s)


def _parse_requested_wait_s(headers: Mapping[str, str], now_s: float | None) -> float | None:
    wait_ms = _parse_number(headers.get("retry-after-ms"))
    if wait_ms is not None:
        return min(wait_ms / 1000, WAIT_MAX_S)
    value = headers.get("retry-after")
    if not value:
        return None
    wait_s = _parse_number(value)
    if wait_s is None:
        wait_s = seconds_until(value, headers, now_s)
    return min(wait_s, WAIT_MAX_S) if wait_s is not None else None


def _parse_number(value: str | None) -> float | None:
    try:
        number = float(value) if value else -1.0
    except ValueError:
        return None
    return number if 0 <= number < math.inf else None


def seconds_until(value: str, headers: Mapping[str, str], now_s: float | None) -> float | None:
    """Return the seconds until a date, by the server's `Date` header if present; None if it is past or invalid."""
    moment = _parse_timestamp(value)
    if moment is None:
        return None
    now = _parse_timestamp(headers.get("date", ""))
    if now is None:
        now = time.time() if now_s is None else now_s
    return moment - now if moment >= now else None


@lru_cache(maxsize=256)  # a response repeats the same few timestamps
def _parse_timestamp(value: str) -> float | None:
    if len(value) > VALUE_CHARS_MAX:
        return None
    for parse in (datetime.fromisoformat, _parse_http_date):
        try:
            when = parse(value)
            return when.replace(tzinfo=when.tzinfo or UTC).timestamp()
        except (ValueError, TypeError, IndexError, OverflowError):
            continue
    return None


def _parse_http_date(value: str) -> datetime:
    from email.utils import parsedate_to_datetime  # slow to import, and few providers send dates

    return parsedate_to_datetime(value)


def _longest_reset_s(headers: Mapping[str, str], now_s: float) -> float | None:
    """Return the longest reset among the limits that are used up; None if there is none."""
    used_up = (left.resets_in_s for left in parse_rate_limits(headers, now_s=now_s).quotas if left.remaining == 0)
    return max(used_up, default=0.0) or None


def parse_duration_s(value: str) -> float:
    """Parse `6m0s`, `1.5s`, `120ms` or `7`, as OpenAI-compatible APIs write durations; 0 for anything else."""
    if not value or _DURATION.sub("", value):
        return 0.0
    return sum(float(number) * _UNIT_S[unit] for number, unit in _DURATION.findall(value))
