"""Times as people and models write them."""

from __future__ import annotations

import contextlib
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as some

from mainstay.core.errors import InputRefused
from mainstay.memory.time_expressions import format_day, parse_time

NOW = int(datetime(2026, 11, 3, 15, 30, tzinfo=UTC).timestamp() * 1000)


def at(*when: int) -> int:
    return int(datetime(*when, tzinfo=UTC).timestamp() * 1000)  # type: ignore[misc]


@pytest.mark.parametrize(
    ("text", "start", "end"),
    [
        ("2026-11-02", at(2026, 11, 2), at(2026, 11, 3)),
        ("20261102", at(2026, 11, 2), at(2026, 11, 3)),
        ("2026-11", at(2026, 11, 1), at(2026, 12, 1)),
        ("2026-12", at(2026, 12, 1), at(2027, 1, 1)),
        ("today", at(2026, 11, 3), at(2026, 11, 4)),
        (" Yesterday ", at(2026, 11, 2), at(2026, 11, 3)),
        ("7d", at(2026, 10, 27, 15, 30), at(2026, 10, 27, 15, 30)),
        ("2 w", at(2026, 10, 20, 15, 30), at(2026, 10, 20, 15, 30)),
        ("now", NOW, NOW),
        ("2026-11-02T15:30", at(2026, 11, 2, 15, 30), at(2026, 11, 2, 15, 30)),
        ("2026-11-02t15:30:00z", at(2026, 11, 2, 15, 30), at(2026, 11, 2, 15, 30)),
        ("2026-11-02 15:30+02:00", at(2026, 11, 2, 13, 30), at(2026, 11, 2, 13, 30)),
        ("99999d", 0, 0),
    ],
)
def test_a_day_or_a_month_means_all_of_it_and_a_moment_is_a_moment(text: str, start: int, end: int) -> None:
    assert parse_time(text, NOW) == start
    assert parse_time(text, NOW, end=True) == end


def test_programs_give_datetimes_and_milliseconds() -> None:
    assert parse_time(datetime(2026, 11, 2), NOW) == at(2026, 11, 2)
    assert parse_time(datetime(2026, 11, 2, tzinfo=timezone(timedelta(hours=-3))), NOW) == at(2026, 11, 2, 3)
    assert parse_time(1234, NOW) == 1234
    assert parse_time(-5, NOW) == 0
    assert parse_time(None, NOW) is None
    assert parse_time("", NOW) is None


@pytest.mark.parametrize("text", ["soon", "2026-13", "2026-02-30", "7 fortnights", "-7d", "\x00", "1e9", "'; --"])
def test_an_invalid_time_is_reported_in_a_sentence(text: str) -> None:
    with pytest.raises(InputRefused, match="is not a time: give 2026-11-02"):
        parse_time(text, NOW)


def test_true_is_not_a_time() -> None:
    with pytest.raises(InputRefused):
        parse_time(True, NOW)


@given(some.text(max_size=60), some.booleans())
def test_any_text_is_a_time_or_a_sentence(text: str, end: bool) -> None:
    with contextlib.suppress(InputRefused):
        found = parse_time(text, NOW, end=end)
        assert found is None or 0 <= found <= 253_402_300_800_000


def test_a_far_end_is_for_ever() -> None:
    assert parse_time("9999-12-31", NOW, end=True) == 253_402_300_800_000


def test_a_day_is_written_as_one_and_no_time_as_nothing() -> None:
    assert format_day(at(2026, 11, 2, 23, 59)) == "2026-11-02"
    assert format_day(0) == ""
