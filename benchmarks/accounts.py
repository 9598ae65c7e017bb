"""What accounts cost: the same tool turns with budgets, audit, errors, traces and metrics, and without any of them.

Tool turns as in the tool case of run.py (one model call that calls a tool, one that answers), interleaved in one
process; CPU of the whole process, all threads, until everything that follows from the turns is written and sent. The
collector is another process.
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
from mainstay.config.schema_observability import (
    AuditSettings,
    BudgetEntry,
    BudgetSettings,
    PeriodBudgets,
    TelemetrySettings,
)
from mainstay.core.ports import Context, Options
from mainstay.testing import Call, ScriptedProvider

TURNS = 100  # few at a time and often: what else the machine does falls on both
PAIRS = 21
SAMPLE = 0.1
ANSWER = "The sum of the two numbers is three, as you would expect of them. " * 4
MONEY = BudgetEntry(money=1e6)
BUDGETS = BudgetSettings(  # every scope has one, every period, and every kind
    turn=BudgetEntry(money=1e6, tool_calls=10**9),
    session=BudgetEntry(money=1e6, tokens=10**12, tool_calls=10**9),
    person=PeriodBudgets(day=MONEY, month=MONEY),
    workspace=PeriodBudgets(hour=BudgetEntry(tokens=10**12), day=MONEY, month=MONEY),
    home=PeriodBudgets(month=MONEY),
)


@tool
def add(a: int, b: int) -> int:
    """Add two integers."""
    return a + b


def answer(context: Context, options: Options) -> object:
    return [Call("add", {"a": 1, "b": 2})] if context.messages[-1].role == "user" else ANSWER


class Collector(BaseHTTPRequestHandler):
    """Takes whatever it is sent."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        self.send_response(200)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        pass


def collect(told: Connection) -> None:
    server = HTTPServer(("127.0.0.1", 0), Collector)
    told.send(server.server_port)
    server.serve_forever()


async def turns(agent: Agent, name: str) -> tuple[float, float]:
    """Milliseconds of CPU a turn: until they are answered, and with all that follows from them."""
    started = time.process_time()
    for number in range(TURNS):
        await agent.run(f"{name}-{number % 25}", "What is one and two? Add them, please.")
    answered = time.process_time()
    opened = await agent.runtime()
    await opened.memory._indexer.wait_until_indexed(600)
    await opened.observability.runner.wait_caught_up(600)  # type: ignore[attr-defined]
    return (answered - started) * 1000 / TURNS, (time.process_time() - started) * 1000 / TURNS


async def compare(folder: Path, on: Config, off: Config) -> dict[str, object]:
    async with (
        Agent(ScriptedProvider(answer), tools=[add], home=folder / "on", config=on) as all_on,
        Agent(ScriptedProvider(answer), tools=[add], home=folder / "off", config=off) as bare,
    ):
        opened = await bare.runtime()
        await opened.observability.runner.close()  # type: ignore[attr-defined]  # nothing is made of its journals
        await turns(all_on, "warm")
        await turns(bare, "warm")
        pairs = []
        for number in range(PAIRS):
            one = await turns(all_on, f"a{number}")
            pairs.append((one, await turns(bare, f"b{number}")))
    added = sorted(one[1] - other[1] for one, other in pairs)
    return {
        "with_ms": round(statistics.median(one for (_, one), _ in pairs), 3),
        "without_ms": round(statistics.median(other for _, (_, other) in pairs), 3),
        "added_until_answered_ms": round(statistics.median(one[0] - other[0] for one, other in pairs), 3),
        "added_ms": round(statistics.median(added), 3),
        "added_quartiles_ms": [round(added[len(added) // 4], 3), round(added[3 * len(added) // 4], 3)],
    }


def variants(endpoint: str) -> dict[str, Config]:
    """Against an agent with none of it: each by itself, and all together."""
    none = Config(audit=AuditSettings(enabled=False), telemetry=TelemetrySettings(metrics=False))
    traced = TelemetrySettings(endpoint=endpoint, sample=SAMPLE, metrics=False)
    return {
        "everything": Config(budgets=BUDGETS, telemetry=TelemetrySettings(endpoint=endpoint, sample=SAMPLE)),
        "defaults": Config(),
        "audit": msgspec.structs.replace(none, audit=AuditSettings()),
        "budgets": msgspec.structs.replace(none, budgets=BUDGETS),
        "traces": msgspec.structs.replace(none, telemetry=traced),
        "nothing": none,
    }


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--out", type=Path, help="where the results go")
    options.add_argument("--only", help="some of: everything, defaults, audit, budgets, traces, nothing")
    given = options.parse_args()
    ours, theirs = multiprocessing.Pipe()
    collector = multiprocessing.Process(target=collect, args=(theirs,), daemon=True)
    collector.start()
    configs = variants(f"http://127.0.0.1:{ours.recv()}")
    results: dict[str, object] = {"target_ms": 0.4, "sample": SAMPLE, "turns": TURNS, "pairs": PAIRS}
    for name, config in configs.items():
        if given.only is None or name in given.only.split(","):
            with tempfile.TemporaryDirectory() as folder, asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                results[name] = runner.run(compare(Path(folder), config, configs["nothing"]))
                print(name, json.dumps(results[name]), flush=True)
    collector.terminate()
    if given.out:
        given.out.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
