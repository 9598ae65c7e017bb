"""Budget report: spending and remaining budgets from the ledger, readable while another process owns the home."""

from __future__ import annotations

from pathlib import Path

import msgspec

from mainstay.agent.home_budgets import build_budgets
from mainstay.agent.home_paths import GATEWAY_DATABASE
from mainstay.config.schema import Config
from mainstay.metering.budgets import PERIODS, BudgetScope, SpendingBudget, period_end_ms, period_start_hour


class PeriodSpending(msgspec.Struct, frozen=True):
    """What a person, a workspace or the home has used in the current period."""

    scope: str  # "person", "workspace" or "home"
    name: str
    period: str
    money: int = 0  # nanodollars
    tokens: int = 0
    calls: int = 0  # tool calls
    lost: int = 0  # part of `money` that crashed processes had reserved; the provider may not have charged it


class BudgetUsage(msgspec.Struct, frozen=True):
    """A budget and how much of it is used."""

    budget: str  # its key in the configuration
    scope: str
    name: str
    period: str
    kind: str
    used: int
    limit: int
    frees_at: int  # when the next period begins, in ms; 0: never


class BudgetReport(msgspec.Struct, frozen=True):
    spent: list[PeriodSpending]
    budgets: list[BudgetUsage]
    reserved: int = 0  # nanodollars that are reserved for calls in progress

    @property
    def lost(self) -> int:
        """Nanodollars lost in crashes this month."""
        return sum(amount.lost for amount in self.spent if amount.scope == "home" and amount.period == "month")


def build_budget_report(home: Path, configs: list[Config], now_ms: int) -> BudgetReport:
    """Return the spending of all workspaces and the budgets of `configs`, one per workspace; the first is the home's
    own. `now_ms` is the time of the report."""
    spent, under_way = _read_totals(home, now_ms)
    by_key = {(amount.scope, amount.name, amount.period): amount for amount in spent}
    people = sorted({amount.name for amount in spent if amount.scope == "person"})
    usages: dict[tuple[str, str], BudgetUsage] = {}
    for config in configs:
        for budget in build_budgets(config.budgets).for_scopes("person", "workspace", "home"):
            names = {"workspace": [config.workspace], "home": [""]}.get(budget.scope, people)
            for name in names:
                used = by_key.get(
                    (budget.scope, name, budget.period), PeriodSpending(budget.scope, name, budget.period)
                )
                usages.setdefault((budget.key, name), _build_usage(budget, name, used, now_ms))
    return BudgetReport(spent, list(usages.values()), under_way)


def _build_usage(budget: SpendingBudget, name: str, total: PeriodSpending, now_ms: int) -> BudgetUsage:
    amount = {"money": total.money, "tokens": total.tokens, "calls": total.calls}[budget.kind]
    frees = period_end_ms(budget.period, now_ms)
    return BudgetUsage(budget.key, budget.scope, name, budget.period, budget.kind, amount, budget.limit, frees)


def _read_totals(home: Path, now_ms: int) -> tuple[list[PeriodSpending], int]:
    path = home / GATEWAY_DATABASE
    if not path.exists():
        return [], 0
    from mainstay.store.sqlite.connection import connect, map_sqlite_errors  # imports the database engine
    from mainstay.store.sqlite.spending_ledger import has_ledger, select_totals, sum_open_reservations

    db = connect(str(path), busy_s=5.0, read_only=True)
    try:
        with map_sqlite_errors(str(path)):
            spent: list[PeriodSpending] = []
            if not has_ledger(db):
                return spent, 0
            for period in PERIODS:
                spent += [
                    PeriodSpending(row.scope, row.name, period, row.nanodollars, row.tokens, row.calls, row.lost)
                    for row in select_totals(db, period_start_hour(period, now_ms))
                ]
            return spent, sum_open_reservations(db)
    finally:
        db.close()


def scope_name(scope: BudgetScope | str, name: str) -> str:
    match scope:
        case "home":
            return "home"
        case "person":
            return f"person {name or '(owner)'}"
    return f"{scope} {name}"
