"""Requirements on contexts, tested through the library on the requests that a server would get. Tests are named by
requirement."""

from __future__ import annotations

import asyncio
import json
import re
import sys
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
import splintr
from support.counted_model import CountedModel
from support.kernel_world import StoreBase, World, make_store, turns
from support.session_records import Talk

from mainstay import Agent, Config, Limits, tool
from mainstay.agent.system_clock import SystemClock
from mainstay.config.schema import (
    CompactionSettings,
    ContextSettings,
    EmbeddingSettings,
    MemorySettings,
    SessionSettings,
)
from mainstay.context.compaction_plan import CompactionInput, plan_fold, plan_stubs
from mainstay.context.compiler import StableSections, compile_context
from mainstay.context.token_budget import ContextSizeSettings, compute_budget
from mainstay.context.tokenizers import TokenCalibration, tokenizer_for
from mainstay.core.errors import StoreError, StoreFailed
from mainstay.core.events import Folded, MessageAdded, ToolFinished
from mainstay.core.memory_tiers import Fact
from mainstay.core.messages import Text, Usage
from mainstay.core.outcome import Answered
from mainstay.core.ports import Context, ModelInfo, Options, SessionInfo, Store, SummaryRequest, SummaryResult
from mainstay.core.session import Session
from mainstay.core.tools import FunctionTool
from mainstay.lane.context_compiler import LaneContextCompiler
from mainstay.observe.session_export import full_history
from mainstay.testing import Call, MemoryStore, Say, ScriptedProvider, Stall

KINDS = ["invoice", "calendar", "weather", "ticket", "photo", "contact", "order", "route", "song", "recipe"]
LONG = "word " * 250
O200K = splintr.Tokenizer.from_pretrained("o200k_base")
SUMMARISER = "You write the memory of a conversation"
STANDS_FOR = "[This summary stands for the earlier part of this conversation."
MODEL = ModelInfo(name="gpt-4.1-mini", window=4096)
LARGE = ModelInfo(name="gpt-4.1-mini", window=128_000)


def settings(*, memory: dict[str, Any] | None = None, limits: Limits | None = None, **context: Any) -> Config:
    """By words only: no test here is about meaning, and loading a model takes long."""
    made = MemorySettings(embeddings=EmbeddingSettings(enabled=False), **(memory or {}))
    return Config(context=ContextSettings(**context), sessions=SessionSettings(memory=made), limits=limits or Limits())


def serving(window: int = 4096, say: Callable[[dict[str, Any]], Any] | None = None, **more: Any) -> CountedModel:
    """A server that counts, refuses what is too long, and also writes the summaries."""
    written = iter(range(1, 1000))

    def answer(body: dict[str, Any]) -> Any:
        if is_summary(body):
            return json.dumps({"summary": f"This is what summary {next(written)} says about the turns before."})
        return say(body) if say is not None else "ok " * 50

    return CountedModel(answer, window=window, **more)


def is_summary(body: dict[str, Any]) -> bool:
    first = body["messages"][0]
    return bool(first["role"] == "system" and SUMMARISER in first["content"])


def asked(model: CountedModel) -> list[dict[str, Any]]:
    """The requests of the conversation, as a server gets them."""
    return [body for raw in model.bodies if not is_summary(body := json.loads(raw))]


async def sections(agent: Agent, session: str = "s") -> dict[str, str]:
    return {one.name: one.text for one in (await agent.sessions.context(session)).sections}


async def folds(agent: Agent, session: str = "s") -> list[Any]:
    await agent.settled()
    await (await agent.runtime()).lanes.get(session).record_changes()  # everything queued is on disk now
    records = await agent.sessions.records(session, limit=100_000)
    return [record for record in records if isinstance(record.event, Folded)]


@tool(effect="pure", untrusted=False, sink=False)
def look(where: str) -> str:
    """Look somewhere."""
    return f"{where}: all quiet"


# --- the sections --------------------------------------------------------------------------------


async def test_loom_089_091_sigil_012_a_request_is_fixed_profile_summary_recent_and_the_new_words(
    tmp_path: Path,
) -> None:
    (tmp_path / "IDENTITY.md").write_text("You are Ada.")
    (tmp_path / "MEMORY.md").write_text("We use metric units.")
    model = serving(8192)
    async with Agent(model, tools=[look], instructions="Be terse.", home=tmp_path, config=settings()) as agent:
        await agent.profile("s").set(name="Ana")
        for number in range(25):
            await agent.run("s", f"{number} {LONG}")
        assert len(await folds(agent)) >= 2
    summarised = 0
    for number, body in enumerate(asked(model)):
        head, *history = body["messages"]
        order = ["Be terse.", "You are Ada.", "- name: Ana", "We use metric units."]
        places = [head["content"].index(text) for text in order]
        assert places == sorted(places), "fixed, then profile"
        assert head["role"] == "system"
        if history[0]["content"].startswith(STANDS_FOR):
            summarised += 1
            assert "This is what summary" in history[0]["content"]
        said = [int(one["content"].split()[0]) for one in history if one["content"].endswith(LONG)]
        assert said == list(range(said[0], number + 1)), "the newest, in order, and nothing left out between"
        assert history[-1] == {"role": "user", "content": f"{number} {LONG}"}
        assert "look" in [one["function"]["name"] for one in body["tools"]]
    assert summarised >= 5
    assert max(model.counts) <= model.limit
    assert model.refused == 0


async def test_loom_091_fixed_and_profile_are_there_however_small_the_window_and_however_long_the_words() -> None:
    model = serving(4096)
    config = settings()
    async with Agent(model, instructions="Be terse.", home=":memory:", config=config) as agent:
        await agent.profile("s").set(name="Ana")
        for number in range(4):
            assert isinstance((await agent.run("s", f"{number} " + "word " * 6000)).outcome, Answered)
    for body in asked(model):
        first = body["messages"][0]
        assert first["role"] == "system"
        assert re.fullmatch(
            r"Be terse\.\n\nNotes from the runtime begin [^\n]+\n\n# About the person\n\n- name: Ana",
            first["content"],
        )
    assert max(model.counts) <= model.limit


async def test_sigil_009_the_head_holds_the_agents_identity_its_tools_and_what_it_should_always_remember(
    tmp_path: Path,
) -> None:
    (tmp_path / "IDENTITY.md").write_text("You are Ada, a harbour pilot.")
    model = serving(128_000)
    async with Agent(model, tools=[look], home=tmp_path, config=settings()) as agent:
        await agent.memory.remember("Ana is allergic to nuts.", pin=True)
        await agent.run("s", "hello")
    (body,) = asked(model)
    head = body["messages"][0]["content"]
    assert "You are Ada, a harbour pilot." in head
    assert "Ana is allergic to nuts." in head
    assert {"look", "memory_search"} <= {one["function"]["name"] for one in body["tools"]}
    assert [one["content"] for one in body["messages"][1:]] == ["hello"]


async def test_loom_020_021_the_profile_describes_the_person_and_changes_on_request() -> None:
    model = serving(128_000)
    async with Agent(model, home=":memory:", config=settings()) as agent:
        await agent.run("s", "hello")
        await agent.profile("s").set(name="Ana", goals="learn Portuguese", preferences="short answers")
        await agent.run("s", "hello again")
        await agent.run("other", "hello")
        await agent.profile("s").set(goals="")
        await agent.run("s", "and again")
    before, after, other, last = (body["messages"][0]["content"] for body in asked(model))
    assert "About the person" not in before
    for text in ("name: Ana", "goals: learn Portuguese", "preferences: short answers"):
        assert text in after
    assert "Ana" not in other, "it is this session's"
    assert "learn Portuguese" not in last
    assert "name: Ana" in last


# --- a head that never changes -------------------------------------------------------------------


async def test_loom_017_u7_every_request_is_the_one_before_and_something_appended(tmp_path: Path) -> None:
    """With tools, memory and files, across a restart, and though the files change meanwhile."""
    (tmp_path / "IDENTITY.md").write_text("You are Ada.")
    calls = {"left": 0}

    def say(body: dict[str, Any]) -> Any:
        calls["left"] -= 1
        return [("look", '{"where": "the harbour"}')] if calls["left"] >= 0 else "All is quiet in the harbour."

    bodies: list[bytes] = []
    for life in range(2):
        model = serving(128_000, say)
        async with Agent(model, tools=[look], instructions="Be terse.", home=tmp_path, config=settings()) as agent:
            for number in range(10):
                calls["left"] = number % 3
                await agent.run("s", f"life {life}, watch {number}")
        (tmp_path / "IDENTITY.md").write_text("You are Berta, and quite another.")
        bodies += model.bodies
    assert len(bodies) > 30
    before = b""
    for body in bodies:
        assert body.startswith(before), "a prompt cache would have missed"
        before = body[: body.rindex(b"]}")]
    assert json.loads(bodies[-1])["messages"][0]["content"].count("You are Ada.") == 1
    said = [one["content"] or "" for one in json.loads(bodies[-1])["messages"]]
    changed = [text for text in said if "You are Berta" in text]
    assert len(changed) == 1, "what changed is appended, once"


async def test_loom_017_changes_enter_the_fixed_section_at_a_fold(tmp_path: Path) -> None:
    (tmp_path / "IDENTITY.md").write_text("You are Ada.")
    model = serving(128_000)
    async with Agent(model, home=tmp_path, config=settings()) as agent:
        await agent.run("s", "one")
    (tmp_path / "IDENTITY.md").write_text("You are Berta.")
    async with Agent(model, home=tmp_path, config=settings()) as agent:
        await agent.run("s", "two")
        await agent.sessions.compact("s")
        await agent.run("s", "three")
    heads = [body["messages"][0]["content"] for body in asked(model)]
    assert ["Ada" in head for head in heads] == [True, True, False]
    assert "You are Berta." in heads[2]


async def test_u6_a_hello_with_fifty_tools_is_cheap_and_the_tool_that_is_needed_is_found(tmp_path: Path) -> None:
    def make(number: int) -> FunctionTool:
        async def work(text: str = "", count: int = 1, exact: bool = False) -> str:
            return f"tool {number} did {text}"

        about = f"Does what is needed with the {KINDS[number % 10]} of kind {number // 10}, and whatever belongs to it."
        return FunctionTool(work, name=f"{KINDS[number % 10]}_{number // 10}", description=about, effect="pure")

    steps = iter(
        [
            "hello",
            [("tool_search", '{"query": "invoice of kind 3"}')],
            [("call_tool", '{"name": "invoice_3", "arguments": {"text": "it"}}')],
            "done",
        ]
    )
    model = serving(128_000, lambda body: next(steps))
    async with Agent(model, tools=[make(n) for n in range(50)], home=tmp_path, config=settings()) as agent:
        await agent.run("s", "hello")
        await agent.run("s", "now do it with the invoice of kind 3")
        results = [r.event.result for r in await agent.sessions.records("s") if isinstance(r.event, ToolFinished)]
    assert model.counts[0] <= 1500
    assert [one.content for one in results][1:] == ["tool 30 did it"]
    assert "invoice_3" in results[0].content
    offered = {json.dumps(body["tools"]) for body in asked(model)}
    assert len(offered) == 1, "what was found does not change the head"
    assert "Does what is needed" not in offered.pop(), "their schemas come when they are searched for"
    assert "Does what is needed with the invoice of kind 3" in results[0].content


# --- folds ---------------------------------------------------------------------------------------


async def test_guppy_050_055_old_turns_are_summarised_only_when_needed_and_the_log_keeps_all_of_them(
    tmp_path: Path,
) -> None:
    model = serving()
    async with Agent(model, home=tmp_path, config=settings()) as agent:
        for number in range(3):
            await agent.run("s", f"{number} {LONG}")
        assert await folds(agent) == []
        assert len(asked(model)) == len(model.bodies) == 3, "nobody was asked for a summary"
        for number in range(3, 20):
            await agent.run("s", f"{number} {LONG}")
        assert await folds(agent)
        last = asked(model)[-1]["messages"]
        assert sum(one["content"].startswith(STANDS_FOR) for one in last) == 1, "one block"
        assert not any(one["content"].startswith("0 word") for one in last)
        await agent.sessions.export("s", tmp_path / "out")
        log = [json.loads(line) for line in (tmp_path / "out" / "log.jsonl").read_text().splitlines()]
        assert [one["text"].split()[0] for one in log if not one["isBot"]] == [str(n) for n in range(20)]
        assert len([one for one in log if one["isBot"]]) == 20
        records = await agent.sessions.records("s", limit=1000)
        assert [record.seq for record in records] == list(range(1, len(records) + 1))


async def test_loom_090_every_recent_message_is_newer_than_anything_summarised() -> None:
    model = serving()
    async with Agent(model, home=":memory:", config=settings()) as agent:
        for number in range(30):
            await agent.run("s", f"{number} {LONG}")
            made = await folds(agent)
            shown = [int(id) for id in re.findall(r"^\[\w+ #(\d+)\]", (await sections(agent))["recent"], re.MULTILINE)]
            summarised = max((part.last for record in made for part in record.event.parts), default=0)
            assert min(shown) > summarised
            assert shown == sorted(shown)
        assert len(made) >= 3


async def test_miclaw_007_sigil_007_after_a_restart_the_model_is_given_the_summary_and_only_what_came_after_it(
    tmp_path: Path,
) -> None:
    async with Agent(serving(128_000), home=tmp_path, config=settings()) as agent:
        for text in ("one", "two", "three"):
            await agent.run("s", text)
        assert await agent.sessions.compact("s") == "This is what summary 1 says about the turns before."
    model = serving(128_000)
    async with Agent(model, home=tmp_path, config=settings()) as agent:
        await agent.run("s", "four")
    (body,) = asked(model)
    history = [one["content"] for one in body["messages"] if one["role"] != "system"]
    assert history[0].startswith(STANDS_FOR)
    assert history[0].endswith("This is what summary 1 says about the turns before.")
    assert [text.strip() for text in history[1:]] == ["three", ("ok " * 50).strip(), "four"]


async def test_miclaw_046_sigil_030_a_session_points_to_its_summary_and_says_when_it_was_made() -> None:
    model = serving(128_000)
    async with Agent(model, home=":memory:", config=settings()) as agent:
        for text in ("one", "two", "three"):
            await agent.run("s", text)
        before = await agent.sessions.get("s")
        assert before.fold == 0
        summary = await agent.sessions.compact("s")
        standing = await agent.sessions.get("s")
        (record,) = await agent.sessions.records("s", after=standing.fold - 1, limit=1)
        assert isinstance(record.event, Folded)
        assert record.event.summary == summary
        assert before.updated <= record.at <= standing.updated, "the time of the last compaction"
        shown = await sections(agent)
        assert summary in shown["summary"]
        assert "three" in shown["recent"]
        assert "two" not in shown["recent"]


async def test_loom_016_098_summaries_that_grow_above_3_000_tokens_are_summarised_again() -> None:
    """The default, in a window that has ample room for more."""
    again: list[str] = []
    written = iter(range(100))

    def script(context: Context, options: Options) -> str:
        if SUMMARISER not in context.system:
            return "noted"
        if "These are summaries of a conversation, oldest first" in context.messages[0].text:
            again.append(context.messages[0].text)
            return json.dumps({"summary": f"In short, for the {len(again)}. time: they spoke of many things."})
        number = next(written)
        return json.dumps({"summary": " ".join(f"In part {number} they spoke of matter {n}." for n in range(70))})

    async with Agent(ScriptedProvider(script, info=LARGE), home=":memory:", config=settings()) as agent:
        sizes = []
        await agent.run("s", "hello")
        for number in range(9):
            await agent.run("s", f"prompt {number}")
            await agent.sessions.compact("s")
            summary = next(one for one in (await agent.sessions.context("s")).sections if one.name == "summary")
            sizes.append(summary.tokens)
        assert 2000 < max(sizes) <= 3100, "with the sentence that says what it is"
        assert len(again) >= 2
        assert "In part 0 they spoke of matter 69." in again[0]
        assert "In short, for the 1. time" in again[1]
        assert len(await agent.memory.summaries()) == 9, "each of them can still be found by its date"


async def test_guppy_054_as_much_of_the_newest_as_is_configured_stays_verbatim() -> None:
    """20,000 tokens, unless configured. Heavy instructions, so that the fold would otherwise take more."""
    kept = []
    for given in ({}, {"recent_tokens": 4000}):
        model = serving(66_560)
        instructions = "rule " * 14_000
        async with Agent(model, instructions=instructions, home=":memory:", config=settings(**given)) as agent:
            number = 0
            while not await folds(agent):
                await agent.run("s", f"{number} " + "word " * 990)
                number += 1
            recent = (await agent.sessions.context("s")).sections[-1]
            kept.append(recent.tokens)
            assert f"{number - 1} word" in recent.text
            assert recent.text.count("word ") == 990 * recent.text.count("[user #"), "nothing in it was cut"
    assert kept[0] >= 20_000
    assert 4000 <= kept[1] < 14_000


@pytest.mark.parametrize(
    ("smaller", "larger"),
    [
        ({"window": 4096}, {"window": 6000}),
        ({"window": 6000, "reserve_tokens": 1500}, {"window": 6000, "reserve_tokens": 100}),
    ],
    ids=["a larger window", "a smaller reserve"],
)
async def test_guppy_053_loom_044_103_configured_sizes_make_room_for_more_history(
    smaller: dict[str, int], larger: dict[str, int]
) -> None:
    shown = []
    for given in (smaller, larger):
        model = serving(8192)
        async with Agent(model, home=":memory:", config=settings(**given)) as agent:
            assert isinstance((await agent.run("s", f"0 {LONG}")).outcome, Answered)
            context = await agent.sessions.context("s")
            reserve = min(given.get("reserve_tokens", 16_384), given["window"] // 4)
            assert (context.window, context.budget) == (given["window"], given["window"] - reserve)
            for number in range(1, 16):
                await agent.run("s", f"{number} {LONG}")
        assert max(model.counts) <= given["window"] - reserve
        shown.append(max(len(body["messages"]) for body in asked(model)))
    assert shown[1] > shown[0]


async def test_guppy_053_the_reserve_is_16_384_tokens_where_nothing_else_is_configured() -> None:
    async with Agent(serving(128_000), home=":memory:", config=settings()) as agent:
        await agent.run("s", "hello")
        context = await agent.sessions.context("s")
        assert (context.window, context.budget) == (128_000, 128_000 - 16_384)


# --- checked before every call, in one place -----------------------------------------------------


async def test_guppy_029_miclaw_012_every_request_comes_from_one_place_that_looks_whether_it_fits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A turn of several steps whose results grow: the room is made between two calls of the same turn."""
    compiled: list[Context] = []
    compile = LaneContextCompiler.compile

    async def noting(self: LaneContextCompiler, scribe: Any) -> Context:
        compiled.append(await compile(self, scribe))
        return compiled[-1]

    monkeypatch.setattr(LaneContextCompiler, "compile", noting)
    given: list[Context] = []

    def script(context: Context, options: Options) -> Any:
        given.append(context)
        return Call("read") if options.step < 6 else "done"

    @tool(effect="pure", untrusted=False, sink=False)
    def read() -> str:
        """Read a page."""
        return "page " * 500

    async with Agent(ScriptedProvider(script, info=MODEL), tools=[read], home=":memory:", config=settings()) as agent:
        reply = await agent.run("s", "read six pages")
        assert isinstance(reply.outcome, Answered)
        kinds = [type(record.event).__name__ for record in await agent.sessions.records("s")]
    assert len(given) == 6
    assert all(one is other for one, other in zip(given, compiled, strict=True))
    assert "Relieved" in kinds[: kinds.index("TurnEnded")]


async def test_sigil_027_the_end_of_a_turn_begins_a_compaction_when_one_is_due() -> None:
    model = serving()
    async with Agent(model, home=":memory:", config=settings()) as agent:
        number = 0
        while not await folds(agent):
            before = len(asked(model))
            await agent.run("s", f"{number} {LONG}")
            number += 1
        assert len(asked(model)) == before + 1, "no further prompt was needed"
        (record,) = await folds(agent)
        ended = [r for r in await agent.sessions.records("s") if type(r.event).__name__ == "TurnEnded"]
        assert record.seq > ended[-1].seq


# --- the simple rule -----------------------------------------------------------------------------


async def test_sigil_046_053_060_the_window_is_so_many_messages_and_fifty_outside_it_are_summarised_together() -> None:
    passages: list[int] = []

    def script(context: Context, options: Options) -> str:
        if SUMMARISER in context.system:
            passages.append(len(re.findall(r"^\[\d+\] ", context.messages[0].text, re.MULTILINE)))
            return json.dumps({"summary": "They counted for a while, and nothing else happened at all."})
        return "noted"

    provider = ScriptedProvider(script)
    async with Agent(provider, home=":memory:", config=settings(memory={"active_window": 20})) as agent:
        for number in range(35):
            assert passages == []
            await agent.run("s", f"number {number}")
            assert len(provider.asked[-1].messages) <= 20
            await agent.settled()
        assert passages == [50], "70 messages less the 20 of the window"
        await agent.run("s", "number 35")
        shown = provider.asked[-1].messages
        assert shown[0][1].startswith(STANDS_FOR)
        assert len(shown) <= 21
        (record,) = await folds(agent)
        (part,) = record.event.parts
        assert part.last < min(r.seq for r in await agent.sessions.records("s") if _says(r.event, "number 26"))


def _says(event: Any, words: str) -> bool:
    return any(isinstance(part, Text) and part.text == words for part in getattr(event, "parts", ()))


async def test_sigil_053_the_size_of_a_batch_can_be_configured() -> None:
    provider = ScriptedProvider(
        lambda context, options: (
            json.dumps({"summary": "They counted for a while and that was all."})
            if SUMMARISER in context.system
            else "noted"
        )
    )
    memory = {"active_window": 4, "compaction": CompactionSettings(batch_size=8)}
    async with Agent(provider, home=":memory:", config=settings(memory=memory)) as agent:
        for number in range(6):
            assert await folds(agent) == []
            await agent.run("s", f"number {number}")
        assert len(await folds(agent)) == 1


# --- counting ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "margin"), [("claude-sonnet-4-5", 1.25), ("of-unknown-family", 1.1)])
@pytest.mark.parametrize("share", [0.95, 1.6], ids=["fewer than assumed", "more than assumed"])
async def test_loom_093_096_an_unpublished_vocabulary_is_counted_too_high_and_corrected_by_reported_usage(
    name: str, margin: float, share: float
) -> None:
    """`share`: tokens of this model for each one of the vocabulary that it is counted with. Requests are counted for
    the rate limiter, and when they are near the end of the window."""
    reported: list[int] = []

    def answer(context: Context, options: Options) -> Say:
        shown = [context.system, context.profile, *(message.text for message in context.messages)]
        reported.append(round(sum(len(O200K.encode_ordinary(text)) + 4 for text in shown) * share))
        assert options.count_context_tokens is not None
        options.count_context_tokens()
        return Say("ok", usage=Usage(reported[-1], 1))

    words = "The harbour is quiet; two ferries lie at the quay, and a third is expected at nine. " * 400
    provider = ScriptedProvider(answer, info=ModelInfo(name=name))
    async with Agent(provider, instructions="Be terse.", home=":memory:") as agent:
        await agent.run("s", "hello")
        plain = (await agent.sessions.context("s")).tokens
        await agent.run("s", words)
        await agent.run("s", "and now?")
        ours = (await agent.sessions.context("s")).tokens
        assert plain < ours
        if share < margin:
            assert reported[-1] < ours == pytest.approx(reported[-1] / share * margin, rel=0.02), "rather too high"
        else:
            assert ours == pytest.approx(reported[-1], rel=0.05), "raised to what was reported"


async def test_loom_096_the_count_of_a_whole_request_is_within_five_percent_of_the_servers_and_never_below_it() -> None:
    """With schemas, calls and results, for a model whose vocabulary is known."""

    def say(body: dict[str, Any]) -> Any:
        if body["messages"][-1]["role"] == "tool":
            return "The harbour is quiet, two ferries lie at the quay and the third is expected at nine. " * 5
        return [("look", json.dumps({"where": "the harbour, from the northern pier, with the long glass"}))] * 2

    @tool(effect="pure", untrusted=False, sink=False)
    def look(where: str, how_long_s: int = 60) -> str:
        """Look somewhere for a while and tell what there is to be seen, in whole sentences."""
        return "Two ferries, a tug, seven gulls; 東京 Maru at anchor; wind NNW 4, visibility 10 km. " * 12

    model = serving(128_000, say)
    async with Agent(
        model, tools=[look], instructions="You are a pilot. " * 40, home=":memory:", config=settings()
    ) as a:
        for number in range(8):
            await a.run("s", f"What is to be seen at {number + 8} o'clock, and is there anything to be done about it?")
            ours = (await a.sessions.context("s")).tokens
            await a.run("s", "and now?")
            true = model.counts[-2]  # the first request of that turn: the same and three more words
            assert true <= ours + 20
            assert ours <= true * 1.05
    assert len(model.counts) == 32


def test_loom_092_the_work_of_building_a_context_grows_with_the_number_of_messages_and_no_faster() -> None:
    """Counted in calls, not in time: a full context that is weighed, relieved and folded, at 1, 2 and 4 times."""
    tokenizer = tokenizer_for(MODEL)
    around = StableSections("Be terse.", "", ())

    def work(turns: int) -> int:
        talk = Talk()
        for number in range(turns):
            talk.turn(f"turn {number} " + "words " * 30, "page " * 400, answer="well " * 20)
        talk.ask("now")
        model = ModelInfo(name="gpt-4.1-mini", window=turns * 100)
        rules = ContextSizeSettings()

        def build() -> None:
            case = CompactionInput(
                talk.session, 100, compute_budget(model, rules, TokenCalibration(tokenizer, 1.0)), rules, tokenizer
            )
            assert case.count_total() > case.budget.high
            event = plan_stubs(case)
            assert event is not None
            talk.add(event)
            assert plan_fold(case, as_many_as_possible=True) is not None
            assert len(compile_context(talk.session, around).messages) == turns * 4 + 1

        return calls_in(build)

    once, twice, four = work(100), work(200), work(400)
    assert twice <= once * 2.1
    assert four <= once * 4.2


def calls_in(action: Callable[[], None]) -> int:
    """How many functions were called, ours and those written in C."""
    number = 0

    def see(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal number
        number += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(see)
    try:
        action()
    finally:
        sys.setprofile(before)
    return number


# --- nothing is lost -----------------------------------------------------------------------------


async def test_u1_a_fold_leaves_running_tools_alone() -> None:
    """The summary comes while a tool of the next turn is at work; the tool goes on and its result is there, once."""
    at_work, may_end = asyncio.Event(), asyncio.Event()
    stall = Stall(then=json.dumps({"summary": "They spoke at length, about words and nothing else."}))

    def script(context: Context, options: Options) -> Any:
        if SUMMARISER in context.system:
            return stall
        return Call("dig") if context.messages[-1].text == "dig" else "ok " * 50

    runs: list[int] = []

    @tool(untrusted=False, sink=False)
    async def dig() -> str:
        """Dig until told to stop."""
        runs.append(1)
        at_work.set()
        await may_end.wait()
        return "found a coin"

    async with Agent(ScriptedProvider(script, info=MODEL), tools=[dig], home=":memory:", config=settings()) as agent:
        number = 0
        while not stall.reached.is_set():
            await agent.run("s", f"{number} {LONG}")
            await turns()  # the fold has begun, if there is one
            number += 1
        digging = asyncio.ensure_future(agent.run("s", "dig"))
        await at_work.wait()
        lane = (await agent.runtime()).lanes.get("s")
        assert (await lane.load_session()).last_fold is None
        stall.release()
        while (await lane.load_session()).last_fold is None:
            await asyncio.sleep(0)
        assert not digging.done()
        may_end.set()
        assert isinstance((await digging).outcome, Answered)
        records = await agent.sessions.records("s", limit=1000)
        kinds = [type(record.event).__name__ for record in records]
        assert kinds.index("ToolStarted") < kinds.index("Folded") < kinds.index("ToolFinished")
        results = [record.event.result for record in records if isinstance(record.event, ToolFinished)]
        assert [(one.content, one.is_error) for one in results] == [("found a coin", False)]
        assert runs == [1]
        assert (await agent.sessions.replay("s")).is_identical


async def test_u1_a_summary_that_fails_leaves_the_context_whole() -> None:
    def script(context: Context, options: Options) -> str:
        return "I would rather not." if SUMMARISER in context.system else "ok " * 50

    provider = ScriptedProvider(script, info=MODEL)
    async with Agent(provider, home=":memory:", config=settings()) as agent:
        number = 0
        while not any(SUMMARISER in one.system for one in provider.asked):
            before = list(provider.asked[-1].messages) if provider.asked else []
            await agent.run("s", f"{number} {LONG}")
            await agent.settled()
            number += 1
        assert await folds(agent) == []
        await agent.run("s", "still there?")
        shown = next(one for one in reversed(provider.asked) if SUMMARISER not in one.system).messages
        assert shown[: len(before)] == before
        assert sum(text.endswith(LONG) for _, text in shown) == number
        said = [r.event for r in await agent.sessions.records("s", limit=1000) if isinstance(r.event, MessageAdded)]
        assert len(said) == number + 1


class Dying(StoreBase):
    """A store whose process ends at its nth append: that one arrives or not, and nothing after it does."""

    def __init__(self, kept: Store, at: int, *, arrives: bool) -> None:
        self.kept = kept
        self.at = at
        self.arrives = arrives
        self.appends: list[tuple[str, ...]] = []  # the kinds of records in each

    def __getattr__(self, name: str) -> Any:
        return getattr(self.kept, name)

    @property
    def dead(self) -> bool:
        return bool(self.at) and len(self.appends) >= self.at

    def append(
        self,
        info: SessionInfo,
        expected: int,
        events: Sequence[bytes],
        idempotency_key: Any = None,
        *,
        synced: bool = True,
    ) -> Awaitable[None]:
        if self.dead:
            return self._lost()
        self.appends.append(tuple(json.loads(event)["type"] for event in events))
        if self.dead and not self.arrives:
            return self._lost()
        return self.kept.append(info, expected, events, idempotency_key)

    def _lost(self) -> Awaitable[None]:
        lost: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        lost.set_exception(StoreFailed("this process is dead"))
        return lost


async def session_with_folds(store: Store, at: int = 0, *, arrives: bool = False) -> tuple[Dying, list[str]]:
    """Sixteen prompts; the words of those that were acknowledged."""

    class Summaries:
        async def summarise(self, passage: SummaryRequest, model: str) -> SummaryResult:
            await asyncio.sleep(0)
            return SummaryResult("what was said", (Fact("Ana", "said", "much", 1),), "writer")

    dying = Dying(store, at, arrives=arrives)
    said: list[str] = []
    provider = ScriptedProvider(lambda context, options: "ok " * 50, info=MODEL)
    async with World(provider, store=dying, clock=SystemClock(), more={"summariser": Summaries()}) as world:
        for number in range(16):
            try:
                ticket = await world.send(f"{number} {LONG}")
                said.append(f"{number} {LONG}")
                await ticket.reply
            except StoreError:
                break
        if not dying.dead:
            await world.lanes.wait_until_settled()
    return dying, said


@pytest.mark.parametrize("arrives", [False, True], ids=["before it is written", "after"])
@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_f3_a_process_killed_at_any_write_of_a_session_with_folds_has_the_old_context_or_the_new_one(
    kind: str, arrives: bool, tmp_path: Path
) -> None:
    whole, _ = asyncio.run(session_with_folds(MemoryStore()))
    folded = [place for place, kinds in enumerate(whole.appends, start=1) if "Folded" in kinds]
    assert len(folded) >= 2
    seen: set[int] = set()

    async def after(store: Store, said: list[str]) -> None:
        provider = ScriptedProvider(lambda context, options: "ok " * 50, info=MODEL)
        async with World(provider, store=store, clock=SystemClock()) as world:
            records = await world.records()
            tail = await world.store.load_tail("s", 10**9)
            if tail is None:
                assert said == []
                return
            view, told = Session.from_tail(tail), Session("s")
            for record in records:
                told.apply(record.seq, record.at, record.event)
            assert shown(view) == shown(told), "as the whole journal tells it"
            through = view.last_fold.through if view.last_fold is not None else 0
            seen.add(view.last_fold.version if view.last_fold is not None else 0)
            here = {message.id for message in view.messages}
            left = [one for one in full_history(records) if one.id not in here]
            assert all(one.turn <= through for one in left), "out of the window only what is summarised"
            await world.lanes.resume_unfinished()
            await world.lanes.wait_until_settled()
            heard = [one.text for one in await world.history() if one.role == "user"]
            assert heard[: len(said)] == said, "nothing that was acknowledged is missing"
            assert len(heard) <= len(said) + 1
            assert isinstance((await world.ask("and now?")).outcome, Answered)
            await world.check_replay()

    for at in range(1, len(whole.appends) + 1):
        folder = tmp_path / str(at)
        folder.mkdir()
        store = make_store(kind, folder)
        _, said = asyncio.run(session_with_folds(store, at, arrives=arrives))
        asyncio.run(after(store if kind == "memory" else make_store(kind, folder), said))
    assert seen >= {0, 1, 2}


def shown(session: Session) -> list[Any]:
    return [(one.id, one.role, one.parts, one.turn) for one in session.messages]
