"""Spending budgets per scope and period, their time arithmetic, and their texts for people. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import msgspec

from mainstay.core.budget_reservation_ids import NANODOLLARS_PER_DOLLAR, to_nanodollars
from mainstay.core.ledger_entries import HOUR_MS
from mainstay.core.ledger_entries import BudgetKind as BudgetKind
from mainstay.core.ledger_entries import BudgetPeriod as BudgetPeriod
from mainstay.core.ledger_entries import BudgetScope as BudgetScope
from mainstay.core.limits import SessionBudget

PERIODS: tuple[BudgetPeriod, ...] = ("hour", "day", "month")
_PERIOD_SUFFIXES = {"": "", "hour": " an hour", "day": " a day", "month": " a month"}
_OWNER_NAME = "the owner"


class SpendingBudget(msgspec.Struct, frozen=True):
    """A limit on money (nanodollars), tokens or tool calls. Budgets of a turn or a session have no period."""

    scope: BudgetScope
    period: BudgetPeriod
    kind: BudgetKind
    limit: int

    @property
    def key(self) -> str:
        """The configuration key: `workspace.day.money`."""
        kind = "tool_calls" if self.kind == "calls" else self.kind
        return ".".join(filter(None, (self.scope, self.period, kind)))


class WorkspaceBudgets(msgspec.Struct, frozen=True):
    """All budgets that apply in a workspace; `warn_at` is the used share at which a warning is given."""

    all: tuple[SpendingBudget, ...] = ()
    warn_at: float = 0.8

    def for_scopes(self, *scopes: BudgetScope) -> tuple[SpendingBudget, ...]:
        return tuple(budget for budget in self.all if budget.scope in scopes)


def session_budgets(configured: Sequence[SpendingBudget], own: SessionBudget) -> tuple[SpendingBudget, ...]:
    """Return the budgets of one session: its own, and the configured ones of kinds that its own does not name."""
    money = to_nanodollars(own.money) if own.money is not None else None
    limits: tuple[tuple[BudgetKind, int | None], ...] = (
        ("money", money),
        ("tokens", own.tokens),
        ("calls", own.tool_calls),
    )
    named = [SpendingBudget("session", "", kind, limit) for kind, limit in limits if limit is not None]
    kinds = {budget.kind for budget in named}
    return (*named, *(budget for budget in configured if budget.kind not in kinds))


# --- time ----------------------------------------------------------------------------------------


def hour_at(ms: int) -> int:
    """Return the hour since 1970, which the ledger counts by."""
    return ms // HOUR_MS


def period_start_hour(period: BudgetPeriod, ms: int) -> int:
    """Return the first hour (since 1970, UTC) of the period that contains `ms`; 0 without a period."""
    match period:
        case "hour":
            return ms // HOUR_MS
        case "day":
            return ms // (24 * HOUR_MS) * 24
        case "month":
            now = datetime.fromtimestamp(ms / 1000, UTC)
            return int(datetime(now.year, now.month, 1, tzinfo=UTC).timestamp()) // 3600
    return 0


def period_end_ms(period: BudgetPeriod, ms: int) -> int:
    """Return when (ms) the next period begins; 0 without a period."""
    match period:
        case "hour":
            return (ms // HOUR_MS + 1) * HOUR_MS
        case "day":
            return (ms // (24 * HOUR_MS) + 1) * 24 * HOUR_MS
        case "month":
            first = datetime.fromtimestamp(period_start_hour("month", ms) * 3600, UTC)
            return int((first + timedelta(days=32)).replace(day=1).timestamp() * 1000)
    return 0


# --- texts ---------------------------------------------------------------------------------------


def format_amount(kind: BudgetKind, number: int) -> str:
    """Format an amount: `$9.98`, `1,200 tokens`, `1 tool call`."""
    match kind:
        case "money":
            return format_dollars(number)
        case "tokens":
            return f"{number:,} token{'' if number == 1 else 's'}"
    return f"{number:,} tool call{'' if number == 1 else 's'}"


def format_dollars(nanodollars: int) -> str:
    """Format money with cents, and with more digits for small amounts: `$9.98`, `$0.0042`, `$0`."""
    if not nanodollars:
        return "$0"
    if abs(nanodollars) >= NANODOLLARS_PER_DOLLAR // 10:
        return f"${nanodollars / NANODOLLARS_PER_DOLLAR:,.2f}"
    digits = f"${nanodollars / NANODOLLARS_PER_DOLLAR:.9f}"
    return (digits[:8] if nanodollars >= 100_000 else digits).rstrip("0")


def format_limit(kind: BudgetKind, number: int) -> str:
    """Format a limit with all digits that were configured."""
    if kind != "money":
        return format_amount(kind, number)
    whole, _, digits = f"{number / NANODOLLARS_PER_DOLLAR:,.9f}".partition(".")
    return f"${whole}.{digits.rstrip('0').ljust(2, '0')}"


def describe_budget(budget: SpendingBudget, name: str) -> str:
    """Describe a budget: `the workspace's budget of $10.00 a day`. `name` is that of a person."""
    owner = {
        "turn": "the turn's",
        "session": "the session's",
        "person": f"{name or _OWNER_NAME}'s",
        "workspace": "the workspace's",
        "home": "the home's",
    }[budget.scope]
    return f"{owner} budget of {format_limit(budget.kind, budget.limit)}{_PERIOD_SUFFIXES[budget.period]}"


def format_time(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%d %H:%M UTC")


def describe_refusal(budget: SpendingBudget, name: str, spent: int, now_ms: int, needed: int = 0) -> str:
    """Describe why a call was refused, and when the budget is renewed; `needed` is the least that the call takes."""
    subject, left = describe_budget(budget, name), budget.limit - spent
    if needed > budget.limit:
        return f"{subject} is too small for a call that can take {format_amount(budget.kind, needed)}"
    renewed = period_end_ms(budget.period, now_ms)
    if renewed:
        after = f"it renews at {format_time(renewed)}"
    else:
        after = "the next turn has its own" if budget.scope == "turn" else "another session has its own"
    if needed and left > 0:
        remaining, minimum = format_amount(budget.kind, left), format_amount(budget.kind, needed)
        return f"{subject} has {remaining} left, too little for a call that can take {minimum}; {after}"
    return f"{subject} is used up ({format_amount(budget.kind, spent)}); {after}"


def describe_warning(budget: SpendingBudget, name: str, spent: int, now_ms: int) -> str:
    share = spent * 100 // budget.limit
    renewed = period_end_ms(budget.period, now_ms)
    until = f" until {format_time(renewed)}" if renewed else ""
    return f"{share} % of {describe_budget(budget, name)} is used ({format_amount(budget.kind, spent)}){until}"
