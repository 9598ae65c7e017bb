"""Cost of policy, guards and labels: the same tool turns with and without them, alternating in one process.

Tool turns as in the case `tool` of run.py (one model call that calls a tool, one that answers), CPU time only. Also the
parts alone: a policy decision, a scan, an answer through the redactor.
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
from mainstay.guards.guardrails import GuardrailOptions, Guardrails
from mainstay.providers.scripted import Call, ScriptedProvider
from mainstay.trust.policy import Policy, PolicyContext, PolicyRules, SandboxGuarantees
from mainstay.turn.dependencies import TrustServices
from mainstay.turn.toolbox import Toolbox

TURNS = 200
PAIRS = 9
ANSWER = "The sum of the two numbers is three, as you would expect of them. " * 4


@tool(effect="pure", untrusted=True, sink=False)
async def look_up(topic: str) -> str:
    """Look something up."""
    return f"What is known about {topic}: " + "it is a plain text without anything remarkable in it. " * 20


def script_answer(context: Context, options: Options) -> object:
    return [Call("look_up", {"topic": "sums"})] if context.messages[-1].role == "user" else ANSWER


async def run_turns(agent: Agent, prefix: str) -> float:
    """Milliseconds of CPU per turn."""
    started = time.process_time()
    for number in range(TURNS):
        await agent.run(f"{prefix}-{number}", "What is one and two? Look it up, please.")
    return (time.process_time() - started) * 1000 / TURNS


def remove_trust_services(agent: Agent) -> None:
    """Remove policy, guards and labels from an open agent."""
    open_agent = agent._open_agent
    assert open_agent is not None
    services = open_agent.services
    toolbox = Toolbox(services.tools.agent_tools, services.limits, store_result=services.store.save_value)
    open_agent.lanes._services = msgspec.structs.replace(
        services, trust=TrustServices(), scan_input=None, tools=toolbox
    )


async def compare_agents(folder: Path) -> dict[str, float]:
    async with (
        Agent(ScriptedProvider(script_answer), tools=[look_up], home=folder / "with") as guarded,
        Agent(ScriptedProvider(script_answer), tools=[look_up], home=folder / "without") as baseline,
    ):
        remove_trust_services(baseline)
        await run_turns(guarded, "warm")
        await run_turns(baseline, "warm")
        pairs = [(await run_turns(guarded, f"g{n}"), await run_turns(baseline, f"b{n}")) for n in range(PAIRS)]
    added = statistics.median(with_trust - without for with_trust, without in pairs)
    return {
        "with_ms": round(statistics.median(with_trust for with_trust, _ in pairs), 3),
        "without_ms": round(statistics.median(without for _, without in pairs), 3),
        "added_ms": round(added, 3),
        "target_ms": 0.3,
    }


def measure_cpu_us(function: Callable[[], object], calls: int = 2000) -> float:
    """Microseconds of CPU per call, the best of five repetitions."""
    function()
    repetitions = []
    for _ in range(5):
        started = time.process_time()
        for _ in range(calls):
            function()
        repetitions.append((time.process_time() - started) * 1e6 / calls)
    return round(min(repetitions), 2)


def measure_parts() -> dict[str, float]:
    guards = Guardrails(GuardrailOptions(), b"k" * 32, ["sk-canary-0123456789"])
    policy = Policy(PolicyRules(), confinement=SandboxGuarantees(confined=True, network=False, protects_deletions=True))
    text = "A plain paragraph about nothing much, as most results are. " * 34
    chunks = [ANSWER[start : start + 12] for start in range(0, len(ANSWER), 12)]

    def guard_stream() -> None:
        stream = guards.open_answer_stream()
        assert stream is not None
        for chunk in chunks:
            stream.feed(chunk)
        stream.finish()

    context = PolicyContext(session="s")
    return {
        "judge_us": measure_cpu_us(lambda: policy.decide(look_up, {"topic": "x"}, None, context)),  # type: ignore[arg-type]
        "scan_2kb_us": measure_cpu_us(lambda: guards.check_input(text)),
        "result_2kb_us": measure_cpu_us(lambda: guards.check_result(text, external=False)),
        "answer_of_23_chunks_us": measure_cpu_us(guard_stream),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, help="file for the results")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        results = {"tool_turn": asyncio.run(compare_agents(Path(folder))), "pieces": measure_parts()}
    print(json.dumps(results, indent=1))
    if arguments.out:
        arguments.out.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
