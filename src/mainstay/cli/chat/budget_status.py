"""Formats the budgets that apply to a chat session, and how much of each is used."""

from __future__ import annotations

from pathlib import Path
from typing import cast

from mainstay.agent.budget_report import build_budget_report
from mainstay.agent.home_budgets import build_budgets
from mainstay.agent.model_providers import build_model_info, list_failover_entries
from mainstay.agent.system_clock import SystemClock
from mainstay.config.schema import Config
from mainstay.core.budget_reservations import to_nanodollars
from mainstay.core.ports import SessionInfo
from mainstay.metering.budgets import (
    BudgetKind,
    BudgetPeriod,
    BudgetScope,
    SpendingBudget,
    describe_budget,
    format_amount,
    format_time,
)


def is_price_estimated(model: str, config: Config) -> bool:
    """Whether the model's price is unknown, so that its cost is computed from a default price."""
    return build_model_info(list_failover_entries(model, config)[0]).guessed


def format_budgets(home: Path, config: Config, info: SessionInfo) -> list[str]:
    """Return lines like `12 % of the workspace's budget of $10.00 a day is used ($1.20), until …`.

    Of the budgets per person, only the owner's are listed.
    """
    lines = []
    used = {
        "money": to_nanodollars(info.cost),
        "tokens": info.prompt_tokens + info.completion_tokens,
        "calls": info.calls,
    }
    for budget in build_budgets(config.budgets).for_scopes("session"):
        lines.append(_format_budget(budget, used[budget.kind], 0))
    if not build_budgets(config.budgets).for_scopes("person", "workspace", "home"):
        return lines
    for row in build_budget_report(home, [config], SystemClock().now_ms()).budgets:
        if row.name in ("", config.workspace):
            budget = SpendingBudget(
                cast(BudgetScope, row.scope), cast(BudgetPeriod, row.period), cast(BudgetKind, row.kind), row.limit
            )
            lines.append(_format_budget(budget, row.used, row.frees_at))
    return lines


def _format_budget(budget: SpendingBudget, used: int, resets_at: int) -> str:
    until = f", until {format_time(resets_at)}" if resets_at else ""
    share = used * 100 // budget.limit
    return f"{share} % of {describe_budget(budget, '')} is used ({format_amount(budget.kind, used)}){until}"
