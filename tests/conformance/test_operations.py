"""Every operation of the table over every interface that its entry declares: the same request, the same outcome.

A scenario sets something up, makes one request, and says what must come out and what must be so afterwards. It is run
on a fresh server for each interface: library, the home's socket, HTTP, gRPC, and MCP for the few that are offered to
language models. An operation without a scenario fails here.
"""

from __future__ import annotations

import ast
import asyncio
import json
import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import msgspec
import pytest
from mcp.shared.exceptions import MCPError
from support.library_methods import METHODS, run_method
from support.operations_world import (
    MAIN,
    NO_BODY,
    RUN,
    SKILL,
    SPARE,
    STREAM,
    Bench,
    mcp_host,
    run_over_mcp,
    serving,
)

from mainstay.core.client_tools import ClientTool
from mainstay.core.errors import ApprovalUnknown, InputRefused, MemoryUnknown, SessionUnknown, Unauthorised
from mainstay.core.events import ApprovalAnswered, Folded, Received, TurnSetAside, TurnStarted
from mainstay.core.limits import SessionBudget
from mainstay.core.memory_tiers import Fact, Summary
from mainstay.core.messages import Text
from mainstay.core.people import Person, PersonRole
from mainstay.core.triggers import Trigger, TriggerTarget
from mainstay.operations import (
    approvals,
    budgets,
    errors_and_audit,
    home,
    memory,
    people,
    session_settings,
    sessions,
    traces,
    triggers,
    turns,
    undo,
)
from mainstay.operations.caller import NotAllowed
from mainstay.operations.execute import find_entry
from mainstay.operations.operation import EVERYWHERE, LOCAL, MODEL_DRIVEN, NETWORK, Operation
from mainstay.operations.operation_entry import OperationEntry
from mainstay.operations.table import ENTRIES, entries_for
from mainstay.providers.scripted import Call, Raise, Script, Stall
from mainstay.server import mcp_server
from mainstay.server.grpc import operations_schema
from mainstay.server.mcp_tools import MCP_TOOLS

HOLDS_S = 120.0
BY_NAME = {entry.name: entry for entry in ENTRIES}
WEATHER = ClientTool("weather", "The weather.", {"type": "object", "properties": {}})

# What the table declares. Every other operation is offered over the network, and to no language model.
OVER_MCP = {turns.Prompt, turns.Steer, turns.Abort, sessions.ListSessions, memory.SearchMemory}
ONLY_LOCAL = {
    *(sessions.SetWorkingFolder, sessions.ExportSession, home.RemoveWorkspace),
    *(undo.ListUndoableTurns, undo.PreviewUndo, undo.UndoTurn),
}

Prepare = Callable[[Bench], Awaitable[None]]
Check = Callable[[Bench, Any], bool]
After = Callable[[Bench], Awaitable[bool]]


class McpCall(msgspec.Struct, frozen=True):
    """The tool that runs an operation, and what its result says."""

    tool: str
    arguments: dict[str, Any]
    result: Callable[[dict[str, Any]], bool]


class Scenario(msgspec.Struct, frozen=True, kw_only=True):
    """`result` is about the outcome as network clients see it; `after` about the home. `events` are among those of the
    operation's stream, in this order; the stream is left after the last of them."""

    request: Callable[[Bench], Operation[Any]]
    result: Check = lambda bench, value: True
    after: After | None = None
    prepare: Prepare | None = None
    script: Callable[[], Script] = lambda: ["hello"] * 20
    config: str = ""
    events: tuple[str, ...] = ()
    mcp: McpCall | None = None


# --- set-ups -------------------------------------------------------------------------------------


def said(*texts: str, session: str = "s") -> Prepare:
    async def prepare(bench: Bench) -> None:
        for text in texts:
            await bench.agent.run(session, text)

    return prepare


async def running(bench: Bench) -> None:
    """A turn is running; it ends when its answer is released or aborted."""
    assert isinstance(bench.script, list)
    bench.start(bench.agent.run("s", "go"))
    await bench.script[0].reached.wait()


async def asking(bench: Bench) -> None:
    """A turn waits for approval of `send`."""
    await bench.agent.run("s", "send it")
    (pending,) = await bench.agent.approvals.list()
    bench.made["approval"] = pending.asked.id


async def client_call(bench: Bench) -> None:
    """A turn waits for the result of a tool that the client runs."""
    await bench.agent.execute(turns.Prompt(session="s", text="warm?", tools=(WEATHER,)))
    (pending,) = await bench.agent.approvals.list()
    bench.made["call"] = pending.asked.call_id


async def always_allowed(bench: Bench) -> None:
    await asking(bench)
    await bench.agent.approvals.approve(bench.made["approval"], always=True)
    (bench.made["rule"],) = await bench.agent.approvals.rules()


async def remembered(bench: Bench) -> None:
    bench.made["memory"] = (await bench.agent.memory.remember("Ana likes tea", tags=["taste"])).id


async def read_on_a_page(bench: Bench) -> None:
    """One memory of the owner's, and one that came from outside."""
    await remembered(bench)
    await (await bench.agent.runtime()).memory.remember("Ana pays with cards", origin="untrusted:fetch")


async def archived(bench: Bench) -> None:
    await bench.agent.run("s", "hi")
    await bench.agent.sessions.archive("s")


async def set_aside(bench: Bench) -> None:
    """A turn as three crashed processes leave it."""
    lane = (await bench.agent.runtime()).lanes.get("s")
    await lane.record_changes(Received((Text("hi"),)), TurnStarted((1,), turn=1), TurnSetAside(crashes=3, turn=1))


async def folded(bench: Bench) -> None:
    """A fact and a summary, as a fold of the session's turns leaves them."""
    await bench.agent.run("s", "we rented the flat in Lisbon")
    runtime = await bench.agent.runtime()
    lane, now = runtime.lanes.get("s"), runtime.services.clock.now_ms()
    fact = Fact("Ana", "lives in", "Lisbon", source=1, session="s", at=now)
    part = Summary(1, 4, now, now, "They spoke of flats.", "s")
    await lane.record_changes(
        Folded((await lane.load_session()).head, "They spoke of flats.", parts=(part,), facts=(fact,))
    )


def trigger(**more: Any) -> Prepare:
    async def prepare(bench: Bench) -> None:
        made = {"kind": "periodic", "schedule": "0 9 1 1 *", "text": "report", "target": TriggerTarget(session="r")}
        await bench.agent.triggers.add(Trigger(name="daily", **{**made, **more}))

    return prepare


async def fired(bench: Bench) -> None:
    await trigger()(bench)
    await bench.agent.triggers.run("daily")
    await bench.agent.settled()


async def with_person(bench: Bench) -> None:
    await bench.service.people.add_person(Person(name="ann", roles={MAIN: "member"}))


async def with_key(bench: Bench) -> None:
    await with_person(bench)
    token, key = await bench.service.people.create_key("ann", MAIN, scopes=("chat",))
    bench.made |= {"token": token, "key": key.id}


async def waiting(bench: Bench) -> None:
    bench.made["code"] = await bench.service.people.issue_pairing_code("chat", "U1", "Ann")


async def paired(bench: Bench) -> None:
    await waiting(bench)
    await bench.service.people.pair_account(bench.made["code"], name="ann", workspace=MAIN, role="member")


async def failed(bench: Bench) -> None:
    """A turn failed, and the list of errors has it."""
    await bench.agent.run("s", "hi")
    async with asyncio.timeout(HOLDS_S):
        while not (found := (await bench.agent.execute(errors_and_audit.ListErrors())).errors):
            await asyncio.sleep(0.01)
    bench.made["error"] = found[0].id


async def recorded(bench: Bench) -> None:
    await bench.agent.run("s", "hi")
    await (await bench.agent.runtime()).wait_for_audit()


async def spent(bench: Bench) -> None:
    await bench.agent.run("s", "hi", sender="ann")
    await (await bench.agent.runtime()).wait_for_audit()


async def spare(bench: Bench) -> None:
    await bench.service.workspaces.get_agent(SPARE)


def in_turn(*steps: Any) -> Callable[[], Script]:
    return lambda: list(steps)


def stalling(*steps: Any) -> Callable[[], Script]:
    return lambda: [Stall("said late"), *steps, *["more"] * 5]


# --- what is so afterwards -----------------------------------------------------------------------


async def is_gone(bench: Bench) -> bool:
    try:
        await bench.agent.sessions.get("s")
    except SessionUnknown:
        return True
    return False


async def is_released(bench: Bench) -> bool:
    info = await bench.agent.sessions.get("s")
    return not info.set_aside and not info.unfinished


def status_is(status: str) -> After:
    async def after(bench: Bench) -> bool:
        return (await bench.agent.sessions.get("s")).status == status

    return after


async def steered(bench: Bench) -> bool:
    async with asyncio.timeout(HOLDS_S):
        while not any(type(one.event).__name__ == "Steered" for one in await bench.agent.sessions.records("s")):
            await asyncio.sleep(0.01)
    return True


async def is_idle(bench: Bench) -> bool:
    await bench.agent.settled()
    return not (await bench.agent.sessions.get("s")).unfinished


async def was_sent(bench: Bench) -> bool:
    await bench.agent.settled()
    return bench.sent == ["ann"]


async def was_not_sent(bench: Bench) -> bool:
    await bench.agent.settled()
    return bench.sent == [] and not await bench.agent.approvals.list()


async def has_imported(bench: Bench) -> bool:
    standing = await bench.agent.sessions.get("s")
    return (standing.messages, standing.metadata) == (2, {"from": "elsewhere"})


async def is_folded(bench: Bench) -> bool:
    return any(isinstance(record.event, Folded) for record in await bench.agent.sessions.records("s"))


async def _is_gone(path: Path) -> bool:
    return not path.exists()


async def works_in_other_folder(bench: Bench) -> bool:
    folder = (await bench.agent.runtime())._parts.session_folders.cwd("s")
    return folder == str(bench.home.parent) != str(bench.work)


async def has_one_key(bench: Bench) -> bool:
    return [(key.person, key.scopes) for key in bench.service.people.list_keys()] == [("ann", ("chat", "approve"))]


async def is_forgotten(bench: Bench) -> bool:
    try:
        await bench.agent.memory.get(bench.made["memory"])
    except MemoryUnknown:
        return True
    return False


async def has_no_people(bench: Bench) -> bool:
    return bench.service.people.list_people() == []


async def has_exported(bench: Bench) -> bool:
    return {path.name for path in (bench.home / "out").iterdir()} == {"log.jsonl", "context.jsonl"}


def trigger_is_paused(paused: bool) -> After:
    async def after(bench: Bench) -> bool:
        (status,) = await bench.agent.triggers.list()
        return status.paused is paused

    return after


def role_is(role: str | None) -> After:
    async def after(bench: Bench) -> bool:
        person = bench.service.people.get_person("ann")
        return person is not None and person.roles.get(MAIN) == role

    return after


# --- the scenarios -------------------------------------------------------------------------------

SEND = [Call("send", {"to": "ann"})]
APPROVED = in_turn(SEND, "done", "more")
WRITING = in_turn([Call("write", {"path": "plan.txt", "content": "new\n"})], "done", "more")

READ_ONLY = {sessions.ReplaySession, undo.ListUndoableTurns, undo.PreviewUndo}  # change nothing, and are no GET
BUDGETS = """
budgets: {session: {money: 2.5}, person: {day: {tokens: 900000}}, workspace: {month: {tokens: 1000000}}}
"""
SECRET = "ghp_A1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q7r8"
MISSING_PLUGIN = """
plugins: {notes: {path: /no/such/folder}}
"""
SCENARIOS: dict[type[Operation[Any]], Scenario] = {
    # turns
    turns.Prompt: Scenario(
        request=lambda bench: turns.Prompt(session="s", text="hi"),
        result=lambda bench, value: (
            (value["session"], value["turn"], value["text"], value["outcome"]["type"]) == ("s", 1, "hello", "Answered")
            and (value["results"], value["cut"], "sequence" in value) == ([], False, False)
        ),
        after=lambda bench: _has_turns(bench, "s", 1),
        events=("Received", "TurnStarted", "TextDelta", "TurnEnded"),
        mcp=McpCall("run", {"prompt": "hi", "session": "s"}, lambda value: value["text"] == "hello"),
    ),
    turns.Steer: Scenario(
        script=stalling("in French"),
        prepare=running,
        request=lambda bench: turns.Steer(session="s", text="in French"),
        result=lambda bench, value: value["session"] == "s" and int(value["sequence"]) > 1,
        after=steered,
        mcp=McpCall("steer", {"session": "s", "text": "in French"}, lambda value: value == {"session": "s"}),
    ),
    turns.Abort: Scenario(
        script=stalling(),
        prepare=running,
        request=lambda bench: turns.Abort(session="s"),
        result=lambda bench, value: value == {"aborted": True},
        after=is_idle,
        mcp=McpCall("abort", {"session": "s"}, lambda value: value == {"session": "s", "aborted": True}),
    ),
    turns.SubmitToolResult: Scenario(
        script=in_turn([Call("weather", {})], "22 degrees"),
        prepare=client_call,
        request=lambda bench: turns.SubmitToolResult(session="s", call_id=bench.made["call"], content="22 C"),
        result=lambda bench, value: (value["session"], value["text"]) == ("s", "22 degrees"),
        after=is_idle,
        events=("ApprovalAnswered", "TextDelta", "TurnEnded"),
    ),
    turns.ImportHistory: Scenario(
        request=lambda bench: turns.ImportHistory(
            session="s",
            messages=[{"role": "user", "content": "warm?"}, {"role": "assistant", "content": "yes"}],
            metadata={"from": "elsewhere"},
        ),
        after=has_imported,
    ),
    turns.ReadEvents: Scenario(
        prepare=said("hi"),
        request=lambda bench: turns.ReadEvents(session="s", after=1, limit=2),
        result=lambda bench, value: (
            [one["sequence"] for one in value["events"]] == [2, 3]
            and value["events"][0]["event"]["type"] == "TurnStarted"
            and value["next"] == 3
        ),
        events=("TurnStarted", "TurnEnded"),
    ),
    turns.WatchEvents: Scenario(
        script=stalling(),
        prepare=running,
        request=lambda bench: turns.WatchEvents(session="s"),
        events=("TextDelta", "TurnEnded"),
    ),
    # sessions
    sessions.ListSessions: Scenario(
        prepare=said("hi"),
        request=lambda bench: sessions.ListSessions(limit=5),
        result=lambda bench, value: [(one["id"], one["turns"]) for one in value["sessions"]] == [("s", 1)],
        mcp=McpCall("sessions", {"limit": 5}, lambda value: [one["session"] for one in value["sessions"]] == ["s"]),
    ),
    sessions.GetSession: Scenario(
        prepare=said("hi"),
        request=lambda bench: sessions.GetSession(session="s"),
        result=lambda bench, value: (value["id"], value["workspace"], value["turns"]) == ("s", MAIN, 1),
    ),
    sessions.DeleteSession: Scenario(
        prepare=said("hi"), request=lambda bench: sessions.DeleteSession(session="s"), after=is_gone
    ),
    sessions.ArchiveSession: Scenario(
        prepare=said("hi"),
        request=lambda bench: sessions.ArchiveSession(session="s"),
        result=lambda bench, value: value["status"] == "archived",
        after=status_is("archived"),
    ),
    sessions.ActivateSession: Scenario(
        prepare=archived,
        request=lambda bench: sessions.ActivateSession(session="s"),
        result=lambda bench, value: value["status"] == "active",
        after=status_is("active"),
    ),
    sessions.PauseSession: Scenario(
        prepare=said("hi"),
        request=lambda bench: sessions.PauseSession(session="s"),
        result=lambda bench, value: value["status"] == "paused",
        after=status_is("paused"),
    ),
    sessions.ReleaseSession: Scenario(
        prepare=set_aside,
        request=lambda bench: sessions.ReleaseSession(session="s", fail=True),
        result=lambda bench, value: (value["turns"], value.get("set_aside", False)) == (1, False),
        after=is_released,
    ),
    sessions.RenameSession: Scenario(
        prepare=said("hi"),
        request=lambda bench: sessions.RenameSession(session="s", title="Greeting"),
        result=lambda bench, value: (value["id"], value["title"]) == ("s", "Greeting"),
        after=lambda bench: _title_is(bench, "Greeting"),
    ),
    sessions.ForkSession: Scenario(
        prepare=said("hi", "again"),
        request=lambda bench: sessions.ForkSession(session="s", to="t", upto=4),
        result=lambda bench, value: (value["id"], value["parent"], value["turns"]) == ("t", "s", 1),
        after=lambda bench: _has_turns(bench, "t", 1),
    ),
    sessions.CompactSession: Scenario(
        script=in_turn("one", "two", "They spoke of a flat in Lisbon, and of trains to Porto."),
        prepare=said("we rented the flat in Lisbon", "and the trains?"),
        request=lambda bench: sessions.CompactSession(session="s", focus="the flat"),
        result=lambda bench, value: "Lisbon" in value["summary"],
        after=is_folded,
    ),
    sessions.SetModel: Scenario(
        prepare=said("hi"),
        request=lambda bench: sessions.SetModel(session="s", model="openai/other"),
        after=lambda bench: _model_is(bench, "openai/other"),
    ),
    sessions.ShowContext: Scenario(
        prepare=said("the flat in Lisbon"),
        request=lambda bench: sessions.ShowContext(session="s"),
        result=lambda bench, value: any("Lisbon" in section["text"] for section in value["sections"]),
    ),
    sessions.ReplaySession: Scenario(
        prepare=said("hi"),
        request=lambda bench: sessions.ReplaySession(session="s"),
        result=lambda bench, value: (value["turns"], value["difference"]) == (1, ""),
    ),
    sessions.GetProfile: Scenario(
        prepare=lambda bench: bench.agent.profile("s").set(name="Ana"),
        request=lambda bench: sessions.GetProfile(session="s"),
        result=lambda bench, value: value == {"fields": {"name": "Ana"}},
    ),
    session_settings.GetMetadata: Scenario(
        prepare=lambda bench: bench.agent.sessions.set_metadata("s", {"ticket": "T-1"}),
        request=lambda bench: session_settings.GetMetadata(session="s"),
        result=lambda bench, value: value == {"fields": {"ticket": "T-1"}},
    ),
    session_settings.SetMetadata: Scenario(
        prepare=lambda bench: bench.agent.sessions.set_metadata("s", {"ticket": "T-1", "tenant": "acme"}),
        request=lambda bench: session_settings.SetMetadata(session="s", fields={"ticket": "", "state": '{"n": 1}'}),
        result=lambda bench, value: value == {"fields": {"tenant": "acme", "state": '{"n": 1}'}},
        after=lambda bench: _metadata_is(bench, {"tenant": "acme", "state": '{"n": 1}'}),
    ),
    session_settings.ClearMetadata: Scenario(
        prepare=lambda bench: bench.agent.sessions.set_metadata("s", {"ticket": "T-1"}),
        request=lambda bench: session_settings.ClearMetadata(session="s"),
        after=lambda bench: _metadata_is(bench, {}),
    ),
    session_settings.SetSessionBudget: Scenario(
        request=lambda bench: session_settings.SetSessionBudget(session="s", money=0.5, tool_calls=3),
        result=lambda bench, value: value["budget"] == {"money": 0.5, "tool_calls": 3},
        after=lambda bench: _budget_is(bench, SessionBudget(money=0.5, tool_calls=3)),
    ),
    sessions.SetProfile: Scenario(
        prepare=lambda bench: bench.agent.profile("s").set(name="Ana", goal="learn"),
        request=lambda bench: sessions.SetProfile(session="s", fields={"goal": "", "city": "Porto"}),
        result=lambda bench, value: value == {"fields": {"name": "Ana", "city": "Porto"}},
        after=lambda bench: _profile_is(bench, {"name": "Ana", "city": "Porto"}),
    ),
    sessions.ClearProfile: Scenario(
        prepare=lambda bench: bench.agent.profile("s").set(name="Ana"),
        request=lambda bench: sessions.ClearProfile(session="s"),
        after=lambda bench: _profile_is(bench, {}),
    ),
    sessions.ListSkills: Scenario(
        request=lambda bench: sessions.ListSkills(session="s"),
        result=lambda bench, value: [one["name"] for one in value["skills"]] == [SKILL],
    ),
    sessions.SetWorkingFolder: Scenario(
        prepare=said("hi"),
        request=lambda bench: sessions.SetWorkingFolder(session="s", folder=str(bench.home.parent)),
        result=lambda bench, value: value == str(bench.home.parent),
        after=works_in_other_folder,
    ),
    sessions.ReadSessionExport: Scenario(
        prepare=said("hi"),
        request=lambda bench: sessions.ReadSessionExport(session="s", file="context", limit=2),
        result=lambda bench, value: (
            [json.loads(line)["role"] for line in value["lines"]] == ["system", "user"] and value["next"] == 2
        ),
    ),
    sessions.ExportSession: Scenario(
        prepare=said("hi"),
        request=lambda bench: sessions.ExportSession(session="s", folder=str(bench.home / "out")),
        result=lambda bench, value: {Path(one).name for one in value} == {"log.jsonl", "context.jsonl"},
        after=has_exported,
    ),
    undo.ListUndoableTurns: Scenario(
        script=WRITING,
        prepare=said("write it"),
        request=lambda bench: undo.ListUndoableTurns(session="s"),
        result=lambda bench, value: [(one["turn"], one["paths"]) for one in value] == [(1, 1)],
    ),
    undo.PreviewUndo: Scenario(
        script=WRITING,
        prepare=said("write it"),
        request=lambda bench: undo.PreviewUndo(session="s"),
        result=lambda bench, value: (
            [(one["path"], one["change"]) for one in value["files"]] == [("plan.txt", "created")]
        ),
    ),
    undo.UndoTurn: Scenario(
        script=WRITING,
        prepare=said("write it"),
        request=lambda bench: undo.UndoTurn(session="s"),
        result=lambda bench, value: (value["restored"], value["refused"]) == (["plan.txt"], []),
        after=lambda bench: _is_gone(bench.work / "plan.txt"),
    ),
    # approvals
    approvals.ListApprovals: Scenario(
        script=APPROVED,
        prepare=asking,
        request=lambda bench: approvals.ListApprovals(),
        result=lambda bench, value: (
            [(one["session"], one["asked"]["id"]) for one in value["approvals"]] == [("s", bench.made["approval"])]
        ),
    ),
    approvals.Approve: Scenario(
        script=APPROVED,
        prepare=asking,
        request=lambda bench: approvals.Approve(id=bench.made["approval"]),
        result=lambda bench, value: (value["id"], value["verdict"]) == (bench.made["approval"], "approved"),
        after=was_sent,
    ),
    approvals.Deny: Scenario(
        script=APPROVED,
        prepare=asking,
        request=lambda bench: approvals.Deny(id=bench.made["approval"], reason="not now"),
        result=lambda bench, value: (value["id"], value["verdict"]) == (bench.made["approval"], "denied"),
        after=was_not_sent,
    ),
    approvals.ListRules: Scenario(
        script=APPROVED,
        prepare=always_allowed,
        request=lambda bench: approvals.ListRules(),
        result=lambda bench, value: value == {"rules": [bench.made["rule"]]},
    ),
    approvals.RevokeRule: Scenario(
        script=APPROVED,
        prepare=always_allowed,
        request=lambda bench: approvals.RevokeRule(rule=bench.made["rule"]),
        after=lambda bench: _rules_are(bench, ()),
    ),
    # memory
    memory.SearchMemory: Scenario(
        prepare=said("the flat in Lisbon has a blue door"),
        request=lambda bench: memory.SearchMemory(q="Lisbon door", k=3),
        result=lambda bench, value: (value["hits"][0]["session"], value["hits"][0]["message_id"]) == ("s", "s#1"),
        mcp=McpCall(
            "memory_search", {"query": "Lisbon door", "k": 3}, lambda value: value["hits"][0]["session"] == "s"
        ),
    ),
    memory.SearchVectors: Scenario(
        prepare=said("the flat in Lisbon"),
        request=lambda bench: memory.SearchVectors(q="Lisbon"),
        result=lambda bench, value: "only full-text search" in value["note"],  # there are no vectors here
    ),
    memory.RecallTopic: Scenario(
        prepare=remembered,
        request=lambda bench: memory.RecallTopic(topic="tea"),
        result=lambda bench, value: [one["kind"] for one in value["hits"]] == ["memory"],
    ),
    memory.ListSummaries: Scenario(
        prepare=folded,
        request=lambda bench: memory.ListSummaries(start="today", limit=5),
        result=lambda bench, value: (
            [(one["session"], one["text"]) for one in value["summaries"]] == [("s", "They spoke of flats.")]
        ),
    ),
    memory.ListFacts: Scenario(
        prepare=folded,
        request=lambda bench: memory.ListFacts(limit=5),
        result=lambda bench, value: [one["object"] for one in value["facts"]] == ["Lisbon"],
    ),
    memory.GetMemoryStatus: Scenario(
        prepare=remembered,
        request=lambda bench: memory.GetMemoryStatus(),
        result=lambda bench, value: (value["memories"], value["pinned"]) == (1, 0),
    ),
    memory.ListMemories: Scenario(
        prepare=remembered,
        request=lambda bench: memory.ListMemories(tag="taste", pinned=False),
        result=lambda bench, value: [one["id"] for one in value["memories"]] == [bench.made["memory"]],
    ),
    memory.Remember: Scenario(
        request=lambda bench: memory.Remember(text="call me Ana", tags=["name"], pin=True),
        result=lambda bench, value: (value["text"], value["tags"], value["pinned"]) == ("call me Ana", ["name"], True),
        after=lambda bench: _pinned_are(bench, ["call me Ana"]),
    ),
    memory.GetMemory: Scenario(
        prepare=remembered,
        request=lambda bench: memory.GetMemory(id=bench.made["memory"], limit=4),
        result=lambda bench, value: (value["text"], value["total"]) == ("Ana ", 13),
    ),
    memory.ForgetMemory: Scenario(
        prepare=remembered,
        request=lambda bench: memory.ForgetMemory(id=bench.made["memory"]),
        result=lambda bench, value: value["kind"] == "memory",
        after=is_forgotten,
    ),
    memory.PinMemory: Scenario(
        prepare=remembered,
        request=lambda bench: memory.PinMemory(id=bench.made["memory"]),
        result=lambda bench, value: (value["id"], value["pinned"]) == (bench.made["memory"], True),
        after=lambda bench: _pinned_are(bench, ["Ana likes tea"]),
    ),
    memory.ForgetOrigin: Scenario(
        prepare=read_on_a_page,
        request=lambda bench: memory.ForgetOrigin(origin="untrusted"),
        result=lambda bench, value: [one["kind"] for one in value["deleted"]] == ["memory"],
        after=lambda bench: _memories_are(bench, ["Ana likes tea"]),
    ),
    # triggers
    triggers.ListTriggers: Scenario(
        prepare=trigger(
            target=TriggerTarget(channel="slack", room="C1"), missed="once", jitter_s=2.5, check="test -e report"
        ),
        request=lambda bench: triggers.ListTriggers(),
        result=lambda bench, value: (
            [(one["name"], one["schedule"]) for one in value["triggers"]] == [("daily", "0 9 1 1 *")]
            and [value["triggers"][0][name] for name in ("channel", "room", "missed", "jitter_s", "check")]
            == ["slack", "C1", "once", 2.5, "test -e report"]
        ),
    ),
    triggers.AddTrigger: Scenario(
        request=lambda bench: triggers.AddTrigger(
            name="daily", kind="periodic", schedule="0 9 1 1 *", text="report", session="r"
        ),
        result=lambda bench, value: value == {"name": "daily"},
        after=trigger_is_paused(False),
    ),
    triggers.RemoveTrigger: Scenario(
        prepare=trigger(),
        request=lambda bench: triggers.RemoveTrigger(name="daily"),
        after=lambda bench: _no_trigger(bench),
    ),
    triggers.PauseTrigger: Scenario(
        prepare=trigger(), request=lambda bench: triggers.PauseTrigger(name="daily"), after=trigger_is_paused(True)
    ),
    triggers.ResumeTrigger: Scenario(
        prepare=trigger(paused=True),
        request=lambda bench: triggers.ResumeTrigger(name="daily"),
        after=trigger_is_paused(False),
    ),
    triggers.RunTrigger: Scenario(
        prepare=trigger(),
        request=lambda bench: triggers.RunTrigger(name="daily"),
        result=lambda bench, value: (value["trigger"], value["session"]) == ("daily", "r"),
        after=lambda bench: _has_turns(bench, "r", 1),
    ),
    triggers.ListTriggerRuns: Scenario(
        prepare=fired,
        request=lambda bench: triggers.ListTriggerRuns(name="daily", limit=5),
        result=lambda bench, value: [one["trigger"] for one in value["runs"]] == ["daily"],
    ),
    # people
    people.ListPeople: Scenario(
        prepare=with_key,
        request=lambda bench: people.ListPeople(),
        result=lambda bench, value: (
            [(one["name"], one["roles"], one["keys"]) for one in value["people"]] == [("ann", {MAIN: "member"}, 1)]
        ),
    ),
    people.AddPerson: Scenario(
        request=lambda bench: people.AddPerson(name="ann", called="Ann Lee", roles={MAIN: "member"}),
        result=lambda bench, value: (value["name"], value["called"]) == ("ann", "Ann Lee"),
        after=role_is("member"),
    ),
    people.RemovePerson: Scenario(
        prepare=with_person, request=lambda bench: people.RemovePerson(name="ann"), after=has_no_people
    ),
    people.GrantRole: Scenario(
        prepare=with_person,
        request=lambda bench: people.GrantRole(name="ann", workspace=MAIN, role="admin"),
        result=lambda bench, value: value["roles"] == {MAIN: "admin"},
        after=role_is("admin"),
    ),
    people.WithdrawRole: Scenario(
        prepare=with_person,
        request=lambda bench: people.WithdrawRole(name="ann", workspace=MAIN),
        result=lambda bench, value: value["roles"] == {},
        after=role_is(None),
    ),
    people.ListPairings: Scenario(
        prepare=waiting,
        request=lambda bench: people.ListPairings(),
        result=lambda bench, value: (
            [(one["channel"], one["user"]) for one in value["pairings"]] == [("chat", "U1")]
            and bench.made["code"] not in json.dumps(value)
        ),
    ),
    people.PairAccount: Scenario(
        prepare=waiting,
        request=lambda bench: people.PairAccount(code=bench.made["code"], name="ann", workspace=MAIN),
        result=lambda bench, value: value["accounts"] == [{"channel": "chat", "user": "U1"}],
        after=role_is("member"),
    ),
    people.UnpairAccount: Scenario(
        prepare=paired,
        request=lambda bench: people.UnpairAccount(channel="chat", user="U1"),
        after=lambda bench: _is_unknown_user(bench),
    ),
    people.ListKeys: Scenario(
        prepare=with_key,
        request=lambda bench: people.ListKeys(),
        result=lambda bench, value: (
            [(one["id"], one["person"]) for one in value["keys"]] == [(bench.made["key"], "ann")]
            and bench.made["token"] not in json.dumps(value)
        ),
    ),
    people.CreateKey: Scenario(
        prepare=with_person,
        request=lambda bench: people.CreateKey(person="ann", scopes=("chat", "approve"), note="laptop"),
        result=lambda bench, value: (
            bench.service.people.authenticate_key(value["key"]) is not None
            and (value["kept"]["workspace"], value["kept"]["note"]) == (MAIN, "laptop")
        ),
        after=has_one_key,
    ),
    people.RevokeKey: Scenario(
        prepare=with_key,
        request=lambda bench: people.RevokeKey(id=bench.made["key"]),
        result=lambda bench, value: value["revoked"] > 0,
        after=lambda bench: _key_is_revoked(bench),
    ),
    # what was recorded
    errors_and_audit.ListErrors: Scenario(
        script=in_turn(Raise(Unauthorised("the key was refused"))),
        prepare=failed,
        request=lambda bench: errors_and_audit.ListErrors(session="s", limit=5),
        result=lambda bench, value: bench.made["error"] in [one["id"] for one in value["errors"]],
    ),
    errors_and_audit.ListErrorGroups: Scenario(
        script=in_turn(Raise(Unauthorised("the key was refused"))),
        prepare=failed,
        request=lambda bench: errors_and_audit.ListErrorGroups(workspace=MAIN),
        result=lambda bench, value: value["groups"][0]["count"] >= 1,
    ),
    errors_and_audit.GetError: Scenario(
        script=in_turn(Raise(Unauthorised("the key was refused"))),
        prepare=failed,
        request=lambda bench: errors_and_audit.GetError(id=bench.made["error"]),
        result=lambda bench, value: (value["id"], value["session"]) == (bench.made["error"], "s"),
    ),
    errors_and_audit.ClearErrors: Scenario(
        script=in_turn(Raise(Unauthorised("the key was refused"))),
        prepare=failed,
        request=lambda bench: errors_and_audit.ClearErrors(session="s"),
        result=lambda bench, value: value["cleared"] >= 1,
        after=lambda bench: _has_no_errors(bench, "s"),
    ),
    errors_and_audit.ReadAudit: Scenario(
        prepare=recorded,
        request=lambda bench: errors_and_audit.ReadAudit(session="s", kind="turn"),
        result=lambda bench, value: [(one["kind"], one["session"]) for one in value["entries"]] == [("turn", "s")],
    ),
    errors_and_audit.ListProblems: Scenario(
        config=MISSING_PLUGIN,
        request=lambda bench: errors_and_audit.ListProblems(),
        result=lambda bench, value: ["the plugin notes is left out" in one for one in value["problems"]] == [True],
    ),
    traces.GetTrace: Scenario(
        script=in_turn("hello", [Call("read", {"path": "missing.txt"})], "done", "later"),
        prepare=said("hi", "read it", "bye"),
        request=lambda bench: traces.GetTrace(session="s", turn=2),
        result=lambda bench, value: _is_trace_of_call(value),
    ),
    budgets.ShowBudget: Scenario(
        config=BUDGETS,
        prepare=spent,
        request=lambda bench: budgets.ShowBudget(workspace=MAIN),
        result=lambda bench, value: (
            used_tokens(value) == {("person", "ann"): True, ("workspace", MAIN): True}
            and ("home", "") in {(row["scope"], row["name"]) for row in value["spent"]}
            and [(row["budget"], row["limit"]) for row in value["each"]] == [("session.money", 2.5)]
        ),
    ),
    # the home
    home.WhoAmI: Scenario(
        request=lambda bench: home.WhoAmI(),
        result=lambda bench, value: (
            (value["person"], value["workspace"], value["role"], value["model"]) == ("", MAIN, "admin", "scripted")
        ),
    ),
    home.ListWorkspaces: Scenario(
        prepare=spare,
        request=lambda bench: home.ListWorkspaces(),
        result=lambda bench, value: value == {"workspaces": [MAIN, SPARE]},
    ),
    home.CreateWorkspace: Scenario(
        request=lambda bench: home.CreateWorkspace(name=SPARE),
        result=lambda bench, value: value == {"name": SPARE},
        after=lambda bench: _workspaces_are(bench, [MAIN, SPARE]),
    ),
    home.RemoveWorkspace: Scenario(
        prepare=spare,
        request=lambda bench: home.RemoveWorkspace(name=SPARE),
        result=lambda bench, value: value["name"] == SPARE and Path(value["moved"]).is_dir(),
        after=lambda bench: _workspaces_are(bench, [MAIN]),
    ),
    home.GetStatus: Scenario(
        request=lambda bench: home.GetStatus(),
        result=lambda bench, value: value["workspaces"] == [MAIN] and value["unready"] == {},
    ),
}


def used_tokens(report: dict[str, Any]) -> dict[tuple[str, str], bool]:
    """Whether something of each budget is used, by its scope and name."""
    return {(row["scope"], row["name"]): row["used"] > 0 for row in report["budgets"]}


def _is_trace_of_call(trace: dict[str, Any]) -> bool:
    """Whether this is the trace of the second turn of session s: two model calls, and a tool call that failed."""
    root, *spans = trace["spans"]
    attributes = json.loads(root["attributes"])
    assert (trace["session"], int(trace["turn"]), trace["cut"], len(trace["id"])) == ("s", 2, False, 32)
    assert (root["parent"], root["status"], attributes["mainstay.session"]) == ("", "ok", "s")
    assert attributes["mainstay.turn"] == 2
    assert all(span["parent"] == root["id"] and int(span["start"]) <= int(span["end"]) for span in spans)
    rows = [(span["name"].split()[0], span["status"], span["error_type"], span["error_message"]) for span in spans]
    return rows == [("chat", "ok", "", ""), ("execute_tool", "error", "tool_error", ""), ("chat", "ok", "", "")]


async def _model_is(bench: Bench, model: str) -> bool:
    return (await bench.agent.sessions.get("s")).model == model


async def _title_is(bench: Bench, title: str) -> bool:
    return (await bench.agent.sessions.get("s")).title == title


async def _memories_are(bench: Bench, texts: list[str]) -> bool:
    return [one.text for one in await bench.agent.memory.list()] == texts


async def _pinned_are(bench: Bench, texts: list[str]) -> bool:
    return [one.text for one in await bench.agent.memory.list(pinned=True)] == texts


async def _metadata_is(bench: Bench, fields: dict[str, str]) -> bool:
    return (await bench.agent.sessions.get("s")).metadata == fields


async def _budget_is(bench: Bench, budget: SessionBudget) -> bool:
    return (await bench.agent.sessions.get("s")).budget == budget


async def _profile_is(bench: Bench, fields: dict[str, str]) -> bool:
    return await bench.agent.profile("s").get() == fields


async def _rules_are(bench: Bench, rules: tuple[str, ...]) -> bool:
    return tuple(await bench.agent.approvals.rules()) == rules


async def _no_trigger(bench: Bench) -> bool:
    return not await bench.agent.triggers.list()


async def _has_no_errors(bench: Bench, session: str) -> bool:
    return not (await bench.agent.execute(errors_and_audit.ListErrors(session=session))).errors


async def _has_turns(bench: Bench, session: str, count: int) -> bool:
    await bench.agent.settled()
    return (await bench.agent.sessions.get(session)).turns == count


async def _is_unknown_user(bench: Bench) -> bool:
    return bench.service.people.find_by_account("chat", "U1") is None


async def _key_is_revoked(bench: Bench) -> bool:
    return bench.service.people.authenticate_key(bench.made["token"]) is None


async def _workspaces_are(bench: Bench, names: list[str]) -> bool:
    return bench.service.workspaces.list_names() == names


# --- every operation over every interface --------------------------------------------------------


def over(interfaces: object, *, streams: bool) -> list[Any]:
    """Pairs of an operation and an interface that carries it."""
    return [
        pytest.param(entry, interface, id=f"{entry.name}-{interface}")
        for entry in ENTRIES
        for interface in interfaces  # type: ignore[attr-defined]
        if interface in entry.interfaces and (entry.stream is not None if streams else not entry.is_stream_only)
    ]


def test_every_operation_has_a_scenario_and_every_interface_a_client() -> None:
    assert set(SCENARIOS) == {entry.request for entry in ENTRIES}
    assert {interface for entry in ENTRIES for interface in entry.interfaces} == {*RUN, "mcp"}
    assert {entry.request for entry in ENTRIES if entry.stream is not None} == {
        request for request, scenario in SCENARIOS.items() if scenario.events
    }
    assert {request for request, scenario in SCENARIOS.items() if scenario.mcp is not None} == {
        entry.request for entry in entries_for("mcp")
    }
    for request, scenario in SCENARIOS.items():
        entry = find_entry(request)
        changes = entry.http is None or entry.http.method != "GET"
        assert scenario.after is not None or not changes or request in (*READ_ONLY, turns.WatchEvents), entry.name


def test_the_table_declares_what_it_should() -> None:
    """An operation that is missing from an interface would only be run over fewer of them, and nothing would fail."""
    for entry in ENTRIES:
        wanted = LOCAL if entry.request in ONLY_LOCAL else EVERYWHERE if entry.request in OVER_MCP else NETWORK
        assert entry.interfaces == wanted, entry.name
    assert len(over(RUN, streams=False)) == sum(len(entry.interfaces - {"mcp"}) for entry in ENTRIES) - len(NETWORK)
    assert len(over(STREAM, streams=True)) == sum(
        len(entry.interfaces - {"mcp"}) for entry in ENTRIES if entry.stream is not None
    )


@pytest.mark.parametrize(("entry", "interface"), over(RUN, streams=False))
async def test_an_operation_does_the_same_over_every_interface(
    tmp_path: Path, entry: OperationEntry, interface: str
) -> None:
    scenario = SCENARIOS[entry.request]
    async with asyncio.timeout(2 * HOLDS_S), serving(tmp_path, scenario.script(), scenario.config) as bench:
        if scenario.prepare is not None:
            await scenario.prepare(bench)
        value = await RUN[interface](bench, entry, scenario.request(bench))
        assert value is NO_BODY or scenario.result(bench, value), value
        release(bench)
        assert scenario.after is None or await scenario.after(bench)


# Operations without a method of the library: `Agent.execute` runs them. `agent.memory.semantic` has no note to check.
WITHOUT_METHOD = {  # the library writes an export into a folder
    *(turns.SubmitToolResult, turns.WatchEvents, sessions.ReadSessionExport, memory.SearchVectors, home.WhoAmI)
}


def test_every_operation_of_an_agent_has_a_method_of_the_library() -> None:
    others = {entry.request for module in (people, errors_and_audit, home) for entry in module.ENTRIES}
    others.remove(errors_and_audit.ListProblems)
    assert {entry.request for entry in ENTRIES} - set(METHODS) == WITHOUT_METHOD | others
    assert not set(METHODS) & (WITHOUT_METHOD | others)


@pytest.mark.parametrize("entry", [find_entry(request) for request in METHODS], ids=lambda entry: entry.name)
async def test_a_method_of_the_library_does_what_its_operation_does(tmp_path: Path, entry: OperationEntry) -> None:
    scenario = SCENARIOS[entry.request]
    async with asyncio.timeout(2 * HOLDS_S), serving(tmp_path, scenario.script(), scenario.config) as bench:
        if scenario.prepare is not None:
            await scenario.prepare(bench)
        value = await run_method(bench, entry, scenario.request(bench))
        assert value is NO_BODY or scenario.result(bench, value), value
        release(bench)
        assert scenario.after is None or await scenario.after(bench)


@pytest.mark.parametrize("interface", ["methods", "library", "socket", "http"])
async def test_a_steer_of_another_sender_waits_for_the_next_turn_over_every_interface(
    tmp_path: Path, interface: str
) -> None:
    """The rules of a turn are those of its sender."""
    run, stall = {**RUN, "methods": run_method}[interface], Stall("said late")
    async with asyncio.timeout(2 * HOLDS_S), serving(tmp_path, [stall, "more", "more"]) as bench:
        bench.start(bench.agent.run("s", "go", sender="alice"))
        await stall.reached.wait()
        await run(bench, find_entry(turns.Steer), turns.Steer(session="s", text="delete it all", sender="bob"))
        stall.release()
        await bench.agent.settled()
        events = [type(record.event).__name__ for record in await bench.agent.sessions.records("s")]
        assert (events.count("TurnStarted"), events.count("Steered")) == (2, 0)


@pytest.mark.parametrize(("entry", "interface"), over(STREAM, streams=True))
async def test_a_stream_tells_the_same_events_over_every_interface(
    tmp_path: Path, entry: OperationEntry, interface: str
) -> None:
    scenario = SCENARIOS[entry.request]
    async with asyncio.timeout(2 * HOLDS_S), serving(tmp_path, scenario.script(), scenario.config) as bench:
        if scenario.prepare is not None:
            await scenario.prepare(bench)
        hub = (await bench.agent.runtime()).services.hub
        watching = hub.watcher_count
        wanted = list(scenario.events)
        events = STREAM[interface](bench, entry, scenario.request(bench))
        heard = asyncio.ensure_future(anext(events))
        while entry.request is turns.WatchEvents and hub.watcher_count == watching:
            await asyncio.sleep(0.005)
        release(bench)
        while wanted:
            if await heard == wanted[0]:
                del wanted[0]
            heard = asyncio.ensure_future(anext(events)) if wanted else heard
        await events.aclose()  # type: ignore[attr-defined]


def release(bench: Bench) -> None:
    """The rest of the model's answer is released now."""
    for step in bench.script if isinstance(bench.script, list) else ():
        if isinstance(step, Stall):
            step.release()


# --- budgets are not shown to others -------------------------------------------------------------


async def _spend(bench: Bench, name: str, workspace: str, role: PersonRole, **more: Any) -> str:
    """Add a person who has run a turn; returns an API key of theirs."""
    await bench.service.people.add_person(Person(name=name, roles={workspace: role}))
    token, _ = await bench.service.people.create_key(name, workspace, **{"scopes": ("chat",), **more})
    principal = bench.service.people.authenticate_key(token)
    assert principal is not None
    await bench.service.gateway.execute(principal, turns.Prompt(session="s", text="hi"))
    return token


@pytest.mark.parametrize("interface", ["library", "http", "grpc"])
async def test_a_person_sees_their_own_budget_only(tmp_path: Path, interface: str) -> None:
    config = f"{BUDGETS}workspaces: {{{SPARE}: {{budgets: {{workspace: {{month: {{tokens: 7000000}}}}}}}}}}\n"
    entry, every = find_entry(budgets.ShowBudget), ("chat", "read", "approve", "admin")
    async with asyncio.timeout(2 * HOLDS_S), serving(tmp_path, ["hello"] * 20, config) as bench:
        await bench.agent.run("s", "hi")  # the owner
        ann = await _spend(bench, "ann", MAIN, "member")
        bob = await _spend(bench, "bob", MAIN, "guest")
        cid = await _spend(bench, "cid", MAIN, "admin", scopes=("chat", "read", "approve"))
        eve = await _spend(bench, "eve", SPARE, "admin", scopes=every)
        dan = await _spend(bench, "dan", MAIN, "admin", scopes=every)
        for workspace in bench.service.workspaces.open_workspaces.values():
            await workspace.current.wait_for_audit()

        async def show(key: str, workspace: str | None = None) -> Any:
            bench.key = key
            return await RUN[interface](bench, entry, budgets.ShowBudget(workspace=workspace))

        own = {"ann": ann, "bob": bob, "cid": cid}
        for name, key in own.items():
            report = await show(key)
            assert used_tokens(report) == {("person", name): True}
            assert {(row["scope"], row["name"]) for row in report["spent"]} == {("person", name)}
            assert [row["budget"] for row in report["each"]] == ["session.money"]
            assert report["reserved"] == 0
            assert await show(key, MAIN) == report
        report = await show(eve)
        assert used_tokens(report) == {("person", "eve"): True, ("workspace", SPARE): True}
        assert {(row["scope"], row["name"]) for row in report["spent"]} == {("person", "eve"), ("workspace", SPARE)}
        everybody = {("person", name) for name in ("", *own, "eve", "dan")}
        assert set(used_tokens(await show(dan))) == {*everybody, ("workspace", MAIN), ("workspace", SPARE)}
        for key, workspace in ((ann, SPARE), (cid, SPARE), (eve, MAIN), (eve, "nope")):
            with pytest.raises(Exception, match="for administrators of the home"):
                await show(key, workspace)
        with pytest.raises(Exception, match="there is no workspace"):
            await show(dan, "nope")
        await bench.service.people.add_person(Person(name="new", roles={MAIN: "member"}))
        fresh, _ = await bench.service.people.create_key("new", MAIN, scopes=("chat",))
        assert used_tokens(await show(fresh)) == {("person", "new"): False}, "nothing spent, and still a budget"
        silent, _ = await bench.service.people.create_key("new", MAIN, scopes=("approve",))
        with pytest.raises(Exception, match="this needs the scope"):
            await show(silent)


# --- events of all sessions are for callers that see all sessions ----------------------------------


@pytest.mark.parametrize("interface", ["http", "grpc"])
async def test_only_a_caller_that_sees_all_sessions_watches_them_all(tmp_path: Path, interface: str) -> None:
    entry = find_entry(turns.WatchEvents)
    async with asyncio.timeout(2 * HOLDS_S), serving(tmp_path, ["hello"] * 20) as bench:
        await spare(bench)
        ann = await _spend(bench, "ann", MAIN, "member")
        cid = await _spend(bench, "cid", MAIN, "admin", scopes=("chat",))
        dan = await _spend(bench, "dan", MAIN, "admin", scopes=("chat", "read"))
        eve = await _spend(bench, "eve", SPARE, "admin", scopes=("chat", "read"))
        for key in (ann, cid):
            bench.key = key
            with pytest.raises((AssertionError, grpc.aio.AioRpcError), match="for administrators of the workspace"):
                await anext(STREAM[interface](bench, entry, turns.WatchEvents()))
        principal = bench.service.people.authenticate_key(ann)
        assert principal is not None
        hubs = [workspace.current.services.hub for workspace in bench.service.workspaces.open_workspaces.values()]
        watching = sum(hub.watcher_count for hub in hubs)
        heard: dict[str, list[str]] = {}

        async def listen(name: str, request: turns.WatchEvents) -> None:
            async for event in STREAM[interface](bench, entry, request):
                heard.setdefault(name, []).append(event)

        everything, own = turns.WatchEvents(), turns.WatchEvents(session="s")
        wanted = (("dan", dan, everything), ("eve", eve, everything), ("ann", ann, own), ("cid", cid, own))
        for count, (name, key, request) in enumerate(wanted, 1):
            bench.key = key  # read when the request is sent
            bench.start(listen(name, request))
            while sum(hub.watcher_count for hub in hubs) < watching + count:
                await asyncio.sleep(0.005)
        await bench.service.gateway.execute(principal, turns.Prompt(session="s", text="hi"))
        while not all("TurnEnded" in heard.get(name, ()) for name in ("dan", "ann")):
            await asyncio.sleep(0.005)
        assert set(heard) == {"dan", "ann"}, "not another workspace, and not a session of the same name"


async def test_an_admin_clears_the_errors_of_their_own_workspace_only(tmp_path: Path) -> None:
    script = ["hello", Raise(Unauthorised("the key was refused"))]
    async with asyncio.timeout(2 * HOLDS_S), serving(tmp_path, script) as bench:
        await spare(bench)
        key = await _spend(bench, "eve", SPARE, "admin", scopes=("chat", "read", "admin"))
        await bench.agent.run("s", "hi")
        await failed(bench)
        eve = bench.service.people.authenticate_key(key)
        assert eve is not None
        with pytest.raises(NotAllowed, match="errors of other workspaces"):
            await bench.service.gateway.execute(eve, errors_and_audit.ClearErrors(workspace=MAIN))
        assert (await bench.service.gateway.execute(eve, errors_and_audit.ClearErrors())).cleared == 0
        assert not await _has_no_errors(bench, "s")


@pytest.mark.parametrize("content", [False, True])
async def test_a_person_sees_the_trace_of_their_own_turn_and_no_details_for_operators(
    tmp_path: Path, content: bool
) -> None:
    script = [*["hello"] * 3, Raise(Unauthorised("the key was refused", details="Unauthorised"))]
    settings = f"telemetry: {{content: {str(content).lower()}}}\n"
    async with asyncio.timeout(2 * HOLDS_S), serving(tmp_path, script, settings) as bench:
        tokens = {
            "ann": await _spend(bench, "ann", MAIN, "member"),
            "bob": await _spend(bench, "bob", MAIN, "member"),
            "dan": await _spend(bench, "dan", MAIN, "admin", scopes=("chat", "read")),
        }
        ann = bench.service.people.authenticate_key(tokens["ann"])
        assert ann is not None
        await bench.service.gateway.execute(ann, turns.Prompt(session="s", text=f"my flat has the code {SECRET}"))

        async def trace_for(person: str, session: str, turn: int | None = None) -> traces.TurnTrace:
            principal = bench.service.people.authenticate_key(tokens[person])
            assert principal is not None
            return await bench.service.gateway.execute(principal, traces.GetTrace(session=session, turn=turn))

        own, seen_by_admin = await trace_for("ann", "s"), await trace_for("dan", "web:ann:s")
        assert (own.id, own.session, own.turn) == (seen_by_admin.id, "s", 2)
        text = msgspec.json.encode(own).decode()
        assert "web:" not in text
        assert (SECRET in text, "my flat has the code" in text) == (False, content)
        assert [bool(span.error_message) for span in own.spans] == [content, content]
        assert [span.error_type for span in own.spans] == ["turn_failed", "model_failed"]
        assert [span.error_type for span in seen_by_admin.spans] == ["Unauthorised", "model_failed"]
        assert seen_by_admin.session == json.loads(seen_by_admin.spans[0].attributes)["mainstay.session"] == "web:ann:s"
        assert (await trace_for("bob", "s")).id != own.id
        for session in ("web:ann:s", "nope"):
            with pytest.raises(SessionUnknown, match="there is no session"):
                await trace_for("bob", session)
        with pytest.raises(InputRefused, match="there is no turn 7; 's' has 1 to 2"):
            await trace_for("ann", "s", 7)


async def test_problems_are_for_admins_of_the_workspace(tmp_path: Path) -> None:
    async with asyncio.timeout(2 * HOLDS_S), serving(tmp_path, ["hello"] * 3, MISSING_PLUGIN) as bench:
        for name, scopes in (("ann", ("chat", "read")), ("dan", ("chat", "admin"))):
            key = await _spend(bench, name, MAIN, "admin", scopes=scopes)
            principal = bench.service.people.authenticate_key(key)
            assert principal is not None
            if "admin" in scopes:
                found = await bench.service.gateway.execute(principal, errors_and_audit.ListProblems())
                assert found.problems == await bench.agent.problems() != []
            else:
                with pytest.raises(NotAllowed, match="needs the scope 'admin'"):
                    await bench.service.gateway.execute(principal, errors_and_audit.ListProblems())


# --- where an operation is not offered -----------------------------------------------------------


async def test_operations_are_offered_only_on_their_declared_interfaces(tmp_path: Path) -> None:
    async with asyncio.timeout(2 * HOLDS_S), serving(tmp_path, ["hello"]) as bench:
        async with bench.browser.get(f"{bench.url}/openapi.json") as response:
            paths = (await response.json())["paths"]
        offered = {
            (method.upper(), path): operation["operationId"]
            for path, methods in paths.items()
            for method, operation in methods.items()
            if path.startswith("/api/")
        }
        assert offered == {
            (entry.http.method, entry.http.path): entry.operation_id
            for entry in entries_for("http")
            if entry.http is not None
        }
        assert [entry.name for entry in ENTRIES if entry.http is not None and "http" not in entry.interfaces] == []
        async with grpc.aio.insecure_channel(bench.grpc) as channel:
            for name in [entry.name for entry in ENTRIES if "grpc" not in entry.interfaces]:
                for method in (name, f"{operations_schema.STREAM_PREFIX}{name}"):
                    with pytest.raises(grpc.aio.AioRpcError) as refused:
                        await channel.unary_unary(f"/{operations_schema.SERVICE}/{method}")(b"", timeout=HOLDS_S)
                    assert refused.value.code() == grpc.StatusCode.UNIMPLEMENTED, method


@pytest.mark.parametrize("interface", sorted(LOCAL))
async def test_a_stream_operation_has_no_result_and_the_others_have_no_events(tmp_path: Path, interface: str) -> None:
    async with asyncio.timeout(2 * HOLDS_S), serving(tmp_path, ["hello"]) as bench:
        watch, who = find_entry(turns.WatchEvents), find_entry(home.WhoAmI)
        with pytest.raises(InputRefused, match="WatchEvents is a stream"):
            await RUN[interface](bench, watch, turns.WatchEvents(session="s"))
        with pytest.raises(InputRefused, match="WhoAmI is not a stream"):
            await anext(STREAM[interface](bench, who, home.WhoAmI()))


# --- what language models may do -----------------------------------------------------------------


@pytest.mark.parametrize("entry", list(entries_for("mcp")), ids=lambda entry: entry.name)
async def test_a_tool_over_mcp_runs_its_operation(tmp_path: Path, entry: OperationEntry) -> None:
    scenario = SCENARIOS[entry.request]
    assert scenario.mcp is not None
    async with asyncio.timeout(2 * HOLDS_S), serving(tmp_path, scenario.script()) as bench:
        if scenario.prepare is not None:
            await scenario.prepare(bench)
        value, ran = await run_over_mcp(bench, scenario.mcp.tool, scenario.mcp.arguments)
        assert scenario.mcp.result(value), value
        assert ran == [entry.request], "this operation, and no other"
        release(bench)
        assert scenario.after is None or await scenario.after(bench)


async def test_the_mcp_server_offers_exactly_the_operations_that_declare_mcp(tmp_path: Path) -> None:
    tools = {scenario.mcp.tool for scenario in SCENARIOS.values() if scenario.mcp is not None}
    assert set(MCP_TOOLS) == tools
    assert len(tools) == len(list(entries_for("mcp")))
    async with serving(tmp_path, []) as bench, mcp_host(bench) as (host, _):
        assert {tool.name for tool in (await host.list_tools()).tools} == tools
        others = host.server_capabilities.model_dump(exclude_none=True, exclude={"tools"})
        assert not any(others.values()), "no resources, prompts, or anything else that a host could use"


async def test_no_other_operation_is_called_over_mcp_by_any_name_or_argument(tmp_path: Path) -> None:
    foreign = {field for entry in ENTRIES for field in entry.request.__struct_fields__}
    async with asyncio.timeout(2 * HOLDS_S), serving(tmp_path, ["hello"]) as bench, mcp_host(bench) as (host, client):
        for entry in ENTRIES:
            route = [entry.http.path] if entry.http is not None else []
            for name in (entry.name, entry.operation_id, entry.operation_id.replace("_", "-"), *route):
                if name in MCP_TOOLS:
                    assert "mcp" in entry.interfaces, name
                    continue
                with pytest.raises(MCPError, match="there is no tool"):
                    await host.call_tool(name, {})
        for scenario in SCENARIOS.values():
            if scenario.mcp is None:
                continue
            tool = scenario.mcp.tool
            arguments = MCP_TOOLS[tool].arguments.__struct_fields__
            for field in foreign - set(arguments) | {"always", "operation", "principal", "role"}:
                answer = await host.call_tool(tool, {**scenario.mcp.arguments, field: "x"})
                assert answer.is_error, (tool, field)
        assert client.ran == [], "nothing was done for any of this"


PRIVILEGED = (approvals, people, home, triggers, errors_and_audit, budgets)  # modules of which nothing is for a model
NAMED = re.compile(
    r"approv|deny|rule|key|person|people|role|pair|polic|trust|config|workspace|model|grant|folder|profile|^set",
    re.IGNORECASE,
)


def test_nothing_that_decides_what_a_model_may_do_is_offered_to_one() -> None:
    """Approvals, API keys, people, policy, trust and configuration: a caller that asks for work may not allow it."""
    assert MODEL_DRIVEN, "there is an interface whose caller may be a model"
    offered = [entry for entry in ENTRIES if entry.interfaces & MODEL_DRIVEN]
    assert offered
    privileged = {entry.request for module in PRIVILEGED for entry in module.ENTRIES}
    for entry in offered:
        assert entry.request not in privileged, entry.name
        assert entry.access == "chat", f"{entry.name} needs more than a conversation does"
        assert not NAMED.search(entry.name), entry.name
    for offer in MCP_TOOLS.values():
        fields = set(offer.arguments.__struct_fields__)
        assert not fields & {"sender", "by", "always", "tools", "workspace", "model"}, "a model speaks for nobody else"


def test_the_mcp_server_knows_no_other_operation() -> None:
    """Not even for itself: what is not in its source cannot be reached by what a model says."""
    others = {entry.name for entry in ENTRIES} - {entry.name for entry in entries_for("mcp")}
    paths = sorted(Path(mcp_server.__file__).parent.glob("mcp_*.py"))
    assert len(paths) >= 4
    for path in paths:
        nodes = ast.walk(ast.parse(path.read_text()))
        names = {
            name
            for node in nodes
            for name in (getattr(node, "id", None), getattr(node, "attr", None), getattr(node, "name", None))
        }
        assert not names & others, path.name


async def test_an_approval_is_not_answered_over_mcp_by_its_id(tmp_path: Path) -> None:
    async with asyncio.timeout(2 * HOLDS_S), serving(tmp_path, [SEND, *["more"] * 20]) as bench:
        await asking(bench)
        approve = f"/approve {bench.made['approval']}"
        for text in (approve, "/approve", "yes"):
            await run_over_mcp(bench, "steer", {"session": "other", "text": text})
            await run_over_mcp(bench, "run", {"session": "third", "prompt": text})
        await bench.agent.settled()
        (pending,) = await bench.agent.approvals.list()
        assert (pending.asked.id, bench.sent) == (bench.made["approval"], [])
        with pytest.raises(ApprovalUnknown):
            await bench.agent.approvals.approve("another")
        # a prompt during an approval denies the call with any text
        await run_over_mcp(bench, "steer", {"session": "s", "text": approve})
        await bench.agent.settled()
        events = [record.event for record in await bench.agent.sessions.records("s")]
        assert [event.verdict for event in events if isinstance(event, ApprovalAnswered)] == ["denied"]
        assert bench.sent == []


def test_the_table_names_every_operation_once() -> None:
    assert len(BY_NAME) == len(ENTRIES)
    paths = [(entry.http.method, entry.http.path) for entry in entries_for("http") if entry.http is not None]
    assert len(set(paths)) == len(paths) == len(list(entries_for("http")))
