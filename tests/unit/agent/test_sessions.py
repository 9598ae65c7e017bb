"""`agent.sessions`: list, get, archive, delete, fork, export, replay."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from mainstay import Aborted, Agent, Binary, Config, Limits, tool
from mainstay.cli import main as cli
from mainstay.config.schema import LaneSettings
from mainstay.core.errors import InputRefused, SessionUnknown, StoreFailed, StreamBroken, Unauthorised
from mainstay.core.events import MessageAdded
from mainstay.core.journal import decode_event, encode_event
from mainstay.core.messages import FinishReason, Text, ToolCall, ToolResult
from mainstay.core.ports import StreamFinished, TextPiece, ThinkingPiece, ToolCallPiece
from mainstay.observe.session_export import full_history
from mainstay.operations import sessions
from mainstay.operations.sessions import ReadSessionExport, read_journal
from mainstay.testing import Call, Pieces, Raise, ScriptedProvider, Stall


@tool(untrusted=False, sink=False)
async def add(a: int, b: int) -> int:
    return a + b


def echo(context: Any, options: Any) -> str:
    return f"re: {context.messages[-1].text}"


@pytest.fixture(params=["memory", "sqlite"])
def home(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    return ":memory:" if request.param == "memory" else tmp_path / "home"


async def texts(agent: Agent, key: str) -> list[str]:
    return [message.text for message in full_history(await read_journal((await agent.runtime()).services.store, key))]


async def test_sessions_are_listed_newest_first_with_what_is_known_of_them(home: Any) -> None:
    async with Agent(ScriptedProvider(echo), home=home) as agent:
        for key in ("a", "b", "c"):
            await agent.run(key, "hi")
        await agent.sessions.rename("b", "The second")
        await asyncio.sleep(0.002)  # the wall clock counts milliseconds
        await agent.run("a", "again")
        assert next(one.key for one in await agent.sessions.list()) == "a"
        assert {one.key for one in await agent.sessions.list()} == {"a", "b", "c"}
        assert len(await agent.sessions.list(limit=2)) == 2
        a, b = await agent.sessions.get("a"), await agent.sessions.get("b")
        assert (a.turns, a.messages, a.status, a.prompt_tokens, a.completion_tokens) == (2, 4, "active", 20, 10)
        assert b.title == "The second"
        assert 0 < a.created < a.updated
        with pytest.raises(SessionUnknown, match="no session 'd'"):
            await agent.sessions.get("d")


def test_a_long_name_is_shortened_in_the_middle_on_a_terminal_and_nowhere_else(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    just, long = "j" * 60, "the-beginning-" + "x" * 60 + "-the-end"

    async def talk() -> None:
        async with Agent(ScriptedProvider(echo), home=tmp_path) as agent:
            for key in (just, long):
                await agent.run(key, "hi")

    def listed(*more: str) -> str:
        assert cli.main(["session", "list", "--home", str(tmp_path), *more]) == 0
        return capsys.readouterr().out

    asyncio.run(talk())
    assert f"\n{long} " in listed()
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert {one["key"] for one in json.loads(listed("--json"))["sessions"]} == {just, long}
    names = {line.split()[0] for line in listed().splitlines()[1:]}
    assert names == {just, f"{long[:29]}…{long[-30:]}"}


async def test_the_events_of_one_turn_can_be_read_again(home: Any) -> None:
    async with Agent(ScriptedProvider(echo), home=home) as agent:
        for word in ("one", "two", "three"):
            await agent.run("s", word)
        events = [event async for event in agent.sessions.turn("s", 2)]
        assert {event.turn for event in events} == {2}
        assert {event.session for event in events} == {"s"}
        assert [event.parts[0].text for event in events if isinstance(event, MessageAdded)] == ["re: two"]
        assert [type(event).__name__ for event in events][-1] == "TurnEnded"
        later = [event async for event in agent.sessions.turn("s", 2, after=events[0].sequence)]
        assert later == events[1:]
        assert [event async for event in agent.sessions.turn("missing", 1)] == []


async def test_the_old_name_of_problems_warns() -> None:
    async with Agent(ScriptedProvider(echo), home=":memory:") as agent:
        with pytest.warns(DeprecationWarning, match="problems"):
            assert await agent.troubles() == await agent.problems()


async def test_reading_about_a_session_does_not_make_it(home: Any) -> None:
    async with Agent(ScriptedProvider(echo), home=home) as agent:
        for call in (
            agent.sessions.get("x"),
            agent.sessions.archive("x"),
            agent.sessions.delete("x"),
            agent.sessions.replay("x"),
            agent.sessions.export("x", "/nonexistent"),
            agent.sessions.fork("x", "y"),
        ):
            with pytest.raises(SessionUnknown):
                await call
        assert await agent.sessions.list() == []


# --- fork ------------------------------------------------------------------------------------------


async def test_a_fork_has_the_whole_past_and_both_go_on_separately(home: Any) -> None:
    provider = ScriptedProvider(echo)
    async with Agent(provider, home=home) as agent:
        await agent.run("a", "one")
        made = await agent.sessions.fork("a", "b")
        assert (made.parent, made.turns, made.messages) == ("a", 1, 2)
        await agent.run("a", "only a")
        assert (await agent.run("b", "only b")).turn == 2
        assert await texts(agent, "a") == ["one", "re: one", "only a", "re: only a"]
        assert await texts(agent, "b") == ["one", "re: one", "only b", "re: only b"]
        assert provider.asked[-1].messages[0] == ("user", "one")
        for key in ("a", "b"):
            assert (await agent.sessions.replay(key)).is_identical


async def test_a_fork_may_have_a_name_that_was_read_before(home: Any) -> None:
    async with Agent(ScriptedProvider(echo), home=home) as agent:
        await agent.run("a", "one")
        assert await agent.profile("b").get() == {}
        await agent.sessions.fork("a", "b")
        assert (await agent.run("b", "two")).turn == 2


async def test_sessions_are_named_by_their_keys_where_lanes_are_by_person() -> None:
    config = Config(lanes=LaneSettings(key="user"))
    async with Agent(ScriptedProvider(echo), home=":memory:", config=config) as agent:
        await agent.run("s", "hi", sender="ann")
        assert (await agent.sessions.fork("user:ann", "copy")).key == "copy"
        await agent.sessions.set_model("user:ann", "openai/other")
        found = {one.key: one.model for one in await agent.sessions.list()}
        assert found == {"user:ann": "openai/other", "copy": ""}


async def test_a_fork_up_to_a_record_leaves_the_rest_behind(home: Any) -> None:
    async with Agent(ScriptedProvider(echo), home=home) as agent:
        await agent.run("a", "one")
        upto = (await agent.sessions.get("a")).head
        await agent.run("a", "two")
        await agent.sessions.fork("a", "b", upto=upto)
        assert await texts(agent, "b") == ["one", "re: one"]
        assert (await agent.run("b", "other")).turn == 2
        for wrong in (0, -1, 999):
            with pytest.raises(InputRefused, match="has records 1 to"):
                await agent.sessions.fork("a", "c", upto=wrong)
        with pytest.raises(InputRefused, match="there is a session 'b' already"):
            await agent.sessions.fork("a", "b")


async def test_a_fork_to_a_name_that_is_taken_meanwhile_is_refused(home: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    async with Agent(ScriptedProvider(echo), home=home) as agent:
        await agent.run("a", "one")
        store = (await agent.runtime()).services.store
        fork_session = store.fork_session

        async def fork_later(*parts: Any) -> None:
            await agent.sessions.set_model("b", "m")
            await fork_session(*parts)

        monkeypatch.setattr(store, "fork_session", fork_later)
        with pytest.raises(InputRefused, match="there is a session 'b' already"):
            await agent.sessions.fork("a", "b")
        assert (await agent.sessions.get("b")).model == "m"


@pytest.mark.parametrize("name", ["", " x", "a\nb"])
async def test_a_fork_needs_a_proper_name(name: str) -> None:
    async with Agent(ScriptedProvider(echo), home=":memory:") as agent:
        await agent.run("a", "one")
        with pytest.raises(InputRefused, match="session's name"):
            await agent.sessions.fork("a", name)


async def test_u2_a_fork_in_the_middle_of_a_turn_is_never_one_that_a_provider_refuses(home: Any) -> None:
    """Cut at every record of a turn with calls: each call in the history still has its result."""
    script = [[Call("add", {"a": 1, "b": 1}), Call("add", {"a": 2, "b": 2})], "done"]
    seen: list[Any] = []

    def step(context: Any, options: Any) -> Any:
        seen.append(list(context.messages))
        return "fine" if context.messages[-1].text == "hello" else script[options.step - 1]

    async with Agent(ScriptedProvider(step), tools=[add], home=home) as agent:
        await agent.run("a", "go")
        head = (await agent.sessions.get("a")).head
        assert head >= 8
        for upto in range(1, head + 1):
            await agent.sessions.fork("a", f"cut-{upto}", upto=upto)
            assert (await agent.run(f"cut-{upto}", "hello")).text == "fine"
            messages = seen[-1]
            for index, message in enumerate(messages):
                if message.calls:
                    given = [part.call_id for part in messages[index + 1].parts if isinstance(part, ToolResult)]
                    assert given == [call.id for call in message.calls], f"cut at record {upto}"
            assert (await agent.sessions.replay(f"cut-{upto}")).is_identical


async def test_a_fork_of_a_running_session_has_what_is_on_disk_and_does_not_run_it_twice() -> None:
    stall, ran = Stall("done"), []

    async def act() -> str:
        ran.append(1)
        return "acted"

    answers = iter([Call("act"), stall, "fine"])
    async with Agent(ScriptedProvider(lambda c, o: next(answers)), tools=[act], home=":memory:") as agent:
        asking = asyncio.ensure_future(agent.run("a", "go"))
        await stall.reached.wait()
        await agent.sessions.fork("a", "b")
        stall.release()
        await asking
        assert ran == [1]
        assert (await agent.run("b", "hello")).text == "fine"
        assert ran == [1]


# --- export ----------------------------------------------------------------------------------------


async def test_guppy_046_an_export_has_what_people_said_and_what_the_model_saw(home: Any, tmp_path: Path) -> None:
    image = Binary("image/png", b"\x89PNG", path="/files/cat.png")
    script = [Pieces([ThinkingPiece("hm"), TextPiece("Adding. "), *_add()]), "It is 5."]
    async with Agent(ScriptedProvider(script), tools=[add], instructions="Be terse.", home=home) as agent:
        await agent.run("s", ["2 + 3?", image], id="m1", sender="ann")
        paths = await agent.sessions.export("s", tmp_path / "out")
        assert [path.name for path in paths] == ["log.jsonl", "context.jsonl"]
        log, context = ([json.loads(line) for line in path.read_text().splitlines()] for path in paths)
        assert all(path.stat().st_mode & 0o777 == 0o600 for path in paths)
    assert [sorted(line) for line in log] == [
        ["attachments", "date", "isBot", "messageId", "text", "userId", "userName"],
        ["date", "isBot", "messageId", "text", "userId", "userName"],
        ["date", "isBot", "messageId", "text", "userId", "userName"],
    ]
    assert [(line["userId"], line["text"], line["isBot"]) for line in log] == [
        ("ann", "2 + 3?", False), ("agent", "Adding. ", True), ("agent", "It is 5.", True),
    ]  # fmt: skip
    assert log[0]["messageId"] == "m1"
    assert log[0]["attachments"] == [{"original": "/files/cat.png", "local": "/files/cat.png"}]
    assert log[0]["date"].endswith("+00:00")
    assert [line["role"] for line in context] == ["system", "user", "assistant", "tool", "assistant"]
    assert context[0]["parts"][0]["text"].startswith("Be terse.")
    assert {part["type"] for part in context[2]["parts"]} == {"thinking", "text", "tool_call", "finish"}
    assert context[3]["parts"] == [{"type": "tool_result", "call_id": "call_1_1_0", "name": "add", "content": "5"}]
    assert not any("tool" in json.dumps(line) for line in log), "the log has no calls and no results"


def _add() -> list[Any]:
    return [ToolCallPiece(0, "add", '{"a":2,"b":3}'), StreamFinished(FinishReason.TOOL_CALLS)]


async def test_an_export_is_read_in_pages_that_end_at_a_count_or_a_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def read(limit: int) -> tuple[list[str], int]:
        lines: list[str] = []
        after: int | None = 0
        pages = 0
        while after is not None:
            page = await agent.execute(ReadSessionExport(session="s", file="context", after=after, limit=limit))
            lines += page.lines
            after, pages = page.next, pages + 1
        return lines, pages

    async with Agent(ScriptedProvider(["one", "two"]), home=tmp_path / "home") as agent:
        for text in ("a", "b"):
            await agent.run("s", text)
        await agent.sessions.export("s", tmp_path / "out")
        written = (tmp_path / "out" / "context.jsonl").read_text().splitlines()
        assert await read(limit=1_000) == (written, 1)
        assert await read(limit=2) == (written, -(-len(written) // 2))
        monkeypatch.setattr(sessions, "EXPORT_PAGE_BYTES", 1)
        assert await read(limit=1_000) == (written, len(written))
        beyond = await agent.execute(ReadSessionExport(session="s", after=1_000))
        assert (beyond.lines, beyond.next) == ([], None)


async def test_an_export_is_whole_or_not_at_all(tmp_path: Path) -> None:
    async with Agent(ScriptedProvider(echo), home=":memory:") as agent:
        await agent.run("s", "one")
        await agent.sessions.export("s", tmp_path)
        await agent.run("s", "two")
        await agent.sessions.export("s", tmp_path)
        assert len((tmp_path / "log.jsonl").read_text().splitlines()) == 4
        assert sorted(path.name for path in tmp_path.iterdir()) == ["context.jsonl", "log.jsonl"]


# --- replay ----------------------------------------------------------------------------------------


async def test_a_replay_needs_no_model_and_comes_out_identical(home: Any) -> None:
    script = [
        [Call("add", {"a": 1, "b": 2}), Call("nope"), Call("add", "{")],
        "three",
        Pieces([TextPiece("half"), Raise(StreamBroken("cut"))]),
        "whole",
        Raise(Unauthorised("no key")),
    ]
    provider = ScriptedProvider(script)
    async with Agent(provider, tools=[add], home=home) as agent:
        for text in ("one", "two", "three"):
            await agent.run("s", text)
        asked = len(provider.asked)
        result = await agent.sessions.replay("s")
        assert (result.is_identical, result.turns, result.difference) == (True, 3, "")
        assert result.records == (await agent.sessions.get("s")).head
        assert len(provider.asked) == asked


async def test_a_replay_under_other_than_the_default_bounds_is_identical_too() -> None:
    def endless(context: Any, options: Any) -> Any:
        return Call("add", {"a": 1, "b": options.step}) if options.tool_choice == "auto" else "enough"

    config = Config(limits=Limits(steps_max=3))
    async with Agent(ScriptedProvider(endless), tools=[add], home=":memory:", config=config) as agent:
        await agent.run("s", "go")
        result = await agent.sessions.replay("s")
        assert result.is_identical, result.difference


async def test_a_session_replays_identically_after_the_limits_were_changed(tmp_path: Path) -> None:
    def endless(context: Any, options: Any) -> Any:
        return Call("add", {"a": 1, "b": options.step}) if options.tool_choice == "auto" else "enough"

    recorded, changed = Config(limits=Limits(steps_max=5)), Config(limits=Limits(steps_max=2, tool_calls_max=3))
    async with Agent(ScriptedProvider(endless), tools=[add], home=tmp_path, config=recorded) as agent:
        await agent.run("s", "go")
    async with Agent(ScriptedProvider(endless), tools=[add], home=tmp_path, config=changed) as agent:
        await agent.run("s", "go on")
        result = await agent.sessions.replay("s")
        assert (result.is_identical, result.turns) == (True, 2), result.difference


async def test_a_replay_says_what_differs() -> None:
    async with Agent(ScriptedProvider([Call("add", {"a": 1, "b": 2}), "3"]), tools=[add], home=":memory:") as agent:
        await agent.run("s", "go")
        kept = (await agent.runtime()).services.store._sessions["s"]  # type: ignore[attr-defined]
        at, body = kept.bodies[3]
        event = decode_event(body)
        assert isinstance(event, MessageAdded)
        forged = MessageAdded("assistant", (Text("I did nothing"), ToolCall("call_9_9_9", "add", "{}")), turn=1, step=1)
        kept.bodies[3] = (at, encode_event(forged))
        result = await agent.sessions.replay("s")
        assert not result.is_identical
        assert "record 4" in result.difference


# --- archive and delete ----------------------------------------------------------------------------


async def test_delete_forgets_what_was_said_and_the_name_may_be_used_again(home: Any) -> None:
    provider = ScriptedProvider(echo)
    async with Agent(provider, home=home) as agent:
        await agent.run("s", "a secret", id="m1")
        await agent.sessions.delete("s")
        assert await agent.sessions.list() == []
        with pytest.raises(SessionUnknown):
            await agent.sessions.get("s")
        with pytest.raises(SessionUnknown):
            await agent.sessions.delete("s")
        await agent.run("s", "anew", id="m1")
        assert provider.asked[-1].messages == [("user", "anew")], "nothing of before is seen"
        assert (await agent.sessions.get("s")).messages == 2


async def test_delete_ends_the_running_turn_and_the_queue_and_notifies_waiting_callers() -> None:
    stall = Stall()
    async with Agent(ScriptedProvider([stall, "anew"]), home=":memory:") as agent:
        running = asyncio.ensure_future(agent.run("s", "running"))
        await stall.reached.wait()
        waiting = asyncio.ensure_future(agent.run("s", "waiting"))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        await agent.sessions.delete("s")
        assert (await running).outcome == Aborted()
        with pytest.raises(SessionUnknown, match="'s' was deleted"):
            await waiting
        await agent.settled()
        assert await agent.sessions.list() == []
        assert (await agent.run("s", "hello")).text == "anew"


async def test_a_session_that_is_used_while_it_is_being_deleted_stays_deleted(
    home: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is sent between the end of its lane and the erasure of its records is refused."""
    provider = ScriptedProvider(echo)
    async with Agent(provider, home=home) as agent:
        await agent.run("s", "a secret")
        store = (await agent.runtime()).services.store
        blank_session, refusals = store.blank_session, []

        async def blank_later(key: str, at: int) -> None:
            for request in (agent.sessions.set_model("s", "m"), agent.run("s", "are you there?")):
                with pytest.raises(SessionUnknown, match="'s' was deleted") as refusal:
                    await request
                refusals.append(refusal.value)
            await blank_session(key, at)

        monkeypatch.setattr(store, "blank_session", blank_later)
        await agent.sessions.delete("s")
        assert len(refusals) == 2
        assert await agent.sessions.list() == []
        await agent.run("s", "anew")
        assert provider.asked[-1].messages == [("user", "anew")], "nothing of before is seen"


async def test_a_delete_that_fails_leaves_the_session_usable(home: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    async with Agent(ScriptedProvider(echo), home=home) as agent:
        await agent.run("s", "one")

        async def fail(key: str, at: int) -> None:
            raise StoreFailed("the disk is gone")

        with monkeypatch.context() as patch:
            patch.setattr((await agent.runtime()).services.store, "blank_session", fail)
            with pytest.raises(StoreFailed):
                await agent.sessions.delete("s")
        assert (await agent.run("s", "two")).text == "re: two"
        assert (await agent.sessions.get("s")).turns == 2


@pytest.mark.parametrize("size", [20, 3_000, 200_000], ids=["short", "page", "many pages"])
async def test_deleted_sessions_are_gone_from_the_bytes_of_the_database(tmp_path: Path, size: int) -> None:
    """Among sessions that live on, before and after it was restarted."""
    canary = "canary-7f3a9c"
    said = (f"{canary} " * (size // 14 + 1))[:size]
    async with Agent(ScriptedProvider(echo), home=tmp_path) as agent:
        for n in range(30):
            await agent.run(f"other {n % 3}", f"{n} " + "x" * (n * 50))
            await agent.run("s", said, id=f"{canary}-id-{n}")
    async with Agent(ScriptedProvider(echo), home=tmp_path) as agent:
        await agent.sessions.rename("s", canary)
        await agent.sessions.delete("s")
        await agent.run("other 0", "after")
    left = [path for path in tmp_path.rglob("*") if path.is_file() and canary.encode() in path.read_bytes()]
    assert left == []
    async with Agent(ScriptedProvider(echo), home=tmp_path) as agent:
        assert (await agent.sessions.get("other 0")).turns == 11
