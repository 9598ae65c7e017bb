"""Parses time expressions such as `yesterday`, `7d` or `2026-11-02`. All times are UTC: a session has no time zone."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from mainstay.core.errors import InputRefused

_RELATIVE_TIME = re.compile(r"(\d{1,5})\s*([hdwmy])")
_UNIT_HOURS = {"h": 1, "d": 24, "w": 24 * 7, "m": 24 * 30, "y": 24 * 365}
_MONTH = re.compile(r"(\d{4})-(\d{2})")
_CHARS_MAX = 40
_MS_MAX = 253_402_300_800_000  # the year 10000, the end of datetime's range

TimeExpression = datetime | str | int


def parse_time(value: TimeExpression | None, now_ms: int, *, end: bool = False) -> int | None:
    """Return milliseconds since 1970, or None for None and "". Raises InputRefused.

    A day or a month means all of it: as an `end` (exclusive) it is the start of the next one.
    """
    match value:
        case None | "":
            return None
        case bool():
            raise InputRefused(_invalid_time_message(value))
        case int():
            return _clamp(value)
        case datetime():
            return _to_ms(value)
        case str():
            return _parse_text(value.strip()[:_CHARS_MAX], now_ms, end)
    raise InputRefused(_invalid_time_message(value))


def format_day(at_ms: int) -> str:
    """Format as `2026-11-02`; empty if the time is unknown."""
    return _to_datetime(at_ms).strftime("%Y-%m-%d") if 0 < at_ms < _MS_MAX else ""


def _parse_text(text: str, now_ms: int, end: bool) -> int:
    word = text.lower()
    if word == "now":
        return now_ms
    if word in ("today", "yesterday"):
        midnight = _to_datetime(now_ms).replace(hour=0, minute=0, second=0, microsecond=0)
        return _to_ms(midnight + timedelta(days=(word == "today") - 1 + end))
    if ago := _RELATIVE_TIME.fullmatch(word):
        return max(0, now_ms - int(ago[1]) * _UNIT_HOURS[ago[2]] * 3_600_000)
    try:
        if month := _MONTH.fullmatch(text):
            first = datetime(int(month[1]), int(month[2]), 1)
            return _to_ms((first + timedelta(days=32)).replace(day=1) if end else first)
        parsed = datetime.fromisoformat(text.upper())
        return _to_ms(parsed + timedelta(days=1) if end and ":" not in text and "T" not in text.upper() else parsed)
    except OverflowError:
        return _MS_MAX  # such as "9999-12-31" as an end
    except ValueError:
        raise InputRefused(_invalid_time_message(text)) from None


def _to_datetime(at_ms: int) -> datetime:
    return datetime.fromtimestamp(at_ms / 1000, UTC)


def _to_ms(value: datetime) -> int:
    aware = value if value.tzinfo is not None else value.replace(tzinfo=UTC)
    return _clamp((aware - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1))


def _clamp(at_ms: int) -> int:
    return min(max(at_ms, 0), _MS_MAX)


def _invalid_time_message(value: object) -> str:
    return f"{str(value)[:_CHARS_MAX]!r} is not a time: give 2026-11-02, 2026-11-02T15:30, today, yesterday or 7d (ago)"
