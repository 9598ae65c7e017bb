"""F41: data of one workspace cannot be reached from another, by name, id, syntax, path or link; and forgotten data
is gone."""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import shutil
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import msgspec
import pytest

from mainstay import Agent, Config
from mainstay.cli.main import main
from mainstay.config.schema import ContextSettings, EmbeddingSettings, MemorySettings, SessionSettings, ToolSettings
from mainstay.core.errors import ConfigError, HomeTaken, HomeUnusable, MainstayError
from mainstay.core.limits import Limits
from mainstay.core.ports import Context, ModelInfo, Options
from mainstay.core.tools import tool
from mainstay.gateway.home_socket import SOCKET_NAME, RemoteAgent, serve_socket, single_workspace_callers
from mainstay.testing import Call, ScriptedProvider, Stall

VECTORS = find_spec("wordllama") is not None and find_spec("sqlite_vec") is not None
KINDS = (
    "message",
    "answer",
    "result",
    "large",
    "summary",
    "subject",
    "object",
    "memory",
    "tag",
    "pinned",
    "workflow",
    "file",
    "rules",
    "profile",
    "title",
    "name",
    "sender",
    "input",
)
LIMITS = Limits(tool_result_bytes_max=2_000, calls_per_response_max=1_000, tool_calls_max=100_000, steps_max=100)


def canary(workspace: str, kind: str) -> str:
    """One word that is nowhere else, and that no stemmer shortens."""
    digest = hashlib.sha256(f"{workspace} {kind}".encode()).hexdigest()[:18]
    return "".join(chr(ord("g") + int(char, 16)) for char in digest) + "7"


def canaries(workspace: str) -> dict[str, str]:
    return {kind: canary(workspace, kind) for kind in KINDS}


def leaks(workspace: str, *said: object) -> set[str]:
    """The kinds of this workspace's canaries that stand in any of this. The index shares beginnings of words, so the
    end of one is enough."""
    text = "\n".join(one if isinstance(one, str) else repr(one) for one in said).casefold()
    return {kind for kind, mark in canaries(workspace).items() if mark[2:-1] in text}


def leaks_on_disk(workspace: str, *folders: Path) -> set[str]:
    files = [path for folder in folders for path in folder.rglob("*") if path.is_file() and not path.is_symlink()]
    return leaks(workspace, *(path.read_bytes().decode("latin-1") for path in files), *map(str, files))


def fingerprint(folder: Path) -> dict[str, str]:
    """Every file and what is in it; but not the files that SQLite makes for open connections."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.name.endswith(("-wal", "-shm"))
    }


class Model:
    """Calls what it is told to, and keeps every word that it was shown."""

    def __init__(self, workspace: str) -> None:
        self.marks = canaries(workspace)
        self.calls: list[Call] = []
        self.shown: list[str] = []
        self.stall: Stall | None = None  # in which the next summary is held up

    def __call__(self, context: Context, options: Options) -> Any:
        self.shown += [context.system, context.profile, *map(repr, context.messages)]
        if "You write the memory of a conversation" in context.system:
            fact = {"subject": self.marks["subject"], "predicate": "keeps", "object": self.marks["object"], "source": 1}
            written = json.dumps({"summary": f"They spoke of {self.marks['summary']}.", "facts": [fact]})
            if self.stall is None:
                return written
            stall, self.stall = self.stall, None
            stall.then = written
            return stall
        if self.calls:
            calls, self.calls = self.calls, []
            return calls
        return f"I see, {self.marks['answer']} it is."


def config_of(workspace: str, *, vectors: bool = VECTORS) -> Config:
    return Config(
        workspace=workspace,
        limits=LIMITS,
        tools=ToolSettings(memory="on"),
        sessions=SessionSettings(memory=MemorySettings(embeddings=EmbeddingSettings(enabled=vectors))),
    )


def agent_of(home: Path, workspace: str, model: Model, *, vectors: bool = VECTORS) -> Agent:
    marks = model.marks

    @tool(effect="pure", untrusted=False, sink=False)
    def look(about: str) -> str:
        return f"{about}: {marks['result']}"

    @tool(effect="pure", untrusted=False, sink=False)
    def dump() -> str:
        return "a line of it\n" * 2_000 + marks["large"]

    return Agent(ScriptedProvider(model), tools=[look, dump], home=home, config=config_of(workspace, vectors=vectors))


class LeakedIds(msgspec.Struct, frozen=True):
    """What an attacker may have learned of a workspace from a log or a screen: names and ids, no content."""

    sessions: list[str]
    ids: list[str]
    refs: list[str]


async def fill(agent: Agent, model: Model, home: Path, workspace: str) -> LeakedIds:
    """A canary in everything that a workspace can hold."""
    marks = model.marks
    folder = home / "workspaces" / workspace
    (folder / "MEMORY.md").write_text(f"Remember the {marks['file']}.\n")
    (folder / "AGENTS.md").write_text(f"Never say {marks['rules']}.\n")
    await agent.run("plans", f"The word is {marks['message']}.", sender=marks["sender"], id=marks["input"])
    model.calls = [Call("look", {"about": "roof"}), Call("look", {"about": "cellar"}), Call("dump")]
    await agent.run("plans", f"Inspect the building {marks['workflow']} from roof to cellar, please")
    await agent.run("plans", "And now something else")
    assert await agent.sessions.compact("plans")
    await agent.run(f"talk {marks['name']}", "Hello")
    await agent.profile("plans").set(likes=marks["profile"])
    await agent.sessions.rename("plans", marks["title"])
    free = await agent.memory.remember(f"A free {marks['memory']}", tags=[marks["tag"]])
    pinned = await agent.memory.remember(f"Always {marks['pinned']}", pin=True)
    facts = [fact.id for fact in await agent.memory.facts()]
    flows = [one.id for one in await agent.memory.list(tag="workflow")]
    assert len(facts) == len(flows) == 1
    messages = [f"plans#{seq}" for seq in range(1, (await agent.sessions.get("plans")).head + 1)]
    return LeakedIds(["plans"], [*messages, free.id, pinned.id, *facts, *flows], ["call_2_1_0", "call_2_1_2"])


@asynccontextmanager
async def filled(home: Path, workspace: str) -> AsyncIterator[tuple[Agent, Model, LeakedIds]]:
    model = Model(workspace)
    async with agent_of(home, workspace, model) as agent:
        yield agent, model, await fill(agent, model, home, workspace)


def attacks(known: LeakedIds, home: Path, workspace: str) -> list[str]:
    """Everything one could send instead of a name, an id or a query, to reach that workspace."""
    folder = home / "workspaces" / workspace
    ids = [*known.sessions, *known.ids, *known.refs]
    ways = [f"{session}/{ref}" for session in known.sessions for ref in known.refs]
    for id in (known.sessions[0], known.ids[0], known.refs[0], known.ids[-1]):
        ways += [
            *(f"{workspace}/{id}", f"../{workspace}/{id}", f"..\\{workspace}\\{id}", f"%2e%2e/{workspace}/{id}"),
            *(f"{folder}/{id}", f"file://{folder}/workspace.db#{id}", f"{workspace}:{id}", f"{workspace}#{id}"),
            *(f"{id}' OR 1=1 --", f"{id}\0", f"{id}%", f"{id}*", id.upper(), f" {id} ", f"{id}#1"),
        ]
    return [
        *ids,
        *ways,
        workspace,
        f"../{workspace}",
        str(folder),
        str(folder / "workspace.db"),
        str(folder / "MEMORY.md"),
        "#1",
        "plans#0",
        "plans#-1",
        "plans#4294967296",
        "plans#9999999999",
        "plans#18446744073709551616",
        "plans#1e3",
        "plans#٣",
        "*",
        "%",
        "_",
        "' OR 1=1 --",
        "'; DROP TABLE memories; --",
        '" OR "" = "',
        "1 UNION SELECT body FROM events",
        f"ATTACH DATABASE '{folder / 'workspace.db'}' AS other",
        "SELECT * FROM journal",
        "text:*",
        "text : keeps",
        '"unbalanced',
        "NEAR(",
        "NEAR(word keeps, 10)",
        "a* AND b*",
        "word OR keeps",
        "NOT word",
        "^word",
        "{text tags} : word",
        "word + is",
        "(((((",
        "-text:x",
        "keeps",
        "word",
        "The word is",
        "They spoke of",
        "A free",
        "Always",
        "Inspect the building",
        "untrusted",
        "workflow",
        "runtime",
        ".",
        "..",
        "\0",
        "\ud800",
        "é" * 50,
        "roof",
        "I see",
    ]


# --- as the model of one workspace: every tool ---------------------------------------------------


async def try_tools(agent: Agent, model: Model, ways: list[str]) -> list[str]:
    """Every tool with every argument; what it said."""
    kept = [way for way in ways if way.isascii() or way.isprintable()]
    shapes: dict[str, Callable[[str], dict[str, Any]]] = {
        "memory_search": lambda way: {"query": way, "speaker": None},
        "memory_get": lambda way: {"id": way},
        "memory_recall": lambda way: {"topic": way},
        "memory_semantic": lambda way: {"query": way},
        "result": lambda way: {"ref": way, "limit": 16_000},
        "memory_summary": lambda way: {"from": way},
        "forget": lambda way: {"id": way},
        "remember": lambda way: {"text": f"asked for {way}", "tags": [way[:60]], "pin": True},
    }
    for name, shape in shapes.items():
        model.calls = [Call(name, shape(way)) for way in kept]
        model.calls += [Call(name, {**shape("x"), "workspace": "a"})]
        await agent.run(f"attack {name}", "Try everything")
    model.calls = [
        Call("memory_summary", {}),
        Call("memory_search", {"query": "the", "speaker": "user", "from": "2000-01-01"}),
    ]
    await agent.run("attack more", "Try everything")
    said: list[str] = []
    for session in await agent.sessions.list(limit=1000):
        said += [repr(record.event) for record in await agent.sessions.records(session.key, limit=100_000)]
    return said


# --- as its owner: every method of the library ---------------------------------------------------


async def try_library(agent: Agent, ways: list[str], folder: Path) -> list[object]:
    """Every method with every argument: what it returned, or the sentence that it refused it with."""
    memory, sessions = agent.memory, agent.sessions
    methods: list[Callable[[str], Awaitable[object]]] = [
        lambda way: memory.search(way, 20),
        lambda way: memory.search("word", 20, session=way),
        lambda way: memory.search("word", 20, speaker=way),
        lambda way: memory.semantic(way, 20),
        lambda way: memory.recall(way, 20),
        lambda way: memory.summaries(way),
        lambda way: memory.get(way),
        lambda way: memory.list(tag=way),
        lambda way: memory.list(origin=way),
        lambda way: memory.facts(origin=way),
        lambda way: memory.pin(way),
        lambda way: memory.forget(way),
        lambda way: memory.forget_origin(way),
        lambda way: sessions.get(way),
        lambda way: sessions.records(way),
        lambda way: sessions.context(way),
        lambda way: sessions.compact(way),
        lambda way: sessions.fork(way, f"copy {hash(way)}"),
        lambda way: sessions.export(way, folder / "exported"),
        lambda way: sessions.replay(way),
        lambda way: sessions.rename(way, "mine now"),
        lambda way: sessions.archive(way),
        lambda way: sessions.delete(way),
        lambda way: agent.profile(way).get(),
        lambda way: agent.import_history(way, [{"role": "user", "content": "hello"}]),
        lambda way: agent.abort(way),
    ]
    said: list[object] = []
    for method in methods:
        for way in ways:
            try:
                said.append(await method(way))
            except MainstayError as error:
                said.append(str(error))
    said += [await memory.list(limit=10_000), await memory.facts(limit=10_000), await memory.summaries(limit=1_000)]
    said += [await sessions.list(limit=1_000), await memory.status()]
    said += [path.read_text() for path in folder.rglob("*") if path.is_file()]
    return said


BOTH_WAYS = pytest.mark.parametrize(("ours", "theirs"), [("b", "a"), ("a", "b")], ids=["b from a", "a from b"])


@BOTH_WAYS
async def test_f41_no_tool_and_no_method_reaches_another_workspace_of_the_home(
    ours: str, theirs: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    home = tmp_path / "home"
    async with filled(home, theirs) as (_, _, known):
        pass
    there = home / "workspaces" / theirs
    before = fingerprint(there)
    assert leaks_on_disk(theirs, there) == set(KINDS), "every canary is where it should be"
    model = Model(ours)
    with caplog.at_level(logging.DEBUG):
        async with agent_of(home, ours, model) as agent:
            await fill(agent, model, home, ours)
            ways = attacks(known, home, theirs)
            said: list[object] = [*await try_tools(agent, model, ways)]
            said += await try_library(agent, ways, tmp_path / "out")
    assert leaks(theirs, *said) == set()
    assert leaks(theirs, *model.shown) == set()
    assert leaks(theirs, *(record.getMessage() for record in caplog.records)) == set()
    assert leaks(ours, *said), "the attacks find something where they may"
    assert leaks_on_disk(theirs, home / "workspaces" / ours, tmp_path / "out") == set()
    assert fingerprint(there) == before, "nothing of theirs was changed"


async def test_f41_agents_that_are_open_at_the_same_time_share_nothing(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    async with filled(first, "a") as (one, model_a, known_a), filled(second, "b") as (two, model_b, known_b):
        said_b = [*await try_tools(two, model_b, attacks(known_a, first, "a")[::3])]
        said_a = [*await try_tools(one, model_a, attacks(known_b, second, "b")[1::3])]
        said_b += map(repr, await try_library(two, attacks(known_a, first, "a")[2::3], tmp_path / "out b"))
        said_a += map(repr, await try_library(one, attacks(known_b, second, "b")[::3], tmp_path / "out a"))
    assert leaks("a", *said_b, *model_b.shown) == set()
    assert leaks("b", *said_a, *model_a.shown) == set()
    assert leaks_on_disk("a", second, tmp_path / "out b") == set()
    assert leaks_on_disk("b", first, tmp_path / "out a") == set()


# --- the command ---------------------------------------------------------------------------------


def in_words(home: Path, *arguments: str) -> list[str]:
    return [*arguments, "--home", str(home), "--workspace", "b"]


async def both(home: Path) -> LeakedIds:
    async with filled(home, "a") as (_, _, known):
        pass
    async with filled(home, "b"):
        pass
    return known


def test_f41_no_command_reaches_another_workspace(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home"
    known = asyncio.run(both(home))
    monkeypatch.setenv("MAINSTAY__SESSIONS__MEMORY__EMBEDDINGS__ENABLED", "false")  # each would load the model
    (home / "workspaces" / "b" / "only b has this").touch()
    before = fingerprint(home / "workspaces" / "a")
    ways = [
        "word",
        "keeps",
        "../a",
        "a/plans",
        f"{home}/workspaces/a/workspace.db",
        "' OR 1=1 --",
        "NEAR(",
        known.ids[-2],
    ]
    for way in ways:
        for arguments in (
            *(["memory", "search", way], ["memory", "search", "word", "--session", way], ["memory", "recall", way]),
            *(["memory", "get", way], ["memory", "list", "--tag", way], ["memory", "list", "--origin", way]),
            *(["memory", "forget", "--yes", way], ["session", "show", way], ["session", "trace", way]),
            *(["session", "records", way],),
            *(["session", "fork", way], ["session", "export", way, "--to", str(tmp_path / "out")]),
        ):
            main(in_words(home, *arguments))
            main(in_words(home, *arguments, "--json"))
    for arguments in (
        *(["memory", "summary"], ["memory", "list"], ["memory", "list", "--facts"], ["memory", "status"]),
        *(["session", "list"], ["session", "show", "plans"], ["session", "show", "plans", "--context"]),
        *(["session", "trace", "plans", "--json"], ["session", "records", "plans"], ["session", "replay", "plans"]),
    ):
        main(in_words(home, *arguments))
    out, err = capsys.readouterr()
    assert leaks("a", out, err) == set()
    assert leaks("b", out) >= {"message", "summary", "object", "memory", "pinned", "title"}
    assert leaks_on_disk("a", home / "workspaces" / "b", tmp_path / "out") == set()
    assert fingerprint(home / "workspaces" / "a") == before


# --- the owner's socket --------------------------------------------------------------------------


async def raw(home: Path, line: bytes) -> str:
    """What the owner answers to these bytes; nothing if it hangs up."""
    reader, writer = await asyncio.open_unix_connection(str(home / SOCKET_NAME))
    try:
        writer.write(line + b"\n")
        return (await asyncio.wait_for(reader.read(), 120)).decode()
    finally:
        writer.close()


@pytest.fixture
def short_home() -> Iterator[Path]:
    """A socket's path may only have about a hundred bytes."""
    folder = Path(tempfile.mkdtemp(prefix="f41"))
    yield folder
    shutil.rmtree(folder)


async def test_f41_the_owners_socket_answers_for_its_own_workspace_alone(short_home: Path) -> None:
    async with filled(short_home, "b"):
        pass
    async with (
        filled(short_home, "a") as (agent, _, known),
        serve_socket(single_workspace_callers(agent, "a"), short_home),
    ):
        remote = RemoteAgent(short_home, "b")
        asked: list[Awaitable[object]] = [
            *(remote.run("plans", "hello"), remote.model(), remote.sessions.list(), remote.sessions.get("plans")),
            *(remote.sessions.context("plans"), remote.sessions.fork("plans", "mine"), remote.sessions.delete("plans")),
            *(remote.memory.search("word"), remote.memory.get(known.ids[0]), remote.memory.recall("keeps")),
            *(remote.memory.list(), remote.memory.facts(), remote.memory.summaries(), remote.memory.status()),
            *(remote.memory.forget(known.ids[0]), remote.profile("plans").get(), remote.steer("plans", "hello")),
        ]
        for one in asked:
            with pytest.raises(HomeTaken, match="works in the workspace 'a', not in 'b'"):
                await one
        for line in (
            b'{"workspace": "../a", "request": {"operation": "SearchMemory", "q": "word"}}',
            b'{"workspace": "A", "request": {"operation": "SearchMemory", "q": "word"}}',
            b'{"workspace": "a/../b", "request": {"operation": "SearchMemory", "q": "word"}}',
            b'{"workspace": "a", "request": {"operation": "GetMemory", "id": "../b/plans#1"}}',
            b'{"workspace": "a", "request": {"operation": "SearchMemory", "q": "word", "workspace": "b"}}',
            b'{"workspace": "a", "request": {"operation": "__class__"}}',
            b'{"workspace": "a", "request": {"operation": "_tiers"}}',
            b'{"workspace": "a", "request": {"operation": "ExportSession", "session": "../b/plans", "folder": "/"}}',
            b'{"request": {"operation": "GetSession", "session": "../b/plans"}}',
            b'{"request": {"operation": "SearchMemory", "q": 7}}',
            b'{"request": {"operation": "GetMemory", "id": null}}',
            b'{"request": {"operation": "ListSessions", "limit": "all"}}',
            b'{"request": {"operation": "SearchMemory"}}',
            b'["SearchMemory"]',
            b"\xff\xfe",
            b"",
        ):
            answer = await raw(short_home, line)
            assert leaks("b", answer) == set(), line
            assert '"error":' in answer, f"{line!r} is answered in a sentence: {answer[:200]}"
        found = await raw(short_home, b'{"request": {"operation": "SearchMemory", "q": "word"}}')
        assert "message" in leaks("a", found)
        assert (await agent.sessions.get("plans")).status == "active"


# --- names, paths and links ----------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    ["../a", "a/..", "b/../a", "A", "a\0", "", ".", "..", "a ", " a", "a/", "/a", "a\n", "á", "%61", "a" * 65, "~"],
    ids=ascii,
)
async def test_f41_a_workspace_is_known_by_a_plain_name_and_no_other(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(ConfigError, match="a-z"):
        async with agent_of(tmp_path, name, Model("a")):
            pass
    assert list(tmp_path.iterdir()) == [], "nothing was made"
    code = await asyncio.to_thread(main, ["memory", "list", "--home", str(tmp_path), "--workspace", name])
    assert code == 1
    assert "a-z" in capsys.readouterr().err


async def test_f41_files_of_a_workspace_that_are_links_to_another_are_not_read(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with filled(tmp_path, "a"):
        pass
    model = Model("b")
    there, here = tmp_path / "workspaces" / "a", tmp_path / "workspaces" / "b"
    here.mkdir()
    (there / "room").mkdir()
    (there / "room" / "MEMORY.md").write_text(f"In the room: {canary('a', 'file')}")
    (here / "MEMORY.md").symlink_to(there / "MEMORY.md")
    (here / "AGENTS.md").symlink_to("../a/AGENTS.md")
    (here / "chat").symlink_to(there)
    async with agent_of(tmp_path, "b", model) as agent:
        for session in ("plans", "chat:room:thread", "chat:..:thread", "..:a:thread", "../a:room:t"):
            await agent.run(session, "Hello")
            shown = await agent.sessions.context(session)
            assert leaks("a", shown) == set(), session
    assert leaks("a", *model.shown) == set()
    assert leaks("a", *(record.getMessage() for record in caplog.records)) == set()
    assert any("is left out" in record.getMessage() for record in caplog.records), "the owner is told"


@pytest.mark.parametrize("link", ["the folder", "the folder, by another name", "the database", "its log"])
async def test_f41_a_workspace_that_is_a_link_to_another_is_not_opened(link: str, tmp_path: Path) -> None:
    async with filled(tmp_path, "a"):
        pass
    there, here = tmp_path / "workspaces" / "a", tmp_path / "workspaces" / "b"
    match link:
        case "the folder":
            here.symlink_to(there)
        case "the folder, by another name":
            (tmp_path / "elsewhere").symlink_to(there)
            here.symlink_to(tmp_path / "elsewhere")
        case "the database":
            here.mkdir()
            (here / "workspace.db").symlink_to(there / "workspace.db")
        case _:
            here.mkdir()
            (here / "workspace.db").symlink_to("../a/../a/workspace.db")
            (here / "workspace.db-wal").symlink_to(there / "workspace.db-wal")
    before = fingerprint(there)
    with pytest.raises(HomeUnusable, match="link"):
        async with agent_of(tmp_path, "b", Model("b")):
            pass
    for arguments in (["memory", "search", "word"], ["session", "list"], ["session", "trace", "plans"]):
        assert await asyncio.to_thread(main, in_words(tmp_path, *arguments)) == 1, arguments
    assert fingerprint(there) == before


# --- forgetting ----------------------------------------------------------------------------------


async def test_f41_a_deleted_session_is_in_no_file_and_no_context_any_more(tmp_path: Path) -> None:
    async with filled(tmp_path, "a") as (agent, model, _):
        model.calls = [Call("remember", {"text": f"Kept: {model.marks['memory']}", "tags": ["kept"]})]
        await agent.run("plans", "Remember this")
        await agent.sessions.delete("plans")
        model.shown.clear()
        await agent.run("plans", "Inspect the building from roof to cellar, please")
        await agent.run("other", "Inspect the building from roof to cellar, please")
        own = {"rules", "file", "memory", "tag", "pinned", "answer"}  # of the workspace, or said again just now
        assert leaks("a", *model.shown) <= own
        await agent.sessions.delete("plans")
        await agent.sessions.delete("other")
        left = await try_library(agent, ["word", "plans", "keeps", "building", "They spoke"], tmp_path / "out")
        assert leaks("a", *left) <= {"memory", "tag", "pinned", "name", "answer"}
        await agent.sessions.delete(f"talk {model.marks['name']}")
    kept = {"rules", "file", "memory", "tag", "pinned", "name"}  # a journal keeps its place, and so its name
    kept |= {"sender"}  # and who did something stays on record, but not what
    assert leaks_on_disk("a", tmp_path) == kept


async def said_in(agent: Agent, session: str, mark: str) -> list[str]:
    records = await agent.sessions.records(session, limit=100_000)
    return [f"{session}#{record.seq}" for record in records if mark in repr(record.event)]


@pytest.mark.parametrize("restarted", [False, True], ids=["at once", "after a restart"])
async def test_f41_a_forgotten_message_is_in_no_file_and_no_context_any_more(restarted: bool, tmp_path: Path) -> None:
    """The one who said it, what was made of it, and every tier."""
    said = ("message", "summary", "subject", "object", "result", "large", "workflow")
    async with filled(tmp_path, "a") as (agent, model, _):
        for kind in ("message", "workflow", "result"):
            for id in await said_in(agent, "plans", model.marks[kind]):
                if "Folded" not in repr(
                    await agent.sessions.records("plans", after=int(id.split("#")[1]) - 1, limit=1)
                ):
                    await agent.memory.forget(id)
        for id in await said_in(agent, "plans", "a line of it"):
            await agent.memory.forget(id)
        if not restarted:
            model.shown.clear()
            await agent.run("plans", "And what now?")
            assert leaks("a", *model.shown).isdisjoint(said)
    model = Model("a")
    async with agent_of(tmp_path, "a", model) as agent:
        await agent.run("plans", "And what now?")
        await agent.run("new", "Inspect the building from roof to cellar, please")
        assert leaks("a", *model.shown).isdisjoint(said)
        found = await try_library(agent, ["word", "keeps", "building", "They spoke", "roof"], tmp_path / "out")
        assert leaks("a", *found).isdisjoint(said)
    assert leaks_on_disk("a", tmp_path).isdisjoint(said)


@pytest.mark.parametrize("how", ["forgotten", "deleted"])
async def test_f41_a_message_forgotten_during_its_summary_is_not_in_the_summary(how: str, tmp_path: Path) -> None:
    model = Model("a")
    async with agent_of(tmp_path, "a", model) as agent:
        await agent.run("plans", f"The word is {model.marks['message']}.")
        await agent.run("plans", "And now something else")
        stall = model.stall = Stall()
        folding = asyncio.create_task(agent.sessions.compact("plans"))
        await stall.reached.wait()
        if how == "deleted":
            await agent.sessions.delete("plans")
        else:
            await agent.memory.forget("plans#1")
        stall.release()
        await asyncio.wait((folding,))
        assert folding.cancelled() or folding.exception() is None or isinstance(folding.exception(), MainstayError)
        model.shown.clear()
        await agent.run("plans", "And what now?")
        assert leaks("a", *model.shown).isdisjoint({"message", "summary"})
        assert await agent.memory.summaries() == []
        assert await agent.memory.facts() == []
    assert leaks_on_disk("a", tmp_path).isdisjoint({"message", "summary", "object"})


async def test_f41_a_message_forgotten_in_a_turn_is_not_folded_by_that_turn(tmp_path: Path) -> None:
    """The running turn has seen it; nothing that it leaves behind has."""
    mark, filler = canary("a", "message"), "and the weather was changeable all day long " * 30
    folded: list[bool] = []
    calls: list[list[Call]] = []

    def say(context: Context, options: Options) -> Any:
        if "You write the memory of a conversation" in context.system:
            folded.append(mark in repr(context.messages))
            return json.dumps({"summary": f"They spoke of {mark if folded[-1] else 'nothing much'}.", "facts": []})
        return calls.pop(0) if calls and context.messages[-1].role in ("user", "tool") else "I see."

    config = msgspec.structs.replace(config_of("a", vectors=False), context=ContextSettings(window=4096))
    provider = ScriptedProvider(say, info=ModelInfo(name="small", window=4096))
    async with Agent(provider, home=tmp_path, config=config) as agent:
        await agent.run("plans", f"The word is {mark}. {filler}")
        await agent.run("plans", filler)
        calls += [[Call("forget", {"id": "plans#1"})], [Call("memory_get", {"id": "plans#2"})]]
        calls += [[Call("memory_search", {"query": f"weather {n}", "k": 50})] for n in range(6)]
        await agent.run("plans", filler)
        await agent.run("plans", filler)
        await agent.run("plans", filler)
        await agent.settled()
        assert folded, "it was too much for the window"
        assert mark not in repr(await agent.sessions.context("plans"))
        assert leaks("a", await agent.memory.summaries(), await agent.sessions.records("plans")) == set()
    assert leaks_on_disk("a", tmp_path) == set()


async def test_f41_a_forgotten_memory_is_in_no_file_and_no_context_any_more(tmp_path: Path) -> None:
    async with filled(tmp_path, "a") as (agent, model, _):
        for one in await agent.memory.list(limit=1_000):
            await agent.memory.forget(one.id)
        model.shown.clear()
        await agent.run("new", "Inspect the building from roof to cellar, please")
        assert leaks("a", *model.shown).isdisjoint({"memory", "tag", "pinned", "workflow"})
    assert leaks_on_disk("a", tmp_path).isdisjoint({"memory", "tag", "pinned"})


async def test_f41_a_forgotten_fact_is_in_no_file_any_more(tmp_path: Path) -> None:
    async with filled(tmp_path, "a") as (agent, model, _):
        for fact in await agent.memory.facts():
            await agent.memory.forget(fact.id)
        assert await agent.memory.recall(model.marks["subject"]) == []
    assert leaks_on_disk("a", tmp_path).isdisjoint({"subject", "object"})
    async with agent_of(tmp_path, "a", Model("a")) as agent:
        assert await agent.memory.facts() == []


def test_f41_these_tests_detect_a_leak(tmp_path: Path) -> None:
    """The ends of canaries are found in text, in values and in bytes."""
    assert leaks("a", f"…{canary('a', 'message').upper()}…", {"x": [canary("a", "object")]}) == {"message", "object"}
    (tmp_path / "file").write_bytes(b"\0\xff" + canary("a", "large").encode()[2:])
    assert leaks_on_disk("a", tmp_path) == {"large"}
    assert len({mark for workspace in ("a", "b") for mark in canaries(workspace).values()}) == 2 * len(KINDS)
