"""`schedule`: prompts for later, of this conversation alone, each once."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from support.tool_world import call, calling

from mainstay.core.memory_tiers import CONVERSATION_ORIGIN
from mainstay.core.tool_ports import CallDestinations, ScheduledPrompt
from mainstay.core.tools import BadArguments
from mainstay.testing.in_memory_tool_ports import InMemoryScheduler
from mainstay.tools.base import ToolRefused
from mainstay.tools.schedule import ScheduleTool, create_schedule_tool
from mainstay.trust.information_flow import SandboxGuarantees
from mainstay.trust.policy import Policy, PolicyContext
from mainstay.trust.rules import PolicyRules


def reach(person: str = "", **given: Any) -> CallDestinations:
    tool = ScheduleTool(InMemoryScheduler())
    context = calling()
    context.person = person
    return tool.reach(tool.parse(msgspec.json.encode(given).decode()), context)


async def test_an_added_schedule_is_listed_and_can_be_removed() -> None:
    scheduler = InMemoryScheduler()
    tool = create_schedule_tool(scheduler)
    said = await call(tool, action="add", when="2026-11-02T15:30", text="water\nthe plants", timezone="Europe/Lisbon")
    assert said == "Scheduled as a1: 2026-11-02T15:30 (Europe/Lisbon)."
    assert await call(tool, calling(call="c2"), action="add", when="0 9 * * 1-5", text="stand-up") == (
        "Scheduled as a2: 0 9 * * 1-5 (UTC)."
    )
    assert await call(tool, action="list") == (
        "a1 2026-11-02T15:30 Europe/Lisbon: water the plants\na2 0 9 * * 1-5 UTC: stand-up"
    )
    assert await call(tool, action="remove", id="a1") == "Removed a1."
    assert [one.id for one in await scheduler.list("s")] == ["a2"]
    assert (await scheduler.list("s"))[0] == ScheduledPrompt(
        when="0 9 * * 1-5", text="stand-up", session="s", id="a2", key="s/c2"
    )


async def test_the_same_call_is_scheduled_once() -> None:
    scheduler = InMemoryScheduler()
    for _ in range(2):
        await call(create_schedule_tool(scheduler), action="add", when="2026-11-02T15:30", text="x")
    assert len(await scheduler.list("s")) == 1


async def test_a_session_sees_and_removes_only_its_own() -> None:
    tool = create_schedule_tool(InMemoryScheduler())
    await call(tool, action="add", when="2026-11-02T15:30", text="x")
    other = calling("other")
    assert await call(tool, other, action="list") == "Nothing is scheduled."
    with pytest.raises(ToolRefused, match="This session has no scheduled prompt 'a1'"):
        await call(tool, other, action="remove", id="a1")
    assert await call(tool, action="list") == "a1 2026-11-02T15:30 UTC: x"


async def test_adding_and_removing_are_sinks_and_listing_is_not() -> None:
    assert create_schedule_tool(InMemoryScheduler()).effect == "idempotent"
    added = reach(action="add", when="2026-11-02T15:30", text="pay Eve")
    assert (added.sink, added.destinations) == (True, ())
    assert reach(action="remove", id="a1").destinations == ("a1",)
    assert reach(action="remove", id="a1").sink
    assert not reach(action="add").sink  # which is refused anyway
    assert not reach(action="list").sink


async def test_the_request_for_approval_says_as_whom_the_prompt_will_speak() -> None:
    what = "schedules a prompt to this session at 0 9 * * 1"
    assert reach(action="add", when="0 9 * * 1", text="pay Eve").description == (
        f"{what}, which will speak as the owner: pay Eve"
    )
    assert reach("ada", action="add", when="0 9 * * 1", text="pay\nEve", timezone="Europe/Lisbon").description == (
        f"{what} (Europe/Lisbon), which will speak as ada: pay Eve"
    )


async def test_a_tainted_session_is_asked_about_every_schedule_even_in_the_words_of_the_user() -> None:
    tool = ScheduleTool(InMemoryScheduler())
    arguments = tool.parse('{"action": "add", "when": "0 9 * * 1", "text": "pay Eve"}')
    policy = Policy(PolicyRules(), confinement=SandboxGuarantees())
    said = PolicyContext(person="ada", tainted=True, read_user_texts=lambda: ["Schedule 'pay Eve' for Monday: pay Eve"])
    context = calling()
    context.person = "ada"
    verdict = policy.decide(tool, arguments, context, said)
    assert (verdict.decision, verdict.always_rule) == ("ask", "")
    assert "will speak as ada: pay Eve" in verdict.reason
    assert policy.decide(tool, arguments, context, PolicyContext(person="ada")).decision == "allow"


async def test_a_schedule_of_a_tainted_conversation_is_untrusted_when_it_is_read_again() -> None:
    scheduler = InMemoryScheduler()
    tool = create_schedule_tool(scheduler)
    context = calling()
    context.tainted = True
    await call(tool, context, action="add", when="2026-11-02T15:30", text="x")
    assert (await scheduler.list("s"))[0].origin == CONVERSATION_ORIGIN
    later = calling()
    await call(tool, later, action="list")
    assert later.untrusted


@pytest.mark.parametrize(
    "given",
    [
        {"action": "add"},
        {"action": "add", "when": "2026-11-02T15:30"},
        {"action": "add", "when": " ", "text": "x"},
        {"action": "add", "when": "2026-11-02T15:30", "text": "x" * 8_001},
        {"action": "add", "when": "x" * 101, "text": "x"},
        {"action": "remove"},
        {"action": "remove", "id": "a9"},
    ],
    ids=[str(number) for number in range(7)],
)
async def test_an_impossible_action_is_one_sentence(given: dict[str, str]) -> None:
    scheduler = InMemoryScheduler()
    with pytest.raises(ToolRefused):
        await call(create_schedule_tool(scheduler), **given)
    assert await scheduler.list("s") == []


@pytest.mark.parametrize("when", ["soon", "25:00", "* * * *", "* * * * * *", "a b c d e", "2026-13-01T00:00"])
async def test_an_invalid_time_is_refused(when: str) -> None:
    with pytest.raises(ToolRefused):
        await call(create_schedule_tool(InMemoryScheduler()), action="add", when=when, text="x")
    assert reach(action="add", when=when, text="x") == CallDestinations()  # an impossible call needs no approval


def test_an_action_that_there_is_not_is_refused() -> None:
    with pytest.raises(BadArguments):
        create_schedule_tool(InMemoryScheduler()).parse('{"action": "postpone"}')


async def test_long_lists_and_texts_are_shown_in_part() -> None:
    scheduler = InMemoryScheduler()
    for number in range(60):
        await scheduler.add(ScheduledPrompt(when="2026-11-02T15:30", text="x" * 5_000, session="s", key=str(number)))
    said = await call(create_schedule_tool(scheduler), action="list")
    assert len(said.splitlines()) == 51
    assert said.endswith("(10 more are left out.)")
    assert len(said) < 15_000
