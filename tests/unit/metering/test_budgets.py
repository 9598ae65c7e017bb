"""Budgets in words and in time."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainstay.core.ledger import HOUR_MS
from mainstay.metering.budgets import (
    Budget,
    Budgets,
    Period,
    amount,
    begins,
    dollars,
    ends,
    limit,
    named,
    refusal,
    warning,
)


def ms(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000)


@pytest.mark.parametrize(
    ("period", "at", "begun", "over"),
    [
        ("hour", "2026-11-16T13:37:00", "2026-11-16T13:00:00", "2026-11-16T14:00:00"),
        ("day", "2026-11-16T23:59:59", "2026-11-16T00:00:00", "2026-11-17T00:00:00"),
        ("month", "2026-12-31T23:59:59", "2026-12-01T00:00:00", "2027-01-01T00:00:00"),
        ("month", "2028-02-29T12:00:00", "2028-02-01T00:00:00", "2028-03-01T00:00:00"),
    ],
)
def test_periods_are_hours_days_and_months_of_utc(period: Period, at: str, begun: str, over: str) -> None:
    assert begins(period, ms(at)) == ms(begun) // HOUR_MS
    assert ends(period, ms(at)) == ms(over)


@given(st.integers(0, 10**14), st.sampled_from(["hour", "day", "month"]))
def test_every_moment_is_in_its_period_and_the_next_one_begins_where_it_ends(at: int, period: Period) -> None:
    assert begins(period, at) * HOUR_MS <= at < ends(period, at)
    assert begins(period, ends(period, at)) * HOUR_MS == ends(period, at)


def test_what_has_no_period_never_ends() -> None:
    assert (begins("", ms("2026-11-16")), ends("", ms("2026-11-16"))) == (0, 0)


@pytest.mark.parametrize(
    ("nanodollars", "said"),
    [
        (0, "$0"),
        (1, "$0.000000001"),
        (99_999, "$0.000099999"),
        (4_200_000, "$0.0042"),
        (99_990_000, "$0.09999"),
        (100_000_000, "$0.10"),
        (9_980_000_000, "$9.98"),
        (1_234_567_890_000, "$1,234.57"),
    ],
)
def test_money_is_said_with_digits_that_say_something(nanodollars: int, said: str) -> None:
    assert dollars(nanodollars) == said


def test_a_refusal_names_the_budget_and_when_it_frees() -> None:
    now = ms("2026-11-16T13:37:00")
    day = Budget("workspace", "day", "money", 10_000_000_000)
    assert refusal(day, "w", 9_980_000_000, now) == (
        "the workspace's budget of $10.00 a day is used up ($9.98); it frees at 2026-11-17 00:00 UTC"
    )
    assert refusal(Budget("turn", "", "tokens", 500), "", 480, now) == (
        "the turn's budget of 500 tokens is used up (480 tokens); the next turn has its own"
    )
    assert refusal(Budget("session", "", "calls", 1), "", 1, now) == (
        "the session's budget of 1 tool call is used up (1 tool call); another session has its own"
    )
    assert refusal(Budget("home", "hour", "tokens", 500), "", 0, now, wanted=900) == (
        "the home's budget of 500 tokens an hour is too small for a call that can take 900 tokens"
    )


def test_people_are_named_and_the_owner_is_the_owner() -> None:
    month = Budget("person", "month", "calls", 100)
    assert named(month, "ann") == "ann's budget of 100 tool calls a month"
    assert named(month, "") == "the owner's budget of 100 tool calls a month"


def test_a_warning_says_how_much_of_what_is_used() -> None:
    day = Budget("home", "day", "tokens", 1000)
    said = warning(day, "", 812, ms("2026-11-16T13:37:00"))
    assert said == "81 % of the home's budget of 1,000 tokens a day is used (812 tokens) until 2026-11-17 00:00 UTC"
    assert amount("tokens", 1) == "1 token"


def test_a_limit_is_shown_as_it_was_configured() -> None:
    shown = {number: limit("money", round(number * 1e9)) for number in (0.185, 1.999, 2.0, 1234.5, 0.0000001)}
    assert list(shown.values()) == ["$0.185", "$1.999", "$2.00", "$1,234.50", "$0.0000001"]
    assert limit("tokens", 1200) == "1,200 tokens"


def test_budgets_have_the_names_that_they_are_configured_by() -> None:
    all = Budgets((Budget("person", "day", "calls", 1), Budget("turn", "", "money", 1)))
    assert [one.key for one in all.all] == ["person.day.tool_calls", "turn.money"]
    assert all.of("turn", "session") == all.all[1:]
