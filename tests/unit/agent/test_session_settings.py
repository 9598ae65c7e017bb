"""Settings of one session: metadata, budget, the time of the last compaction, pause."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from mainstay import Agent, Config
from mainstay.config.schema import ToolSettings
from mainstay.config.schema_judges_budgets_telemetry import BudgetEntry, BudgetSettings
from mainstay.core.errors import InputRefused
from mainstay.core.limits import SessionBudget
from mainstay.core.messages import FinishReason, Usage
from mainstay.core.outcome import Answered, Exhausted
from mainstay.core.ports import ModelInfo, StreamFinished, ToolCallPiece
from mainstay.core.tools import tool
from mainstay.testing import Call, MemoryStore, Pieces, Say, ScriptedProvider

INFO = ModelInfo(name="m", price_prompt=1.0, price_completion=1.0)
DEAR = Say("hello", usage=Usage(50_000, 50_000))  # 0.1 dollars


def dear(**more: Any) -> Agent:
    return Agent(ScriptedProvider(lambda context, options: DEAR, info=INFO), **more)


# --- metadata ------------------------------------------------------------------------------------


async def test_loom_087_opentalon_028_a_session_carries_values_that_survive_a_restart_and_are_not_shown_to_the_model(
    tmp_path: Path,
) -> None:
    provider = ScriptedProvider(["hello"])
    async with Agent(provider, home=tmp_path) as agent:
        await agent.sessions.set_metadata("s", {"tenant": "acme-canary", "state": '{"step": 3}'})
        await agent.run("s", "hi")
        assert "acme-canary" not in str(provider.asked)
    async with Agent(ScriptedProvider(["hello"]), home=tmp_path) as agent:
        assert await agent.sessions.metadata("s") == {"tenant": "acme-canary", "state": '{"step": 3}'}
        assert await agent.sessions.set_metadata("s", {"state": ""}) == {"tenant": "acme-canary"}
        assert (await agent.sessions.get("s")).metadata == {"tenant": "acme-canary"}
        await agent.sessions.fork("s", "t")
        assert await agent.sessions.metadata("t") == {"tenant": "acme-canary"}
        await agent.sessions.clear_metadata("s")
        assert await agent.sessions.metadata("s") == {}


@pytest.mark.parametrize(
    "fields",
    [{"": "x"}, {"n" * 65: "x"}, {"name": "x" * 2001}, {"name": 7}, {f"f{number}": "x" for number in range(33)}],
    ids=["no name", "long name", "long value", "no text", "many"],
)
async def test_metadata_that_is_too_large_is_refused_and_changes_nothing(fields: Any) -> None:
    async with Agent(ScriptedProvider([]), home=":memory:") as agent:
        with pytest.raises(InputRefused, match="metadata"):
            await agent.sessions.set_metadata("s", fields)
        with pytest.raises(InputRefused, match="metadata"):
            await agent.import_history("s", [{"role": "user", "content": "hi"}], metadata=fields)
        assert await agent.sessions.list() == []


# --- budget --------------------------------------------------------------------------------------


async def test_sigil_032_a_session_has_a_budget_of_its_own_and_others_do_not(tmp_path: Path) -> None:
    async with dear(home=tmp_path) as agent:
        await agent.sessions.set_budget("s", tokens=150_000)
        assert isinstance((await agent.run("s", "one")).outcome, Answered)
        assert isinstance((await agent.run("t", "one")).outcome, Answered)
    async with dear(home=tmp_path) as agent:
        assert (await agent.sessions.get("s")).budget == SessionBudget(tokens=150_000)
        assert isinstance((await agent.run("s", "two")).outcome, Answered)
        refused = await agent.run("s", "three")
        assert isinstance(refused.outcome, Exhausted)
        assert "the session's budget of 150,000 tokens is used up" in refused.outcome.bound
        for text in ("two", "three"):
            assert isinstance((await agent.run("t", text)).outcome, Answered)
        await agent.sessions.set_budget("s")
        assert isinstance((await agent.run("s", "again")).outcome, Answered)


async def test_a_sessions_own_budget_replaces_the_configured_one_of_the_same_kind(tmp_path: Path) -> None:
    budgets = BudgetSettings(session=BudgetEntry(money=0.05, tool_calls=1))
    async with dear(home=tmp_path, config=Config(budgets=budgets)) as agent:
        await agent.sessions.set_budget("s", money=0.25)
        for text in ("one", "two", "three"):
            last = await agent.run("s", text)
        assert isinstance(last.outcome, Answered), "$0.20 were spent before"
        assert isinstance((await agent.run("s", "four")).outcome, Exhausted)
        assert isinstance((await agent.run("t", "one")).outcome, Answered)
        assert "$0.05" in str((await agent.run("t", "two")).outcome)


async def test_sigil_032_a_session_has_a_budget_of_tool_calls() -> None:
    @tool(effect="pure", untrusted=False, sink=False)
    def look(at: int) -> str:
        return f"seen {at}"

    calls = [Call("look", {"at": number}) for number in range(3)]
    provider = ScriptedProvider([calls, "done"])
    async with Agent(provider, home=":memory:", tools=[look]) as agent:
        await agent.sessions.set_budget("s", tool_calls=2)
        reply = await agent.run("s", "go")
        assert [result.is_error for result in reply.results] == [False, False, True]
        assert "the session's budget of 2 tool calls is used up" in reply.results[2].content


async def test_sub_agents_spend_the_budget_of_the_session_that_started_them(tmp_path: Path) -> None:
    def script(context: Any, options: Any) -> Any:
        if "You are a sub-agent" in context.system:
            return DEAR
        return Call("spawn", {"prompt": "look"}) if context.messages[-1].role == "user" else "done"

    provider = ScriptedProvider(script, info=INFO)
    async with Agent(provider, home=tmp_path, config=Config(tools=ToolSettings(builtin=("spawn",)))) as agent:
        await agent.sessions.set_budget("s", tokens=50_000)
        reply = await agent.run("s", "go")
        assert reply.results, "it was spawned"
        assert isinstance(reply.outcome, Exhausted)
        assert "the session's budget of 50,000 tokens is used up" in reply.outcome.bound
        assert (await agent.run("t", "go")).text == "done"


async def test_a_prompt_that_a_budget_refused_costs_nothing_later(tmp_path: Path) -> None:
    """Not even its tokens in the requests after it, also after a restart: it is in the log, and not in the context."""
    more = {"instructions": "Be terse."}
    async with dear(home=tmp_path, **more) as agent:
        await agent.sessions.set_budget("s", money=0.05)
        assert isinstance((await agent.run("s", "one")).outcome, Answered)
        for text in ("refused " * 500, "again refused"):
            reply = await agent.run("s", text)
            assert isinstance(reply.outcome, Exhausted)
            assert reply.cost == 0
        assert (await agent.sessions.get("s")).cost == pytest.approx(0.1)
        await agent.sessions.set_budget("s")
    for home in (tmp_path, tmp_path):
        provider = ScriptedProvider(["fine"], info=INFO)
        async with Agent(provider, home=home, **more) as agent:
            await agent.run("s", "three")
            assert (await agent.sessions.replay("s")).is_identical
        assert provider.asked[0].messages[:3] == [("user", "one"), ("assistant", "hello"), ("user", "three")]
        assert "refused" not in str(provider.asked[0].messages)
    log, _ = await _export(tmp_path)
    assert "again refused" in log.read_text()


async def _export(home: Path) -> list[Path]:
    async with Agent(ScriptedProvider([]), home=home) as agent:
        return await agent.sessions.export("s", home / "out")


async def test_a_turn_that_spent_something_before_its_budget_ended_stays_in_the_context() -> None:
    @tool(effect="pure", untrusted=False, sink=False)
    def look() -> str:
        return "seen"

    calling = StreamFinished(FinishReason.TOOL_CALLS, Usage(50_000, 50_000))
    provider = ScriptedProvider([Pieces([ToolCallPiece(0, "look", "{}"), calling]), "fine"], info=INFO)
    async with Agent(provider, home=":memory:", tools=[look]) as agent:
        await agent.sessions.set_budget("s", tokens=50_000)
        assert isinstance((await agent.run("s", "look around")).outcome, Exhausted)
        await agent.sessions.set_budget("s")
        await agent.run("s", "well?")
        assert [role for role, _ in provider.asked[-1].messages] == ["user", "assistant", "tool", "assistant", "user"]


# --- last compaction -----------------------------------------------------------------------------


@pytest.mark.parametrize("is_old", [False, True], ids=["new row", "row of an earlier release"])
async def test_sigil_030_a_session_knows_the_time_of_its_last_compaction(tmp_path: Path, is_old: bool) -> None:
    store = _OldStore() if is_old else MemoryStore()
    async with Agent(ScriptedProvider(["one", "two", "They spoke.", "three"]), store=store) as agent:
        await agent.run("s", "we rented the flat in Lisbon")
        await agent.run("s", "and the trains?")
        assert (await agent.sessions.get("s")).compacted == 0
        assert await agent.sessions.compact("s")
        (folded,) = [one for one in await agent.sessions.records("s") if type(one.event).__name__ == "Folded"]
        assert (await agent.sessions.get("s")).compacted == folded.at > 0
        await agent.run("s", "more")
        assert (await agent.sessions.get("s")).compacted == folded.at


class _OldStore(MemoryStore):
    """A store that does not know the field, as in rows that were written before it existed."""

    async def get_session(self, key: str) -> Any:
        import msgspec

        info = await super().get_session(key)
        return msgspec.structs.replace(info, compacted=0) if info is not None else None


# --- pause ---------------------------------------------------------------------------------------


async def test_sigil_033_a_paused_session_stores_prompts_and_answers_them_once_it_is_active(tmp_path: Path) -> None:
    async with Agent(ScriptedProvider(["hello", "answered"]), home=tmp_path) as agent:
        await agent.run("s", "hi")
        await agent.sessions.pause("s")
        waiting = asyncio.ensure_future(agent.run("s", "are you there?", id="1"))
        while not (await agent.sessions.get("s")).unfinished:
            await asyncio.sleep(0)
        assert (await agent.sessions.get("s")).status == "paused"
        await agent.sessions.activate("s")
        assert (await waiting).text == "answered"


@pytest.mark.parametrize(
    "limits",
    [
        {"tokens": 1000000.0},
        {"tokens": True},
        {"tool_calls": 1.5},
        {"tokens": 0},
        {"tokens": -1},
        {"tool_calls": 0},
        {"money": 0},
        {"money": 1e-10},
        {"money": float("nan")},
        {"money": True},
        {"money": "5"},
        {"money": 1e18},
    ],
    ids=str,
)
async def test_a_budget_of_a_wrong_type_or_size_is_refused_and_the_sessions_stay_readable(
    tmp_path: Path, limits: dict[str, Any]
) -> None:
    async with Agent(ScriptedProvider(["hello"]), home=tmp_path) as agent:
        await agent.run("s", "hi")
        with pytest.raises(InputRefused, match="the budget's"):
            await agent.sessions.set_budget("s", **limits)
        assert [info.key for info in await agent.sessions.list()] == ["s"]
        assert (await agent.sessions.get("s")).budget == SessionBudget()


async def test_an_import_whose_metadata_does_not_fit_stores_no_message(tmp_path: Path) -> None:
    async with Agent(ScriptedProvider([]), home=tmp_path) as agent:
        await agent.sessions.set_metadata("s", {f"f{number}": "x" for number in range(28)})
        messages = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "hello"}]
        with pytest.raises(InputRefused, match="at most 32"):
            await agent.import_history("s", messages, metadata={f"g{number}": "x" for number in range(10)})
        assert (await agent.sessions.get("s")).messages == 0
