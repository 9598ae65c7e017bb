"""Spending counters per scope, budgets applied to them, and the requests and grants of model calls."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from operator import attrgetter

import msgspec

from mainstay.core.ledger_entries import BUDGET_SCOPES, HOUR_MS, RETENTION_HOURS, BudgetScope
from mainstay.core.ports import ModelInfo
from mainstay.metering.budget_definitions import BudgetKind, BudgetPeriod, SpendingBudget, period_start_hour
from mainstay.metering.worst_case_prices import PICO_PER_NANO, find_token_rates

OUTPUT_TOKENS_MIN = 1024  # tokens: a shorter answer is not worth requesting
_SCOPE_WIDTHS = {scope: width for width, scope in enumerate(BUDGET_SCOPES)}
# scopes from here on are counted by hour, because their budgets have periods
SHARED_WIDTH_MIN = _SCOPE_WIDTHS["person"]
_READERS: dict[BudgetKind, Callable[[SpendingTotals], int]] = {
    "money": attrgetter("money"),
    "tokens": attrgetter("tokens"),
    "calls": attrgetter("calls"),
}


class SpendingTotals(msgspec.Struct, gc=False):
    """Money in nanodollars, tokens, tool calls."""

    money: int = 0
    tokens: int = 0
    calls: int = 0

    def add(self, money: int, tokens: int, calls: int) -> None:
        self.money += money
        self.tokens += tokens
        self.calls += calls

    def amount_of(self, kind: BudgetKind) -> int:
        return self.money if kind == "money" else self.tokens if kind == "tokens" else self.calls


class SpendingCounter:
    """Spending of one turn, session, person, workspace, or of the home.

    Shared scopes count by hour and keep running totals for those periods of the current hour that have a budget; a
    turn and a session have one total without end.
    """

    __slots__ = ("_current", "_hourly", "_periods", "hour", "name", "reserved", "scope", "waiting", "warned", "width")

    def __init__(self, scope: BudgetScope, name: str = "") -> None:
        self.scope = scope
        self.name = name
        self.width = _SCOPE_WIDTHS[scope]
        self.reserved = SpendingTotals()  # for calls in flight
        self.waiting: list[SpendingRequest] = []  # requests that wait for reserved amounts, first in, first out
        self.warned: dict[SpendingBudget, int] = {}  # start hour of the period in which a warning was given
        self.hour = 0
        # totals that spending in the current hour adds to
        self._current: Sequence[SpendingTotals] = (SpendingTotals(),)
        self._hourly: dict[int, SpendingTotals] = {0: self._current[0]}
        self._periods: dict[BudgetPeriod, tuple[int, SpendingTotals]] = {}  # start hour, total

    def sum_since(self, since: int) -> SpendingTotals:
        """Sum up from this hour on, without end: hours of a clock that was ahead count too."""
        total = SpendingTotals()
        for hour, totals in self._hourly.items():
            if hour >= since:
                total.add(totals.money, totals.tokens, totals.calls)
        return total

    def totals_for_period(self, period: BudgetPeriod) -> SpendingTotals:
        """Return the live total of the period that contains the counter's hour; the object stays the same."""
        if not period:
            return self._hourly[0]
        if period not in self._periods:
            self._periods[period] = (0, SpendingTotals())
            self.move_to_hour(self.hour)
        return self._periods[period][1]

    def move_to_hour(self, hour: int) -> None:
        """Make `hour` the current hour, and recompute the period totals."""
        self.hour = hour
        if self.width >= SHARED_WIDTH_MIN:
            for period, (_, totals) in self._periods.items():
                since = period_start_hour(period, hour * HOUR_MS)
                spent = self.sum_since(since)
                totals.money, totals.tokens, totals.calls = spent.money, spent.tokens, spent.calls
                self._periods[period] = since, totals
            self._current = self._totals_for_hour(hour)

    def add(self, hour: int, money: int, tokens: int, calls: int = 0) -> None:
        for totals in (
            self._current if hour == self.hour or self.width < SHARED_WIDTH_MIN else self._totals_for_hour(hour)
        ):
            totals.money += money
            totals.tokens += tokens
            if calls:
                totals.calls += calls

    def _totals_for_hour(self, hour: int) -> Sequence[SpendingTotals]:
        if hour not in self._hourly:
            if len(self._hourly) >= RETENTION_HOURS:
                del self._hourly[min(self._hourly)]  # the oldest hour
            self._hourly[hour] = SpendingTotals()
        return self._hourly[hour], *(totals for since, totals in self._periods.values() if hour >= since)


class AppliedBudget:
    """A budget applied to one counter. `warn_from` is the used amount from which a warning is given."""

    __slots__ = ("_read", "budget", "counter", "kind", "limit", "reserved", "spent", "warn_from")

    def __init__(self, budget: SpendingBudget, counter: SpendingCounter, warn_at: float = 1.0) -> None:
        self.budget = budget
        self.counter = counter
        self.kind = budget.kind
        self.limit = budget.limit
        self.warn_from = warn_at * budget.limit
        self.spent = counter.totals_for_period(budget.period)  # live total, while the counter is at the current hour
        self.reserved = counter.reserved
        self._read = _READERS[budget.kind]

    def used(self) -> int:
        return self._read(self.spent)

    def remaining(self) -> int:
        """Return what is neither spent nor reserved; may be negative."""
        return self.limit - self._read(self.spent) - self._read(self.reserved)


class SpendingRequest:
    """A requested model call, and the counters that it would be charged to."""

    __slots__ = (
        "_output_rate",
        "_prompt_cost",
        "blocked_by",
        "budgets",
        "counters",
        "granted",
        "number",
        "output",
        "output_min",
        "prompt",
    )

    def __init__(
        self,
        model: ModelInfo,
        prompt: int,
        output: int,
        counters: Sequence[SpendingCounter],
        budgets: Sequence[AppliedBudget],
    ) -> None:
        """`budgets` apply to some of `counters`; both are ordered from the narrowest scope to the widest."""
        # looked up once: several budgets are checked with it
        prompt_rate, self._output_rate = find_token_rates(model, prompt)
        self._prompt_cost = prompt * prompt_rate
        self.prompt = prompt
        self.output = output
        self.output_min = min(output, OUTPUT_TOKENS_MIN)
        self.counters = counters
        self.budgets = budgets
        self.number = 0
        self.blocked_by: AppliedBudget | None = None  # the budget it waits for
        self.granted: asyncio.Future[SpendingGrant] | None = None

    def cost(self, output: int) -> int:
        """Return the maximum cost in nanodollars, rounded up."""
        return -(-(self._prompt_cost + output * self._output_rate) // PICO_PER_NANO)

    def output_affordable(self, kind: BudgetKind, remaining: int) -> int | None:
        """Return how many output tokens the remaining amount allows; None: no limit, negative: not even the prompt."""
        if kind == "tokens":
            return remaining - self.prompt
        if not self._output_rate:
            return None if self._prompt_cost <= max(remaining, 0) * PICO_PER_NANO else -1
        return (remaining * PICO_PER_NANO - self._prompt_cost) // self._output_rate

    def is_short(self, kind: BudgetKind, remaining: int) -> bool:
        output = self.output_affordable(kind, remaining)
        return output is not None and output < self.output_min

    def minimum_needed(self, kind: BudgetKind) -> int:
        """Return the least amount with which the call can be made."""
        return self.cost(self.output_min) if kind == "money" else self.prompt + self.output_min


class SpendingGrant(msgspec.Struct, frozen=True, gc=False):
    """Amounts reserved for a call on each of its counters."""

    counters: Sequence[SpendingCounter]
    output: int
    money: int
    tokens: int
