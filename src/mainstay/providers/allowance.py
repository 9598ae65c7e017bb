"""Reads what a provider's headers say is left, and when to come back. Foreign and untyped: garbage is nothing.

Most write as OpenAI does (`x-ratelimit-remaining-requests`, a reset like `6m0s`), so do Azure and Groq; Anthropic has
names of its own and resets that are moments. Some count by the minute and by the day. Gemini, Bedrock and servers on
one's own machine say nothing.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import lru_cache
from typing import NamedTuple

from mainstay.core.allowance import NOTHING, Allowance, Kind, Left

VALUE_CHARS_MAX = 64
COUNT_MAX = 1e12
RESET_MAX_S = 31 * 86400.0
_DURATION = re.compile(r"(\d{1,12}(?:\.\d{1,12})?)(ms|us|µs|d|h|m|s|)")
_UNIT_S = {"us": 1e-6, "µs": 1e-6, "ms": 0.001, "": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_EPOCH_S, _EPOCH_MS = 1e9, 1e11  # from here on a number is a moment


class _Names(NamedTuple):
    """Where one bound is told: its name here, what it counts, and the headers of what is left, the limit, the reset."""

    name: str
    kind: Kind
    left: str
    limit: str
    reset: str


def _openai(name: str, kind: Kind) -> _Names:
    return _Names(name, kind, f"x-ratelimit-remaining-{name}", f"x-ratelimit-limit-{name}", f"x-ratelimit-reset-{name}")


def _anthropic(name: str, kind: Kind) -> _Names:
    start = f"anthropic-ratelimit-{name}"
    return _Names(name, kind, f"{start}-remaining", f"{start}-limit", f"{start}-reset")


_PLAIN = _Names("requests", "requests", "x-ratelimit-remaining", "x-ratelimit-limit", "x-ratelimit-reset")
_FAMILIES: dict[str, tuple[_Names, ...]] = {  # by a header that tells them apart
    "x-ratelimit-remaining-requests": (_openai("requests", "requests"), _openai("tokens", "tokens")),
    "x-ratelimit-remaining-tokens": (_openai("tokens", "tokens"),),
    "anthropic-ratelimit-requests-remaining": (
        _anthropic("requests", "requests"),
        _anthropic("tokens", "tokens"),
        _anthropic("input-tokens", "input"),
        _anthropic("output-tokens", "output"),
    ),
    "anthropic-ratelimit-tokens-remaining": (_anthropic("tokens", "tokens"),),
    "x-ratelimit-remaining-requests-day": (
        _openai("requests-day", "requests"),
        _openai("requests-minute", "requests"),
        _openai("tokens-minute", "tokens"),
        _openai("tokens-day", "tokens"),
    ),
    "x-ratelimit-remaining-req-minute": (_openai("req-minute", "requests"), _openai("tokens-minute", "tokens")),
    "x-ratelimit-remaining": (_PLAIN,),
}


def read(headers: Mapping[str, str], *, now_s: float | None = None) -> Allowance:
    """Names of headers in lower case, as they come from `http1`."""
    asked_s = _asked_s(headers, now_s)
    for sign, family in _FAMILIES.items():
        if sign in headers:
            lefts = tuple(left for one in family if (left := _left(headers, one, now_s)) is not None)
            return Allowance(lefts, asked_s)
    return NOTHING if asked_s is None else Allowance((), asked_s)


def _left(headers: Mapping[str, str], names: _Names, now_s: float | None) -> Left | None:
    left = _count(headers.get(names.left))
    if left is None:
        return None
    limit = _count(headers.get(names.limit)) or 0.0
    return Left(names.name, names.kind, left, limit, _whole_in_s(headers.get(names.reset), headers, now_s))


def _count(value: str | None) -> float | None:
    """Less than nothing is nothing."""
    if not value or len(value) > VALUE_CHARS_MAX:
        return None
    try:
        number = float(value)
    except ValueError:
        return None
    return min(max(number, 0.0), COUNT_MAX) if math.isfinite(number) else None


def _whole_in_s(value: str | None, headers: Mapping[str, str], now_s: float | None) -> float:
    """`20ms`, `6m0s`, `7`, a moment, or a moment in seconds or milliseconds since 1970; 0 for anything else."""
    if not value or len(value) > VALUE_CHARS_MAX:
        return 0.0
    number = _number(value)
    if number is None:
        seconds = duration_s(value) or until_s(value, headers, now_s) or 0.0
    elif number >= _EPOCH_S:
        here = time.time() if now_s is None else now_s
        seconds = (number / 1000 if number >= _EPOCH_MS else number) - here
    else:
        seconds = number
    return seconds if 0 < seconds <= RESET_MAX_S else 0.0


# --- when to come back ---------------------------------------------------------------------------


def retry_after_s(headers: Mapping[str, str], *, now_s: float) -> float | None:
    """What a refusal's headers say, in seconds; None where they say nothing usable."""
    asked_s = _asked_s(headers, now_s)
    if asked_s is not None or headers.get("retry-after"):
        return asked_s
    return _reset_s(headers, now_s)


def _asked_s(headers: Mapping[str, str], now_s: float | None) -> float | None:
    wait_ms = _number(headers.get("retry-after-ms"))
    if wait_ms is not None:
        return min(wait_ms / 1000, RESET_MAX_S)
    value = headers.get("retry-after")
    if not value:
        return None
    wait_s = _number(value)
    if wait_s is None:
        wait_s = until_s(value, headers, now_s)
    return min(wait_s, RESET_MAX_S) if wait_s is not None else None


def _number(value: str | None) -> float | None:
    try:
        number = float(value) if value else -1.0
    except ValueError:
        return None
    return number if 0 <= number < math.inf else None


def until_s(value: str, headers: Mapping[str, str], now_s: float | None) -> float | None:
    """Seconds until a moment, by the server's own clock where it tells."""
    moment = _moment(value)
    if moment is None:
        return None
    here = _moment(headers.get("date", ""))
    if here is None:
        here = time.time() if now_s is None else now_s
    return moment - here if moment >= here else None


@lru_cache(maxsize=256)  # an answer has the same few moments several times
def _moment(value: str) -> float | None:
    if len(value) > VALUE_CHARS_MAX:
        return None
    for read_as in (datetime.fromisoformat, parsedate_to_datetime):
        try:
            when = read_as(value)
            return when.replace(tzinfo=when.tzinfo or UTC).timestamp()
        except (ValueError, TypeError, IndexError, OverflowError):
            continue
    return None


def _reset_s(headers: Mapping[str, str], now_s: float) -> float | None:
    """The longest reset among the allowances that are used up."""
    used_up = (left.whole_in_s for left in read(headers, now_s=now_s).lefts if left.left == 0)
    return max(used_up, default=0.0) or None


def duration_s(value: str) -> float:
    """`6m0s`, `1.5s`, `120ms`, `7`: as OpenAI and its like write it."""
    if not value or _DURATION.sub("", value):
        return 0.0
    return sum(float(number) * _UNIT_S[unit] for number, unit in _DURATION.findall(value))
