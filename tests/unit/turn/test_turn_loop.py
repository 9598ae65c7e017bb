"""One turn: what it is made of, in which order, streamed or not."""

from __future__ import annotations

import asyncio

from support.kernel_world import World, virtual

from mainstay.core.errors import ConfigError, StreamBroken, Unauthorised
from mainstay.core.events import (
    MessageAdded,
    MessageFinished,
    StepRestarted,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
    ToolCallReady,
    ToolCallStarted,
    ToolFinished,
    TurnEnded,
)
from mainstay.core.journal_wording import CURRENT
from mainstay.core.limits import Limits
from mainstay.core.messages import (
    Binary,
    Finish,
    FinishReason,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    Usage,
    parts_text,
)
from mainstay.core.outcome import Answered, Failed
from mainstay.core.ports import Effect, ModelInfo, StreamFinished, TextPiece, ThinkingPiece, Tool, ToolCallPiece
from mainstay.core.tools import tool
from mainstay.testing import Call, Pieces, Raise, Say, ScriptedProvider, Stall
from mainstay.tools.fetch import FetchTool


@tool(untrusted=False, sink=False)
async def add(a: int, b: int) -> int:
    """Add two integers."""
    return a + b


def addition() -> list[object]:
    return [Pieces([TextPiece("Let me "), TextPiece("see."), *_call("add", '{"a":2,', '"b":3}')]), Say("It is 5.")]


def _call(name: str, *inputs: str) -> list[object]:
    return [
        ToolCallPiece(0, name),
        *(ToolCallPiece(0, "", part) for part in inputs),
        StreamFinished(FinishReason.TOOL_CALLS, Usage(7, 3)),
    ]


@virtual
async def test_streamed_and_unstreamed_are_the_same_turn() -> None:
    async with World(addition(), [add]) as silent:
        reply = await silent.ask("2 + 3?")
        plain = await silent.journal()
    async with World(addition(), [add]) as watched:
        watcher = watched.watch()
        assert await watched.ask("2 + 3?") == reply
        await watcher.see(TurnEnded)
        assert await watched.journal() == plain
    heard: dict[int, str] = {}
    for event in watcher.of(TextDelta):
        heard[event.step] = heard.get(event.step, "") + event.text
    said = {event.step: parts_text(event.parts) for event in plain if isinstance(event, MessageAdded)}
    assert heard == said == {1: "Let me see.", 2: "It is 5."}
    assert reply.text == heard[2]
    assert reply.outcome == watcher.of(TurnEnded)[0].outcome == Answered()


@virtual
async def test_events_come_in_the_order_of_what_happened_and_say_where() -> None:
    async with World(addition(), [add]) as world:
        watcher = world.watch()
        await world.ask("2 + 3?")
        await watcher.see(TurnEnded)
        kinds = [type(event).__name__ for event in watcher.events]
        assert kinds == [
            "Received",
            "TurnStarted",
            "TextDelta",
            "TextDelta",
            "ToolCallStarted",
            "ToolCallDelta",
            "ToolCallDelta",
            "MessageAdded",
            "ToolCallReady",
            "ToolStarted",
            "ToolFinished",
            "TextDelta",
            "MessageAdded",
            "TurnEnded",
        ]
        assert {event.session for event in watcher.events} == {"s"}
        assert {event.turn for event in watcher.events[1:]} == {1}
        durable = [event.sequence for event in watcher.events if event.sequence]
        assert durable == [record.seq for record in await world.records()], "clients resume by journal sequence"
        call_id = watcher.of(ToolCallStarted)[0].call_id
        assert "".join(event.input for event in watcher.of(ToolCallDelta)) == '{"a":2,"b":3}'
        assert watcher.of(ToolCallReady)[0].call_id == watcher.of(ToolFinished)[0].result.call_id == call_id
        assert watcher.of(MessageFinished)[-1].step == 2


@virtual
async def test_a_message_keeps_its_thinking_text_calls_and_finish_in_order() -> None:
    answer = Pieces(
        [
            ThinkingPiece("first "),
            ThinkingPiece("second", "signed"),
            ThinkingPiece("anew"),
            TextPiece("Adding."),
            ToolCallPiece(0, "add", '{"a":1,"b":1}'),
            StreamFinished(FinishReason.TOOL_CALLS, Usage(20, 9, 4, 2)),
        ]
    )
    async with World([answer, "2"], [add]) as world:
        watcher = world.watch()
        reply = await world.ask("1 + 1?")
        await watcher.see(TurnEnded)
        assert "".join(event.text for event in watcher.of(ThinkingDelta)) == "first secondanew"
        user, assistant, results, last = await world.history()
        assert user.parts == (Text("1 + 1?"),)
        assert assistant.parts == (
            Thinking("first second", "signed"),
            Thinking("anew"),
            Text("Adding."),
            ToolCall("call_1_1_0", "add", '{"a":1,"b":1}'),
            Finish(FinishReason.TOOL_CALLS),
        )
        assert results.role == "tool"
        assert results.parts == (ToolResult("call_1_1_0", "add", "2"),)
        assert last.parts == (Text("2"), Finish(FinishReason.END))
        assert reply.usage == Usage(30, 14, 4, 2)


@virtual
async def test_an_image_reaches_the_model_and_the_journal() -> None:
    image = Binary("image/png", b"\x89PNG", path="cat.png", origin="person")
    seen: list[tuple[object, ...]] = []

    def look(context: object, options: object) -> str:
        seen.append(context.messages[-1].parts)  # type: ignore[attr-defined]
        return "A cat."

    async with World(look) as world:
        assert (await world.ask(["what is this?", image])).text == "A cat."
        assert seen == [(Text("what is this?"), image)]
        assert (await world.history())[0].parts == (Text("what is this?"), image)


@virtual
async def test_cost_and_usage_add_up_over_the_steps_and_over_the_session() -> None:
    info = ModelInfo(name="m", price_prompt=1_000_000.0, price_completion=2_000_000.0, price_cached=0.0)
    script = [Call("add", {"a": 1, "b": 1}), Say("2", usage=Usage(10, 1, 4)), Say("hi", usage=Usage(1, 1))]
    async with World(ScriptedProvider(script, info=info), [add]) as world:
        first = await world.ask("1 + 1?")
        assert first.usage == Usage(20, 6, 4)
        assert first.cost == 10 + 10 + 6 + 2
        assert (await world.ask("hello")).cost == 3
        standing = await world.store.get_session("s")
        assert (standing.prompt_tokens, standing.completion_tokens, standing.cost) == (21, 7, 31)
        assert (standing.turns, standing.messages) == (2, 6)


@virtual
async def test_pure_calls_of_one_response_overlap_and_their_results_are_in_call_order() -> None:
    running, most = 0, 0

    @tool(effect="pure", untrusted=False, sink=False)
    async def wait(s: float) -> str:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(s)
        running -= 1
        return f"slept {s}"

    calls = [Call("wait", {"s": s}) for s in (0.3, 0.1, 0.2)]
    async with World([calls, "done"], [wait]) as world:
        before = asyncio.get_running_loop().time()
        await world.ask("go")
        assert 0.3 <= asyncio.get_running_loop().time() - before < 0.4
        assert most == 3
        assert [result.content for result in await world.results()] == ["slept 0.3", "slept 0.1", "slept 0.2"]
        await world.check_replay()


@virtual
async def test_at_most_parallel_calls_max_run_side_by_side() -> None:
    running, most = 0, 0

    @tool(effect="pure", untrusted=False, sink=False)
    async def wait(n: int) -> int:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(1)
        running -= 1
        return n

    async with World(
        [[Call("wait", {"n": n}) for n in range(7)], "done"], [wait], limits=Limits(parallel_calls_max=3)
    ) as w:
        await w.ask("go")
        assert most == 3
        assert [result.content for result in await w.results()] == [str(n) for n in range(7)]


@virtual
async def test_calls_that_are_not_pure_run_one_after_another() -> None:
    log: list[str] = []

    async def note(n: int) -> int:
        log.append(f"{n} begins")
        await asyncio.sleep(1)
        log.append(f"{n} ends")
        return n

    for effect in ("idempotent", "unsafe"):
        log.clear()
        slow = tool(effect=effect)(note)  # type: ignore[call-overload]
        async with World([[Call("note", {"n": n}) for n in range(3)], "done"], [slow]) as world:
            await world.ask("go")
        assert log == ["0 begins", "0 ends", "1 begins", "1 ends", "2 begins", "2 ends"]


@virtual
async def test_an_unsafe_call_between_pure_ones_waits_for_those_before_it() -> None:
    log: list[str] = []

    @tool(effect="pure", untrusted=False, sink=False)
    async def look(n: int) -> int:
        log.append(f"look {n}")
        await asyncio.sleep(1)
        log.append(f"looked {n}")
        return n

    @tool(untrusted=False, sink=False)
    async def act(n: int) -> int:
        log.append(f"act {n}")
        return n

    calls = [Call("look", {"n": 0}), Call("look", {"n": 1}), Call("act", {"n": 2}), Call("look", {"n": 3})]
    async with World([calls, "done"], [look, act]) as world:
        await world.ask("go")
        assert [result.content for result in await world.results()] == ["0", "1", "2", "3"]
    assert log == ["look 0", "look 1", "looked 0", "looked 1", "act 2", "look 3", "looked 3"]


@virtual
async def test_identical_calls_of_a_response_run_once_and_each_has_its_result() -> None:
    for effect in ("pure", "unsafe"):
        ran = 0

        async def count(n: int) -> int:
            nonlocal ran
            ran += 1
            return ran

        twice = [Call("count", {"n": 1}), Call("count", {"n": 1}), Call("count", {"n": 2}), Call("count", {"n": 1})]
        async with World([twice, Call("count", {"n": 1}), "done"], [tool(effect=effect)(count)]) as world:  # type: ignore[call-overload]
            await world.ask("go")
            assert [result.content for result in await world.results()] == ["1", "1", "2", "1", "3"]
            assert ran == 3, "the same call in a later step is another call"


@virtual
async def test_results_go_back_together_and_the_model_is_asked_again_until_it_makes_no_more_calls() -> None:
    chain = [[Call("add", {"a": 1, "b": 1}), Call("add", {"a": 2, "b": 2})], Call("add", {"a": 2, "b": 4}), "6"]
    async with World(chain, [add]) as world:
        reply = await world.ask("chain")
        assert (reply.text, reply.outcome) == ("6", Answered())
        assert [len(asked.messages) for asked in world.provider.asked] == [1, 3, 5]
        assert world.provider.asked[1].messages[-1] == ("tool", "2\n4")
        assert [asked.step for asked in world.provider.asked] == [1, 2, 3]


@virtual
async def test_the_prompt_is_on_disk_before_the_model_is_asked_and_the_answer_before_it_is_shown() -> None:
    stall = Stall("hello")
    async with World([stall]) as world:
        ticket = await world.send("hi")
        assert (await world.kinds())[0] == "Received"
        await stall.reached.wait()
        stall.release()
        await ticket.reply
        assert (await world.kinds())[-2:] == ["MessageAdded", "TurnEnded"]


@virtual
async def test_a_turn_without_tools_or_instructions_works() -> None:
    async with World(["hello"]) as world:
        assert (await world.ask("hi")).text == "hello"
        assert (world.provider.asked[0].system, world.provider.asked[0].tools) == ("", [])


@virtual
async def test_the_model_sees_the_whole_conversation_so_far() -> None:
    async with World(["one", "two"], instructions="Be terse.") as world:
        await world.ask("first")
        await world.ask("second")
        asked = world.provider.asked[1]
        assert asked.messages == [("user", "first"), ("assistant", "one"), ("user", "second")]
        assert asked.system == "Be terse."


@virtual
async def test_f12_a_stream_that_breaks_inside_a_call_runs_nothing_and_the_step_is_asked_again() -> None:
    ran: list[int] = []

    @tool(untrusted=False, sink=False)
    async def act(n: int) -> str:
        ran.append(n)
        return "done"

    broken = Pieces([TextPiece("I will "), ToolCallPiece(0, "act", '{"n": 1}'), Raise(StreamBroken("cut"))])
    async with World([broken, Call("act", {"n": 2}), "fine"], [act]) as world:
        watcher = world.watch()
        reply = await world.ask("go")
        assert (reply.text, reply.outcome) == ("fine", Answered())
        assert ran == [2]
        assert (await watcher.see(StepRestarted)).reason == "cut"
        assert "I will" not in "".join(message.text for message in await world.history())
        assert reply.usage == Usage(20, 10), "what was cut is not counted"
        await world.check_replay()


@virtual
async def test_an_error_before_the_first_piece_ends_the_turn_and_is_reported_at_once() -> None:
    refusal = Raise(Unauthorised("the key was refused; check OPENAI_API_KEY", details="401"))
    async with World([refusal, "now it works"]) as world:
        watcher = world.watch()
        reply = await world.ask("hi")
        assert isinstance(reply.outcome, Failed)
        assert "check OPENAI_API_KEY" in reply.text
        assert reply.outcome.details == "401"
        assert (await watcher.see(Failed)).sentence == reply.outcome.sentence
        assert len(world.provider.asked) == 1
        assert (await world.ask("again")).text == "now it works"
        await world.check_replay()


@virtual
async def test_a_provider_with_a_bug_fails_its_turn_and_no_other() -> None:
    for bug in (ValueError("oops"), ConfigError("no such model"), AssertionError()):

        def answer(context: object, options: object, bug: Exception = bug) -> str:
            if context.messages[-1].text == "bad":  # type: ignore[attr-defined]
                raise bug
            return "fine"

        async with World(answer) as world:
            reply = await asyncio.wait_for(world.ask("bad"), 60)
            assert isinstance(reply.outcome, Failed), bug
            assert reply.text
            assert (await asyncio.wait_for(world.ask("good"), 60)).text == "fine"


@virtual
async def test_a_model_with_an_empty_answer_has_answered() -> None:
    async with World([Say(""), "next"]) as world:
        reply = await world.ask("hi")
        assert (reply.text, reply.outcome) == ("", Answered())
        assert (await world.ask("and?")).text == "next"
        await world.check_replay()


@virtual
async def test_f17_an_answer_that_the_provider_withheld_fails_in_one_sentence() -> None:
    withheld = Pieces([StreamFinished(FinishReason.FILTERED, Usage(1, 1))])
    async with World([withheld, "fine"]) as world:
        reply = await world.ask("something unspeakable")
        assert isinstance(reply.outcome, Failed)
        assert reply.text == CURRENT.answer_filtered
        assert (await world.ask("something else")).text == "fine"
        await world.check_replay()


@virtual
async def test_f17_an_answer_with_a_missing_end_is_flagged() -> None:
    cut = Pieces([TextPiece("The answer is"), StreamFinished(FinishReason.LENGTH, Usage(1, 3))])
    async with World([cut, "fine"]) as world:
        assert (await world.ask("something long")).cut
        assert not (await world.ask("something else")).cut
        await world.check_replay()


@virtual
async def test_f17_a_call_cut_off_by_the_output_limit_is_not_run_and_the_model_is_told() -> None:
    await check_cut_off(FinishReason.LENGTH)


@virtual
async def test_f17_a_call_cut_off_by_a_filter_is_not_run_either() -> None:
    await check_cut_off(FinishReason.FILTERED)


async def check_cut_off(reason: FinishReason) -> None:
    ran: list[str] = []

    @tool(untrusted=False, sink=False)
    async def write(text: str = "") -> str:
        ran.append(text)
        return "written"

    cut = Pieces(
        [
            ToolCallPiece(0, "write", '{"text":"whole"}'),
            ToolCallPiece(1, "write", ""),
            StreamFinished(reason, Usage(1, 1)),
        ]
    )
    async with World([cut, "sorry"], [write]) as world:
        await world.ask("go")
        assert ran == ["whole"]
        first, second = await world.results()
        assert not first.is_error
        assert second.is_error
        assert "cut off, by the output limit or a filter" in second.content
        await world.check_replay()


@virtual
async def test_calls_of_tools_that_change_nothing_run_beside_each_other_and_are_replayed() -> None:
    """Also tools that are not `pure`, like `fetch`: their starts are recorded before the first result."""
    running = [0, 0]

    def looking(name: str, effect: Effect, *, parallel: bool) -> Tool:
        @tool(name=name, effect=effect, untrusted=False, sink=False)
        async def look(n: int) -> str:
            running[0] += 1
            running[1] = max(running)
            await asyncio.sleep(9 - n)
            running[0] -= 1
            return f"seen {n}"

        look.parallel = parallel  # type: ignore[attr-defined]
        return look

    tools = [looking("get", "idempotent", parallel=True), looking("read", "pure", parallel=False)]
    tools.append(looking("act", "unsafe", parallel=False))
    for names, most in (("gg", 2), ("grg", 3), ("rgrgr", 5), ("ga", 1), ("ggagg", 2), ("arggra", 4)):
        full = {"g": "get", "r": "read", "a": "act"}
        running[1] = 0
        async with World([[Call(full[letter], {"n": n}) for n, letter in enumerate(names)], "done"], tools) as world:
            assert (await world.ask("go")).text == "done"
            assert running[1] == most, names
            assert [result.content for result in await world.results()] == [f"seen {n}" for n in range(len(names))]
            await world.check_replay()


def test_fetch_runs_beside_other_calls_that_change_nothing() -> None:
    assert FetchTool.parallel
