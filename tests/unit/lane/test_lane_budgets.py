"""Turns within budgets: reserved on disk first, settled exactly once, refused by name."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest
from support.kernel_world import World, virtual

from mainstay.context.tokenizers import count_for_model
from mainstay.core.budget_reservation_ids import NANODOLLARS_PER_DOLLAR, to_nanodollars
from mainstay.core.errors import ModelSilent, ProviderError, StoreFull, StreamBroken, Unreachable
from mainstay.core.events import Event, Folded, MessageAdded, Reserved, Settled, ToolFinished, Waiting, Warned
from mainstay.core.ledger_entries import LedgerRow, OpenReservation, ledger_entries
from mainstay.core.limits import Limits
from mainstay.core.messages import FinishReason, Usage
from mainstay.core.outcome import Aborted, Answered, Exhausted
from mainstay.core.ports import Context, ModelInfo, Options, SessionInfo, StreamFinished, TextPiece
from mainstay.core.projection_ports import JournalBatch
from mainstay.core.tools import tool
from mainstay.lane.sub_agents import SubAgentRunner
from mainstay.memory.summariser import ModelSummariser
from mainstay.metering.budget_definitions import BudgetKind, BudgetPeriod, BudgetScope, SpendingBudget, WorkspaceBudgets
from mainstay.metering.budget_ledger import BudgetLedger
from mainstay.metering.resilient_provider import ResilientProvider
from mainstay.metering.turn_budgets import WorkspaceBudgetManager
from mainstay.testing import Call, MemoryStore, Pieces, Raise, Say, ScriptedProvider, Stall, VirtualClock
from mainstay.testing.virtual_time import CountingIds
from mainstay.tools.spawn import create_spawn_tool

INFO = ModelInfo(name="m", price_prompt=1.0, price_completion=2.0)
SMALL = Usage(100, 50)  # 200,000 nanodollars
WIDE = SpendingBudget("home", "month", "money", 100 * NANODOLLARS_PER_DOLLAR)


@tool(effect="pure", untrusted=False, sink=False)
async def look(at: int = 0) -> str:
    return f"seen {at}"


class BudgetedWorld:
    """The ledger of a world, and its store."""

    def __init__(self, *budgets: SpendingBudget, warn_at: float = 0.8) -> None:
        self.clock = VirtualClock()
        self.store = MemoryStore()
        self.budgets = WorkspaceBudgets(budgets or (WIDE,), warn_at)
        self.open(())

    def open(self, rows: Any) -> None:
        self.ledger = BudgetLedger(self.clock)
        self.ledger.load_rows(rows)
        self.accounts = WorkspaceBudgetManager(self.ledger, self.budgets, self.store, "w")

    def world(self, script: Any, *tools: Any, **more: Any) -> World:
        provider = ScriptedProvider(script, info=INFO) if isinstance(script, list) or callable(script) else script
        limits = more.pop("limits", None)
        services = {"budget_manager": self.accounts, **more}
        return World(provider, tools, store=self.store, clock=self.clock, limits=limits, more=services)

    def spent(self, scope: BudgetScope = "home", name: str = "") -> tuple[int, int, int]:
        sums = self.ledger.get_counter(scope, name).sum_since(0)
        return sums.money, sums.tokens, sums.calls

    @property
    def held(self) -> int:
        return self.ledger.get_counter("home", "").reserved.money

    async def recounted(self) -> list[LedgerRow]:
        """From the journals alone."""
        rows: list[LedgerRow] = []
        for key in await self.store.list_heads():
            standing = await self.store.get_session(key)
            open: dict[str, OpenReservation] = {}
            records = await self.store.read_records(key, limit=100_000)
            for one in ledger_entries(JournalBatch(standing or SessionInfo(key=key), records), open):
                amounts = (one.hour, one.money, one.tokens, one.calls)
                rows += [("home", "", *amounts), ("workspace", "w", *amounts), ("person", one.person, *amounts)]
        return rows

    async def check(self) -> None:
        """The ledger agrees with the journals, for everyone."""
        sums: dict[tuple[BudgetScope, str], list[int]] = {}
        for scope, name, _, money, tokens, calls in await self.recounted():
            total = sums.setdefault((scope, name), [0, 0, 0])
            total[0] += money
            total[1] += tokens
            total[2] += calls
        assert self.held == 0
        assert {key: list(self.spent(*key)) for key in sums} == sums
        assert not self.accounts._accounts
        assert not self.accounts._root_keys


def kinds(events: list[Event], *wanted: type[Event]) -> list[str]:
    return [type(one).__name__ for one in events if isinstance(one, wanted)]


PERIODS: dict[BudgetScope, tuple[BudgetPeriod, ...]] = {
    "turn": ("",),
    "session": ("",),
    "person": ("hour", "day", "month"),
    "workspace": ("hour", "day", "month"),
    "home": ("hour", "day", "month"),
}
EVERY = [
    (scope, period, kind) for scope in PERIODS for period in PERIODS[scope] for kind in ("money", "tokens", "calls")
]


@pytest.mark.parametrize(("scope", "period", "kind"), EVERY, ids=[".".join(filter(None, one)) for one in EVERY])
def test_sigil032_every_kind_of_budget_ends_what_it_bounds_and_is_named(
    scope: BudgetScope, period: BudgetPeriod, kind: BudgetKind
) -> None:
    limit = {"money": 4_000_000, "tokens": 3000, "calls": 2}[kind]

    @virtual
    async def check() -> None:
        till = BudgetedWorld(SpendingBudget(scope, period, kind, limit))
        heavy = Say("on", usage=Usage(700, 500))

        def step(context: Context, options: Options) -> Any:
            if context.messages[-1].role == "user" and kind == "calls":
                return [Call("look", {"at": number}) for number in range(3)]
            return [Call("look", {"at": options.step})] if scope == "turn" and options.step < 20 else heavy

        async with till.world(step, look) as world:
            outcomes = [(await world.ask("go", sender="ann")).outcome for _ in range(5)]
            journal = await world.journal()
            await till.check()
        if kind == "calls":
            refused = [one.result.content for one in journal if isinstance(one, ToolFinished) and not one.calls]
            assert refused
            assert all("budget of 2 tool calls" in one for one in refused)
            ran = sum(one.calls for one in journal if isinstance(one, ToolFinished))
            assert ran == (10 if scope == "turn" else 2)
            return
        last = outcomes[-1]
        assert isinstance(last, Exhausted), outcomes
        assert last.budget == f"{scope}.{period}.{kind}".replace("..", ".")
        assert bool(last.frees_at) == bool(period)
        assert ("renews at 2026-" in last.bound) == bool(period)
        whose = "ann's" if scope == "person" else f"the {scope}'s"
        assert last.bound.startswith(f"{whose} budget of ")
        spent = till.spent()
        assert scope == "turn" or (spent[0] if kind == "money" else spent[1]) <= limit

    check()


@virtual
async def test_u3_the_maximum_cost_of_a_call_is_on_disk_before_it_is_sent_and_limits_its_answer() -> None:
    till = BudgetedWorld(SpendingBudget("session", "", "tokens", 5000))
    seen: list[tuple[list[str], int | None]] = []

    def step(context: Context, options: Options) -> Any:
        bodies = till.store._sessions["s"].bodies
        seen.append(([body.decode() for _, body in bodies if b'"Reserved"' in body], options.output_tokens_max))
        return Say("yes", usage=SMALL)

    async with till.world(step) as world:
        reply = await world.ask("go")
        journal = await world.journal()
        await world.check_replay()
        await till.check()
    (bodies, output), *_ = seen
    reserved = next(one for one in journal if isinstance(one, Reserved))
    assert len(bodies) == 1
    assert output == reserved.output == 5000 - reserved.prompt
    assert reserved.cost == reserved.prompt * 1000 + reserved.output * 2000
    assert (reserved.id, reserved.turn, reserved.step) == ("1.1", 1, 1)
    assert reply.cost == 200_000 / NANODOLLARS_PER_DOLLAR
    assert kinds(journal, Reserved, Settled, MessageAdded) == ["Reserved", "MessageAdded"]


@virtual
async def test_without_accounts_nothing_is_reserved() -> None:
    async with World(["yes"]) as world:
        await world.ask("go")
        assert not kinds(await world.journal(), Reserved, Settled)


@virtual
async def test_a_provider_that_reports_nothing_is_charged_by_an_estimate() -> None:
    till = BudgetedWorld()
    said = "one word after the other, " * 12
    async with till.world([Say(said, usage=Usage())]) as world:
        await world.ask("go")
        (added,) = [one for one in await world.journal() if isinstance(one, MessageAdded) and one.role == "assistant"]
        reserved = next(one for one in await world.journal() if isinstance(one, Reserved))
        assert added.usage == Usage(reserved.prompt, count_for_model(said, INFO))
        await world.check_replay()
        await till.check()


@virtual
async def test_an_answer_that_is_stopped_is_charged_for_what_came_of_it() -> None:
    till = BudgetedWorld()
    stall = Stall()
    async with till.world([Pieces([TextPiece("y" * 100), stall]), "after"]) as world:
        ticket = await world.send("go")
        await stall.reached.wait()
        await world.abort()
        assert isinstance((await ticket.reply).outcome, Aborted)
        (added,) = [one for one in await world.journal() if isinstance(one, MessageAdded) and one.role == "assistant"]
        assert added.usage is not None
        assert added.usage.completion == count_for_model("y" * 100, INFO)
        await world.check_replay()
        await till.check()


@virtual
async def test_a_call_stopped_before_its_first_text_is_charged_for_its_prompt() -> None:
    till = BudgetedWorld()
    stall = Stall()
    async with till.world([stall]) as world:
        ticket = await world.send("go")
        await stall.reached.wait()
        await world.abort()
        await ticket.reply
        settled = [one for one in await world.journal() if isinstance(one, Settled)]
        assert [one.usage.completion for one in settled if one.usage is not None] == [0]
        await world.check_replay()
        await till.check()


@pytest.mark.parametrize(
    ("error", "charged"), [(Unreachable("gone"), False), (ModelSilent("silent"), True)], ids=["failed", "silent"]
)
def test_f16_a_call_that_fails_before_its_first_text_is_refunded(error: ProviderError, charged: bool) -> None:
    @virtual
    async def check() -> None:
        till = BudgetedWorld()
        async with till.world([Raise(error)]) as world:
            await world.ask("go")
            settled = [one for one in await world.journal() if isinstance(one, Settled)]
            assert [one.usage is not None for one in settled] == [charged]
            assert (till.spent()[0] > 0) == charged
            await world.check_replay()
            await till.check()

    check()


@virtual
async def test_an_answer_that_breaks_off_is_charged_and_so_is_its_second_try() -> None:
    till = BudgetedWorld()
    broken = Pieces([TextPiece("z" * 50), Raise(StreamBroken("cut"))])
    async with till.world([broken, Say("whole", usage=SMALL)]) as world:
        await world.ask("go")
        journal = await world.journal()
        assert kinds(journal, Reserved, Settled) == ["Reserved", "Settled", "Reserved"]
        settled = next(one for one in journal if isinstance(one, Settled))
        assert settled.usage is not None
        assert settled.usage.completion == count_for_model("z" * 50, INFO)
        assert till.spent()[0] == 200_000 + to_nanodollars(settled.cost)
        await world.check_replay()
        await till.check()


@virtual
async def test_f16_retries_within_a_call_are_reserved_and_charged_once() -> None:
    till = BudgetedWorld()
    flaky = ScriptedProvider(
        [Raise(Unreachable("once")), Raise(Unreachable("twice")), Say("yes", usage=SMALL)], info=INFO
    )
    provider = ResilientProvider([flaky], clock=till.clock, ids=CountingIds(), limits=Limits())
    async with till.world(provider) as world:
        await world.ask("go")
        assert kinds(await world.journal(), Reserved, Settled) == ["Reserved"]
        assert till.spent()[0] == 200_000
        await till.check()


@virtual
async def test_failover_is_reserved_at_the_highest_price_and_settled_at_the_price_of_the_model_that_answered() -> None:
    till = BudgetedWorld()
    cheap = ScriptedProvider([Raise(Unreachable("gone"))] * 20, info=INFO)
    dear_info = ModelInfo(name="dear", price_prompt=3.0, price_completion=30.0)
    dear = ScriptedProvider([Say("yes", usage=SMALL)], info=dear_info)
    provider = ResilientProvider([cheap, dear], clock=till.clock, ids=CountingIds(), limits=Limits())
    async with till.world(provider) as world:
        await world.ask("go")
        reserved = next(one for one in await world.journal() if isinstance(one, Reserved))
        assert reserved.cost == reserved.prompt * 3000 + reserved.output * 30_000
        assert till.spent()[0] == 100 * 3000 + 50 * 30_000
        await till.check()


@virtual
async def test_a_model_with_an_estimated_price_is_flagged() -> None:
    till = BudgetedWorld()
    guess = msgspec.structs.replace(INFO, guessed=True)
    async with till.world(ScriptedProvider([Say("yes", usage=SMALL)], info=guess)) as world:
        await world.ask("go")
        assert next(one for one in await world.journal() if isinstance(one, Reserved)).guessed


# --- crashes -------------------------------------------------------------------------------------


@virtual
async def test_a_call_of_a_dead_process_costs_its_whole_reservation() -> None:
    till = BudgetedWorld(WIDE, SpendingBudget("session", "", "money", NANODOLLARS_PER_DOLLAR))
    stall = Stall()
    world = till.world([stall])
    await world.send("go")
    await stall.reached.wait()
    await world.crash()
    rows = await till.recounted()
    till.open(rows)
    full = till.spent()[0]
    async with till.world([Say("yes", usage=SMALL)]) as after:
        await after.lanes.resume_unfinished()
        await after.lanes.wait_until_settled()
        journal = await after.journal()
        lost = next(one for one in journal if isinstance(one, Settled))
        reserved = next(one for one in journal if isinstance(one, Reserved))
        assert lost.lost
        assert to_nanodollars(lost.cost) == reserved.cost == full
        view = await after.lanes.get("s").load_session()
        assert to_nanodollars(view.cost) == full + 200_000
        assert till.spent()[0] == full + 200_000
        await after.check_replay()
        await till.check()


@virtual
async def test_a_session_that_lost_its_budget_in_a_crash_has_lost_it() -> None:
    till = BudgetedWorld(SpendingBudget("session", "", "tokens", 3000))
    stall = Stall()
    world = till.world([stall])
    await world.send("go")
    await stall.reached.wait()
    await world.crash()
    till.open(await till.recounted())
    async with till.world(["never asked"]) as after:
        await after.lanes.resume_unfinished()
        await after.lanes.wait_until_settled()
        reply = await after.ask("and now?")
        assert isinstance(reply.outcome, Exhausted)
        assert "is used up (3,000 tokens)" in reply.outcome.bound


@virtual
async def test_f4_a_settlement_that_the_disk_refused_is_lost_in_the_ledger_too() -> None:
    till = BudgetedWorld()
    store = till.store

    def step(context: Context, options: Options) -> Any:
        store.fail = StoreFull("no space") if not done else None
        done.append(1)
        return Say("yes", usage=SMALL)

    done: list[int] = []
    async with till.world(step) as world:
        ticket = await world.send("go")
        with pytest.raises(StoreFull):
            await asyncio.wait_for(asyncio.shield(ticket.reply), 60)
        store.fail = None
        await asyncio.wait_for(world.lanes.wait_until_settled(), 1000)
        journal = await world.journal()
        assert kinds(journal, Reserved, Settled) == ["Reserved", "Settled", "Reserved"]
        await till.check()


# --- sub-agents, folds ---------------------------------------------------------------------------


class Late:
    real: Any

    async def run(self, errand: Any) -> Any:
        return await self.real.run(errand)


def family(till: BudgetedWorld, answer: Any, **more: Any) -> World:
    late = Late()
    made = till.world(ScriptedProvider(answer, info=INFO), look, create_spawn_tool(late), **more)
    late.real = SubAgentRunner(made.lanes, made.services)
    return made


def send_sub_agents(context: Context, options: Options) -> Any:
    last = context.messages[-1]
    if last.role == "tool":
        return Say("done", usage=SMALL)
    if last.text == "go":
        return [
            Call("spawn", {"prompt": "dig", "tools": ["look"]}),
            Call("spawn", {"prompt": "dig more", "tools": ["look"]}),
        ]
    return [Call("look")]


@virtual
async def test_a_sub_agent_spends_what_its_parent_has_and_is_counted_once() -> None:
    till = BudgetedWorld(
        WIDE, SpendingBudget("turn", "", "calls", 50), SpendingBudget("session", "", "money", NANODOLLARS_PER_DOLLAR)
    )
    async with family(till, send_sub_agents) as world:
        reply = await world.ask("go", sender="ann")
        assert reply.outcome == Answered()
        view = await world.lanes.get("s").load_session()
        money, tokens, calls = till.spent("person", "ann")
        assert to_nanodollars(view.cost) == money
        assert view.usage.prompt + view.usage.completion == tokens
        assert view.calls == calls == 4
        await till.check()


@virtual
async def test_a_sub_agent_is_refused_by_the_budget_of_the_turn_that_sent_it() -> None:
    till = BudgetedWorld(SpendingBudget("turn", "", "money", 41_000_000))
    gone: list[str] = []

    def answer(context: Context, options: Options) -> Any:
        last = context.messages[-1]
        if last.role == "user" and last.text == "go":
            return [Call("spawn", {"prompt": "dig", "tools": ["look"]})]
        gone.append(last.text)
        return Say("much", usage=Usage(1000, 19_000)) if last.role == "user" else Say("done", usage=SMALL)

    async with family(till, answer, limits=Limits(output_tokens_max=19_500)) as world:
        reply = await world.ask("go")
        results = await world.results()
        assert isinstance(reply.outcome, Exhausted)
        assert reply.outcome.budget == "turn.money"
        assert results[0].content.startswith("much")
        await till.check()


@virtual
async def test_a_resumed_turn_knows_the_spending_of_its_sub_agents() -> None:
    till = BudgetedWorld(SpendingBudget("turn", "", "tokens", 200_000))
    stall = Stall()

    def answer(context: Context, options: Options) -> Any:
        last = context.messages[-1]
        if last.role == "user" and last.text == "go":
            return [Call("spawn", {"prompt": "dig", "tools": ["look"]})]
        return [Call("look")] if last.role == "user" else stall

    world = family(till, answer)
    await world.send("go")
    await stall.reached.wait()
    await world.crash()
    till.open(await till.recounted())
    before = till.spent()[1]
    seen: list[int] = []

    def ending(context: Context, options: Options) -> Any:
        (sheet,) = till.accounts._accounts.values()
        seen.append(sheet.turn.sum_since(0).tokens)
        return Say("done", usage=SMALL)

    async with family(till, ending) as after:
        await after.lanes.resume_unfinished()
        await after.lanes.wait_until_settled()
        assert seen[0] == before
        await till.check()


@virtual
async def test_folds_are_charged_to_the_account_of_the_conversation() -> None:
    till = BudgetedWorld()
    digest = '{"summary": "They talked for a long while about how to go on, and went on.", "facts": []}'

    def answer(context: Context, options: Options) -> Any:
        return Say(digest, usage=Usage(300, 40)) if options.turn == 0 else Say("word " * 400, usage=Usage(900, 500))

    provider = ScriptedProvider(answer, info=INFO)
    summariser = ModelSummariser(lambda spec: provider)
    async with till.world(provider, summariser=summariser) as world:
        for _ in range(4):
            await world.ask("go on " * 50, sender="ann")
        assert await (await world.lanes.get("s").load_context_compiler()).compact("") is not None
        journal = await world.journal()
        reserved = [one for one in journal if isinstance(one, Reserved) and one.id.startswith("fold:")]
        folded = next(one for one in journal if isinstance(one, Folded))
        assert reserved
        assert folded.usage == Usage(300 * len(reserved), 40 * len(reserved))
        view = await world.lanes.get("s").load_session()
        assert not view.reserved
        assert to_nanodollars(view.cost) == till.spent("person", "ann")[0]
        await till.check()


@virtual
async def test_a_fold_that_fails_settles_what_it_had_spent() -> None:
    till = BudgetedWorld()

    def answer(context: Context, options: Options) -> Any:
        return (
            Say("no summary", usage=Usage(300, 40)) if options.turn == 0 else Say("word " * 400, usage=Usage(900, 500))
        )

    provider = ScriptedProvider(answer, info=INFO)
    async with till.world(provider, summariser=ModelSummariser(lambda spec: provider)) as world:
        for _ in range(4):
            await world.ask("go on " * 50)
        await (await world.lanes.get("s").load_context_compiler()).compact("")
        journal = await world.journal()
        settled = [one for one in journal if isinstance(one, Settled)]
        assert [one.id for one in settled] == ["fold:1", "fold:2"]
        assert not (await world.lanes.get("s").load_session()).reserved
        await till.check()


# --- waiting and warning -------------------------------------------------------------------------


@virtual
async def test_waiting_for_other_reservations_is_shown_and_can_be_stopped() -> None:
    till = BudgetedWorld(SpendingBudget("home", "day", "money", 17_600_000))
    stall, later = Stall(then=Say("first", usage=SMALL)), Stall(then=Say("third", usage=SMALL))
    answers = {"a": stall, "b": Say("second", usage=SMALL), "c": later}
    script = ScriptedProvider(lambda context, options: answers[context.messages[-1].text], info=INFO)
    async with till.world(script, limits=Limits(model_timeout_s=4000)) as world:
        first = await world.send("a", "a")
        await stall.reached.wait()
        watched = world.watch(None)
        second, third = await world.send("b", "b"), await world.send("c", "c")
        waiting = await watched.see(Waiting, 2)
        assert "the home's budget of $0.0176 a day: running calls" in waiting.reason
        assert await world.abort("b")
        assert isinstance((await second.reply).outcome, Aborted)
        await asyncio.sleep(3000)
        stall.release()
        await later.reached.wait()
        await asyncio.sleep(3000)  # together longer than a model may take, but most of it was no model's time
        later.release()
        assert (await first.reply).outcome == (await third.reply).outcome == Answered()
        await watched.leave()
        await till.check()


@virtual
async def test_a_nearly_used_budget_is_reported_once() -> None:
    till = BudgetedWorld(
        SpendingBudget("workspace", "day", "tokens", 20_000), SpendingBudget("session", "", "tokens", 1_000_000)
    )
    async with till.world(lambda context, options: Say("yes", usage=Usage(3000, 500))) as world:
        watched = world.watch(None)
        for _ in range(5):
            await world.ask("go")
        assert [one.sentence for one in watched.of(Warned)] == [
            "87 % of the workspace's budget of 20,000 tokens a day is used (17,500 tokens) until 2026-01-02 00:00 UTC"
        ]
        await watched.leave()


@virtual
async def test_u25_a_loop_of_tools_ends_at_the_money_of_its_turn() -> None:
    till = BudgetedWorld(SpendingBudget("turn", "", "money", 50_000_000))
    asked = 0

    def step(context: Context, options: Options) -> Any:
        nonlocal asked
        asked += 1
        return [Call("look", {"at": asked})]

    provider = ScriptedProvider(step, info=msgspec.structs.replace(INFO, price_prompt=50.0))

    class Reporting:
        def model(self) -> ModelInfo:
            return provider.model()

        async def close(self) -> None: ...

        async def stream(self, context: Context, options: Options) -> Any:
            async for piece in provider.stream(context, options):
                usage = Usage(200, 100)
                yield StreamFinished(FinishReason.TOOL_CALLS, usage) if isinstance(piece, StreamFinished) else piece

    limits = Limits(steps_max=10_000, tool_calls_max=10_000, output_tokens_max=500)
    async with till.world(Reporting(), look, limits=limits) as world:
        reply = await world.ask("go")
        assert isinstance(reply.outcome, Exhausted)
        assert reply.outcome.budget == "turn.money"
        assert reply.text.startswith("I had to stop: the turn's budget of $0.05 has $0.0")
        assert 1 <= asked < 10
        await world.check_replay()
        await till.check()
