"""A call that needs an approval: the turn waits on disk, holds no memory, and goes on with the answer."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from support.kernel_world import World, virtual

from mainstay.core.errors import ApprovalUnknown, InputRefused
from mainstay.core.events import ApprovalAnswered, ApprovalAsked, ToolStarted, TurnEnded, TurnResumed
from mainstay.core.limits import Limits
from mainstay.core.outcome import Aborted, Answered, Paused
from mainstay.core.tools import tool
from mainstay.testing import Call, VirtualClock
from mainstay.trust.policy import PolicyContext, PolicyVerdict
from mainstay.turn.dependencies import TrustServices


class Asks:
    """A policy that asks about some tools and denies others."""

    def __init__(self, *ask: str, deny: tuple[str, ...] = ()) -> None:
        self.ask = set(ask)
        self.deny = set(deny)
        self.seen: list[PolicyContext] = []

    def decide(self, tool: Any, arguments: Any, context: Any, policy_context: PolicyContext) -> PolicyVerdict:
        self.seen.append(policy_context)
        if tool.name in self.deny:
            return PolicyVerdict("deny", "the house forbids it")
        if tool.name in self.ask:
            return PolicyVerdict("ask", "it leaves the house", always_rule=f"{tool.name}")
        return PolicyVerdict("allow")


def trusting(policy: Asks, clock: VirtualClock | None = None) -> dict[str, Any]:
    return {"trust": TrustServices(policy, now_ms=(clock or VirtualClock()).now_ms)}  # type: ignore[arg-type]


def sender() -> tuple[Any, list[str]]:
    sent: list[str] = []

    @tool(untrusted=False, sink=False)
    async def send(to: str) -> str:
        sent.append(to)
        return f"sent to {to}"

    return send, sent


SCRIPT = [[Call("send", {"to": "ops"})], "told them"]


def asked(world: World, key: str = "s") -> ApprovalAsked:
    return next(one.asked for one in world.services.approvals if one.session == key)


async def answer(world: World, verdict: Any = "approved", key: str = "s", **more: Any) -> Any:
    return await (
        await world.lanes.get(key).answer_approval(ApprovalAnswered(asked(world, key).id, verdict, **more))
    ).reply


@virtual
async def test_a_call_that_needs_approval_pauses_the_turn_and_runs_once_it_is_approved() -> None:
    send, sent = sender()
    async with World(SCRIPT, [send], more=trusting(Asks("send"))) as world:
        watcher = world.watch()
        reply = await world.ask("tell ops")
        question = asked(world)
        assert isinstance(reply.outcome, Paused)
        assert reply.outcome.approval == question.id
        assert (question.name, question.input, question.why) == ("send", '{"to":"ops"}', "it leaves the house")
        assert sent == [], "nothing has run"
        assert watcher.of(ApprovalAsked, TurnEnded) == [await watcher.see(ApprovalAsked)]
        assert not world.lanes.get("s").is_busy, "nothing is held while it waits"
        final = await answer(world, by="ana")
        assert (final.text, final.outcome, final.turn) == ("told them", Answered(), 1)
        assert sent == ["ops"]
        assert not len(world.services.approvals)
        await world.check_replay()


@virtual
async def test_an_answered_approval_is_not_listed_while_its_call_runs() -> None:
    is_running, may_end = asyncio.Event(), asyncio.Event()

    @tool(untrusted=False, sink=False)
    async def send(to: str) -> str:
        is_running.set()
        await may_end.wait()
        return f"sent to {to}"

    async with World(SCRIPT, [send], more=trusting(Asks("send"))) as world:
        await world.ask("tell ops")
        running = asyncio.create_task(answer(world))
        await is_running.wait()
        assert list(world.services.approvals) == []
        may_end.set()
        assert (await running).outcome == Answered()


@virtual
async def test_a_denied_call_does_not_run_and_the_model_is_told_why() -> None:
    send, sent = sender()
    async with World(SCRIPT, [send], more=trusting(Asks("send"))) as world:
        await world.ask("tell ops")
        final = await answer(world, "denied", reason="not on a Sunday")
        assert final.text == "told them"
        assert sent == []
        [result] = await world.results()
        assert result.is_error
        assert "not on a Sunday" in result.content
        await world.check_replay()


@virtual
async def test_a_paused_turn_survives_a_crash_and_is_not_asked_again() -> None:
    send, sent = sender()
    policy = Asks("send")
    async with World(SCRIPT, [send], more=trusting(policy)) as world:
        await world.ask("tell ops")
        question = asked(world)
        await world.crash()
    async with world.after(["told them"], [send], more=trusting(policy)) as second:
        assert await second.lanes.resume_unfinished() == [], "there is nothing to go on with yet"
        assert asked(second) == question
        final = await answer(second)
        assert (final.text, sent) == ("told them", ["ops"])
        kinds = [type(record.event) for record in await second.store.read_records("s")]
        assert kinds.count(ApprovalAsked) == 1
        await second.check_replay()


@virtual
async def test_a_retry_of_a_prompt_that_waits_for_approval_gets_the_same_reply() -> None:
    send, sent = sender()
    async with World(SCRIPT, [send], more=trusting(Asks("send"))) as world:
        first = await world.ask("tell ops", id="once")
        async with asyncio.timeout(5):
            retry = await world.ask("tell ops", id="once")
        assert isinstance(first.outcome, Paused)
        assert retry == first
        final = await answer(world)
        assert (final.outcome, sent) == (Answered(), ["ops"])
        assert (await world.ask("tell ops", id="once")).text == final.text


@virtual
async def test_f65_retries_at_the_same_time_all_get_the_paused_reply() -> None:
    send, _ = sender()
    async with World(SCRIPT, [send], more=trusting(Asks("send"))) as world:
        first = await world.ask("tell ops", id="once")
        async with asyncio.timeout(5):
            retries = await asyncio.gather(*(world.ask("tell ops", id="once") for _ in range(3)))
        assert retries == [first] * 3
        assert (await answer(world)).outcome == Answered()


@virtual
async def test_f65_retries_after_a_crash_get_the_paused_reply_while_the_lane_is_awake() -> None:
    send, _ = sender()
    async with World(SCRIPT, [send], more=trusting(Asks("send"))) as world:
        first = await world.ask("tell ops", id="once")
        await world.crash()
    async with world.after(["told them"], [send], more=trusting(Asks("send"))) as second:
        second.lanes.get("s").wake()
        async with asyncio.timeout(5):
            retries = await asyncio.gather(*(second.ask("tell ops", id="once") for _ in range(3)))
        assert retries == [first] * 3


@virtual
async def test_an_approval_recorded_just_before_a_crash_is_executed_by_the_next_process() -> None:
    send, sent = sender()
    async with World(SCRIPT, [send], more=trusting(Asks("send"))) as world:
        await world.ask("tell ops")
        lane = world.lanes.get("s")
        await (await lane._load_writer()).record(ApprovalAnswered(asked(world).id, "approved", turn=1, step=1))
        await world.crash()
    async with world.after(["told them"], [send], more=trusting(Asks("send"))) as second:
        assert await second.lanes.resume_unfinished() == ["s"]
        await second.lanes.wait_until_settled()
        assert sent == ["ops"]
        assert [one.text for one in await second.history() if one.role == "assistant"][-1] == "told them"


@virtual
async def test_an_unanswered_approval_expires_as_a_denial() -> None:
    send, sent = sender()
    clock = VirtualClock()
    limits = Limits(approval_expires_s=3600, lane_idle_s=10)
    async with World(SCRIPT, [send], limits=limits, clock=clock, more=trusting(Asks("send"), clock)) as world:
        await world.ask("tell ops")
        watcher = world.watch()
        await watcher.see(TurnEnded)
        assert sent == []
        [result] = await world.results()
        assert "in time" in result.content
        assert (await watcher.see(ApprovalAnswered)).verdict == "expired"
        assert clock.monotonic() >= 3600


@virtual
async def test_u23_an_approval_holds_for_exactly_the_call_that_was_shown_and_only_once() -> None:
    """F38: what runs is what was approved; the next call is asked about again."""
    send, sent = sender()
    script = [[Call("send", {"to": "ops"})], [Call("send", {"to": "ops"})], "done"]
    async with World(script, [send], more=trusting(Asks("send"))) as world:
        await world.ask("tell ops twice")
        first = asked(world)
        second_reply = await answer(world)
        assert isinstance(second_reply.outcome, Paused), "the same call again is another call"
        assert asked(world).id != first.id
        with pytest.raises(ApprovalUnknown):
            await world.lanes.get("s").answer_approval(ApprovalAnswered(first.id, "approved"))
        assert sent == ["ops"]
        assert (await answer(world)).text == "done"
        assert sent == ["ops", "ops"]


@virtual
async def test_u23_a_call_that_is_no_longer_the_one_that_was_asked_about_does_not_run() -> None:
    send, sent = sender()
    async with World(SCRIPT, [send], more=trusting(Asks("send"))) as world:
        await world.ask("tell ops")
        session = await world.lanes.get("s").load_session()
        assert session.open_turn is not None
        [call] = session.open_turn.step_calls
        forged = call.__class__(call.id, call.name, '{"to": "mallory"}')
        session.open_turn.step_calls = (forged,)
        await answer(world)
        assert sent == []


@virtual
async def test_an_amended_call_runs_with_the_persons_arguments_and_the_model_is_told() -> None:
    send, sent = sender()
    async with World(SCRIPT, [send], more=trusting(Asks("send"))) as world:
        await world.ask("tell ops")
        await answer(world, input='{"to": "dev"}')
        assert sent == ["dev"]
        [result] = await world.results()
        assert '{"to": "dev"}' in result.content
        await world.check_replay()


@virtual
async def test_an_amendment_that_is_no_json_is_refused_and_the_approval_stays_open() -> None:
    send, sent = sender()
    async with World(SCRIPT, [send], more=trusting(Asks("send"))) as world:
        await world.ask("tell ops")
        for wrong in ("{", "[1]", '"x"', "\ud800", '{"nobody": 1}'):
            with pytest.raises(InputRefused):
                await answer(world, input=wrong)
        assert asked(world).name == "send"
        assert sent == []


@virtual
async def test_an_amendment_cannot_bypass_a_deny_rule() -> None:
    send, sent = sender()

    class NotToMallory(Asks):
        def decide(self, tool: Any, arguments: Any, context: Any, policy_context: PolicyContext) -> PolicyVerdict:
            if arguments["to"] == "mallory":
                return PolicyVerdict("deny", "never to them")
            return super().decide(tool, arguments, context, policy_context)

    async with World(SCRIPT, [send], more=trusting(NotToMallory("send"))) as world:
        await world.ask("tell ops")
        await answer(world, input='{"to": "mallory"}')
        assert sent == []


@virtual
async def test_a_prompt_while_the_turn_waits_denies_the_call_with_its_text_as_the_reason() -> None:
    send, sent = sender()
    script = [[Call("send", {"to": "ops"})], "as you wish"]
    async with World(script, [send], more=trusting(Asks("send"))) as world:
        await world.ask("tell ops")
        reply = await world.ask("no, write it down instead", sender="ana")
        assert (reply.text, reply.turn) == ("as you wish", 1)
        assert sent == []
        [result] = await world.results()
        assert "write it down instead" in result.content
        assert world.provider.asked[-1].messages[-1] == ("user", "no, write it down instead")
        await world.check_replay()


@virtual
async def test_abort_ends_a_turn_that_waits_and_the_next_prompt_starts_afresh() -> None:
    send, sent = sender()
    async with World([*SCRIPT[:1], "hello"], [send], more=trusting(Asks("send"))) as world:
        watcher = world.watch()
        await world.ask("tell ops")
        assert await world.abort() is True
        assert (await watcher.see(TurnEnded)).outcome == Aborted()
        assert not len(world.services.approvals)
        assert (await world.ask("hi")).text == "hello"
        assert sent == []
        await world.check_replay()


@virtual
async def test_calls_before_the_question_have_run_and_calls_after_it_wait_for_the_answer() -> None:
    send, sent = sender()
    ran: list[int] = []

    @tool(untrusted=False, sink=False)
    async def step(n: int) -> str:
        ran.append(n)
        return f"did {n}"

    calls = [Call("step", {"n": 1}), Call("send", {"to": "ops"}), Call("step", {"n": 2})]
    async with World([calls, "done"], [send, step], more=trusting(Asks("send"))) as world:
        await world.ask("go")
        assert (ran, sent) == ([1], [])
        await answer(world)
        assert (ran, sent) == ([1, 2], ["ops"])
        assert [one.content for one in await world.results()] == ["did 1", "sent to ops", "did 2"]
        await world.check_replay()


@virtual
async def test_a_denied_tool_is_never_run_and_the_model_gets_one_sentence() -> None:
    send, sent = sender()
    async with World(SCRIPT, [send], more=trusting(Asks(deny=("send",)))) as world:
        assert (await world.ask("tell ops")).text == "told them"
        [result] = await world.results()
        assert (result.is_error, result.content) == (True, "Not allowed: the house forbids it")
        assert sent == []
        assert not [r for r in await world.store.read_records("s") if isinstance(r.event, ToolStarted)]
        await world.check_replay()


@virtual
async def test_an_answer_in_the_very_moment_of_the_question_is_not_lost() -> None:
    """A watcher may answer before the lane has released the turn."""
    send, sent = sender()
    async with World(SCRIPT, [send], more=trusting(Asks("send"))) as world:
        watcher = world.watch()
        ticket = await world.send("tell ops")
        question = await watcher.see(ApprovalAsked)
        other = await world.lanes.get("s").answer_approval(ApprovalAnswered(question.id, "approved"))
        assert (await other.reply).text == "told them"
        assert sent == ["ops"]
        assert (await ticket.reply).text in ("told them", f"Waiting for approval {question.id}: send({question.input})")


@virtual
async def test_a_crash_while_an_approved_call_runs_leaves_its_outcome_unknown_and_does_not_run_it_again() -> None:
    runs: list[str] = []
    began = asyncio.Event()

    @tool(untrusted=False, sink=False)
    async def send(to: str) -> str:
        runs.append(to)
        began.set()
        await asyncio.Event().wait()
        return ""

    async with World(SCRIPT, [send], more=trusting(Asks("send"))) as world:
        await world.ask("tell ops")
        await world.lanes.get("s").answer_approval(ApprovalAnswered(asked(world).id, "approved"))
        await began.wait()
        await world.crash()
    async with world.after(["I do not know"], [send], more=trusting(Asks("send"))) as second:
        assert await second.lanes.resume_unfinished() == ["s"]
        await second.lanes.wait_until_settled()
        assert runs == ["ops"]
        [result] = await second.results()
        assert "Outcome unknown" in result.content
        assert any(isinstance(r.event, TurnResumed) for r in await second.store.read_records("s"))


@virtual
async def test_sessions_wait_only_for_their_own_answers() -> None:
    send, sent = sender()
    script = [[Call("send", {"to": "a"})], [Call("send", {"to": "b"})], "one", "two"]
    async with World(script, [send], more=trusting(Asks("send"))) as world:
        await world.ask("x", "a")
        await world.ask("x", "b")
        with pytest.raises(ApprovalUnknown):
            await world.lanes.get("b").answer_approval(ApprovalAnswered(asked(world, "a").id, "approved"))
        await answer(world, key="b")
        assert sent == ["b"]
        assert asked(world, "a").input == '{"to":"a"}'
