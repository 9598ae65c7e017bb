"""What a warm turn costs, in counts: the guard against a runtime that gets slower a little at a time.

A number of the table may go up only for a feature that needs it, and that feature's line in CHANGELOG.md says so. If a
number goes down, lower it here. `support.turn_meter` says what is counted and how.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from support import turn_meter
from support.http_world import MAIN, World, world
from support.turn_meter import PATIENCE_S, TurnMeter

from mainstay import Agent, Config, tool
from mainstay.config.schema import EmbeddingSettings, MemorySettings, SessionSettings
from mainstay.core.events import SessionChanged
from mainstay.core.input_envelope import check_session_name
from mainstay.core.worker_threads import run_in_thread
from mainstay.testing import Call, ScriptedProvider

# The smallest counts that were measured, with Python 3.11 (later ones inline comprehensions, which saves calls).
# calls: of functions below src/mainstay, in all threads, without those of the test doubles
# hops: jobs handed to a thread, and results that threads handed to the event loop
# bytes: written to files, by SQLite in whole pages; record_bytes: of the journal's records, encoded
MEASURED = """
turn         calls  iterations  tasks  hops  appends  records  commits  fsyncs   bytes  record_bytes
answer         339           6      1     4        2        4        2       2   16480           380
pure_tool      527           9      1     6        2        6        2       2   16480           739
unsafe_tool    570          11      1     8        3        7        3       3   24720           802
http           476           -      3     -        -        -        -       -       -             -
"""
# A limit is the measured count and this margin; the other counts have none.
MARGINS = {"calls": 0.03, "bytes": 0.05, "record_bytes": 0.05}  # shares
ITERATIONS_MARGIN = 1

TURNS = 6  # measured; the smallest of each count is taken: in some turns SQLite splits a page

# Vectors are made in the background, and loading their model takes longer than all that is measured here.
CONFIG = Config(sessions=SessionSettings(memory=MemorySettings(embeddings=EmbeddingSettings(enabled=False))))


def read_table(text: str) -> dict[str, dict[str, int]]:
    (_, *names), *rows = (line.split() for line in text.strip().splitlines())
    return {case: {n: int(v) for n, v in zip(names, values, strict=True) if v != "-"} for case, *values in rows}


TABLE = read_table(MEASURED)


def find_changes(case: str, found: Counter[str]) -> dict[str, str]:
    """Return a sentence for each count that is above its limit, or so far below that the meter may have lost it."""
    changes = {}
    for name, measured in TABLE[case].items():
        limit = int(measured * (1 + MARGINS.get(name, 0))) + (ITERATIONS_MARGIN if name == "iterations" else 0)
        if found[name] > limit:
            changes[name] = f"{case}: {found[name]} {name}, the limit is {limit}"
        elif found[name] < measured * 0.6:
            changes[name] = f"{case}: {found[name]} {name}, {measured} in the table: lower it, or repair the meter"
    return changes


def check(case: str, found: Counter[str]) -> None:
    advice = "calls by module: python scripts/trace_message.py --list library"
    assert not (changes := find_changes(case, found)), "\n".join((*changes.values(), advice, str(dict(found))))


# --- the turns -----------------------------------------------------------------------------------


@tool(effect="pure", untrusted=False, sink=False)
def look(at: int) -> int:
    """Look at a number."""
    return at


@tool(effect="unsafe", untrusted=False, sink=False)
def act(on: int) -> int:
    """Act on a number."""
    return on


def reply(context: Any, options: Any) -> Any:
    calls = {"pure_tool": Call("look", {"at": 1}), "unsafe_tool": Call("act", {"on": 1})}
    last = context.messages[-1]
    return calls.get(last.text, "fine") if last.role == "user" else "fine"


def open_agent(home: Path) -> Agent:
    return Agent(ScriptedProvider(reply), tools=[look, act], home=home, config=CONFIG)


async def wait_for_background(agent: Agent) -> None:
    """Return when no turn runs, and memory and projections have caught up with the journal."""
    opened = await agent.runtime()
    await agent.settled()
    assert opened.observability.runner is not None
    assert await opened.memory_context.indexer.wait_until_indexed(PATIENCE_S)
    assert await opened.observability.runner.wait_caught_up(PATIENCE_S)


async def measure_turns(meter: TurnMeter, agent: Agent, turn: Callable[[], Awaitable[object]]) -> Counter[str]:
    """Return the smallest of each count over some turns after the first, which loads the session."""
    await turn()
    found = []
    for _ in range(TURNS):
        await wait_for_background(agent)
        found.append(await meter.measure(turn))
    return Counter({name: min(counts[name] for counts in found) for name in set().union(*found)})


def measure_library(home: Path, prompt: str, more: Callable[[Agent], Awaitable[object]] | None = None) -> Counter[str]:
    """Measure turns of an agent, and what `more` adds to each."""
    meter = TurnMeter()

    async def main() -> Counter[str]:
        async with open_agent(home) as agent:

            async def turn() -> None:
                assert (await agent.run("s", prompt)).text == "fine"
                if more is not None:
                    await more(agent)

            return await measure_turns(meter, agent, turn)

    return meter.run(main())


async def post_prompt(here: World, key: str) -> None:
    """Send a prompt to the ASGI application, without a socket."""
    body = b'{"text": "hello"}'
    requests, sent = [{"type": "http.request", "body": body, "more_body": False}], []

    async def receive() -> Any:
        return requests.pop() if requests else await asyncio.Event().wait()  # the client stays

    async def send(message: Any) -> None:
        sent.append(message)

    headers = {"host": "127.0.0.1", "authorization": f"Bearer {key}", "content-type": "application/json"}
    scope = {"type": "http", "method": "POST", "path": "/api/sessions/s/prompt", "root_path": "", "query_string": b""}
    scope |= {"headers": [(name.encode(), value.encode()) for name, value in headers.items()], "client": ("x", 1)}
    await here.app(scope, receive, send)
    assert sent[0]["status"] == 200, sent
    assert b"fine" in b"".join(message.get("body", b"") for message in sent)


def measure_http(home: Path) -> Counter[str]:
    meter = TurnMeter()

    async def main() -> Counter[str]:
        async with world(reply, homes={MAIN: home}, config=CONFIG) as here:
            key = await here.key("ann")
            return await measure_turns(meter, here.agents[MAIN], lambda: post_prompt(here, key))

    return meter.run(main())


# --- the guard -----------------------------------------------------------------------------------


@pytest.mark.parametrize("case", ["answer", "pure_tool", "unsafe_tool"])
def test_a_warm_turn_of_the_library_costs_no_more_than_the_table_says(tmp_path: Path, case: str) -> None:
    check(case, measure_library(tmp_path, case))


def test_a_warm_prompt_by_http_costs_no_more_than_the_table_says(tmp_path: Path) -> None:
    check("http", measure_http(tmp_path))


# --- does it notice? -----------------------------------------------------------------------------


async def call_often(agent: Agent) -> None:
    for _ in range(TABLE["answer"]["calls"] // 16):
        check_session_name("s", CONFIG.limits)


async def create_task(agent: Agent) -> None:
    await asyncio.create_task(asyncio.sleep(0))


async def use_thread(agent: Agent) -> None:
    await run_in_thread(lambda: None)


async def sync_file(agent: Agent) -> None:
    with tempfile.TemporaryFile() as file:
        os.write(file.fileno(), bytes(1000))
        os.fsync(file.fileno())


async def append_record(agent: Agent) -> None:
    writer = await agent.current.lanes.get("s")._load_writer()
    await writer.record(SessionChanged(title="another"))


ADDITIONS: list[tuple[Callable[[Agent], Awaitable[None]], set[str]]] = [
    (call_often, {"calls"}),
    (create_task, {"tasks", "iterations"}),
    (use_thread, {"hops"}),
    (sync_file, {"fsyncs", "bytes"}),
    (append_record, {"appends", "records", "record_bytes", "hops", "commits", "fsyncs", "bytes"}),
]


@pytest.mark.parametrize(("addition", "counts"), ADDITIONS, ids=[addition.__name__ for addition, _ in ADDITIONS])
def test_the_guard_fails_for_a_turn_that_does_more(
    tmp_path: Path, addition: Callable[[Agent], Awaitable[None]], counts: set[str]
) -> None:
    assert counts <= find_changes("answer", measure_library(tmp_path, "answer", addition)).keys()


def test_the_guard_fails_for_a_turn_that_waits_for_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turn_meter, "PATIENCE_S", 0.2)
    with pytest.raises(AssertionError, match="the turn waits for a timer"):
        measure_library(tmp_path, "answer", lambda agent: asyncio.sleep(0.01))


def test_the_guard_fails_for_a_meter_that_sees_nothing() -> None:
    assert find_changes("answer", Counter()).keys() == TABLE["answer"].keys()
