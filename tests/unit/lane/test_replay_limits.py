"""A replay takes the limits of a turn from the recording: a changed configuration changes no replay."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from support.kernel_world import World, envelope, virtual

from mainstay.core.errors import StreamBroken
from mainstay.core.events import MessageAdded, ToolFinished, TurnEnded
from mainstay.core.journal import Record
from mainstay.core.journal_wording import CURRENT, JournalWording
from mainstay.core.limits import Limits
from mainstay.core.messages import Finish, FinishReason, Text, ToolResult
from mainstay.core.outcome import Answered, Exhausted, Failed, Outcome
from mainstay.core.ports import Context, Options, TextPiece
from mainstay.core.tools import tool
from mainstay.lane.recorded_limits import find_recorded_limits
from mainstay.lane.replay import replay_journal
from mainstay.testing import Call, Pieces, Raise, Say, Stall

DEFAULT = Limits()


@tool(effect="pure", untrusted=False, sink=False)
async def look(at: int = 0) -> str:
    return "nothing"


def calls(steps: int, *, each: int = 1, vary: bool = True, last: Any = "fine") -> Any:
    """A model that makes so many steps with calls, and answers when it has made them or may call no tool."""
    made = 0

    def step(context: Context, options: Options) -> Any:
        nonlocal made
        if options.tool_choice == "none" or made == steps:
            return last
        made += 1
        return [Call("look", {"at": made * 100 + n if vary else 0}) for n in range(each)]

    return step


async def record(script: Any, limits: Limits) -> tuple[list[Record], Outcome]:
    async with World(script, [look], limits=limits) as world:
        reply = await world.ask("go")
        return await world.records(), reply.outcome


SESSIONS: dict[str, tuple[Any, Limits, Outcome]] = {
    "fewer steps": (lambda: calls(9), Limits(steps_max=3), Exhausted("3 steps")),
    "more steps": (lambda: calls(DEFAULT.steps_max + 5), Limits(steps_max=40), Answered()),
    "more steps, reached": (lambda: calls(99), Limits(steps_max=40), Exhausted("40 steps")),
    "no answer at the limit": (lambda: calls(9, last=Say("")), Limits(steps_max=3), Exhausted("3 steps")),
    "fewer calls": (lambda: calls(9, each=3), Limits(tool_calls_max=7), Exhausted("7 tool calls")),
    "more calls": (lambda: calls(20, each=3), Limits(tool_calls_max=90), Answered()),
    "fewer calls a response": (lambda: calls(2, each=5), Limits(calls_per_response_max=2), Answered()),
    "more calls a response": (lambda: calls(2, each=15), Limits(calls_per_response_max=20), Answered()),
    "identical calls of a response": (
        lambda: calls(2, each=5, vary=False),
        Limits(calls_per_response_max=2),
        Answered(),
    ),
    "fewer repeats": (lambda: calls(6, vary=False), Limits(repeated_calls_max=2), Answered()),
    "more repeats": (lambda: calls(15, vary=False), Limits(repeated_calls_max=20), Answered()),
}


@pytest.mark.parametrize("name", SESSIONS)
def test_a_session_replays_identically_whatever_its_limits_were(name: str) -> None:
    @virtual
    async def check() -> None:
        script, limits, expected = SESSIONS[name]
        records, outcome = await record(script(), limits)
        assert outcome == expected
        for size in (*range(len(records)), len(records)):  # a running session, too
            replayed = await replay_journal(records[:size])
            assert replayed.is_identical, replayed.difference

    check()


@virtual
async def test_a_turn_that_resumed_under_other_limits_replays_identically() -> None:
    script = [Call("look", {"at": 1}), Call("look", {"at": 2}), Stall()]
    async with World(script, [look], limits=Limits(steps_max=2)) as world:
        watcher = world.watch()
        await world.send("go")
        assert (await watcher.see(MessageAdded, 3)).role == "system", "the notice that the limit is reached"
        await world.crash()
    async with world.after([Call("look", {"at": 7}), "fine"], [look], limits=Limits(steps_max=9)) as later:
        await later.lanes.resume_unfinished()
        await later.lanes.wait_until_settled()
        records = await later.records()
        assert records[-1].event == TurnEnded(Answered(), turn=1)
        replayed = await replay_journal(records)
        assert replayed.is_identical, replayed.difference


@virtual
async def test_restarts_and_corrections_replay_identically_whatever_their_limits_were() -> None:
    broken = [Pieces([TextPiece("half"), Raise(StreamBroken("the line dropped"))]) for _ in range(4)]
    async with World(
        [*broken, "a", "b", "c", "d", "right"], limits=Limits(step_restarts_max=9, output_attempts_max=9)
    ) as world:
        pending = await world.lanes.get("s").accept(envelope("go"), lambda text: None if text == "right" else "wrong")
        assert (await pending.reply).outcome == Answered()
        assert (await replay_journal(await world.records())).is_identical
    async with World(["a", "b"], limits=Limits(output_attempts_max=1)) as world:
        pending = await world.lanes.get("s").accept(envelope("go"), lambda text: "wrong")
        assert isinstance((await pending.reply).outcome, Failed)
        assert (await replay_journal(await world.records())).is_identical


@virtual
async def test_a_limit_that_was_changed_in_the_journal_is_noticed() -> None:
    records, _ = await record(calls(9), Limits(steps_max=3))
    places = [
        place
        for place, one in enumerate(records)
        if isinstance(one.event, TurnEnded) or (isinstance(one.event, MessageAdded) and one.event.role == "system")
    ]
    assert len(places) == 2
    for place in places:
        event = records[place].event
        other: Any = (
            TurnEnded(Exhausted("4 steps"), turn=1)
            if isinstance(event, TurnEnded)
            else msgspec.structs.replace(
                event, parts=(Text(CURRENT.limit_notice.format(bound="4 steps"), origin="runtime"),)
            )
        )
        changed = [*records[:place], msgspec.structs.replace(records[place], event=other), *records[place + 1 :]]
        assert not (await replay_journal(changed)).is_identical, other


def test_limits_are_read_in_the_wording_of_the_turn() -> None:
    wording = JournalWording(
        turn_calls_exceeded="No: {count} is the most.", steps_bound="step {count}", limit_answer="Stopped at {bound}!"
    )
    refused = ToolFinished(ToolResult("call_1", "look", "No: 12 is the most.", is_error=True))
    answer = MessageAdded("assistant", (Text("Stopped at step 4!", origin="runtime"), Finish(FinishReason.END)))
    limits = find_recorded_limits([refused, answer], wording)
    assert (limits.tool_calls_max, limits.steps_max) == (12, 4)
    assert limits.calls_per_response_max > 1_000_000
    said = [
        msgspec.structs.replace(refused, result=ToolResult("call_1", "look", "No: 12 is the most.")),
        MessageAdded("assistant", (Text("Stopped at step 4!"), Finish(FinishReason.END))),
        TurnEnded(Exhausted("step 4", budget="turn.money")),
        ToolFinished(ToolResult("call_1", "look", "No: all is the most.", is_error=True)),
    ]
    assert find_recorded_limits(said, wording) == find_recorded_limits([], wording), "these are no limits of the turn"
