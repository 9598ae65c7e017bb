"""What is left of the budgets that a conversation falls under, in words."""

from __future__ import annotations

from pathlib import Path
from typing import cast

from mainstay.agent.accounts import budgets_of
from mainstay.agent.models import entries_of, info_of
from mainstay.agent.spent import report
from mainstay.agent.world import SystemClock
from mainstay.config.schema import Config
from mainstay.core.ports import Standing
from mainstay.core.reservations import nanodollars
from mainstay.metering.budgets import Budget, Kind, Period, Scope, amount, named, when


def is_guessed(model: str, config: Config) -> bool:
    """Nobody knows its price, and what it costs is by rule."""
    return info_of(entries_of(model, config)[0]).guessed


def budget_lines(home: Path, config: Config, standing: Standing) -> list[str]:
    """`12 % of the workspace's budget of $10.00 a day is used ($1.20), until …`. Of people, the owner's."""
    lines = []
    used = {
        "money": nanodollars(standing.cost),
        "tokens": standing.prompt_tokens + standing.completion_tokens,
        "calls": standing.calls,
    }
    for budget in budgets_of(config.budgets).of("session"):
        lines.append(_said(budget, used[budget.kind], 0))
    if not budgets_of(config.budgets).of("person", "workspace", "home"):
        return lines
    for one in report(home, [config], SystemClock().now_ms()).budgets:
        if one.name in ("", config.workspace):
            budget = Budget(cast(Scope, one.scope), cast(Period, one.period), cast(Kind, one.kind), one.limit)
            lines.append(_said(budget, one.used, one.frees_at))
    return lines


def _said(budget: Budget, used: int, frees_at: int) -> str:
    until = f", until {when(frees_at)}" if frees_at else ""
    share = used * 100 // budget.limit
    return f"{share} % of {named(budget, '')} is used ({amount(budget.kind, used)}){until}"
