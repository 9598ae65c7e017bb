"""Answers as people see them: while they are written, when they are done, and when there is none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from support.chat_world import World, running

from mainstay import tool
from mainstay.config.schema import PolicySettings
from mainstay.core.channels import ChannelCapabilities
from mainstay.core.errors import InputRefused, Overloaded, RequestRefused
from mainstay.core.events import TextDelta, ToolFinished
from mainstay.core.messages import FinishReason
from mainstay.core.ports import Context, Options, StreamFinished, TextPiece, ToolCallPiece
from mainstay.core.tool_ports import OutgoingMessage
from mainstay.gateway import delivery
from mainstay.gateway.draft_message import LiveAnswer
from mainstay.gateway.room_routing import ChannelRoutingSettings
from mainstay.providers.scripted import Call, Pieces, Raise, Stall, Step
from mainstay.testing.channel_rig import eventually, wait_until
from mainstay.testing.loopback_channel import ALL_CAPABILITIES, LoopbackRig
from mainstay.testing.store_writer import expect_error

END = StreamFinished(FinishReason.END)


def written(*pieces: str | Stall) -> Pieces:
    return Pieces([TextPiece(one) if isinstance(one, str) else one for one in pieces] + [END])


def called(text: str, name: str, input: str = "{}") -> Pieces:
    """What a model says, and then calls a tool."""
    call = ToolCallPiece(0, name, input)
    return Pieces([TextPiece(text), call, StreamFinished(FinishReason.TOOL_CALLS)])


async def test_an_answer_grows_in_one_message_and_ends_as_it_is_stored(tmp_path: Path) -> None:
    first, second = Stall(), Stall()
    rig = LoopbackRig()
    script = [written("The beginning of an answer", first, ", its middle", second, " and its end.")]
    async with running(World(tmp_path, rig, script=script)) as world:
        thread = await rig.send_message("C1", "tell me", mention=True)
        begun = await world.shown(rig, "C1", "The beginning")
        assert begun.thread == thread
        first.release()
        grown = await world.shown(rig, "C1", "its middle")
        assert grown.id == begun.id
        second.release()
        (receipt,) = await world.told(world.session(rig, "C1", thread))
        shown = await rig.posted_messages("C1")
        assert [one.text for one in shown] == ["The beginning of an answer, its middle and its end."]
        assert receipt.ids == (begun.id,)
        assert shown[0].edited


@pytest.mark.parametrize("shows", [ALL_CAPABILITIES, ChannelCapabilities(threads=True)], ids=["edits", "no edits"])
async def test_what_the_agent_says_before_a_tool_call_stays(tmp_path: Path, shows: ChannelCapabilities) -> None:
    @tool(effect="pure", untrusted=False, sink=False)
    async def look_up() -> str:
        """Look it up."""
        return "42"

    stall = Stall()
    rig = LoopbackRig(shows)
    script = [
        called("I look it up first.", "look_up"),
        called("And again.", "look_up"),
        written("It is ", stall, "42."),
    ]
    world = World(tmp_path, rig, script=script)
    world.tools = [look_up]
    async with running(world):
        thread = await rig.send_message("C1", "what is it?", mention=True)
        await stall.reached.wait()
        if shows.edits:
            growing = await world.shown(rig, "C1", "It is")
            assert growing.text == "I look it up first.\n\nAnd again.\n\nIt is"
        stall.release()
        await world.told(world.session(rig, "C1", thread))
        (shown,) = await rig.posted_messages("C1")
        assert shown.text == "I look it up first.\n\nAnd again.\n\nIt is 42."


async def test_what_was_said_before_an_approval_stays_in_the_draft_after_it(tmp_path: Path) -> None:
    """The draft goes on after the approval, of which the live events of the first step are not known any more."""
    from mainstay.config.schema import PolicySettings

    @tool(effect="unsafe", untrusted=False, sink=False)
    async def launch() -> str:
        """Launch."""
        return "launched"

    stall = Stall()
    rig = LoopbackRig()
    script = [called("I want to launch.", "launch"), written("It is ", stall, "up.")]
    world = World(tmp_path, rig, script=lambda context, options: script.pop(0))
    world.tools, world.config = [launch], {"policy": PolicySettings(ask=("launch",))}
    async with running(world):
        thread = await rig.send_message("C1", "go", mention=True)
        await world.shown(rig, "C1", "/approve")
        await world.restart()
        await rig.send_message("C1", "/approve", thread=thread)
        await stall.reached.wait()
        growing = await world.shown(rig, "C1", "It is")
        assert growing.text == "I want to launch.\n\nIt is"
        stall.release()
        done = await world.shown(rig, "C1", "up.")
        assert done.text == "I want to launch.\n\nIt is up."


async def test_where_nothing_can_be_edited_being_busy_is_shown_and_then_the_answer(tmp_path: Path) -> None:
    stall = Stall()
    rig = LoopbackRig(ChannelCapabilities(typing=True, threads=True))
    async with running(World(tmp_path, rig, script=[written("Half of it", stall, " and all of it.")])) as world:
        await rig.send_message("C1", "tell me", mention=True)
        await wait_until(lambda: rig.platform.typing_notifications, "it shows that it is busy")
        await stall.reached.wait()
        assert not await rig.posted_messages("C1")
        stall.release()
        await world.shown(rig, "C1", "Half of it and all of it.")
        assert len(await rig.posted_messages("C1")) == 1


async def test_streaming_can_be_switched_off(tmp_path: Path) -> None:
    stall = Stall()
    rig = LoopbackRig()
    world = World(tmp_path, rig, script=[written("A long enough beginning of it", stall, ".")])
    world.rules = {"chat": ChannelRoutingSettings(workspace="main", stream=False)}
    async with running(world):
        await rig.send_message("C1", "tell me", mention=True)
        await stall.reached.wait()
        await wait_until(lambda: rig.platform.typing_notifications, "it shows that it is busy")
        assert not await rig.posted_messages("C1")
        stall.release()
        await world.shown(rig, "C1", "beginning of it.")
        assert not rig.platform.edits


async def test_a_tool_that_runs_is_named_while_it_does(tmp_path: Path) -> None:
    stall = Stall()

    @tool(effect="pure", untrusted=False, sink=False)
    async def look_around() -> str:
        """Look."""
        await stall.hold()
        return "nothing"

    rig = LoopbackRig()
    world = World(tmp_path, rig, script=[[Call("look_around")], "I see nothing."])
    world.tools = [look_around]
    async with running(world):
        await rig.send_message("C1", "look", mention=True)
        await stall.reached.wait()
        await wait_until(
            lambda: ("look_around") in [note for _, note in rig.platform.typing_notifications], "the tool is named"
        )
        stall.release()
        await world.shown(rig, "C1", "I see nothing.")


@pytest.mark.parametrize("answer", ["[SILENT]", "  [SILENT]\n"])
async def test_silent_posts_nothing_and_there_is_a_receipt(tmp_path: Path, answer: str) -> None:
    rig = LoopbackRig()
    async with running(World(tmp_path, rig, script=[answer, "aloud"])) as world:
        thread = await rig.send_message("C1", "anything?", mention=True)
        session = world.session(rig, "C1", thread)
        assert [one.state for one in await world.told(session)] == ["silent"]
        assert not await rig.posted_messages("C1")
        await rig.send_message("C1", "and now?", thread=thread)
        await world.shown(rig, "C1", "aloud")


async def test_text_before_a_silent_end_is_deleted(tmp_path: Path) -> None:
    @tool(effect="pure", untrusted=False, sink=False)
    def check() -> str:
        """Check."""
        return "fine"

    stall = Stall()
    rig = LoopbackRig()
    calls = Pieces(
        [
            TextPiece("Let me look at that for a moment."),
            stall,
            *_call("check"),
            StreamFinished(FinishReason.TOOL_CALLS),
        ]
    )
    world = World(tmp_path, rig, script=[calls, "[SILENT]"])
    world.tools = [check]
    async with running(world):
        thread = await rig.send_message("C1", "check", mention=True)
        await world.shown(rig, "C1", "Let me look")
        stall.release()
        await world.told(world.session(rig, "C1", thread))
        assert not await rig.posted_messages("C1")


def _call(name: str) -> list[Any]:
    from mainstay.core.ports import ToolCallPiece

    return [ToolCallPiece(0, name, "{}")]


async def test_a_turn_that_fails_says_why_in_a_sentence(tmp_path: Path) -> None:
    rig = LoopbackRig()
    script = [Raise(RequestRefused("the model refuses this request"))]
    async with running(World(tmp_path, rig, script=script)) as world:
        thread = await rig.send_message("C1", "try", mention=True)
        (receipt,) = await world.told(world.session(rig, "C1", thread))
        (shown,) = await rig.posted_messages("C1")
        assert "refuses" in shown.text
        assert receipt.state == "sent"


async def test_a_stopped_turn_ends_its_message_and_says_so(tmp_path: Path) -> None:
    stall = Stall()
    rig = LoopbackRig()
    async with running(World(tmp_path, rig, script=[written("A long story begins here", stall)])) as world:
        thread = await rig.send_message("C1", "tell me", mention=True)
        await world.shown(rig, "C1", "A long story")
        await rig.send_message("C1", "/stop", thread=thread)
        await world.shown(rig, "C1", "Stopped.")
        await world.shown(rig, "C1", "(stopped)")
        await world.told(world.session(rig, "C1", thread))
        assert sorted(one.text for one in await rig.posted_messages("C1")) == [
            "A long story begins here\n\n_(stopped)_",
            "Stopped.",
        ]


async def test_an_answer_that_broke_off_is_begun_again_in_the_same_message(tmp_path: Path) -> None:
    stall = Stall()
    broken = Pieces([TextPiece("Nonsense that breaks off, and"), stall, Raise(Overloaded("overloaded"))])
    rig = LoopbackRig()
    async with running(World(tmp_path, rig, script=[broken, "All is well."])) as world:
        await rig.send_message("C1", "go", mention=True)
        begun = await world.shown(rig, "C1", "Nonsense")
        stall.release()
        ended = await world.shown(rig, "C1", "All is well.")
        assert ended.id == begun.id
        assert [one.text for one in await rig.posted_messages("C1")] == ["All is well."]


async def test_a_message_that_a_user_deleted_while_it_grew_is_posted_again(tmp_path: Path) -> None:
    stall = Stall()
    rig = LoopbackRig()
    async with running(
        World(tmp_path, rig, script=[written("The beginning of an answer", stall, " and its end.")])
    ) as world:
        await rig.send_message("C1", "tell me", mention=True)
        begun = await world.shown(rig, "C1", "The beginning")
        rig.platform.messages.remove(rig.platform.find_message(begun.id))
        stall.release()
        await world.shown(rig, "C1", "and its end.")
        assert len(await rig.posted_messages("C1")) == 1


async def test_an_answer_is_posted_to_the_thread_with_any_source_of_the_prompt(tmp_path: Path) -> None:
    rig = LoopbackRig()
    async with running(World(tmp_path, rig)) as world:
        thread = await rig.send_message("C1", "hello", mention=True)
        session = world.session(rig, "C1", thread)
        await world.told(session)
        await world.accept(session, "a trigger fires", sender="trigger:daily")
        answer = await world.shown(rig, "C1", "a trigger fires")
        assert answer.thread == thread


async def test_a_question_is_posted_with_its_very_call_and_answered_there(tmp_path: Path) -> None:
    ran: list[str] = []

    @tool(effect="unsafe", sink=True, untrusted=False)
    def launch(where: str) -> str:
        """Launch."""
        ran.append(where)
        return "launched"

    def launching(context: Context, options: Options) -> Step:
        said = context.messages[-1].role == "tool"
        return "It flies." if said else [Call("launch", {"where": "```moon```"})]

    rig = LoopbackRig()
    world = World(tmp_path, rig, script=launching)
    world.tools = [launch]
    from mainstay.config.schema import PolicySettings

    world.config = {"policy": PolicySettings(ask=("launch",))}
    async with running(world):
        thread = await rig.send_message("C1", "launch it", mention=True)
        asked = await world.shown(rig, "C1", "/approve")
        assert "where: \\x60\\x60\\x60moon\\x60\\x60\\x60" in asked.text
        await rig.send_message("C1", "/approve", user="eve", thread=thread)
        await rig.send_message("C1", "/status", thread=thread)
        await world.shown(rig, "C1", "Waiting for an approval")
        assert not ran
        await world.restart()
        await rig.send_message("C1", "/approve", user="bob", thread=thread)
        await world.shown(rig, "C1", "Approved.")
        await world.shown(rig, "C1", "It flies.")
        assert ran == ["```moon```"]
        assert sum("May this be done?" in one.text for one in await rig.posted_messages("C1")) == 1


async def test_an_approval_answered_while_the_channel_was_down_is_not_posted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delivery, "BACKOFF_MAX_S", 0.05)

    @tool(effect="unsafe", sink=True, untrusted=False)
    def launch() -> str:
        """Launch."""
        return "launched"

    rig = LoopbackRig(ChannelCapabilities(threads=True))
    world = World(tmp_path, rig, script=[[Call("launch")], "It flies."])
    world.tools = [launch]
    from mainstay.config.schema import PolicySettings

    world.config = {"policy": PolicySettings(ask=("launch",))}
    async with running(world):
        rig.platform.refusals_left["C1"] = 10**9
        thread = await rig.send_message("C1", "launch it", mention=True)
        await wait_until(lambda: rig.platform.request_counts["C1"], "it tries to ask")
        agent = await world.agent()
        (pending,) = await agent.approvals.list()
        await agent.approvals.approve(pending.asked.id, by="ann", wait=False)
        session = world.session(rig, "C1", thread)

        async def answered() -> bool | None:
            return (await agent.sessions.get(session)).approval is None or None

        await eventually(answered, "it is answered")
        rig.platform.refusals_left["C1"] = 0
        await world.shown(rig, "C1", "It flies.")
        assert [one.text for one in await rig.posted_messages("C1")] == ["It flies."]
        await world.told(session)
        question = next(one for one in await world.receipts(session) if not one.turn)
        assert (question.state, question.ids, "answered" in question.note) == ("silent", (), True)


async def test_a_channel_with_a_new_message_is_answered_without_further_waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delivery, "_compute_backoff_s", lambda tries: 3600.0)
    monkeypatch.setattr(delivery, "BACKOFF_FIRST_S", 0.01)
    rig = LoopbackRig(ChannelCapabilities(threads=True))
    rig.platform.refusals_left["C1"] = 1
    async with running(World(tmp_path, rig)) as world:
        await rig.send_message("C1", "hello", mention=True)
        await wait_until(lambda: not rig.platform.refusals_left["C1"], "it could not be posted")
        await rig.send_message("C2", "anybody?")
        await world.shown(rig, "C1", "re: ")


async def test_a_message_of_a_tool_is_posted_once_under_its_key(tmp_path: Path) -> None:
    rig = LoopbackRig()
    (tmp_path / "report.txt").write_text("42")
    async with running(World(tmp_path, rig)) as world:
        thread = await rig.send_message("C1", "hello", mention=True)
        session = world.session(rig, "C1", thread)
        await world.told(session)
        files = (str(tmp_path / "report.txt"),)
        here = OutgoingMessage(to="", text="as you asked", files=files, session=session, key="call-1")
        there = OutgoingMessage(to="chat:C2", text="news", session=session, key="call-2")
        keys = [await world.board.send("main", one) for one in (here, there, here, there)]
        assert len(set(keys)) == 2
        await world.shown(rig, "C2", "news")
        with_file = await eventually(_with_file(rig), "the file is posted")
        assert (with_file.thread, with_file.files) == (thread, (("report.txt", b"42"),))
        await wait_until(lambda: not world.board._deliverer.is_busy, "all is posted")
        assert len(await rig.posted_messages("C2")) == 1
        assert len(await rig.posted_messages("C1")) == 3
        assert {one.key for one in await world.receipts(session) if not one.turn} == set(keys)


def _with_file(rig: LoopbackRig) -> Any:
    async def look() -> Any:
        return next((one for one in await rig.posted_messages("C1") if one.files), None)

    return look


@pytest.mark.parametrize("to", ["chat:C2", "chat:D9", "other:C1", "nonsense", ""])
async def test_a_workspace_cannot_reach_rooms_of_another(tmp_path: Path, to: str) -> None:
    rig = LoopbackRig()
    world = World(tmp_path, rig)
    world.rules = {"chat": ChannelRoutingSettings(workspace="side", rooms={"C1": "main"})}
    async with running(world):
        await world.workspace("main")
        error = await expect_error(
            InputRefused, world.board.send("main", OutgoingMessage(to=to, text="hi", session="s", key="k"))
        )
        assert len(str(error)) > 10
        assert not rig.platform.messages


async def test_a_new_thread_is_opened_once_under_its_key_and_followed(tmp_path: Path) -> None:
    from mainstay.core.chat_addresses import ChatAddress

    rig = LoopbackRig()
    world = World(tmp_path, rig)
    async with running(world):
        at = await world.board.open_thread("main", ChatAddress("chat", "C1"), "The daily report", "trigger-1")
        assert at.thread
        await world.restart()
        assert await world.board.open_thread("main", ChatAddress("chat", "C1"), "The daily report", "trigger-1") == at
        await world.accept(str(at), "The daily report", id="trigger-1")
        answer = await world.shown(rig, "C1", "re: The daily report")
        assert answer.thread == at.thread
        assert len(await rig.posted_messages("C1")) == 2
        await rig.send_message("C1", "thanks", thread=at.thread)
        await world.shown(rig, "C1", "thanks")


async def test_the_model_is_told_the_capabilities_of_the_channel(tmp_path: Path) -> None:
    from mainstay.gateway.channel_hints import build_hints

    rig = LoopbackRig(replace(ALL_CAPABILITIES, markup="plain", length_max=333))
    async with running(World(tmp_path, rig)) as world:
        thread = await rig.send_message("C1", "hello", mention=True)
        session = world.session(rig, "C1", thread)
        (note,) = world.board.channel_hints("main").turn_notes(session, "hello")
        assert note.text == build_hints(rig.channel.capabilities)
        assert "333" in note.text
        assert "plain text" in note.text
        assert not world.board.channel_hints("main").turn_notes("web:ann:x", "hello")
        assert not world.board.channel_hints("side").turn_notes(session, "hello")


@pytest.mark.parametrize(
    "shows",
    [ALL_CAPABILITIES, replace(ALL_CAPABILITIES, search=False), replace(ALL_CAPABILITIES, search=False, history=False)],
    ids=["search", "history", "own log"],
)
async def test_a_room_is_searched_by_the_best_way_there_is(tmp_path: Path, shows: ChannelCapabilities) -> None:
    rig = LoopbackRig(shows)
    async with running(World(tmp_path, rig, script=lambda context, options: "noted")) as world:
        thread = await rig.send_message("C1", "the giraffe is tall", mention=True)
        session = world.session(rig, "C1", thread)
        await world.told(session)
        await rig.send_message("C2", "another giraffe", user="bob", mention=True)
        await world.shown(rig, "C2", "noted")
        search = world.board.room_search_factory("main")(session)
        assert search is not None

        async def look() -> Any:
            return await search.search(session, "giraffe", 5)

        found = await eventually(look, "it is found")
        assert [("giraffe is tall" in one.text) for one in found] == [True]
        assert world.board.room_search_factory("main")("web:ann:x") is None


async def test_a_room_whose_platform_has_no_search_is_searched_through_all_pages_of_its_history(tmp_path: Path) -> None:
    """GUPPY-056"""
    rig = LoopbackRig(replace(ALL_CAPABILITIES, search=False))
    async with running(World(tmp_path, rig)) as world:
        for number in range(3):
            await rig.send_message("C1", f"giraffe number {number}", user="bob")
        for number in range(240):
            await rig.send_message("C1", f"other talk {number}", user="bob")
        thread = await rig.send_message("C1", "hello", mention=True)
        session = world.session(rig, "C1", thread)
        search = world.board.room_search_factory("main")(session)
        assert search is not None
        found = await search.search(session, "GIRAFFE number", 2)
        assert [(hit.author, hit.text) for hit in found] == [("Bob", "giraffe number 2"), ("Bob", "giraffe number 1")]
        assert found[0].at >= found[1].at > 0


async def test_without_a_history_the_matching_messages_are_found_and_neither_neighbours_nor_the_own_call(
    tmp_path: Path,
) -> None:
    """GUPPY-056: the call that searches has the query's words, and so has what the agent says before it."""

    @tool(effect="pure", untrusted=True, sink=False)
    async def search_room(query: str) -> str:
        """Search the room."""
        search = world.board.room_search_factory("main")(world.session(rig, "C1", thread))
        assert search is not None
        hits = await eventually(lambda: search.search(world.session(rig, "C1", thread), query, 9), "it is found")
        return "\n".join(f"{hit.author}: {hit.text}" for hit in hits)

    calling = called("I look for the giraffe.", "search_room", '{"query": "giraffe zoo"}')
    rig = LoopbackRig(replace(ALL_CAPABILITIES, search=False, history=False))
    world = World(tmp_path, rig, script=["The zoo has one giraffe.", "I do not know.", "Really?", calling, "Found."])
    world.tools = [search_room]
    async with running(world):
        thread = await rig.send_message("C1", "is there a giraffe in the zoo?", mention=True)
        session = world.session(rig, "C1", thread)
        await world.told(session)
        await rig.send_message("C1", "and how tall is a giraffe?", thread=thread)
        await world.told(session, 2)
        await rig.send_message("C2", "another giraffe in another zoo", user="bob", mention=True, thread="t2")
        await world.shown(rig, "C2", "Really?")
        await rig.send_message("C1", "search, please", thread=thread)
        await world.told(session, 3)
        (result,) = [one.result for one in await world.records(session) if isinstance(one, ToolFinished)]
        assert result.content.splitlines() == [
            "agent: The zoo has one giraffe.",
            "Ann: is there a giraffe in the zoo?",
        ]


@pytest.mark.parametrize("policy", ["thread", "user", "single"])
async def test_an_answer_finished_while_the_channel_was_down_is_posted_later(tmp_path: Path, policy: Any) -> None:
    """U13, whichever lanes there are."""
    from mainstay.config.schema import LaneSettings

    stall = Stall("It took long.")
    rig = LoopbackRig()
    world = World(tmp_path, rig, script=[stall])
    world.config = {"lanes": LaneSettings(key=policy)}
    async with running(world):
        thread = await rig.send_message("C1", "take your time", mention=True)
        await stall.reached.wait()
        await world.board.close()
        stall.release()
        agent = await world.agent()
        (session,) = [one.key for one in await agent.sessions.list()]

        async def ended() -> bool:
            return not (await agent.sessions.get(session)).unfinished

        await eventually(ended, "the turn ends")
        assert not await rig.posted_messages("C1")
        world.board = world.make_board()
        await world.board.start([rig.recreate_channel()])
        answer = await world.shown(rig, "C1", "It took long.")
        assert answer.thread == thread
        await world.told(session)
        await world.restart()
        assert len(await rig.posted_messages("C1")) == 1


async def test_many_concurrent_turns_are_all_posted(tmp_path: Path) -> None:
    """Those whose watcher was too slow for them, too."""
    rig = LoopbackRig(replace(ALL_CAPABILITIES, history=False))
    async with running(World(tmp_path, rig)) as world:
        threads = [await rig.send_message("C1", f"number {n}.", mention=True) for n in range(40)]
        for thread in threads:
            await world.told(world.session(rig, "C1", thread))
        shown = await rig.posted_messages("C1")
        assert sorted(one.thread for one in shown) == sorted(threads)


async def test_rooms_of_people_of_another_workspace_are_known_after_a_restart(tmp_path: Path) -> None:
    """F41: and a name of a session is no claim to a room."""
    from mainstay.core.people import Person

    stall = Stall("For Bob alone.")
    rig = LoopbackRig()
    people = (Person(name="ann", roles={"main": "admin"}), Person(name="bob", roles={"side": "admin"}))
    world = World(tmp_path, rig, people=people, script=lambda context, options: stall)
    async with running(world):
        await rig.send_message("D1", "hello", user="bob")
        await stall.reached.wait()
        await world.board.close()
        claimed = await world.accept("chat:C1:x", "mine now", "side", sender="bob")
        stall.release()
        await claimed.reply
        world.board = world.make_board()
        await world.board.start([rig.recreate_channel()])
        await world.shown(rig, "D1", "For Bob alone.")
        refused = OutgoingMessage(to="chat:D1", text="psst", session="s", key="k")
        await expect_error(InputRefused, world.board.send("main", refused))
        await expect_error(InputRefused, world.board.send("side", replace(refused, to="chat:C1")))
        assert not await rig.posted_messages("C1")


async def test_an_unposted_message_of_a_tool_is_posted_after_a_restart(tmp_path: Path) -> None:
    rig = LoopbackRig()
    world = World(tmp_path, rig)
    async with running(world):
        thread = await rig.send_message("C1", "hello", mention=True)
        session = world.session(rig, "C1", thread)
        await world.told(session)
        rig.platform.refusals_left["C2"] = 1
        key = await world.board.send("main", OutgoingMessage(to="chat:C2", text="news", session=session, key="call-1"))
        await wait_until(lambda: rig.platform.request_counts["C2"], "it was tried")
        await world.restart()
        await world.shown(rig, "C2", "news")

        async def receipt() -> bool:
            return [one.state for one in await world.receipts(session) if one.key == key] == ["sent"]

        await eventually(receipt, "there is a receipt")
        assert len(await rig.posted_messages("C2")) == 1


async def test_a_thread_that_the_agent_opened_by_a_message_is_followed(tmp_path: Path) -> None:
    """GUPPY-022: also after a restart, and the model knows what it posted there."""
    rig = LoopbackRig(replace(ALL_CAPABILITIES, history=False))
    world = World(tmp_path, rig, script=lambda context, options: "One o'clock it is.")
    async with running(world):
        thread = await rig.send_message("C1", "hello", mention=True)
        session = world.session(rig, "C1", thread)
        await world.told(session)
        message = OutgoingMessage(to="chat:C2", text="Lunch at noon?", session=session, key="call-1")
        key = await world.board.send("main", message)
        posted = await world.shown(rig, "C2", "Lunch at noon?")

        async def receipt() -> bool:
            return any(one.key == key for one in await world.receipts(session))

        await eventually(receipt, "there is a receipt")
        await world.restart()
        opened = (await rig.posted_messages("C2"))[0].thread or posted.id
        await rig.send_message("C2", "talk among people")
        await rig.send_message("C2", "make it one", thread=opened)
        assert (await world.shown(rig, "C2", "One o'clock it is.")).thread == opened
        asked = world.models["main"].asked[-1].messages
        assert any("You posted this message" in one and "Lunch at noon?" in one for one in map(repr, asked))
        assert len(await rig.posted_messages("C2")) == 2


async def test_a_channel_that_is_connected_later_gets_what_waited_for_it(tmp_path: Path) -> None:
    rig = LoopbackRig(replace(ALL_CAPABILITIES, history=False))
    world = World(tmp_path, rig)
    async with running(world):
        thread = await rig.send_message("C1", "hello", mention=True)
        session = world.session(rig, "C1", thread)
        await world.told(session)
        await world.board.disconnect_channel("chat")
        assert world.board.channel_states() == {}
        ticket = await world.accept(session, "meanwhile")
        await ticket.reply
        await world.board.connect_channel(rig.recreate_channel(), ChannelRoutingSettings(workspace="main"))
        assert world.board.channel_states() == {"chat": "connected"}
        await world.shown(rig, "C1", "meanwhile")
        await world.told(session, 2)
        assert len(await rig.posted_messages("C1")) == 2


async def test_a_channel_that_cannot_be_connected_says_why_and_blocks_no_other(tmp_path: Path) -> None:
    from mainstay.core.errors import ConfigError

    async def start(hear: object) -> None:
        raise ConfigError("the token is refused")

    good, broken = LoopbackRig(), LoopbackRig(name="broken")
    broken.channel.start = start  # type: ignore[method-assign,assignment]
    async with running(World(tmp_path, good, broken)) as world:
        assert world.board.channel_states() == {"chat": "connected", "broken": "the token is refused"}
        await good.send_message("C1", "hello", mention=True)
        await world.shown(good, "C1", "hello")


def test_live_text_that_arrives_after_it_was_restored_from_the_journal_is_not_shown_twice() -> None:
    answer = LiveAnswer()
    answer.observe(TextDelta("First.", turn=1, step=1))
    answer.restore_text(1, 2, "And again.")
    for step, text in ((2, "And "), (2, "again."), (3, "It is")):
        answer.observe(TextDelta(text, turn=1, step=step))
    assert answer.text == "First.\n\nAnd again.\n\nIt is"


def test_a_step_whose_live_text_was_missed_is_restored_from_the_journal() -> None:
    answer = LiveAnswer()
    answer.observe(TextDelta("Half of", turn=1, step=1))
    answer.mark_gap()
    answer.observe(TextDelta(" it.", turn=1, step=1))
    answer.restore_text(1, 1, "Half of it and the rest.")
    answer.restore_text(1, 1, "Half of it and the rest.")
    answer.observe(TextDelta("Then", turn=1, step=2))
    assert answer.text == "Half of it and the rest.\n\nThen"


async def test_a_message_that_opened_a_thread_blocks_no_delivery_after_its_conversation_was_deleted(
    tmp_path: Path,
) -> None:
    rig = LoopbackRig(replace(ALL_CAPABILITIES, history=False))
    world = World(tmp_path, rig, script=lambda context, options: "ok")
    async with running(world):
        thread = await rig.send_message("C1", "hello", mention=True)
        session = world.session(rig, "C1", thread)
        await world.told(session)
        rig.platform.refusals_left["C2"] = 1
        await world.board.send("main", OutgoingMessage(to="chat:C2", text="news", session=session, key="call-1"))
        await wait_until(lambda: rig.platform.request_counts["C2"], "it was tried")
        await (await world.agent()).sessions.delete(session)
        await world.shown(rig, "C2", "news")
        await rig.send_message("C2", "a question", mention=True)
        await world.shown(rig, "C2", "ok")


async def test_an_approval_is_answered_by_its_id_though_several_conversations_run(tmp_path: Path) -> None:
    @tool(effect="unsafe", untrusted=False, sink=False)
    async def launch() -> str:
        """Launch."""
        return "launched"

    rig, stalls = LoopbackRig(), [Stall(), Stall()]
    script = iter([Call("launch"), *stalls, "Then not."])
    world = World(tmp_path, rig, script=lambda context, options: next(script))
    world.tools, world.config = [launch], {"policy": PolicySettings(ask=("launch",))}
    async with running(world):
        await rig.send_message("C2", "launch it", mention=True)
        await world.shown(rig, "C2", "/approve")
        for stall in stalls:
            await rig.send_message("C1", "something else", mention=True)
            await stall.reached.wait()
        (pending,) = await (await world.agent()).approvals.list()
        await rig.send_message("C1", "/deny not today", mention=True)
        await world.shown(rig, "C1", "More than one conversation is running here")
        await rig.send_message("C1", f"/deny {pending.asked.id} not today", mention=True)
        await world.shown(rig, "C2", "Then not.")
