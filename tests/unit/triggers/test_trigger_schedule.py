"""When a trigger is due (F29): the written policy by example, time zones on disk, and invalid times."""

from __future__ import annotations

import os
import shutil
import zoneinfo
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mainstay.triggers.schedule import ScheduleInvalid, TimeZoneCache, TriggerSchedule, is_iso_time

YEARS_8941_MS = 220_000_000_000_000


def ms(text: str) -> int:
    return int(datetime.fromisoformat(text).timestamp() * 1000)


def shown(moments: list[int]) -> list[str]:
    return [datetime.fromtimestamp(one / 1000, UTC).strftime("%m-%dT%H:%M") for one in moments]


def due(schedule: str, zone: str, start: str, end: str) -> list[str]:
    return shown(TriggerSchedule(schedule, zone).between(ms(start), ms(end), 100))


NEW_YORK, LISBON = "America/New_York", "Europe/Lisbon"
SPRING = ("2025-03-08T12:00Z", "2025-03-10T12:00Z")  # New York goes from 2:00 to 3:00 at 7:00 UTC on the 9th
AUTUMN = ("2025-11-01T12:00Z", "2025-11-03T12:00Z")  # and from 2:00 to 1:00 at 6:00 UTC on the 2nd


@pytest.mark.parametrize(
    ("schedule", "times"),
    [
        ("30 2 * * *", ["03-09T07:00", "03-10T06:30"]),
        ("0,15,30,45 2 * * *", ["03-09T07:00", "03-10T06:00", "03-10T06:15", "03-10T06:30", "03-10T06:45"]),
        ("0 2,3 * * *", ["03-09T07:00", "03-10T06:00", "03-10T07:00"]),
        ("30 2,3 * * *", ["03-09T07:00", "03-09T07:30", "03-10T06:30", "03-10T07:30"]),
        ("30 1 * * *", ["03-09T06:30", "03-10T05:30"]),
        ("*/30 2 * * *", ["03-10T06:00", "03-10T06:30"]),
        ("30 */12 * * *", ["03-08T17:30", "03-09T05:30", "03-09T16:30", "03-10T04:30"]),
    ],
)
def test_clocks_go_forward_a_fixed_time_fires_right_after_the_gap_and_a_wildcard_by_real_time_f29(
    schedule: str, times: list[str]
) -> None:
    assert due(schedule, NEW_YORK, *SPRING) == times


@pytest.mark.parametrize(
    ("schedule", "times"),
    [
        ("30 1 * * *", ["11-02T05:30", "11-03T06:30"]),
        ("0 0-2 * * *", ["11-02T04:00", "11-02T05:00", "11-02T07:00", "11-03T05:00", "11-03T06:00", "11-03T07:00"]),
        ("*/30 1 * * *", ["11-02T05:00", "11-02T05:30", "11-02T06:00", "11-02T06:30", "11-03T06:00", "11-03T06:30"]),
        ("0 2 * * *", ["11-02T07:00", "11-03T07:00"]),
    ],
)
def test_clocks_go_back_a_fixed_time_fires_the_first_time_and_a_wildcard_whenever_it_is_shown_f29(
    schedule: str, times: list[str]
) -> None:
    assert due(schedule, NEW_YORK, *AUTUMN) == times


def test_asked_in_the_second_of_two_hours_a_fixed_time_of_the_first_does_not_come_again_f29() -> None:
    times = TriggerSchedule("50 1 * * *", NEW_YORK)
    asked = ms("2025-11-02T01:45-05:00")  # ten to two was shown fifty-five minutes ago
    assert times.next_after(asked) == ms("2025-11-03T01:50-05:00")
    assert times.last_before(asked) == ms("2025-11-02T01:50-04:00")


def test_a_day_that_was_left_out_fires_when_the_next_one_begins_f29() -> None:
    """Samoa had no 30th of December in 2011."""
    assert due("0 9 * * *", "Pacific/Apia", "2011-12-29T12:00Z", "2012-01-01T00:00Z") == [
        *("12-29T19:00", "12-30T10:00", "12-30T19:00", "12-31T19:00")
    ]
    assert due("* 9 30 12 *", "Pacific/Apia", "2011-12-01T00:00Z", "2012-01-31T00:00Z") == []


def test_the_leap_day_comes_every_four_years_f29() -> None:
    found = TriggerSchedule("0 12 29 2 *", LISBON).between(ms("2021-01-01T00:00Z"), ms("2033-01-01T00:00Z"), 10)
    assert [datetime.fromtimestamp(one / 1000, UTC).year for one in found] == [2024, 2028, 2032]
    assert TriggerSchedule("0 12 29 2 *").last_before(ms("2028-02-29T12:00Z")) == ms("2024-02-29T12:00Z")
    assert TriggerSchedule("0 0 29 2 *").next_after(ms("2096-03-01T00:00Z")) == ms("2104-02-29T00:00Z")  # 2100 has none


@pytest.mark.parametrize(
    ("text", "zone", "moment"),
    [
        ("2025-03-01T09:00:00", NEW_YORK, "2025-03-01T14:00Z"),
        ("2025-07-01T09:00:00", NEW_YORK, "2025-07-01T13:00Z"),
        ("2025-03-01T09:00:00Z", NEW_YORK, "2025-03-01T09:00Z"),
        ("2025-03-01t09:00:00z", NEW_YORK, "2025-03-01T09:00Z"),
        ("2025-03-01T09:00:00+05:30", NEW_YORK, "2025-03-01T03:30Z"),
        ("2025-03-01T09:00:00-0800", NEW_YORK, "2025-03-01T17:00Z"),
        ("2025-03-01 09:00", "UTC", "2025-03-01T09:00Z"),
        ("2025-03-01T09:00:30.999", "UTC", "2025-03-01T09:00:30Z"),
        ("2025-03-09T02:30:00", NEW_YORK, "2025-03-09T07:00Z"),  # in the gap: right after it
        ("2025-11-02T01:30:00", NEW_YORK, "2025-11-02T05:30Z"),  # twice: the first
        ("2025-11-02T01:30:00-05:00", NEW_YORK, "2025-11-02T06:30Z"),  # unless it is said which
    ],
)
def test_an_iso_time_is_due_once_read_in_its_zone_unless_it_has_an_offset_f29(
    text: str, zone: str, moment: str
) -> None:
    times = TriggerSchedule(text, zone)
    assert times.next_after(0) == ms(moment)
    assert times.next_after(ms(moment) - 1) == ms(moment)
    assert times.next_after(ms(moment)) is None
    assert times.last_before(ms(moment) + 1) == ms(moment)
    assert times.last_before(ms(moment)) is None
    assert times.between(0, ms(moment), 5) == [ms(moment)]
    assert times.between(ms(moment), YEARS_8941_MS, 5) == []


@pytest.mark.parametrize(
    ("schedule", "same"),
    [
        ("0 9 * * MON-FRI", "0 9 * * 1-5"),
        ("0 9 * jan,JUL sun", "0 9 * 1,7 0"),
        ("0 9 * * 7", "0 9 * * 0"),
        ("5-59/10 * * * *", "5,15,25,35,45,55 * * * *"),
        ("5/20 * * * *", "5,25,45 * * * *"),
        ("  0   9 *\t* * ", "0 9 * * *"),
        ("@hourly", "0 * * * *"),
        ("@daily", "0 0 * * *"),
        ("@midnight", "0 0 * * *"),
        ("@weekly", "0 0 * * 0"),
        ("@Monthly", "0 0 1 * *"),
        ("@yearly", "0 0 1 1 *"),
        ("@annually", "0 0 1 1 *"),
    ],
)
def test_names_ranges_steps_and_nicknames_mean_what_they_say(schedule: str, same: str) -> None:
    start, end = ms("2025-01-01T00:00Z"), ms("2026-01-02T00:00Z")
    found = TriggerSchedule(schedule).between(start, end, 300)
    assert found == TriggerSchedule(same).between(start, end, 300)
    assert found


@pytest.mark.parametrize(
    ("schedule", "said"),
    [
        ("* * * * * *", "seconds are not supported"),
        ("0 0 30 2 *", "never comes"),
        ("0 0 31 4,6,9,11 *", "never comes"),
        ("0 0 30 FEB *", "never comes"),
        ("0 9 * * FRI-SUN", "'FRI-SUN' cannot be read as the day of the week"),
        ("60 * * * *", "'60' cannot be read as the minute"),
        ("* 24 * * *", "'24' cannot be read as the hour"),
        ("* * 0 * *", "'0' cannot be read as the day of the month"),
        ("* * * 13 *", "'13' cannot be read as the month"),
        ("*/0 * * * *", "'*/0' cannot be read as the minute"),
        ("1,,2 * * * *", "cannot be read as the minute"),
        ("\u0661 * * * *", "cannot be read as the minute"),
        ("* * * *", "five cron fields"),
        ("", "five cron fields"),
        ("every day at nine", "five cron fields"),
        ("@reboot", "@daily"),
        ("0 9 * * " + "1," * 200, "at most 200 characters"),
        ("2025-02-30T10:00:00", "there is no such day"),
        ("2025-03-01T24:30:00", "there is no such day, time or offset"),
        ("2025-03-01T10:00:00+99:00", "there is no such day, time or offset"),
        ("2025-03-01", "write it like"),
        ("2025-3-1T9:00", "write it like"),
        ("2025-03-01T09:00:00 tomorrow", "write it like"),
        ("1969-12-31T10:00:00", "too far away"),
        ("9999-12-31T23:59:59", "too far away"),
    ],
)
def test_an_invalid_schedule_is_refused_with_the_reason(schedule: str, said: str) -> None:
    with pytest.raises(ScheduleInvalid) as caught:
        TriggerSchedule(schedule)
    assert said in str(caught.value)
    assert str(caught.value).endswith(".")


@pytest.mark.parametrize(
    ("zone", "near"),
    [
        ("Europe/Lisbn", "Europe/Lisbon"),
        ("europe/lisbon", "Europe/Lisbon"),
        ("Lisbon", "Europe/Lisbon"),
        ("New York", "America/New_York"),
        ("America/NewYork", "America/New_York"),
    ],
)
def test_an_unknown_zone_is_refused_with_the_nearest_name_f29(zone: str, near: str) -> None:
    with pytest.raises(ScheduleInvalid, match=f"did you mean {near}"):
        TriggerSchedule("@daily", zone)


@pytest.mark.parametrize(
    "zone",
    ["", ".", "..", "/etc/passwd", "../UTC", "Europe", "Mars/Olympus", "zone.tab", "right/UTC", "U\0TC", "x" * 999],
)
def test_no_zone_leads_out_of_where_zones_are(zone: str) -> None:
    with pytest.raises(ScheduleInvalid, match="there is no time zone"):
        TriggerSchedule("@daily", zone)


@pytest.fixture
def installed(tmp_path: Path) -> Iterator[Path]:
    """A folder of zones that this test may change, as an update of tzdata does."""
    before = zoneinfo.TZPATH
    zoneinfo.reset_tzpath([tmp_path])
    try:
        yield tmp_path
    finally:
        zoneinfo.reset_tzpath(before)


def install(folder: Path, name: str, like: str) -> None:
    import tzdata

    (folder / name).parent.mkdir(exist_ok=True)
    new = folder / "new"
    shutil.copy(Path(str(tzdata.__file__)).parent / "zoneinfo" / like, new)
    os.replace(new, folder / name)


def test_new_rules_on_disk_hold_within_a_minute_and_without_a_restart_f29(installed: Path) -> None:
    install(installed, "Test/Town", "Europe/Lisbon")
    now = [0.0]
    times = TriggerSchedule("0 9 * * *", "Test/Town", TimeZoneCache(lambda: now[0]))
    asked = ms("2025-07-01T00:00Z")
    assert times.next_after(asked) == ms("2025-07-01T08:00Z")
    install(installed, "Test/Town", "Asia/Kolkata")
    now[0] = 59.0
    assert times.next_after(asked) == ms("2025-07-01T08:00Z")  # it is not looked at for every question
    now[0] = 61.0
    assert times.next_after(asked) == ms("2025-07-01T03:30Z")
    (installed / "Test" / "Town").unlink()
    now[0] = 200.0
    assert times.next_after(asked) == ms("2025-07-01T03:30Z")  # what has gone since stays as it was
    with pytest.raises(ScheduleInvalid):
        TriggerSchedule("0 9 * * *", "Test/Town", TimeZoneCache(lambda: now[0]))


FIELDS = st.tuples(
    st.sampled_from(["*", "*/7", "0", "30", "59", "0,30", "10-20"]),
    st.sampled_from(["*", "*/3", "0", "1", "2", "3", "23", "1-3", "0-23"]),
    st.sampled_from(["*", "1", "31", "*/9", "28-31"]),
    st.sampled_from(["*", "2", "3,10", "12"]),
    st.sampled_from(["*", "0", "1-5", "SUN"]),
).map(" ".join)
ZONES = st.sampled_from(sorted(zoneinfo.available_timezones() - {"Factory"}))
MOMENTS = st.integers(min_value=ms("1970-01-01T00:00Z"), max_value=ms("2037-12-31T00:00Z"))


@settings(max_examples=int(os.environ.get("MAINSTAY_TEST_ALL") == "1") * 3000 or 150, deadline=None)
@given(FIELDS, ZONES, MOMENTS)
def test_due_times_strictly_increase_in_every_zone_and_the_last_one_before_is_the_one_before_f29(
    schedule: str, zone: str, start: int
) -> None:
    try:
        times = TriggerSchedule(schedule, zone)
    except ScheduleInvalid:  # it never comes
        return
    found, at = [], start
    for _ in range(8):
        following = times.next_after(at)
        if following is None:
            break
        assert following > at
        found.append(following)
        at = following
    assert times.between(start, at, 8) == found
    for earlier, later in pairwise(found):
        assert times.last_before(later) == earlier
        assert times.last_before(later - 1) == earlier
        assert times.next_after(later - 1) == later


@settings(max_examples=300, deadline=None)
@given(st.one_of(st.text(max_size=40), st.from_regex(r"[0-9*,/\-A-Z#L ]{1,30}", fullmatch=True)))
def test_any_text_is_a_time_or_refused(text: str) -> None:
    try:
        times = TriggerSchedule(text)
    except ScheduleInvalid:
        return
    following = times.next_after(0)
    assert following is not None or is_iso_time(text.strip())


def test_there_is_an_end_to_time() -> None:
    times = TriggerSchedule("* * * * *", LISBON)
    assert times.next_after(YEARS_8941_MS) is None
    assert times.next_after(10**30) is None
    assert times.last_before(0) is None
    assert times.next_after(-(10**30)) == 60_000
    assert times.between(0, 10**18, 3) == [60_000, 120_000, 180_000]
    assert TriggerSchedule("0 0 1 1 *").last_before(ms("1970-06-01T00:00Z")) is None
