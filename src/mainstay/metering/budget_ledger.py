"""In-memory budget ledger of a home: spending, reservations, and the requests that wait for reserved amounts.

All amounts are integers and change only between two awaits, so never concurrently. The ledger is rebuilt from the
journals when a home is opened; from then on it is ahead of every other projection.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence

from mainstay.core.budget_reports import PeriodSpending
from mainstay.core.budget_reservation_ids import NANODOLLARS_PER_DOLLAR
from mainstay.core.errors import BudgetExhausted
from mainstay.core.ledger_entries import HOUR_MS, BudgetScope, LedgerRow
from mainstay.core.ports import Clock
from mainstay.metering.budget_definitions import (
    PERIODS,
    SpendingBudget,
    describe_budget,
    describe_refusal,
    period_end_ms,
    period_start_hour,
)
from mainstay.metering.spending_counters import (
    SHARED_WIDTH_MIN,
    AppliedBudget,
    SpendingCounter,
    SpendingGrant,
    SpendingRequest,
)

UNLIMITED = 1 << 62  # stands for "no limit"


class BudgetLedger:
    """Spending of one home. Live workspaces charge it directly; that of others arrives through the stored ledger."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._counters: dict[tuple[BudgetScope, str], SpendingCounter] = {}
        self._requests_queued = 0
        self.live_workspaces: set[str] = set()
        self.is_loaded = False  # spending of earlier processes was loaded

    def now_ms(self) -> int:
        return self._clock.now_ms()

    def get_counter(self, scope: BudgetScope, name: str) -> SpendingCounter:
        counter = self._counters.get((scope, name))
        if counter is None:
            counter = self._counters[scope, name] = SpendingCounter(scope, name)
        return counter

    def highest_used_share(self, budget: SpendingBudget) -> float:
        """Return the highest share of this budget that is used or reserved, over all counters of its scope."""
        now = self.now_ms()
        counters = [counter for counter in self._counters.values() if counter.scope == budget.scope]
        least = min((self.remaining(AppliedBudget(budget, counter), now) for counter in counters), default=budget.limit)
        return (budget.limit - least) / budget.limit

    def list_spending(self) -> list[PeriodSpending]:
        """Return what people, workspaces and the home have used in the current periods, reservations included."""
        now = self.now_ms()
        spent = []
        for counter in self._counters.values():
            for period in PERIODS if counter.width >= SHARED_WIDTH_MIN else ():
                total, reserved = counter.sum_since(period_start_hour(period, now)), counter.reserved
                money, tokens = total.money + reserved.money, total.tokens + reserved.tokens
                if money or tokens or total.calls:
                    dollars = money / NANODOLLARS_PER_DOLLAR
                    spent.append(PeriodSpending(counter.scope, counter.name, period, dollars, tokens, total.calls))
        return spent

    # --- loading from the stored ledger ----------------------------------------------------------

    def load_rows(self, rows: Iterable[LedgerRow]) -> None:
        """Load earlier spending from the stored ledger; called once."""
        assert not self.is_loaded, "the ledger was already loaded"
        for row in rows:
            self._add_row(row)
        self.is_loaded = True

    def add_external_rows(self, workspace: str, rows: Iterable[LedgerRow]) -> None:
        """Add the spending of a workspace that is not live; ignored for a live one, which charges directly."""
        if self.is_loaded and workspace not in self.live_workspaces:
            for row in rows:
                self._add_row(row)

    def _add_row(self, row: LedgerRow) -> None:
        scope, name, hour, money, tokens, calls = row
        self.get_counter(scope, name).add(hour, money, tokens, calls)

    # --- grants ----------------------------------------------------------------------------------

    def try_grant(self, request: SpendingRequest) -> SpendingGrant | AppliedBudget:
        """Grant the request now, or return the budget that reservations of other calls block. Raises BudgetExhausted.

        A request never overtakes others that wait for one of its budgets.
        """
        decision = self._find_output(request)
        blocking = () if isinstance(decision, int) else decision
        for applied in request.budgets:
            if applied in blocking:
                return applied
            if applied.counter.waiting:
                return applied.counter.waiting[0].blocked_by or applied
        assert isinstance(decision, int)
        return self._reserve(request, decision)

    async def wait_for_grant(self, request: SpendingRequest, applied: AppliedBudget) -> SpendingGrant:
        """Wait in the queue of the blocking budget until the request is granted. Raises BudgetExhausted."""
        self._requests_queued += 1
        request.number, request.blocked_by = self._requests_queued, applied
        request.granted = asyncio.get_running_loop().create_future()
        applied.counter.waiting.append(request)
        try:
            return await request.granted
        except asyncio.CancelledError:
            self._cancel_request(request)
            raise

    def settle(self, grant: SpendingGrant, money: int, tokens: int) -> None:
        """Charge what the call has cost, and free the rest of its reservation."""
        hour = self._clock.now_ms() // HOUR_MS
        has_waiting = False
        for counter in grant.counters:
            reserved = counter.reserved
            reserved.money -= grant.money
            reserved.tokens -= grant.tokens
            if money or tokens:
                counter.add(hour, money, tokens)
            if counter.waiting:
                has_waiting = True
        if has_waiting:
            self._advance_queues(grant.counters)

    def spend(self, counters: Sequence[SpendingCounter], money: int = 0, tokens: int = 0, calls: int = 0) -> None:
        """Charge an amount that was not reserved."""
        hour = self._clock.now_ms() // HOUR_MS
        for counter in counters:
            counter.add(hour, money, tokens, calls)

    def remaining(self, applied: AppliedBudget, now_ms: int) -> int:
        _move_to_hour(now_ms, (applied.counter,))
        return applied.remaining()

    # --- decisions -------------------------------------------------------------------------------

    def _find_output(self, request: SpendingRequest) -> int | list[AppliedBudget]:
        """Return the output tokens that all budgets allow, or the budgets that block the request for now."""
        now = self._clock.now_ms()
        _move_to_hour(now, request.counters)
        money = tokens = UNLIMITED
        for applied in request.budgets:  # the tightest budget of each kind decides
            spent, reserved = applied.spent, applied.reserved
            if applied.kind == "money":
                left = applied.limit - spent.money - reserved.money
                if left < money:
                    money = left
            else:
                left = applied.limit - spent.tokens - reserved.tokens
                if left < tokens:
                    tokens = left
        output = min(request.output, tokens - request.prompt)
        if money != UNLIMITED:
            affordable = request.output_affordable("money", money)
            output = output if affordable is None else min(output, affordable)
        return output if output >= request.output_min else self._find_blocking(request, now)

    def _find_blocking(self, request: SpendingRequest, now_ms: int) -> list[AppliedBudget]:
        """Return the budgets that block the request. Raises BudgetExhausted if one would even without reservations."""
        blocking = [applied for applied in request.budgets if request.is_short(applied.kind, applied.remaining())]
        empty = [applied for applied in blocking if request.is_short(applied.kind, applied.limit - applied.used())]
        if not empty:
            return blocking
        refusals = [build_exhausted_error(applied, now_ms, request.minimum_needed(applied.kind)) for applied in empty]
        raise max(refusals, key=lambda error: error.frees_at or UNLIMITED)  # the one that is renewed last

    def _reserve(self, request: SpendingRequest, output: int) -> SpendingGrant:
        grant = SpendingGrant(request.counters, output, request.cost(output), request.prompt + output)
        for counter in request.counters:
            reserved = counter.reserved
            reserved.money += grant.money
            reserved.tokens += grant.tokens
        return grant

    # --- waiting requests ------------------------------------------------------------------------
    #
    # Each counter has a queue, and a waiting request is in exactly one. From the queue of a narrow scope it moves to
    # the end of a wider one: of a person's hundred waiting calls only one, or as many as may run, is in the home's
    # queue. If a narrower budget blocks it again, it moves back to its place there, so that no other request waits
    # behind it.

    def _advance_queues(self, queues: Iterable[SpendingCounter]) -> None:
        """Grant or move every request that can advance, in these queues.

        A request that is granted, fails or moves back may have blocked others in every queue of its budgets, so these
        are checked too.
        """
        due = [queue for queue in queues if queue.waiting]
        while due:
            queue = due.pop(0)
            # queues that a request of this queue moved to: the next would only wait behind it
            wider: list[SpendingCounter] = []
            while queue.waiting and not any(applied.counter in wider for applied in queue.waiting[0].budgets):
                request = queue.waiting[0]
                blocker = self._find_blocker(request, queue)
                if blocker is not None and blocker.counter is queue:
                    request.blocked_by = blocker
                    break
                queue.waiting.pop(0)
                if blocker is not None and blocker.counter.width > queue.width:
                    request.blocked_by = blocker
                    blocker.counter.waiting.append(request)
                    wider.append(blocker.counter)
                    continue
                if blocker is not None:
                    request.blocked_by, others = blocker, blocker.counter.waiting
                    indexes = (index for index, other in enumerate(others) if other.number > request.number)
                    others.insert(next(indexes, len(others)), request)
                due += [
                    applied.counter
                    for applied in request.budgets
                    if applied.counter.waiting and applied.counter not in (queue, *due)
                ]

    def _find_blocker(self, request: SpendingRequest, queue: SpendingCounter) -> AppliedBudget | None:
        """Return what blocks the first request of a queue; None if it was granted, has failed or was cancelled."""
        assert request.granted is not None
        if request.granted.done():  # cancelled a moment ago
            return None
        try:
            decision = self._find_output(request)
        except BudgetExhausted as error:
            request.granted.set_exception(error)
            return None
        blocking = () if isinstance(decision, int) else decision
        for applied in blocking:
            if applied.counter is queue:
                return applied
        for applied in request.budgets:
            if applied in blocking:
                return applied
            if applied.counter.width > queue.width and applied.counter.waiting:
                return applied.counter.waiting[0].blocked_by or applied
        assert isinstance(decision, int)
        request.granted.set_result(self._reserve(request, decision))
        return None

    def _cancel_request(self, request: SpendingRequest) -> None:
        """Remove a cancelled request: return a grant it has just received, and advance the requests behind it."""
        assert request.granted is not None
        assert request.blocked_by is not None
        if request.granted.done() and not request.granted.cancelled() and request.granted.exception() is None:
            self.settle(request.granted.result(), 0, 0)
            return
        queue = request.blocked_by.counter
        if request in queue.waiting:
            queue.waiting.remove(request)
            self._advance_queues({applied.counter: None for applied in request.budgets})


def _move_to_hour(now_ms: int, counters: Iterable[SpendingCounter]) -> None:
    hour = now_ms // HOUR_MS
    for counter in counters:
        if counter.hour != hour:
            counter.move_to_hour(hour)


def build_exhausted_error(applied: AppliedBudget, now_ms: int, needed: int = 0) -> BudgetExhausted:
    """Build the error for an exhausted budget; `needed` is the least that the call takes.

    The budget's counter must be at the current hour.
    """
    budget = applied.budget
    sentence = describe_refusal(budget, applied.counter.name, applied.used(), now_ms, needed)
    frees_at = period_end_ms(budget.period, now_ms) if needed <= applied.limit else 0
    return BudgetExhausted(sentence, budget=budget.key, frees_at=frees_at)


def describe_blocker(applied: AppliedBudget) -> str:
    """Describe why a request waits."""
    return f"{describe_budget(applied.budget, applied.counter.name)}: running calls have reserved all that is left"
