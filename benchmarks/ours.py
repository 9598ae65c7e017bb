"""Mainstay as a subject: its public surface, and the cases only it has."""

from __future__ import annotations

import argparse
import asyncio
import statistics
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager

import msgspec
from model_server import ANSWER
from work import CHAT, Meter, Result, checked, rss_kb, spread, warm_up

from mainstay import Agent, Config, Limits, tool
from mainstay.config.schema import ToolSettings
from mainstay.memory.index_queue import IndexQueue
from mainstay.memory.indexer import MemoryIndexer
from mainstay.store.sqlite.store import SqliteStore


@tool
def add(a: int, b: int) -> int:
    """Add two integers."""
    return a + b


class Ours:
    def __init__(self, given: argparse.Namespace) -> None:
        self.given = given

    def make(self) -> Agent:
        given = self.given
        config = Config() if given.idle_s is None else Config(limits=Limits(lane_idle_s=given.idle_s))
        if given.memory == "off":
            config = msgspec.structs.replace(config, tools=ToolSettings(memory="off"))
        return Agent(
            model="openai/fake-model",
            base_url=given.url,
            api_key="bench",
            instructions="You are a helpful assistant.",
            tools=[add],
            home=given.home,
            config=config,
        )

    async def open(self) -> None:
        if self.given.memory == "off":
            MemoryIndexer.start = lambda follower: None  # type: ignore[method-assign]  # nothing is followed
            IndexQueue.mark_changed = lambda walk, key: None  # type: ignore[method-assign]
        self.agent = await self.make().__aenter__()

    async def followed(self) -> None:
        """Returns when memory is up with the journal."""
        if self.given.memory == "off":
            return
        await (await self.agent.runtime()).memory._indexer.wait_until_indexed(600)  # type: ignore[attr-defined]

    async def close(self) -> None:
        if self.given.case in ("disk", "seed") and self.given.memory == "on":  # what follows belongs to it
            await self.followed()
        await self.agent.__aexit__(None, None, None)

    async def turn(self, session: str, text: str) -> str:
        return (await self.agent.run(session, text)).text

    async def sleepers(self) -> Result:
        """Memory after few and after many sessions have gone to sleep."""
        few, many = self.given.sessions, self.given.more
        await warm_up(self)
        await spread(self, range(few), 20)
        await self._asleep()
        await self.followed()  # what memory loads for the first session is not the price of the others
        before = rss_kb()
        await spread(self, range(few, many), 20)
        await self._asleep()
        await self.followed()
        return {"grown_mb": (rss_kb() - before) / 1024}

    async def _asleep(self) -> None:
        """Returns when the last lane is gone; lanes tell nobody that they go to sleep."""
        while self.agent._open_agent is not None and len(self.agent._open_agent.lanes):  # noqa: ASYNC110
            await asyncio.sleep(0.05)

    async def seed(self) -> Result:
        """Grow a session to its length, and let what follows from that happen now."""
        await self.agent.import_history(self.given.session, history(self.given.messages))
        await checked(self, self.given.session, CHAT % 0)
        await self.agent.settled()
        return {}

    async def indexing(self) -> Result:
        """What memory costs after a burst of turns, when it catches up with them."""
        turns = self.given.sessions * self.given.turns
        await warm_up(self)
        await self.followed()
        for s in range(self.given.sessions):
            for t in range(self.given.turns):
                await checked(self, f"s{s}", CHAT % t)
        with Meter() as meter:
            await self.followed()
        return {"cpu_ms": 1000 * meter.cpu_s / turns}

    async def create(self) -> Result:
        count = 1000
        for _ in range(10):
            self.make()
        with Meter() as meter:
            for _ in range(count):
                self.make()
        return {"cpu_us": 1e6 * meter.cpu_s / count}

    async def times(self) -> Result:
        """How long turns wait for their store, in sessions this process has not seen."""
        sessions = [f"s{n}" for n in range(self.given.sessions)]
        for session in sessions:
            await self.agent.import_history(session, history(self.given.messages))
        await self.close()
        await self.open()
        with timed("load") as loads, timed("append") as appends:
            for session in sessions:
                await checked(self, session, CHAT % 0)
        taken = {"load": loads, "persist": appends}
        return {f"{what}_p{p}_ms": percentile(times, p) for what, times in taken.items() for p in (50, 99)}


def history(messages: int) -> list[dict[str, str]]:
    pair = ({"role": "user", "content": CHAT % 0}, {"role": "assistant", "content": ANSWER})
    return [pair[n % 2] for n in range(messages)]


@contextmanager
def timed(name: str) -> Iterator[list[float]]:
    """Wall time in ms from the call of a store's method until its caller may go on."""
    taken: list[float] = []
    method: Callable[..., Awaitable[object]] = getattr(SqliteStore, name)

    def call(*given: object, **named: object) -> Awaitable[object]:
        start = time.perf_counter()
        future = asyncio.ensure_future(method(*given, **named))
        future.add_done_callback(lambda _: taken.append(1000 * (time.perf_counter() - start)))
        return future

    setattr(SqliteStore, name, call)
    try:
        yield taken
    finally:
        setattr(SqliteStore, name, method)


def percentile(values: list[float], percent: int) -> float:
    return statistics.quantiles(values, n=100, method="inclusive")[percent - 1]
