"""Times as people and models write them. Everything is UTC: a conversation has no place on earth."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from mainstay.core.errors import InputRefused

_AGO = re.compile(r"(\d{1,5})\s*([hdwmy])")
_HOURS = {"h": 1, "d": 24, "w": 24 * 7, "m": 24 * 30, "y": 24 * 365}
_MONTH = re.compile(r"(\d{4})-(\d{2})")
_CHARS_MAX = 40
_MS_MAX = 253_402_300_800_000  # the year 10000: further no calendar here goes

Moment = datetime | str | int


def moment(given: Moment | None, now_ms: int, *, end: bool = False) -> int | None:
    """Milliseconds since 1970, or None if nothing was given.

    A day or a month means all of it: as an end (exclusive) it is where the next one begins.
    """
    match given:
        case None | "":
            return None
        case bool():
            raise InputRefused(_not_a_time(given))
        case int():
            return _bounded(given)
        case datetime():
            return _ms(given)
        case str():
            return _read(given.strip()[:_CHARS_MAX], now_ms, end)
    raise InputRefused(_not_a_time(given))


def day(at_ms: int) -> str:
    """`2026-11-02`; nothing where no time is known."""
    return _utc(at_ms).strftime("%Y-%m-%d") if 0 < at_ms < _MS_MAX else ""


def _read(text: str, now_ms: int, end: bool) -> int:
    word = text.lower()
    if word == "now":
        return now_ms
    if word in ("today", "yesterday"):
        midnight = _utc(now_ms).replace(hour=0, minute=0, second=0, microsecond=0)
        return _ms(midnight + timedelta(days=(word == "today") - 1 + end))
    if ago := _AGO.fullmatch(word):
        return max(0, now_ms - int(ago[1]) * _HOURS[ago[2]] * 3_600_000)
    try:
        if month := _MONTH.fullmatch(text):
            first = datetime(int(month[1]), int(month[2]), 1)
            return _ms((first + timedelta(days=32)).replace(day=1) if end else first)
        read = datetime.fromisoformat(text.upper())
        return _ms(read + timedelta(days=1) if end and ":" not in text and "T" not in text.upper() else read)
    except OverflowError:
        return _MS_MAX  # "9999-12-31": for ever
    except ValueError:
        raise InputRefused(_not_a_time(text)) from None


def _utc(at_ms: int) -> datetime:
    return datetime.fromtimestamp(at_ms / 1000, UTC)


def _ms(read: datetime) -> int:
    aware = read if read.tzinfo is not None else read.replace(tzinfo=UTC)
    return _bounded((aware - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1))


def _bounded(at_ms: int) -> int:
    return min(max(at_ms, 0), _MS_MAX)


def _not_a_time(given: object) -> str:
    return f"{str(given)[:_CHARS_MAX]!r} is not a time: give 2026-11-02, 2026-11-02T15:30, today, yesterday or 7d (ago)"
