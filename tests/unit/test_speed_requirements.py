"""Requirements on time and memory.

What the runtime adds is measured as CPU time of this process, which other processes do not lengthen, and as waiting on
a clock that jumps, which is exact. What the disk or a model takes is theirs; that is measured by the benchmarks.
"""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

import pytest
from support.kernel_world import World, virtual

from mainstay.core.events import MessageAdded, Received
from mainstay.core.messages import FinishReason, Text
from mainstay.core.outcome import Answered
from mainstay.core.ports import Context, ModelInfo, Options, StreamFinished, TextPiece, ToolCallPiece
from mainstay.core.tools import tool
from mainstay.store.sqlite.store import SqliteStore
from mainstay.testing import Stall
from mainstay.testing.store_suite import SessionWriter


@pytest.fixture(autouse=True)
def _without_the_collector() -> Iterator[None]:
    """It would scan everything else in this process."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def p99(values: list[float]) -> float:
    return sorted(values)[int(len(values) * 0.99)]


def said(number: int) -> MessageAdded:
    return MessageAdded("assistant" if number % 2 else "user", (Text(f"message {number} " + "x" * 200),))


async def written(path: Path, messages: int = 600) -> tuple[SqliteStore, SessionWriter]:
    store = SqliteStore(str(path / "workspace.db"))
    await store.open()
    writing = SessionWriter(store, "s")
    await writing.append(*(said(number) for number in range(messages)))
    return store, writing


async def test_loom_080_081_storing_takes_3_ms_and_loading_12_at_the_median(tmp_path: Path) -> None:
    """Storing 8 and loading 28 at the 99th percentile; of CPU, in the loop and in the store's threads."""
    store, writing = await written(tmp_path)
    storing, loading = [], []
    for number in range(100):
        before = time.process_time()
        await writing.append(Received((Text(f"and {number}"),)), said(2 * number + 1))
        storing.append(time.process_time() - before)
        before = time.process_time()
        tail = await store.load_tail("s", 500_000)
        loading.append(time.process_time() - before)
        assert tail is not None
        assert len(tail.records) > 600
    await store.close()
    assert median(storing) <= 0.003, storing
    assert p99(storing) <= 0.008, storing
    assert median(loading) <= 0.012, loading
    assert p99(loading) <= 0.028, loading


async def test_loom_082_a_session_is_recovered_within_50_ms_of_a_restart(tmp_path: Path) -> None:
    """From opening the store until its model is asked again, of CPU."""
    store, _ = await written(tmp_path)
    await store.close()
    spent = []
    stall = Stall()
    world = World(lambda context, options: stall, store=SqliteStore(str(tmp_path / "workspace.db")))
    async with world:
        await world.send("go on")
        await stall.reached.wait()
        await world.crash()
    for _ in range(2):  # a third crash would set the turn aside
        before = time.process_time()
        stall = Stall()
        world = world.after(lambda context, options, stall=stall: stall)
        async with world:
            assert await world.lanes.resume_unfinished() == ["s"]
            await stall.reached.wait()
            spent.append(time.process_time() - before)
            await world.crash()
    assert median(spent) < 0.050, spent


class Timed:
    """A model that takes its time: so much for a turn, in as many answers as that has."""

    def __init__(self, seconds: float, *, calls: bool) -> None:
        self.seconds = seconds / (2 if calls else 1)
        self.calls = calls

    def model(self) -> ModelInfo:
        return ModelInfo(name="timed")

    async def close(self) -> None: ...

    async def stream(self, context: Context, options: Options) -> Any:
        await asyncio.sleep(self.seconds)
        if self.calls and context.messages[-1].role == "user":
            yield ToolCallPiece(0, "look", "{}")
            yield StreamFinished(FinishReason.TOOL_CALLS)
        else:
            yield TextPiece("ok")
            yield StreamFinished(FinishReason.END)


def looking(seconds: float) -> Any:
    @tool(effect="unsafe", untrusted=False, sink=False)
    async def look() -> str:
        await asyncio.sleep(seconds)
        return "seen"

    return look


async def taken(world: World, turns: int) -> list[float]:
    """Of each turn: how long it waited, and what it cost."""
    found = []
    loop = asyncio.get_running_loop()
    for _ in range(turns):
        began, before = loop.time(), time.process_time()
        assert (await world.ask("go")).outcome == Answered()
        found.append(loop.time() - began + time.process_time() - before)
    return found


@virtual
async def test_loom_106_a_model_is_not_slowed_noticeably() -> None:
    for seconds in (0.85, 2.1):
        async with World(Timed(seconds, calls=False)) as world:
            whole = await taken(world, 40)
        assert seconds <= median(whole) < 1.02 * seconds
        assert p99(whole) < 1.1 * seconds, "one in a hundred may meet something"


@virtual
async def test_loom_107_a_tool_is_not_lengthened_noticeably() -> None:
    for seconds in (0.045, 0.18):
        async with World(Timed(0.0, calls=True), [looking(seconds)]) as world:
            whole = await taken(world, 40)
        assert seconds <= median(whole) < seconds + 0.015, "two questions to the model among it"
        assert p99(whole) < seconds + 0.060


@virtual
async def test_loom_109_a_turn_with_tools_takes_no_more_than_its_model_and_tools_by_much() -> None:
    """The figures of the promise: a model of 850 ms and a tool of 45, at their slowest 2,100 and 180."""
    async with World(Timed(0.85, calls=True), [looking(0.045)]) as world:
        assert median(await taken(world, 30)) <= 1.2
    async with World(Timed(2.1, calls=True), [looking(0.18)]) as world:
        assert max(await taken(world, 30)) <= 3.5


@virtual
async def test_loom_110_one_agent_completes_fifty_turns_a_minute() -> None:
    async with World(Timed(0.85, calls=True), [looking(0.045)]) as world:
        assert sum(await taken(world, 50)) <= 60


@virtual
async def test_loom_111_more_than_a_thousand_agents_are_at_work_at_the_same_time_on_one_core() -> None:
    agents, at_work, most = 1_200, 0, 0

    class Counted(Timed):
        async def stream(self, context: Context, options: Options) -> Any:
            nonlocal at_work, most
            at_work += 1
            most = max(most, at_work)
            await asyncio.sleep(self.seconds)
            at_work -= 1
            yield TextPiece(f"re: {context.messages[-1].text}")
            yield StreamFinished(FinishReason.END)

    async with World(Counted(0.85, calls=False)) as world:
        began, before = asyncio.get_running_loop().time(), time.process_time()
        replies = await asyncio.gather(*(world.ask(f"hi {number}", f"s{number}") for number in range(agents)))
        waited, spent = asyncio.get_running_loop().time() - began, time.process_time() - before
    assert [reply.text for reply in replies] == [f"re: hi {number}" for number in range(agents)]
    assert most == agents, "all of them at once"
    assert waited == pytest.approx(0.85, abs=0.1), "nobody waited for anybody"
    assert spent / agents < 0.008, f"eight cores would not do: {spent / agents * 1000:.1f} ms of CPU a turn"


@virtual
async def test_loom_113_a_stream_takes_less_than_a_third_of_a_cpu_however_fast_it_is() -> None:
    """A client watches it; a hundred pieces a second are more than most models say."""
    pieces, pace = 500, 100.0

    class Talking(Timed):
        async def stream(self, context: Context, options: Options) -> Any:
            for _ in range(pieces):
                await asyncio.sleep(1 / pace)
                yield TextPiece("word ")
            yield StreamFinished(FinishReason.END)

    async with World(Talking(0.0, calls=False)) as world:
        watcher = world.watch()
        before = time.process_time()
        began = asyncio.get_running_loop().time()
        await world.ask("talk")
        share = (time.process_time() - before) / (asyncio.get_running_loop().time() - began)
        await watcher.leave()
    assert len(watcher.events) > pieces, "each was heard"
    assert share <= 0.30, f"{share:.0%} of a CPU"
