"""Folds: old turns become a summary beside the conversation, and nothing is lost if the summary fails."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from support.kernel_world import World, make_store, virtual

from mainstay.context.token_budget import ContextSizeSettings
from mainstay.core.errors import ContextTooLong, Overloaded, RequestRefused, SummaryUnusable
from mainstay.core.events import Folded, Relieved, SessionChanged, Waiting
from mainstay.core.limits import Limits
from mainstay.core.memory_tiers import Fact
from mainstay.core.messages import Text
from mainstay.core.outcome import Answered, Failed
from mainstay.core.ports import ModelInfo, SummaryRequest, SummaryResult
from mainstay.core.tools import FunctionTool
from mainstay.testing import Call, Raise, ScriptedProvider

SMALL = ModelInfo(name="gpt-4.1-mini", window=4096)
LONG = "word " * 250


class Summaries:
    """Writes `summary N`, or does what the test wants instead."""

    def __init__(self, instead: Callable[[SummaryRequest], Awaitable[SummaryResult]] | None = None) -> None:
        self.passages: list[SummaryRequest] = []
        self._instead = instead

    async def summarise(self, passage: SummaryRequest, model: str) -> SummaryResult:
        self.passages.append(passage)
        if self._instead is not None:
            return await self._instead(passage)
        known = Fact("Ana", "said", f"thing {len(self.passages)}", passage.messages[0].id if passage.messages else 0)
        return SummaryResult(f"summary {len(self.passages)}", (known,) if passage.messages else (), "writer")


def small_world(script: Any = None, summaries: Any = None, *, tools: Any = (), store: Any = None, **more: Any) -> World:
    provider = ScriptedProvider(script or (lambda context, options: "ok " * 50), info=SMALL)
    chosen = {name: more.pop(name) for name in ("limits", "instructions") if name in more}
    return World(provider, tools, store=store, more={"summariser": summaries, **more}, **chosen)


async def until_it_folds(world: World) -> int:
    """So many turns were needed."""
    for number in range(20):
        await world.ask(f"{number} {LONG}")
        await asyncio.sleep(0)
        if world.lanes.get("s")._context_compiler.fold_runner.running_task is not None:
            return number + 1
    raise AssertionError("nothing was folded")


async def folds(world: World) -> list[Folded]:
    await world.lanes.wait_until_settled()
    if (pen := world.lanes.get("s")._writer) is not None:
        await pen.flush()
    return [event for event in await world.journal() if isinstance(event, Folded)]


@virtual
async def test_a_fold_happens_beside_the_conversation_before_it_is_needed() -> None:
    summaries = Summaries()
    async with small_world(summaries=summaries) as world:
        watched = world.watch()
        for number in range(12):
            await world.ask(f"{number} {LONG}")
        made = await folds(world)
        assert made
        assert [one.version for one in made] == list(range(1, len(made) + 1))
        assert all(one.by == "writer" for one in made)
        assert watched.of(Waiting) == [], "no turn had to wait for a summary"
        shown = world.provider.asked[-1].messages
        assert shown[0][0] == "user"
        assert shown[0][1].startswith("[This summary stands for the earlier part of this conversation.")
        assert "summary" in shown[0][1]
        assert shown[-1][1].startswith("11 word")
        await watched.leave()


@virtual
async def test_a_fold_is_one_record_with_its_summaries_and_facts() -> None:
    summaries = Summaries()
    async with small_world(summaries=summaries) as world:
        for number in range(9):
            await world.ask(f"{number} {LONG}")
        (first, *_) = await folds(world)
        (part,) = first.parts
        assert part.text == "summary 1"
        assert part.first == 1 < part.last <= first.upto
        assert first.facts[0].object == "thing 1"
        assert first.facts[0].source == 1


@virtual
async def test_summaries_above_their_target_are_folded_again() -> None:
    async def chatty(passage: SummaryRequest) -> SummaryResult:
        return SummaryResult("again and again " * (20 if not passage.messages else 60))

    summaries = Summaries(chatty)
    async with small_world(summaries=summaries) as world:
        for number in range(40):
            await world.ask(f"{number} {LONG}")
        assert any(not one.messages for one in summaries.passages), "a summary of summaries was asked for"
        last = (await folds(world))[-1]
        assert len(last.summary) < 4000


@pytest.mark.parametrize(
    "trouble",
    [Overloaded("busy"), SummaryUnusable("rubbish"), ZeroDivisionError("a bug"), asyncio.CancelledError()],
    ids=["fails", "rubbish", "a bug in it", "a cancellation without a reason"],
)
@virtual
async def test_a_summary_that_fails_loses_nothing_and_an_outline_replaces_it_when_there_is_no_more_room(
    trouble: Exception,
) -> None:
    async def fail(passage: SummaryRequest) -> SummaryResult:
        raise trouble

    async with small_world(summaries=Summaries(fail)) as world:
        for number in range(12):
            reply = await world.ask(f"{number} {LONG}")
            assert isinstance(reply.outcome, Answered)
        made = await folds(world)
        assert made
        assert all(one.by == "" for one in made)
        assert "[1] user: 0 word word" in made[0].summary
        said = [message.text for message in await world.history()]
        assert [text.split()[0] for text in said if "word" in text] == [str(n) for n in range(12)]


@virtual
async def test_a_summary_that_never_comes_holds_a_turn_no_longer_than_fold_wait_s() -> None:
    async def hang(passage: SummaryRequest) -> SummaryResult:
        await asyncio.Event().wait()
        raise AssertionError

    async with small_world(summaries=Summaries(hang), limits=Limits(fold_wait_s=7.0)) as world:
        loop = asyncio.get_running_loop()
        await until_it_folds(world)
        began = loop.time()
        for number in range(5):
            assert isinstance((await world.ask(f"{number} {LONG}")).outcome, Answered)
        assert 7.0 <= loop.time() - began < 40.0
        assert any(isinstance(event, Folded) and not event.by for event in await world.journal())


@virtual
async def test_an_abort_does_not_wait_for_a_summary() -> None:
    async def hang(passage: SummaryRequest) -> SummaryResult:
        await asyncio.Event().wait()
        raise AssertionError

    async with small_world(summaries=Summaries(hang), limits=Limits(fold_wait_s=1000.0)) as world:
        watched = world.watch()
        number = 0
        while not watched.of(Waiting):
            ticket = await world.send(f"{number} {LONG}")
            number += 1
            await asyncio.wait(
                (ticket.reply, asyncio.ensure_future(watched.see(Waiting))), return_when="FIRST_COMPLETED"
            )
        assert await world.abort()
        assert type((await ticket.reply).outcome).__name__ == "Aborted"
        assert asyncio.get_running_loop().time() < 100
        await watched.leave()


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_f3_a_process_that_dies_in_the_middle_of_a_fold_leaves_the_old_context(kind: str, tmp_path: Path) -> None:
    @virtual
    async def main() -> None:
        reached = asyncio.Event()

        async def hang(passage: SummaryRequest) -> SummaryResult:
            reached.set()
            await asyncio.Event().wait()
            raise AssertionError

        world = small_world(summaries=Summaries(hang), store=make_store(kind, tmp_path))
        await world.store.open()
        number = await until_it_folds(world)
        assert reached.is_set()
        before = [(m.role, m.parts) for m in world.lanes.get("s")._writer.session.messages]
        await world.crash()
        after = world.after(lambda context, options: "ok")
        async with after:
            session = await after.lanes.get("s").load_session()
            assert [(m.role, m.parts) for m in session.messages] == before
            assert session.last_fold is None
            said = [m.text.split()[0] for m in await after.history() if m.role == "user"]
            assert said == [str(n) for n in range(number)]

    main()


@virtual
async def test_a_fold_that_comes_too_late_is_thrown_away() -> None:
    gate = asyncio.Event()

    async def slow(passage: SummaryRequest) -> SummaryResult:
        await gate.wait()
        return SummaryResult("too late", model="writer")

    async with small_world(summaries=Summaries(slow)) as world:
        await until_it_folds(world)
        lane = world.lanes.get("s")
        await lane.record_changes(Folded(1, "somebody else's", through=1))
        gate.set()
        made = await folds(world)
        assert [one.summary for one in made] == ["somebody else's"]


@virtual
async def test_compact_folds_everything_but_the_newest_turn_and_tells_the_summariser_what_to_keep() -> None:
    summaries = Summaries()
    async with small_world(summaries=summaries) as world:
        for number in range(3):
            await world.ask(f"{number} hello")
        lane = world.lanes.get("s")
        assert await (await lane.load_context_compiler()).compact("the flat") == "summary 1"
        assert summaries.passages[0].focus == "the flat"
        session = await lane.load_session()
        assert [m.text for m in session.messages[1:]] == ["2 hello", "ok " * 50]
        assert await (await lane.load_context_compiler()).compact("") is None


@virtual
async def test_active_window_shows_so_many_messages_and_batch_size_sets_off_a_fold() -> None:
    summaries = Summaries()
    rules = ContextSizeSettings(active_window=6, batch_size=10)
    async with small_world(summaries=summaries, context_rules=rules) as world:
        for number in range(20):
            await world.ask(f"{number} hello")
            shown = [one for one in world.provider.asked[-1].messages if not one[1].startswith("[This summary")]
            assert len(shown) <= 6
            assert shown[0][0] == "user"
            assert shown[-1] == ("user", f"{number} hello")
        made = await folds(world)
        assert made
        assert all(len(one.messages) >= 10 for one in summaries.passages)


@virtual
async def test_a_fixed_section_that_changed_is_appended_until_a_fold_renews_it() -> None:
    store = make_store("memory", Path())
    first = World(lambda context, options: "ok", store=store, instructions="Be brief.")
    async with first:
        await first.ask("hi")
        assert first.provider.asked[-1].system == "Be brief."
    second = World(lambda context, options: "ok", store=store, instructions="Be long-winded.")
    async with second:
        await second.ask("again")
        await second.ask("and again")
        asked = second.provider.asked[-1]
        assert asked.system == "Be brief."
        notes = [text for role, text in asked.messages if role == "system"]
        assert notes == [
            "Your instructions have changed. From now on these hold instead of the earlier ones:\n\nBe long-winded."
        ]
        await (await second.lanes.get("s").load_context_compiler()).compact("")
        await second.ask("now?")
        assert second.provider.asked[-1].system == "Be long-winded."
        assert [role for role, _ in second.provider.asked[-1].messages].count("system") == 0
        changed = [event for event in await second.journal() if isinstance(event, SessionChanged)]
        assert len(changed) == 3


def big_tool(size: int) -> FunctionTool:
    async def look() -> str:
        return "result " * (size // 7)

    return FunctionTool(look, effect="pure")


@virtual
async def test_f17_a_request_that_the_provider_finds_too_long_is_relieved_and_asked_again() -> None:
    tries: list[int] = []

    def script(context: Any, options: Any) -> Any:
        size = sum(len(part.text) for m in context.messages for part in m.parts if hasattr(part, "text"))
        tries.append(size)
        if size > 3000:
            return Raise(ContextTooLong("too many tokens"))
        return "ok"

    async with small_world(script, Summaries()) as world:
        for number in range(8):
            reply = await world.ask(f"{number} {'word ' * 150}")
            assert isinstance(reply.outcome, Answered), reply
        assert any(after < before for before, after in itertools.pairwise(tries))
        assert [one for one in await world.kinds() if one in ("Folded", "Relieved")]


@virtual
async def test_f17_context_retries_max_ends_a_turn_that_is_always_too_long_in_one_sentence() -> None:
    def script(context: Any, options: Any) -> Any:
        return Raise(ContextTooLong("the conversation is too long for openai"))

    async with small_world(script, Summaries(), limits=Limits(context_retries_max=2)) as world:
        reply = await world.ask("hi")
        assert isinstance(reply.outcome, Failed)
        assert "too long for openai" in reply.text
        assert len(world.provider.asked) <= 3


@virtual
async def test_a_refused_request_that_is_mostly_tools_is_sent_again_with_a_shorter_history() -> None:
    """Instructions and tools cannot shrink: three quarters of the whole would leave no room for the history."""
    asked: list[int] = []

    def script(context: Any, options: Any) -> Any:
        history = sum(len(part.text) for m in context.messages for part in m.parts if hasattr(part, "text"))
        asked.append(history)
        return Raise(ContextTooLong("too many tokens", window=SMALL.window)) if history > 3_000 else "ok"

    instructions = "word " * 1_500
    for texts in (["word " * 700], [f"{number} {'word ' * 100}" for number in range(8)]):
        asked.clear()
        async with small_world(script, Summaries(), instructions=instructions) as world:
            for text in texts:
                reply = await world.ask(text)
                assert isinstance(reply.outcome, Answered), reply
            assert any(after < before for before, after in itertools.pairwise(asked)), "a request was refused"


@virtual
async def test_a_guessed_size_that_is_too_small_for_the_shortest_history_is_exceeded() -> None:
    """Only the provider knows how much it takes; a guess ends no turn while the window that it reports is larger."""
    first = True

    def script(context: Any, options: Any) -> Any:
        nonlocal first
        refused, first = first, False
        return Raise(ContextTooLong("too many tokens")) if refused else "ok"

    async with small_world(script, Summaries(), instructions="word " * 1_500) as world:
        assert isinstance((await world.ask("word " * 500)).outcome, Answered)
        calibration = world.services.calibrations.for_model(SMALL)
        assert calibration.total_guess is not None
        calibration.total_guess = 1_530  # learnt with fewer tools: these instructions alone take almost as much
        assert isinstance((await world.ask("word " * 20)).outcome, Answered)


@virtual
async def test_the_window_that_the_provider_reports_is_used_from_then_on() -> None:
    def script(context: Any, options: Any) -> Any:
        size = sum(len(part.text) for m in context.messages for part in m.parts if hasattr(part, "text"))
        return Raise(ContextTooLong("too long", window=2048)) if size > 7000 else "ok"

    async with small_world(script, Summaries()) as world:
        for number in range(12):
            assert isinstance((await world.ask(f"{number} {LONG}")).outcome, Answered)
        assert len(world.provider.asked) <= 14


@virtual
async def test_a_large_result_becomes_a_stub_and_stays_one_so_that_the_prefix_is_stable() -> None:
    calls = iter([Call("look"), Call("look"), "done"])
    async with small_world(lambda context, options: next(calls), None, tools=[big_tool(12_000)]) as world:
        await world.ask("look twice")
        relieved = [event for event in await world.journal() if isinstance(event, Relieved)]
        assert relieved
        shown = [text for role, text in world.provider.asked[-1].messages if role == "tool"]
        assert all("read on with result(ref=" in text for text in shown)
        whole = [one.content for one in await world.results()]
        assert [len(one) for one in whole] == [11_998, 11_998], "the journal keeps all of it"


@virtual
async def test_a_failed_summary_is_not_tried_again_on_every_turn() -> None:
    async def fail(passage: SummaryRequest) -> SummaryResult:
        raise Overloaded("busy")

    summaries = Summaries(fail)
    async with small_world(summaries=summaries) as world:
        for number in range(10):
            await world.ask(f"{number} {LONG}")
        assert len(summaries.passages) <= 2


@virtual
async def test_the_cost_of_summaries_counts_to_the_session() -> None:
    from mainstay.core.messages import Usage

    async def paid(passage: SummaryRequest) -> SummaryResult:
        return SummaryResult("short", model="writer", usage=Usage(1000, 50), cost=0.25)

    async with small_world(summaries=Summaries(paid)) as world:
        for number in range(3):
            await world.ask(f"{number} hello")
        before = (await world.lanes.get("s").load_session()).usage.prompt
        await (await world.lanes.get("s").load_context_compiler()).compact("")
        session = await world.lanes.get("s").load_session()
        assert (session.usage.prompt - before, session.cost) == (1000, 0.25)


@virtual
async def test_a_stall_in_a_fold_does_not_block_closing_the_lane() -> None:
    async def hang(passage: SummaryRequest) -> SummaryResult:
        await asyncio.Event().wait()
        raise AssertionError

    async with small_world(summaries=Summaries(hang)) as world:
        await until_it_folds(world)
        assert world.lanes.get("s").is_busy
    assert asyncio.get_running_loop().time() < 60


@virtual
async def test_fixed_sections_above_their_target_are_warned_about(caplog: pytest.LogCaptureFixture) -> None:
    async with small_world(context_rules=ContextSizeSettings(fixed_tokens=100)) as world:
        await world.ask("hi")
    assert caplog.messages == []
    wordy = World(
        lambda context, options: "ok",
        instructions="Be kind. " * 200,
        more={"context_rules": ContextSizeSettings(fixed_tokens=100)},
    )
    async with wordy:
        await wordy.ask("hi")
        await wordy.ask("and again")
    assert len(caplog.messages) == 1
    assert "its instructions and tools take about 45" in caplog.messages[0]


class Wordy:
    """A contributor with too much to say about the person."""

    tools = ()

    def __init__(self, text: str) -> None:
        self.text = text

    def fixed_section(self, session: str) -> str:
        return ""

    def profile_section(self, session: str) -> str:
        return self.text

    def turn_notes(self, session: str, prompt: str) -> tuple[Text, ...]:
        return ()


@pytest.mark.parametrize("text", ["word " * 20_000, "ሰላም " * 5_000], ids=["latin", "ethiopic"])
@virtual
async def test_a_profile_that_would_leave_no_room_is_cut_and_the_conversation_goes_on(text: str) -> None:
    async with small_world(contributors=(Wordy(text),)) as world:
        assert isinstance((await world.ask("hi")).outcome, Answered)
        shown = (await world.lanes.get("s").load_context_compiler()).describe_context()
        profile = next(one for one in shown.sections if one.name == "profile")
        assert profile.text.startswith(text[:100])
        assert "The rest is left out here" in profile.text
        assert profile.tokens <= shown.budget // 4


@virtual
async def test_a_model_that_takes_no_tools_is_asked_without_them_from_then_on() -> None:
    def script(context: Any, options: Any) -> Any:
        return Raise(RequestRefused("library/tiny does not support tools")) if context.tools else "plain"

    async with small_world(script, tools=[big_tool(10)]) as world:
        assert (await world.ask("hi")).text == "plain"
        assert (await world.ask("again", "another")).text == "plain"
        assert [len(asked.tools) for asked in world.provider.asked] == [1, 0, 0]


@virtual
async def test_any_other_refusal_ends_the_turn() -> None:
    async with small_world(
        lambda context, options: Raise(RequestRefused("no such model")), tools=[big_tool(10)]
    ) as world:
        assert isinstance((await world.ask("hi")).outcome, Failed)
        assert len(world.provider.asked) == 1
