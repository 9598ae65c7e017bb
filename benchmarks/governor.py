"""Many agents on one account with limits: how much of it they use, how soon they are done, and whether a turn fails.

The agents are real, in four workspaces on SQLite that share a governor; the provider is a process of its own behind
real sockets (`governor_model.py`). Each case runs with the governor; for contrast, the same limits without it. Results
go to benchmarks/results/governor.json.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import subprocess
import sys
import tempfile
import time
import urllib.request
from dataclasses import dataclass
from pathlib import Path

import uvloop
from model_server import ANSWER
from ours import add
from processes import HERE, Failed, python
from report import Row, Target, machine, table

from mainstay import Agent, Config, Limits
from mainstay.agent.agent_options import GatewayServices
from mainstay.agent.system_clock import RandomIdGenerator, SystemClock
from mainstay.config.schema import ToolSettings
from mainstay.core.outcome import Answered
from mainstay.core.provider_manifest import ProviderSettings
from mainstay.metering.rate_limiter import RateLimiterRegistry
from mainstay.metering.resilient_provider import ResilientProvider
from mainstay.providers import registry

WORKSPACES = 4
OUTPUT_TOKENS = 200
LIMITS = Limits(output_tokens_max=OUTPUT_TOKENS)
RESULT = HERE / "results" / "governor.json"


@dataclass(frozen=True)
class Case:
    name: str
    what: str
    options: tuple[str, ...]
    used: float | None = 0.7  # of the capacity, at least
    times: float | None = None  # of the ideal time, at most
    governed: bool = True


TIGHT = ("--requests", "140", "--tokens", "32000")  # here tokens are what there is too little of
BURSTS = ("--burst-s", "2", "--every-s", "8")
CASES = (
    Case("truth", "headers that are true", (), 0.9, 1.2),
    Case("truth-tokens", "headers that are true, few tokens", TIGHT, 0.9, 1.2),
    Case("nothing", "no headers", ("--says", "nothing")),
    Case("too-much", "headers that say four times too much", ("--says", "too-much")),
    Case("too-little", "headers that say a quarter", ("--says", "too-little")),
    Case("always-full", "headers that never say less than all", ("--says", "always-full")),
    Case("always-empty", "headers that never say more than nothing", ("--says", "always-empty")),
    Case("bursts", "true headers, all refused for 2 s of every 8", BURSTS),
    Case("bursts-nothing", "no headers, all refused for 2 s of every 8", (*BURSTS, "--says", "nothing")),
    Case("alone", "without the governor", (), None, governed=False),
    Case("alone-tokens", "without the governor, few tokens", TIGHT, None, governed=False),
    Case("alone-bursts", "without the governor, bursts", BURSTS, None, governed=False),
)


class Model:
    def __init__(self, *options: str) -> None:
        command = [sys.executable, str(HERE / "governor_model.py"), *options]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def __enter__(self) -> Model:
        assert self._process.stdout is not None
        self.root = f"http://127.0.0.1:{int(self._process.stdout.readline())}"
        return self

    def __exit__(self, *error: object) -> None:
        self._process.terminate()
        self._process.wait(10)

    def stats(self) -> dict[str, float]:
        with urllib.request.urlopen(self.root + "/stats") as response:
            found: dict[str, float] = json.load(response)
            return found


# --- in a process of its own: the agents ----------------------------------------------------------


async def work(given: argparse.Namespace) -> dict[str, float]:
    governors = RateLimiterRegistry(SystemClock())
    agents = [await make(given, number, governors).__aenter__() for number in range(WORKSPACES)]
    ended: list[bool] = []

    async def talk(number: int) -> None:
        chance = random.Random(number)
        agent = agents[number % WORKSPACES]
        for turn in range(given.turns):
            padding = " word" * chance.randrange(0, 300)
            reply = await agent.run(f"s{number}", f"tool: please add 2 and 3 for item {turn}.{padding}")
            ended.append(isinstance(reply.outcome, Answered) and reply.text.strip() == ANSWER.strip())

    began, cpu = time.perf_counter(), time.process_time()
    await asyncio.gather(*(talk(number) for number in range(given.agents)))
    result = {
        "wall_s": time.perf_counter() - began,
        "cpu_s": time.process_time() - cpu,
        "turns": len(ended),
        "failed": ended.count(False),
    }
    if (states := governors.snapshot_states()) and given.governed:
        result |= {"waited_s": states[0].waited_s, "admitted": states[0].admitted}
    for agent in agents:
        await agent.__aexit__(None, None, None)
    return result


def make(given: argparse.Namespace, number: int, governors: RateLimiterRegistry) -> Agent:
    name, key = "openai/fake-model", "bench"
    config = Config(workspace=f"w{number}", tools=ToolSettings(memory="off"), limits=LIMITS)
    if given.governed:
        agent = Agent(name, base_url=given.url, api_key=key, tools=[add], home=given.home, config=config)
    else:
        provider = registry.build_provider(name, ProviderSettings(base_url=given.url), key, LIMITS)
        alone = ResilientProvider([provider], clock=SystemClock(), ids=RandomIdGenerator(), limits=LIMITS)
        agent = Agent(alone, tools=[add], home=given.home, config=config)
    agent.join_gateway(GatewayServices(rate_limiters=governors))  # as `mainstay serve` does
    return agent


# --- the cases ------------------------------------------------------------------------------------


def measure(case: Case, agents: int, turns: int, scale: float) -> list[Row]:
    options = [*case.options, *(() if "--requests" in case.options else ("--requests", "70"))]
    if scale != 1:
        place = options.index("--requests") + 1
        options[place] = str(float(options[place]) * scale)
    with Model(*options) as model, tempfile.TemporaryDirectory() as home:
        counts = ["--agents", str(agents), "--turns", str(turns), *(["--governed"] if case.governed else [])]
        out = python(str(HERE / "governor.py"), "--work", "--url", f"{model.root}/v1", "--home", home, *counts)
        stats = model.stats()
    result: dict[str, float] = json.loads(out.splitlines()[-1])
    raw = {name: [float(value)] for name, value in (result | stats).items()}
    times = result["wall_s"] / stats["ideal_s"] if stats["ideal_s"] else 1.0
    governed = case.governed
    return [
        Row(case.name, f"{case.what}: turns failed", f"of {result['turns']:.0f}", result["failed"],
            target=Target(0, of="ours") if governed else None, raw=raw),
        Row(case.name, f"{case.what}: capacity used", "%", 100 * stats["used"],
            target=Target(100 * case.used, of="ours", at_least=True) if case.used else None),
        Row(case.name, f"{case.what}: time to finish", "s", result["wall_s"], stats["ideal_s"], times,
            target=Target(case.times) if case.times else None),
        Row(case.name, f"{case.what}: 429s", f"for {stats['taken']:.0f} calls", stats["refused"]),
    ]  # fmt: skip


def drive(given: argparse.Namespace) -> int:
    chosen = [case for case in CASES if not given.only or case.name in given.only.split(",")]
    agents, turns, scale = (32, 1, 0.2) if given.quick else (given.agents, given.turns, 1.0)
    rows: list[Row] = []
    for case in chosen:
        try:
            rows += measure(case, agents, turns, scale)
        except Failed as error:
            rows.append(Row(case.name, case.what, "", error=str(error)))
        print(f"{case.name}: done", file=sys.stderr, flush=True)
    print(table(rows))
    if not given.quick:
        names = {case.name for case in chosen}
        kept = json.loads(RESULT.read_text())["rows"] if RESULT.exists() and given.only else []
        order = {case.name: place for place, case in enumerate(CASES)}
        data = [row for row in kept if row["case"] not in names] + [row.data() for row in rows]
        data.sort(key=lambda row: order.get(row["case"], 99))
        RESULT.write_text(json.dumps({"machine": machine(), "rows": data}, indent=1, ensure_ascii=False) + "\n")
    return 1 if any(row.met is False for row in rows) else 0


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--only", help="some cases, by name")
    options.add_argument("--quick", action="store_true", help="does it run at all?")
    options.add_argument("--agents", type=int, default=512)
    options.add_argument("--turns", type=int, default=2, help="of each")
    options.add_argument("--work", action="store_true", help=argparse.SUPPRESS)
    options.add_argument("--governed", action="store_true", help=argparse.SUPPRESS)
    options.add_argument("--url", help=argparse.SUPPRESS)
    options.add_argument("--home", type=Path, help=argparse.SUPPRESS)
    given = options.parse_args()
    if given.work:
        print(json.dumps(uvloop.run(work(given))), flush=True)
        return 0
    os.environ.pop("MAINSTAY_HOME", None)
    return drive(given)


if __name__ == "__main__":
    sys.exit(main())
