"""Requirements on memory, tested through the library as people and models use it. Tests are named by requirement."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import apsw
import pytest

from mainstay import Agent, Config, Limits, tool
from mainstay.agent.system_clock import SystemClock
from mainstay.config.schema import (
    EmbeddingSettings,
    KnowledgeSettings,
    MemorySettings,
    RecentStoreSettings,
    SessionSettings,
    SummarySettings,
)
from mainstay.core.events import Folded, MessageAdded, Received, ToolFinished
from mainstay.core.memory_tiers import Fact, Summary, WorkspaceTiers
from mainstay.core.messages import Text, ToolResult
from mainstay.core.outcome import Answered
from mainstay.core.ports import Context, Options
from mainstay.core.tools import FunctionTool
from mainstay.memory.indexer import MemoryIndexer
from mainstay.memory.service import MemoryService
from mainstay.store.home import workspace_folder
from mainstay.store.sqlite.workspace_tiers import SeparateTierDatabase
from mainstay.testing import Call, MemoryStore, ScriptedProvider, Stall
from mainstay.testing.store_writer import SessionWriter

SUMMARISER = "You write the memory of a conversation"
GIST = "Ana rented a flat in Lisbon, Rua das Flores 7, and will move there in spring."


def settings(*, limits: Limits | None = None, **memory: Any) -> Config:
    """By words only, unless a test is about meaning: loading a model takes long."""
    given = {"embeddings": EmbeddingSettings(enabled=False), **memory}
    return Config(sessions=SessionSettings(memory=MemorySettings(**given)), limits=limits or Limits())


def saying(answer: Any = "noted", summary: str = GIST, *facts: dict[str, Any]) -> ScriptedProvider:
    """`answer` may be a function of what was asked. Asked for a summary, it writes that one, with these facts."""

    def script(context: Context, options: Options) -> Any:
        if SUMMARISER in context.system:
            return json.dumps({"summary": summary, "facts": list(facts)})
        return answer(context) if callable(answer) else answer

    return ScriptedProvider(script)


def lives_in(place: str, source: int) -> dict[str, Any]:
    return {"subject": "Ana", "predicate": "lives in", "object": place, "source": source, "confidence": 0.9}


class Obedient:
    """Makes the calls it is told to, one after another, and then says what came of the last; else takes note."""

    def __init__(self) -> None:
        self.calls: list[Call] = []

    def __call__(self, context: Context) -> Any:
        if self.calls:
            return self.calls.pop(0)
        last = context.messages[-1].parts[-1]
        return last.content if isinstance(last, ToolResult) else "noted"

    async def tell(self, agent: Agent, *calls: Call, session: str = "tools") -> str:
        self.calls = list(calls)
        return (await agent.run(session, "do as you were told")).text


@tool(effect="pure", untrusted=False, sink=False)
def look(where: str) -> str:
    """Look somewhere."""
    return f"{where}: all quiet"


# --- the tiers, as the model reaches them ---------------------------------------------------------


async def test_sigil_048_049_050_061_a_fold_fills_the_tiers_and_the_model_finds_it_there_with_its_tools(
    tmp_path: Path,
) -> None:
    does = Obedient()
    provider = saying(does, GIST, lives_in("Lisbon", 1))
    async with Agent(provider, tools=[look], home=tmp_path, config=settings()) as agent:
        for text in ("We rented the flat in Lisbon, Rua das Flores 7.", "The landlord has a dog.", "Good night."):
            await agent.run("trip", text)
        assert await agent.sessions.compact("trip") == GIST
        found = await does.tell(agent, Call("memory_search", {"query": "who has a dog?", "k": 1}))
        assert re.fullmatch(r"\[trip#\d+\] \d{4}-\d\d-\d\d user: The landlord has a dog\.(\n\(.*\))?", found)
        today = time.strftime("%Y-%m-%d", time.gmtime())
        told = await does.tell(agent, Call("memory_summary", {"from": today, "to": today}))
        assert re.match(r"\[trip#1-\d+\] ", told)
        assert GIST in told
        assert await does.tell(agent, Call("memory_summary", {"to": "2020-01-01"})) == (
            "There are no summaries of that time."
        )
        known = await does.tell(agent, Call("memory_recall", {"topic": "Ana"}))
        assert "Ana lives in Lisbon [trip#1]" in known
        (fact,) = await agent.memory.facts()
        assert (fact.subject, fact.predicate, fact.object, fact.confidence) == ("Ana", "lives in", "Lisbon", 0.9)
        assert [one.text for one in await agent.memory.summaries()] == [GIST]


@pytest.mark.skipif(find_spec("wordllama") is None or find_spec("sqlite_vec") is None, reason="an extra is missing")
async def test_sigil_051_057_059_messages_outside_the_window_are_found_by_words_and_by_meaning(tmp_path: Path) -> None:
    does = Obedient()
    provider = ScriptedProvider(
        lambda context, options: (
            json.dumps({"summary": "They spoke of this and that for a while."})
            if SUMMARISER in context.system
            else does(context)
        )
    )
    config = Config(sessions=SessionSettings(memory=MemorySettings(active_window=4)))
    assert config.sessions.memory.embeddings == EmbeddingSettings(enabled=True, model="local")
    async with Agent(provider, tools=[look], home=tmp_path, config=config) as agent:
        await agent.run("s", "My automobile broke down near the motorway.")
        for text in ("The soup needs salt.", "Play something by Bach.", "Water the plants.", "Pay the rent."):
            await agent.run("s", text)
        assert "automobile" not in repr(provider.asked[-1].messages), "it has left the window"
        assert (await agent.memory.search("automobile", k=1))[0].message_id == "s#1"
        (nearest,) = await agent.memory.semantic("trouble with my car", k=1)
        assert (nearest.message_id, nearest.session) == ("s#1", "s")
        assert nearest.score > 0
        told = await does.tell(agent, Call("memory_semantic", {"query": "trouble with my car", "k": 2}))
        lines = [line for line in told.splitlines() if line.startswith("[")]
        assert len(lines) == 2
        assert lines[0].startswith("[s#1] ")
        assert (await agent.memory.status()).vector_model


async def test_sigil_062_nothing_is_looked_up_until_the_model_asks() -> None:
    """Everything that could be injected is there: memories, facts, summaries and messages with the very same words."""
    does = Obedient()
    provider = saying(does, GIST, lives_in("Lisbon", 1))
    async with Agent(provider, tools=[look], home=":memory:", config=settings()) as agent:
        for text in ("The canary is in the flat in Lisbon.", "Yes.", "No."):
            await agent.run("before", text)
        await agent.sessions.compact("before")
        await agent.memory.remember("The canary of Lisbon sings at nine.")
        await agent.memory.status()
        told = await does.tell(agent, Call("look", {"where": "the canary in the flat in Lisbon"}), session="after")
        assert told == "the canary in the flat in Lisbon: all quiet"
        seen = [one for one in provider.asked if SUMMARISER not in one.system][-2:]
        assert [len(one.messages) for one in seen] == [1, 3]
        assert not any(word in repr(seen) for word in ("sings at nine", "Rua das Flores", "The canary is in"))
        told = await does.tell(agent, Call("memory_search", {"query": "canary Lisbon"}), session="after")
        assert "sings at nine" in told
        assert "The canary is in the flat" in told


# --- what can be configured ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("memory", "summaries", "facts"),
    [
        ({}, 1, 1),
        ({"summaries": SummarySettings(enabled=False)}, 0, 0),
        ({"summaries": SummarySettings(extract_facts=False)}, 1, 0),
        ({"knowledge": KnowledgeSettings(enabled=False)}, 1, 0),
    ],
    ids=["by default", "summaries off", "facts off", "knowledge off"],
)
async def test_sigil_055_056_summaries_and_facts_are_stored_unless_they_are_turned_off(
    memory: dict[str, Any], summaries: int, facts: int
) -> None:
    provider = saying("noted", GIST, lives_in("Lisbon", 1))
    async with Agent(provider, home=":memory:", config=settings(**memory)) as agent:
        for text in ("We rented the flat in Lisbon.", "Yes.", "No."):
            await agent.run("s", text)
        summary = await agent.sessions.compact("s")
        assert summary is not None
        assert (summary == GIST) == bool(summaries), "without a model to write it, it is a list of what was said"
        assert len(await agent.memory.summaries()) == summaries
        assert len(await agent.memory.facts()) == facts
        assert sum(SUMMARISER in one.system for one in provider.asked) == summaries
        assert (await agent.memory.search("flat Lisbon"))[0].message_id == "s#1", "messages are found all the same"


async def test_sigil_056_facts_are_shared_by_the_workspace() -> None:
    assert KnowledgeSettings().scope == "workspace"
    does = Obedient()
    provider = saying(does, GIST, lives_in("Lisbon", 1))
    async with Agent(provider, tools=[look], home=":memory:", config=settings()) as agent:
        for text in ("We rented the flat in Lisbon.", "Yes.", "No."):
            await agent.run("slack:general:1", text)
        await agent.sessions.compact("slack:general:1")
        told = await does.tell(agent, Call("memory_recall", {"topic": "Ana"}), session="teams:other:2")
        assert "Ana lives in Lisbon" in told


async def test_sigil_054_only_so_many_messages_are_searchable_where_that_is_configured() -> None:
    answers = iter(range(100, 200))
    for most, found in ((None, 12), (4, 4)):
        config = settings(recent_store=RecentStoreSettings(max_messages=most))
        async with Agent(saying(lambda context: f"garden {next(answers)}"), home=":memory:", config=config) as agent:
            for number in range(6):
                await agent.run("s", f"garden {number}")
            assert len(await agent.memory.search("garden", k=50)) == found
            assert (await agent.memory.get("s#1")).text == "garden 0"


async def test_sigil_036_everything_is_stored_in_one_sqlite_file_by_default(tmp_path: Path) -> None:
    provider = saying("noted", GIST, lives_in("Lisbon", 1))
    async with Agent(provider, home=tmp_path, config=Config()) as agent:
        for text in ("We rented the flat in Lisbon.", "Yes.", "No."):
            await agent.run("s", text)
        await agent.sessions.compact("s")
        await agent.memory.search("flat")
        status = await agent.memory.status()
    assert sorted(path.name for path in workspace_folder(tmp_path).iterdir()) == ["workspace.db"]
    db = apsw.Connection(str(workspace_folder(tmp_path) / "workspace.db"), flags=apsw.SQLITE_OPEN_READONLY)
    made = dict(db.execute("SELECT name, sql FROM sqlite_master WHERE type = 'table'").fetchall())
    for table in ("messages_words", "summaries_words", "facts_words"):
        assert "fts5" in made[table]
    assert db.execute("SELECT rowid FROM messages_words WHERE messages_words MATCH 'rent'").fetchall()
    assert db.execute("SELECT text FROM summaries").fetchall() == [(GIST,)]
    assert db.execute("SELECT subject, predicate, object FROM facts").fetchall() == [("Ana", "lives in", "Lisbon")]
    if find_spec("wordllama") is not None and find_spec("sqlite_vec") is not None:
        assert any("vec0" in sql for sql in made.values())
        assert (status.vectors, status.note) == (7, ""), "six messages and a fact"
    db.close()


async def test_sigil_037_038_messages_summaries_and_facts_are_ports_each_of_which_can_be_another(
    tmp_path: Path,
) -> None:
    """Databases of their own; then the facts alone are those of another, and follow the journal from its start."""
    names = ("messages", "summaries", "facts", "memories", "other facts")
    owners = {name: SeparateTierDatabase(str(tmp_path / f"{name}.db"), vectors=False) for name in names}
    made = {name: await owner.open() for name, owner in owners.items()}
    store = MemoryStore()
    writing = SessionWriter(store, "s")
    await writing.append(Received((Text("We rented the flat in Lisbon."),)))
    part = Summary(1, 1, 0, 1, "about a flat")
    await writing.append(Folded(1, "about a flat", parts=(part,), facts=(Fact("Ana", "lives in", "Lisbon", 1),)))

    async def answers(facts: str) -> tuple[list[str], list[str], list[str]]:
        tiers = WorkspaceTiers(
            messages=made["messages"].messages,
            summaries=made["summaries"].summaries,
            facts=made[facts].facts,
            memories=made["memories"].memories,
        )
        follower = MemoryIndexer(store, tiers, embedder=None, clock=SystemClock(), limits=Limits())
        follower.start()
        library = MemoryService(tiers, store, follower, SystemClock())
        await follower.wait_until_indexed(120)
        said = [hit.text for hit in (await library.search("flat")).hits]
        told = [one.text for one in await library.summaries()]
        known = [hit.text for hit in await library.recall("Ana")]
        await follower.close()
        return said, told, known

    first = await answers("facts")
    assert first == (["We rented the flat in Lisbon."], ["about a flat"], ["Ana lives in Lisbon"])
    await made["facts"].facts.delete_derived("s")
    assert (await answers("facts"))[2] == []
    assert await answers("other facts") == first
    assert await made["messages"].facts.list_facts() == await made["facts"].facts.list_facts() == []
    for owner in owners.values():
        await owner.close()


# --- free memories -------------------------------------------------------------------------------


async def test_opentalon_031_032_033_034_a_memory_has_id_text_tags_and_time_and_survives(tmp_path: Path) -> None:
    does = Obedient()
    began = time.time_ns() // 1_000_000
    async with Agent(saying(does), tools=[look], home=tmp_path, config=settings()) as agent:
        arguments = {"text": "Ana takes her tea without milk.", "tags": ["preference"]}
        assert (await does.tell(agent, Call("remember", arguments))).startswith("Remembered as ")
        await agent.memory.remember("The office closes at six.", tags=["fact"])
    async with Agent(saying(does), tools=[look], home=tmp_path, config=settings()) as agent:
        closes, tea = await agent.memory.list()
        assert (tea.text, tea.tags, closes.tags) == (arguments["text"], ("preference",), ("fact",))
        assert tea.id
        assert tea.id != closes.id
        assert began <= tea.at <= closes.at <= time.time_ns() // 1_000_000
        assert tea.source.startswith("tools#")
        assert [hit.id for hit in await agent.memory.recall("how does she take her tea?")] == [tea.id]
        assert [one.id for one in await agent.memory.list(tag="preference")] == [tea.id]
        assert [one.id for one in await agent.memory.list(tag="fact")] == [closes.id]
        assert await agent.memory.list(tag="workflow") == []
        assert tea.text in await does.tell(agent, Call("memory_recall", {"topic": "tea"}))
        assert tea.text in await does.tell(agent, Call("memory_recall", {"topic": "preference"}))
        assert closes.text not in await does.tell(agent, Call("memory_recall", {"topic": "preference"}))


# --- workflows -----------------------------------------------------------------------------------

DEPLOY = "Please deploy the billing service to staging"


def toolset() -> list[Callable[..., str]]:
    def build(target: str) -> str:
        """Build something."""
        return f"built {target}"

    def ship(target: str, slowly: bool = False) -> str:
        """Ship something."""
        if target == "nowhere":
            raise RuntimeError("there is no such place")
        return f"shipped {target}"

    return [FunctionTool(function, untrusted=False, sink=False) for function in (build, ship)]


async def test_opentalon_006_007_010_017_018_020_successful_workflows_are_stored_and_shown_with_a_similar_request(
    tmp_path: Path,
) -> None:
    does = Obedient()
    async with Agent(saying(does), tools=toolset(), home=tmp_path, config=settings()) as agent:
        does.calls = [Call("build", {"target": "billing"}), Call("ship", {"target": "staging"})]
        assert isinstance((await agent.run("first", DEPLOY)).outcome, Answered)
        (kept,) = await agent.memory.list(tag="workflow")
        assert kept.tags == ("workflow",)
        done = json.loads(kept.data)
        assert done["trigger"] == DEPLOY
        assert done["steps"] == [
            {"tool": "build", "order": 1, "arguments": {"target": "string"}},
            {"tool": "ship", "order": 2, "arguments": {"target": "string"}},
        ]
        assert done["outcome"] == "shipped staging"
        assert done["timestamp"].startswith(time.strftime("%Y-%m-%dT", time.gmtime(kept.at / 1000)))
    provider = saying(lambda context: "shipped")
    async with Agent(provider, tools=toolset(), home=tmp_path, config=settings()) as agent:
        await agent.run("second", "hello")
        await agent.run("second", "deploy the billing service to staging again")
        asked = provider.asked[-1]
        assert (asked.turn, asked.step) == (2, 1), "before the model is first asked"
        roles = [role for role, _ in asked.messages]
        assert roles == ["user", "assistant", "user", "system"], "history, and then what was recalled"
        assert "by calling build(target), then ship(target)" in asked.messages[-1][1]
        assert {"build", "ship"} <= set(asked.tools)
        assert asked.system == provider.asked[0].system, "the prefix is what it was"


async def test_opentalon_016_019_failed_or_single_step_turns_are_not_stored_and_not_shown_with_other_requests(
    tmp_path: Path,
) -> None:
    does = Obedient()
    provider = saying(does)
    async with Agent(provider, tools=toolset(), home=tmp_path, config=settings()) as agent:
        does.calls = [Call("build", {"target": "billing"})]
        await agent.run("one step", DEPLOY)
        does.calls = [Call("build", {"target": "billing"}), Call("ship", {"target": "nowhere"})]
        await agent.run("failed", DEPLOY)
        assert await agent.memory.list(tag="workflow") == []
        does.calls = [Call("build", {"target": "billing"}), Call("ship", {"target": "staging"})]
        await agent.run("worked", DEPLOY)
        assert len(await agent.memory.list(tag="workflow")) == 1
        for prompt in ("what is the capital of France?", "thanks!", "deploy"):
            await agent.run(f"other: {prompt}", prompt)
            assert [role for role, _ in provider.asked[-1].messages] == ["user"]


# --- files ---------------------------------------------------------------------------------------


async def test_guppy_018_a_lane_that_wakes_has_its_context_its_memory_files_and_its_skills(tmp_path: Path) -> None:
    """What changed while it slept is what it finds."""
    room = tmp_path / "workspaces" / "default" / "slack" / "general"
    skills = {name: room / "skills" / name / "SKILL.md" for name in ("ferries", "tugs")}
    for path in skills.values():
        path.parent.mkdir(parents=True)
    (room / "MEMORY.md").write_text("This room is for ferries.")
    skills["ferries"].write_text("---\nname: ferries\ndescription: How to board.\n---\nQueue.\n")
    first, second = saying("noted"), saying("noted")
    async with Agent(first, tools=[look], home=tmp_path, config=settings()) as agent:
        await agent.run("slack:general:1", "hello")
    (room / "MEMORY.md").write_text("This room is for tugs.")
    skills["ferries"].unlink()
    skills["tugs"].write_text("---\nname: tugs\ndescription: How to tow.\n---\nSlowly.\n")
    async with Agent(second, tools=[look], home=tmp_path, config=settings()) as agent:
        await agent.run("slack:general:1", "and now?")
        shown = {one.name: one.text for one in (await agent.sessions.context("slack:general:1")).sections}
    before, after = first.asked[0], second.asked[0]
    assert "- ferries: How to board." in before.system
    assert [text for role, text in after.messages if role != "system"] == ["hello", "noted", "and now?"]
    assert "This room is for tugs." in shown["profile"]
    assert "- tugs: How to tow." in after.system + shown["profile"] + repr(after.messages)


async def test_guppy_057_a_lane_that_wakes_has_its_history_its_files_and_its_identity(tmp_path: Path) -> None:
    (tmp_path / "IDENTITY.md").write_text("You are Ada, a harbour pilot.")
    (tmp_path / "SYSTEM.md").write_text("- installed a new lamp on the pier")
    (tmp_path / "MEMORY.md").write_text("We use metric units.")
    room = tmp_path / "workspaces" / "default" / "slack" / "general"
    room.mkdir(parents=True)
    (room / "MEMORY.md").write_text("This room is for ferries.")
    async with Agent(saying("one"), tools=[look], home=tmp_path, config=settings()) as agent:
        await agent.run("slack:general:1", "hello")
    (room / "MEMORY.md").write_text("This room is for tugs.")
    provider = saying("two")
    async with Agent(provider, tools=[look], home=tmp_path, config=settings()) as agent:
        await agent.run("slack:general:1", "and now?")
        shown = {one.name: one.text for one in (await agent.sessions.context("slack:general:1")).sections}
    (asked,) = provider.asked
    assert [text for _, text in asked.messages] == ["hello", "one", "and now?"]
    assert asked.system.startswith("You are Ada, a harbour pilot.")
    assert "## Changes made to the environment (SYSTEM.md)\n\n- installed a new lamp on the pier" in asked.system
    assert shown["profile"].partition("\n\n")[2] == (  # after the mark of notes
        "## Memory: home\n\nWe use metric units.\n\n## Memory: room general\n\nThis room is for tugs."
    )


async def test_guppy_074_077_078_the_agent_writes_to_the_given_file_and_sees_it_before_the_next_turn(
    tmp_path: Path,
) -> None:
    """With an ordinary tool for files: there is none that is only for memory."""

    @tool(untrusted=False, sink=False)
    def write(path: str, text: str) -> str:
        """Write a file."""
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_text(text)
        return "written"

    does = Obedient()
    provider = saying(does)
    async with Agent(provider, tools=[write], home=tmp_path, config=settings()) as agent:
        await does.tell(agent, session="slack:general:1")
        told = provider.asked[-1].system
        assert "narrowest scope that fits" in " ".join(told.split())
        path = next(line for line in told.splitlines() if line.startswith("- room general: ")).partition(": ")[2]
        for text in ("Ferries only.", "Tugs only.", "- a note\n" * 20_000):
            await does.tell(agent, Call("write", {"path": path, "text": text}), session="slack:general:1")
            await does.tell(agent, session="slack:general:1")
            shown = {one.name: one.text for one in (await agent.sessions.context("slack:general:1")).sections}
            assert shown["profile"].partition("\n\n")[2].startswith(f"## Memory: room general\n\n{text[:10]}")
        assert Path(path).read_text() == "- a note\n" * 20_000, "nothing prunes it"
        await does.tell(agent, session="slack:other:1")
        shown = {one.name: one.text for one in (await agent.sessions.context("slack:other:1")).sections}
        assert shown["profile"].endswith("(no memory yet)")


# --- bounds --------------------------------------------------------------------------------------


async def test_summary_timeout_s_ends_the_wait_for_a_model_that_never_answers() -> None:
    """What was said stands in a list instead, and the model's stream is closed."""
    stalls: list[Stall] = []

    def script(context: Context, options: Options) -> Any:
        if SUMMARISER in context.system:
            stalls.append(Stall())
            return stalls[-1]
        return "noted"

    provider = ScriptedProvider(script)
    config = settings(limits=Limits(summary_timeout_s=0.05))
    async with Agent(provider, home=":memory:", config=config) as agent:
        for text in ("We rented the flat in Lisbon.", "Yes.", "No."):
            await agent.run("s", text)
        began = asyncio.get_running_loop().time()
        summary = await agent.sessions.compact("s")
        assert 0.05 <= asyncio.get_running_loop().time() - began < 120
        assert summary is not None
        assert "user: We rented the flat in Lisbon." in summary
        assert (len(stalls), provider.closed) == (1, 1)
        assert (await agent.run("s", "still there?")).text == "noted"
        assert (await agent.memory.get("s#1")).text == "We rented the flat in Lisbon."


@pytest.mark.parametrize("attempts", [1, 2, 4])
async def test_summary_attempts_max_bounds_how_often_a_model_is_asked_that_answers_rubbish(attempts: int) -> None:
    answers = ["", "{", '{"summary": 7}', "I'm sorry, I cannot help with that.", '{"summary": ""}']
    asked: list[str] = []

    def script(context: Context, options: Options) -> Any:
        if SUMMARISER not in context.system:
            return "noted"
        asked.append(context.messages[0].text)
        return answers[(len(asked) - 1) % len(answers)]

    config = settings(limits=Limits(summary_attempts_max=attempts))
    async with Agent(ScriptedProvider(script), home=":memory:", config=config) as agent:
        for text in ("We rented the flat in Lisbon.", "Yes.", "No."):
            await agent.run("s", text)
        summary = await agent.sessions.compact("s")
        assert len(asked) == attempts
        assert ["Your last answer could not be used" in one for one in asked] == [False] + [True] * (attempts - 1)
        assert summary is not None
        assert "user: We rented the flat in Lisbon." in summary
        assert await agent.memory.summaries() == []
        assert await agent.memory.facts() == []


async def test_an_answer_that_can_be_used_within_summary_attempts_max_is_used() -> None:
    answers = ["{", '{"summary": 7}', json.dumps({"summary": GIST})]
    provider = ScriptedProvider(lambda context, options: answers.pop(0) if SUMMARISER in context.system else "noted")
    async with Agent(provider, home=":memory:", config=settings(limits=Limits(summary_attempts_max=3))) as agent:
        for text in ("We rented the flat in Lisbon.", "Yes.", "No."):
            await agent.run("s", text)
        assert await agent.sessions.compact("s") == GIST


# --- facts ---------------------------------------------------------------------------------------


async def test_u24_facts_name_their_source_supersede_older_ones_and_are_forgotten_in_every_tier(tmp_path: Path) -> None:
    known: list[dict[str, Any]] = []

    def script(context: Context, options: Options) -> Any:
        if SUMMARISER not in context.system:
            return "noted"
        return json.dumps({"summary": f"{GIST} There were {len(known)} facts in it.", "facts": known})

    async with Agent(ScriptedProvider(script), home=tmp_path, config=settings()) as agent:
        for session, place in (("a", "Lisbon"), ("b", "Porto-Canary")):
            known[:] = [lives_in(place, 1)]
            for text in (f"I have moved to {place}.", "Yes.", "No."):
                await agent.run(session, text)
            await agent.sessions.compact(session)
            (hit,) = [one for one in await agent.memory.recall("Ana") if one.kind == "fact"]
            assert (hit.text, hit.message_id) == (f"Ana lives in {place}", f"{session}#1")
            assert (await agent.memory.get(hit.message_id)).text == f"I have moved to {place}."
        assert len(await agent.memory.facts()) == 1, "superseded, not repeated"
        assert (await agent.memory.forget("b#1")).kind == "message"
        (hit,) = await agent.memory.recall("Ana")
        assert hit.text == "Ana lives in Lisbon", "what it superseded holds again"
        assert await agent.memory.search("Porto-Canary") == []
        assert [one.session for one in await agent.memory.summaries()] == ["a"]
        assert "Porto-Canary" not in repr(await agent.sessions.context("b"))
        assert "Porto-Canary" not in repr(await agent.sessions.records("b"))
    assert b"Porto-Canary" not in b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())


async def test_u24_a_fact_is_forgotten_by_its_id_and_what_was_said_stays() -> None:
    async with Agent(saying("noted", GIST, lives_in("Lisbon", 1)), home=":memory:", config=settings()) as agent:
        for text in ("I have moved to Lisbon.", "Yes.", "No."):
            await agent.run("s", text)
        await agent.sessions.compact("s")
        (fact,) = await agent.memory.facts()
        assert (await agent.memory.forget(fact.id)).kind == "fact"
        assert await agent.memory.recall("Ana") == []
        records = await agent.sessions.records("s")
        said = [r.event for r in records if isinstance(r.event, Received | MessageAdded | ToolFinished)]
        assert len(said) == 6
