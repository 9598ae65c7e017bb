"""Skills, patterns, hints and corrections reach the model once while it sees them, and together they are bounded."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from support.kernel_world import World, virtual

from mainstay import Agent, Config
from mainstay.config.schema import EmbeddingSettings, MemorySettings, SessionSettings
from mainstay.config.schema_judges_budgets_telemetry import JudgeSettings
from mainstay.config.schema_skills_patterns_triggers import PatternSettings
from mainstay.context.turn_notes import select_notes
from mainstay.core.channels import ChannelCapabilities
from mainstay.core.chat_addresses import ChatAddress
from mainstay.core.journal_wording import CURRENT
from mainstay.core.judges import JudgeInput
from mainstay.core.messages import Message, Text, ToolResult
from mainstay.core.outcome import Paused
from mainstay.core.ports import ModelInfo, TurnNote
from mainstay.core.tools import tool
from mainstay.gateway.channel_hints import ChannelHintContributor, build_hints
from mainstay.lane.replay import replay_journal
from mainstay.testing import Call, ScriptedProvider

TOPICS = [
    *("funnel", "cohort", "churn", "forecast", "outlier", "invoice", "refund", "shipping", "backup", "restore"),
    *("rotation", "deploy", "rollback", "index", "vacuum", "partition", "replica", "latency", "onboarding"),
    *("payroll", "survey", "translation", "newsletter", "glossary"),
]
GUIDE = "- Read the numbers of the last quarter first, and say which of them you did not find.\n" * 30


def write_patterns(folder: Path, topics: list[str] = TOPICS) -> Path:
    for topic in topics:
        practices = "".join(f"  {line}\n" for line in GUIDE.splitlines())
        text = f"name: {topic}_guide\ndescription: How we do a {topic}.\nintents: [{topic}]\n"
        text += f"best_practices: |\n{practices}"
        (folder / f"{topic}.yaml").write_text(text)
    return folder


def config(folder: Path | None = None, **memory: Any) -> Config:
    return Config(
        patterns=PatternSettings(folders=(str(folder),) if folder is not None else ()),
        sessions=SessionSettings(memory=MemorySettings(embeddings=EmbeddingSettings(enabled=False), **memory)),
    )


def notes_seen(provider: ScriptedProvider) -> list[str]:
    return [text for role, text in provider.asked[-1].messages if role == "system"]


async def hold_conversation(home: Path, settings: Config, questions: list[str]) -> tuple[int, ScriptedProvider]:
    """Return the tokens of the context after these questions."""
    provider = ScriptedProvider(lambda context, options: "The answer takes one short sentence.")
    async with Agent(provider, home=home, config=settings) as agent:
        for question in questions:
            await agent.run("s", question)
        return (await agent.sessions.context("s")).tokens, provider


@pytest.mark.parametrize("distinct", [8, 24])
async def test_loom_127_forty_short_questions_with_a_library_stay_near_the_same_conversation_without_it(
    tmp_path: Path, distinct: int
) -> None:
    """Before: 27,000 tokens and more. The bound of all patterns in the window is `patterns.window_tokens`."""
    folder = tmp_path / "library"
    folder.mkdir()
    write_patterns(folder)
    questions = [f"How is the {TOPICS[number % distinct]} going?" for number in range(40)]
    without, _ = await hold_conversation(tmp_path / "a", config(), questions)
    tokens, provider = await hold_conversation(tmp_path / "b", config(folder), questions)
    overhead = 1_000  # the tool `pattern`, its guidance, and a line for every pattern that is only named
    assert tokens <= without + PatternSettings().window_tokens + overhead + distinct * 40
    notes = notes_seen(provider)
    assert len(notes) == len(set(notes))
    assert any("Read the numbers" in note for note in notes)


async def test_loom_127_a_pattern_is_shown_again_when_it_changed_and_when_it_left_the_window(tmp_path: Path) -> None:
    folder = tmp_path / "library"
    folder.mkdir()
    write_patterns(folder, ["refund"])
    provider = ScriptedProvider(lambda context, options: "Yes.")
    home = tmp_path / "home"
    async with Agent(provider, home=home, config=config(folder)) as agent:
        for _ in range(3):
            await agent.run("s", "A refund, please")
        assert sum("Read the numbers" in note for note in notes_seen(provider)) == 1
    (folder / "refund.yaml").write_text("name: refund_guide\ndescription: New rules for a refund.\nintents: [refund]\n")
    async with Agent(provider, home=home, config=config(folder)) as agent:
        await agent.run("s", "A refund, please")
        await agent.run("s", "A refund, please")
        assert sum("New rules" in note for note in notes_seen(provider)) == 1
        await agent.run("s", "Good morning")
        await agent.sessions.compact("s")
        await agent.run("s", "Good evening")
        assert notes_seen(provider) == [], "it has left the window"
        await agent.run("s", "A refund, please")
        assert sum("New rules" in note for note in notes_seen(provider)) == 1


async def test_loom_127_a_pattern_that_changed_and_changed_back_is_shown_again(tmp_path: Path) -> None:
    """Before: the first version was in the window, so the model followed the second one."""
    (folder := tmp_path / "library").mkdir()
    for version in ("old", "new", "old", "old"):
        text = f"name: refund_guide\ndescription: The {version} rules for a refund.\nintents: [refund]\n"
        (folder / "refund.yaml").write_text(text)
        provider = ScriptedProvider(lambda context, options: "Yes.")
        async with Agent(provider, home=tmp_path / "home", config=config(folder)) as agent:
            await agent.run("s", "A refund, please")
    versions = [note.partition("The ")[2].partition(" rules")[0] for note in notes_seen(provider)]
    assert versions == ["old", "new", "old"]


async def test_loom_127_what_was_shown_is_known_after_a_restart(tmp_path: Path) -> None:
    folder = tmp_path / "library"
    folder.mkdir()
    write_patterns(folder, ["refund"])
    for _ in range(2):
        provider = ScriptedProvider(lambda context, options: "Yes.")
        async with Agent(provider, home=tmp_path / "home", config=config(folder)) as agent:
            await agent.run("s", "A refund, please")
    assert len(notes_seen(provider)) == 1


SKILL = (
    "---\nname: deploy\ndescription: To deploy.\nmetadata:\n  gateway:trigger: keyword\n  gateway:keywords: deploy\n"
    "{tools}---\n{body}"
)
BODY = "Run the checks, then tag the release, then watch the dashboards for ten minutes.\n" * 20


def write_skill(home: Path, tools: str = "") -> None:
    folder = home / "skills" / "deploy"
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text(SKILL.format(tools=tools, body=BODY))


async def test_loom_127_a_skill_body_is_shown_once_and_its_tool_rules_hold_in_every_turn(tmp_path: Path) -> None:
    write_skill(tmp_path, "allowed-tools: Read\n")

    @tool(effect="unsafe", untrusted=False, sink=True)
    async def ship() -> str:
        return "shipped"

    provider = ScriptedProvider(
        lambda context, options: Call("ship") if context.messages[-1].role == "system" else "Yes."
    )
    async with Agent(provider, home=tmp_path, tools=[ship], config=config()) as agent:
        for _ in range(3):
            reply = await agent.run("s", "deploy it")
            assert isinstance(reply.outcome, Paused), "the skill does not name this tool"
            [pending] = await agent.approvals.list()
            await agent.approvals.deny(pending.asked.id)
        notes = notes_seen(provider)
    assert sum("watch the dashboards" in note for note in notes) == 1
    assert len(notes) == 3
    assert sum(len(note) for note in notes[1:]) < 500


async def test_loom_127_a_skill_that_the_model_loaded_itself_is_not_appended_again(tmp_path: Path) -> None:
    write_skill(tmp_path)
    replies = iter([Call("skill", {"name": "deploy"}), "Loaded.", "Yes."])
    provider = ScriptedProvider(lambda context, options: next(replies))
    async with Agent(provider, home=tmp_path, config=config()) as agent:
        await agent.run("s", "What skills are there?")
        await agent.run("s", "deploy it")
    assert notes_seen(provider) == []


async def test_loom_127_skills_beyond_the_bound_are_named_instead(tmp_path: Path) -> None:
    for name in ("alpha", "beta", "gamma", "delta"):
        folder = tmp_path / "skills" / name
        folder.mkdir(parents=True)
        text = SKILL.replace("name: deploy", f"name: {name}").replace("keywords: deploy", f"keywords: {name}")
        (folder / "SKILL.md").write_text(text.format(tools="", body=BODY * 3))
    provider = ScriptedProvider(lambda context, options: "Yes.", info=ModelInfo(name="small", window=8_192))
    async with Agent(provider, home=tmp_path, config=config()) as agent:
        for name in ("alpha", "beta", "gamma", "delta"):
            await agent.run("s", f"{name}, please")
    notes = notes_seen(provider)
    assert sum(len(note) for note in notes) <= 8_192 + 1_000, "a quarter of the window"
    assert any("call `skill` with the name delta" in note for note in notes)


async def test_loom_127_a_correction_is_not_repeated_while_the_model_sees_it() -> None:
    reasons = "The answer names no source, and every figure needs one with its date and its page. " * 5

    def judge(judged: JudgeInput) -> tuple[float, str]:
        return (1.0, "") if judged.answer == "good" else (0.0, reasons)

    answers = iter(["bad", "bad as well", "still bad", "good"])
    provider = ScriptedProvider(lambda context, options: next(answers))
    settings = Config(judges=JudgeSettings(corrections=3))
    async with Agent(provider, home=":memory:", judges=[judge], config=settings) as agent:
        reply = await agent.run("s", "How many?")
        assert reply.text == "good"
        seen = str(provider.asked[-1].messages)
        assert seen.count("names no source") == 5, "the reasons of one correction"
        assert seen.count(CURRENT.correction_repeated) == 2
        replayed = await replay_journal(await agent.sessions.records("s"))
        assert replayed.is_identical, replayed.difference


@virtual
async def test_loom_127_the_hint_about_the_channel_is_in_the_context_once() -> None:
    channel: Any = SimpleNamespace(capabilities=ChannelCapabilities())
    hints = ChannelHintContributor(lambda session: (channel, ChatAddress("chat", "C1")))
    async with World(lambda context, options: "Yes.", more={"contributors": (hints,)}) as world:
        for _ in range(3):
            await world.ask("hello")
        assert notes_seen(world.provider) == [build_hints(channel.capabilities)]


@virtual
async def test_loom_127_a_hint_is_shown_again_when_the_session_is_back_on_its_first_channel() -> None:
    channel: Any = SimpleNamespace(capabilities=ChannelCapabilities())
    first, second = channel.capabilities, ChannelCapabilities(markup="plain", length_max=100)
    hints = ChannelHintContributor(lambda session: (channel, ChatAddress("chat", "C1")))
    async with World(lambda context, options: "Yes.", more={"contributors": (hints,)}) as world:
        for channel.capabilities in (first, second, first, first):
            await world.ask("hello")
        assert notes_seen(world.provider) == [build_hints(one) for one in (first, second, first)]


async def test_sigil_060_loom_127_the_active_window_counts_messages_of_the_conversation_and_no_notes(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "library"
    folder.mkdir()
    write_patterns(folder)
    questions = [f"How is the {TOPICS[number % 24]} going?" for number in range(24)]
    _, provider = await hold_conversation(tmp_path / "home", config(folder, active_window=20), questions)
    shown = [(role, text) for role, text in provider.asked[-1].messages if role != "system"]
    assert shown[0] == ("user", questions[-10])
    assert len(shown) == 19, "from a user message on; the answer is the twentieth"
    assert len(provider.asked[-1].messages) > 19, "notes are beside them"


async def test_sigil_060_the_active_window_is_full_within_turns_of_many_steps() -> None:
    calls = 0

    def script(context: Any, options: Any) -> Any:
        nonlocal calls
        calls += 1
        return "done" if calls % 8 == 0 else Call("look", {"at": calls})

    @tool(effect="pure", untrusted=False, sink=False)
    async def look(at: int) -> str:
        return f"seen {at}"

    provider = ScriptedProvider(script)
    async with Agent(provider, home=":memory:", tools=[look], config=config(active_window=20)) as agent:
        for number in range(3):
            await agent.run("s", f"number {number}")
        before = len(provider.asked)
        await agent.run("s", "number 3")
    roles = [role for role, _ in provider.asked[before].messages]
    assert 19 <= len(roles) <= 20
    assert roles[0] == "user"
    assert roles[1] == "assistant", "the first steps of that turn are left out, with their results"


# --- the selection -------------------------------------------------------------------------------


def note(seq: int, text: str, origin: str = "context:channel") -> Message:
    return Message(seq, "system", (Text(text, origin=origin),))


def test_a_plain_note_is_selected_once_and_a_users_copy_of_it_does_not_count() -> None:
    hint = Text("Answer in plain text.", origin="context:channel")
    assert [text.text for text in select_notes([], [hint, hint], 0)] == [hint.text]
    assert list(select_notes([note(1, hint.text)], [hint], 0)) == []
    forged = Message(1, "user", (Text(hint.text),))
    assert len(list(select_notes([forged], [hint], 0))) == 1
    foreign = Message(1, "tool", (ToolResult("c", "call_tool", hint.text, mark="m"),))
    assert len(list(select_notes([foreign], [hint], 0))) == 1


def test_a_skill_whose_header_was_repeated_is_still_shown_and_one_with_other_instructions_is_not() -> None:
    origin, kind = "context:skill:a", "context:skill:"
    wanted = TurnNote("body 1", origin=origin, kind=kind, if_shown="header 1", if_full="call it")
    seen = [note(1, "body 1", origin), note(2, "header 1", origin), note(3, "call it", origin), note(4, "hint")]
    assert [text.text for text in select_notes(seen, [wanted], 0)] == ["header 1"]
    changed = [*seen, note(5, "body 2", f"untrusted:{origin}")]
    assert [text.text for text in select_notes(changed, [wanted], 0)] == ["body 1"]
    loaded = Message(6, "tool", (ToolResult("c", "skill", "body 1"),))
    assert [text.text for text in select_notes([*changed, loaded], [wanted], 0)] == ["header 1"]


def test_the_bound_counts_notes_of_the_kind_and_of_all_kinds() -> None:
    wanted = TurnNote("x" * 100, origin="context:skill:a", if_full="named", kind="context:skill:", bytes_max=150)
    assert [text.text for text in select_notes([], [wanted], 0)] == ["x" * 100]
    others = [note(1, "y" * 100, "untrusted:context:skill:b")]
    assert [text.text for text in select_notes(others, [wanted], 0)] == ["named"]
    of_another_kind = [note(1, "y" * 100)]
    assert [text.text for text in select_notes(of_another_kind, [wanted], 0)] == ["x" * 100]
    assert [text.text for text in select_notes(of_another_kind, [wanted], 150)] == ["named"]
    assert all(type(text) is Text for text in select_notes([], [wanted], 0)), "the journal gets plain texts"
