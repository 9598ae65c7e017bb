"""Other commands work through the socket of whoever owns the home."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from mainstay import Agent
from mainstay.core.errors import HomeTaken, InputRefused, SessionUnknown
from mainstay.core.events import TextDelta, TurnEnded
from mainstay.core.messages import Text
from mainstay.core.outcome import Aborted, Answered
from mainstay.gateway.owner import SOCKET, Alone, Remote, Request, serving
from mainstay.store.home import HomeLock
from mainstay.testing import ScriptedProvider, Stall


async def test_a_turn_streams_through_the_socket_as_it_does_at_home(tmp_path: Path) -> None:
    async with (
        Agent(ScriptedProvider(["hello there"]), home=tmp_path) as agent,
        serving(Alone(agent), tmp_path),
    ):
        events = [event async for event in Remote(tmp_path).stream("s", (Text("hi"),))]
        assert [event.text for event in events if isinstance(event, TextDelta)] == ["hello there"]
        assert isinstance(events[-1], TurnEnded)
        assert events[-1].outcome == Answered()
        assert (await agent.sessions.get("s")).turns == 1


async def test_steer_abort_and_watch_reach_the_owner(tmp_path: Path) -> None:
    stall, second = Stall(then="never"), Stall(then="never")
    async with (
        Agent(ScriptedProvider([stall, second, "last"]), home=tmp_path) as agent,
        serving(Alone(agent), tmp_path),
    ):
        remote = Remote(tmp_path)
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
        watching.cancel()
        assert "Steered" in seen


async def test_leaving_early_does_not_stop_the_turn(tmp_path: Path) -> None:
    stall = Stall(then="the whole answer")
    async with Agent(ScriptedProvider([stall]), home=tmp_path) as agent, serving(Alone(agent), tmp_path):
        listening = asyncio.create_task(anext(aiter(Remote(tmp_path).stream("s", (Text("hi"),), id="1"))))
        await stall.reached.wait()
        listening.cancel()
        stall.release()
        await agent.settled()
        assert (await agent.run("s", "hi", id="1")).text == "the whole answer"


async def test_session_verbs_and_their_errors(tmp_path: Path) -> None:
    async with Agent(ScriptedProvider(["a"]), home=tmp_path) as agent, serving(Alone(agent), tmp_path):
        remote = Remote(tmp_path)
        await remote.import_history("s", [{"role": "user", "content": "x"}])
        assert (await remote.sessions.fork("s", "t")).parent == "s"
        await remote.sessions.rename("t", "a copy")
        assert (await remote.sessions.get("t")).title == "a copy"
        assert [one.key for one in await remote.sessions.list()] == ["t", "s"]
        assert (await remote.run("s", "hi")).text == "a"
        assert await remote.model() == "scripted"
        await remote.sessions.delete("t")
        with pytest.raises(SessionUnknown, match="there is no session 't'"):
            await remote.sessions.archive("t")
        with pytest.raises(InputRefused, match="no operation"):
            await remote._ask(Request("explode"), None)


async def test_rubbish_on_the_socket_gets_a_sentence(tmp_path: Path) -> None:
    async with Agent(ScriptedProvider([]), home=tmp_path) as agent, serving(Alone(agent), tmp_path):
        for rubbish in (b"\n", b"{\n", b'{"do": 7}\n', b"\xff\xfe\n", b""):
            reader, writer = await asyncio.open_unix_connection(str(tmp_path / SOCKET))
            writer.write(rubbish)
            writer.write_eof()
            answer = await reader.read()
            assert b"error" in answer or not answer
            writer.close()
        assert await Remote(tmp_path).sessions.list() == []
    assert not (tmp_path / SOCKET).exists()


async def test_an_owner_that_does_not_answer_is_named(tmp_path: Path) -> None:
    with pytest.raises(HomeTaken, match="has ended; start again"):
        await Remote(tmp_path).abort("s")
    lock = HomeLock(tmp_path)
    lock.take()
    try:
        with pytest.raises(HomeTaken, match="does not answer"):
            await Remote(tmp_path).abort("s")
    finally:
        lock.release()


async def test_the_socket_is_private_and_a_long_path_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / ("long" * 25)
    home.mkdir()
    monkeypatch.chdir(home)
    async with Agent(ScriptedProvider(["ok"]), home=home) as agent, serving(Alone(agent), home):
        assert (home / SOCKET).stat().st_mode & 0o777 == 0o600
        assert [event async for event in Remote(home).stream("s", (Text("hi"),))]
