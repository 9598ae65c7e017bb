"""Two hundred lanes race for one dollar."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from test_budget_kills import journals, ledger, recounted

from mainstay.agent.agent import Agent
from mainstay.agent.agent_options import GatewayServices
from mainstay.agent.home_budgets import HomeBudgets
from mainstay.agent.system_clock import SystemClock
from mainstay.config.schema import Config
from mainstay.config.schema_judges_budgets_telemetry import BudgetEntry, BudgetSettings, PeriodBudgets
from mainstay.core.budget_reservation_ids import NANODOLLARS_PER_DOLLAR, to_nanodollars
from mainstay.core.errors import StreamBroken, Unreachable
from mainstay.core.events import Reserved, Settled, Waiting
from mainstay.core.limits import Limits
from mainstay.core.messages import FinishReason, Usage
from mainstay.core.outcome import Answered, Exhausted, Outcome
from mainstay.core.ports import Context, ModelInfo, Options, Piece, StreamFinished, TextPiece
from mainstay.metering.turn_budgets import WorkspaceBudgetManager
from mainstay.store.sqlite.home_projection_database import HomeProjectionDatabase

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
        assert options.output_tokens_max is not None
        await asyncio.sleep(self._chance.random() * 0.01)
        fate = self._chance.random()
        if fate < 0.05:
            raise Unreachable("nobody is there")
        shown = context.system + "".join(message.text for message in context.messages)
        usage = Usage(len(shown.encode()) // 5 + 3, self._chance.randrange(1, options.output_tokens_max + 1))
        yield TextPiece("well, ")
        if fate < 0.1:  # charged for what was said by then
            self.bill += to_nanodollars(INFO.cost(Usage(usage.prompt, 2)))
            raise StreamBroken("cut")
        self.bill += to_nanodollars(INFO.cost(usage))
        await asyncio.sleep(self._chance.random() * 0.01)
        yield StreamFinished(FinishReason.END, usage)


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
        manager = (await agent.runtime()).services.budget_manager
        assert isinstance(manager, WorkspaceBudgetManager)
        counter = manager.ledger.get_counter("home", "")
        assert (counter.reserved.money, counter.reserved.tokens, counter.waiting) == (0, 0, [])
        spent = counter.sum_since(0).money
        listening.cancel()
    assert model.bill <= spent <= NANODOLLARS_PER_DOLLAR
    assert spent > 0.98 * NANODOLLARS_PER_DOLLAR, "what may be spent can be"
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
    books = HomeProjectionDatabase(str(tmp_path / "gateway.db"))
    await books.open()
    shared = HomeBudgets(tmp_path, SystemClock())
    model, agents = Greedy(), {}
    for name in ("one", "two"):
        agents[name] = Agent(model, home=tmp_path, config=Config(workspace=name, budgets=budgets))
        agents[name].join_gateway(GatewayServices(database=books, budgets=shared))
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
    assert shared._ledger is not None
    counter = shared._ledger.get_counter
    people = [counter("person", name).sum_since(0).money for name in ("ann", "bob", "cy")]
    assert model.bill <= counter("home", "").sum_since(0).money == sum(people) <= 0.5 * NANODOLLARS_PER_DOLLAR
    assert max(people) <= 0.3 * NANODOLLARS_PER_DOLLAR
    assert sum(counter("workspace", name).sum_since(0).money for name in agents) == sum(people)
    assert len(refused) == 60
    for agent in agents.values():
        await agent.aclose()
    await books.close()
    assert ledger(tmp_path)[0]["home", ""][0] == sum(people)
