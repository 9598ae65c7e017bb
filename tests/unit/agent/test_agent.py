"""The public interface of `Agent`."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import mainstay
from mainstay import Agent, Config, Limits, tool
from mainstay.config.schema import LaneSettings, StateSettings
from mainstay.core.errors import (
    AgentClosed,
    ConfigError,
    HomeTaken,
    InputRefused,
    MainstayError,
    SessionArchived,
    ToolDefinitionError,
)
from mainstay.core.events import Lagged, MessageFinished, Steered, TextDelta, ToolFinished, TurnEnded
from mainstay.core.messages import Binary, FinishReason, Text
from mainstay.core.outcome import Aborted, Answered, Exhausted
from mainstay.core.ports import StreamFinished, TextPiece
from mainstay.operations.turns import Steer
from mainstay.testing import Call, Pieces, Say, ScriptedProvider, Stall, virtual_run


@tool(untrusted=False, sink=False)
def add(a: int, b: int) -> int:
    """Add two integers."""
    return a + b


def echo(context: Any, options: Any) -> str:
    return f"re: {context.messages[-1].text}"


def agent_of(script: Any, home: Any = ":memory:", **given: Any) -> Agent:
    return Agent(ScriptedProvider(script), home=home, **given)


# --- run and stream --------------------------------------------------------------------------------


async def test_one_call_takes_a_session_and_a_message_and_returns_the_reply(tmp_path: Path) -> None:
    async with agent_of([Call("add", {"a": 2, "b": 3}), "It is 5."], tmp_path, tools=[add]) as agent:
        reply = await agent.run("session-1", "what is 2 + 3?")
        assert (reply.text, reply.outcome, reply.turn, reply.session) == ("It is 5.", Answered(), 1, "session-1")
        assert (reply.usage.prompt, reply.usage.completion, reply.cost) == (20, 10, 0.0)


async def test_stream_is_the_same_turn_as_it_happens_and_its_last_event_is_its_end() -> None:
    script = [Call("add", {"a": 4, "b": 5}), "It is 9."]
    async with agent_of(script, tools=[add]) as agent:
        events = [event async for event in agent.stream("s", "4 + 5?")]
        assert isinstance(events[-1], TurnEnded)
        assert "".join(event.text for event in events if isinstance(event, TextDelta)) == "It is 9."
        assert [event.result.content for event in events if isinstance(event, ToolFinished)] == ["9"]
        assert {event.turn for event in events} == {1}
        assert [event.step for event in events if isinstance(event, MessageFinished)] == [1, 2]
    async with agent_of(script, tools=[add]) as agent:
        reply = await agent.run("s", "4 + 5?")
        assert (reply.text, reply.outcome) == ("It is 9.", events[-1].outcome)


async def test_a_stream_has_its_own_turn_and_no_other() -> None:
    async with agent_of(echo) as agent:
        first, second = agent.stream("s", "one"), agent.stream("s", "two")
        heard = await asyncio.gather(*(_texts(stream) for stream in (first, second)))
        assert heard == ["re: one", "re: two"]


async def _texts(stream: Any) -> str:
    return "".join([event.text async for event in stream if isinstance(event, TextDelta)])


async def test_a_slow_reader_of_a_stream_is_told_what_it_missed_and_still_gets_the_end() -> None:
    words = Pieces([*(TextPiece(f"{n} ") for n in range(500)), StreamFinished(FinishReason.END)])
    config = Config(limits=Limits(watcher_buffer_max=8))
    async with agent_of([words, "next"], config=config) as agent:
        events = []
        async for event in agent.stream("s", "count"):
            events.append(event)
            if len(events) == 1:
                other = await agent.run("s", "another turn meanwhile")
                assert other.text == "next"
        assert sum(event.missed for event in events if isinstance(event, Lagged)) > 400
        assert isinstance(events[-1], TurnEnded)
        assert events[-1].turn == 1


async def test_f44_streaming_an_input_that_was_answered_before_tells_its_turn_again() -> None:
    async with agent_of(["hello"]) as agent:
        reply = await agent.run("s", "hi", id="m1")
        events = [event async for event in agent.stream("s", "hi", id="m1")]
        assert isinstance(events[-1], TurnEnded)
        assert [event.parts[0].text for event in events if isinstance(event, MessageFinished)] == [reply.text]


async def test_a_reader_that_disconnects_does_not_stop_the_turn(tmp_path: Path) -> None:
    stall = Stall()
    script = [Pieces([TextPiece("a"), stall, TextPiece("b"), StreamFinished(FinishReason.END)])]
    async with agent_of(script, tmp_path) as agent:
        stream = agent.stream("s", "go")
        async for event in stream:
            if isinstance(event, TextDelta):
                break
        await stream.aclose()  # type: ignore[attr-defined]
        stall.release()
        await agent.settled()
        assert (await agent.sessions.get("s")).messages == 2


async def test_a_caller_that_disconnects_does_not_stop_the_turn() -> None:
    stall = Stall("done")
    async with agent_of([stall]) as agent:
        asking = asyncio.ensure_future(agent.run("s", "go", id="m1"))
        await stall.reached.wait()
        asking.cancel()
        await asyncio.wait((asking,))
        stall.release()
        assert (await agent.run("s", "go", id="m1")).text == "done"


async def test_parts_may_be_text_and_images() -> None:
    seen: list[Any] = []

    def look(context: Any, options: Any) -> str:
        seen.append(context.messages[-1].parts)
        return "A cat."

    image = Binary("image/png", b"\x89PNG")
    mine = Binary("image/png", b"\x89PNG", origin="person")
    async with agent_of(look) as agent:
        await agent.run("s", ["what is this?", image])
        await agent.run("s", mine)
        await agent.run("s", Text("and in words"))
        attached = Binary("image/png", b"\x89PNG", origin="untrusted:attachment")
        assert seen == [(Text("what is this?"), attached), (mine,), (Text("and in words"),)]
        with pytest.raises(InputRefused, match="not int"):
            await agent.run("s", [1])  # type: ignore[list-item]


# --- steer, abort, watch ---------------------------------------------------------------------------


async def test_steer_and_abort_reach_the_running_turn() -> None:
    stall, second = Stall(), Stall()
    async with agent_of([stall, second]) as agent:
        running = asyncio.ensure_future(agent.run("s", "a story"))
        await stall.reached.wait()
        await agent.steer("s", "in French, please")
        await second.reached.wait()
        assert await agent.abort("s") is True
        assert (await running).outcome == Aborted()
        assert await agent.abort("s") is False


@pytest.mark.parametrize("execute", [False, True])
async def test_a_steer_of_another_sender_waits_for_the_next_turn(execute: bool) -> None:
    """The same with the method and with the operation."""
    stall = Stall(then="for alice")
    provider = ScriptedProvider([stall, "for bob", "again"])
    async with Agent(provider, home=":memory:") as agent:
        running = asyncio.ensure_future(agent.run("s", "slowly", sender="alice"))
        await stall.reached.wait()
        if execute:
            await agent.execute(Steer(session="s", text="delete it all", sender="bob"))
        else:
            await agent.steer("s", "delete it all", sender="bob")
        stall.release()
        assert (await running).text == "for alice"
        await agent.settled()
        assert (await agent.sessions.get("s")).turns == 2
        assert "delete it all" not in str(provider.asked[0].messages)
        assert not any(isinstance(record.event, Steered) for record in await agent.sessions.records("s"))


async def test_an_abort_of_a_session_that_does_not_exist_is_false_and_creates_no_session() -> None:
    async with agent_of([]) as agent:
        assert await agent.abort("unknown") is False
        assert await agent.sessions.list() == []


async def test_steer_with_nothing_running_is_a_prompt_with_the_sessions_instructions() -> None:
    made: list[str] = []

    def instructions(session: str) -> str:
        made.append(session)
        return f"You serve {session}."

    provider = ScriptedProvider(echo)
    async with Agent(provider, home=":memory:", instructions=instructions) as agent:
        await agent.steer("s", "hello")
        await agent.settled()
        assert provider.asked[0].system == "You serve s."
        assert made == ["s"]


async def test_watch_yields_events_of_one_session_or_all_until_it_is_closed() -> None:
    async with agent_of(echo) as agent:
        heard: dict[str | None, list[Any]] = {"a": [], None: []}

        async def listen(session: str | None) -> None:
            async for event in agent.watch(session):
                heard[session].append(event)

        listening = [asyncio.ensure_future(listen(session)) for session in heard]
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        await agent.run("a", "hi")
        await agent.run("b", "hi")
        while sum(isinstance(event, TurnEnded) for event in heard[None]) < 2:
            await asyncio.sleep(0)
        assert {event.session for event in heard["a"]} == {"a"}
        assert {event.session for event in heard[None]} == {"a", "b"}
        for one in listening:
            one.cancel()
        await asyncio.wait(listening)
        opened = await agent.runtime()
        assert not opened.services.hub.has_watchers("a")


async def test_settled_returns_when_nothing_runs_or_waits() -> None:
    stalls = [Stall("x") for _ in range(3)]
    async with agent_of(list(stalls)) as agent:
        asking = [asyncio.ensure_future(agent.run("s", str(n))) for n in range(3)]
        await stalls[0].reached.wait()
        settling = asyncio.ensure_future(agent.settled())
        for stall in stalls:
            await stall.reached.wait()
            assert not settling.done()
            stall.release()
        await settling
        assert all([(await one).text == "x" for one in asking])
        await agent.settled()


# --- instructions ----------------------------------------------------------------------------------


async def test_instructions_may_be_a_text() -> None:
    provider = ScriptedProvider(echo)
    async with Agent(provider, home=":memory:", instructions="You are terse.") as agent:
        await agent.run("s", "hi")
        assert provider.asked[0].system == "You are terse."


async def test_instructions_may_be_a_function_that_is_evaluated_once_per_session(tmp_path: Path) -> None:
    made: list[str] = []

    def instructions(session: str) -> str:
        made.append(session)
        return f"Made {len(made)} times, for {session}."

    first = ScriptedProvider(echo)
    async with Agent(first, home=tmp_path, instructions=instructions) as agent:
        await asyncio.gather(*(agent.run("a", str(n)) for n in range(4)))
        await agent.run("b", "hi")
    second = ScriptedProvider(echo)
    async with Agent(second, home=tmp_path, instructions=instructions) as agent:
        await agent.run("a", "again")
    assert made == ["a", "b"], "also across reopening"
    assert {asked.system for asked in (*first.asked[:4], *second.asked)} == {"Made 1 times, for a."}
    assert first.asked[4].system == "Made 2 times, for b."


# --- history ---------------------------------------------------------------------------------------


async def test_import_history_adds_an_external_conversation(tmp_path: Path) -> None:
    provider = ScriptedProvider(echo)
    async with Agent(provider, home=tmp_path) as agent:
        await agent.import_history(
            "old",
            [{"role": "user", "content": "My name is Ann."}, {"role": "assistant", "content": "Hello Ann."}],
        )
        await agent.run("old", "what is my name?")
        assert provider.asked[0].messages == [
            ("user", "My name is Ann."), ("assistant", "Hello Ann."), ("user", "what is my name?"),
        ]  # fmt: skip
        assert (await agent.sessions.replay("old")).is_identical


@pytest.mark.parametrize(
    "bad",
    [
        {"role": "system", "content": "obey"},
        {"role": "tool", "content": "x"},
        {"role": "User", "content": "x"},
        {"role": "user"},
        {"role": "user", "content": 5},
        {"role": "user", "content": "half a character: \ud800"},
        {"role": "user", "content": [{"type": "text", "text": "x"}]},
        {},
    ],
    ids=repr,
)
async def test_history_with_an_invalid_role_or_content_is_refused_whole(bad: Any) -> None:
    async with agent_of(echo) as agent:
        with pytest.raises(InputRefused, match="message 1 of the history"):
            await agent.import_history("old", [{"role": "user", "content": "fine"}, bad])
        with pytest.raises(MainstayError):
            await agent.sessions.get("old")


async def test_history_is_not_imported_into_the_middle_of_a_turn() -> None:
    stall = Stall("done")
    async with agent_of([stall]) as agent:
        asking = asyncio.ensure_future(agent.run("s", "go"))
        await stall.reached.wait()
        with pytest.raises(InputRefused, match="in the middle of a turn"):
            await agent.import_history("s", [{"role": "user", "content": "x"}])
        stall.release()
        assert (await asking).text == "done"


async def test_ten_thousand_imported_messages_are_one_session(tmp_path: Path) -> None:
    async with agent_of(echo, tmp_path) as agent:
        await agent.import_history(
            "old", [{"role": ("user", "assistant")[n % 2], "content": f"message {n}"} for n in range(10_001)]
        )
        assert (await agent.sessions.get("old")).messages == 10_001
    async with agent_of(echo, tmp_path) as agent:
        assert (await agent.run("old", "still there?")).text == "re: still there?"


# --- opening and closing ---------------------------------------------------------------------------


async def test_an_agent_that_was_not_opened_opens_on_first_use(tmp_path: Path) -> None:
    agent = agent_of(echo, tmp_path)
    assert list(tmp_path.iterdir()) == [], "making one does nothing"
    replies = await asyncio.gather(*(agent.run(f"s{n}", "hi") for n in range(5)))
    assert {reply.text for reply in replies} == {"re: hi"}
    await agent.aclose()


async def test_a_closed_agent_refuses_with_a_sentence(tmp_path: Path) -> None:
    agent = agent_of(echo, tmp_path)
    async with agent:
        await agent.run("s", "hi")
    for call in (
        agent.run("s", "x"),
        agent.steer("s", "x"),
        agent.abort("s"),
        agent.settled(),
        agent.sessions.list(),
        agent.import_history("s", []),
        _texts(agent.stream("s", "x")),
    ):
        with pytest.raises(AgentClosed, match="closed; create another Agent"):
            await call
    await agent.aclose()


async def test_an_agent_that_is_closed_while_it_opens_is_closed_and_releases_the_home(tmp_path: Path) -> None:
    agent = Agent(ScriptedProvider(["hi"]), home=tmp_path)
    opening = asyncio.create_task(agent.runtime())
    await asyncio.sleep(0)  # it has begun
    await agent.aclose()
    with pytest.raises(AgentClosed):
        await opening
    with pytest.raises(AgentClosed):
        await agent.run("s", "hello")
    async with Agent(ScriptedProvider(["hi"]), home=tmp_path) as other:
        assert (await other.run("s", "hello")).text == "hi"


async def test_closing_notifies_waiting_callers_and_releases_the_home(tmp_path: Path) -> None:
    stall = Stall()
    agent = agent_of([stall], tmp_path)
    asking = asyncio.ensure_future(agent.run("s", "go", id="m1"))
    watching = asyncio.ensure_future(_texts(agent.watch()))
    await stall.reached.wait()
    await agent.aclose()
    with pytest.raises(AgentClosed, match="resumes when the agent is opened again"):
        await asking
    assert await watching == ""
    async with agent_of(["now"], tmp_path) as again:
        await again.settled()
        assert (await again.run("s", "go", id="m1")).text == "now", "the turn was taken up by itself"


async def test_f8_a_second_agent_on_the_same_home_is_refused(tmp_path: Path) -> None:
    async with agent_of(echo, tmp_path) as first:
        second = agent_of(echo, tmp_path)
        with pytest.raises(HomeTaken, match="is in use by process"):
            await second.run("s", "hi")
        assert (await first.run("s", "hi")).text == "re: hi"
    assert (await second.run("s", "hi")).turn == 2, "and may try again when it is free"
    await second.aclose()


async def test_an_agent_in_memory_stores_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAINSTAY_HOME", str(tmp_path / "home"))
    async with agent_of(echo) as agent:
        await agent.run("s", "hi")
    assert list(tmp_path.iterdir()) == []
    async with agent_of(echo) as agent:
        assert (await agent.run("s", "hi")).turn == 1


async def test_the_home_is_by_default_where_the_environment_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MAINSTAY_HOME", str(tmp_path / "home"))
    async with Agent(ScriptedProvider(echo)) as agent:
        await agent.run("s", "hi")
    assert (tmp_path / "home" / "workspaces" / "default" / "workspace.db").exists()
    assert (tmp_path / "home").stat().st_mode & 0o777 == 0o700


async def test_opentalon_021_state_is_stored_in_data_dir(tmp_path: Path) -> None:
    config = Config(state=StateSettings(data_dir=str(tmp_path / "state")))
    async with agent_of(echo, tmp_path / "home", config=config) as agent:
        await agent.run("s", "hi")
    assert (tmp_path / "state" / "workspaces" / "default" / "workspace.db").exists()
    assert not (tmp_path / "home" / "workspaces").exists()


async def test_miclaw_048_no_session_and_no_model_call_is_spent_on_a_title() -> None:
    provider = ScriptedProvider(echo)
    async with Agent(provider, home=":memory:") as agent:
        await agent.run("s", "hi")
        await agent.settled()
        assert len(provider.asked) == 1
        assert [one.key for one in await agent.sessions.list()] == ["s"]


async def test_without_a_model_it_says_at_once_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no model is configured"):
        await Agent(home=tmp_path).run("s", "hi")


def test_two_tools_with_one_name_are_refused() -> None:
    with pytest.raises(ToolDefinitionError, match="two tools have the same name: add"):
        agent_of(echo, tools=[add, tool(name="add")(lambda: 1)])


def test_a_plain_function_is_a_tool() -> None:
    def double(n: int) -> int:
        """Twice."""
        return 2 * n

    agent = agent_of([Call("double", {"n": 4}), "8"], tools=[double])
    assert virtual_run(agent.run("s", "go")).text == "8"


def test_run_sync_serves_scripts_and_close_ends_it(tmp_path: Path) -> None:
    agent = agent_of([Call("add", {"a": 1, "b": 2}), "3", "again"], tmp_path, tools=[add])
    assert agent.run_sync("s", "1 + 2?").text == "3"
    assert agent.run_sync("s", "and?").turn == 2
    agent.close()
    with pytest.raises(AgentClosed):
        agent.run_sync("s", "more")
    agent.close()
    again = agent_of(["here"], tmp_path)
    assert again.run_sync("s", "hello?").turn == 3
    again.close()


SCRIPT = """
from mainstay import Agent
from mainstay.testing import ScriptedProvider
print(Agent(ScriptedProvider(["hello"]), home={home!r}).run_sync("s", "hi").text)
"""


def test_a_script_that_forgets_to_close_still_ends_and_loses_nothing(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT.format(home=str(tmp_path))], capture_output=True, text=True, timeout=120
    )
    assert (done.stdout, done.returncode) == ("hello\n", 0), done.stderr
    agent = agent_of(["again"], tmp_path)
    assert agent.run_sync("s", "hi").turn == 2
    agent.close()


# --- limits and keys through the configuration -----------------------------------------------------


async def test_bounds_are_raised_or_lowered_by_configuration() -> None:
    def endless(context: Any, options: Any) -> Any:
        return Call("add", {"a": 1, "b": options.step}) if options.tool_choice == "auto" else "enough"

    async with agent_of(endless, tools=[add], config=Config(limits=Limits(steps_max=40, tool_calls_max=100))) as agent:
        assert (await agent.run("s", "go")).outcome == Exhausted("40 steps")


@pytest.mark.parametrize(
    ("policy", "turns"), [("thread", [1, 1, 2, 1]), ("user", [1, 2, 1, 1]), ("single", [1, 2, 3, 4])]
)
async def test_the_key_of_a_lane_is_a_policy(policy: str, turns: list[int]) -> None:
    config = Config(lanes=LaneSettings(key=policy))  # type: ignore[arg-type]
    async with agent_of(echo, config=config) as agent:
        said = [("t1", "ann"), ("t2", "ann"), ("t1", "bob"), ("t3", "eve")]
        assert [(await agent.run(thread, "hi", sender=who)).turn for thread, who in said] == turns


async def test_abort_finds_the_lane_of_a_sender() -> None:
    stall = Stall()
    async with agent_of([stall], config=Config(lanes=LaneSettings(key="user"))) as agent:
        asking = asyncio.ensure_future(agent.run("t", "hi", sender="ann"))
        await stall.reached.wait()
        assert await agent.abort("t", sender="bob") is False
        assert await agent.abort("t", sender="ann") is True
        assert (await asking).outcome == Aborted()


async def test_a_session_may_have_its_own_model_and_an_unknown_one_is_reported_in_the_reply() -> None:
    async with agent_of(echo) as agent:
        await agent.run("s", "hi")
        await agent.sessions.set_model("s", "nowhere/nothing")
        reply = await agent.run("s", "hi")
        assert type(reply.outcome).__name__ == "Failed"
        assert "nowhere" in reply.text
        assert (await agent.run("t", "hi")).text == "re: hi", "other sessions are not touched"
        await agent.sessions.set_model("s", "")
        assert (await agent.run("s", "hi")).text == "re: hi"


async def test_an_archived_session_refuses_and_a_paused_one_waits() -> None:
    async with agent_of(echo) as agent:
        await agent.run("s", "hi")
        await agent.sessions.pause("s")
        waiting = asyncio.ensure_future(agent.run("s", "later"))
        await agent.settled()
        assert not waiting.done()
        await agent.sessions.activate("s")
        assert (await waiting).text == "re: later"
        await agent.sessions.archive("s")
        with pytest.raises(SessionArchived):
            await agent.run("s", "no more")


# --- the package -----------------------------------------------------------------------------------


def test_importing_the_package_loads_the_nouns_and_nothing_heavy() -> None:
    code = (
        "import sys, mainstay; mainstay.tool; mainstay.Limits; "
        "heavy = ('aiohttp', 'apsw', 'yaml', 'rich', 'prompt_toolkit', 'uvloop'); "
        "print([name for name in heavy if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.stdout == "[]\n", done.stderr


def test_every_public_name_can_be_had_and_there_are_few() -> None:
    for name in mainstay.__all__:
        assert getattr(mainstay, name) is not None
    assert len(mainstay.__all__) <= 45
    with pytest.raises(AttributeError, match="no attribute 'Nonsense'"):
        mainstay.Nonsense  # noqa: B018


async def test_steered_and_said_are_both_in_the_stream() -> None:
    stall = Stall()
    async with agent_of([Pieces([TextPiece("one"), stall]), Say("two")]) as agent:
        events: list[Any] = []
        async for event in agent.stream("s", "go"):
            events.append(event)
            if isinstance(event, TextDelta) and event.text == "one":
                await agent.steer("s", "stop")
        kinds = [type(event) for event in events]
        assert kinds.index(Steered) > kinds.index(TextDelta)
        assert isinstance(events[-1], TurnEnded)
