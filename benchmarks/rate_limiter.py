"""Many agents on one account with rate limits: capacity used, time to finish, and failed turns.

The agents are in four workspaces on SQLite that share a rate limiter; the provider is a separate process behind real
sockets (`rate_limited_model_server.py`). Some cases run without the rate limiter, for comparison. Results go to
benchmarks/results/rate_limiter.json.
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
from mainstay_subject import add
from model_server import ANSWER
from processes import HERE, ChildProcessFailed, run_python
from report import Row, Target, describe_machine, format_table

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
RESULT_FILE = HERE / "results" / "rate_limiter.json"


@dataclass(frozen=True)
class Case:
    name: str
    figure: str
    server_options: tuple[str, ...]
    min_capacity: float | None = 0.7  # share of the capacity that must be used
    max_time_ratio: float | None = None  # of the ideal time
    rate_limited: bool = True
    min_throughput: float | None = None  # share of the turns per second of the case `random-0`


FEW_TOKENS = ("--requests", "140", "--tokens", "32000")  # the token limit is reached before the request limit
UNLIMITED = ("--requests", "100000", "--says", "nothing", "--latency-ms", "100", "--refused-share")
SHARED = ("--says", "nothing", "--elsewhere", "35")
RANDOM_AGENTS, RANDOM_TURNS = 16, 50
BURSTS = ("--burst-s", "2", "--every-s", "8")
CASES = (
    Case("truth", "headers that are true", (), 0.9, 1.2),
    Case("truth-tokens", "headers that are true, few tokens", FEW_TOKENS, 0.9, 1.2),
    Case("nothing", "no headers", ("--says", "nothing"), 0.9),
    Case("too-much", "headers that say four times too much", ("--says", "too-much")),
    Case("too-little", "headers that say a quarter", ("--says", "too-little")),
    Case("always-full", "headers that never say less than all", ("--says", "always-full")),
    Case("always-empty", "headers that never say more than nothing", ("--says", "always-empty")),
    Case("bursts", "true headers, all refused for 2 s of every 8", BURSTS),
    Case("bursts-nothing", "no headers, all refused for 2 s of every 8", (*BURSTS, "--says", "nothing")),
    Case("shared", "no headers, and another client that sends half of the limit", SHARED, 0.9),
    *(
        Case(
            f"random-{percent}",
            f"no limit, {percent} % refused at random",
            (*UNLIMITED, str(percent / 100)),
            None,
            min_throughput=least,
        )
        for percent, least in ((0, None), (1, 0.85), (3, 0.7), (10, 0.5))
    ),
    Case("alone", "without the rate limiter", (), None, rate_limited=False),
    Case("alone-tokens", "without the rate limiter, few tokens", FEW_TOKENS, None, rate_limited=False),
    Case("alone-bursts", "without the rate limiter, bursts", BURSTS, None, rate_limited=False),
)


class ModelServerProcess:
    """`rate_limited_model_server.py` in a child process."""

    def __init__(self, *options: str) -> None:
        command = [sys.executable, str(HERE / "rate_limited_model_server.py"), *options]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def __enter__(self) -> ModelServerProcess:
        assert self._process.stdout is not None
        self.root_url = f"http://127.0.0.1:{int(self._process.stdout.readline())}"
        return self

    def __exit__(self, *error: object) -> None:
        self._process.terminate()
        self._process.wait(10)

    def read_stats(self) -> dict[str, float]:
        with urllib.request.urlopen(self.root_url + "/stats") as response:
            stats: dict[str, float] = json.load(response)
            return stats


# --- in a child process: the agents ----------------------------------------------------------------


async def run_agents(arguments: argparse.Namespace) -> dict[str, float]:
    limiters = RateLimiterRegistry(SystemClock())
    agents = [await build_agent(arguments, number, limiters).__aenter__() for number in range(WORKSPACES)]
    answered: list[bool] = []
    busy: list[float] = []  # turns per second until the first session has ended

    async def run_session(number: int) -> None:
        rng = random.Random(number)
        agent = agents[number % WORKSPACES]
        for turn in range(arguments.turns):
            padding = " word" * rng.randrange(0, 300)
            reply = await agent.run(f"s{number}", f"tool: please add 2 and 3 for item {turn}.{padding}")
            answered.append(isinstance(reply.outcome, Answered) and reply.text.strip() == ANSWER.strip())
        busy.append(len(answered) / (time.perf_counter() - started))

    started, cpu_started = time.perf_counter(), time.process_time()
    await asyncio.gather(*(run_session(number) for number in range(arguments.agents)))
    result = {
        "wall_s": time.perf_counter() - started,
        "cpu_s": time.process_time() - cpu_started,
        "turns": len(answered),
        "turns_per_s": busy[0],
        "failed": answered.count(False),
    }
    if (states := limiters.snapshot_states()) and arguments.rate_limited:
        result |= {"waited_s": states[0].waited_s, "admitted": states[0].admitted}
    for agent in agents:
        await agent.__aexit__(None, None, None)
    return result


def build_agent(arguments: argparse.Namespace, number: int, limiters: RateLimiterRegistry) -> Agent:
    name, key = "openai/fake-model", "bench"
    config = Config(workspace=f"w{number}", tools=ToolSettings(memory="off"), limits=LIMITS)
    if arguments.rate_limited:
        agent = Agent(name, base_url=arguments.url, api_key=key, tools=[add], home=arguments.home, config=config)
    else:
        provider = registry.build_provider(name, ProviderSettings(base_url=arguments.url), key, LIMITS)
        unlimited = ResilientProvider([provider], clock=SystemClock(), ids=RandomIdGenerator(), limits=LIMITS)
        agent = Agent(unlimited, tools=[add], home=arguments.home, config=config)
    agent.join_gateway(GatewayServices(rate_limiters=limiters))  # as `mainstay serve` does
    return agent


# --- cases ----------------------------------------------------------------------------------------


def measure_case(case: Case, agents: int, turns: int, scale: float, base: float | None) -> list[Row]:
    if is_random := case.name.startswith("random"):
        agents, turns = RANDOM_AGENTS, RANDOM_TURNS
    options = [*case.server_options, *(() if "--requests" in case.server_options else ("--requests", "70"))]
    if scale != 1:
        index = options.index("--requests") + 1
        options[index] = str(float(options[index]) * scale)
    with ModelServerProcess(*options) as server, tempfile.TemporaryDirectory() as home:
        counts = ["--agents", str(agents), "--turns", str(turns), *(["--rate-limited"] if case.rate_limited else [])]
        output = run_python(
            str(HERE / "rate_limiter.py"), "--work", "--url", f"{server.root_url}/v1", "--home", home, *counts
        )
        stats = server.read_stats()
    result: dict[str, float] = json.loads(output.splitlines()[-1])
    raw = {name: [float(value)] for name, value in (result | stats).items()}
    time_ratio = result["wall_s"] / stats["ideal_s"] if stats["ideal_s"] else 1.0
    if is_random:
        rate = result["turns_per_s"]
        target = Target(case.min_throughput, at_least=True) if case.min_throughput and base else None
        return [
            Row(case.name, f"{case.figure}: turns failed", f"of {result['turns']:.0f}", result["failed"],
                target=Target(0, of="ours"), raw=raw),
            Row(case.name, f"{case.figure}: throughput", "turns/s", rate, base, rate / base if base else None,
                target=target),
            Row(case.name, f"{case.figure}: 429s", f"for {stats['taken']:.0f} calls", stats["refused"]),
        ]  # fmt: skip
    return [
        Row(case.name, f"{case.figure}: turns failed", f"of {result['turns']:.0f}", result["failed"],
            target=Target(0, of="ours") if case.rate_limited else None, raw=raw),
        Row(case.name, f"{case.figure}: capacity used", "%", 100 * stats["used"],
            target=Target(100 * case.min_capacity, of="ours", at_least=True) if case.min_capacity else None),
        Row(case.name, f"{case.figure}: time to finish", "s", result["wall_s"], stats["ideal_s"], time_ratio,
            target=Target(case.max_time_ratio) if case.max_time_ratio else None),
        Row(case.name, f"{case.figure}: 429s", f"for {stats['taken']:.0f} calls", stats["refused"]),
    ]  # fmt: skip


def measure_and_save(arguments: argparse.Namespace) -> int:
    cases = [case for case in CASES if not arguments.only or case.name in arguments.only.split(",")]
    agents, turns, scale = (32, 1, 0.2) if arguments.quick else (arguments.agents, arguments.turns, 1.0)
    rows: list[Row] = []
    for case in cases:
        try:
            base = next((row.ours for row in rows if row.case == "random-0" and row.unit == "turns/s"), None)
            rows += measure_case(case, agents, turns, scale, base)
        except ChildProcessFailed as error:
            rows.append(Row(case.name, case.figure, "", error=str(error)))
        print(f"{case.name}: done", file=sys.stderr, flush=True)
    print(format_table(rows))
    if not arguments.quick:
        names = {case.name for case in cases}
        old = json.loads(RESULT_FILE.read_text())["rows"] if RESULT_FILE.exists() and arguments.only else []
        order = {case.name: index for index, case in enumerate(CASES)}
        data = [row for row in old if row["case"] not in names] + [row.to_dict() for row in rows]
        data.sort(key=lambda row: order.get(row["case"], 99))
        RESULT_FILE.write_text(
            json.dumps({"machine": describe_machine(), "rows": data}, indent=1, ensure_ascii=False) + "\n"
        )
    return 1 if any(row.meets_target is False for row in rows) else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", help="cases, separated by commas")
    parser.add_argument("--quick", action="store_true", help="small sizes: check that everything runs")
    parser.add_argument("--agents", type=int, default=512)
    parser.add_argument("--turns", type=int, default=2, help="turns of each agent")
    parser.add_argument("--work", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--rate-limited", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--url", help=argparse.SUPPRESS)
    parser.add_argument("--home", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.work:
        print(json.dumps(uvloop.run(run_agents(arguments))), flush=True)
        return 0
    os.environ.pop("MAINSTAY_HOME", None)
    return measure_and_save(arguments)


if __name__ == "__main__":
    sys.exit(main())
