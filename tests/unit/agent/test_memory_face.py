"""`agent.memory`, at home and from another process."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
from support.library_world import DAY, World

from mainstay import Agent
from mainstay.agent.memory import VERBS, AgentMemory, Recalling, RemoteMemory
from mainstay.core.errors import HomeTaken, InputRefused, MemoryUnknown, SessionUnknown
from mainstay.core.recall import Fact, Summary
from mainstay.gateway.owner import Alone, Remote, Request, serving
from mainstay.testing import ScriptedProvider
from mainstay.testing.virtual import BEGINNING_MS


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with World() as made:
        yield made


def at_home(world: World) -> AgentMemory:
    async def opened() -> World:
        return world

    return AgentMemory(opened)


def from_afar(world: World) -> RemoteMemory:
    """Everything is encoded and decoded, as it is on a socket."""
    home = at_home(world)

    async def ask(verb: str, arguments: dict[str, Any]) -> Any:
        sent = msgspec.json.decode(msgspec.json.encode(arguments))
        return msgspec.json.decode(msgspec.json.encode(await home.do(verb, sent)))

    return RemoteMemory(ask)


BOTH = pytest.mark.parametrize("reach", [at_home, from_afar], ids=["at home", "from afar"])


@BOTH
async def test_every_question_is_answered_alike_at_home_and_from_afar(world: World, reach: Any) -> None:
    memory: Recalling = reach(world)
    await world.say("s", "we rented the flat in Lisbon", sender="ana")
    await world.fold(
        "s",
        Fact("Ana", "lives in", "Lisbon", source=1),
        parts=[Summary(1, 1, BEGINNING_MS, BEGINNING_MS, "flats", "s")],
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
    assert "words" in status.note
    assert (await memory.forget(kept.id)).kind == "memory"
    assert await memory.forget_origin("untrusted") == []


@BOTH
async def test_times_are_datetimes_texts_or_milliseconds(world: World, reach: Any) -> None:
    memory: Recalling = reach(world)
    memory.clock = world.clock
    for number in range(3):
        await world.say("s", f"garden {number}", at=BEGINNING_MS + number * DAY)
    second = BEGINNING_MS + DAY
    for start, end in (
        (second, second + DAY),
        ("2026-01-02", "2026-01-02"),
        (datetime(2026, 1, 2), datetime(2026, 1, 3, tzinfo=UTC)),
    ):
        assert [hit.message_id for hit in await memory.search("garden", start=start, end=end)] == ["s#2"]
    assert [hit.message_id for hit in await memory.search("garden", start="today", end="today")] == ["s#1"]
    with pytest.raises(InputRefused, match="is not a time"):
        await memory.search("garden", start="whenever")


async def test_speaker_and_session_narrow_a_search(world: World) -> None:
    memory = at_home(world)
    await world.say("a", "garden", sender="ana")
    await world.say("b", "garden", sender="ben")
    assert [hit.message_id for hit in await memory.search("garden", speaker="ana")] == ["a#1"]
    assert [hit.message_id for hit in await memory.search("garden", session="b")] == ["b#1"]


async def test_errors_are_sentences(world: World) -> None:
    memory = at_home(world)
    with pytest.raises(MemoryUnknown, match="there is nothing under"):
        await memory.get("s#1")
    with pytest.raises(InputRefused, match="tags is a list"):
        await memory.remember("x", tags="home")


async def test_every_verb_is_something_that_a_library_does(world: World) -> None:
    library = world.library
    assert all(callable(getattr(library, verb)) for verb in VERBS)
    assert not {"redact", "on_change", "result"} & set(VERBS)


# --- through the socket --------------------------------------------------------------------------


async def test_an_agent_s_memory_context_and_profile_are_reached_through_its_socket(tmp_path: Path) -> None:
    async with (
        Agent(ScriptedProvider(["noted", "sure"]), home=tmp_path) as agent,
        serving(Alone(agent), tmp_path),
    ):
        remote = Remote(tmp_path, "default")
        await remote.run("s", "we rented the flat in Lisbon")
        assert "s#1" in {hit.message_id for hit in await remote.memory.search("rented flat")}
        kept = await remote.memory.remember("call me Ana", pin=True)
        assert [one.id for one in await agent.memory.list(pinned=True)] == [kept.id]
        with pytest.raises(MemoryUnknown, match="there is nothing under 'nobody#1'"):
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
    async with Agent(provider, home=tmp_path) as agent, serving(Alone(agent), tmp_path):
        remote = Remote(tmp_path)
        with pytest.raises(SessionUnknown):
            await remote.sessions.compact("nobody")
        await remote.run("s", "we rented the flat in Lisbon")
        await remote.run("s", "and the trains?")
        summary = await remote.sessions.compact("s", "the flat")
        assert summary is not None
        assert "Lisbon" in summary
        assert [one.session for one in await remote.memory.summaries()] == ["s"]


async def test_what_a_library_does_not_offer_cannot_be_asked_for(tmp_path: Path) -> None:
    async with Agent(ScriptedProvider([]), home=tmp_path) as agent, serving(Alone(agent), tmp_path):
        for verb in ("memory.redact", "memory._memory", "memory.", "memory.on_change", "memory.__init__"):
            with pytest.raises(InputRefused, match="there is no operation"):
                await Remote(tmp_path)._ask(Request(verb), Any)


async def test_f41_an_owner_answers_only_for_its_own_workspace(tmp_path: Path) -> None:
    async with Agent(ScriptedProvider([]), home=tmp_path) as agent, serving(Alone(agent, "ours"), tmp_path):
        await agent.memory.remember("a canary")
        assert await Remote(tmp_path, "ours").memory.recall("canary")
        other = Remote(tmp_path, "theirs")
        for question in (other.memory.recall("canary"), other.sessions.list(), other.run("s", "hi")):
            with pytest.raises(HomeTaken, match="works in the workspace 'ours', not in 'theirs'"):
                await question
