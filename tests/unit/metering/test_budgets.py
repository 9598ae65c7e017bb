"""Budgets in words and in time."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainstay.core.ledger_entries import HOUR_MS
from mainstay.metering.budget_definitions import (
    BudgetPeriod,
    SpendingBudget,
    WorkspaceBudgets,
    describe_budget,
    describe_refusal,
    describe_warning,
    format_amount,
    format_dollars,
    format_limit,
    period_end_ms,
    period_start_hour,
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
def test_periods_are_hours_days_and_months_of_utc(period: BudgetPeriod, at: str, begun: str, over: str) -> None:
    assert period_start_hour(period, ms(at)) == ms(begun) // HOUR_MS
    assert period_end_ms(period, ms(at)) == ms(over)


@given(st.integers(0, 10**14), st.sampled_from(["hour", "day", "month"]))
def test_every_moment_is_in_its_period_and_the_next_one_begins_where_it_ends(at: int, period: BudgetPeriod) -> None:
    assert period_start_hour(period, at) * HOUR_MS <= at < period_end_ms(period, at)
    assert period_start_hour(period, period_end_ms(period, at)) * HOUR_MS == period_end_ms(period, at)


def test_a_budget_without_a_period_never_ends() -> None:
    assert (period_start_hour("", ms("2026-11-16")), period_end_ms("", ms("2026-11-16"))) == (0, 0)


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
    assert format_dollars(nanodollars) == said


def test_a_refusal_names_the_budget_and_when_it_frees() -> None:
    now = ms("2026-11-16T13:37:00")
    day = SpendingBudget("workspace", "day", "money", 10_000_000_000)
    assert describe_refusal(day, "w", 9_980_000_000, now) == (
        "the workspace's budget of $10.00 a day is used up ($9.98); it renews at 2026-11-17 00:00 UTC"
    )
    assert describe_refusal(SpendingBudget("turn", "", "tokens", 500), "", 480, now) == (
        "the turn's budget of 500 tokens is used up (480 tokens); the next turn has its own"
    )
    assert describe_refusal(SpendingBudget("session", "", "calls", 1), "", 1, now) == (
        "the session's budget of 1 tool call is used up (1 tool call); another session has its own"
    )
    assert describe_refusal(SpendingBudget("home", "hour", "tokens", 500), "", 0, now, needed=900) == (
        "the home's budget of 500 tokens an hour is too small for a call that can take 900 tokens"
    )


def test_people_are_named_and_the_owner_is_the_owner() -> None:
    month = SpendingBudget("person", "month", "calls", 100)
    assert describe_budget(month, "ann") == "ann's budget of 100 tool calls a month"
    assert describe_budget(month, "") == "the owner's budget of 100 tool calls a month"


def test_a_warning_says_how_much_of_what_is_used() -> None:
    day = SpendingBudget("home", "day", "tokens", 1000)
    said = describe_warning(day, "", 812, ms("2026-11-16T13:37:00"))
    assert said == "81 % of the home's budget of 1,000 tokens a day is used (812 tokens) until 2026-11-17 00:00 UTC"
    assert format_amount("tokens", 1) == "1 token"


def test_a_limit_is_shown_as_it_was_configured() -> None:
    shown = {number: format_limit("money", round(number * 1e9)) for number in (0.185, 1.999, 2.0, 1234.5, 0.0000001)}
    assert list(shown.values()) == ["$0.185", "$1.999", "$2.00", "$1,234.50", "$0.0000001"]
    assert format_limit("tokens", 1200) == "1,200 tokens"


def test_budgets_have_the_names_that_they_are_configured_by() -> None:
    all = WorkspaceBudgets((SpendingBudget("person", "day", "calls", 1), SpendingBudget("turn", "", "money", 1)))
    assert [one.key for one in all.all] == ["person.day.tool_calls", "turn.money"]
    assert all.for_scopes("turn", "session") == all.all[1:]
