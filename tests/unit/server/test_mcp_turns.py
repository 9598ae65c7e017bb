"""Turns of an MCP host: streamed while they run, aborted when cancelled, never instead of others."""

from __future__ import annotations

import asyncio

import pytest
from support.serving import Operated, operated, until

from mainstay import Agent
from mainstay.core.errors import HomeTaken
from mainstay.core.events import Received
from mainstay.core.messages import FinishReason
from mainstay.core.outcome import Aborted, Answered
from mainstay.core.ports import StreamFinished, TextPiece
from mainstay.operations.approvals import ListApprovals
from mainstay.operations.caller import NotAllowed
from mainstay.operations.turns import ReadEvents
from mainstay.providers.scripted import Pieces, ScriptedProvider, Stall
from mainstay.server.mcp_operations import McpOperations


async def quiet(news: str) -> None:
    """A host that did not ask for progress."""


async def test_a_turn_is_streamed_to_its_end() -> None:
    hold = Stall()
    heard: list[str] = []

    async def tell(news: str) -> None:
        heard.append(news)
        hold.release()

    pieces = Pieces([TextPiece("half "), hold, TextPiece("an answer"), StreamFinished(FinishReason.END)])
    async with operated([pieces]) as (_, offered):
        ended = await offered.turns.run("s", "go", tell)
    assert heard[0] == "half ", "it was heard while the model still held back the rest"
    assert (ended.session, ended.turn, ended.outcome, ended.text) == ("s", 1, Answered(), "half an answer")


async def test_the_host_is_not_a_person_who_is_shown_secrets() -> None:
    async with operated(["fine"]) as (operations, offered):
        await offered.turns.run("s", "what is the password?", quiet)
        [received, *_] = [record.event for record in await operations.agent.sessions.records("s")]
    assert isinstance(received, Received)
    assert received.shared


async def test_a_cancelled_request_aborts_its_turn() -> None:
    hold = Stall("never said")
    async with operated([hold, "next"]) as (operations, offered):
        request = asyncio.create_task(offered.turns.run("s", "go", quiet))
        await hold.reached.wait()
        request.cancel()
        with pytest.raises(asyncio.CancelledError):
            await request
        await until(lambda: operations.aborted == ["s"])
        await operations.agent.settled()
        ended = await offered.turns.run("s", "and now?", quiet)
        assert (ended.turn, ended.text) == (2, "next")


async def test_cancelling_one_that_waits_in_line_stops_that_one_and_not_the_one_that_runs() -> None:
    hold = Stall("the first")
    async with operated([hold, Stall("the second"), "the third"]) as (operations, offered):
        first = asyncio.create_task(offered.turns.run("s", "one", quiet))
        await hold.reached.wait()
        second = asyncio.create_task(offered.turns.run("s", "two", quiet))
        lane = (await operations.agent.runtime()).lanes.get("s")
        async with asyncio.timeout(120):
            while not (await lane.load_session()).queued_inputs:
                await asyncio.sleep(0.005)
        second.cancel()
        with pytest.raises(asyncio.CancelledError):
            await second
        assert operations.aborted == []
        hold.release()
        assert (await first).text == "the first"
        await until(lambda: operations.aborted == ["s"])
        await operations.agent.settled()
        assert (await offered.turns.run("s", "three", quiet)).text == "the third"


async def test_a_request_cancelled_by_our_shutdown_leaves_its_turn_running() -> None:
    hold = Stall("said later")
    async with operated([hold]) as (operations, offered):
        request = asyncio.create_task(offered.turns.run("s", "go", quiet))
        await hold.reached.wait()
        offered.turns.stopping = True
        request.cancel()
        with pytest.raises(asyncio.CancelledError):
            await request
        await offered.turns.close()
        hold.release()
        await operations.agent.settled()
        assert operations.aborted == []
        standing = await operations.agent.sessions.get("s")
        assert (standing.turns, standing.unfinished) == (1, False)


async def test_a_turn_stopped_by_another_caller_says_so() -> None:
    hold = Stall("never said")
    async with operated([hold]) as (operations, offered):
        request = asyncio.create_task(offered.turns.run("s", "go", quiet))
        await hold.reached.wait()
        assert await operations.agent.abort("s")
        assert (await request).outcome == Aborted()


async def test_an_error_reaches_only_its_caller() -> None:
    async with operated([]) as (operations, offered):
        operations.broken = HomeTaken("it is owned elsewhere")
        with pytest.raises(HomeTaken, match="elsewhere"):
            await offered.turns.run("s", "go", quiet)
        assert not offered.turns._follow_tasks


async def test_closing_leaves_no_task_behind() -> None:
    before = asyncio.all_tasks()
    async with operated([Stall("x")]) as (_, offered):
        request = asyncio.create_task(offered.turns.run("s", "go", quiet))
        await until(lambda: bool(offered.turns._follow_tasks))
        await offered.turns.close()
        with pytest.raises(asyncio.CancelledError):
            await request
    assert asyncio.all_tasks() == before


async def test_an_operation_that_is_not_offered_over_mcp_is_refused_also_without_assertions() -> None:
    async with Agent(ScriptedProvider([]), home=":memory:") as agent:
        operations = McpOperations(Operated(agent))
        with pytest.raises(NotAllowed, match="ListApprovals is not offered over MCP"):
            await operations.execute(ListApprovals())
        with pytest.raises(NotAllowed, match="ReadEvents is not offered over MCP"):
            operations.open_stream(ReadEvents(session="s"))


async def test_the_turns_of_an_mcp_server_run_only_operations_that_are_offered_over_mcp() -> None:
    async with operated([]) as (_, offered):
        for holder in (offered, offered.turns):
            assert isinstance(holder._operations, McpOperations), type(holder).__name__
