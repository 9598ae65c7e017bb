"""Builds budget reports from the ledger, which can be read while another process owns the home."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from mainstay.agent.home_budgets import HomeBudgets, build_budgets
from mainstay.agent.home_paths import GATEWAY_DATABASE
from mainstay.config.schema import Config
from mainstay.core.budget_reports import BudgetLimit, BudgetReport, BudgetUsage, PeriodSpending
from mainstay.core.budget_reservation_ids import NANODOLLARS_PER_DOLLAR
from mainstay.metering.budget_definitions import PERIODS, BudgetKind, SpendingBudget, period_end_ms, period_start_hour

if TYPE_CHECKING:
    import apsw

    from mainstay.store.sqlite.home_projection_database import HomeProjectionDatabase

_Totals = tuple[list[PeriodSpending], float]  # spending, and dollars that are reserved for calls in progress


async def load_budget_report(
    budgets: HomeBudgets, database: HomeProjectionDatabase | None, configs: Sequence[Config], person: str | None = None
) -> BudgetReport:
    """Return the report of the process that owns the home; see `build_budget_report`. Without a database, spending is
    that of this process."""
    now_ms = budgets.now_ms()
    if database is None:
        return _build_report(configs, (budgets.list_unsaved_spending(), 0.0), now_ms, person)
    return _build_report(configs, await database.read(lambda db: _select_totals(db, now_ms)), now_ms, person)


def build_budget_report(home: Path, configs: Sequence[Config], now_ms: int, person: str | None = None) -> BudgetReport:
    """Return the spending of all workspaces and the budgets of `configs`, one per workspace; the first is the home's
    own. `now_ms` is the time of the report. Budgets of people are those of everybody who has spent something, or of
    `person` only."""
    return _build_report(configs, _read_totals(home, now_ms), now_ms, person)


def _build_report(configs: Sequence[Config], totals: _Totals, now_ms: int, person: str | None) -> BudgetReport:
    spent, reserved = totals
    by_key = {(amount.scope, amount.name, amount.period): amount for amount in spent}
    people = sorted({amount.name for amount in spent if amount.scope == "person"}) if person is None else [person]
    usages: dict[tuple[str, str], BudgetUsage] = {}
    for config in configs:
        for budget in build_budgets(config.budgets).for_scopes("person", "workspace", "home"):
            names = {"workspace": [config.workspace], "home": [""]}.get(budget.scope, people)
            for name in names:
                used = by_key.get(
                    (budget.scope, name, budget.period), PeriodSpending(budget.scope, name, budget.period)
                )
                usages.setdefault((budget.key, name), _build_usage(budget, name, used, now_ms))
    each = [
        BudgetLimit(budget.key, budget.scope, budget.kind, _to_units(budget.kind, budget.limit))
        for config in configs[:1]
        for budget in build_budgets(config.budgets).for_scopes("turn", "session")
    ]
    return BudgetReport(spent, list(usages.values()), each, reserved)


def _build_usage(budget: SpendingBudget, name: str, total: PeriodSpending, now_ms: int) -> BudgetUsage:
    used = {"money": total.money, "tokens": total.tokens, "calls": total.calls}[budget.kind]
    limit, frees = _to_units(budget.kind, budget.limit), period_end_ms(budget.period, now_ms)
    return BudgetUsage(budget.key, budget.scope, name, budget.period, budget.kind, used, limit, frees)


def _to_units(kind: BudgetKind, amount: int) -> float:
    """Convert an amount of a budget: nanodollars to dollars; tokens and tool calls stay what they are."""
    return amount / NANODOLLARS_PER_DOLLAR if kind == "money" else amount


def _read_totals(home: Path, now_ms: int) -> _Totals:
    path = home / GATEWAY_DATABASE
    if not path.exists():
        return [], 0.0
    from mainstay.store.sqlite.connection import connect, map_sqlite_errors  # imports the database engine
    from mainstay.store.sqlite.spending_ledger import has_ledger

    db = connect(str(path), busy_s=5.0, read_only=True)
    try:
        with map_sqlite_errors(str(path)):
            return _select_totals(db, now_ms) if has_ledger(db) else ([], 0.0)
    finally:
        db.close()


def _select_totals(db: apsw.Connection, now_ms: int) -> _Totals:
    from mainstay.store.sqlite.spending_ledger import select_totals, sum_open_reservations

    spent = [
        PeriodSpending(
            row.scope,
            row.name,
            period,
            row.nanodollars / NANODOLLARS_PER_DOLLAR,
            row.tokens,
            row.calls,
            row.lost / NANODOLLARS_PER_DOLLAR,
        )
        for period in PERIODS
        for row in select_totals(db, period_start_hour(period, now_ms))
    ]
    return spent, sum_open_reservations(db) / NANODOLLARS_PER_DOLLAR
