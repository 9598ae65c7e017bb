"""F46: a thousand concurrent sessions, and one poisoned session affects no other."""

from __future__ import annotations

import asyncio
import gc
import random
import tracemalloc
from typing import Any

import pytest
from support.kernel_world import World, virtual

from mainstay.core.errors import LaneFull
from mainstay.core.limits import Limits
from mainstay.core.messages import FinishReason
from mainstay.core.outcome import Answered, Failed
from mainstay.core.ports import Context, ModelInfo, Options, StreamFinished, TextPiece
from mainstay.core.tools import tool
from mainstay.testing import Call, Stall


def answer(context: Context, options: Options) -> Any:
    last = context.messages[-1]
    if last.role == "user" and last.text.startswith("poison"):
        raise ZeroDivisionError("a bug in the provider")
    return Call("work", {"text": last.text}) if last.role == "user" else f"re: {context.messages[-3].text}"


@tool(untrusted=False, sink=False)
async def work(text: str) -> str:
    await asyncio.sleep(1)
    if "broken" in text:
        raise RuntimeError("a bug in a tool")
    return text


@virtual
async def test_f46_a_thousand_concurrent_sessions_are_all_answered_despite_a_poisoned_one() -> None:
    async with World(answer, [work]) as world:
        for round_ in range(2):
            before = asyncio.get_running_loop().time()
            prompts = [
                f"poison {n}" if n % 100 == 7 else f"broken {n}" if n % 100 == 8 else f"hi {n}" for n in range(1000)
            ]
            replies = await asyncio.gather(*(world.ask(text, f"s{n}") for n, text in enumerate(prompts)))
            for n, reply in enumerate(replies):
                assert reply.turn == round_ + 1
                if n % 100 == 7:
                    assert isinstance(reply.outcome, Failed)
                    assert "ZeroDivisionError" in reply.outcome.details
                else:
                    assert reply.outcome == Answered()
            assert asyncio.get_running_loop().time() - before < 3, "nobody waited for anybody"


@virtual
async def test_f46_a_lane_that_is_flooded_says_so_and_serves_what_it_took() -> None:
    stall = Stall("first")
    answers = iter([stall])

    def step(context: Context, options: Options) -> Any:
        return next(answers, None) or "ok"

    async with World(step) as world:
        outcomes = await asyncio.gather(
            *(world.send(f"{n}") for n in range(500)),
            *(world.send("quiet", f"other {n}") for n in range(20)),
            return_exceptions=True,
        )
        flooded, quiet = outcomes[:500], outcomes[500:]
        refused = [outcome for outcome in flooded if isinstance(outcome, LaneFull)]
        taken = [outcome for outcome in flooded if not isinstance(outcome, BaseException)]
        assert len(refused) + len(taken) == 500
        assert len(taken) <= 1 + world.limits.mailbox_depth_max
        stall.release()
        for ticket in (*taken, *quiet):
            assert (await ticket.reply).outcome == Answered()


@virtual
async def test_f46_one_abandoned_session_does_not_block_the_recovery_of_others() -> None:
    """It was interrupted too often; the others were interrupted with it."""
    poison = asyncio.Event()

    @tool(effect="idempotent", timeout_s=900, untrusted=False, sink=False)
    async def killer() -> str:
        poison.set()
        await asyncio.sleep(800)
        return ""

    def step(context: Context, options: Options) -> Any:
        if context.messages[-1].text == "poison":
            return Call("killer")
        return Stall() if context.messages[-1].text == "slow" else "fine"

    limits = Limits(resumes_max=2)
    world = World(step, [killer], limits=limits)
    async with world:
        await world.send("poison", "bad")
        await poison.wait()
        await world.crash()
    for n in range(limits.resumes_max):
        poison.clear()
        world = world.after(step, [killer])
        async with world:
            await world.lanes.resume_unfinished()
            assert (await world.ask("hello", f"good {n}")).text == "fine"
            await poison.wait()
            await world.crash()
    async with world.after(step, [killer]) as last:
        await last.lanes.resume_unfinished()
        assert (await last.ask("hello", "good")).text == "fine"
        await asyncio.wait_for(last.lanes.wait_until_settled(), 10)
        assert (await last.kinds("bad"))[-1] == "TurnSetAside"
        await last.lanes.get("bad").release(fail=True)
        assert (await last.ask("hello", "bad")).text == "fine"


@virtual
async def test_u4_turns_leave_nothing_behind_in_memory() -> None:
    """The same few sessions, talked to and left, many times: the runtime's own memory is flat."""

    class Forgetful:
        """Remembers no questions, unlike the scripted provider."""

        def model(self) -> Any:
            return ModelInfo(name="m")

        async def close(self) -> None: ...

        async def stream(self, context: Context, options: Options) -> Any:
            yield TextPiece("ok")
            yield StreamFinished(FinishReason.END)

    async with World(Forgetful()) as world:

        async def rounds(count: int) -> int:
            for _ in range(count):
                for n in range(20):
                    watcher = world.watch(f"s{n}")
                    await world.ask("hi", f"s{n}")
                    await watcher.leave()
                await asyncio.sleep(1000)
                assert len(world.lanes) == 0
                world.store.kept._sessions.clear()  # the store is the disk here
            gc.collect()
            return tracemalloc.get_traced_memory()[0]

        tracemalloc.start()
        try:
            await rounds(5)
            first = await rounds(5)
            second = await rounds(20)
        finally:
            tracemalloc.stop()
        assert second - first < 50_000, f"grew by {second - first} bytes over 400 turns"


@pytest.mark.parametrize("repetition", range(50))
def test_loom_116_many_senders_steering_and_aborting_at_random_leave_whole_sessions(repetition: int) -> None:
    """A stress run from a seed: every call has its result and every turn its end."""

    @virtual
    async def check() -> None:
        chance = random.Random(repetition)

        def step(context: Context, options: Options) -> Any:
            if options.tool_choice == "none" or chance.random() < 0.4:
                return "enough"
            return [Call("nap", {"s": chance.random()}) for _ in range(chance.randint(1, 3))]

        @tool(effect="unsafe", untrusted=False, sink=False)
        async def nap(s: float) -> str:
            await asyncio.sleep(s)
            return "napped"

        async def one(key: str) -> None:
            for n in range(12):
                await asyncio.sleep(chance.random())
                match chance.randrange(5):
                    case 0:
                        await world.abort(key)
                    case 1 | 2:
                        await world.steer(f"steer {n}", key)
                    case _:
                        try:
                            await world.send(f"prompt {n}", key)
                        except LaneFull:
                            pass

        async with World(step, [nap]) as world:
            await asyncio.gather(*(one(f"s{n % 4}") for n in range(12)))
            await asyncio.wait_for(world.lanes.wait_until_settled(), 10_000)
            for n in range(4):
                key = f"s{n}"
                kinds = await world.kinds(key)
                assert kinds.count("TurnStarted") == kinds.count("TurnEnded") > 0
                calls = [call.id for message in await world.history(key) for call in message.calls]
                assert [result.call_id for result in await world.results(key)] == calls
                said = [m.text for m in await world.history(key) if m.role == "user"]
                assert sum(text.count("prompt") + text.count("steer") for text in said) == kinds.count("Received")
                await world.check_replay(key)

    check()
