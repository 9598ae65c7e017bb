"""Requirements on the kernel that span several packages: each test is named by its id."""

from __future__ import annotations

import asyncio
import io
import json
import re
import sqlite3
import time
import tokenize
from pathlib import Path
from typing import Any

import pytest
from support.chat_world import World as ChatWorld
from support.chat_world import running
from support.kernel_world import World, virtual
from support.slack_platform import ANN, ROOM, by_socket

import mainstay
from mainstay import Agent, Config, tool
from mainstay.cli import main as cli
from mainstay.config.loader import load_config
from mainstay.core.channels import ChannelCapabilities, SentMessage, SupportsEphemeral
from mainstay.core.chat_addresses import ChatAddress
from mainstay.core.errors import SessionUnknown, Unauthorised
from mainstay.core.events import Folded, MessageAdded, TurnEnded, TurnStarted
from mainstay.core.messages import Text, ToolCall, Usage
from mainstay.core.outcome import Aborted, Answered, Failed
from mainstay.core.ports import ModelInfo
from mainstay.gateway.inbound_handler import BUSY_REPLY
from mainstay.memory.prompt_loader import PromptLoader
from mainstay.testing import Call, Raise, Say, ScriptedProvider, Stall
from mainstay.testing.channel_rig import RecordingMessageHandler, wait_until
from mainstay.testing.loopback_channel import LoopbackChannel, LoopbackPlatform, LoopbackRig

SRC = Path(mainstay.__file__).parent


@tool(effect="pure", untrusted=False, sink=False)
async def add(a: int, b: int) -> int:
    return a + b


# --- what the runtime is made of ------------------------------------------------------------------

RUNTIME = (
    *("core", "turn", "lane", "context", "memory", "skills", "patterns", "triggers", "sandbox", "tools"),
    *("store", "guards", "trust", "evals", "metering", "observe", "operations", "gateway", "server", "plugins"),
)
NAMING = {
    "guards/secret_formats.py",  # knows what the keys of platforms look like
    "guards/pii.py",  # knows after which words a telephone number follows
}
PLATFORM = re.compile(r"\b(slack|telegram|discord|matrix|signal-cli|mattermost|whatsapp)\b", re.IGNORECASE)
OF_PLATFORMS = re.compile(
    r"^\s*(?:from|import)\s+(?:slack_sdk|discord|nio|telegram|mainstay\.channels)\b", re.MULTILINE
)
LOADS = re.compile(
    r"^\s*(?:from|import)\s+(?:importlib|pkgutil|runpy|mainstay\.plugins|mainstay\.agent)\b|\b(?:exec|eval|__import__)\(",
    re.MULTILINE,
)


def sources(*rooms: str) -> dict[str, str]:
    return {str(path.relative_to(SRC)): path.read_text() for room in rooms for path in (SRC / room).rglob("*.py")}


def strings(source: str) -> str:
    """What a module says, without its comments and names."""
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    return "\n".join(token.string for token in tokens if token.type == tokenize.STRING)


def test_guppy_001_the_runtime_names_no_chat_platform_and_loads_nothing_of_one() -> None:
    assert all((SRC / room).is_dir() for room in RUNTIME), "the rooms are where they were"
    found = sources(*RUNTIME)
    assert set(found) >= NAMING
    found = {name: source for name, source in found.items() if name not in NAMING}
    assert len(found) > 200
    assert not [name for name, source in found.items() if OF_PLATFORMS.search(source)]
    suspects = {name: source for name, source in found.items() if PLATFORM.search(source)}
    assert not [name for name, source in suspects.items() if PLATFORM.search(strings(source))]


def test_sigil_002_the_loop_loads_no_code_and_knows_no_plugin() -> None:
    """The turn loop and the lanes contain no plugin code: they load nothing by name."""
    found = sources("turn", "lane")
    assert {"turn/loop.py", "lane/lane.py"} <= set(found)
    assert not [name for name, source in found.items() if LOADS.search(source)]


async def test_sigil_002_a_tool_of_any_name_is_a_tool_and_never_the_loop() -> None:
    """What comes from outside is offered as tools; even one that is called like the loop only answers its call."""

    @tool(untrusted=False, sink=False)
    async def run_turn() -> str:
        return "I am the loop now"

    provider = ScriptedProvider([Call("run_turn"), "It said that it is the loop."])
    async with Agent(provider, tools=[run_turn], home=":memory:") as agent:
        reply = await agent.run("s", "go")
    assert (reply.text, [one.content for one in reply.results]) == (
        "It said that it is the loop.",
        ["I am the loop now"],
    )


# --- a lane that is full --------------------------------------------------------------------------


class WhisperingPlatform(LoopbackPlatform):
    def __init__(self) -> None:
        super().__init__()
        self.whispered: list[tuple[ChatAddress, str, str]] = []


class WhisperingChannel(LoopbackChannel):
    """One that can say something to a person alone."""

    async def post_ephemeral(self, to: ChatAddress, user: str, text: str) -> SentMessage:
        assert isinstance(self.platform, WhisperingPlatform)
        self.platform.whispered.append((to, user, text))
        return SentMessage(id=f"w{len(self.platform.whispered)}", thread=to.thread)


async def test_guppy_013_where_a_channel_can_the_busy_notice_is_for_the_sender_alone(tmp_path: Path) -> None:
    stall = Stall("done")
    platform = WhisperingPlatform()
    rig = LoopbackRig(ChannelCapabilities(threads=True), platform=platform)
    rig.channel = WhisperingChannel(platform, "chat", ChannelCapabilities(threads=True))
    async with running(ChatWorld(tmp_path, rig, script=lambda context, options: stall)) as world:
        thread = await rig.send_message("C1", "first", mention=True)
        await wait_until(stall.reached.is_set, "the model is asked")
        for number in range(7):
            await rig.send_message("C1", f"more {number}", thread=thread, user="bob")
        await wait_until(lambda: len(platform.whispered) == 2, "both that found no room are answered")
        to, user, text = platform.whispered[0]
        assert (to.room, to.thread, user, text) == ("C1", thread, "bob", BUSY_REPLY)
        stall.release()
        await world.told(world.session(rig, "C1", thread), 6)
        assert not [one for one in await rig.posted_messages("C1") if one.text == BUSY_REPLY], "nobody else is told"


async def test_guppy_013_slack_shows_it_to_one_person() -> None:
    async with by_socket() as rig:
        asked: list[dict[str, Any]] = []

        def chat_postEphemeral(given: dict[str, Any]) -> dict[str, Any]:
            asked.append(given)
            return {"message_ts": "1700000000.000100"}

        rig.platform.chat_postEphemeral = chat_postEphemeral  # type: ignore[attr-defined]
        await rig.channel.start(RecordingMessageHandler())
        assert isinstance(rig.channel, SupportsEphemeral)
        sent = await rig.channel.post_ephemeral(ChatAddress("team", ROOM, "1700000000.000001"), ANN, "busy")
        assert sent.id == "1700000000.000100"
        (given,) = asked
        assert (given["channel"], given["user"], given["thread_ts"], given["text"]) == (
            *(ROOM, ANN, "1700000000.000001"),
            "busy",
        )
        assert not await rig.posted_messages(ROOM)


# --- configuration instead of code ----------------------------------------------------------------


async def test_loom_008_model_tools_backends_and_patterns_are_exchanged_in_the_configuration_alone(
    tmp_path: Path,
) -> None:
    for name in ("one", "two"):
        with sqlite3.connect(tmp_path / f"{name}.db") as db:
            db.execute(f"CREATE TABLE {name}s (id INTEGER)")
        (tmp_path / name).mkdir()
        (tmp_path / name / "it.yaml").write_text(
            f"name: way-{name}\ntitle: T\ndescription: How {name} is counted.\nintents: [count {name}]\n"
        )

    async def made(name: str, model: str, builtin: str) -> tuple[str, set[str], str]:
        """The very same code for both."""
        home = tmp_path / f"home-{name}"
        home.mkdir()
        (home / "mainstay.yaml").write_text(
            f"model: {model}\n"
            "providers: {openai: {api_key: x}, anthropic: {api_key: x}}\n"
            f"tools: {{builtin: [{builtin}]}}\n"
            f"backends: {{data: {{kind: sql, url: 'sqlite:///{tmp_path}/{name}.db', scope: {{tables: ['*']}}}}}}\n"
            f"patterns: {{folders: ['{tmp_path}/{name}']}}\n"
            "policy: {allow: ['data__*']}\n"
        )
        (home / "mainstay.yaml").chmod(0o600)
        async with Agent(home=home, config=load_config(home, env={}).config) as agent:
            opened: Any = await agent.runtime()
            services = opened.services
            seen = [one.fixed_section("s") for one in services.contributors]
            asked = f"How is {name} counted?"
            seen += [part.text for one in services.contributors for part in one.turn_notes("s", asked)]
            offered = {one.name for one in services.tools.callable_tools}
            return services.provider_for("").model().name, offered, "\n".join(seen)

    first, second = await made("one", "openai/gpt-4.1-mini", "read"), await made("two", "anthropic/claude-x", "grep")
    assert (first[0], second[0]) == ("gpt-4.1-mini", "claude-x")
    assert "read" in first[1] - second[1]
    assert "grep" in second[1] - first[1]
    for (_, _, seen), own, other in ((first, "one", "two"), (second, "two", "one")):
        assert f"{own}s" in seen, "the schema of its data"
        assert f"How {own} is counted." in seen, "the pattern that fits"
        assert f"{other}s" not in seen


async def test_loom_031_an_owners_prompt_of_that_name_is_given_to_the_model(tmp_path: Path) -> None:
    packaged = PromptLoader().get("memory")
    assert (packaged.name, packaged.is_override) == ("memory", False)
    assert packaged.version
    (tmp_path / "prompts").mkdir()
    (tmp_path / "prompts" / "memory.md").write_text("version: mine-7\nRemember what matters.")
    own = PromptLoader(tmp_path).get("memory")
    assert (own.name, own.version, own.is_override, own.text) == ("memory", "mine-7", True, "Remember what matters.")
    provider = ScriptedProvider(["ok"])
    async with Agent(provider, tools=[add], home=tmp_path) as agent:
        await agent.run("s", "hi")
    assert "Remember what matters." in provider.asked[0].system
    assert packaged.text.splitlines()[-1] not in provider.asked[0].system


def test_sigil_058_storage_is_sqlite_and_knowledge_and_vectors_are_chosen_by_themselves(tmp_path: Path) -> None:
    def read(text: str) -> Any:
        (tmp_path / "mainstay.yaml").write_text(text)
        return load_config(tmp_path, env={}).config.storage

    plain = Config().storage
    assert (plain.backend, plain.memory.knowledge.backend, plain.vector.backend) == ("sqlite", "sqlite", "sqlite_vec")
    assert read("storage: {backend: sqlite}") == plain
    graph = read("storage: {memory: {knowledge: {backend: oxigraph}}}")
    assert (graph.backend, graph.memory.knowledge.backend, graph.vector.backend) == ("sqlite", "oxigraph", "sqlite_vec")
    words = read("storage: {vector: {backend: none}}")
    assert (words.backend, words.memory.knowledge.backend, words.vector.backend) == ("sqlite", "sqlite", "none")


async def test_sigil_013_a_workspace_uses_its_own_model_and_others_the_default(tmp_path: Path) -> None:
    (tmp_path / "mainstay.yaml").write_text(
        "model: openai/for-everyone\n"
        "providers: {openai: {api_key: x}, anthropic: {api_key: x}}\n"
        "workspaces:\n  team: {model: anthropic/for-the-team}\n  other: {instructions: Be kind.}\n"
    )
    (tmp_path / "mainstay.yaml").chmod(0o600)
    loaded = load_config(tmp_path, env={})
    asked: dict[str, str] = {}
    for name in ("default", "team", "other", "named-nowhere"):
        async with Agent(home=tmp_path / name, config=loaded.for_workspace(name)) as agent:
            opened: Any = await agent.runtime()
            asked[name] = opened.services.provider_for("").model().name
    assert asked == {
        **dict.fromkeys(("default", "other", "named-nowhere"), "for-everyone"),
        "team": "for-the-team",
    }


# --- a turn and what comes of it ------------------------------------------------------------------


async def test_loom_050_the_reply_has_the_answer_and_the_results_of_the_tools_in_their_order(tmp_path: Path) -> None:
    script = [
        [Call("add", {"a": 1, "b": 2}), Call("add", {"a": 3, "b": 4})],
        Call("add", {"a": "no number"}),
        "3 and 7.",
        "Nothing to add.",
    ]
    async with Agent(ScriptedProvider(script), tools=[add], home=tmp_path) as agent:
        reply = await agent.run("s", "1 + 2, 3 + 4?", id="m1")
        assert reply.text == "3 and 7."
        first, second, third = reply.results
        assert [(one.name, one.content, one.is_error) for one in (first, second)] == [
            ("add", "3", False),
            ("add", "7", False),
        ]
        assert third.is_error
        assert (await agent.run("s", "and now?")).results == (), "those of this turn alone"
        assert await agent.run("s", "1 + 2, 3 + 4?", id="m1") == reply, "and later, from the journal"


@virtual
async def test_loom_050_also_those_of_calls_that_never_ran() -> None:
    begun = asyncio.Event()

    @tool(untrusted=False, sink=False)
    async def wait() -> str:
        begun.set()
        await asyncio.sleep(1000)
        return "waited"

    async with World([[Call("wait"), Call("wait", {})], "never"], [wait]) as world:
        ticket = await world.send("go", id="m1")
        await begun.wait()
        await world.abort()
        reply = await ticket.reply
        assert reply.outcome == Aborted()
        assert [one.content for one in reply.results] == [one.content for one in await world.results()]
        assert all(one.is_error for one in reply.results)
        assert (await world.ask("go", id="m1")) == reply


@virtual
async def test_sigil_001_every_turn_is_received_prepared_asked_acted_on_answered_and_accounted_for() -> None:
    info = ModelInfo(name="m", price_prompt=1.0, price_completion=2.0)
    provider = ScriptedProvider([Call("note", {"text": "5"}), Say("Noted.", usage=Usage(1000, 500))], info=info)

    @tool(untrusted=False, sink=False)
    async def note(text: str) -> str:
        return "noted"

    async with World(provider, [note], instructions="Be terse.") as world:
        watcher = world.watch()
        await world.ask("note 2 + 3", sender="ann")
        end = await watcher.see(TurnEnded)
        stages = {
            "receive": ("Received",),
            "prepare": ("TurnStarted", "SessionChanged"),
            "call": ("MessageAdded",),
            "process": ("ToolStarted", "ToolFinished"),
            "respond": ("MessageAdded", "TurnEnded"),
        }
        assert await world.kinds() == [kind for stage in stages.values() for kind in stage]
        assert provider.asked[0].system.startswith("Be terse."), "prepared before it was asked"
        assert end.outcome == Answered()
        # what an audit tells is on record: who, which model and tools, tokens, cost, when, and how it ended
        records = await world.records()
        received, started = records[0].event, records[1].event
        spent = [one.event for one in records if isinstance(one.event, MessageAdded)]
        called = [part.name for one in spent for part in one.parts if isinstance(part, ToolCall)]
        assert (received.sender, started.model, called) == ("ann", "m", ["note"])
        assert sum((one.usage for one in spent), Usage()) == Usage(1010, 505)
        assert sum(one.cost for one in spent) == pytest.approx((1010 + 2 * 505) / 1e6)
        assert [one.at for one in records] == sorted(one.at for one in records)
        assert records[-1].event.outcome == Answered()


@virtual
async def test_miclaw_060_watchers_learn_of_errors_answers_and_compactions_and_whether_the_turn_is_over() -> None:
    script = ["one", "two", Raise(Unauthorised("the key is wrong")), "three"]
    async with World(script) as world:
        watcher = world.watch(None)
        for text in ("a", "b"):
            await world.ask(text, "talk")
        contexts = await world.lanes.get("talk").load_context_compiler()
        assert await contexts.compact("") is not None
        await world.ask("c", "talk")
        await watcher.see(TurnEnded, 3)
        answers, folds, failures = watcher.of(MessageAdded), watcher.of(Folded), watcher.of(Failed)
        assert {one.session for one in watcher.events} == {"talk"}
        assert [text.text for one in answers for text in one.parts if isinstance(text, Text)] == ["one", "two"]
        assert len(folds) == 1
        assert "the key is wrong" in failures[0].sentence + failures[0].details
        ends = watcher.of(TurnEnded)
        assert [(one.turn, type(one.outcome)) for one in ends] == [(1, Answered), (2, Answered), (3, Failed)]
        order = [type(one) for one in watcher.events if isinstance(one, MessageAdded | TurnEnded | TurnStarted)]
        assert order.index(TurnEnded) > order.index(MessageAdded), "until its end is told a turn is not over"


# --- sessions and messages ------------------------------------------------------------------------


async def test_opentalon_030_a_session_is_created_updated_compacted_and_deleted(tmp_path: Path) -> None:
    async with Agent(ScriptedProvider(lambda context, options: "well"), home=tmp_path) as agent:
        with pytest.raises(SessionUnknown):
            await agent.sessions.get("s")
        for number in range(4):
            await agent.run("s", f"message {number}")
        made = await agent.sessions.get("s")
        assert (made.turns, made.title) == (4, "")
        await agent.sessions.rename("s", "Of messages")
        assert (await agent.sessions.get("s")).title == "Of messages"
        assert await agent.sessions.compact("s") is not None
        assert (await agent.sessions.get("s")).fold > 0
        await agent.sessions.delete("s")
        with pytest.raises(SessionUnknown):
            await agent.sessions.get("s")


def run_json(capsys: pytest.CaptureFixture[str], *words: str) -> Any:
    assert cli.main([*words, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_sigil_029_a_session_knows_its_id_workspace_person_and_times(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async def talk() -> list[Any]:
        config = Config(workspace="team")
        async with Agent(ScriptedProvider(lambda context, options: "hi"), home=tmp_path, config=config) as agent:
            await agent.run("s", "hello", sender="ann")
            await agent.run("own", "hello")
            while time.time_ns() // 1_000_000 <= (await agent.sessions.get("s")).created:
                await asyncio.sleep(0)  # the wall clock counts milliseconds
            await agent.run("s", "and I?", sender="bob")
            await agent.run("other", "hello", sender="agent:s [1] (ann)")
            found = {one.key: one for one in await agent.sessions.list()}
            assert found["s"] == await agent.sessions.get("s")
            return [found[key] for key in ("s", "own", "other")]

    s, own, other = asyncio.run(talk())
    assert (s.key, s.workspace, s.person) == ("s", "team", "ann"), "who began it"
    assert 0 < s.created < s.updated
    assert (own.person, other.person) == ("", "ann"), "the owner; and on whose behalf an agent speaks"
    shown = run_json(capsys, "session", "show", "s", "--home", str(tmp_path), "--workspace", "team")["session"]
    assert {name: shown[name] for name in ("key", "workspace", "person", "created", "updated")} == {
        "key": "s", "workspace": "team", "person": "ann", "created": s.created, "updated": s.updated,
    }  # fmt: skip


async def test_sigil_029_a_person_is_known_after_a_restart_and_forgotten_with_the_session(tmp_path: Path) -> None:
    for text in ("hello", "again"):
        async with Agent(ScriptedProvider([text]), home=tmp_path) as agent:
            await agent.run("s", text, sender="ann" if text == "hello" else "bob")
            assert (await agent.sessions.get("s")).person == "ann"
    async with Agent(ScriptedProvider(["new"]), home=tmp_path) as agent:
        await agent.sessions.delete("s")
        await agent.run("s", "me now", sender="bob")
        assert (await agent.sessions.get("s")).person == "bob"


def test_miclaw_049_a_message_has_its_id_role_session_parts_model_and_time(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async def talk() -> None:
        provider = ScriptedProvider(["hello"], info=ModelInfo(name="some-model"))
        async with Agent(provider, home=tmp_path) as agent:
            await agent.run("s", "hi")
            await agent.sessions.export("s", tmp_path / "out")

    asyncio.run(talk())
    said, answer = run_json(capsys, "session", "show", "s", "--home", str(tmp_path))["messages"]
    assert (said["id"], said["role"], said["session"]) == (1, "user", "s")
    assert said["parts"] == [{"type": "text", "text": "hi"}]
    assert "model" not in said, "a person wrote it"
    assert (answer["role"], answer["session"], answer["model"]) == ("assistant", "s", "some-model")
    assert answer["id"] > said["id"]
    assert answer["at"] >= said["at"] > 1_700_000_000_000
    lines = [json.loads(line) for line in (tmp_path / "out" / "context.jsonl").read_text().splitlines()]
    assert [line.get("model") for line in lines if line["role"] != "system"] == [None, "some-model"]


async def test_guppy_048_the_context_export_begins_with_the_instructions_and_the_log_has_none(tmp_path: Path) -> None:
    provider = ScriptedProvider([Call("add", {"a": 2, "b": 3}), "5", "well"])
    async with Agent(provider, tools=[add], instructions="You are terse.", home=tmp_path) as agent:
        await agent.run("s", "2 + 3?")
        await agent.run("s", "thanks")
        log, context = await agent.sessions.export("s", tmp_path / "out")
    lines = [json.loads(line) for line in context.read_text().splitlines()]
    assert [line["role"] for line in lines] == ["system", "user", "assistant", "tool", "assistant", "user", "assistant"]
    assert lines[0]["parts"][0]["text"] == provider.asked[0].system
    assert {part["type"] for line in lines for part in line["parts"]} >= {"text", "tool_call", "tool_result"}
    assert "terse" not in log.read_text()
    assert "tool" not in log.read_text()
