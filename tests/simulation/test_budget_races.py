"""Two hundred lanes race for one dollar."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from test_budget_kills import journals, ledger, recounted

from mainstay.agent.accounts import HomeAccounts
from mainstay.agent.agent import Agent
from mainstay.agent.opened import Beside
from mainstay.agent.world import SystemClock
from mainstay.config.schema import Config
from mainstay.config.schema_observability import BudgetEntry, BudgetSettings, PeriodBudgets
from mainstay.core.errors import StreamBroken, Unreachable
from mainstay.core.events import Reserved, Settled, Waiting
from mainstay.core.limits import Limits
from mainstay.core.messages import FinishReason, Usage
from mainstay.core.outcome import Answered, Exhausted, Outcome
from mainstay.core.ports import Context, Finished, ModelInfo, Options, Piece, TextPiece
from mainstay.core.reservations import NANO, nanodollars
from mainstay.store.sqlite.observed import SqliteObserved

LANES = 200
INFO = ModelInfo(name="meter", price_prompt=1.0, price_completion=2.0, price_cached=0.1)


class Greedy:
    """Says as much as it may, sometimes fails before or after the first word, and keeps its own bill."""

    def __init__(self) -> None:
        self.bill = 0
        self._chance = random.Random(7)

    def model(self) -> ModelInfo:
        return INFO

    async def close(self) -> None: ...

    async def stream(self, context: Context, options: Options) -> AsyncIterator[Piece]:
        assert options.output_tokens is not None
        await asyncio.sleep(self._chance.random() * 0.01)
        fate = self._chance.random()
        if fate < 0.05:
            raise Unreachable("nobody is there")
        shown = context.system + "".join(message.text for message in context.messages)
        usage = Usage(len(shown.encode()) // 5 + 3, self._chance.randrange(1, options.output_tokens + 1))
        yield TextPiece("well, ")
        if fate < 0.1:  # charged for what was said by then
            self.bill += nanodollars(INFO.cost(Usage(usage.prompt, 2)))
            raise StreamBroken("cut")
        self.bill += nanodollars(INFO.cost(usage))
        await asyncio.sleep(self._chance.random() * 0.01)
        yield Finished(FinishReason.END, usage)


@pytest.mark.parametrize("scope", ["home", "workspace"])
async def test_u3_two_hundred_lanes_never_overspend_one_dollar(tmp_path: Path, scope: str) -> None:
    config = Config(
        limits=Limits(step_restarts_max=2),
        budgets=BudgetSettings(**{scope: PeriodBudgets(month=BudgetEntry(money=1.0))}),
    )
    model = Greedy()
    outcomes: list[Outcome] = []
    async with Agent(model, home=tmp_path, config=config) as agent:
        waited = 0

        async def listen() -> None:
            nonlocal waited
            async for event in agent.watch():
                waited += isinstance(event, Waiting)

        listening = asyncio.create_task(listen())

        async def lane(number: int) -> None:
            for turn in range(1000):
                reply = await agent.run(f"lane{number}-{turn}", "go on")
                outcomes.append(reply.outcome)
                if isinstance(reply.outcome, Exhausted):
                    return

        async with asyncio.TaskGroup() as group:
            for number in range(LANES):
                group.create_task(lane(number))
        accounts = (await agent.opened()).services.accounts
        tally = accounts.books.tally("home", "")  # type: ignore[union-attr]
        assert (tally.held.money, tally.held.tokens, tally.waiting) == (0, 0, [])
        spent = tally.spent(0).money
        listening.cancel()
    assert model.bill <= spent <= NANO
    assert spent > 0.98 * NANO, "what may be spent can be"
    assert waited > 0, "others' calls were in the way, and that was said"
    refused = [one for one in outcomes if isinstance(one, Exhausted)]
    assert len(refused) == LANES
    assert {one.budget for one in refused} == {f"{scope}.month.money"}
    assert sum(isinstance(one, Answered) for one in outcomes) > 20
    sums, left = recounted(tmp_path)
    assert left == {}
    assert ledger(tmp_path) == (sums, 0)
    assert sums["home", ""][0] == spent
    records = [record.event for _, found in journals(tmp_path).values() for record in found]
    reserved = [event for event in records if isinstance(event, Reserved)]
    assert any(event.usage is None for event in records if isinstance(event, Settled))
    assert all(event.output >= 1 and event.cost > 0 for event in reserved)


async def test_workspaces_of_one_process_share_what_the_home_and_its_people_may_spend(tmp_path: Path) -> None:
    budgets = BudgetSettings(
        home=PeriodBudgets(month=BudgetEntry(money=0.5)), person=PeriodBudgets(month=BudgetEntry(money=0.3))
    )
    books = SqliteObserved(str(tmp_path / "gateway.db"))
    await books.open()
    shared = HomeAccounts(tmp_path, SystemClock())
    model, agents = Greedy(), {}
    for name in ("one", "two"):
        agents[name] = Agent(model, home=tmp_path, config=Config(workspace=name, budgets=budgets))
        agents[name]._beside = Beside(books=books, accounts=shared)
    refused: list[str] = []

    async def lane(number: int) -> None:
        agent = agents["one" if number % 2 else "two"]
        for turn in range(1000):
            reply = await agent.run(f"lane{number}-{turn}", "go on", sender=("ann", "bob", "cy")[number % 3])
            if isinstance(reply.outcome, Exhausted):
                refused.append(reply.outcome.budget)
                return

    async with asyncio.TaskGroup() as group:
        for number in range(60):
            group.create_task(lane(number))
    tally = shared._books.tally
    people = [tally("person", name).spent(0).money for name in ("ann", "bob", "cy")]
    assert model.bill <= tally("home", "").spent(0).money == sum(people) <= 0.5 * NANO
    assert max(people) <= 0.3 * NANO
    assert sum(tally("workspace", name).spent(0).money for name in agents) == sum(people)
    assert len(refused) == 60
    for agent in agents.values():
        await agent.aclose()
    await books.close()
    assert ledger(tmp_path)[0]["home", ""][0] == sum(people)
