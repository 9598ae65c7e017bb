"""Idle lanes sleep, stuck ones are seen, and a wall clock that jumps changes nothing (F28)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from support.kernel_world import World, virtual

from mainstay.core.errors import StoreFailed
from mainstay.core.events import Stuck, TurnStarted
from mainstay.core.limits import Limits
from mainstay.core.outcome import Answered
from mainstay.core.ports import Context, Options, SessionTail
from mainstay.core.tools import tool
from mainstay.testing import Call, MemoryStore, Stall
from mainstay.testing.virtual_time import START_MS


def echo(context: Context, options: Options) -> str:
    return f"re: {context.messages[-1].text}"


def now() -> float:
    return asyncio.get_running_loop().time()


# --- sleep -----------------------------------------------------------------------------------------


@virtual
async def test_a_lane_goes_to_sleep_after_lane_idle_s_and_any_message_wakes_it_unnoticed() -> None:
    async with World(echo) as world:
        assert world.limits.lane_idle_s == 300
        await world.ask("one")
        await asyncio.sleep(290)
        assert len(world.lanes) == 1
        await asyncio.sleep(60)
        assert len(world.lanes) == 0
        assert (await world.ask("two")).turn == 2
        assert world.provider.asked[1].messages == [("user", "one"), ("assistant", "re: one"), ("user", "two")]


@virtual
async def test_lane_idle_s_counts_from_the_last_message_and_is_configurable() -> None:
    async with World(echo, limits=Limits(lane_idle_s=10)) as world:
        for _ in range(10):
            await world.ask("still here")
            await asyncio.sleep(8)
            assert len(world.lanes) == 1
        await asyncio.sleep(20)
        assert len(world.lanes) == 0


class SlowStore(MemoryStore):
    """Loads a session after a second, or fails to."""

    fails = False

    async def load_tail(self, key: str, bytes_max: int) -> SessionTail | None:
        await asyncio.sleep(1)
        if self.fails:
            raise StoreFailed("the disk does not answer")
        return await super().load_tail(key, bytes_max)


@pytest.mark.parametrize("fails", [False, True])
def test_a_session_whose_caller_left_while_it_was_being_loaded_goes_to_sleep(fails: bool) -> None:
    @virtual
    async def check() -> None:
        store = SlowStore()
        store.fails = fails
        async with World(echo, store=store) as world:
            asking = asyncio.ensure_future(world.ask("one"))
            await asyncio.sleep(0.5)
            asking.cancel()
            await asyncio.gather(asking, return_exceptions=True)
            await asyncio.sleep(1000)
            assert len(world.lanes) == 0
            store.fails = False
            assert (await world.ask("two")).text == "re: two"

    check()


@virtual
async def test_a_sleeping_agent_has_no_task_and_no_timer_left() -> None:
    async with World(echo) as world:
        for n in range(100):
            await world.ask("hi", f"s{n}")
        await asyncio.sleep(1000)
        assert len(world.lanes) == 0
        others = asyncio.all_tasks() - {asyncio.current_task()}
        assert others == set()
        assert not [handle for handle in asyncio.get_running_loop()._scheduled if not handle.cancelled()]


@virtual
async def test_a_lane_at_work_or_with_prompts_that_wait_is_not_put_to_sleep() -> None:
    stall = Stall("at last")
    answers = iter([stall])

    def step(context: Context, options: Options) -> Any:
        return next(answers, None) or "next"

    limits = Limits(lane_idle_s=10, model_timeout_s=10_000)
    async with World(step, limits=limits) as world:
        first, second = await world.send("one"), await world.send("two")
        await asyncio.sleep(5000)
        assert len(world.lanes) == 1
        stall.release()
        assert ((await first.reply).text, (await second.reply).text) == ("at last", "next")


# --- the watchdog ----------------------------------------------------------------------------------


class Sticky(MemoryStore):
    """A disk that stops answering when told to, and goes on where it was when it is let go."""

    def __init__(self) -> None:
        super().__init__()
        self.stuck = False
        self.go = asyncio.Event()

    def append(self, *order: Any, synced: bool = True) -> Any:
        return asyncio.ensure_future(self._held(*order)) if self.stuck else super().append(*order)

    async def _held(self, *order: Any) -> None:
        await self.go.wait()
        await super().append(*order)


@virtual
async def test_u9_a_stuck_lane_is_seen_and_said_once_and_nothing_is_aborted() -> None:
    store = Sticky()

    @tool(timeout_s=50, untrusted=False, sink=False)
    async def act() -> str:
        store.stuck = True
        return "acted"

    limits = Limits(watchdog_period_s=5, watchdog_grace_s=20)
    async with World([Call("act"), "done"], [act], store=store, limits=limits) as world:
        watcher = world.watch()
        ticket = await world.send("go")
        await asyncio.sleep(60)
        assert not watcher.of(Stuck), "its bound is not over yet"
        await asyncio.sleep(1000)
        (stuck,) = watcher.of(Stuck)
        assert (stuck.session, stuck.doing) == ("s", "waiting for the model")
        assert stuck.seconds >= limits.watchdog_grace_s
        assert not ticket.reply.done()
        store.go.set()
        store.stuck = False
        assert (await ticket.reply).outcome == Answered(), "it was left alone, and finished"


@virtual
async def test_u9_a_lane_that_is_stuck_again_later_is_said_again() -> None:
    store = Sticky()

    def step(context: Context, options: Options) -> str:
        store.stuck = True
        return "ok"

    limits = Limits(watchdog_period_s=5, watchdog_grace_s=5, model_timeout_s=10)
    async with World(step, store=store, limits=limits) as world:
        watcher = world.watch()
        for times in (1, 2):
            store.go.clear()
            ticket = await world.send("go")
            await watcher.see(Stuck, times)
            store.stuck = False
            store.go.set()
            await ticket.reply
            await asyncio.sleep(20)
        assert len(watcher.of(Stuck)) == 2


@virtual
async def test_u9_the_watchdog_is_silent_while_a_slow_tool_is_within_its_declared_timeout() -> None:
    @tool(timeout_s=5000, untrusted=False, sink=False)
    async def compile_everything() -> str:
        await asyncio.sleep(4900)
        return "compiled"

    async with World([Call("compile_everything"), "done"], [compile_everything]) as world:
        watcher = world.watch()
        assert (await world.ask("go")).text == "done"
        assert [result.content for result in await world.results()] == ["compiled"]
        assert watcher.of(Stuck) == []


@virtual
async def test_u9_of_tools_side_by_side_the_slowest_counts() -> None:
    @tool(effect="pure", timeout_s=2000, untrusted=False, sink=False)
    async def slow() -> str:
        await asyncio.sleep(1900)
        return "slow"

    @tool(effect="pure", timeout_s=2, untrusted=False, sink=False)
    async def quick() -> str:
        return "quick"

    async with World([[Call("slow"), Call("quick")], "done"], [slow, quick]) as world:
        watcher = world.watch()
        assert (await world.ask("go")).text == "done"
        assert watcher.of(Stuck) == []


@virtual
async def test_u9_the_watchdog_is_silent_while_a_provider_waits_to_ask_again() -> None:
    stall = Stall("at last")

    def step(context: Context, options: Options) -> Any:
        assert options.on_wait is not None
        options.on_wait("busy", 3000)
        return stall

    async with World(step) as world:
        watcher = world.watch()
        ticket = await world.send("go")
        await asyncio.sleep(3100)
        stall.release()
        assert (await ticket.reply).text == "at last"
        assert watcher.of(Stuck) == []


# --- F28 -------------------------------------------------------------------------------------------

HOUR, DAY = 3600.0, 86_400.0
TO_2038 = (2_147_483_648_000 - START_MS) / 1000 + 10
TO_9999 = (253_402_300_799_000 - START_MS) / 1000 - 100_000
JUMPS = {
    "+1h": HOUR,
    "-1h": -HOUR,
    "+1d": DAY,
    "-1d": -DAY,
    "2038": TO_2038,
    "9999": TO_9999,
    "before 1970": -2_000_000_000.0,
}
jumping = pytest.mark.parametrize("jump", JUMPS.values(), ids=JUMPS)


@jumping
def test_f28_a_wall_clock_that_jumps_in_mid_turn_changes_nothing(jump: float) -> None:
    @virtual
    async def check() -> None:
        stall = Stall("answer")
        async with World([stall, "next"]) as world:
            ticket = await world.send("go")
            await stall.reached.wait()
            world.clock.jump(jump)
            await asyncio.sleep(100)
            assert not ticket.reply.done()
            stall.release()
            assert ((await ticket.reply).text, (await ticket.reply).outcome) == ("answer", Answered())
            assert (await world.ask("and")).text == "next"
            assert [record.seq for record in await world.records()] == list(range(1, 9))
            standing = await world.store.get_session("s")
            assert standing.updated == world.clock.now_ms()
            await world.check_replay()

    check()


@jumping
def test_f28_timeouts_of_tools_and_models_are_not_moved_by_it(jump: float) -> None:
    @virtual
    async def check() -> None:
        @tool(timeout_s=30, untrusted=False, sink=False)
        async def wait(s: float) -> str:
            asyncio.get_running_loop().call_later(1, world.clock.jump, jump)
            await asyncio.sleep(s)
            return "waited"

        world = World(
            [[Call("wait", {"s": 29}), Call("wait", {"s": 31})], Stall()], [wait], limits=Limits(model_timeout_s=50)
        )
        async with world:
            before = now()
            watcher = world.watch()
            reply = await world.ask("go")
            assert [result.is_error for result in await world.results()] == [False, True]
            assert "did not finish within 50 s" in reply.text
            assert now() - before == pytest.approx(29 + 30 + 50, abs=3)
            assert watcher.of(Stuck) == []

    check()


@jumping
def test_f28_a_coalescing_window_is_not_moved_by_it(jump: float) -> None:
    @virtual
    async def check() -> None:
        async with World(echo, limits=Limits(coalesce_window_s=5)) as world:
            before = now()
            first = await world.send("one", sender="ann")
            await asyncio.sleep(1)
            world.clock.jump(jump)
            second = await world.send("two", sender="ann")
            assert (await first.reply).text == (await second.reply).text == "re: one\ntwo"
            assert now() - before == pytest.approx(6)
            stall = Stall("x")
            world.provider._script = lambda context, options: stall
            await world.send("busy", sender="ann")
            await stall.reached.wait()
            world.provider._script = echo
            early = await world.send("early", sender="ann")
            await asyncio.sleep(60)
            world.clock.jump(-60)
            late = await world.send("late", sender="ann")
            stall.release()
            assert ((await early.reply).text, (await late.reply).text) == ("re: early", "re: late"), (
                "a minute apart is a minute apart, whatever the wall says"
            )
            assert len([event for event in await world.journal() if isinstance(event, TurnStarted)]) == 4

    check()


@jumping
def test_f28_idle_lanes_sleep_when_they_should(jump: float) -> None:
    @virtual
    async def check() -> None:
        async with World(echo) as world:
            await world.ask("one")
            world.clock.jump(jump)
            await asyncio.sleep(290)
            assert len(world.lanes) == 1
            await asyncio.sleep(60)
            assert len(world.lanes) == 0
            assert (await world.ask("two")).turn == 2

    check()


@jumping
def test_f28_a_session_with_a_time_jump_is_resumed_after_a_crash(jump: float) -> None:
    @virtual
    async def check() -> None:
        stall = Stall()
        world = World([stall], limits=Limits(coalesce_window_s=1))
        async with world:
            await world.send("one")
            await stall.reached.wait()
            world.clock.jump(jump)
            await world.send("two")
            await world.crash()
        async with world.after(echo) as later:
            await later.lanes.resume_unfinished()
            await later.lanes.wait_until_settled()
            assert [message.text for message in await later.history()] == ["one", "re: one", "two", "re: two"]

    check()
