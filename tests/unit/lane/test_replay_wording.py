"""A replay uses the sentences of the release that recorded the session; the turn writes none without a version."""

from __future__ import annotations

import ast
import asyncio
import re
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from support.holding_tool import HoldingTool
from support.judge_world import panel_of
from support.kernel_world import World, virtual

import mainstay
from mainstay.core.client_tools import ClientTool
from mainstay.core.errors import BudgetExhausted
from mainstay.core.events import ApprovalAnswered, ApprovalAsked, SessionChanged, ToolStarted, TurnEnded
from mainstay.core.journal import Record, encode_event
from mainstay.core.journal_wording import CURRENT, CURRENT_VERSION, WORDINGS, JournalWording
from mainstay.core.judges import JudgeInput
from mainstay.core.limits import Limits
from mainstay.core.messages import FinishReason
from mainstay.core.ports import Context, Options
from mainstay.core.session import Session
from mainstay.core.tools import tool
from mainstay.lane import lane
from mainstay.lane.replay import replay_journal
from mainstay.operations.sessions import copy_session
from mainstay.testing import Call, Raise, Say, VirtualClock
from mainstay.trust.policy import PolicyVerdict
from mainstay.turn.dependencies import TrustServices

SENTENCES = [name for name in JournalWording.__struct_fields__ if isinstance(getattr(CURRENT, name), str)]
REWORDED = msgspec.structs.replace(
    CURRENT,
    **{name: f"<{name}>" + "".join(re.findall(r"\{\w+\}", getattr(CURRENT, name))) for name in SENTENCES},
)

Recorded = list[Record]


async def recorded(world: World, key: str = "s") -> Recorded:
    return await world.records(key)


@tool(effect="pure", untrusted=False, sink=False)
async def look(at: int = 0) -> str:
    return "nothing"


class Work:
    """A tool that runs until it is cancelled."""

    def __init__(self) -> None:
        self.began = asyncio.Event()

        @tool(effect="unsafe", timeout_s=900, untrusted=False, sink=False)
        async def work(n: int = 0) -> str:
            self.began.set()
            await asyncio.sleep(800)
            return "done"

        self.tool: Any = work


TWO_CALLS = [[Call("work", {"n": 1}), Call("work", {"n": 2})], "fine"]


async def record_abort() -> Recorded:
    work = Work()
    async with World(TWO_CALLS, [work.tool]) as world:
        await world.send("go")
        await work.began.wait()
        await world.abort()
        return await recorded(world)


async def record_steer() -> Recorded:
    work = Work()
    async with World(TWO_CALLS, [work.tool]) as world:
        sent = await world.send("go")
        await work.began.wait()
        await world.steer("wait")
        await sent.reply
        return await recorded(world)


async def record_turn_that_was_given_up() -> Recorded:
    work = Work()
    async with World(TWO_CALLS, [work.tool], limits=Limits(resumes_max=0)) as world:
        watcher = world.watch()
        await world.send("go")
        await watcher.see(ToolStarted)
        await world.crash()
    async with world.after(["fine"], [work.tool]) as later:
        await later.lanes.resume_unfinished()
        await later.lanes.wait_until_settled()
        await later.lanes.get("s").release(fail=True)
        return await recorded(later)


async def record_resumed_call() -> Recorded:
    work = Work()
    async with World(TWO_CALLS[:1], [work.tool]) as world:
        watcher = world.watch()
        await world.send("go")
        await watcher.see(ToolStarted)
        await world.crash()
    async with world.after(["fine"], [work.tool]) as later:
        await later.lanes.resume_unfinished()
        await later.lanes.wait_until_settled()
        return await recorded(later)


async def record_fork() -> Recorded:
    work = Work()
    async with World(TWO_CALLS, [work.tool]) as world:
        watcher = world.watch()
        await world.send("go")
        await watcher.see(ToolStarted)
        await copy_session(world.store, "s", "fork", None, 0)
        return await recorded(world, "fork")


# --- limits --------------------------------------------------------------------------------------


def call_for_ever(last: Any, *, vary: bool = True) -> Any:
    asked = 0

    def step(context: Context, options: Options) -> Any:
        nonlocal asked
        asked += 1
        return last if options.tool_choice == "none" else Call("look", {"at": asked if vary else 0})

    return step


async def record_limit(script: Any, **limits: int) -> Recorded:
    async with World(script, [look], limits=Limits(**limits)) as world:  # type: ignore[arg-type]
        await world.ask("go")
        return await recorded(world)


async def record_steps_limit() -> Recorded:
    return await record_limit(call_for_ever(Say("")), steps_max=2)


async def record_tool_calls_limit() -> Recorded:
    return await record_limit([[Call("look", {"at": n}) for n in range(5)], "fine"], tool_calls_max=3)


async def record_long_response() -> Recorded:
    return await record_limit([[Call("look", {"at": n}) for n in range(5)], "fine"], calls_per_response_max=3)


async def record_repeated_call() -> Recorded:
    return await record_limit(call_for_ever("fine", vary=False), repeated_calls_max=2, steps_max=4)


async def record_budget() -> Recorded:
    return await record_limit([Raise(BudgetExhausted("the budget of $1 is used up", budget="turn.money"))])


async def record_filtered_answer() -> Recorded:
    return await record_limit([Say("", reason=FinishReason.FILTERED)])


async def record_repeated_correction() -> Recorded:
    async def judge(judged: JudgeInput) -> tuple[float, str]:
        return float(judged.answer == "good"), "it is too vague"

    async with World(["bad", "worse", "bad again", "good"], more=panel_of(judge)) as world:
        await world.ask("go")
        return await recorded(world)


# --- approvals -----------------------------------------------------------------------------------


class AskingPolicy:
    def __init__(self) -> None:
        self.reason, self.folder, self.clock = "it sends", "/here", VirtualClock()

    def decide(self, *_: Any) -> PolicyVerdict:
        return PolicyVerdict("ask", self.reason)

    def world(self, **more: Any) -> World:
        trust = TrustServices(self, now_ms=self.clock.now_ms, cwd=lambda session: self.folder)  # type: ignore[arg-type]
        return World([[Call("look")], "fine"], [look], clock=self.clock, more={"trust": trust}, **more)


async def pending(world: World) -> ApprovalAsked:
    found = (await world.lanes.get("s").load_session()).pending_approval
    assert found is not None
    return found


async def record_answer(
    verdict: Any = "approved", reason: str = "", before: Callable[[AskingPolicy, World], Awaitable[None]] | None = None
) -> Recorded:
    policy = AskingPolicy()
    async with policy.world() as world:
        await world.ask("go")
        if before is not None:
            await before(policy, world)
        answer = ApprovalAnswered((await pending(world)).id, verdict, reason=reason)
        await (await world.lanes.get("s").answer_approval(answer)).reply
        return await recorded(world)


async def record_denial() -> Recorded:
    return await record_answer("denied")


async def record_denial_with_reason() -> Recorded:
    return await record_answer("denied", "not today")


async def record_expiry() -> Recorded:
    async with AskingPolicy().world(limits=Limits(approval_expires_s=60, lane_idle_s=10)) as world:
        watcher = world.watch()
        await world.ask("go")
        await watcher.see(TurnEnded)
        return await recorded(world)


async def record_abort_of_a_paused_turn() -> Recorded:
    async with AskingPolicy().world() as world:
        await world.ask("go")
        await world.abort()
        return await recorded(world)


async def record_changed_effect() -> Recorded:
    async def change(policy: AskingPolicy, world: World) -> None:
        policy.reason = "it sends to another address"

    return await record_answer(before=change)


async def record_changed_folder() -> Recorded:
    async def change(policy: AskingPolicy, world: World) -> None:
        policy.folder = "/there"

    return await record_answer(before=change)


async def record_changed_call() -> Recorded:
    async def change(policy: AskingPolicy, world: World) -> None:
        await world.lanes.get("s").record_changes(
            msgspec.structs.replace(await pending(world), id="other", digest="of another call")
        )

    return await record_answer(before=change)


class HoldingWorld:
    """A call that has run and waits with its changes."""

    def __init__(self) -> None:
        self.hold, self.clock = HoldingTool(), VirtualClock()
        self.trust = {"trust": TrustServices(now_ms=self.clock.now_ms, cwd=lambda session: "/here")}

    def world(self, **more: Any) -> World:
        return World([[Call("hold")], "fine"], [self.hold], clock=self.clock, more=self.trust, **more)


async def record_changes_answer(verdict: Any, reason: str = "") -> Recorded:
    async with HoldingWorld().world() as world:
        await world.ask("go")
        answer = ApprovalAnswered((await pending(world)).id, verdict, reason=reason)
        await (await world.lanes.get("s").answer_approval(answer)).reply
        return await recorded(world)


async def record_denied_changes() -> Recorded:
    return await record_changes_answer("denied")


async def record_denied_changes_with_reason() -> Recorded:
    return await record_changes_answer("denied", "not today")


async def record_expired_changes() -> Recorded:
    async with HoldingWorld().world(limits=Limits(approval_expires_s=60, lane_idle_s=10)) as world:
        watcher = world.watch()
        await world.ask("go")
        await watcher.see(TurnEnded)
        return await recorded(world)


async def record_stopped_changes() -> Recorded:
    async with HoldingWorld().world() as world:
        await world.ask("go")
        await world.abort()
        return await recorded(world)


async def record_interrupted_changes() -> Recorded:
    holding = HoldingWorld()
    holding.hold.apply_gate.clear()
    async with holding.world(limits=Limits(resumes_max=0)) as world:
        await world.ask("go")
        holding.hold.began.clear()
        await world.lanes.get("s").answer_approval(ApprovalAnswered((await pending(world)).id, "approved"))
        await holding.hold.began.wait()
        await world.crash()
    async with world.after(["fine"], [holding.hold], more=holding.trust) as later:
        await later.lanes.resume_unfinished()
        await later.lanes.wait_until_settled()
        await later.lanes.get("s").release(fail=True)
        return await recorded(later)


async def record_client_call() -> Recorded:
    trust = TrustServices(now_ms=VirtualClock().now_ms)
    async with World([[Call("weather")], "fine"], more={"trust": trust}) as world:
        guest = ClientTool("weather", "The weather.", {"type": "object"})
        await world.lanes.get("s").record_changes(SessionChanged(guests=(guest,)))
        await world.ask("go")
        answer = ApprovalAnswered((await pending(world)).id, "approved", result="warm")
        await (await world.lanes.get("s").answer_approval(answer)).reply
        return await recorded(world)


SCENARIOS: list[tuple[str, Callable[[], Awaitable[Recorded]]]] = [
    ("cancelled", record_abort),
    ("cancelled", record_abort_of_a_paused_turn),
    ("not_started", record_abort),
    ("skipped", record_steer),
    ("turn_ended", record_turn_that_was_given_up),
    ("outcome_unknown", record_turn_that_was_given_up),
    ("outcome_unknown", record_resumed_call),
    ("call_denied", record_denial),
    ("call_denied_because", record_denial_with_reason),
    ("approval_expired", record_expiry),
    ("call_changed", record_changed_call),
    ("effect_changed", record_changed_effect),
    ("folder_changed", record_changed_folder),
    ("client_runs_call", record_client_call),
    ("changes_denied", record_denied_changes),
    ("changes_denied_because", record_denied_changes_with_reason),
    ("changes_expired", record_expired_changes),
    ("changes_stopped", record_stopped_changes),
    ("changes_unknown", record_interrupted_changes),
    ("limit_notice", record_steps_limit),
    ("steps_bound", record_steps_limit),
    ("tool_calls_bound", record_tool_calls_limit),
    ("response_calls_exceeded", record_long_response),
    ("turn_calls_exceeded", record_tool_calls_limit),
    ("call_repeated", record_repeated_call),
    ("limit_answer", record_steps_limit),
    ("budget_answer", record_budget),
    ("answer_filtered", record_filtered_answer),
    ("correction_repeated", record_repeated_correction),
    ("forked_call", record_fork),
]


def read_texts(records: list[Record]) -> str:
    """Return the journal, and the messages that a session computes from it."""
    session = Session("read")
    for record in records:
        session.apply(record.seq, record.at, record.event)
    return b"\n".join(encode_event(record.event) for record in records).decode() + repr(session.messages)


@pytest.mark.parametrize(("field", "record"), SCENARIOS, ids=lambda value: getattr(value, "__name__", value))
def test_a_session_that_another_release_recorded_is_replayed_with_the_sentences_of_that_release(
    field: str, record: Callable[[], Awaitable[Recorded]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other release has other words for every sentence; today's current version is the one of this release."""

    @virtual
    async def check() -> None:
        monkeypatch.setitem(WORDINGS, "reworded", REWORDED)
        with monkeypatch.context() as other_release:
            other_release.setattr(lane, "CURRENT_VERSION", "reworded")
            records = await record()
        texts = read_texts(records)
        assert f"<{field}>" in texts
        assert not re.search(r"\{(bound|count|reason|where|paths)\}", texts), "a placeholder was left"
        replayed = await replay_journal(records)
        assert replayed.is_identical, replayed.difference

    check()


def test_every_sentence_has_a_scenario() -> None:
    assert {field for field, _ in SCENARIOS} == set(SENTENCES)


# --- sentences without a version -----------------------------------------------------------------

# Modules whose sentences reach the journal, and the sentences without a version: a replay takes them from the
# recording, or they are not journaled. A new sentence belongs into `JournalWording` unless one of these holds for it.
UNVERSIONED = {
    "core/open_turn.py": {"# Skill: "},  # a heading, recognised in recorded messages
    "turn/loop.py": {"The model could not answer: "},  # a failure
    "turn/tool_calls.py": {"Not run: {}. Answer with what you have."},  # a budget refused the call
    "turn/call_authorisation.py": {  # of tool results
        "Not allowed: {}",
        "[The person changed this call before it ran, to {}]",
        "[Secrets were removed from this call before it ran: {}]",
    },
    "turn/change_answers.py": set(),
    "turn/held_changes.py": {  # of approval requests and tool results
        "a sub-agent cannot ask for approval",
        "are too large to be shown",
        "content from outside is in this conversation",
        "contains a secret",
        "has a name that cannot be shown",
        "other programs obey these files",
        "The command has run. What it changed here was held back and is not done yet",
        "{}, because {}.",
        " Not offered here and not done: {}.",
        "[held back, not applied: {}]",
    },
    "turn/answer_acceptance.py": {
        "no answer of the wanted shape came: {}",  # a failure
        "no verdict came within {} s",  # a verdict
        "waiting for the judges",  # not journaled
    },
    "turn/model_call.py": {
        "The code of the provider of {} yielded {}({}), which is no piece of an answer.",  # a failure
        "the model did not finish within {} s",  # a failure, or the reason of a restart
        "waiting for the model",  # not journaled
    },
    "turn/budgeted_model_call.py": {"waiting for a budget"},  # not journaled
    "lane/replies.py": {"Waiting for approval {}: {}({})"},  # not journaled
    "lane/lane.py": {
        "This turn was ended: {} processes in a row ended while they ran it.",  # a failure; the rest is not journaled
        "lane {}",
        "the agent is closed",
        "the process that ran this turn stopped",
        "the session was changed outside its lane",
    },
    "lane/turn_attempt.py": {
        "Something went wrong inside the runtime.",  # a failure
        "The turn could not continue: {}.",
        "the agent was closed; the turn resumes when the agent is opened again",  # not journaled
        "internal error in the runtime; see its log for details",
    },
}


def read_sentences(tree: ast.Module) -> Iterator[str]:
    """Yield texts of several words, placeholders included, except docstrings and messages of logs and errors."""
    skipped: set[ast.AST] = set()
    for node in ast.walk(tree):
        match node:
            case ast.Expr(value=ast.Constant()) | ast.Raise() | ast.Assert():
                skipped.update(ast.walk(node))
            case ast.Call(func=ast.Attribute(value=ast.Name(id="log"))):
                skipped.update(ast.walk(node))
            case ast.JoinedStr():
                skipped.update(node.values)
    for node in ast.walk(tree):
        match node:
            case _ if node in skipped:
                continue
            case ast.JoinedStr(values=values):
                text = "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in values)
            case ast.Constant(value=str() as text):
                pass
            case _:
                continue
        if len(text.split()) > 1 and re.search(r"[a-z]", text):
            yield text


@pytest.mark.parametrize("module", UNVERSIONED)
def test_the_turn_writes_no_sentence_without_a_version(module: str) -> None:
    tree = ast.parse((Path(mainstay.__file__).parent / module).read_text())
    found = set(read_sentences(tree))
    assert found == UNVERSIONED[module], "a sentence that a replay produces again belongs into JournalWording"


def test_the_current_version_is_what_a_new_turn_names() -> None:
    assert WORDINGS[CURRENT_VERSION] is CURRENT
    assert lane.CURRENT_VERSION == CURRENT_VERSION
