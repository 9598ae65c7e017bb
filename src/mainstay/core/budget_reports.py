"""Budget reports: what was spent, how much of each budget is used. Money is in dollars."""

from __future__ import annotations

import msgspec

from mainstay.core.ledger_entries import BudgetKind, BudgetPeriod, BudgetScope


class PeriodSpending(msgspec.Struct, frozen=True):
    """What a person, a workspace or the home has used in the current hour, day or month. A person's spending is that in
    all workspaces."""

    scope: BudgetScope
    name: str  # of the person or the workspace; "" for the owner, and for the home
    period: BudgetPeriod
    money: float = 0.0  # dollars, including what is reserved for calls in progress
    tokens: int = 0
    calls: int = 0  # tool calls
    lost: float = 0.0  # part of `money` that crashed processes had reserved; the provider may not have charged it


class BudgetUsage(msgspec.Struct, frozen=True):
    """A budget and how much of it is used, in dollars, tokens or tool calls."""

    budget: str  # its key in the configuration
    scope: BudgetScope
    name: str
    period: BudgetPeriod
    kind: BudgetKind
    used: float
    limit: float
    frees_at: int  # when the next period begins, in ms; 0: never


class BudgetLimit(msgspec.Struct, frozen=True):
    """The limit of each turn or of each session, in dollars, tokens or tool calls."""

    budget: str  # its key in the configuration
    scope: BudgetScope
    kind: BudgetKind
    limit: float


class BudgetReport(msgspec.Struct, frozen=True):
    """Spending, budgets, and the limits of each turn and session."""

    spent: list[PeriodSpending] = []
    budgets: list[BudgetUsage] = []
    each: list[BudgetLimit] = []
    reserved: float = 0.0  # dollars that are reserved in the home for calls in progress

    @property
    def lost(self) -> float:
        """Dollars lost in crashes this month."""
        return sum(amount.lost for amount in self.spent if amount.scope == "home" and amount.period == "month")
