"""A steer reaches the running turn at its next boundary, and is never lost."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from support.kernel_world import World, envelope, virtual

from mainstay.core.events import Received, Steered, TurnEnded
from mainstay.core.messages import Finish, FinishReason, Text
from mainstay.core.outcome import Answered
from mainstay.core.ports import Context, Options, StreamFinished, TextPiece, ToolCallPiece
from mainstay.core.tools import tool
from mainstay.testing import Call, MemoryStore, Pieces, Stall


def gated() -> tuple[Any, dict[int, asyncio.Event], dict[int, asyncio.Event], list[int]]:
    """A tool that stops in call n until the test lets it go."""
    began = {n: asyncio.Event() for n in range(1, 5)}
    go = {n: asyncio.Event() for n in range(1, 5)}
    ran: list[int] = []

    @tool(untrusted=False, sink=False)
    async def step(n: int) -> str:
        ran.append(n)
        began[n].set()
        await go[n].wait()
        return f"did {n}"

    return step, began, go, ran


@virtual
async def test_u10_a_steer_at_a_tool_boundary_skips_the_remaining_calls_and_the_model_is_asked_again() -> None:
    step, began, go, ran = gated()
    script = [[Call("step", {"n": n}) for n in (1, 2, 3)], "as you wish"]
    async with World(script, [step]) as world:
        watcher = world.watch()
        ticket = await world.send("do three things")
        await began[1].wait()
        steer = await world.steer("only the first, please")
        assert ran == [1]
        go[1].set()
        reply = await ticket.reply
        assert (reply.text, reply.outcome) == ("as you wish", Answered())
        assert ran == [1], "what had begun was finished, the rest was not begun"
        done, *skipped = await world.results()
        assert done.content == "did 1"
        assert [(result.is_error, "Skipped" in result.content) for result in skipped] == [(True, True)] * 2
        assert world.provider.asked[1].messages[-1] == ("user", "only the first, please")
        assert world.provider.asked[1].messages[-2][0] == "tool"
        assert "only the first" not in world.provider.asked[1].system
        assert await steer.reply == reply, "whoever steered hears the turn's answer"
        assert (await watcher.see(Steered)).turn == 1
        await world.check_replay()


@virtual
async def test_a_steer_during_plain_text_cuts_the_generation_and_asks_again() -> None:
    stall = Stall()
    script = [Pieces([TextPiece("Once upon a "), stall]), "Short version."]
    async with World(script) as world:
        ticket = await world.send("a story")
        await stall.reached.wait()
        await world.steer("shorter")
        reply = await ticket.reply
        assert (reply.text, reply.turn) == ("Short version.", 1)
        assert world.provider.closed == 1, "the first stream was really left"
        _, partial, steer, _ = await world.history()
        assert partial.parts == (Text("Once upon a "), Finish(FinishReason.STEERED))
        assert (steer.role, steer.text) == ("user", "shorter")
        assert [role for role, _ in world.provider.asked[1].messages] == ["user", "assistant", "user"]
        await world.check_replay()


@virtual
async def test_a_steer_before_the_first_text_leaves_no_empty_message_behind() -> None:
    stall = Stall()
    async with World([stall, "fine"]) as world:
        ticket = await world.send("hello")
        await stall.reached.wait()
        await world.steer("in French")
        assert (await ticket.reply).text == "fine"
        assert [message.text for message in await world.history()] == ["hello", "in French", "fine"]
        await world.check_replay()


@virtual
async def test_a_steer_once_a_call_has_begun_waits_for_it_and_skips_it() -> None:
    stall = Stall()
    ran: list[int] = []

    @tool(untrusted=False, sink=False)
    async def act(n: int) -> str:
        ran.append(n)
        return "done"

    writing = Pieces(
        [
            TextPiece("I will "),
            ToolCallPiece(0, "act", '{"n":'),
            stall,
            ToolCallPiece(0, "", "1}"),
            StreamFinished(FinishReason.TOOL_CALLS),
        ]
    )
    async with World([writing, "all right"], [act]) as world:
        ticket = await world.send("act")
        await stall.reached.wait()
        await world.steer("no, don't")
        assert world.provider.closed == 0, "the call is heard out"
        stall.release()
        assert (await ticket.reply).text == "all right"
        assert ran == []
        (result,) = await world.results()
        assert "Skipped" in result.content
        assert (await world.history())[1].calls[0].input == '{"n":1}'
        await world.check_replay()


@virtual
async def test_u10_a_steer_with_nothing_running_is_a_prompt() -> None:
    async with World(["hello"]) as world:
        ticket = await world.steer("hi")
        assert (await ticket.reply).text == "hello"
        assert [event.kind for event in await world.journal() if isinstance(event, Received)] == ["prompt"]


class Holding(MemoryStore):
    """A disk that is slow at the end of a turn: that append, and those behind it, wait until they are let go."""

    def __init__(self) -> None:
        super().__init__()
        self.reached = asyncio.Event()
        self.go = asyncio.Event()

    def append(self, info: Any, expected: int, events: Any, idempotency_key: Any = None, *, synced: bool = True) -> Any:
        ends = any(b'"TurnEnded"' in event for event in events)
        if (ends or self.reached.is_set()) and not self.go.is_set():
            self.reached.set()
            return asyncio.ensure_future(self._held(info, expected, events, idempotency_key))
        return super().append(info, expected, events, idempotency_key)

    async def _held(self, *order: Any) -> None:
        await self.go.wait()
        await super().append(*order)


@virtual
async def test_u10_a_steer_that_comes_as_the_turn_ends_becomes_the_next_prompt() -> None:
    store = Holding()
    async with World(["the answer", "and the rest"], store=store) as world:
        first = await world.send("a question")
        await store.reached.wait()
        steering = asyncio.ensure_future(world.steer("and another thing"))
        await asyncio.sleep(0.1)
        store.go.set()
        assert (await first.reply).text == "the answer"
        reply = await (await steering).reply
        assert (reply.text, reply.turn) == ("and the rest", 2)
        assert [message.text for message in await world.history()] == [
            "a question", "the answer", "and another thing", "and the rest",
        ]  # fmt: skip


@virtual
async def test_several_steers_reach_the_turn_in_order() -> None:
    step, began, go, _ = gated()
    async with World([[Call("step", {"n": 1}), Call("step", {"n": 2})], "yes to all"], [step]) as world:
        ticket = await world.send("go")
        await began[1].wait()
        for text in ("first", "second", "third"):
            await world.steer(text)
        go[1].set()
        assert (await ticket.reply).text == "yes to all"
        assert world.provider.asked[1].messages[-1] == ("user", "first\nsecond\nthird")
        (steered,) = [event for event in await world.journal() if isinstance(event, Steered)]
        assert [r.event.parts for r in await world.records() if r.seq in steered.inputs] == [
            (Text("first"),), (Text("second"),), (Text("third"),)
        ]  # fmt: skip
        await world.check_replay()


@virtual
async def test_a_steer_in_each_of_two_steps() -> None:
    step, began, go, ran = gated()
    script = [
        [Call("step", {"n": 1}), Call("step", {"n": 2})],
        [Call("step", {"n": 3}), Call("step", {"n": 4})],
        "done",
    ]
    async with World(script, [step]) as world:
        ticket = await world.send("go")
        await began[1].wait()
        await world.steer("one")
        go[1].set()
        await began[3].wait()
        await world.steer("two")
        go[3].set()
        assert (await ticket.reply).text == "done"
        assert ran == [1, 3]
        users = [message.text for message in await world.history() if message.role == "user"]
        assert users == ["go", "one", "two"]
        await world.check_replay()


@virtual
async def test_a_steer_goes_past_the_prompts_that_wait() -> None:
    step, began, go, _ = gated()
    async with World([Call("step", {"n": 1}), "first done", "second done"], [step]) as world:
        first = await world.send("first")
        await began[1].wait()
        second = await world.send("second")
        await world.steer("steer")
        go[1].set()
        assert (await first.reply).text == "first done"
        assert (await second.reply).text == "second done"
        users = [message.text for message in await world.history() if message.role == "user"]
        assert users == ["first", "steer", "second"]


@virtual
async def test_f44_a_steer_delivered_twice_reaches_the_turn_once() -> None:
    step, began, go, ran = gated()
    async with World([[Call("step", {"n": 1}), Call("step", {"n": 2})], "ok", "later"], [step]) as world:
        ticket = await world.send("go")
        await began[1].wait()
        first = await world.steer("this way", id="m1")
        again = await world.steer("this way", id="m1")
        go[1].set()
        reply = await ticket.reply
        assert reply.text == "ok"
        assert await first.reply == await again.reply == reply
        assert ran == [1]
        assert [m.text for m in await world.history() if m.role == "user"] == ["go", "this way"]
        assert await asyncio.wait_for(world.ask("this way", id="m1"), 60) == reply, "nor a third time, later"
        await world.check_replay()


@pytest.mark.parametrize("when", ["model", "tool"])
def test_a_steer_and_then_an_abort_ends_the_turn_and_the_steer_is_not_lost(when: str) -> None:
    @virtual
    async def check() -> None:
        step, began, _, _ = gated()
        stall = Stall()

        def answer(context: Context, options: Options) -> Any:
            if context.messages[-1].text == "go":
                return stall if when == "model" else Call("step", {"n": 1})
            return "heard you"

        async with World(answer, [step]) as world:
            ticket = await world.send("go")
            await (stall.reached if when == "model" else began[1]).wait()
            steer = world.lanes.get("s").steer
            pending = asyncio.ensure_future(steer(envelope("wait, listen")))
            aborting = asyncio.ensure_future(world.abort())
            assert await aborting
            await ticket.reply
            await pending
            await world.lanes.wait_until_settled()
            assert any("wait, listen" in message.text for message in await world.history())
            ends = [event for event in await world.journal() if isinstance(event, TurnEnded)]
            assert ends
            await world.check_replay()

    check()


@virtual
async def test_parallel_calls_are_finished_before_a_steer_is_applied() -> None:
    go, began = asyncio.Event(), []

    @tool(effect="pure", untrusted=False, sink=False)
    async def look(n: int) -> int:
        began.append(n)
        await go.wait()
        return n

    @tool(untrusted=False, sink=False)
    async def act() -> str:
        raise AssertionError("it was steered before this")

    script = [[Call("look", {"n": 1}), Call("look", {"n": 2}), Call("act")], "ok"]
    async with World(script, [look, act]) as world:
        ticket = await world.send("go")
        while len(began) < 2:
            await asyncio.sleep(0)
        await world.steer("stop there")
        go.set()
        assert (await ticket.reply).text == "ok"
        assert [result.content for result in await world.results()][:2] == ["1", "2"]
        assert "Skipped" in (await world.results())[2].content
        await world.check_replay()
