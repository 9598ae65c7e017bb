"""Every limit of a turn, by hitting it. F18: with any model the turn ends, and says so."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from support.kernel_world import World, envelope, virtual

from mainstay.core.errors import StreamBroken
from mainstay.core.events import MessageAdded, StepCheckpointed, StepRestarted, TextDelta, TurnEnded, Waiting
from mainstay.core.limits import Limits
from mainstay.core.messages import FinishReason, Text, parts_text
from mainstay.core.outcome import Answered, Exhausted, Failed
from mainstay.core.ports import Context, ModelInfo, Options, StreamFinished, TextPiece, ToolCallPiece
from mainstay.core.tools import tool
from mainstay.testing import Call, Pieces, Raise, Say, Stall


def counting() -> tuple[Any, list[int]]:
    ran: list[int] = []

    @tool(untrusted=False, sink=False)
    async def count(n: int = 0) -> int:
        ran.append(n)
        return len(ran)

    return count, ran


def endless(*, last: Any = "that is all I have", vary: bool = True) -> Any:
    """A model that calls for ever, and at last says what it is told to."""
    asked = 0

    def step(context: Context, options: Options) -> Any:
        nonlocal asked
        asked += 1
        if options.tool_choice == "none":
            return last
        return Call("count", {"n": asked if vary else 0})

    return step


@virtual
async def test_f18_steps_max_ends_an_endless_turn_with_an_answer_that_says_so() -> None:
    count, ran = counting()
    async with World(endless(), [count], limits=Limits(steps_max=4)) as world:
        reply = await world.ask("go on for ever")
        assert reply.outcome == Exhausted("4 steps")
        assert reply.text == "that is all I have"
        assert len(ran) == 4
        *free, last = world.provider.asked
        assert {asked.tool_choice for asked in free} == {"auto"}
        assert last.tool_choice == "none"
        assert len(world.provider.asked) == 5, "one last call without tools"
        assert last.messages[-1][0] == "system"
        assert "limit (4 steps)" in last.messages[-1][1]
        await world.check_replay()


@virtual
async def test_f18_the_default_is_25_steps_and_50_calls() -> None:
    count, ran = counting()
    async with World(endless(), [count]) as world:
        assert (await world.ask("go")).outcome == Exhausted("25 steps")
        assert len(ran) == 25
    three = iter(range(1000))

    def step(context: Context, options: Options) -> Any:
        return [Call("count", {"n": next(three)}) for _ in range(3)] if options.tool_choice == "auto" else "enough"

    count, ran = counting()
    async with World(step, [count]) as world:
        assert (await world.ask("go")).outcome == Exhausted("50 tool calls")
        assert len(ran) == 50
        assert "used its 50 tool calls" in (await world.results())[-1].content


@virtual
async def test_f18_tool_calls_max_is_never_overrun_within_a_response() -> None:
    count, ran = counting()
    script = [[Call("count", {"n": n}) for n in range(5)], "done with it"]
    async with World(script, [count], limits=Limits(tool_calls_max=3)) as world:
        reply = await world.ask("go")
        assert ran == [0, 1, 2]
        assert reply.outcome == Exhausted("3 tool calls")
        results = await world.results()
        assert [result.is_error for result in results] == [False, False, False, True, True]
        assert "this turn has used its 3 tool calls" in results[-1].content
        assert world.provider.asked[-1].tool_choice == "none"
        await world.check_replay()


@pytest.mark.parametrize("last", [Call("count"), [Call("count"), Call("nope")], Say(""), Say("  \n")], ids=repr)
def test_f18_a_model_that_ignores_the_final_request_still_gives_an_answer_that_says_so(last: Any) -> None:
    @virtual
    async def check() -> None:
        count, ran = counting()
        async with World(endless(last=last), [count], limits=Limits(steps_max=2)) as world:
            reply = await world.ask("go")
            assert reply.outcome == Exhausted("2 steps")
            assert "I had to stop: this turn reached its limit (2 steps)." in reply.text
            assert len(ran) == 2
            assert (await world.history())[-1].calls == (), "a call without a result is never left behind"
            assert (await world.ask("hello")).turn == 2
            await world.check_replay()

    check()


@virtual
async def test_f18_text_beside_calls_in_the_final_answer_is_kept() -> None:
    last = Pieces([TextPiece("Two of five."), ToolCallPiece(0, "count", "{}"), StreamFinished(FinishReason.TOOL_CALLS)])
    count, _ = counting()
    async with World(endless(last=last), [count], limits=Limits(steps_max=2)) as world:
        assert (await world.ask("go")).text == "Two of five."


@virtual
async def test_calls_per_response_max_refuses_the_rest_and_the_model_may_ask_again() -> None:
    count, ran = counting()
    script = [[Call("count", {"n": n}) for n in range(6)], [Call("count", {"n": n}) for n in (4, 5)], "done"]
    async with World(script, [count], limits=Limits(calls_per_response_max=4)) as world:
        assert (await world.ask("go")).outcome == Answered()
        assert ran == [0, 1, 2, 3, 4, 5]
        results = await world.results()
        assert [result.is_error for result in results] == [False] * 4 + [True] * 2 + [False] * 2
        assert "at most 4 calls a response" in results[4].content
        await world.check_replay()


@virtual
async def test_f18_the_same_call_with_the_same_result_is_run_repeated_calls_max_times_in_a_row() -> None:
    ran: list[int] = []

    @tool(untrusted=False, sink=False)
    async def status() -> str:
        ran.append(1)
        return "pending"

    def step(context: Context, options: Options) -> Any:
        return Call("status") if options.tool_choice == "auto" else "still pending"

    async with World(step, [status], limits=Limits(repeated_calls_max=3, steps_max=20)) as world:
        reply = await world.ask("wait for it")
        assert reply.outcome == Exhausted("20 steps")
        assert len(ran) == 3, "once it goes in circles it is not run again"
        results = await world.results()
        assert [result.is_error for result in results] == [False] * 3 + [True] * 17
        assert "gave the same result 3 times in a row" in results[3].content
        await world.check_replay()


@virtual
async def test_repeated_calls_with_a_changing_result_or_others_between_are_no_loop() -> None:
    count, ran = counting()

    @tool(untrusted=False, sink=False)
    async def other() -> str:
        return "other"

    script = [*(Call("count") for _ in range(8)), "done"]
    async with World(script, [count], limits=Limits(repeated_calls_max=3)) as world:
        assert (await world.ask("poll")).outcome == Answered()
        assert len(ran) == 8, "the result differs each time"
    script = [*(Call("other" if n % 3 == 2 else "fixed") for n in range(12)), "done"]
    fixed = tool(name="fixed")(other.function)
    async with World(script, [fixed, other], limits=Limits(repeated_calls_max=3)) as world:
        await world.ask("go")
        assert not any(result.is_error for result in await world.results())


@virtual
async def test_after_a_circle_another_call_runs_again() -> None:
    ran: list[str] = []

    @tool(untrusted=False, sink=False)
    async def look(what: str) -> str:
        ran.append(what)
        return "nothing"

    script = [
        *(Call("look", {"what": "a"}) for _ in range(4)),
        Call("look", {"what": "b"}),
        Call("look", {"what": "a"}),
        ".",
    ]
    async with World(script, [look], limits=Limits(repeated_calls_max=2)) as world:
        await world.ask("go")
        assert ran == ["a", "a", "b", "a"]


def broken(text: str) -> Pieces:
    return Pieces([TextPiece(text), Raise(StreamBroken("the line dropped", details=text))])


@virtual
async def test_step_restarts_max_bounds_how_often_a_broken_step_is_asked_again() -> None:
    for most in (0, 1, 3):
        tries = [broken(f"try {n}") for n in range(most + 1)]
        async with World([*tries, "fine"], limits=Limits(step_restarts_max=most)) as world:
            watcher = world.watch()
            reply = await world.ask("go")
            assert isinstance(reply.outcome, Failed)
            assert "the line dropped" in reply.text
            assert reply.outcome.details == f"try {most}"
            assert len(world.provider.asked) == most + 1
            await watcher.see(TurnEnded)
            assert len(watcher.of(StepRestarted)) == most
            assert (await world.ask("again")).text == "fine"
            await world.check_replay()


@virtual
async def test_a_step_that_came_through_has_its_restarts_back() -> None:
    count, _ = counting()
    async with World([broken("a"), Call("count"), broken("b"), "fine"], [count]) as world:
        assert (await world.ask("go")).text == "fine"


@virtual
async def test_text_streamed_before_a_restart_is_kept_as_a_partial_and_is_no_part_of_the_history() -> None:
    async with World([broken("half an ans"), "a whole answer"]) as world:
        await world.ask("go")
        journal = await world.journal()
        kept = [event for event in journal if isinstance(event, StepCheckpointed)]
        assert [event.text for event in kept] == ["half an ans"]
        assert [message.text for message in await world.history()] == ["go", "a whole answer"]
        assert "half an ans" not in str(world.provider.asked[1].messages)


@virtual
async def test_model_timeout_s_ends_a_silent_model() -> None:
    async with World([Stall(), "back"], limits=Limits(model_timeout_s=42)) as world:
        before = asyncio.get_running_loop().time()
        reply = await world.ask("hello?")
        assert isinstance(reply.outcome, Failed)
        assert "did not finish within 42 s" in reply.text
        assert asyncio.get_running_loop().time() - before == pytest.approx(42, abs=1)
        assert world.provider.closed == 1, "the stream was really left"
        assert (await world.ask("now?")).text == "back"


@virtual
async def test_model_timeout_s_after_something_was_said_asks_the_step_again() -> None:
    async with World([Pieces([TextPiece("well"), Stall()]), "here"], limits=Limits(model_timeout_s=42)) as world:
        watcher = world.watch()
        assert (await world.ask("hello?")).text == "here"
        assert "42 s" in (await watcher.see(StepRestarted)).reason


@virtual
async def test_waiting_to_ask_again_is_not_counted_as_the_models_time() -> None:
    def step(context: Context, options: Options) -> Any:
        assert options.on_wait is not None
        options.on_wait("the model is busy; asking again", 500.0)
        asyncio.get_running_loop().call_later(550, stall.release)
        return stall

    stall = Stall("at last")
    async with World(step, limits=Limits(model_timeout_s=100)) as world:
        watcher = world.watch()
        assert (await world.ask("go")).text == "at last"
        event = await watcher.see(Waiting)
        assert (event.reason, event.seconds) == ("the model is busy; asking again", 500.0)


@virtual
async def test_output_tokens_max_is_what_the_model_is_asked_for() -> None:
    asked: list[int | None] = []

    def step(context: Context, options: Options) -> str:
        asked.append(options.output_tokens_max)
        return "ok"

    async with World(step, limits=Limits(output_tokens_max=77)) as world:
        await world.ask("go")
    async with World(step) as world:
        await world.ask("go")
    assert asked == [77, None]


@virtual
async def test_a_long_stream_is_checkpointed_once_every_checkpoint_period_s() -> None:
    class Slow:
        """A word a second."""

        def model(self) -> Any:
            return ModelInfo(name="slow")

        async def close(self) -> None: ...

        async def stream(self, context: Context, options: Options) -> Any:
            for n in range(10):
                yield TextPiece(f"{n} ")
                await asyncio.sleep(1)
            yield StreamFinished(FinishReason.END)

    async with World(Slow(), limits=Limits(checkpoint_period_s=3.5)) as world:
        reply = await world.ask("count")
        assert reply.text == "0 1 2 3 4 5 6 7 8 9 "
        kept = [event for event in await world.journal() if isinstance(event, StepCheckpointed)]
        assert [event.text for event in kept] == ["0 1 2 3 ", "4 5 6 7 "], "each holds only what is new"
        assert [message.text for message in await world.history()] == ["count", reply.text]
        await world.check_replay()


@virtual
async def test_a_short_answer_is_not_checkpointed_at_all() -> None:
    async with World(["short"]) as world:
        await world.ask("go")
        assert "StepCheckpointed" not in await world.kinds()


@virtual
async def test_output_attempts_max_bounds_how_often_a_wrong_answer_is_corrected() -> None:
    async def complain(most: int, answers: list[str]) -> tuple[Any, Any]:
        async with World(answers, limits=Limits(output_attempts_max=most)) as world:
            review = lambda text: None if text == "right" else f"{text} is wrong"  # noqa: E731
            ticket = await world.lanes.get("s").accept(envelope("go"), review)
            reply = await ticket.reply
            await world.check_replay()
            return reply, world.provider.asked

    reply, asked = await complain(3, ["a", "b", "right"])
    assert (reply.text, reply.outcome) == ("right", Answered())
    assert asked[2].messages[-1] == ("system", "b is wrong")
    reply, asked = await complain(3, ["a", "b", "c"])
    assert isinstance(reply.outcome, Failed)
    assert "c is wrong" in reply.outcome.sentence
    assert len(asked) == 3
    reply, asked = await complain(1, ["a"])
    assert isinstance(reply.outcome, Failed)


@virtual
async def test_the_notice_of_a_limit_is_the_runtimes_and_marked_so() -> None:
    count, _ = counting()
    async with World(endless(), [count], limits=Limits(steps_max=1)) as world:
        await world.ask("go")
        (notice,) = [e for e in await world.journal() if isinstance(e, MessageAdded) and e.role == "system"]
        assert all(isinstance(part, Text) and part.origin == "runtime" for part in notice.parts)
        assert "say what was done" in parts_text(notice.parts)


@virtual
async def test_the_last_answer_is_streamed_as_it_comes() -> None:
    stall = Stall()
    last = Pieces([TextPiece("So far"), stall, TextPiece("."), StreamFinished(FinishReason.END)])
    count, _ = counting()
    async with World(endless(last=last), [count], limits=Limits(steps_max=1)) as world:
        watcher = world.watch()
        ticket = await world.send("go")
        assert (await asyncio.wait_for(watcher.see(TextDelta), 10)).text == "So far"
        stall.release()
        assert (await ticket.reply).text == "So far."
