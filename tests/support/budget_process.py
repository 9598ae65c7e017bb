"""Lanes race for one budget in forked processes that are killed meanwhile.

Started once as a clean process without threads; each line on standard input is an order (JSON), each line on standard
output what came of it. The model keeps its own bill, in a file, and charges for a call as soon as it has heard of it.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import sys
import time
import traceback
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from mainstay.agent.agent import Agent
from mainstay.config.schema import Config
from mainstay.config.schema_judges_budgets_telemetry import BudgetEntry, BudgetSettings, PeriodBudgets
from mainstay.core.budget_reservation_ids import to_nanodollars
from mainstay.core.limits import Limits
from mainstay.core.messages import FinishReason, Usage
from mainstay.core.outcome import Answered, Exhausted
from mainstay.core.ports import Context, ModelInfo, Options, Piece, StreamFinished, TextPiece, ToolCallPiece
from mainstay.metering.turn_budgets import WorkspaceBudgetManager

INFO = ModelInfo(name="meter", price_prompt=0.2, price_completion=2.0, price_cached=0.02)
OUTPUT_MAX = 200
DEADLINE_S = 120.0


class Charging:
    """Charges for what it was shown and for what it says, also if no client reads it."""

    def __init__(self, bill: Path, chance: random.Random) -> None:
        self._bill = os.open(bill, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self._chance = chance

    def model(self) -> ModelInfo:
        return INFO

    async def close(self) -> None:
        os.close(self._bill)

    async def stream(self, context: Context, options: Options) -> AsyncIterator[Piece]:
        assert options.output_tokens_max is not None
        shown = context.system + "".join(message.text for message in context.messages)
        prompt = len(shown.encode()) // 5 + 3
        usage = Usage(prompt, self._chance.randrange(1, options.output_tokens_max + 1), self._chance.randrange(prompt))
        os.write(self._bill, f"{to_nanodollars(INFO.cost(usage))}\n".encode())
        await asyncio.sleep(self._chance.random() * 0.01)
        last = context.messages[-1]
        if last.role == "user" and self._chance.random() < 0.5:
            yield ToolCallPiece(0, "look", "{}")
            await asyncio.sleep(self._chance.random() * 0.01)
            yield StreamFinished(FinishReason.TOOL_CALLS, usage)
            return
        yield TextPiece("so far ")
        await asyncio.sleep(self._chance.random() * 0.02)
        yield TextPiece("and so good")
        yield StreamFinished(FinishReason.END, usage)


def look() -> str:
    """Look around."""
    return "nothing to see"


def config(dollars: float, period: str = "month") -> Config:
    return Config(
        limits=Limits(output_tokens_max=OUTPUT_MAX, steps_max=3),
        budgets=BudgetSettings(home=PeriodBudgets(**{period: BudgetEntry(money=dollars)})),
    )


async def run_process(home: Path, dollars: float, lanes: int, seed: int) -> dict[str, Any]:
    """Every lane begins one conversation after the other until the budget is used up."""
    chance = random.Random(seed)
    model = Charging(home / "bill", chance)
    ended: dict[str, int] = {}

    async def lane(number: int) -> None:
        for turn in range(10_000):
            reply = await agent.run(f"lane{number}-{seed}-{turn}", "go on", sender=chance.choice(("", "ann", "bob")))
            kind = type(reply.outcome).__name__
            ended[kind] = ended.get(kind, 0) + 1
            if isinstance(reply.outcome, Exhausted):
                return
            assert isinstance(reply.outcome, Answered), reply

    async with Agent(model, home=home / "home", config=config(dollars), tools=[look]) as agent:
        async with asyncio.TaskGroup() as group:
            for number in range(lanes):
                group.create_task(lane(number))
        await agent.settled()
        runtime = await agent.runtime()
        projection_runner = runtime.observability.runner
        assert projection_runner is not None
        assert await projection_runner.wait_caught_up(DEADLINE_S)
        manager = runtime.services.budget_manager
        assert isinstance(manager, WorkspaceBudgetManager)
        home_counter = manager.ledger.get_counter("home", "")
        return {"ended": ended, "spent": home_counter.sum_since(0).money, "held": home_counter.reserved.money}


def child(order: dict[str, Any]) -> None:
    code = 1
    try:
        result = asyncio.run(run_process(Path(order["home"]), order["dollars"], order["lanes"], order["seed"]))
        (Path(order["home"]) / "result.json").write_text(json.dumps(result))
        code = 0
    except BaseException:
        (Path(order["home"]) / "trouble").write_text(traceback.format_exc())
    finally:
        os._exit(code)


def lines_of(bill: Path) -> int:
    return bill.read_bytes().count(b"\n") if bill.exists() else 0


def obey(order: dict[str, Any]) -> dict[str, Any]:
    """Killed after so many more calls, and a moment; or left to end by itself."""
    home = Path(order["home"])
    before = lines_of(home / "bill")
    pid = os.fork()
    if pid == 0:
        child(order)
    deadline = time.monotonic() + DEADLINE_S
    killed = False
    while (done := os.waitpid(pid, os.WNOHANG))[0] == 0:
        calls = order.get("kill_after")
        late = time.monotonic() > deadline
        if not killed and (late or (calls is not None and lines_of(home / "bill") >= before + calls)):
            time.sleep(order.get("moment_s", 0.0))
            os.kill(pid, signal.SIGKILL)
            killed = True
        time.sleep(0.002)
    if (home / "trouble").exists():
        return {"error": (home / "trouble").read_text()}
    return {"killed": killed and not late, "status": done[1]}


def main() -> None:
    for line in sys.stdin:
        print(json.dumps(obey(json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
