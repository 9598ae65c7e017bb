"""Charges for calls without reported usage: rather more than less, and nothing for a call that was never sent."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from support.kernel_world import virtual
from test_lane_budgets import INFO, SMALL, WIDE, BudgetedWorld, family

from mainstay.context.tokenizers import count_for_model
from mainstay.core.budget_reservation_ids import NANODOLLARS_PER_DOLLAR, to_nanodollars
from mainstay.core.errors import ModelSilent, RateLimited, StreamBroken, Unreachable
from mainstay.core.events import Folded, MessageAdded, Reserved, Settled, ToolFinished
from mainstay.core.limits import Limits
from mainstay.core.messages import FinishReason, Usage
from mainstay.core.outcome import Aborted, Exhausted
from mainstay.core.ports import (
    Context,
    ModelInfo,
    Options,
    StreamFinished,
    SummaryRequest,
    SummaryResult,
    TextPiece,
    ToolCallPiece,
)
from mainstay.memory.summariser import ModelSummariser
from mainstay.metering.budget_definitions import SpendingBudget
from mainstay.metering.rate_limiter import RateLimiter
from mainstay.metering.resilient_provider import ResilientProvider
from mainstay.operations.sessions import copy_session
from mainstay.testing import Call, Pieces, Raise, Say, ScriptedProvider, Stall
from mainstay.testing.virtual_time import CountingIds

DEAR = ModelInfo(name="dear", price_prompt=30.0, price_completion=60.0)
THINKS = ModelInfo(name="m", price_prompt=1.0, price_completion=2.0, thinking=True)
DIGEST = '{"summary": "They talked for a long while about how to go on, and went on.", "facts": []}'


def spent_in(journal: list[Any]) -> list[tuple[Usage | None, float]]:
    return [(one.usage, one.cost) for one in journal if isinstance(one, Settled)]


# --- what is learnt ------------------------------------------------------------------------------


@pytest.mark.parametrize("usage", [Usage(), Usage(400, 5)], ids=["silent", "overhead"])
def test_short_requests_and_our_own_estimates_do_not_calibrate_token_counts(usage: Usage) -> None:
    @virtual
    async def check() -> None:
        till = BudgetedWorld()
        async with till.world(lambda context, options: Say("ok", usage=usage)) as world:
            before = world.services.calibrations.for_model(INFO).factor
            for number in range(14):
                await world.ask(f"hi {number}")
            assert world.services.calibrations.for_model(INFO).factor == before

    check()


@virtual
async def test_a_long_request_teaches_what_the_provider_counts_beyond_its_frame() -> None:
    till = BudgetedWorld()
    long = "all kinds of words, one after the other, " * 1000

    def step(context: Context, options: Options) -> Any:
        assert options.count_context_tokens is not None
        return Say("ok", usage=Usage(options.count_context_tokens() * 2, 5))

    async with till.world(step) as world:
        before = world.services.calibrations.for_model(INFO).factor
        await world.ask(long)
        await world.ask("and?")
        assert before * 1.9 < world.services.calibrations.for_model(INFO).factor < before * 2


# --- what was never sent -------------------------------------------------------------------------


@virtual
async def test_queued_calls_cost_nothing_when_the_agent_closes_or_they_are_stopped() -> None:
    till = BudgetedWorld()

    asked = 0

    def step(context: Context, options: Options) -> Any:
        nonlocal asked
        asked += 1
        return Raise(RateLimited("slow", retry_after_s=50.0))

    slow = ScriptedProvider(step, info=INFO)
    limiter = RateLimiter("a", till.clock)
    provider = ResilientProvider([slow], clock=till.clock, ids=CountingIds(), limits=Limits(), limiters=[limiter])
    async with till.world(provider) as world:
        await world.send("go", key="first")
        await asyncio.sleep(5)
        stopped = await world.send("go", key="stopped")
        for number in range(5):
            await world.send("go", key=f"a{number}")
        await asyncio.sleep(5)
        assert asked == 1
        assert await world.abort("stopped")
        assert isinstance((await stopped.reply).outcome, Aborted)
    first = next(one for one in await world.journal("first") if isinstance(one, Reserved))
    assert till.spent()[0] <= first.cost
    for key in ("stopped", *(f"a{number}" for number in range(5))):
        assert spent_in(await world.journal(key)) == [(None, 0.0)]
    await till.check()


# --- what broke off ------------------------------------------------------------------------------


@virtual
async def test_the_arguments_of_a_call_that_is_stopped_are_charged() -> None:
    till = BudgetedWorld()
    stall = Stall()
    said = "row 17, column 4; " * 500
    async with till.world([Pieces([ToolCallPiece(0, "look", said), stall]), "after"]) as world:
        ticket = await world.send("go")
        await stall.reached.wait()
        await world.abort()
        await ticket.reply
        (added,) = [one for one in await world.journal() if isinstance(one, MessageAdded) and one.role == "assistant"]
        assert added.usage is not None
        assert added.usage.completion == count_for_model("look" + said, INFO)
        await world.check_replay()
        await till.check()


@virtual
async def test_a_stopped_failover_call_is_charged_at_the_highest_price() -> None:
    till = BudgetedWorld()
    stall = Stall()
    cheap = ScriptedProvider([Raise(Unreachable("gone"))] * 20, info=INFO)
    dear = ScriptedProvider([Pieces([TextPiece("some words " * 500), stall])], info=DEAR)
    provider = ResilientProvider([cheap, dear], clock=till.clock, ids=CountingIds(), limits=Limits())
    async with till.world(provider) as world:
        ticket = await world.send("go")
        await stall.reached.wait()
        await world.abort()
        await ticket.reply
        (added,) = [one for one in await world.journal() if isinstance(one, MessageAdded) and one.role == "assistant"]
        assert added.cost == DEAR.cost(added.usage)
        await world.check_replay()
        await till.check()


@pytest.mark.parametrize("info", [INFO, THINKS], ids=["speaks", "thinks"])
@pytest.mark.parametrize("error", [ModelSilent("silent"), StreamBroken("torn")], ids=["silent", "torn"])
def test_an_accepted_call_that_broke_off_before_text_is_charged_and_in_full_if_it_may_have_reasoned(
    info: ModelInfo, error: Exception
) -> None:
    @virtual
    async def check() -> None:
        till = BudgetedWorld()
        async with till.world(ScriptedProvider([Raise(error)], info=info)) as world:
            await world.ask("go")
            journal = await world.journal()
            reserved = next(one for one in journal if isinstance(one, Reserved))
            ((usage, _), *_) = spent_in(journal)
            assert usage == Usage(reserved.prompt, reserved.output if info.thinking else 0)
            await till.check()

    check()


@virtual
async def test_an_answer_far_beyond_what_was_granted_is_cut_and_charged_for_what_came() -> None:
    till = BudgetedWorld(SpendingBudget("home", "day", "money", 20_000_000))
    heard = 0

    class Endless:
        def model(self) -> ModelInfo:
            return INFO

        async def close(self) -> None: ...

        async def stream(self, context: Context, options: Options) -> Any:
            nonlocal heard
            for _ in range(2000):
                heard += 1000
                yield TextPiece("word " * 1000)
            yield StreamFinished(FinishReason.END, Usage(100, 2_000_000))

    async with till.world(Endless()) as world:
        await world.ask("go")
        journal = await world.journal()
        reserved = next(one for one in journal if isinstance(one, Reserved))
        added = next(one for one in journal if isinstance(one, MessageAdded) and one.role == "assistant")
        assert heard < 3 * reserved.output
        assert added.usage is not None
        assert added.usage.completion >= heard
        assert isinstance((await world.ask("go on")).outcome, Exhausted)
        await till.check()


# --- sub-agents ----------------------------------------------------------------------------------


def digging(context: Context, options: Options) -> Any:
    last = context.messages[-1]
    if last.role == "user" and last.text.startswith("errand"):
        return Pieces([ToolCallPiece(0, "look", '{"at":1}'), StreamFinished(FinishReason.TOOL_CALLS, Usage(100, 5000))])
    return None


@pytest.mark.parametrize("how", ["abort", "timeout"])
def test_spending_of_a_sub_agent_counts_for_its_parent_with_any_end(how: str) -> None:
    @virtual
    async def check() -> None:
        till = BudgetedWorld(SpendingBudget("session", "", "money", 40_000_000))
        stall = Stall()

        def step(context: Context, options: Options) -> Any:
            last = context.messages[-1]
            if last.role == "tool":
                return Say("done", usage=SMALL) if "Timed out" in str(last.parts) else stall
            return digging(context, options) or [Call("spawn", {"prompt": "errand", "tools": ["look"]})]

        async with family(till, step, limits=Limits(output_tokens_max=6000, model_timeout_s=10_000)) as world:
            ticket = await world.send("go")
            await stall.reached.wait()
            if how == "abort":
                await world.abort()
            await ticket.reply
            view = await world.lanes.get("s").load_session()
            assert to_nanodollars(view.cost) == till.spent()[0] > 10_000_000
            (finished,) = [one for one in await world.journal() if isinstance(one, ToolFinished)]
            assert finished.usage is not None
            await world.check_replay()
            await till.check()

    check()


# --- summaries, forks ----------------------------------------------------------------------------


@virtual
async def test_a_custom_summariser_is_charged_what_it_reports() -> None:
    class Own:
        async def summarise(self, passage: SummaryRequest, model: str) -> SummaryResult:
            return SummaryResult("short", (), "own", Usage(50_000, 1000), 0.25)

    till = BudgetedWorld()
    async with till.world(lambda context, options: Say("word " * 50, usage=SMALL), summariser=Own()) as world:
        for _ in range(4):
            await world.ask("go on")
        await (await world.lanes.get("s").load_context_compiler()).compact("")
        (folded,) = [one for one in await world.journal() if isinstance(one, Folded)]
        assert (folded.usage, folded.cost) == (Usage(50_000, 1000), 0.25)
        await till.check()


@virtual
async def test_a_fold_of_a_dead_process_stays_on_the_account_of_its_session() -> None:
    till = BudgetedWorld(WIDE, SpendingBudget("session", "", "money", NANODOLLARS_PER_DOLLAR))
    stall = Stall()

    def step(context: Context, options: Options) -> Any:
        return Say("word " * 50, usage=SMALL) if options.turn else stall

    dying = ScriptedProvider(step, info=INFO)
    world = till.world(dying, summariser=ModelSummariser(lambda spec: dying))
    for _ in range(4):
        await world.ask("go on")
    task = asyncio.create_task((await world.lanes.get("s").load_context_compiler()).compact(""))
    await stall.reached.wait()
    await world.crash()
    await asyncio.gather(task, return_exceptions=True)
    till.open(await till.recounted())
    healthy = ScriptedProvider(lambda context, options: Say(DIGEST, usage=SMALL), info=INFO)
    async with till.world(healthy, summariser=ModelSummariser(lambda spec: healthy)) as after:
        await (await after.lanes.get("s").load_context_compiler()).compact("")
        view = await after.lanes.get("s").load_session()
        assert any(one.lost for one in await after.journal() if isinstance(one, Settled))
        assert to_nanodollars(view.cost) == till.spent()[0]
        await till.check()


@virtual
async def test_a_fork_in_the_middle_of_a_call_is_not_charged_for_it() -> None:
    till = BudgetedWorld(WIDE, SpendingBudget("session", "", "money", NANODOLLARS_PER_DOLLAR))
    stall = Stall(Say("yes", usage=SMALL))

    def step(context: Context, options: Options) -> Any:
        return stall if context.messages[-1].text == "slow" else Say("yes", usage=SMALL)

    async with till.world(step) as world:
        ticket = await world.send("slow")
        await stall.reached.wait()
        await copy_session(world.store, "s", "f", None, till.clock.now_ms())
        await world.ask("hi", key="f")
        stall.release()
        await ticket.reply
        assert spent_in(await world.journal("f")) == []
        assert to_nanodollars((await world.lanes.get("f").load_session()).cost) == 200_000


@virtual
async def test_the_time_a_summary_waits_for_room_or_a_budget_is_not_its_own() -> None:
    till = BudgetedWorld(SpendingBudget("home", "day", "money", 33_000_000))
    asked = 0
    stall = Stall(Say("yes", usage=SMALL))

    def step(context: Context, options: Options) -> Any:
        nonlocal asked
        if options.turn:
            return stall if context.messages[-1].text == "slow" else Say("word " * 50, usage=SMALL)
        asked += 1
        return Raise(RateLimited("slow", retry_after_s=100.0)) if asked == 1 else Say(DIGEST, usage=SMALL)

    scripted = ScriptedProvider(step, info=INFO)
    provider = ResilientProvider([scripted], clock=till.clock, ids=CountingIds(), limits=Limits(retry_wait_max_s=500))
    summariser = ModelSummariser(lambda spec: provider, timeout_s=60.0)
    limits = Limits(model_timeout_s=10_000, output_tokens_max=14_000)
    async with till.world(provider, summariser=summariser, limits=limits) as world:
        for _ in range(4):
            await world.ask("go on")
        other = await world.send("slow", key="other")
        await stall.reached.wait()
        folding = asyncio.create_task((await world.lanes.get("s").load_context_compiler()).compact(""))
        await asyncio.sleep(1000)
        stall.release()
        await folding
        await other.reply
        assert [one.summary for one in await world.journal() if isinstance(one, Folded)] == [
            "They talked for a long while about how to go on, and went on."
        ]
        await till.check()
