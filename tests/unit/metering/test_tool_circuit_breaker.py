"""The circuit breaker of a tool: which failures count, for whom, and how it closes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import pytest

from mainstay import Agent, tool
from mainstay.core.errors import InputRefused
from mainstay.core.events import Guarded
from mainstay.core.journal_wording import CURRENT
from mainstay.core.limits import Limits
from mainstay.core.messages import ToolCall, ToolResult
from mainstay.core.ports import ToolContext
from mainstay.metering.circuit_breaker import PROBE_S, CircuitBreakerRegistry
from mainstay.plugins.plugin import PluginExited, PluginReportedError
from mainstay.testing import Call, ScriptedProvider, VirtualClock, virtual_run
from mainstay.turn.control import TurnControl
from mainstay.turn.toolbox import PreparedCall, Toolbox


class ToolboxRig:
    """One tool that does what it is told to, in the toolbox of a workspace."""

    def __init__(self) -> None:
        self.does: Callable[[], Any] = lambda: "fine"
        self.ran = 0
        self.news: list[Guarded] = []
        workshop = self

        @tool(effect="pure", timeout_s=5, untrusted=False, sink=False)
        async def drill() -> str:
            """Drills."""
            workshop.ran += 1
            done = workshop.does()
            return str(await done if asyncio.iscoroutine(done) else done)

        @tool(effect="pure", untrusted=False, sink=False)
        async def hammer() -> str:
            """Hammers."""
            return "hammered"

        self.toolbox = Toolbox(
            [drill, hammer], Limits(), breaker_for=CircuitBreakerRegistry(VirtualClock(), Limits()).get_breaker
        )

    async def call(self, name: str = "drill", session: str = "s", toolbox: Toolbox | None = None) -> ToolResult:
        box = toolbox or self.toolbox
        asked = ToolCall("c1", name, "{}")
        prepared = box.prepare(asked)
        if isinstance(prepared, ToolResult):
            return prepared
        assert isinstance(prepared, PreparedCall)
        context = ToolContext(session, 1, 1, asked.id, lambda event: None)
        result = await box.execute(asked, prepared, context, TurnControl(), is_resumed=False, wording=CURRENT)
        self.news += [one for one in context.guard_events if isinstance(one, Guarded)]
        return result

    async def fail(self, error: BaseException, times: int) -> None:
        self.does = lambda: _raise(error)
        for _ in range(times):
            assert (await self.call()).is_error


def _raise(error: BaseException) -> None:
    raise error


def test_after_five_failures_in_a_row_the_circuit_opens_and_says_until_when(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        shop = ToolboxRig()
        await shop.fail(RuntimeError("broken"), 5)
        assert shop.ran == 5
        shop.does = lambda: "mended"
        result = await shop.call()
        assert result.is_error
        assert "drill failed several times in a row" in result.content
        assert "Try again in 30 s" in result.content
        assert shop.ran == 5, "it was not run"
        assert [(one.stage, one.action, one.kinds) for one in shop.news] == [("tool", "held", ("breaker",))]
        assert (await shop.call("hammer")).content == "hammered", "others go on"

    with caplog.at_level(logging.WARNING):
        virtual_run(main())
    assert "circuit breaker opened for tool drill" in caplog.text


def test_the_circuit_is_shared_by_all_sessions_of_a_workspace_and_all_toolboxes() -> None:
    async def main() -> None:
        shop = ToolboxRig()
        await shop.fail(RuntimeError("broken"), 5)
        shop.does = lambda: "mended"
        for toolbox in (shop.toolbox, shop.toolbox.restrict_to(("drill",))):
            assert "left alone" in (await shop.call(session="another", toolbox=toolbox)).content
        assert (await ToolboxRig().call()).content == "fine", "another workspace has its own"

    virtual_run(main())


def test_when_the_time_is_over_one_call_probes_and_the_others_wait_for_it() -> None:
    async def main() -> None:
        shop = ToolboxRig()
        await shop.fail(RuntimeError("broken"), 5)
        await asyncio.sleep(30)
        shop.does = lambda: asyncio.sleep(1, "mended")
        trying = asyncio.ensure_future(shop.call())
        await asyncio.sleep(0.5)
        assert "testing it now" in (await shop.call()).content
        assert (await trying).content == "mended"
        assert (await shop.call()).content == "mended"

    virtual_run(main())


def test_a_tool_that_fails_its_probe_is_blocked_again_at_once() -> None:
    async def main() -> None:
        shop = ToolboxRig()
        await shop.fail(RuntimeError("broken"), 5)
        await asyncio.sleep(30)
        await shop.fail(RuntimeError("still broken"), 1)
        assert "Try again in 30 s" in (await shop.call()).content
        assert shop.ran == 6

    virtual_run(main())


@pytest.mark.parametrize(
    "error",
    [RuntimeError("bug"), ConnectionError("refused"), OSError("disk"), TimeoutError("slow"), PluginExited("it ended")],
    ids=lambda error: type(error).__name__,
)
def test_crashes_of_the_tool_count(error: BaseException) -> None:
    async def main() -> None:
        shop = ToolboxRig()
        await shop.fail(error, 5)
        assert "left alone" in (await shop.call()).content

    virtual_run(main())


@pytest.mark.parametrize(
    "error",
    [ValueError("no such city"), KeyError("it"), InputRefused("not this"), PluginReportedError("there is none")],
    ids=lambda error: type(error).__name__,
)
def test_invalid_requests_do_not_count(error: BaseException) -> None:
    async def main() -> None:
        shop = ToolboxRig()
        await shop.fail(error, 20)
        assert shop.ran == 20

    virtual_run(main())


def test_a_timeout_of_one_call_does_not_open_the_circuit() -> None:
    async def main() -> None:
        shop = ToolboxRig()
        await shop.fail(RuntimeError("broken"), 4)
        shop.does = lambda: asyncio.sleep(60)
        for _ in range(20):
            assert "Timed out" in (await shop.call()).content
        shop.does = lambda: "fine"
        assert (await shop.call(session="another")).content == "fine"

    virtual_run(main())


def test_a_long_probe_call_does_not_block_the_tool() -> None:
    async def main() -> None:
        shop = ToolboxRig()
        await shop.fail(RuntimeError("broken"), 5)
        await asyncio.sleep(30)
        shop.toolbox._by_name["drill"].timeout_s = 600
        shop.does = lambda: asyncio.sleep(500, "done")
        trying = asyncio.ensure_future(shop.call())
        await asyncio.sleep(PROBE_S)
        others = [asyncio.ensure_future(shop.call(session=f"s{n}")) for n in range(3)]
        assert [(await one).content for one in (trying, *others)] == ["done"] * 4

    virtual_run(main())


def test_an_aborted_call_does_not_count_for_its_tool() -> None:
    async def main() -> None:
        shop = ToolboxRig()
        await shop.fail(RuntimeError("broken"), 4)
        shop.does = lambda: asyncio.sleep(60)
        running = asyncio.ensure_future(shop.call())
        await asyncio.sleep(0.1)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        shop.does = lambda: "fine"
        assert (await shop.call()).content == "fine"
        await shop.fail(RuntimeError("broken"), 4)
        shop.does = lambda: "fine"
        assert (await shop.call()).content == "fine", "an answer in between begins the count anew"

    virtual_run(main())


def test_bad_arguments_never_count() -> None:
    async def main() -> None:
        shop = ToolboxRig()
        for _ in range(20):
            assert isinstance(shop.toolbox.prepare(ToolCall("c", "drill", "[1, 2")), ToolResult)
        assert (await shop.call()).content == "fine"

    virtual_run(main())


async def test_a_turn_goes_on_without_the_tool_and_the_journal_says_so() -> None:
    @tool(effect="pure", untrusted=False, sink=False)
    def broken(n: int) -> str:
        """Fails."""
        raise RuntimeError("out of order")

    script = [*(Call("broken", {"n": n}) for n in range(6)), "I did without."]
    async with Agent(ScriptedProvider(script), tools=[broken], home=":memory:") as agent:
        reply = await agent.run("s", "try")
        assert reply.text == "I did without."
        records = [record.event for record in await agent.sessions.records("s")]
        held = [event for event in records if isinstance(event, Guarded) and event.kinds == ("breaker",)]
        assert [(event.action, event.turn) for event in held] == [("held", 1)]
        assert "left alone" in held[0].note
        assert (await agent.sessions.replay("s")).is_identical
