"""Requirements on CPU and memory of a server and an agent, measured on separate processes."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median

import pytest
from support.cli_support import SOURCE, Command, FakeModel
from support.served_command import Served, until

PATIENCE_S = 120.0
REST_S = 0.3
RESTING = 1.0  # % of a CPU
TALKING = 30.0
MB_MAX = 5.0


@pytest.fixture
def model() -> Iterator[FakeModel]:
    made = FakeModel()
    yield made
    made.close()


def cpu_s(pid: int) -> float:
    """All of its threads', to the microsecond."""
    spent = (one.read_text().split()[0] for one in Path(f"/proc/{pid}/task").glob("*/schedstat"))
    return sum(map(int, spent)) / 1e9


def share(pid: int, seconds: float) -> float:
    """Of one CPU, in percent. A machine that is busy with others only makes it less."""
    began, before = time.monotonic(), cpu_s(pid)
    time.sleep(seconds)  # what is measured is that nothing happens
    return 100 * (cpu_s(pid) - before) / (time.monotonic() - began)


@pytest.mark.skipif(not Path("/proc/self/schedstat").exists(), reason="CPU times of processes are read in /proc")
def test_loom_113_a_server_uses_one_percent_of_a_cpu_at_rest_and_a_third_while_it_streams(
    tmp_path: Path, model: FakeModel
) -> None:
    with Served(Command(tmp_path, model.url)) as served:
        pid = served.ready().process.pid
        ask = json.dumps({"text": "hello"}).encode()
        assert served.post("/api/sessions/s/prompt", ask)[0] == 200, "what the first turn loads is loaded"
        until(lambda: share(pid, 0.1) < RESTING, lambda: "it does not come to rest")
        assert median(share(pid, REST_S) for _ in range(3)) < RESTING
        ask = json.dumps({"text": "a long one"}).encode()
        began, before = time.monotonic(), cpu_s(pid)
        status, events = served.post("/api/sessions/s/prompt", ask, {"Accept": "text/event-stream"})
        talking = 100 * (cpu_s(pid) - before) / (time.monotonic() - began)
        assert status == 200
        assert events.count("event: TextDelta") > 10
        assert "THE END" in events
        assert talking <= TALKING


AGENTS = """
import asyncio, gc, json, resource, sys
from pathlib import Path
from mainstay import Agent, Config, tool
from mainstay.config.schema import PatternSettings, ToolSettings
from mainstay.testing import Call, ScriptedProvider

place, count = Path(sys.argv[1]), int(sys.argv[2])
shelf = place / "ways"
shelf.mkdir()
for n in range(30):
    (shelf / f"way{n}.yaml").write_text(
        f"name: way-{n}\\ntitle: Way {n}\\ndescription: {'How something is done. ' * 40}\\nintents: [do thing {n}]\\n"
    )

@tool(effect="pure", untrusted=False, sink=False)
def add(a: int, b: int) -> int:
    return a + b

def answer(context, options):
    return "done" if context.messages[-1].role == "tool" else Call("add", {"a": 1, "b": 2})

async def made(name):
    config = Config(tools=ToolSettings(builtin=("readonly",)), patterns=PatternSettings(folders=(str(shelf),)))
    agent = Agent(ScriptedProvider(answer), home=place / name, tools=[add], config=config)
    for n in range(5):
        assert (await agent.run("s", f"do thing {n} " + "word " * 200)).text == "done"
    return agent

def mb():
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() / (1 << 20)

async def main():
    agents = [await made("first")]  # with it comes what all of them share
    before = mb()
    agents += [await made(f"agent{n}") for n in range(count)]
    print(json.dumps((mb() - before) / count))
    for agent in agents:
        await agent.aclose()

asyncio.run(main())
"""


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="memory of a process is read in /proc")
def test_loom_112_an_agent_with_session_patterns_and_tools_takes_no_more_than_5_mb(tmp_path: Path) -> None:
    """As the system counts it: the database's own memory and that of threads is among it."""
    done = subprocess.run(
        [sys.executable, "-c", AGENTS, str(tmp_path), "6"],
        env=Command(tmp_path).env | {"PYTHONPATH": str(SOURCE)},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert 0.05 < json.loads(done.stdout) <= MB_MAX, "and it is measured at all"
