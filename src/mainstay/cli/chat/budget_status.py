"""Formats the budgets that apply to a chat session, and how much of each is used."""

from __future__ import annotations

from mainstay.agent.model_providers import build_model_info, list_failover_entries
from mainstay.config.schema import Config
from mainstay.core.budget_reports import BudgetReport, BudgetUsage
from mainstay.core.budget_reservation_ids import to_nanodollars
from mainstay.core.ports import SessionInfo
from mainstay.metering.budget_definitions import BudgetKind, SpendingBudget, describe_budget, format_amount, format_time


def is_price_estimated(model: str, config: Config) -> bool:
    """Whether the model's price is unknown, so that its cost is computed from a default price."""
    return build_model_info(list_failover_entries(model, config)[0]).guessed


def format_budgets(report: BudgetReport, workspace: str, info: SessionInfo) -> list[str]:
    """Return lines like `12 % of the workspace's budget of $10.00 a day is used ($1.20), until …`.

    Of the budgets per person, only the owner's are listed.
    """
    lines = []
    used = {"money": info.cost, "tokens": info.prompt_tokens + info.completion_tokens, "calls": info.calls}
    configured = {limit.kind: limit.limit for limit in report.each if limit.scope == "session"}
    own: dict[BudgetKind, float | None] = {
        "money": info.budget.money,
        "tokens": info.budget.tokens,
        "calls": info.budget.tool_calls,
    }
    for kind, limit in (configured | {kind: limit for kind, limit in own.items() if limit is not None}).items():
        lines.append(_format_budget(BudgetUsage("", "session", "", "", kind, used[kind], limit, 0)))
    names = {"person": "", "workspace": workspace, "home": ""}
    return lines + [_format_budget(row) for row in report.budgets if names.get(row.scope) == row.name]


def _format_budget(row: BudgetUsage) -> str:
    used, limit = (to_nanodollars(amount) if row.kind == "money" else round(amount) for amount in (row.used, row.limit))
    budget = SpendingBudget(row.scope, row.period, row.kind, limit)
    until = f", until {format_time(row.frees_at)}" if row.frees_at else ""
    share = used * 100 // limit
    return f"{share} % of {describe_budget(budget, '')} is used ({format_amount(row.kind, used)}){until}"
