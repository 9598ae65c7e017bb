"""An abort ends the running turn at once, at every stage, and leaves nothing half done."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from support.kernel_world import World, virtual

from mainstay.agent.system_clock import SystemClock
from mainstay.core.errors import StreamBroken
from mainstay.core.events import StepRestarted, TurnEnded
from mainstay.core.limits import Limits
from mainstay.core.messages import Finish, FinishReason, Text
from mainstay.core.outcome import Aborted, Answered
from mainstay.core.ports import Context, Options, TextPiece, ToolCallPiece, ToolContext
from mainstay.core.tools import tool
from mainstay.testing import Call, MemoryStore, Pieces, Raise, Stall


@virtual
async def test_u9_abort_while_the_model_has_said_nothing_yet() -> None:
    stall = Stall()
    async with World([stall, "next"]) as world:
        watcher = world.watch()
        ticket = await world.send("go")
        await stall.reached.wait()
        before = asyncio.get_running_loop().time()
        assert await world.abort()
        assert asyncio.get_running_loop().time() == before
        assert world.provider.closed == 1, "the stream was really left"
        reply = await ticket.reply
        assert (reply.text, reply.outcome) == ("", Aborted())
        assert (await watcher.see(TurnEnded)).outcome == Aborted()
        assert [message.role for message in await world.history()] == ["user"]
        assert (await world.ask("again")).text == "next"
        await world.check_replay()


@virtual
async def test_abort_in_the_middle_of_a_stream_keeps_what_was_said() -> None:
    stall = Stall()
    async with World([Pieces([TextPiece("Half of "), stall]), "next"]) as world:
        ticket = await world.send("go")
        await stall.reached.wait()
        assert await world.abort()
        reply = await ticket.reply
        assert (reply.text, reply.outcome) == ("Half of ", Aborted())
        assert (await world.history())[-1].parts == (Text("Half of "), Finish(FinishReason.ABORTED))
        await world.ask("again")
        await world.check_replay()


@virtual
async def test_abort_while_a_call_is_being_written_runs_nothing_and_keeps_what_was_written() -> None:
    """Half a call is kept like half a text; it has a result, so that the next request is valid."""
    stall = Stall()
    ran: list[int] = []

    @tool(untrusted=False, sink=False)
    async def act(place: str) -> str:
        ran.append(1)
        return "done"

    half = [TextPiece("So "), ToolCallPiece(0, "act", '{"place": "Ro'), stall]
    async with World([Pieces(half), "next"], [act]) as world:
        ticket = await world.send("go")
        await stall.reached.wait()
        assert await world.abort()
        assert (await ticket.reply).outcome == Aborted()
        assert ran == []
        (answer,) = [message for message in await world.history() if message.role == "assistant"]
        assert answer.parts[0] == Text("So ")
        (call,) = answer.calls
        assert (call.name, call.input, call.finished) == ("act", '{"place": "Ro', False)
        assert answer.parts[-1] == Finish(FinishReason.ABORTED)
        (result,) = await world.results()
        assert result.call_id == call.id
        assert result.content.startswith("Cancelled")
        assert (await world.ask("again")).text == "next"
        await world.check_replay()


@virtual
async def test_the_output_so_far_of_an_aborted_tool_is_kept_and_the_answer_is_finished_as_aborted() -> None:
    began = asyncio.Event()

    @tool(timeout_s=1000, untrusted=False, sink=False)
    async def build(context: Any) -> str:
        context.partial_output = lambda: "compiled 3 of 9 files with key sk-proj-" + "a1B2" * 12
        began.set()
        await asyncio.sleep(900)
        return "done"

    build.function.__annotations__["context"] = ToolContext
    build = tool(timeout_s=1000, untrusted=False, sink=False)(build.function)
    async with World([Call("build"), "next"], [build]) as world:
        ticket = await world.send("go")
        await began.wait()
        assert await world.abort()
        assert (await ticket.reply).outcome == Aborted()
        (result,) = await world.results()
        assert result.is_error
        assert result.content.startswith(
            "Cancelled: the turn was aborted before this call finished. Its output so far:"
        )
        assert "compiled 3 of 9 files" in result.content
        (answer,) = [message for message in await world.history() if message.role == "assistant"]
        assert answer.parts[-1] == Finish(FinishReason.ABORTED)
        await world.ask("again")
        await world.check_replay()


@virtual
async def test_u9_abort_while_a_tool_runs_cancels_it_and_the_missing_calls_get_cancelled_results() -> None:
    began, ended, ran = asyncio.Event(), [], []

    @tool(timeout_s=1000, untrusted=False, sink=False)
    async def work(n: int) -> str:
        ran.append(n)
        began.set()
        try:
            await asyncio.sleep(900)
        except asyncio.CancelledError:
            ended.append(n)
            raise
        return "done"

    async with World([[Call("work", {"n": n}) for n in (1, 2, 3)], "next"], [work]) as world:
        ticket = await world.send("go")
        await began.wait()
        before = asyncio.get_running_loop().time()
        assert await world.abort()
        assert asyncio.get_running_loop().time() == before
        assert (await ticket.reply).outcome == Aborted()
        assert (ran, ended) == ([1], [1])
        results = await world.results()
        assert len(results) == 3
        assert all(result.is_error and result.content.startswith("Cancelled") for result in results)
        assert "before this call finished" in results[0].content
        assert "before this call ran" in results[1].content
        assert (await world.ask("again")).text == "next"
        await world.check_replay()


@virtual
async def test_abort_cancels_every_one_of_the_calls_that_run_side_by_side() -> None:
    began, ended = [], []

    @tool(effect="pure", untrusted=False, sink=False)
    async def look(n: int) -> str:
        began.append(n)
        try:
            await asyncio.sleep(20)
        finally:
            ended.append(n)
        return "seen"

    async with World([[Call("look", {"n": n}) for n in (1, 2, 3)]], [look]) as world:
        await world.send("go")
        while len(began) < 3:
            await asyncio.sleep(0)
        assert await world.abort()
        assert ended == [1, 2, 3]
        assert len(await world.results()) == 3
        await world.check_replay()


async def test_abort_does_not_wait_for_a_tool_in_a_thread() -> None:
    began, let_go, seen = asyncio.Event(), threading.Event(), []
    loop = asyncio.get_running_loop()

    @tool(untrusted=False, sink=False)
    def block(context: Any) -> str:
        loop.call_soon_threadsafe(began.set)
        let_go.wait(20)
        seen.append(context.cancelled)
        return "too late"

    block.function.__annotations__["context"] = ToolContext
    block = tool(block.function)
    async with World([Call("block"), "next"], [block], clock=SystemClock()) as world:
        ticket = await world.send("go")
        await began.wait()
        assert await asyncio.wait_for(world.abort(), 5)
        assert (await ticket.reply).outcome == Aborted()
        assert (await world.ask("again")).text == "next"
        let_go.set()
        while not seen:
            await asyncio.sleep(0.001)
        assert seen == [True]
        assert "too late" not in str(await world.history())


@virtual
async def test_abort_between_a_failed_stream_and_the_next_ask_ends_the_turn() -> None:
    """The watcher aborts at the moment the step is restarted."""
    stall = Stall()
    async with World([Pieces([TextPiece("x"), Raise(StreamBroken("cut"))]), stall, "next"]) as world:
        watcher = world.watch()
        ticket = await world.send("go")
        await watcher.see(StepRestarted)
        assert await world.abort()
        assert (await ticket.reply).outcome == Aborted()
        await world.check_replay()


@virtual
async def test_abort_with_nothing_running_is_false_and_harmless() -> None:
    async with World(["hello"]) as world:
        assert await world.abort() is False
        assert await world.abort("never seen") is False
        await world.ask("hi")
        assert await world.abort() is False
        assert (await world.kinds())[-1] == "TurnEnded"
        assert await world.store.get_session("never seen") is None


@virtual
async def test_prompts_that_wait_still_run_after_an_abort() -> None:
    stall = Stall()
    async with World([stall, "two", "three"]) as world:
        first, second, third = [await world.send(text) for text in ("one", "two", "three")]
        await stall.reached.wait()
        assert await world.abort()
        assert (await first.reply).outcome == Aborted()
        assert [(await one.reply).text for one in (second, third)] == ["two", "three"]


@virtual
async def test_abort_returns_only_when_the_end_is_on_disk() -> None:
    class Slow(MemoryStore):
        def append(self, *order: Any, synced: bool = True) -> Any:
            return asyncio.ensure_future(self._slowly(*order))

        async def _slowly(self, *order: Any) -> None:
            await asyncio.sleep(1)
            await super().append(*order)

    stall = Stall()
    async with World([stall], store=Slow()) as world:
        await world.send("go")
        await stall.reached.wait()
        assert await world.abort()
        assert (await world.kinds())[-1] == "TurnEnded"


@virtual
async def test_abort_while_the_start_of_a_call_is_being_written_does_not_run_it() -> None:
    class Slow(MemoryStore):
        def append(
            self, info: Any, expected: int, events: Any, idempotency_key: Any = None, *, synced: bool = True
        ) -> Any:
            if not any(b'"ToolStarted"' in event for event in events):
                return super().append(info, expected, events, idempotency_key)
            writing.set()
            return asyncio.ensure_future(self._slowly(info, expected, events, idempotency_key))

        async def _slowly(self, *order: Any) -> None:
            await asyncio.sleep(1)
            await super().append(*order)

    ran, writing = [], asyncio.Event()

    @tool(untrusted=False, sink=False)
    async def act() -> str:
        ran.append(1)
        return "acted"

    async with World([Call("act")], [act], store=Slow()) as world:
        await world.send("go")
        await writing.wait()
        assert await world.abort()
        assert ran == []
        (result,) = await world.results()
        assert "before this call ran" in result.content
        await world.check_replay()


@virtual
async def test_two_aborts_of_one_turn_end_it_once() -> None:
    stall = Stall()
    async with World([stall]) as world:
        await world.send("go")
        await stall.reached.wait()
        assert await asyncio.gather(world.abort(), world.abort()) == [True, True]
        assert (await world.kinds()).count("TurnEnded") == 1


@virtual
async def test_an_abort_ends_its_own_lane_and_no_other() -> None:
    stalls = {"a": Stall("from a"), "b": Stall("from b")}

    def step(context: Context, options: Options) -> Any:
        return stalls[context.messages[-1].text]

    async with World(step) as world:
        first, second = await world.send("a", "a"), await world.send("b", "b")
        await stalls["b"].reached.wait()
        assert await world.abort("a")
        assert (await first.reply).outcome == Aborted()
        stalls["b"].release()
        reply = await second.reply
        assert (reply.text, reply.outcome) == ("from b", Answered())


@virtual
async def test_aborting_the_last_word_of_an_exhausted_turn_is_an_abort() -> None:
    stall = Stall()

    @tool(untrusted=False, sink=False)
    async def count() -> int:
        return 1

    def step(context: Context, options: Options) -> Any:
        return Call("count") if options.tool_choice == "auto" else stall

    async with World(step, [count], limits=Limits(steps_max=1)) as world:
        ticket = await world.send("go")
        await stall.reached.wait()
        assert await world.abort()
        reply = await ticket.reply
        assert reply.outcome == Aborted()
        assert "I had to stop" not in reply.text
        await world.check_replay()


@virtual
async def test_a_reconcile_that_is_aborted_does_not_run_the_call() -> None:
    ran, asked = [], asyncio.Event()

    async def book() -> str:
        ran.append(1)
        await asyncio.sleep(500)
        return "booked"

    async def was_booked() -> str | None:
        asked.set()
        try:
            await asyncio.sleep(10)
        except asyncio.CancelledError:
            pass
        return None

    made = tool(reconcile=was_booked, timeout_s=1000)(book)
    async with World([Call("book")], [made]) as world:
        await world.send("go")
        while not ran:
            await asyncio.sleep(0)
        await world.crash()
    async with world.after(["sorry"], [made]) as later:
        await later.lanes.resume_unfinished()
        await asked.wait()
        assert await later.abort()
        assert ran == [1]
        await later.check_replay()


@pytest.mark.parametrize("times", [1, 30])
def test_abort_at_every_moment_of_a_turn_leaves_a_session_that_goes_on(times: int) -> None:
    """After n rounds of the loop, for every n of a turn with two calls."""

    @virtual
    async def check() -> None:
        async def act(n: int) -> int:
            await asyncio.sleep(0)
            return n

        aborted = 0
        for rounds in range(times if times == 1 else 60):
            script = [[Call("act", {"n": 1}), Call("act", {"n": 2})], "done", "next", "next"]
            async with World(script, [tool(act)]) as world:
                ticket = await world.send("go")
                for _ in range(rounds):
                    await asyncio.sleep(0)
                aborted += await world.abort()
                outcome = (await ticket.reply).outcome
                assert outcome in (Aborted(), Answered())
                calls = [call.id for message in await world.history() for call in message.calls]
                assert [result.call_id for result in await world.results()] == calls
                await world.check_replay()
        assert times == 1 or aborted > 3

    check()
