"""Cron schedules and ISO times in a time zone: computes the due times of a trigger.

Daylight saving time and other clock changes:

- Fixed times (neither minute nor hour begins with `*`, as `30 2 * * *`) fire once a day. One that is skipped, because
  clocks go forward over it, fires right after the gap; several in the same gap fire once together. One that occurs
  twice, because clocks go back over it, fires the first time.
- Wildcard times (minute or hour begins with `*`, as `*/15 * * * *` or `*/30 2 * * *`) follow the local clock: they
  fire whenever it shows such a time, twice where it does so twice, not at all where it never does.
- An ISO time without an offset is treated like a fixed time: right after the gap, or the first of two.

If day of month and day of week are both given, either of them has to match; if one begins with `*`, both have to. Due
times strictly increase, whatever the zone does. Zone files are read again after a minute, so that the rules of a newly
installed `tzdata` apply without a restart.

cronsim matches the fields on local times without a zone. The conversion to UTC is done here: cronsim's own, in steps of
an hour, is wrong where clocks change by half an hour, at midnight, or by a day.
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

from mainstay.core.errors import InputRefused

SCHEDULE_CHARS_MAX = 200
ZONE_CHARS_MAX = 100
ZONE_AGE_S = 60.0

_EPOCH: Final = datetime(1970, 1, 1)
_DAY_S = 86_400
# Longer than any change of a clock (Samoa once skipped a day), shorter than the time between two changes.
_WINDOW_S = 2 * _DAY_S
_TIME_S_MAX = 220_000_000_000  # in the year 8941: nothing is due after that
_LOOKBACK_S = 50 * 366 * _DAY_S  # cronsim does not find rarer times either

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
_ISO_TIME = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2})[Tt ]([0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]{1,6})?)?)"
    r"([Zz]|[+-][0-9]{2}:?[0-9]{2})?"
)
_ZONE_NAME = re.compile(r"[A-Za-z0-9_+\-]+(?:/[A-Za-z0-9_+\-]+)*")


class ScheduleInvalid(InputRefused):
    """Not a valid schedule, or an unknown time zone."""


# --- zones ---------------------------------------------------------------------------------------


class TimeZoneCache:
    """Cache of the time zones on disk, read again after a minute. A zone whose file disappears stays as it was."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._cache: dict[str, tuple[ZoneInfo, float]] = {}

    def get(self, name: str) -> ZoneInfo:
        now = self._monotonic()
        cached = self._cache.get(name)
        if cached is not None and now - cached[1] < ZONE_AGE_S:
            return cached[0]
        zone = _read_zone(name) or (cached[0] if cached is not None else None)
        if zone is None:
            raise ScheduleInvalid(_unknown_zone_message(name))
        self._cache[name] = (zone, now)
        return zone


_time_zones = TimeZoneCache()


def _read_zone(name: str) -> ZoneInfo | None:
    # "right/…" counts leap seconds, and would be half a minute off
    if len(name) > ZONE_CHARS_MAX or not _ZONE_NAME.fullmatch(name) or name.startswith("right/"):
        return None
    try:
        return ZoneInfo.no_cache(name)
    except (ZoneInfoNotFoundError, OSError, ValueError):  # no such file, a folder, or not a zone file
        return None


def _unknown_zone_message(name: str) -> str:
    from difflib import get_close_matches  # needed for mistakes only
    from zoneinfo import available_timezones

    wanted = name[:ZONE_CHARS_MAX].casefold().replace(" ", "_")
    available = sorted(available_timezones())
    zones = {zone.casefold(): zone for zone in available}
    cities = {zone.rsplit("/", 1)[-1].casefold(): zone for zone in available if "/" in zone}
    near = get_close_matches(wanted, zones, n=1) or get_close_matches(wanted, cities, n=1)
    hint = f"; did you mean {(cities | zones)[near[0]]}?" if near else "."
    return f"there is no time zone {name[:ZONE_CHARS_MAX]!r}{hint}"


def _utc_offset(second: int, zone: ZoneInfo) -> int:
    return _to_seconds(datetime.fromtimestamp(second, zone).utcoffset())


def _to_seconds(delta: timedelta | None) -> int:
    assert delta is not None, "a zone knows its offset"
    return delta.days * _DAY_S + delta.seconds


def _next_offset_change(start: int, end: int, zone: ZoneInfo) -> int:
    """Return the first second after `start` with another UTC offset, or `end` if there is none."""
    steady = _utc_offset(start, zone)
    if _utc_offset(end, zone) == steady:
        return end
    while end - start > 1:
        middle = (start + end) // 2
        if _utc_offset(middle, zone) == steady:
            start = middle
        else:
            end = middle
    return end


def _local_to_utc(local: int, zone: ZoneInfo) -> int:
    """Return the UTC second of a local time: the first of two, or right after the gap if it does not occur."""
    local_time = _EPOCH + timedelta(seconds=local)
    before, after = (_to_seconds(local_time.replace(tzinfo=zone, fold=fold).utcoffset()) for fold in (0, 1))
    if before >= after:  # it occurs once, or twice and the first is meant
        return local - before
    return _next_offset_change(local - after, local - before, zone)


# --- times ---------------------------------------------------------------------------------------


def is_iso_time(schedule: str) -> bool:
    """True if this is written like an ISO time, False if like cron fields."""
    return re.match(r"[0-9]{4}-", schedule) is not None


class TriggerSchedule:
    """The due times of one schedule, in milliseconds since 1970. An ISO time is due once. The constructor raises
    ScheduleInvalid."""

    def __init__(self, schedule: str, timezone: str = "UTC", zones: TimeZoneCache = _time_zones) -> None:
        if len(schedule) > SCHEDULE_CHARS_MAX:
            raise ScheduleInvalid(f"a schedule has at most {SCHEDULE_CHARS_MAX} characters.")
        self._timezone = timezone
        self._zones = zones
        zones.get(timezone)
        self._fields, self._iso_time = "", (0, False)
        if is_iso_time(schedule.strip()):
            self._iso_time = _parse_iso_time(schedule.strip())
        else:
            self._fields = _parse_cron(schedule)
        minute, hour = (self._fields.split() or ["", ""])[:2]
        self._is_fixed = not minute.startswith("*") and not hour.startswith("*")

    def next_after(self, ms: int) -> int | None:
        """Return the next due time strictly after `ms`; None if there is none."""
        second = self._next_due(ms // 1000)
        return None if second is None else second * 1000

    def between(self, start_ms: int, end_ms: int, limit: int) -> list[int]:
        """Return the first `limit` due times after the start, up to and including the end, in order."""
        due = takewhile(lambda second: second * 1000 <= end_ms, self._iter_due(start_ms // 1000))
        return [second * 1000 for second in islice(due, limit)]

    def last_before(self, ms: int) -> int | None:
        """Return the newest due time strictly before `ms`, of the last fifty years; None if there is none."""
        end = -(-ms // 1000)  # the first second that is not before it
        low, back = end, 60
        while (due := self._next_due(low)) is None or due >= end:
            if low <= end - _LOOKBACK_S or low <= 0:
                return None
            low, back = end - back, back * 8
        low, high = due, end  # binary search: `low` is due, and nothing is between `high` and `end`
        while high - low > 1:
            middle = (low + high) // 2
            due = self._next_due(middle)
            if due is not None and due < end:
                low = due
            else:
                high = middle
        return low * 1000

    def _next_due(self, second: int) -> int | None:
        return next(self._iter_due(second), None)

    def _iter_due(self, second: int) -> Iterator[int]:
        second = max(second, 0)
        if second >= _TIME_S_MAX:
            return iter(())
        zone = self._zones.get(self._timezone)
        if not self._fields:
            at, absolute = self._iso_time
            moment = at if absolute else _local_to_utc(at, zone)
            return iter([moment] if moment > second else [])
        return self._iter_fixed(second, zone) if self._is_fixed else self._iter_wildcard(second, zone)

    def _iter_fixed(self, second: int, zone: ZoneInfo) -> Iterator[int]:
        last = second
        for local in _match_local_times(self._fields, second + _utc_offset(second, zone)):
            moment = _local_to_utc(local, zone)
            if moment > last:  # neither the second of two nor another one in the same gap
                last = moment
                yield moment

    def _iter_wildcard(self, second: int, zone: ZoneInfo) -> Iterator[int]:
        """Yield due times interval by interval; within one the UTC offset is constant."""
        start = second + 1
        while start < _TIME_S_MAX:
            offset = _utc_offset(start, zone)
            end = _next_offset_change(start, start + _WINDOW_S, zone)
            for local in _match_local_times(self._fields, start + offset - 1):
                if local - offset >= end:
                    break
                yield local - offset
            else:
                return
            if end == start + _WINDOW_S:  # skip ahead: whatever the clock changes, none is due long before this one
                end = max(end, local - offset - _WINDOW_S)
            start = end


def _match_local_times(fields: str, local: int) -> Iterator[int]:
    """Yield the local times after this one that match the fields; ends after fifty years without a match."""
    from cronsim import CronSim  # on first use

    for match in CronSim(fields, _EPOCH + timedelta(seconds=local)):
        yield _to_seconds(match - _EPOCH)


# --- parsing -------------------------------------------------------------------------------------


def _parse_iso_time(text: str) -> tuple[int, bool]:
    """Return seconds since 1970, and whether they are UTC (an offset is given) or local time."""
    match = _ISO_TIME.fullmatch(text)
    example = "write it like 2026-03-01T09:00:00, with or without an offset"
    if match is None:
        raise ScheduleInvalid(f"{text!r} is not an ISO 8601 time; {example}.")
    day, clock, offset = match.groups()
    try:
        local_time = datetime.fromisoformat(f"{day}T{clock}")
        delta = datetime.fromisoformat(f"{day}T00:00{offset.upper()}").utcoffset() if offset else None
    except ValueError:
        raise ScheduleInvalid(f"{text!r} is not an ISO 8601 time: there is no such day, time or offset.") from None
    seconds = _to_seconds(local_time - _EPOCH)
    if not _DAY_S <= seconds < _TIME_S_MAX - _DAY_S:
        raise ScheduleInvalid(f"{text!r} is too far away: years go from 1970 to 8940.")
    return seconds - (_to_seconds(delta) if delta is not None else 0), offset is not None


@lru_cache(maxsize=1024)
def _parse_cron(schedule: str) -> str:
    """Return five valid cron fields. Raises ScheduleInvalid, which names the field that is wrong."""
    from cronsim import CronSim, CronSimError  # on first use

    parts = schedule.upper().split()
    if parts and parts[0].startswith("@"):
        fields_of_nickname = _NICKNAMES.get(" ".join(parts).lower())
        if fields_of_nickname is None:
            raise ScheduleInvalid(f"{schedule!r} is not known; there are {', '.join(_NICKNAMES)}.")
        return fields_of_nickname
    if len(parts) == 6:
        raise ScheduleInvalid("seconds are not supported: a cron schedule has five fields.")
    if len(parts) != 5:
        raise ScheduleInvalid(
            f"{schedule!r} is not a schedule: write five cron fields (minute, hour, day of the month, month, day of "
            "the week), for example 0 9 * * MON-FRI, or an ISO time."
        )
    for index, name in enumerate(_FIELDS):
        others = ["0", "0", "*", "*", "*"]
        others[index] = parts[index]
        try:
            CronSim(" ".join(others), _EPOCH)
        except CronSimError:
            raise ScheduleInvalid(f"{parts[index]!r} cannot be read as the {name} of a cron schedule.") from None
    fields = " ".join(parts)
    try:
        ever_due = next(CronSim(fields, datetime(2000, 1, 1)), None) is not None
    except CronSimError:
        ever_due = False
    if not ever_due:
        raise ScheduleInvalid(f"{fields!r} never comes: no month that it names has such a day.")
    return fields
