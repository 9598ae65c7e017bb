"""A call that has run and waits with its changes: asked once, applied at most once, and replayed as it was."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from support.holding_tool import HoldingTool
from support.kernel_world import World, virtual

from mainstay.core.errors import InputRefused
from mainstay.core.events import ApprovalAnswered, ApprovalAsked, ToolFinished, ToolStarted
from mainstay.core.held_changes import HeldChange
from mainstay.core.outcome import Answered, Paused
from mainstay.testing import Call, VirtualClock
from mainstay.turn.dependencies import TrustServices

SCRIPT = [[Call("hold")], "fine"]


def trusting(clock: VirtualClock | None = None) -> dict[str, Any]:
    return {"trust": TrustServices(now_ms=(clock or VirtualClock()).now_ms, cwd=lambda session: "/here")}


def asked(world: World) -> ApprovalAsked:
    return next(one.asked for one in world.services.approvals)


async def answer(world: World, verdict: Any = "approved", **more: Any) -> Any:
    return await (await world.lanes.get("s").answer_approval(ApprovalAnswered(asked(world).id, verdict, **more))).reply


async def count_events(world: World, kind: type) -> int:
    return sum(isinstance(record.event, kind) for record in await world.records("s"))


@virtual
async def test_the_call_waits_with_its_result_and_does_not_run_again() -> None:
    hold = HoldingTool()
    async with World(SCRIPT, [hold], more=trusting()) as world:
        reply = await world.ask("go")
        assert isinstance(reply.outcome, Paused)
        request = asked(world)
        assert request.ran is not None
        assert request.ran.content == "ran"
        assert json.loads(request.input)["changes"][0]["content"] == "new\n"
        final = await answer(world)
        assert isinstance(final.outcome, Answered)
        assert (hold.runs, hold.applied) == (1, [(request.input, False)])
        [result] = await world.results()
        assert result.content == "ran\n[applied in /here]"
        assert await count_events(world, ToolFinished) == 1
        await world.check_replay()


@virtual
async def test_a_crash_while_the_command_runs_asks_nothing_and_applies_nothing() -> None:
    hold = HoldingTool()
    hold.run_gate.clear()
    async with World(SCRIPT, [hold], more=trusting()) as world:
        await world.send("go")
        await hold.began.wait()
        await world.crash()
    async with world.after(["fine"], [hold], more=trusting()) as later:
        await later.lanes.resume_unfinished()
        await later.lanes.wait_until_settled()
        [result] = await later.results()
        assert "Outcome unknown" in result.content
        assert (hold.runs, hold.applied) == (1, [])
        await later.check_replay()


@virtual
async def test_a_crash_while_the_question_is_open_keeps_it_and_the_answer_applies_it_once() -> None:
    hold = HoldingTool()
    async with World(SCRIPT, [hold], more=trusting()) as world:
        await world.ask("go")
        request = asked(world)
        await world.crash()
    async with world.after(["fine"], [hold], more=trusting()) as later:
        await later.lanes.resume_unfinished()
        await later.lanes.wait_until_settled()
        assert asked(later) == request
        await answer(later)
        assert (hold.runs, hold.applied) == (1, [(request.input, False)])
        assert await count_events(later, ApprovalAsked) == 1
        await later.check_replay()


@virtual
async def test_a_crash_while_it_is_applied_tells_the_tool_that_some_of_it_may_be_done() -> None:
    hold = HoldingTool()
    hold.apply_gate.clear()
    async with World(SCRIPT, [hold], more=trusting()) as world:
        await world.ask("go")
        request = asked(world)
        hold.began.clear()
        await world.lanes.get("s").answer_approval(ApprovalAnswered(request.id, "approved"))
        await hold.began.wait()
        await world.crash()
    hold.apply_gate.set()
    async with world.after(["fine"], [hold], more=trusting()) as later:
        await later.lanes.resume_unfinished()
        await later.lanes.wait_until_settled()
        assert (hold.runs, hold.applied) == (1, [(request.input, False), (request.input, True)])
        assert await count_events(later, ToolFinished) == 1
        assert await count_events(later, ToolStarted) == 1
        await later.check_replay()


@virtual
async def test_an_altered_document_is_not_applied() -> None:
    hold = HoldingTool()
    async with World(SCRIPT, [hold], more=trusting()) as world:
        await world.ask("go")
        request = asked(world)
        forged = {"changes": [{"change": "delete", "path": "x"}]}
        other = msgspec.structs.replace(request, id="other", input=json.dumps(forged))
        await world.lanes.get("s").record_changes(other)
        await (await world.lanes.get("s").answer_approval(ApprovalAnswered("other", "approved"))).reply
        assert hold.applied == []


@virtual
async def test_the_document_cannot_be_amended() -> None:
    async with World(SCRIPT, [HoldingTool()], more=trusting()) as world:
        await world.ask("go")
        with pytest.raises(InputRefused, match="as they are shown"):
            await answer(world, input='{"changes": []}')


@virtual
async def test_changes_that_cannot_be_shown_are_named_in_the_result_and_not_asked_about() -> None:
    hold = HoldingTool()
    hold.changes = (
        HeldChange(path="/here/big", problem="is too large to be shown"),
        HeldChange(path="/here/\udcff", data=b"x"),
    )
    async with World(SCRIPT, [hold], more=trusting()) as world:
        reply = await world.ask("go")
        assert isinstance(reply.outcome, Answered)
        [result] = await world.results()
        assert "big (is too large to be shown)" in result.content
        assert "(has a name that cannot be shown)" in result.content
        await world.check_replay()


@virtual
async def test_what_can_be_shown_is_asked_about_and_the_rest_is_named() -> None:
    hold = HoldingTool()
    hold.changes = (*hold.changes, HeldChange(path="/here/big", problem="is too large to be shown"))
    async with World(SCRIPT, [hold], more=trusting()) as world:
        await world.ask("go")
        request = asked(world)
        assert [change["path"] for change in json.loads(request.input)["changes"]] == [".envrc"]
        assert "Not offered here and not done: big (is too large to be shown)." in request.why
        await answer(world)
        [result] = await world.results()
        assert "held back, not applied: big" in result.content
