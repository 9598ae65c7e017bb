"""`ShowBudget` in the library and in `mainstay budget show`: which process answers, and what it knows."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any, cast

import pytest
from support.operations_world import MAIN, SPARE, serving

from mainstay import Agent, Config
from mainstay.cli.main import main
from mainstay.config.schema_judges_budgets_telemetry import BudgetEntry, BudgetSettings, PeriodBudgets
from mainstay.core.budget_reports import BudgetReport, BudgetUsage, PeriodSpending
from mainstay.core.errors import HomeTaken
from mainstay.core.messages import Usage
from mainstay.core.people import ROLE_SCOPES, Principal
from mainstay.core.ports import ModelInfo
from mainstay.operations.budgets import ShowBudget
from mainstay.operations.caller import Caller
from mainstay.operations.execute import execute
from mainstay.providers.scripted import Say, ScriptedProvider, Stall

INFO = ModelInfo(name="m", price_prompt=1.0, price_completion=2.0)
SAYS = Say("yes", usage=Usage(100_000, 100_000))  # $0.30
MONTH = PeriodBudgets(month=BudgetEntry(money=1.5))
LIMITED = BudgetSettings(workspace=MONTH, turn=BudgetEntry(tool_calls=7))


def agent(home: Path | str, *, script: Any = None, budgets: BudgetSettings = LIMITED) -> Agent:
    model = ScriptedProvider(script or (lambda context, options: SAYS), info=INFO)
    return Agent(model, home=home, config=Config(budgets=budgets))


class Reported:
    """The runtime of a workspace, and the source of it, with one report."""

    workspace = MAIN

    def __init__(self, report: BudgetReport) -> None:
        self.report = report

    async def runtime(self) -> Reported:
        return self

    @property
    def current(self) -> Reported:
        return self

    async def load_budget_report(self, person: str | None = None) -> BudgetReport:
        return self.report


async def test_a_member_is_not_told_what_the_home_has_reserved_or_lost() -> None:
    people = [PeriodSpending("person", name, "month", 1.0) for name in ("", "ann", "bob", MAIN)]
    others = [PeriodSpending("workspace", MAIN, "month", 4.0), PeriodSpending("home", "", "month", 4.0, lost=1.0)]
    usage = [BudgetUsage("home.month.money", "home", "", "month", "money", 4.0, 9.0, 1)]
    source = cast(Any, Reported(BudgetReport([*people, *others], usage, reserved=2.0)))
    for role in ("member", "guest"):
        caller = Caller(Principal(person="ann", workspace=MAIN, role=role, scopes=ROLE_SCOPES[role]), source)
        assert await execute(caller, ShowBudget()) == BudgetReport([people[1]])


async def test_an_agent_shows_the_budgets_of_its_workspace(tmp_path: Path) -> None:
    async with agent(tmp_path / "home") as spender:
        await spender.run("s", "go", sender="ann")
        await (await spender.runtime()).wait_for_audit()
        report = await spender.budget()
        assert [(row.budget, row.used, row.limit) for row in report.budgets] == [("workspace.month.money", 0.3, 1.5)]
        assert [(row.budget, row.limit) for row in report.each] == [("turn.tool_calls", 7)]
        assert ("person", "ann") in {(row.scope, row.name) for row in report.spent}
        assert await spender.execute(ShowBudget(workspace=MAIN)) == report
        with pytest.raises(HomeTaken, match="not a server"):
            await spender.execute(ShowBudget(workspace=SPARE))


async def test_an_agent_without_a_home_shows_what_it_has_spent_itself() -> None:
    stalled = Stall("late")
    async with agent(":memory:", script=[SAYS, stalled]) as spender:
        await spender.run("s", "go", sender="ann")
        report = await spender.budget()
        assert [(row.budget, row.used) for row in report.budgets] == [("workspace.month.money", 0.3)]
        assert {(row.scope, row.name, row.period, row.tokens) for row in report.spent} >= {
            (scope, name, period, 200_000)
            for scope, name in (("person", "ann"), ("workspace", MAIN), ("home", ""))
            for period in ("hour", "day", "month")
        }
        running = asyncio.ensure_future(spender.run("s", "again", sender="ann"))
        await stalled.reached.wait()
        assert (await spender.budget()).budgets[0].used > 0.3, "what a call in progress may cost counts"
        stalled.release()
        await running
    async with agent(":memory:", budgets=BudgetSettings()) as spender:
        await spender.run("s", "go")
        assert await spender.budget() == BudgetReport(), "without budgets nothing is counted in memory"


async def show(home: Path, capsys: pytest.CaptureFixture[str], *more: str) -> dict[str, Any]:
    """Run `mainstay budget show --json`."""
    assert await asyncio.to_thread(main, ["--home", str(home), "budget", "show", "--json", *more]) == 0
    told: dict[str, Any] = json.loads(capsys.readouterr().out)
    return told


def limits(told: dict[str, Any]) -> dict[str, float]:
    return {row["name"]: row["limit"] for row in told["budgets"]}


async def test_the_command_asks_the_server_and_else_reads_the_home_itself(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = f"""
budgets: {{workspace: {{month: {{tokens: 1000}}}}}}
workspaces: {{{SPARE}: {{budgets: {{workspace: {{month: {{tokens: 2000}}}}}}}}}}
"""
    async with serving(tmp_path, ["hello"] * 5, config) as bench:
        file = bench.home / "mainstay.yaml"
        file.write_text(file.read_text().replace("tokens: 1000", "tokens: 5555"))
        assert limits(await show(bench.home, capsys)) == {MAIN: 1000, SPARE: 2000}, "those that are in force"
        assert limits(await show(bench.home, capsys, "--workspace", SPARE)) == {SPARE: 2000}
    assert limits(await show(bench.home, capsys)) == {MAIN: 5555, SPARE: 2000}


async def test_the_command_works_beside_an_agent_that_owns_the_home(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    home = tmp_path / "home"
    async with agent(home) as spender:
        await spender.run("s", "go", sender="ann")
        await (await spender.runtime()).wait_for_audit()
        (home / "mainstay.yaml").write_text("budgets: {person: {month: {money: 3}}, turn: {tool_calls: 7}}\n")
        told = await show(home, capsys)
        assert [(row["name"], row["used"], row["limit"]) for row in told["budgets"]] == [("ann", 0.3, 3.0)]
        assert (told["each"], told["under_way"]) == (["turn.tool_calls"], 0)
