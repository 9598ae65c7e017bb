"""How many output tokens are reserved for an answer without a given limit, as providers count them too."""

from __future__ import annotations

import msgspec
import pytest

from mainstay.core.budget_ports import CallEstimate
from mainstay.core.events import Reserved
from mainstay.core.limits import Limits
from mainstay.core.messages import Usage
from mainstay.core.ports import Context, ModelInfo, Options
from mainstay.core.rate_limits import RateLimitQuota, RateLimitStatus
from mainstay.core.session import Session
from mainstay.metering.budget_definitions import SpendingBudget, WorkspaceBudgets
from mainstay.metering.budget_ledger import BudgetLedger
from mainstay.metering.rate_limiter import RateLimiter
from mainstay.metering.resilient_provider import ResilientProvider
from mainstay.metering.turn_budgets import WorkspaceBudgetManager
from mainstay.testing import CountingIds, MemoryStore, ScriptedProvider, VirtualClock, virtual_run

INFO = ModelInfo(name="m", output=64_000, price_prompt=1.0, price_completion=2.0)


def create_budgets() -> WorkspaceBudgetManager:
    books = BudgetLedger(VirtualClock())
    books.load_rows(())
    return WorkspaceBudgetManager(
        books, WorkspaceBudgets((SpendingBudget("home", "day", "tokens", 10**9),)), MemoryStore(), "w"
    )


@pytest.mark.parametrize(
    ("model", "wished", "granted"),
    [
        (INFO, None, 8192),
        (msgspec.structs.replace(INFO, output=4096), None, 4096),
        (msgspec.structs.replace(INFO, thinking=True), None, 16_384),
        (INFO, 30_000, 30_000),
    ],
    ids=["long", "short", "thinks", "wished"],
)
def test_an_answer_is_as_long_as_was_wished_or_of_moderate_length(
    model: ModelInfo, wished: int | None, granted: int
) -> None:
    async def story() -> Reserved:
        purse = await create_budgets().open_turn_budget(Session("s"))
        return await purse.reserve(CallEstimate("1.1", model, 10, wished))

    assert virtual_run(story()).output == granted


@pytest.mark.parametrize(("limit", "output"), [(30_000, 7500), (2000, 1024), (10**6, 64_000)])
def test_no_answer_takes_more_than_a_quarter_of_what_the_account_may_use(limit: int, output: int) -> None:
    async def story() -> ModelInfo:
        clock = VirtualClock()
        limiter = RateLimiter("account", clock)
        made = ResilientProvider(
            [ScriptedProvider(["never"], info=INFO)],
            clock=clock,
            ids=CountingIds(),
            limits=Limits(),
            limiters=[limiter],
        )
        assert made.dearest() is INFO
        seat = limiter.create_permit(Context("", []), Options(), 60.0)
        await seat.acquire()
        seat.record_accepted(RateLimitStatus((RateLimitQuota("tokens", "tokens", limit, limit, 0.0),)))
        seat.release()
        return made.dearest()

    assert virtual_run(story()).output == output


def test_settled_spending_of_a_turn_is_known_after_a_later_fold() -> None:
    async def story() -> None:
        made, session = create_budgets(), Session("s")
        turn, fold = await made.open_turn_budget(session), await made.open_turn_budget(session)
        for purse, id in ((turn, "1.1"), (fold, "fold:1")):
            purse.settle(await purse.reserve(CallEstimate(id, INFO, 10)), Usage(1), 0.001)
            purse.close()
        home = made.ledger.get_counter("home", "")
        assert home.sum_since(0).money == 2_000_000
        session.reserved = {"1.1": Reserved("1.1", "m", 10, 20, 5_000_000)}  # the disk never heard how it ended
        (await made.open_turn_budget(session)).close()
        assert home.sum_since(0).money == 6_000_000

    virtual_run(story())
