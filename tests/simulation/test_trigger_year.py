"""Years of cron schedules over every change of clocks, against two others (F29).

The first is written here straight from the policy in `triggers/schedule.py`: it walks through a year minute by minute,
asks what the clock on the wall shows, and knows nothing of how the real one jumps. It uses a zone in one direction
only, from a moment to the clock. The second is croniter, which has another policy for changes of clocks: wherever
the two differ, it is by one of the differences that are named here, and they are counted.

Sampled by default around every change of clocks and every leap day; whole years with MAINSTAY_TEST_ALL=1.
"""

from __future__ import annotations

import calendar
import os
import random
from bisect import bisect_right
from collections import Counter
from datetime import UTC, date, datetime, timedelta
from functools import cache, lru_cache
from itertools import takewhile
from typing import NamedTuple
from zoneinfo import ZoneInfo

import pytest
from croniter import croniter
from cronsim import CronSim

from mainstay.triggers.schedule import TriggerSchedule

WHOLE = os.environ.get("MAINSTAY_TEST_ALL") == "1"
DAY = 86_400
MARGIN = 2 * DAY

# what each year is here for; those with changes are over, so that no new release of tzdata moves them
YEARS = [
    ("America/New_York", 2025, "an hour at two in the morning"),
    ("Europe/Lisbon", 2025, "an hour, at one in the morning"),
    ("Europe/Dublin", 2024, "its winter is the exception; a leap year"),
    ("Australia/Lord_Howe", 2025, "half an hour, in the south"),
    ("Africa/Casablanca", 2024, "four weeks around Ramadan; a leap year"),
    ("Africa/Cairo", 2024, "at midnight; a leap year"),
    ("America/Havana", 2025, "at midnight, back from one o'clock"),
    ("America/Sao_Paulo", 2018, "midnight is left out"),
    ("Antarctica/Troll", 2025, "two hours"),
    ("Asia/Kolkata", 2028, "never, at half an hour's distance; a leap year"),
    ("Asia/Pyongyang", 2018, "half an hour for good"),
    ("Asia/Kathmandu", 1986, "a quarter of an hour for good"),
    ("Asia/Gaza", 2023, "twice within a month"),
    ("Europe/Istanbul", 2016, "and then never again"),
    ("Pacific/Apia", 2011, "a whole day is left out"),
    ("Pacific/Kwajalein", 1993, "another"),
    ("America/Juneau", 1983, "two hours back"),
    ("Africa/Monrovia", 1972, "by 44 minutes and 30 seconds"),
]

SCHEDULES = [
    *("* * * * *", "*/5 * * * *", "*/7 * * * *", "*/15 * * * *", "1-59/2 * * * *", "0 * * * *", "30 * * * *"),
    *("15,45 * * * *", "59 * * * *", "0 */2 * * *", "0 */6 * * *", "30 */3 * * *", "20 */5 * * *", "*/20 */4 * * *"),
    *("* 0 * * *", "* 1 * * *", "* 2 * * *", "* 3 * * *", "*/10 0 * * *", "*/10 1 * * *", "*/10 2 * * *"),
    *("*/30 2 * * *", "*/10 3 * * *", "*/10 23 * * *", "*/15 0-3 * * *", "*/5 1,2 * * 0", "*/30 * * * SUN"),
    *("0 0 * * *", "30 0 * * *", "59 0 * * *", "0 1 * * *", "30 1 * * *", "45 1 * * *", "59 1 * * *", "0 2 * * *"),
    *("15 2 * * *", "30 2 * * *", "59 2 * * *", "0 3 * * *", "30 3 * * *", "30 23 * * *", "59 23 * * *"),
    *("0,15,30,45 2 * * *", "0,30 1 * * *", "0 0-23 * * *", "0-59 2 * * *", "0-59 1 * * *", "30 0-23/2 * * *"),
    *("0 2,3 * * *", "30 2,3 * * *", "5 0,12 * * *", "50 1,2 * * *", "0 9 * * 1-5", "0 9 * * MON-FRI", "30 2 * * SUN"),
    *("30 1 * * 7", "0 12 * * 0,6", "0 0 * * SAT", "0 0 1 * *", "30 2 1 * *", "0 0 29 2 *", "30 2 29 2 *"),
    *("*/20 * 29 2 *", "0 0 31 * *", "0 9 30,31 * *", "0 0 1 1 *", "59 23 31 12 *", "30 9 30 12 *", "* 9 30 12 *"),
    *("0 0 1 JAN,APR,JUL,OCT *", "0 6 1-7 * MON", "0 6 1,15 * FRI", "0 6 13 * 5", "0 6 */10 * 1", "0 6 1-7 * *"),
    *("30 2 * 3 SUN", "30 2 8-14 3 *", "*/30 * 1-7 11 *", "0 4 * 3,10,11 *", "0 0 * MAR-MAY 5", "44 0 7 1 *"),
]


def test_the_set_is_as_large_as_it_says() -> None:
    assert len(set(SCHEDULES)) == len(SCHEDULES) >= 60
    assert len({zone for zone, _, _ in YEARS}) >= 15
    assert sum(bool(changes(zone, year)) for zone, year, _ in YEARS) >= 15


# --- the policy, by brute force ------------------------------------------------------------------


class Fields(NamedTuple):
    minutes: frozenset[int]
    hours: frozenset[int]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]  # Sunday is 0
    both: bool  # day of the month and day of the week
    fixed: bool

    @property
    def clock(self) -> frozenset[int]:
        """What a clock may show, in seconds of the day."""
        return frozenset(3600 * hour + 60 * minute for hour in self.hours for minute in self.minutes)


@cache
def on_day(fields: Fields, day: int) -> bool:
    found = date(1970, 1, 1) + timedelta(days=day)
    if found.month not in fields.months:
        return False
    of_month, of_week = found.day in fields.days, found.isoweekday() % 7 in fields.weekdays
    return (of_month and of_week) if fields.both else (of_month or of_week)


NAMES = {name.upper(): number for number, name in enumerate(calendar.month_abbr) if name}
WEEK = {name: number for number, name in enumerate(["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"])}


def numbers(text: str, low: int, high: int, names: dict[str, int]) -> frozenset[int]:
    found: set[int] = set()
    for term in text.split(","):
        span, _, step = term.partition("/")
        first, _, last = span.partition("-")
        if span == "*":
            start, end = low, high
        else:
            start = names[first] if first in names else int(first)
            end = (names[last] if last in names else int(last)) if last else (high if step else start)
        found.update(range(start, end + 1, int(step or 1)))
    return frozenset(found)


def parsed(schedule: str) -> Fields:
    minute, hour, day, month, weekday = schedule.split()
    return Fields(
        numbers(minute, 0, 59, {}),
        numbers(hour, 0, 23, {}),
        numbers(day, 1, 31, {}),
        numbers(month, 1, 12, NAMES),
        frozenset(number % 7 for number in numbers(weekday, 0, 7, WEEK)),
        both=day.startswith("*") or weekday.startswith("*"),
        fixed=not minute.startswith("*") and not hour.startswith("*"),
    )


class Walk:
    """What the clock on the wall shows, at every minute of a stretch of time (every half, where offsets have one)."""

    def __init__(self, zone: str, start: int, end: int) -> None:
        info = ZoneInfo(zone)
        step = 30 if zone == "Africa/Monrovia" else 60
        self.moments = range(start, end, step)
        self.shown = [moment + offset(moment, info) for moment in self.moments]
        self.first: dict[int, int] = {}  # when a time is shown for the first time
        self.latest: list[int] = []  # the latest that was shown until then
        latest = self.shown[0]
        for moment, shown in zip(self.moments, self.shown, strict=True):
            self.first.setdefault(shown, moment)
            latest = max(latest, shown)
            self.latest.append(latest)

    def due(self, fields: Fields) -> list[int]:
        clock = fields.clock
        if fields.fixed:
            wanted = range(self._whole(), self.latest[-1] + 1, 60)
            return sorted({self._once(one) for one in wanted if one % DAY in clock and on_day(fields, one // DAY)})
        walked = zip(self.moments, self.shown, strict=True)
        return [moment for moment, shown in walked if shown % DAY in clock and on_day(fields, shown // DAY)]

    def _whole(self) -> int:
        return -(-self.shown[0] // 60) * 60

    def _once(self, local: int) -> int:
        """The first time that it is shown; if it never is, the first moment that shows something later."""
        if local in self.first:
            return self.first[local]
        return self.moments[bisect_right(self.latest, local)]


def offset(moment: int, info: ZoneInfo) -> int:
    away = datetime.fromtimestamp(moment, info).utcoffset()
    assert away is not None
    return int(away.total_seconds())


def begins(year: int) -> int:
    return int(datetime(year, 1, 1, tzinfo=UTC).timestamp())


@cache
def changes(zone: str, year: int) -> list[int]:
    """Every hour of a year in which a clock is changed."""
    info = ZoneInfo(zone)
    hours = range(begins(year) - DAY, begins(year + 1) + DAY, 3600)
    return [hour for hour in hours if offset(hour, info) != offset(hour + 3600, info)]


def special(zone: str, year: int) -> list[tuple[int, int]]:
    """A day before and after each special time of a year."""
    return [(at - DAY, at + DAY) for at in (*changes(zone, year), begins(year) + 59 * DAY)]


def stretches(zone: str, year: int) -> list[tuple[int, int]]:
    return [(begins(year) - DAY, begins(year + 1) + DAY)] if WHOLE else special(zone, year)


@lru_cache(maxsize=8)
def walked(zone: str, start: int, end: int) -> Walk:
    return Walk(zone, start - MARGIN, end + MARGIN)


@pytest.mark.parametrize(("zone", "year"), [(zone, year) for zone, year, _ in YEARS])
def test_every_schedule_is_due_when_the_policy_says_over_every_change_of_clocks_f29(zone: str, year: int) -> None:
    compared = 0
    for start, end in stretches(zone, year):
        walk = walked(zone, start, end)
        for schedule in SCHEDULES:
            wanted = [moment for moment in walk.due(parsed(schedule)) if start < moment <= end]
            times = TriggerSchedule(schedule, zone)
            found = [ms // 1000 for ms in times.between(start * 1000, end * 1000, 1_000_000)]
            assert found == wanted, (schedule, difference(found, wanted, zone))
            compared += len(found)
    assert compared > 1000


@pytest.mark.parametrize(("zone", "year"), [(zone, year) for zone, year, _ in YEARS])
def test_whenever_one_asks_the_next_and_the_last_time_are_those_of_the_policy_f29(zone: str, year: int) -> None:
    """A process may start at any moment: in the second of two hours, or at the very moment of a change."""
    chance = random.Random(f"{zone} {year}")
    for start, end in special(zone, year):
        walk = walked(zone, start, end)
        for schedule in SCHEDULES if WHOLE else chance.sample(SCHEDULES, 20):
            dues, times = walk.due(parsed(schedule)), TriggerSchedule(schedule, zone)
            for _ in range(6):
                asked = chance.randrange(start, end) * 1000 + chance.choice([0, 0, 1, 500, 999])
                if dues and chance.random() < 0.4:
                    asked = chance.choice(dues) * 1000 + chance.choice([-1, 0, 1])
                later = [due for due in dues if due * 1000 > asked]
                earlier = [due for due in dues if due * 1000 < asked]
                if later:
                    assert times.next_after(asked) == later[0] * 1000, (schedule, asked)
                if earlier:
                    assert times.last_before(asked) == earlier[-1] * 1000, (schedule, asked)


def difference(found: list[int], wanted: list[int], zone: str) -> dict[str, list[str]]:
    def shown(moments: set[int]) -> list[str]:
        return [datetime.fromtimestamp(one, ZoneInfo(zone)).isoformat() for one in sorted(moments)[:5]]

    return {"too many": shown({*found} - {*wanted}), "missing": shown({*wanted} - {*found})}


# --- others --------------------------------------------------------------------------------------


def by_croniter(schedule: str, zone: str, start: int, end: int) -> list[int]:
    found, times = [], croniter(schedule, datetime.fromtimestamp(start, ZoneInfo(zone)))
    while (moment := int(times.get_next(datetime).timestamp())) <= end:
        found.append(moment)
    return found


def by_cronsim(schedule: str, zone: str, start: int, end: int) -> list[int]:
    found = (int(shown.timestamp()) for shown in CronSim(schedule, datetime.fromtimestamp(start, ZoneInfo(zone))))
    return list(takewhile(lambda moment: moment <= end, found))


def why(schedule: str, zone: str, moment: int, *, extra: bool) -> str:
    """By which of its known differences croniter has, or lacks, this moment."""
    fields, info = parsed(schedule), ZoneInfo(zone)
    shown = datetime.fromtimestamp(moment, info)
    _, hour, day, _, weekday = schedule.split()
    if not extra and hour == "0-23" and offset(moment - 1, info) < offset(moment, info):
        return "a range of all hours counts as a wildcard"  # since croniter 7
    if extra and fields.fixed and shown.fold:
        return "a fixed time that comes twice fires twice"
    if extra and not fields.fixed and offset(moment - 1, info) < offset(moment, info):
        return "wildcard times that are left out fire after the gap"
    if extra and day.startswith("*/") and weekday != "*":
        return "a day with a step is either of the month or of the week"
    if not extra and not fields.fixed and shown.fold:
        return "wildcard times are left out in the second of two half hours"
    return f"unknown: {schedule} in {zone} at {shown.isoformat()}"


def test_croniter_agrees_but_for_differences_that_are_known_f29() -> None:
    chance = random.Random(29)
    rows, differing, reasons = 0, 0, Counter[str]()
    for zone, year, _ in YEARS:
        if zone == "Africa/Monrovia":  # its clock shows no whole minute at a whole minute
            continue
        for start, end in special(zone, year):
            for schedule in SCHEDULES if WHOLE else chance.sample(SCHEDULES, 4):
                ours = {
                    ms // 1000 for ms in TriggerSchedule(schedule, zone).between(start * 1000, end * 1000, 1_000_000)
                }
                theirs = set(by_croniter(schedule, zone, start, end))
                reasons.update(why(schedule, zone, one, extra=True) for one in theirs - ours)
                reasons.update(why(schedule, zone, one, extra=False) for one in ours - theirs)
                rows, differing = rows + 1, differing + (ours != theirs)
    print(f"{differing} of {rows} rows differ: {dict(reasons)}")
    assert not [reason for reason in reasons if reason.startswith("unknown")]
    assert 0 < differing < rows / 10


def test_the_policy_tells_a_wrong_implementation_from_a_right_one_f29() -> None:
    """cronsim's own way through a change of half an hour goes by whole hours, and misses what lies between."""
    zone, year = "Australia/Lord_Howe", 2025
    at = changes(zone, year)[0]
    walk = walked(zone, at - DAY, at + DAY)
    wanted = [one for one in walk.due(parsed("0 */2 * * *")) if at - DAY < one <= at + DAY]
    assert by_cronsim("0 */2 * * *", zone, at - DAY, at + DAY) != wanted
    assert by_cronsim("0 2 * * *", zone, at - DAY, at + DAY) == [
        one for one in walk.due(parsed("0 2 * * *")) if at - DAY < one <= at + DAY
    ]
