"""A small model gets few tools and few words, a large one all; and a session may change from one to the other."""

from __future__ import annotations

from pathlib import Path

import pytest

from mainstay import Agent, Config
from mainstay.config.schema import ToolSettings
from mainstay.core.ports import ModelInfo
from mainstay.providers.scripted import Call, ScriptedProvider

SMALL = ModelInfo(name="small", window=8192, output=2048, terse=True)
CONFIG = Config(tools=ToolSettings(builtin=("all",)))
OURS = ["read", "write", "bash", "memory_recall", "remember"]


def weather(town: str) -> str:
    """What the weather is like."""
    return f"rain in {town}"


def spawn(what: str) -> str:
    """The owner's own, whatever ours of that name does."""
    return what


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "AGENTS.md").write_text("Always answer in rhymes.\n")
    (tmp_path / "IDENTITY.md").write_text("You are Ada.\n")
    return tmp_path


async def test_a_small_model_gets_a_few_built_in_tools_and_all_of_the_owners(home: Path) -> None:
    small = ScriptedProvider(["Hello."], info=SMALL)
    async with Agent(small, home=home, tools=[weather, spawn], config=CONFIG) as agent:
        await agent.run("s", "hello")
    (asked,) = small.asked
    assert sorted(asked.tools) == sorted([*OURS, "weather", "spawn"])


async def test_it_is_told_its_identity_and_its_rules_and_nothing_of_ours(home: Path) -> None:
    small = ScriptedProvider(["Hello."], info=SMALL)
    large = ScriptedProvider(["Hello."])
    for provider in (small, large):
        async with Agent(provider, home=home, instructions="Be kind.", config=CONFIG) as agent:
            await agent.run(provider.model().name, "hello")
    brief, whole = small.asked[0].system, large.asked[0].system
    for text in ("Be kind.", "Always answer in rhymes.", "You are Ada."):
        assert text in brief
        assert text in whole
    assert "## Where you work" in whole
    assert "## Where you work" not in brief
    assert "memory tools" not in brief
    assert str(home) not in brief, "it is the same in every session"


async def test_a_long_result_is_cut_for_it(home: Path) -> None:
    def shout() -> str:
        """Say it loudly."""
        return "AH " * 10_000

    small = ScriptedProvider([Call("shout"), "Done."], info=SMALL)
    large = ScriptedProvider([Call("shout"), "Done."])
    sizes = []
    for provider in (small, large):
        async with Agent(provider, home=home, tools=[shout]) as agent:
            await agent.run(provider.model().name, "hello")
        sizes.append(len(provider.asked[-1].messages[-1][1]))
    assert sizes[0] < 5_000
    assert sizes[1] > 25_000


async def test_a_session_that_switches_to_a_larger_model_gets_the_full_context_and_the_reverse_adds_nothing(
    home: Path,
) -> None:
    for first, second in ((SMALL, None), (None, SMALL)):
        providers = [ScriptedProvider(["One."], info=first), ScriptedProvider(["Two."], info=second)]
        session = "small first" if first else "large first"
        for provider in providers:
            async with Agent(provider, home=home, config=CONFIG) as agent:
                await agent.run(session, "hello")
        before, after = (provider.asked[0] for provider in providers)
        assert after.system == before.system, "what a session began with stays until it is folded"
        added = [text for role, text in after.messages[len(before.messages) :] if "## Where you work" in text]
        assert bool(added) == (first is SMALL)
        assert len(after.tools) > len(before.tools) if first else len(after.tools) == len(OURS)
