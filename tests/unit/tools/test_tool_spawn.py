"""`spawn`: a sub-agent gets its task unchanged, and its report is labelled and paid for."""

from __future__ import annotations

import asyncio

import pytest
from support.tool_world import call, calling

from mainstay.core.messages import Usage
from mainstay.core.ports import Tool
from mainstay.core.tool_ports import SubAgentResult, SubAgentTask
from mainstay.tools.base import ToolRefused
from mainstay.tools.spawn import create_spawn_tool


class Sent:
    """Reports what it was told to report, after it was let."""

    def __init__(self, report: SubAgentResult, *, waits: bool = False) -> None:
        self.report = report
        self.errands: list[SubAgentTask] = []
        self.begun = asyncio.Event()
        self.aborted = False
        self._waits = waits

    async def run(self, errand: SubAgentTask) -> SubAgentResult:
        self.errands.append(errand)
        self.begun.set()
        try:
            if self._waits:
                await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.aborted = True
            raise
        return self.report


def test_it_may_run_again_in_parallel_and_for_long() -> None:
    tool: Tool = create_spawn_tool(Sent(SubAgentResult(text="x")))
    assert (tool.effect, tool.sink, tool.untrusted, tool.timeout_s) == ("idempotent", False, False, 3600)
    assert tool.parallel is True  # type: ignore[attr-defined]


async def test_a_sub_agent_is_started_and_its_report_is_the_result() -> None:
    sent = Sent(SubAgentResult(text="42", usage=Usage(10, 5), cost=0.25))
    context = calling()
    assert await call(create_spawn_tool(sent), context, prompt="add up") == "42"
    assert sent.errands == [SubAgentTask(prompt="add up", session="s", call_id="c1")]
    assert (context.usage, context.cost) == (Usage(10, 5), 0.25)
    assert not context.untrusted
    assert not context.private


async def test_it_may_be_given_tools_each_once() -> None:
    sent = Sent(SubAgentResult(text="x"))
    await call(create_spawn_tool(sent), prompt="x", tools=["bash", "read", "bash"])
    await call(create_spawn_tool(sent), prompt="x", tools=[])
    assert [errand.tools for errand in sent.errands] == [("bash", "read"), ()]


async def test_taint_goes_to_the_sub_agent_and_comes_back_with_the_report() -> None:
    sent = Sent(SubAgentResult(text="x", untrusted=True, private=True))
    context = calling()
    context.tainted = context.has_private_content = True
    await call(create_spawn_tool(sent), context, prompt="x")
    assert sent.errands[0].tainted
    assert sent.errands[0].private
    assert context.untrusted
    assert context.private


async def test_a_failed_sub_agent_is_an_error_that_was_paid_for_too() -> None:
    context = calling()
    sent = Sent(SubAgentResult(text="The sub-agent failed: no model.", ok=False, cost=0.5, untrusted=True))
    with pytest.raises(ToolRefused, match="no model"):
        await call(create_spawn_tool(sent), context, prompt="x")
    assert context.cost == 0.5
    assert context.untrusted


async def test_an_abort_ends_the_child() -> None:
    sent = Sent(SubAgentResult(text="x"), waits=True)
    task = asyncio.create_task(call(create_spawn_tool(sent), prompt="x"))
    await sent.begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert sent.aborted


@pytest.mark.parametrize(
    "given",
    [{"prompt": " "}, {"prompt": "x" * 64_001}, {"prompt": "x", "tools": ["a"] * 65}],
    ids=["empty", "long", "many"],
)
async def test_an_impossible_send_is_one_sentence(given: dict[str, object]) -> None:
    sent = Sent(SubAgentResult(text="x"))
    with pytest.raises(ToolRefused, match="Nothing was started"):
        await call(create_spawn_tool(sent), **given)
    assert sent.errands == []
