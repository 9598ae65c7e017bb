"""F54: journals of every release are read, replayed and gone on from; those of a newer one are refused."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import apsw
import msgspec
import pytest
from wire_rules import check_anthropic, check_openai

from mainstay import Agent, Config, ToolContext, tool
from mainstay.app.sessions import read_all
from mainstay.core import journal
from mainstay.core.errors import SessionUnknown, StoreCorrupt, StoreTooNew
from mainstay.core.events import DURABLE, MessageAdded, ToolFinished, TurnEnded
from mainstay.core.journal import decode, decode_all, encode
from mainstay.core.limits import Limits
from mainstay.core.messages import Text
from mainstay.core.outcome import Answered, Exhausted
from mainstay.core.ports import Context
from mainstay.core.session import Session
from mainstay.lane.replay import replay
from mainstay.observe.export import history
from mainstay.providers.anthropic import AnthropicProvider
from mainstay.providers.openai import OpenAIProvider
from mainstay.store.home import workspace_path
from mainstay.store.sqlite import SqliteStore
from mainstay.testing import ScriptedProvider

FOLDER = Path(__file__).parent
RELEASES = sorted(path.stem for path in FOLDER.glob("*.sql"))


@pytest.fixture(params=RELEASES)
def release(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def home(tmp_path: Path, release: str) -> Path:
    """A home as that release left it."""
    path = workspace_path(tmp_path / "home")
    path.parent.mkdir(parents=True)
    db = apsw.Connection(str(path))
    db.execute((FOLDER / f"{release}.sql").read_text())
    db.close()
    return tmp_path / "home"


@pytest.fixture
def expected(release: str) -> Any:
    return json.loads((FOLDER / f"{release}.json").read_text())


async def open_store(home: Path) -> SqliteStore:
    store = SqliteStore(str(workspace_path(home)))
    await store.open()
    return store


async def test_f54_every_session_is_seen_as_it_was(home: Path, expected: Any) -> None:
    store = await open_store(home)
    standings = {one.key: one for one in await store.sessions(include_deleted=True)}
    assert set(standings) == set(expected["sessions"])
    for key, seen in expected["sessions"].items():
        standing = msgspec.to_builtins(standings[key])
        assert {name: standing.get(name) for name in seen["standing"]} == seen["standing"]
        records = await read_all(store, key)
        assert [type(one.event).__name__ for one in records] == seen["types"]
        assert [[m.id, m.role, list(msgspec.to_builtins(m.parts))] for m in history(records)] == seen["history"]
        tail = await store.load(key, 10**9)
        assert tail is not None
        view = Session.of(tail)
        assert [message.id for message in view.messages] == seen["view"]
        assert view.summary == seen["summary"]
        assert sorted(view.waiting) == seen["waiting"]
        open_calls = view.open.open_calls if view.open is not None else ()
        assert [call.id for call in open_calls] == seen["open_calls"]
    await store.close()


async def test_f54_every_session_replays_identically(home: Path, expected: Any) -> None:
    store = await open_store(home)
    limits = Limits(**expected["limits"])
    for key in expected["sessions"]:
        records = await read_all(store, key)
        replayed = await replay(records, limits)
        assert replayed.identical, f"{key}: {replayed.difference}"
        assert replayed.records == len(records)
    await store.close()


async def test_f54_every_record_is_written_again_as_it_was_read(home: Path) -> None:
    db = apsw.Connection(str(workspace_path(home)))
    for (body,) in db.execute("SELECT body FROM events ORDER BY id"):
        event = decode(str(body))
        assert decode(encode(event)) == event
    db.close()


async def test_f54_the_sessions_go_on(home: Path, expected: Any) -> None:
    paid: list[int] = []

    @tool(effect="pure")
    def look(at: str) -> str:
        """Look something up."""
        return "nothing"

    @tool
    def pay(amount: int, context: ToolContext) -> str:
        """Pay an amount."""
        paid.append(amount)
        return "paid"

    def answer(context: Context, options: Any) -> str:
        check_openai(OpenAIProvider("any", api_key="k").wire_messages(context))
        check_anthropic(AnthropicProvider("any", api_key="k").wire_messages(context))
        return f"answer {options.turn}"

    config = Config(limits=Limits(**expected["limits"]))
    async with Agent(ScriptedProvider(answer), tools=[look, pay], home=home, config=config) as agent:
        await agent.settled()  # the unfinished turn, and the prompt that waited behind it
        assert paid == [1], "what was at work is not done again; what had not begun is done"
        unfinished = await agent.sessions.get("unfinished")
        assert (unfinished.unfinished, unfinished.turns) == (False, 2)
        for key in ("tour", "copy", "unfinished"):
            reply = await agent.run(key, "are you still there?")
            assert isinstance(reply.outcome, Answered)
            assert reply.text == f"answer {reply.turn}"
            replayed = await agent.sessions.replay(key)
            assert replayed.identical, replayed.difference
        again = await agent.run("tour", "what is it like in Lisbon?", id="m-1", sender="ada")
        assert again.turn == 1, "an input is accepted once, also by a later release"
        assert again.text.startswith("Mild, 21 °C.")
        with pytest.raises(SessionUnknown):
            await agent.sessions.get("forgotten")
    store = await open_store(home)
    results = [r.event.result for r in await read_all(store, "unfinished") if isinstance(r.event, ToolFinished)]
    assert "Outcome unknown" in results[2].content
    await store.close()


def test_f54_the_golden_files_hold_every_kind_of_record() -> None:
    """A new kind of record asks for a new golden file."""
    seen = {
        kind
        for release in RELEASES
        for session in json.loads((FOLDER / f"{release}.json").read_text())["sessions"].values()
        for kind in session["types"]
    }
    assert seen >= {kind.__name__ for kind in DURABLE.__args__}


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
            decode(body)
        with pytest.raises(StoreTooNew, match="newer release"):
            list(decode_all([encode(TurnEnded(Answered())).decode(), body]))


async def test_f54_a_session_of_a_newer_release_does_not_stop_the_others(home: Path) -> None:
    db = apsw.Connection(str(workspace_path(home)))
    db.execute("""UPDATE events SET body = '{"type":"Dreamt"}' WHERE id = (2 << 32) + 5""")
    db.close()
    async with Agent(ScriptedProvider(["fine"]), home=home) as agent:
        await agent.settled()
        assert (await agent.run("tour", "and you?")).text == "fine"
        with pytest.raises(StoreTooNew, match="Dreamt"):
            await agent.run("unfinished", "and you?")


@pytest.mark.parametrize(
    "body", ["", "{", "[]", '{"kind":"x"}', '{"type":"Received"}', '{"type":"TurnStarted","inputs":"x"}']
)
def test_f54_a_record_that_is_no_record_is_corrupt_not_new(body: str) -> None:
    with pytest.raises(StoreCorrupt):
        decode(body)


def test_f54_an_upcast_reads_an_old_shape(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if an early release had written texts as bare strings, and a bound without its name."""

    def message(fields: dict[str, Any]) -> dict[str, Any]:
        return {"type": "MessageAdded", "role": fields["who"], "parts": [{"type": "text", "text": fields["text"]}]}

    def ended(fields: dict[str, Any]) -> dict[str, Any]:
        return {"type": "TurnEnded", "turn": fields["turn"], "outcome": {"type": "Exhausted", "bound": "unknown"}}

    monkeypatch.setitem(journal.UPCASTS, "MessageAdded.0", message)
    monkeypatch.setitem(journal.UPCASTS, "TurnEnded.0", ended)
    old = ['{"type":"MessageAdded.0","who":"assistant","text":"hi"}', '{"type":"TurnEnded.0","turn":4}']
    new = encode(TurnEnded(Answered(), turn=5)).decode()
    assert decode(old[0]) == MessageAdded("assistant", (Text("hi"),))
    assert list(decode_all([*old, new])) == [
        MessageAdded("assistant", (Text("hi"),)),
        TurnEnded(Exhausted("unknown"), turn=4),
        TurnEnded(Answered(), turn=5),
    ]
