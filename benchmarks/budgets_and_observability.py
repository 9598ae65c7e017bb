"""Cost of budgets, audit log, errors, traces and metrics: the same tool turns with and without them.

Tool turns as in the case `tool` of run.py (one model call that calls a tool, one that answers), alternating in one
process. CPU of the whole process, all threads, until background work has written and sent everything. The trace
collector is a separate process.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import statistics
import tempfile
import time
from http.server import BaseHTTPRequestHandler, HTTPServer
from multiprocessing.connection import Connection
from pathlib import Path

import msgspec
import uvloop

from mainstay import Agent, Config, tool
from mainstay.config.schema_judges_budgets_telemetry import (
    AuditSettings,
    BudgetEntry,
    BudgetSettings,
    PeriodBudgets,
    TelemetrySettings,
)
from mainstay.core.ports import Context, Options
from mainstay.providers.scripted import Call, ScriptedProvider

TURNS = 100  # small and alternating batches, so that other load on the machine affects both agents
PAIRS = 21
SAMPLE_RATE = 0.1
ANSWER = "The sum of the two numbers is three, as you would expect of them. " * 4
MONEY_BUDGET = BudgetEntry(money=1e6)
BUDGETS = BudgetSettings(  # every scope, every period and every kind
    turn=BudgetEntry(money=1e6, tool_calls=10**9),
    session=BudgetEntry(money=1e6, tokens=10**12, tool_calls=10**9),
    person=PeriodBudgets(day=MONEY_BUDGET, month=MONEY_BUDGET),
    workspace=PeriodBudgets(hour=BudgetEntry(tokens=10**12), day=MONEY_BUDGET, month=MONEY_BUDGET),
    home=PeriodBudgets(month=MONEY_BUDGET),
)


@tool(untrusted=False, sink=False)
def add(a: int, b: int) -> int:
    """Add two integers."""
    return a + b


def script_answer(context: Context, options: Options) -> object:
    return [Call("add", {"a": 1, "b": 2})] if context.messages[-1].role == "user" else ANSWER


class CollectorHandler(BaseHTTPRequestHandler):
    """A trace collector that accepts and discards everything."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        self.send_response(200)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        pass


def run_collector(port_pipe: Connection) -> None:
    server = HTTPServer(("127.0.0.1", 0), CollectorHandler)
    port_pipe.send(server.server_port)
    server.serve_forever()


async def run_turns(agent: Agent, prefix: str) -> tuple[float, float]:
    """Milliseconds of CPU per turn: until the answer, and including background work."""
    started = time.process_time()
    for number in range(TURNS):
        await agent.run(f"{prefix}-{number % 25}", "What is one and two? Add them, please.")
    answered = time.process_time()
    runtime = await agent.runtime()
    await runtime.memory._indexer.wait_until_indexed(600)
    await runtime.observability.runner.wait_caught_up(600)  # type: ignore[attr-defined]
    return (answered - started) * 1000 / TURNS, (time.process_time() - started) * 1000 / TURNS


async def compare_configs(folder: Path, config: Config, baseline_config: Config) -> dict[str, object]:
    async with (
        Agent(ScriptedProvider(script_answer), tools=[add], home=folder / "on", config=config) as measured,
        Agent(ScriptedProvider(script_answer), tools=[add], home=folder / "off", config=baseline_config) as baseline,
    ):
        runtime = await baseline.runtime()
        await runtime.observability.runner.close()  # type: ignore[attr-defined]  # no projections
        await run_turns(measured, "warm")
        await run_turns(baseline, "warm")
        pairs = []
        for number in range(PAIRS):
            with_features = await run_turns(measured, f"a{number}")
            pairs.append((with_features, await run_turns(baseline, f"b{number}")))
    added = sorted(with_features[1] - without[1] for with_features, without in pairs)
    added_until_answered = [with_features[0] - without[0] for with_features, without in pairs]
    return {
        "with_ms": round(statistics.median(total for (_, total), _ in pairs), 3),
        "without_ms": round(statistics.median(total for _, (_, total) in pairs), 3),
        "added_until_answered_ms": round(statistics.median(added_until_answered), 3),
        "added_ms": round(statistics.median(added), 3),
        "added_quartiles_ms": [round(added[len(added) // 4], 3), round(added[3 * len(added) // 4], 3)],
    }


def build_configs(endpoint: str) -> dict[str, Config]:
    """Configurations to compare with `nothing`: each feature alone, the defaults, and everything together."""
    nothing = Config(audit=AuditSettings(enabled=False), telemetry=TelemetrySettings(metrics=False))
    traces = TelemetrySettings(endpoint=endpoint, sample=SAMPLE_RATE, metrics=False)
    return {
        "everything": Config(budgets=BUDGETS, telemetry=TelemetrySettings(endpoint=endpoint, sample=SAMPLE_RATE)),
        "defaults": Config(),
        "audit": msgspec.structs.replace(nothing, audit=AuditSettings()),
        "budgets": msgspec.structs.replace(nothing, budgets=BUDGETS),
        "traces": msgspec.structs.replace(nothing, telemetry=traces),
        "nothing": nothing,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, help="file for the results")
    parser.add_argument(
        "--only", help="configurations, separated by commas: everything, defaults, audit, budgets, traces, nothing"
    )
    arguments = parser.parse_args()
    parent_pipe, child_pipe = multiprocessing.Pipe()
    collector = multiprocessing.Process(target=run_collector, args=(child_pipe,), daemon=True)
    collector.start()
    configs = build_configs(f"http://127.0.0.1:{parent_pipe.recv()}")
    results: dict[str, object] = {"target_ms": 0.4, "sample": SAMPLE_RATE, "turns": TURNS, "pairs": PAIRS}
    for name, config in configs.items():
        if arguments.only is None or name in arguments.only.split(","):
            with tempfile.TemporaryDirectory() as folder, asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                results[name] = runner.run(compare_configs(Path(folder), config, configs["nothing"]))
                print(name, json.dumps(results[name]), flush=True)
    collector.terminate()
    if arguments.out:
        arguments.out.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
