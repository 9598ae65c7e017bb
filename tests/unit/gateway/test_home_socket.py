"""Commands work through the socket of the process that owns the home."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from mainstay import Agent
from mainstay.core.errors import HomeTaken, InputRefused, MainstayError, SessionUnknown
from mainstay.core.events import TextDelta, TurnEnded
from mainstay.core.messages import Text
from mainstay.core.outcome import Aborted, Answered
from mainstay.gateway.home_socket import SOCKET_NAME, RemoteAgent, serve_socket, single_workspace_callers
from mainstay.operations.home import ListWorkspaces
from mainstay.operations.operation_entry import OperationEntry
from mainstay.operations.people import ListPeople
from mainstay.operations.sessions import GetSession
from mainstay.operations.table import ENTRIES
from mainstay.store.home import HomeLock
from mainstay.testing import ScriptedProvider, Stall


async def answer_to(home: Path, line: bytes) -> bytes:
    """What the owner says to these bytes; nothing if it hangs up."""
    reader, writer = await asyncio.open_unix_connection(str(home / SOCKET_NAME))
    try:
        writer.write(line)
        writer.write_eof()
        return await reader.read()
    finally:
        writer.close()


async def test_a_turn_streams_through_the_socket_as_it_does_at_home(tmp_path: Path) -> None:
    async with (
        Agent(ScriptedProvider(["hello there"] * 2), home=tmp_path) as agent,
        serve_socket(single_workspace_callers(agent), tmp_path),
    ):
        events = [event async for event in RemoteAgent(tmp_path).stream("s", (Text("hi"),))]
        assert [event.text for event in events if isinstance(event, TextDelta)] == ["hello there"]
        assert isinstance(events[-1], TurnEnded)
        assert events[-1].outcome == Answered()
        assert (await agent.sessions.get("s")).turns == 1
        here = [event async for event in agent.stream("t", (Text("hi"),))]
        assert [type(event) for event in events] == [type(event) for event in here]


async def test_steer_abort_and_watch_reach_the_owner(tmp_path: Path) -> None:
    stall, second = Stall(then="never"), Stall(then="never")
    async with (
        Agent(ScriptedProvider([stall, second, "last"]), home=tmp_path) as agent,
        serve_socket(single_workspace_callers(agent), tmp_path),
    ):
        remote = RemoteAgent(tmp_path)
        seen: list[str] = []

        async def watch() -> None:
            async for event in remote.watch("s"):
                seen.append(type(event).__name__)

        watching = asyncio.create_task(watch())
        turn = asyncio.create_task(agent.run("s", "go"))
        await stall.reached.wait()
        await remote.steer("s", (Text("differently"),))
        await second.reached.wait()
        assert await remote.abort("s") is True
        assert (await turn).outcome == Aborted()
        assert await remote.abort("s") is False
        assert await remote.abort("a session that never was") is False
        watching.cancel()
        assert "Steered" in seen


async def test_leaving_early_does_not_stop_the_turn(tmp_path: Path) -> None:
    stall = Stall(then="the whole answer")
    async with (
        Agent(ScriptedProvider([stall]), home=tmp_path) as agent,
        serve_socket(single_workspace_callers(agent), tmp_path),
    ):
        listening = asyncio.create_task(anext(aiter(RemoteAgent(tmp_path).stream("s", (Text("hi"),), id="1"))))
        await stall.reached.wait()
        listening.cancel()
        stall.release()
        await agent.settled()
        assert (await agent.run("s", "hi", id="1")).text == "the whole answer"


async def test_operations_on_sessions_and_their_errors(tmp_path: Path) -> None:
    async with (
        Agent(ScriptedProvider(["a"]), home=tmp_path) as agent,
        serve_socket(single_workspace_callers(agent), tmp_path),
    ):
        remote = RemoteAgent(tmp_path)
        await remote.import_history("s", [{"role": "user", "content": "x"}])
        assert (await remote.sessions.fork("s", "t")).parent == "s"
        await remote.sessions.rename("t", "a copy")
        assert (await remote.sessions.get("t")).title == "a copy"
        assert [one.key for one in await remote.sessions.list()] == ["t", "s"]
        assert (await remote.run("s", "hi")).text == "a"
        assert await remote.model() == "scripted"
        written = await remote.sessions.export("s", tmp_path / "out")
        assert sorted(path.name for path in written) == ["context.jsonl", "log.jsonl"]
        await remote.sessions.delete("t")
        with pytest.raises(SessionUnknown, match="there is no session 't'"):
            await remote.sessions.archive("t")


def line(request: dict[str, Any], **more: Any) -> bytes:
    return json.dumps({"request": request, **more}).encode() + b"\n"


@pytest.mark.parametrize(
    "request_line",
    [
        line({"operation": "Explode"}),
        line({"operation": "Entry"}),
        line({"operation": "__init__"}),
        line({"operation": "GetSession"}),
        line({"operation": "GetSession", "session": 7}),
        line({"operation": "GetSession", "session": "s", "more": 1}),
        line({"operation": "GetSession", "session": "s"}, workspaces="x"),
        line({"operation": "SearchMemory", "q": "x", "k": "all"}),
        line({"operation": "ListSessions"}, stream=True),
    ],
)
async def test_an_invalid_operation_is_refused_in_a_sentence(tmp_path: Path, request_line: bytes) -> None:
    async with (
        Agent(ScriptedProvider([]), home=tmp_path) as agent,
        serve_socket(single_workspace_callers(agent), tmp_path),
    ):
        (kind, sentence) = json.loads(await answer_to(tmp_path, request_line))["error"]
        assert kind == "InputRefused"
        assert len(sentence) > 10


async def test_an_operation_that_is_not_offered_here_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = tuple(OperationEntry(request=one.request, run=one.run, interfaces=frozenset()) for one in ENTRIES)
    monkeypatch.setattr("mainstay.operations.table.ENTRIES", elsewhere)
    async with (
        Agent(ScriptedProvider([]), home=tmp_path) as agent,
        serve_socket(single_workspace_callers(agent), tmp_path),
    ):
        with pytest.raises(InputRefused, match="GetSession is not offered here"):
            await RemoteAgent(tmp_path).execute(GetSession(session="s"))


async def test_invalid_input_on_the_socket_gets_a_sentence(tmp_path: Path) -> None:
    async with (
        Agent(ScriptedProvider([]), home=tmp_path) as agent,
        serve_socket(single_workspace_callers(agent), tmp_path),
    ):
        for rubbish in (b"\n", b"{\n", b'{"request": 7}\n', b"[]\n", b"\xff\xfe\n", b""):
            answer = await answer_to(tmp_path, rubbish)
            assert b"error" in answer or not answer
        assert await RemoteAgent(tmp_path).sessions.list() == []
    assert not (tmp_path / SOCKET_NAME).exists()


async def test_an_owner_that_does_not_answer_is_named(tmp_path: Path) -> None:
    with pytest.raises(HomeTaken, match="has ended; start again"):
        await RemoteAgent(tmp_path).abort("s")
    lock = HomeLock(tmp_path)
    lock.acquire()
    try:
        with pytest.raises(HomeTaken, match="does not answer"):
            await RemoteAgent(tmp_path).abort("s")
    finally:
        lock.release()


async def test_the_socket_is_private_and_a_long_path_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / ("long" * 25)
    home.mkdir()
    monkeypatch.chdir(home)
    async with Agent(ScriptedProvider(["ok"]), home=home) as agent, serve_socket(single_workspace_callers(agent), home):
        assert (home / SOCKET_NAME).stat().st_mode & 0o777 == 0o600
        assert [event async for event in RemoteAgent(home).stream("s", (Text("hi"),))]


async def test_an_owner_that_is_no_server_administers_no_people(tmp_path: Path) -> None:
    async with (
        Agent(ScriptedProvider([]), home=tmp_path) as agent,
        serve_socket(single_workspace_callers(agent), tmp_path),
    ):
        for operation in (ListPeople(), ListWorkspaces()):
            with pytest.raises(HomeTaken, match="is not a server"):
                await RemoteAgent(tmp_path).execute(operation)


async def test_an_error_of_the_owner_is_the_same_error_here(tmp_path: Path) -> None:
    async with (
        Agent(ScriptedProvider([]), home=tmp_path) as agent,
        serve_socket(single_workspace_callers(agent), tmp_path),
    ):
        for client in (agent, RemoteAgent(tmp_path)):
            with pytest.raises(MainstayError) as refused:
                await client.run("s", "")
            assert (type(refused.value), "empty" in str(refused.value)) == (InputRefused, True)
