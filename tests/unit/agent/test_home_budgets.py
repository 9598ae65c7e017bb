"""Budgets from the configuration to the ledger: earlier spending counts, in every workspace, and prices follow the
rule."""

from __future__ import annotations

import asyncio
import json
import logging
from pathlib import Path
from typing import Any

import msgspec
import pytest

from mainstay import Agent, Config
from mainstay.agent.budget_report import build_budget_report
from mainstay.agent.home_budgets import HomeBudgets, build_budgets
from mainstay.agent.model_providers import build_model_info, list_failover_entries, with_unknown_price
from mainstay.agent.system_clock import SystemClock
from mainstay.cli.chat.budget_status import format_budgets, is_price_estimated
from mainstay.cli.main import main
from mainstay.config.schema import ModelEntry
from mainstay.config.schema_judges_budgets_telemetry import BudgetEntry, BudgetSettings, PeriodBudgets
from mainstay.core.budget_ports import BudgetManager
from mainstay.core.budget_reservation_ids import NANODOLLARS_PER_DOLLAR
from mainstay.core.errors import HomeUnusable
from mainstay.core.events import MessageAdded, Received, TurnStarted
from mainstay.core.journal import Record
from mainstay.core.ledger_entries import HOUR_MS, RETENTION_HOURS
from mainstay.core.messages import Finish, FinishReason, Usage
from mainstay.core.outcome import Answered, Exhausted
from mainstay.core.ports import ModelInfo, SessionInfo
from mainstay.core.projection_ports import JournalBatch
from mainstay.store.sqlite.home_projection_database import HomeProjectionDatabase
from mainstay.store.sqlite.spending_ledger import SqliteSpendingLedger, load_rows
from mainstay.testing import MemoryStore, Say, ScriptedProvider

INFO = ModelInfo(name="m", price_prompt=1.0, price_completion=2.0)
DEAR = Say("yes", usage=Usage(100_000, 100_000))  # $0.30


def agent(at: Path, place: str = "default", **budgets: Any) -> Agent:
    config = Config(workspace=place, budgets=BudgetSettings(**budgets))
    return Agent(ScriptedProvider(lambda context, options: DEAR, info=INFO), home=at, config=config)


def has_no_budgets(manager: BudgetManager | None) -> bool:
    """Only sessions with a budget of their own are limited."""
    return manager is not None and not manager.limits_every_session


def month(dollars: float) -> PeriodBudgets:
    return PeriodBudgets(month=BudgetEntry(money=dollars))


@pytest.mark.parametrize("scope", ["home", "workspace", "person"])
async def test_a_budget_that_is_configured_later_counts_what_was_spent_before(tmp_path: Path, scope: str) -> None:
    async with agent(tmp_path) as before:
        assert has_no_budgets((await before.runtime()).services.budget_manager)
        await before.run("s", "go", sender="ann")
    async with agent(tmp_path, **{scope: month(0.3)}) as after:
        reply = await after.run("t", "go", sender="ann")
    assert isinstance(reply.outcome, Exhausted)
    assert "$0.30 a month is used up ($0.30)" in reply.outcome.bound


async def test_people_and_the_home_are_charged_in_all_workspaces_and_a_workspace_for_itself(tmp_path: Path) -> None:
    async with agent(tmp_path, "one") as one:
        await one.run("s", "go", sender="ann")
    async with agent(tmp_path, "two", workspace=month(0.3)) as two:
        assert (await two.run("s", "go", sender="bob")).outcome == Answered()
    async with agent(tmp_path, "three", person=month(0.3)) as three:
        assert isinstance((await three.run("s", "go", sender="ann")).outcome, Exhausted)
        assert (await three.run("t", "go", sender="cy")).outcome == Answered()
    async with agent(tmp_path, "four", home=month(0.9)) as four:
        reply = await four.run("s", "go")
    assert isinstance(reply.outcome, Exhausted)
    assert reply.outcome.bound.startswith("the home's budget of $0.90 a month is used up ($0.90)")


async def test_spending_of_a_workspace_without_budgets_is_counted(tmp_path: Path) -> None:
    home_ledger = HomeProjectionDatabase(str(tmp_path / "gateway.db"))
    await home_ledger.open()
    accounts = HomeBudgets(tmp_path, SystemClock())
    budgeted = Config(workspace="two", budgets=BudgetSettings(home=month(1.0)))
    try:
        assert has_no_budgets(await accounts.open_manager(Config(workspace="one"), MemoryStore(), home_ledger))
        purses: Any = await accounts.open_manager(budgeted, MemoryStore(), home_ledger)
        free, live = (
            accounts.build_ledger_projection(home_ledger, "one", MemoryStore()),
            accounts.build_ledger_projection(home_ledger, "two", MemoryStore()),
        )
        await free.apply(spending(5, "ann"))
        await live.apply(spending(7, "ann"))  # this one has booked it itself
        assert purses.ledger.get_counter("home", "").sum_since(0).money == 5
        assert [row[:2] for row in await load_rows(home_ledger) if row[3] == 12] == [("home", ""), ("person", "ann")]
    finally:
        await home_ledger.close()


def spending(nanodollars: int, person: str, at: int = 1_790_000_000_000, first: int = 1) -> JournalBatch:
    said = MessageAdded(
        "assistant",
        (Finish(FinishReason.END),),
        usage=Usage(1),
        cost=nanodollars / NANODOLLARS_PER_DOLLAR,
        turn=1,
        step=1,
    )
    records = [
        Record(first, at, Received((), sender=person)),
        Record(first + 1, at, TurnStarted((first,), turn=1)),
        Record(first + 2, at, said),
    ]
    return JournalBatch(SessionInfo(key="s"), records)


async def test_spending_reported_twice_is_counted_once(tmp_path: Path) -> None:
    home_ledger = HomeProjectionDatabase(str(tmp_path / "gateway.db"))
    await home_ledger.open()
    try:
        ledger = SqliteSpendingLedger(home_ledger, "w")
        await ledger.apply(spending(5, "ann"))
        await ledger.apply(spending(5, "ann"))
        longer = spending(5, "ann")
        await ledger.apply(JournalBatch(longer.info, [*longer.records, *spending(2, "bob", first=4).records]))
        rows = {(scope, name): money for scope, name, _, money, _, _ in await load_rows(home_ledger)}
        assert rows == {("home", ""): 7, ("workspace", "w"): 7, ("person", "ann"): 5, ("person", "bob"): 2}
        assert await ledger.positions() == {"s": 6}
    finally:
        await home_ledger.close()


async def test_the_oldest_hours_leave_the_ledger(tmp_path: Path) -> None:
    home_ledger = HomeProjectionDatabase(str(tmp_path / "gateway.db"))
    await home_ledger.open()
    try:
        ledger = SqliteSpendingLedger(home_ledger, "w")
        first = 1_790_000_000_000
        said = spending(1, "ann").records[-1].event
        records = [Record(seq, first + seq * HOUR_MS, said) for seq in range(1, RETENTION_HOURS + 101)]
        await ledger.apply(JournalBatch(SessionInfo(key="s"), records))
        hours = {row[2] for row in await load_rows(home_ledger)}
        assert len(hours) == RETENTION_HOURS
        assert max(hours) == records[-1].at // HOUR_MS
    finally:
        await home_ledger.close()


async def test_a_clock_that_was_ahead_takes_nothing_from_the_ledger(tmp_path: Path) -> None:
    home_ledger = HomeProjectionDatabase(str(tmp_path / "gateway.db"))
    await home_ledger.open()
    try:
        ledger = SqliteSpendingLedger(home_ledger, "w")
        now = 1_790_000_000_000
        await ledger.apply(spending(5, "ann", at=now))
        await ledger.apply(spending(3, "ann", at=now + 400 * 24 * HOUR_MS, first=4))
        await ledger.apply(spending(2, "ann", at=now, first=7))
        assert sum(row[3] for row in await load_rows(home_ledger) if row[0] == "home") == 10
    finally:
        await home_ledger.close()


async def test_a_workspace_that_is_put_back_is_not_counted_again_but_another_of_its_name_is(tmp_path: Path) -> None:
    home_ledger = HomeProjectionDatabase(str(tmp_path / "gateway.db"))
    await home_ledger.open()

    def old(nanodollars: int, first: int = 1) -> JournalBatch:
        return msgspec.structs.replace(spending(nanodollars, "ann", first=first), info=SessionInfo(key="s", created=7))

    async def spent() -> int:
        return sum(row[3] for row in await load_rows(home_ledger) if row[0] == "home")

    try:
        await SqliteSpendingLedger(home_ledger, "w").apply(old(5))
        await home_ledger.forget_workspace("w")
        another = SqliteSpendingLedger(home_ledger, "w")
        assert await another.positions() == {}  # so it is followed from its beginning
        made = SessionInfo(key="s", created=8)
        await another.apply(msgspec.structs.replace(spending(2, "bob"), info=made))
        assert await spent() == 7
        await home_ledger.forget_workspace("w")
        back = SqliteSpendingLedger(home_ledger, "w")
        await back.apply(old(5))
        assert await spent() == 7
        await back.apply(old(1, first=4))
        assert await spent() == 8
        assert await back.positions() == {"s": 6}
    finally:
        await home_ledger.close()


async def test_a_workspace_without_budgets_reserves_nothing_while_others_have_budgets(tmp_path: Path) -> None:
    home_ledger = HomeProjectionDatabase(str(tmp_path / "gateway.db"))
    await home_ledger.open()
    accounts, store = HomeBudgets(tmp_path, SystemClock()), MemoryStore()
    bounded, free = Config(workspace="one", budgets=BudgetSettings(home=month(1.0))), Config(workspace="two")
    try:
        purses: Any = await accounts.open_manager(bounded, store, home_ledger)
        assert has_no_budgets(await accounts.open_manager(free, MemoryStore(), home_ledger))
        assert has_no_budgets(
            await accounts.open_manager(Config(workspace="one"), store, home_ledger)
        )  # a reload took them away
        await accounts.build_ledger_projection(home_ledger, "one", MemoryStore()).apply(spending(5, "ann"))
        await accounts.build_ledger_projection(home_ledger, "two", MemoryStore()).apply(spending(7, "ann"))
        assert purses.ledger.get_counter("home", "").sum_since(0).money == 12  # what it spends now is heard of
        assert purses.ledger.get_counter("person", "ann").sum_since(0).money == 12
    finally:
        await home_ledger.close()


async def test_spending_that_a_workspace_recorded_itself_is_not_counted_again_without_its_budgets(
    tmp_path: Path,
) -> None:
    async with agent(tmp_path / "a") as alone:  # a store with a journal that is not yet followed
        await alone.run("s", "go")
        store = (await alone.runtime()).services.store
        home_ledger = HomeProjectionDatabase(str(tmp_path / "gateway.db"))
        await home_ledger.open()
        try:
            accounts = HomeBudgets(tmp_path, SystemClock())
            empty, bounded = MemoryStore(), Config(budgets=BudgetSettings(home=month(1.0)))
            purses: Any = await accounts.open_manager(bounded, empty, home_ledger)
            purses.ledger.spend((purses.ledger.get_counter("home", ""),), 300_000_000, 200_000)
            assert has_no_budgets(await accounts.open_manager(Config(), store, home_ledger))
            assert purses.ledger.get_counter("home", "").sum_since(0).money == 300_000_000
            assert [row[3] for row in await load_rows(home_ledger) if row[0] == "home"] == [300_000_000]
        finally:
            await home_ledger.close()


async def test_budgets_without_a_ledger_are_refused(tmp_path: Path) -> None:
    (tmp_path / "gateway.db").mkdir()
    async with agent(tmp_path) as free:
        assert (await free.run("s", "go")).outcome == Answered()
    with pytest.raises(HomeUnusable, match=r"earlier spending cannot be counted: .*gateway\.db is not a file"):
        await agent(tmp_path, home=month(1.0)).runtime()


def test_every_budget_of_the_configuration_is_one() -> None:
    entry = BudgetEntry(money=0.5, tokens=7, tool_calls=3)
    periods = PeriodBudgets(hour=entry, day=entry, month=entry)
    made = build_budgets(BudgetSettings(turn=entry, session=entry, person=periods, workspace=periods, home=periods))
    assert len(made.all) == 3 * (2 + 9)
    assert {one.limit for one in made.all if one.kind == "money"} == {500_000_000}
    assert build_budgets(BudgetSettings()).all == ()


# --- prices --------------------------------------------------------------------------------------


def test_an_unknown_model_is_priced_by_rule_where_money_is_limited(caplog: pytest.LogCaptureFixture) -> None:
    config = Config(budgets=BudgetSettings(home=month(1.0), unknown_price=7.5))
    unknown = build_model_info(ModelEntry(model="openai/gpt-99"))
    with caplog.at_level(logging.WARNING, "mainstay.metering"):
        made = with_unknown_price(unknown, config)
    assert (made.price_prompt, made.price_completion, made.guessed) == (7.5, 7.5, True)
    assert "the price of gpt-99 is not known: it is counted at $7.5 per million tokens" in caplog.text
    assert with_unknown_price(unknown, Config()) == unknown
    tokens_only = Config(budgets=BudgetSettings(turn=BudgetEntry(tokens=5)))
    assert with_unknown_price(unknown, tokens_only) == unknown
    for name in ("openai/gpt-5", "ollama/anything", "vllm/anything"):
        known = build_model_info(ModelEntry(model=name))
        assert with_unknown_price(known, config) == known


def test_configured_prices_override_all_others() -> None:
    entry = ModelEntry(model="anthropic/claude-haiku-5-5", price_prompt=2.0, price_completion=3.0, price_cached=0.5)
    made = build_model_info(entry)
    assert (made.price_prompt, made.price_completion, made.price_cached) == (2.0, 3.0, 0.5)
    assert (made.long, made.price_written, made.guessed) == (None, None, False)
    own = build_model_info(ModelEntry(model="openai/gpt-99", price_prompt=1.0))
    assert not own.guessed
    assert list_failover_entries("openai/gpt-99", Config())[0].model == "openai/gpt-99"


# --- for people ----------------------------------------------------------------------------------

CONFIG = """
model: openai/gpt-99
budgets:
  workspace: {month: {money: 1.5, tool_calls: 10}}
  session: {tokens: 400000}
"""


async def test_spending_and_remaining_budgets_can_be_read(tmp_path: Path) -> None:
    async with agent(tmp_path, workspace=month(1.5)) as spender:
        await spender.run("s", "go", sender="ann")
    found = build_budget_report(
        tmp_path, [Config(budgets=BudgetSettings(workspace=month(1.5)))], SystemClock().now_ms()
    )
    assert [(one.used, one.limit) for one in found.budgets] == [(0.3, 1.5)]
    assert (found.lost, found.reserved) == (0, 0)


def test_budget_show_prints_the_spending_of_each_person(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    async def spend() -> None:
        async with agent(tmp_path, workspace=month(1.5)) as spender:
            await spender.run("s", "go", sender="ann")

    asyncio.run(spend())
    (tmp_path / "mainstay.yaml").write_text(CONFIG)
    assert main(["--home", str(tmp_path), "budget", "show"]) == 0
    said = capsys.readouterr().out
    assert "workspace.month.money       workspace default         $0.30          $1.50  20 %" in said
    assert "person ann" in said
    assert "each session: at most 400,000 tokens" in said
    assert main(["--home", str(tmp_path), "budget", "show", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["budgets"][0] | {"frees_at": 0} == {
        "budget": "workspace.month.money",
        "scope": "workspace",
        "name": "default",
        "period": "month",
        "kind": "money",
        "used": 0.3,
        "limit": 1.5,
        "frees_at": 0,
    }
    config = Config(budgets=BudgetSettings(workspace=month(1.5), session=BudgetEntry(tokens=400_000)))
    info = SessionInfo(key="s", prompt_tokens=100_000, completion_tokens=100_000)
    lines = format_budgets(build_budget_report(tmp_path, [config], SystemClock().now_ms()), "default", info)
    assert lines[0] == "50 % of the session's budget of 400,000 tokens is used (200,000 tokens)"
    assert lines[1].startswith("20 % of the workspace's budget of $1.50 a month is used ($0.30), until ")
    assert is_price_estimated("openai/gpt-99", config)


def test_budget_show_of_an_empty_home_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--home", str(tmp_path), "budget", "show"]) == 0
    assert "Nothing was spent this month." in capsys.readouterr().out
