"""`agent.memory`, in the same process and through the socket of another."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeVar

import pytest
from support.memory_world import DAY, World

from mainstay import Agent
from mainstay.agent.memory import AgentMemory
from mainstay.core.errors import HomeTaken, InputRefused, MemoryUnknown, SessionUnknown
from mainstay.core.events import Event
from mainstay.core.memory_tiers import Fact, Summary
from mainstay.gateway.home_socket import RemoteAgent, serve_socket, single_workspace_callers
from mainstay.operations import memory as operations
from mainstay.operations.caller import OWNER, Caller
from mainstay.operations.execute import execute
from mainstay.operations.operation import Operation
from mainstay.testing import ScriptedProvider
from mainstay.testing.virtual_time import START_MS

R = TypeVar("R")
Reach = Callable[[World, Path], AbstractAsyncContextManager[AgentMemory]]


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with World() as made:
        yield made


class LibraryRuntime:
    """A runtime that has a library, a clock, and nothing else."""

    def __init__(self, world: World) -> None:
        self.memory = world.library
        self.services = SimpleNamespace(clock=world.clock)
        self.workspace = "default"

    def build_session_key(self, session: str, sender: str) -> str:
        return session


class LibraryClient:
    def __init__(self, world: World) -> None:
        self.current: Any = LibraryRuntime(world)

    async def runtime(self) -> Any:
        return self.current

    async def execute(self, operation: Operation[R]) -> R:
        return await execute(Caller(OWNER, self), operation)

    def open_stream(self, operation: Operation[Any]) -> AsyncIterator[Event]:
        raise AssertionError("memory has no streams")


@asynccontextmanager
async def in_process(world: World, home: Path) -> AsyncIterator[AgentMemory]:
    yield AgentMemory(LibraryClient(world))


@asynccontextmanager
async def through_socket(world: World, home: Path) -> AsyncIterator[AgentMemory]:
    async with serve_socket(single_workspace_callers(LibraryClient(world)), home):
        yield RemoteAgent(home).memory


BOTH = pytest.mark.parametrize("reach", [in_process, through_socket], ids=["at home", "from afar"])


@BOTH
async def test_every_query_has_the_same_answer_in_process_and_through_the_socket(
    world: World, reach: Reach, tmp_path: Path
) -> None:
    async with reach(world, tmp_path) as memory:
        await world.say("s", "we rented the flat in Lisbon", sender="ana")
        await world.fold(
            "s",
            Fact("Ana", "lives in", "Lisbon", source=1),
            parts=[Summary(1, 1, START_MS, START_MS, "flats", "s")],
        )
        hits = await memory.search("Lisbon", k=5)
        assert isinstance(hits, list)
        assert [(hit.message_id, hit.speaker, hit.session) for hit in hits] == [("s#1", "ana", "s")]
        assert isinstance(await memory.semantic("Lisbon"), list)
        assert [hit.kind for hit in await memory.recall("Lisbon")] == ["fact"]
        assert [one.text for one in await memory.summaries()] == ["flats"]
        assert (await memory.get("s#1")).text == "we rented the flat in Lisbon"
        assert [one.object for one in await memory.facts()] == ["Lisbon"]
        kept = await memory.remember("likes tea", tags=["taste"], pin=True)
        assert (kept.pinned, kept.tags) == (True, ("taste",))
        assert not (await memory.unpin(kept.id)).pinned
        assert (await memory.pin(kept.id)).pinned
        assert [one.id for one in await memory.list(tag="taste", pinned=True)] == [kept.id]
        status = await memory.status()
        assert (status.messages, status.facts, status.memories, status.pinned) == (1, 1, 1, 1)
        assert "full-text" in status.note
        assert (await memory.forget(kept.id)).kind == "memory"
        assert await memory.forget_origin("untrusted") == []


@BOTH
async def test_times_are_datetimes_texts_or_milliseconds(world: World, reach: Reach, tmp_path: Path) -> None:
    async with reach(world, tmp_path) as memory:
        for number in range(3):
            await world.say("s", f"garden {number}", at=START_MS + number * DAY)
        second = START_MS + DAY
        for start, end in (
            (second, second + DAY),
            ("2026-01-02", "2026-01-02"),
            (datetime(2026, 1, 2), datetime(2026, 1, 3, tzinfo=UTC)),
        ):
            assert [hit.message_id for hit in await memory.search("garden", start=start, end=end)] == ["s#2"]
        assert [hit.message_id for hit in await memory.search("garden", start="today", end="today")] == ["s#1"]
        with pytest.raises(InputRefused, match="is not a time"):
            await memory.search("garden", start="whenever")


@BOTH
async def test_speaker_and_session_narrow_a_search(world: World, reach: Reach, tmp_path: Path) -> None:
    async with reach(world, tmp_path) as memory:
        await world.say("a", "garden", sender="ana")
        await world.say("b", "garden", sender="ben")
        assert [hit.message_id for hit in await memory.search("garden", speaker="ana")] == ["a#1"]
        assert [hit.message_id for hit in await memory.search("garden", session="b")] == ["b#1"]


@BOTH
async def test_errors_are_sentences(world: World, reach: Reach, tmp_path: Path) -> None:
    async with reach(world, tmp_path) as memory:
        with pytest.raises(MemoryUnknown, match="nothing has the id"):
            await memory.get("s#1")
        with pytest.raises(InputRefused, match="tags is a list"):
            await memory.remember("x", tags="home")


def test_internal_functions_of_the_memory_service_are_not_operations(world: World) -> None:
    offered = {entry.run.__name__ for entry in operations.ENTRIES}
    assert not {"connect", "read_result"} & offered
    assert all(hasattr(world.library, name) for name in ("connect", "read_result"))


# --- through the socket --------------------------------------------------------------------------


async def test_an_agent_s_memory_context_and_profile_are_reached_through_its_socket(tmp_path: Path) -> None:
    async with (
        Agent(ScriptedProvider(["noted", "sure"]), home=tmp_path) as agent,
        serve_socket(single_workspace_callers(agent), tmp_path),
    ):
        remote = RemoteAgent(tmp_path, "default")
        await remote.run("s", "we rented the flat in Lisbon")
        assert "s#1" in {hit.message_id for hit in await remote.memory.search("rented flat")}
        kept = await remote.memory.remember("call me Ana", pin=True)
        assert [one.id for one in await agent.memory.list(pinned=True)] == [kept.id]
        with pytest.raises(MemoryUnknown, match="nothing has the id 'nobody#1'"):
            await remote.memory.get("nobody#1")

        profile = remote.profile("s")
        await profile.set(name="Ana", goal="learn")
        assert await profile.get() == await agent.profile("s").get() == {"name": "Ana", "goal": "learn"}
        await remote.run("s", "and now?")
        shown = await remote.sessions.context("s")
        assert shown == await agent.sessions.context("s")
        texts = {section.name: section.text for section in shown.sections}
        assert "call me Ana" in texts["profile"]
        assert "learn" in texts["profile"]
        assert "rented the flat" in texts["recent"]
        await profile.clear()
        assert await profile.get() == {}


async def test_compacting_through_the_socket_gives_the_new_summary(tmp_path: Path) -> None:
    provider = ScriptedProvider(["one", "two", "They spoke of a flat in Lisbon, and of trains to Porto."])
    async with Agent(provider, home=tmp_path) as agent, serve_socket(single_workspace_callers(agent), tmp_path):
        remote = RemoteAgent(tmp_path)
        with pytest.raises(SessionUnknown):
            await remote.sessions.compact("nobody")
        await remote.run("s", "we rented the flat in Lisbon")
        await remote.run("s", "and the trains?")
        summary = await remote.sessions.compact("s", "the flat")
        assert summary is not None
        assert "Lisbon" in summary
        assert [one.session for one in await remote.memory.summaries()] == ["s"]


async def test_f41_an_owner_answers_only_for_its_own_workspace(tmp_path: Path) -> None:
    async with (
        Agent(ScriptedProvider([]), home=tmp_path) as agent,
        serve_socket(single_workspace_callers(agent, "ours"), tmp_path),
    ):
        await agent.memory.remember("a canary")
        assert await RemoteAgent(tmp_path, "ours").memory.recall("canary")
        other = RemoteAgent(tmp_path, "theirs")
        for question in (other.memory.recall("canary"), other.sessions.list(), other.run("s", "hi")):
            with pytest.raises(HomeTaken, match="works in the workspace 'ours', not in 'theirs'"):
                await question
