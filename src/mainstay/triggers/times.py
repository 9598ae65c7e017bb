"""When a trigger is due: five cron fields or an ISO time, read in a time zone.

Where clocks are changed, this is the policy:

- Fixed times (neither minute nor hour begins with `*`, as `30 2 * * *`) are each meant once a day. One that is
  skipped, because clocks go forward over it, fires right after the gap; several in the same gap fire once together.
  One that comes twice, because clocks go back over it, fires the first time.
- Wildcard times (minute or hour begins with `*`, as `*/15 * * * *` or `*/30 2 * * *`) go by real time: they fire
  whenever the clock on the wall shows such a time, twice where it does so twice, not at all where it never does.
- An ISO time without an offset is read like a fixed time: right after the gap, or the first of two.

The day is that of the month or that of the week where both are given, and both where one of them begins with `*`.
Due times strictly increase, whatever the zone does. Zones are read from disk again after a minute, so that the
rules of a newly installed `tzdata` hold without a restart.

The fields are matched by cronsim on times without a zone. How those become moments is done here: steps of an hour
from one local time to the next miss their mark where clocks change by half an hour, at midnight, or by a day.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from functools import lru_cache
from itertools import islice, takewhile
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from mainstay.core.errors import MainstayError

SCHEDULE_CHARS_MAX = 200
ZONE_CHARS_MAX = 100
ZONE_AGE_S = 60.0

_EPOCH: Final = datetime(1970, 1, 1)
_DAY_S = 86_400
_WINDOW_S = (
    2 * _DAY_S
)  # longer than any change of a clock (Samoa once left out a day), shorter than from one to the next
_LAST_S = 220_000_000_000  # in the year 8941: nothing is due after that
_BACK_S = 50 * 366 * _DAY_S  # what is rarer than this, cronsim does not find either

_NICKNAMES = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
_FIELDS = ("minute", "hour", "day of the month", "month", "day of the week")
_MOMENT = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2})[Tt ]([0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]{1,6})?)?)"
    r"([Zz]|[+-][0-9]{2}:?[0-9]{2})?"
)
_ZONE = re.compile(r"[A-Za-z0-9_+\-]+(?:/[A-Za-z0-9_+\-]+)*")


class ScheduleUnreadable(MainstayError):
    """This is no time, or a zone that is not known here."""


# --- zones ---------------------------------------------------------------------------------------


class Zones:
    """Time zones as they are on disk, read again after a minute. One that has gone since stays as it was."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._kept: dict[str, tuple[ZoneInfo, float]] = {}

    def get(self, name: str) -> ZoneInfo:
        now = self._monotonic()
        kept = self._kept.get(name)
        if kept is not None and now - kept[1] < ZONE_AGE_S:
            return kept[0]
        zone = _read_zone(name) or (kept[0] if kept is not None else None)
        if zone is None:
            raise ScheduleUnreadable(_unknown_zone(name))
        self._kept[name] = (zone, now)
        return zone


_zones = Zones()


def _read_zone(name: str) -> ZoneInfo | None:
    # "right/…" counts leap seconds, and would be half a minute off
    if len(name) > ZONE_CHARS_MAX or not _ZONE.fullmatch(name) or name.startswith("right/"):
        return None
    try:
        return ZoneInfo.no_cache(name)
    except (ZoneInfoNotFoundError, OSError, ValueError):  # no such file, a folder, or something else that lies there
        return None


def _unknown_zone(name: str) -> str:
    from difflib import get_close_matches  # only for those who made a mistake
    from zoneinfo import available_timezones

    wanted = name[:ZONE_CHARS_MAX].casefold().replace(" ", "_")
    known = sorted(available_timezones())
    whole = {one.casefold(): one for one in known}
    cities = {one.rsplit("/", 1)[-1].casefold(): one for one in known if "/" in one}
    near = get_close_matches(wanted, whole, n=1) or get_close_matches(wanted, cities, n=1)
    said = f"; did you mean {(cities | whole)[near[0]]}?" if near else "."
    return f"there is no time zone {name[:ZONE_CHARS_MAX]!r}{said}"


def _offset(second: int, zone: ZoneInfo) -> int:
    return _seconds(datetime.fromtimestamp(second, zone).utcoffset())


def _seconds(delta: timedelta | None) -> int:
    assert delta is not None, "a zone knows its offset"
    return delta.days * _DAY_S + delta.seconds


def _turn(start: int, end: int, zone: ZoneInfo) -> int:
    """The first second after `start` at which the clock is another, or `end`."""
    steady = _offset(start, zone)
    if _offset(end, zone) == steady:
        return end
    while end - start > 1:
        middle = (start + end) // 2
        if _offset(middle, zone) == steady:
            start = middle
        else:
            end = middle
    return end


def _moment(local: int, zone: ZoneInfo) -> int:
    """When a clock shows this: the first time, or right after the gap if it never does."""
    shown = _EPOCH + timedelta(seconds=local)
    before, after = (_seconds(shown.replace(tzinfo=zone, fold=fold).utcoffset()) for fold in (0, 1))
    if before >= after:  # there is one such time, or the first of two is meant
        return local - before
    return _turn(local - after, local - before, zone)


# --- times ---------------------------------------------------------------------------------------


def is_moment(schedule: str) -> bool:
    """True if this is written like an ISO time, False if like cron fields."""
    return re.match(r"[0-9]{4}-", schedule) is not None


class Times:
    """The due times of one schedule, in milliseconds. An ISO time is due once. Raises ScheduleUnreadable."""

    def __init__(self, schedule: str, timezone: str = "UTC", zones: Zones = _zones) -> None:
        if len(schedule) > SCHEDULE_CHARS_MAX:
            raise ScheduleUnreadable(f"a schedule has at most {SCHEDULE_CHARS_MAX} characters.")
        self._timezone = timezone
        self._zones = zones
        zones.get(timezone)
        self._fields, self._once = "", (0, False)
        if is_moment(schedule.strip()):
            self._once = _read_moment(schedule.strip())
        else:
            self._fields = _read_fields(schedule)
        minute, hour = (self._fields.split() or ["", ""])[:2]
        self._fixed = not minute.startswith("*") and not hour.startswith("*")

    def after(self, ms: int) -> int | None:
        """The next due time, strictly after this one."""
        found = self._next(ms // 1000)
        return None if found is None else found * 1000

    def between(self, start_ms: int, end_ms: int, limit: int) -> list[int]:
        """Those after the start, up to and including the end, in order; the first `limit` of them."""
        due = takewhile(lambda second: second * 1000 <= end_ms, self._from(start_ms // 1000))
        return [second * 1000 for second in islice(due, limit)]

    def last_before(self, ms: int) -> int | None:
        """The newest due time strictly before this one, of the last fifty years."""
        end = -(-ms // 1000)  # the first second that is not before it
        low, back = end, 60
        while (found := self._next(low)) is None or found >= end:
            if low <= end - _BACK_S or low <= 0:
                return None
            low, back = end - back, back * 8
        low, high = found, end  # `low` is due; nothing is known to be, from `high` on
        while high - low > 1:
            middle = (low + high) // 2
            found = self._next(middle)
            if found is not None and found < end:
                low = found
            else:
                high = middle
        return low * 1000

    def _next(self, second: int) -> int | None:
        return next(self._from(second), None)

    def _from(self, second: int) -> Iterator[int]:
        second = max(second, 0)
        if second >= _LAST_S:
            return iter(())
        zone = self._zones.get(self._timezone)
        if not self._fields:
            at, absolute = self._once
            moment = at if absolute else _moment(at, zone)
            return iter([moment] if moment > second else [])
        return self._by_clock(second, zone) if self._fixed else self._by_real_time(second, zone)

    def _by_clock(self, second: int, zone: ZoneInfo) -> Iterator[int]:
        last = second
        for local in _matches(self._fields, second + _offset(second, zone)):
            moment = _moment(local, zone)
            if moment > last:  # not the second one of two, nor another in the same gap
                last = moment
                yield moment

    def _by_real_time(self, second: int, zone: ZoneInfo) -> Iterator[int]:
        """Stretch by stretch, in each of which the clock is not changed."""
        start = second + 1
        while start < _LAST_S:
            offset = _offset(start, zone)
            end = _turn(start, start + _WINDOW_S, zone)
            for local in _matches(self._fields, start + offset - 1):
                if local - offset >= end:
                    break
                yield local - offset
            else:
                return
            if end == start + _WINDOW_S:  # rare ones: however clocks change, none comes long before this one
                end = max(end, local - offset - _WINDOW_S)
            start = end


def _matches(fields: str, local: int) -> Iterator[int]:
    """Local times after this one that fit the fields, for fifty years from each to the next."""
    from cronsim import CronSim  # on first use

    for shown in CronSim(fields, _EPOCH + timedelta(seconds=local)):
        yield _seconds(shown - _EPOCH)


# --- reading -------------------------------------------------------------------------------------


def _read_moment(text: str) -> tuple[int, bool]:
    """Seconds since 1970, and whether that is a moment or only what a clock shows."""
    found = _MOMENT.fullmatch(text)
    example = "write it like 2026-03-01T09:00:00, with or without an offset"
    if found is None:
        raise ScheduleUnreadable(f"{text!r} is no ISO time; {example}.")
    day, clock, offset = found.groups()
    try:
        shown = datetime.fromisoformat(f"{day}T{clock}")
        away = datetime.fromisoformat(f"{day}T00:00{offset.upper()}").utcoffset() if offset else None
    except ValueError:
        raise ScheduleUnreadable(f"{text!r} is no ISO time: there is no such day, time or offset.") from None
    seconds = _seconds(shown - _EPOCH)
    if not _DAY_S <= seconds < _LAST_S - _DAY_S:
        raise ScheduleUnreadable(f"{text!r} is too far away: years go from 1970 to 8940.")
    return seconds - (_seconds(away) if away is not None else 0), offset is not None


@lru_cache(maxsize=1024)
def _read_fields(schedule: str) -> str:
    from cronsim import CronSim, CronSimError  # on first use

    parts = schedule.upper().split()
    if parts and parts[0].startswith("@"):
        known = _NICKNAMES.get(" ".join(parts).lower())
        if known is None:
            raise ScheduleUnreadable(f"{schedule!r} is not known; there are {', '.join(_NICKNAMES)}.")
        return known
    if len(parts) == 6:
        raise ScheduleUnreadable("seconds are not supported: a cron schedule has five fields.")
    if len(parts) != 5:
        raise ScheduleUnreadable(
            f"{schedule!r} is no schedule: write five cron fields (minute, hour, day of the month, month, day of the "
            "week), as 0 9 * * MON-FRI, or an ISO time."
        )
    for place, name in enumerate(_FIELDS):
        alone = ["0", "0", "*", "*", "*"]
        alone[place] = parts[place]
        try:
            CronSim(" ".join(alone), _EPOCH)
        except CronSimError:
            raise ScheduleUnreadable(f"{parts[place]!r} cannot be read as the {name} of a cron schedule.") from None
    fields = " ".join(parts)
    try:
        comes = next(CronSim(fields, datetime(2000, 1, 1)), None) is not None
    except CronSimError:
        comes = False
    if not comes:
        raise ScheduleUnreadable(f"{fields!r} never comes: no month that it names has such a day.")
    return fields
