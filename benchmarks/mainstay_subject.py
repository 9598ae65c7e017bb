"""Mainstay as a subject of work.py, through its public API, and the cases that only Mainstay has."""

from __future__ import annotations

import argparse
import asyncio
import statistics
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager

import msgspec
from model_server import ANSWER
from work import CHAT_PROMPT, Case, Meter, Result, read_rss_kb, run_checked_turn, run_turn_in_each, warm_up

from mainstay import Agent, Config, Limits, tool
from mainstay.config.schema import ToolSettings
from mainstay.memory.index_queue import IndexQueue
from mainstay.memory.indexer import MemoryIndexer
from mainstay.store.sqlite.store import SqliteStore


@tool(untrusted=False, sink=False)
def add(a: int, b: int) -> int:
    """Add two integers."""
    return a + b


class MainstaySubject:
    def __init__(self, arguments: argparse.Namespace) -> None:
        self.arguments = arguments
        self.cases: dict[str, Case] = {
            "sleepers": self.measure_memory_of_unloaded_sessions,
            "seed": self.create_long_session,
            "indexing": self.measure_indexing,
            "create": self.measure_agent_construction,
            "times": self.measure_store_times,
        }

    def build_agent(self) -> Agent:
        arguments = self.arguments
        config = Config() if arguments.idle_s is None else Config(limits=Limits(lane_idle_s=arguments.idle_s))
        if arguments.memory == "off":
            config = msgspec.structs.replace(config, tools=ToolSettings(memory="off"))
        return Agent(
            model="openai/fake-model",
            base_url=arguments.url,
            api_key="bench",
            instructions="You are a helpful assistant.",
            tools=[add],
            home=arguments.home,
            config=config,
        )

    async def open(self) -> None:
        if self.arguments.memory == "off":
            MemoryIndexer.start = lambda indexer: None  # type: ignore[method-assign]  # nothing is indexed
            IndexQueue.mark_changed = lambda queue, key: None  # type: ignore[method-assign]
        self.agent = await self.build_agent().__aenter__()

    async def wait_until_indexed(self) -> None:
        """Return when memory has indexed every event of the journal."""
        if self.arguments.memory == "off":
            return
        await (await self.agent.runtime()).memory._indexer.wait_until_indexed(600)  # type: ignore[attr-defined]

    async def close(self) -> None:
        if self.arguments.case in ("disk", "seed"):  # the index is part of what these cases measure or prepare
            await self.wait_until_indexed()
        await self.agent.__aexit__(None, None, None)

    async def run_turn(self, session: str, text: str) -> str:
        return (await self.agent.run(session, text)).text

    async def measure_memory_of_unloaded_sessions(self) -> Result:
        """Memory that additional sessions use after their lanes were unloaded."""
        first, total = self.arguments.sessions, self.arguments.more
        await warm_up(self)
        await run_turn_in_each(self, range(first), 20)
        await self._wait_until_unloaded()
        await self.wait_until_indexed()  # memory loads its model for the first sessions; that is not counted
        before_kb = read_rss_kb()
        await run_turn_in_each(self, range(first, total), 20)
        await self._wait_until_unloaded()
        await self.wait_until_indexed()
        return {"grown_mb": (read_rss_kb() - before_kb) / 1024}

    async def _wait_until_unloaded(self) -> None:
        """Poll until no lane is loaded: lanes have no event for this."""
        while self.agent._open_agent is not None and len(self.agent._open_agent.lanes):  # noqa: ASYNC110
            await asyncio.sleep(0.05)

    async def create_long_session(self) -> Result:
        """Import the history of a long session, and finish the background work that this causes."""
        await self.agent.import_history(self.arguments.session, build_history(self.arguments.messages))
        await run_checked_turn(self, self.arguments.session, CHAT_PROMPT % 0)
        await self.agent.settled()
        return {}

    async def measure_indexing(self) -> Result:
        """CPU of the memory index after a burst of turns."""
        turns = self.arguments.sessions * self.arguments.turns
        await warm_up(self)
        await self.wait_until_indexed()
        for session in range(self.arguments.sessions):
            for turn in range(self.arguments.turns):
                await run_checked_turn(self, f"s{session}", CHAT_PROMPT % turn)
        with Meter() as meter:
            await self.wait_until_indexed()
        return {"cpu_ms": 1000 * meter.cpu_s / turns}

    async def measure_agent_construction(self) -> Result:
        count = 1000
        for _ in range(10):
            self.build_agent()
        with Meter() as meter:
            for _ in range(count):
                self.build_agent()
        return {"cpu_us": 1e6 * meter.cpu_s / count}

    async def measure_store_times(self) -> Result:
        """How long turns wait for the store, in sessions that this process has not loaded before."""
        sessions = [f"s{n}" for n in range(self.arguments.sessions)]
        for session in sessions:
            await self.agent.import_history(session, build_history(self.arguments.messages))
        await self.close()
        await self.open()
        with record_store_times("load_tail") as load_ms, record_store_times("append") as append_ms:
            for session in sessions:
                await run_checked_turn(self, session, CHAT_PROMPT % 0)
        times = {"load": load_ms, "persist": append_ms}
        return {f"{name}_p{p}_ms": compute_percentile(values, p) for name, values in times.items() for p in (50, 99)}


def build_history(messages: int) -> list[dict[str, str]]:
    pair = ({"role": "user", "content": CHAT_PROMPT % 0}, {"role": "assistant", "content": ANSWER})
    return [pair[n % 2] for n in range(messages)]


@contextmanager
def record_store_times(name: str) -> Iterator[list[float]]:
    """Record the wall time in ms of each call of a store method until its result is available."""
    times_ms: list[float] = []
    method: Callable[..., Awaitable[object]] = getattr(SqliteStore, name)

    def call_and_record(*args: object, **kwargs: object) -> Awaitable[object]:
        start = time.perf_counter()
        future = asyncio.ensure_future(method(*args, **kwargs))
        future.add_done_callback(lambda _: times_ms.append(1000 * (time.perf_counter() - start)))
        return future

    setattr(SqliteStore, name, call_and_record)
    try:
        yield times_ms
    finally:
        setattr(SqliteStore, name, method)


def compute_percentile(values: list[float], percent: int) -> float:
    return statistics.quantiles(values, n=100, method="inclusive")[percent - 1]
