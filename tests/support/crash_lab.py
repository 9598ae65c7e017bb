"""Runs the real runtime in forked processes that are killed at a chosen instant.

Started once as a clean process without threads; each line on standard input is an experiment (JSON), each
line on standard output its result. A child runs one phase of a small life: open the home, send a message
that makes the model call four tools of different effects, reply, again. What it did is seen from outside, in
its journal, in a ledger that the tools write, and in a list of what was acknowledged.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import traceback
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from mainstay.agent.system_clock import SystemClock
from mainstay.core.input_envelope import InputEnvelope, to_parts
from mainstay.core.limits import Limits
from mainstay.core.messages import FinishReason, Usage
from mainstay.core.ports import (
    Context,
    ModelInfo,
    Options,
    Piece,
    StreamFinished,
    TextPiece,
    ToolCallPiece,
    ToolContext,
)
from mainstay.core.tools import FunctionTool
from mainstay.lane.event_hub import EventHub
from mainstay.lane.registry import LaneRegistry
from mainstay.lane.services import LaneServices
from mainstay.store.sqlite.store import SqliteStore
from mainstay.turn.toolbox import Toolbox
from support.faulty_vfs import FaultyVFS, Plan

SESSION = "s"
CALLS = ("charge", "put", "lookup", "book", "charge")


class Model:
    """Decides by what it sees, so that it behaves the same in every process."""

    def model(self) -> ModelInfo:
        return ModelInfo(name="lab")

    async def close(self) -> None: ...

    async def stream(self, context: Context, options: Options) -> AsyncIterator[Piece]:
        await asyncio.sleep(0)
        last = context.messages[-1]
        if last.role == "user" and "tools" in last.text:
            for index, name in enumerate(CALLS):
                yield ToolCallPiece(index, name, json.dumps({"n": index}))
            yield StreamFinished(FinishReason.TOOL_CALLS, Usage(10, 5))
        else:
            yield TextPiece("the answer to ")
            await asyncio.sleep(0)
            yield TextPiece(last.text if last.role == "user" else "tools")
            yield StreamFinished(FinishReason.END, Usage(10, 5))


def ledger_tools(ledger: Path) -> list[FunctionTool]:
    def write(tool: str, context: ToolContext) -> None:
        line = json.dumps({"tool": tool, "key": context.key, "pid": os.getpid()}) + "\n"
        fd = os.open(ledger, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.write(fd, line.encode())
        os.fsync(fd)
        os.close(fd)

    async def charge(n: int, context: ToolContext) -> str:
        await asyncio.sleep(0)
        write("charge", context)
        await asyncio.sleep(0)
        return f"charged {n}"

    async def put(n: int, context: ToolContext) -> str:
        write("put", context)
        return f"put {n}"

    def lookup(n: int) -> str:
        return f"found {n}"

    async def book(n: int, context: ToolContext) -> str:
        write("book", context)
        return f"booked {n}"

    async def was_booked(n: int, context: ToolContext) -> str | None:
        lines = ledger.read_text().splitlines() if ledger.exists() else []
        return f"booked {n}" if any(json.loads(line)["key"] == context.key for line in lines) else None

    return [
        FunctionTool(charge, untrusted=False, sink=False),
        FunctionTool(put, effect="idempotent", untrusted=False, sink=False),
        FunctionTool(lookup, effect="pure", untrusted=False, sink=False),
        FunctionTool(book, reconcile=was_booked, untrusted=False, sink=False),
    ]


class HastyClock(SystemClock):
    """Waits for a failing store take no time."""

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(min(seconds, 0.002))


def services(home: Path, plan: Plan, limits: Limits) -> LaneServices:
    plan.vfs = FaultyVFS("lab", plan)
    model = Model()
    return LaneServices(
        store=SqliteStore(str(home / "workspace.db"), limits=limits, vfs="lab"),
        provider_for=lambda spec: model,
        tools=Toolbox(ledger_tools(home / "ledger"), limits),
        limits=limits,
        clock=HastyClock(),
        hub=EventHub(64),
    )


def say(path: Path, line: str) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.write(fd, line.encode() + b"\n")
    os.fsync(fd)
    os.close(fd)


async def run_process(home: Path, plan: Plan, prompts: list[str]) -> None:
    """Open, finish what is unfinished, send these prompts (each under its own id), close."""
    shared = services(home, plan, Limits(ride_along_s=0.001, resumes_max=50))
    await shared.store.open()
    lanes = LaneRegistry(shared)
    await lanes.resume_unfinished()
    for prompt in prompts:
        ticket = await lanes.get(SESSION).accept(InputEnvelope(parts=to_parts(prompt), thread=SESSION, id=prompt))
        say(home / "acked", prompt)
        reply = await ticket.reply
        say(home / "replied", json.dumps([prompt, reply.text, type(reply.outcome).__name__]))
    await lanes.wait_until_settled()
    await lanes.close()
    await shared.store.close()


def kill_at_handle(at: int) -> list[int]:
    """Count every callback the loop runs, so every await that comes back; end the process at the nth."""
    seen = [0]
    run = asyncio.events.Handle._run

    def counted(handle: Any) -> None:
        seen[0] += 1
        if seen[0] == at:
            os.kill(os.getpid(), signal.SIGKILL)
        run(handle)

    asyncio.events.Handle._run = counted  # type: ignore[method-assign]
    return seen


def child(order: dict[str, Any]) -> dict[str, Any]:
    home = Path(order["home"])
    seen = kill_at_handle(order["at"] if order["action"] == "await" else 0)
    disk = order["action"] if order["action"] != "await" else ""
    plan = Plan(disk, order["at"], seed=order.get("seed", 0))
    asyncio.run(run_process(home, plan, order["prompts"]))
    return {"ops": plan.count, "awaits": seen[0]}


def experiment(order: dict[str, Any]) -> dict[str, Any]:
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reading)
        signal.alarm(30)
        try:
            result = child(order)
        except BaseException:  # a child must report every result to its parent, and then exit
            result = {"error": traceback.format_exc()}
        os.write(writing, json.dumps(result).encode())
        os._exit(0)
    os.close(writing)
    told = b""
    while chunk := os.read(reading, 65536):
        told += chunk
    os.close(reading)
    _, status = os.waitpid(pid, 0)
    if os.WIFSIGNALED(status):
        return {"killed": os.WTERMSIG(status)}
    return json.loads(told)  # type: ignore[no-any-return]


if __name__ == "__main__":
    for line in sys.stdin:
        print(json.dumps(experiment(json.loads(line))), flush=True)
