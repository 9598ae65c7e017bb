"""F54: journals of every release are read, replayed and continued; those of a newer one are refused."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import apsw
import pytest
import record_release
from support.wire_messages import wire_messages
from support.wire_rules import check_anthropic, check_openai

from mainstay import Agent, Config, ToolContext, tool
from mainstay.config.schema import EmbeddingSettings, MemorySettings, SessionSettings
from mainstay.core import journal
from mainstay.core.errors import SessionUnknown, StoreCorrupt, StoreTooNew
from mainstay.core.events import DurableEvent, Folded, MessageAdded, ToolFinished, TurnEnded
from mainstay.core.journal import decode_event, decode_events, encode_event
from mainstay.core.limits import Limits
from mainstay.core.messages import Text
from mainstay.core.outcome import Answered, Exhausted
from mainstay.core.ports import Context
from mainstay.lane.replay import replay_journal
from mainstay.observe.session_export import full_history
from mainstay.operations.sessions import read_journal
from mainstay.providers.anthropic.provider import AnthropicProvider
from mainstay.providers.openai.provider import OpenAIProvider
from mainstay.store.home import workspace_folder
from mainstay.store.sqlite.store import SqliteStore
from mainstay.store.sqlite.workspace_tiers import SeparateTierDatabase
from mainstay.testing import ScriptedProvider

FOLDER = Path(__file__).parent
RELEASES = sorted(path.stem for path in FOLDER.glob("*.sql"))


def read(release: str) -> Any:
    """What was to be seen of its journals."""
    return json.loads((FOLDER / f"{release}.json").read_text())


@pytest.fixture(params=RELEASES)
def release(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def home(tmp_path: Path, release: str) -> Path:
    """A home as that release left it."""
    path = workspace_folder(tmp_path / "home") / "workspace.db"
    path.parent.mkdir(parents=True)
    db = apsw.Connection(str(path))
    db.execute("BEGIN")
    db.execute((FOLDER / f"{release}.sql").read_text())
    db.execute("COMMIT")
    db.close()
    return tmp_path / "home"


@pytest.fixture
def expected(release: str) -> Any:
    return read(release)


async def open_store(home: Path) -> SqliteStore:
    store = SqliteStore(str(workspace_folder(home) / "workspace.db"))
    await store.open()
    return store


async def test_f54_every_session_is_seen_as_it_was(home: Path, expected: Any) -> None:
    seen = (await record_release.expected(workspace_folder(home) / "workspace.db"))["sessions"]
    assert set(seen) == set(expected["sessions"])
    for key, before in expected["sessions"].items():
        now = seen[key]
        assert {name: now["standing"].get(name) for name in before["standing"]} == before["standing"]
        assert {name: now[name] for name in before if name != "standing"} == {
            name: value for name, value in before.items() if name != "standing"
        }


async def test_f54_every_session_replays_identically(home: Path, expected: Any) -> None:
    store = await open_store(home)
    for key in expected["sessions"]:
        records = await read_journal(store, key)
        replayed = await replay_journal(records)
        assert replayed.is_identical, f"{key}: {replayed.difference}"
        assert replayed.records == len(records)
    await store.close()


async def test_f54_every_record_is_written_again_as_it_was_read(home: Path) -> None:
    db = apsw.Connection(str(workspace_folder(home) / "workspace.db"))
    for (body,) in db.execute("SELECT body FROM events ORDER BY id"):
        event = decode_event(str(body))
        assert decode_event(encode_event(event)) == event
    db.close()


async def test_f54_the_sessions_go_on(home: Path, expected: Any) -> None:
    paid: list[int] = []

    @tool(effect="pure", untrusted=False, sink=False)
    def look(at: str) -> str:
        """Look something up."""
        return "nothing"

    @tool(untrusted=False, sink=False)
    def pay(amount: int, context: ToolContext) -> str:
        """Pay an amount."""
        paid.append(amount)
        return "paid"

    def answer(context: Context, options: Any) -> str:
        check_openai(wire_messages(OpenAIProvider("any", api_key="k"), context))
        check_anthropic(wire_messages(AnthropicProvider("any", api_key="k"), context))
        return f"answer {options.turn}"

    async with Agent(ScriptedProvider(answer), tools=[look, pay], home=home, config=quiet(expected)) as agent:
        await agent.settled()  # the unfinished turn, and the prompt that waited behind it
        assert paid == [1], "what was at work is not done again; what had not begun is done"
        unfinished = await agent.sessions.get("unfinished")
        assert (unfinished.unfinished, unfinished.turns) == (False, 2)
        for key in [one.key for one in await agent.sessions.list()]:
            reply = await agent.run(key, "are you still there?")
            assert isinstance(reply.outcome, Answered)
            assert reply.text == f"answer {reply.turn}"
            replayed = await agent.sessions.replay(key)
            assert replayed.is_identical, replayed.difference
        again = await agent.run("tour", "what is it like in Lisbon?", id="m-1", sender="ada")
        assert again.turn == 1, "an input is accepted once, also by a later release"
        assert again.text.startswith("Mild, 21 °C.")
        with pytest.raises(SessionUnknown):
            await agent.sessions.get("forgotten")
    store = await open_store(home)
    results = [r.event.result for r in await read_journal(store, "unfinished") if isinstance(r.event, ToolFinished)]
    assert "Outcome unknown" in results[2].content
    await store.close()


FOLDED = [(release, key) for release in RELEASES for key, seen in read(release)["sessions"].items() if seen["folds"]]


@pytest.mark.parametrize(("release", "key"), FOLDED)
async def test_f54_a_folded_session_is_seen_through_its_summary_and_folded_again(
    home: Path, expected: Any, key: str
) -> None:
    before = expected["sessions"][key]

    def answer(context: Context, options: Any) -> str:
        if "You write the memory of a conversation" in context.system:
            return json.dumps({"summary": "They went on to speak of something else for a while."})
        return "noted"

    provider = ScriptedProvider(answer)
    async with Agent(provider, home=home, config=quiet(expected)) as agent:
        records = {one.seq: one for one in await agent.sessions.records(key, limit=1000)}
        await agent.run(key, "what came before?")
        shown = provider.asked[-1].messages
        assert shown[0][0] == "user"
        assert shown[0][1].startswith("[This summary stands for the earlier part of this conversation.")
        assert shown[0][1].endswith(before["summary"])
        whole = {m.id: m for m in full_history(list(records.values()))}
        newer = [id for id, role, _ in before["view"][1:] if id in whole]
        assert [text for _, text in shown].count("what came before?") == 1
        assert len(shown) >= len(before["view"]) + 1
        gone = [m for id, m in whole.items() if id not in newer and m.role == "user"]
        assert gone
        assert not any(m.text == text for m in gone for _, text in shown)
        summary = await agent.sessions.compact(key)
        assert summary is not None
        folds = [r.event for r in await agent.sessions.records(key, limit=1000) if isinstance(r.event, Folded)]
        assert folds[-1].version == before["folds"][-1].get("version", 1) + 1
        replayed = await agent.sessions.replay(key)
        assert replayed.is_identical, replayed.difference


async def test_f54_memories_are_known(home: Path, expected: Any) -> None:
    """As that release left it, or, where it had no memory yet, from its journals."""
    store = await open_store(home)
    heads, positions = await store.list_heads(), await store.tiers(vectors=False).messages.positions()
    assert positions in ({}, heads), "all of it, or none"
    assert await record_release.remembered(store) == expected["memory"]
    await store.close()


async def test_f54_memory_is_built_again_from_the_journals(home: Path, expected: Any) -> None:
    """All but what somebody asked to keep, which is in no journal."""
    store = await open_store(home)
    beside = SeparateTierDatabase(":memory:", vectors=False)
    built = await record_release.remembered(store, await beside.open())
    before = dict(expected["memory"])
    before["memories"] = [as_recorded_now(one) for one in before["memories"] if "workflow" in one.get("tags", ())]
    assert built == before
    assert built["messages"] > 30
    await beside.close()
    await store.close()


def as_recorded_now(workflow: dict[str, Any]) -> dict[str, Any]:
    """Return a workflow of 0.1 as this release records it: without text of tool results, so that it has no origin."""
    data = json.loads(workflow["data"])
    data |= {"outcome": "success", "has_untrusted": workflow["origin"].startswith("untrusted:")}
    return {**{k: v for k, v in workflow.items() if k != "origin"}, "data": json.dumps(data, separators=(",", ":"))}


async def test_f54_pinned_memories_are_in_the_context_and_untrusted_ones_are_not(home: Path, expected: Any) -> None:
    pinned = [one["text"] for one in expected["memory"]["memories"] if one.get("pinned")]
    outside = [one["text"] for one in expected["memory"]["memories"] if one.get("origin")]
    provider = ScriptedProvider(lambda context, options: "noted")
    async with Agent(provider, home=home, config=quiet(expected)) as agent:
        await agent.run("new", "hello")
        sections = (await agent.sessions.context("new")).sections
        profile = next(one.text for one in sections if one.name == "profile")
        assert all(text in profile for text in pinned)
        assert not any(text in one.text for text in outside for one in sections)
        assert {one.text for one in await agent.memory.list(origin="untrusted")} == set(outside)
    if release_has_memory(expected):
        assert pinned
        assert outside


def release_has_memory(expected: Any) -> bool:
    return bool(expected["memory"]["memories"])


def quiet(expected: Any) -> Config:
    """With that release's bounds, and by words only."""
    memory = MemorySettings(embeddings=EmbeddingSettings(enabled=False))
    return Config(limits=Limits(**expected["limits"]), sessions=SessionSettings(memory=memory))


def test_f54_the_golden_files_hold_every_kind_of_record() -> None:
    """A new kind of record asks for a new golden file."""
    seen = {kind for release in RELEASES for session in read(release)["sessions"].values() for kind in session["types"]}
    assert seen >= {kind.__name__ for kind in DurableEvent.__args__}


def test_f54_the_golden_files_hold_folds_with_facts_kept_values_profiles_and_memories() -> None:
    sessions = [session for release in RELEASES for session in read(release)["sessions"].values()]
    memory = [read(release)["memory"] for release in RELEASES]
    folds = [fold for session in sessions for fold in session["folds"] if fold.get("parts") and fold.get("facts")]
    assert {bool(fold.get("origin")) for fold in folds} == {True, False}
    assert all(fold["by"] and fold["usage"] for fold in folds)
    assert max(fold.get("version", 1) for fold in folds) > 2
    assert any(session["kept"] for session in sessions)
    assert any(session["amendment"] for session in sessions)
    assert any(session["standing"].get("profile") for session in sessions)
    memories = [one for kept in memory for one in kept["memories"]]
    assert {"workflow", "preference"} <= {tag for one in memories for tag in one.get("tags", ())}
    assert any(one.get("pinned") for one in memories)
    assert {query for kept in memory for query, found in kept["finds"].items() if found} == set(record_release.FINDS)


def test_f54_a_golden_file_is_never_made_again() -> None:
    done = subprocess.run(
        [sys.executable, str(FOLDER / "record_release.py")], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "never made again" in done.stderr


# --- older and newer -----------------------------------------------------------------------------


def test_f54_a_record_of_a_newer_release_is_refused_with_a_sentence() -> None:
    for body in ('{"type":"Dreamt","of":"sheep"}', '{"type":"TurnEnded.2","outcome":"fine","turn":1}'):
        with pytest.raises(StoreTooNew, match="use the newer release"):
            decode_event(body)
        with pytest.raises(StoreTooNew, match="newer release"):
            list(decode_events([encode_event(TurnEnded(Answered())).decode(), body]))


async def test_f54_a_session_of_a_newer_release_does_not_stop_the_others(home: Path, expected: Any) -> None:
    db = apsw.Connection(str(workspace_folder(home) / "workspace.db"))
    (session,) = db.execute("SELECT id FROM sessions WHERE key = 'unfinished'").fetchone()
    db.execute("""UPDATE events SET body = '{"type":"Dreamt"}' WHERE id = (? << 32) + 5""", (session,))
    db.close()
    async with Agent(ScriptedProvider(["fine"]), home=home, config=quiet(expected)) as agent:
        await agent.settled()
        assert (await agent.run("tour", "and you?")).text == "fine"
        with pytest.raises(StoreTooNew, match="Dreamt"):
            await agent.run("unfinished", "and you?")


@pytest.mark.parametrize(
    "body", ["", "{", "[]", '{"kind":"x"}', '{"type":"Received"}', '{"type":"TurnStarted","inputs":"x"}']
)
def test_f54_a_record_that_is_no_record_is_corrupt_not_new(body: str) -> None:
    with pytest.raises(StoreCorrupt):
        decode_event(body)


def test_f54_an_upcast_reads_an_old_shape(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if an early release had written texts as bare strings, and a bound without its name."""

    def message(fields: dict[str, Any]) -> dict[str, Any]:
        return {"type": "MessageAdded", "role": fields["who"], "parts": [{"type": "text", "text": fields["text"]}]}

    def ended(fields: dict[str, Any]) -> dict[str, Any]:
        return {"type": "TurnEnded", "turn": fields["turn"], "outcome": {"type": "Exhausted", "bound": "unknown"}}

    monkeypatch.setitem(journal.UPCASTS, "MessageAdded.0", message)
    monkeypatch.setitem(journal.UPCASTS, "TurnEnded.0", ended)
    old = ['{"type":"MessageAdded.0","who":"assistant","text":"hi"}', '{"type":"TurnEnded.0","turn":4}']
    new = encode_event(TurnEnded(Answered(), turn=5)).decode()
    assert decode_event(old[0]) == MessageAdded("assistant", (Text("hi"),))
    assert list(decode_events([*old, new])) == [
        MessageAdded("assistant", (Text("hi"),)),
        TurnEnded(Exhausted("unknown"), turn=4),
        TurnEnded(Answered(), turn=5),
    ]
