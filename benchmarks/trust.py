"""What policy, guards and labels cost: the same tool turns with them and without them, interleaved in one process.

Tool turns as in the tool case of run.py (one model call that calls a tool, one that answers), CPU time only. Also the
pieces by themselves: a judgement, a scan, an answer through the redactor.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from mainstay import Agent, tool
from mainstay.core.ports import Context, Options
from mainstay.testing import Call, ScriptedProvider
from mainstay.trust.guards.guardrails import GuardrailOptions, Guardrails
from mainstay.trust.policy import Policy, PolicyContext, PolicyRules, SandboxGuarantees
from mainstay.turn.dependencies import TrustServices
from mainstay.turn.toolbox import Toolbox

TURNS = 200
PAIRS = 9
ANSWER = "The sum of the two numbers is three, as you would expect of them. " * 4


@tool(effect="pure", untrusted=True)
async def look(topic: str) -> str:
    """Look something up."""
    return f"What is known about {topic}: " + "it is a plain text without anything remarkable in it. " * 20


def answer(context: Context, options: Options) -> object:
    return [Call("look", {"topic": "sums"})] if context.messages[-1].role == "user" else ANSWER


async def turns(agent: Agent, name: str) -> float:
    """Milliseconds of CPU a turn."""
    started = time.process_time()
    for number in range(TURNS):
        await agent.run(f"{name}-{number}", "What is one and two? Look it up, please.")
    return (time.process_time() - started) * 1000 / TURNS


def without_trust(agent: Agent) -> None:
    """The same agent without any of it."""
    opened = agent._open_agent
    assert opened is not None
    services = opened.services
    bare = Toolbox(services.tools.agent_tools, services.limits, store_result=services.store.save_value)
    opened.lanes._services = msgspec.structs.replace(services, trust=TrustServices(), scan_input=None, tools=bare)


async def compare(folder: Path) -> dict[str, float]:
    async with (
        Agent(ScriptedProvider(answer), tools=[look], home=folder / "with") as guarded,
        Agent(ScriptedProvider(answer), tools=[look], home=folder / "without") as bare,
    ):
        without_trust(bare)
        await turns(guarded, "warm")
        await turns(bare, "warm")
        pairs = [(await turns(guarded, f"g{n}"), await turns(bare, f"b{n}")) for n in range(PAIRS)]
    added = statistics.median(one - other for one, other in pairs)
    return {
        "with_ms": round(statistics.median(one for one, _ in pairs), 3),
        "without_ms": round(statistics.median(other for _, other in pairs), 3),
        "added_ms": round(added, 3),
        "target_ms": 0.3,
    }


def each_us(work: Callable[[], object], times: int = 2000) -> float:
    work()
    runs = []
    for _ in range(5):
        started = time.process_time()
        for _ in range(times):
            work()
        runs.append((time.process_time() - started) * 1e6 / times)
    return round(min(runs), 2)


def pieces() -> dict[str, float]:
    guards = Guardrails(GuardrailOptions(), b"k" * 32, ["sk-canary-0123456789"])
    policy = Policy(PolicyRules(), confinement=SandboxGuarantees(confined=True, network=False, protects_deletions=True))
    plain = "A plain paragraph about nothing much, as most results are. " * 34
    chunks = [ANSWER[at : at + 12] for at in range(0, len(ANSWER), 12)]

    def stream() -> None:
        voice = guards.open_answer_stream()
        assert voice is not None
        for chunk in chunks:
            voice.feed(chunk)
        voice.finish()

    clean = PolicyContext(session="s")
    return {
        "judge_us": each_us(lambda: policy.decide(look, {"topic": "x"}, None, clean)),  # type: ignore[arg-type]
        "scan_2kb_us": each_us(lambda: guards.check_input(plain)),
        "result_2kb_us": each_us(lambda: guards.check_result(plain, external=False)),
        "answer_of_23_chunks_us": each_us(stream),
    }


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--out", type=Path, help="where the results go")
    given = options.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        results = {"tool_turn": asyncio.run(compare(Path(folder))), "pieces": pieces()}
    print(json.dumps(results, indent=1))
    if given.out:
        given.out.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
