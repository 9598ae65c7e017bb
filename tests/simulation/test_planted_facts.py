"""500 facts through 50 folds: the pinned ones are always in the context, and every other one is found by a tool."""

from __future__ import annotations

import asyncio
import json
import random
from pathlib import Path
from typing import Any

import pytest

from mainstay import Agent, Config
from mainstay.config.schema import ContextSettings, EmbeddingSettings, MemorySettings, SessionSettings
from mainstay.core.errors import Overloaded
from mainstay.core.events import Folded
from mainstay.core.messages import Text
from mainstay.core.ports import Context, ModelInfo, Options
from mainstay.testing import Call, Raise, ScriptedProvider

FACTS = 500
PINNED = 20
FOLDS = 50
_NAMES = """
Ana Bruno Carla Dario Elsa Fabio Gina Hugo Ines Jorge Katja Lars Mona Nils Olga Paul Rita Sven Tara Uwe
Alves Brandt Costa Dias Engel Faria Gomes Huber Ito Jansen Keller Lima Meyer Novak Ortiz Pires Quast Rossi
locker bicycle garage gate safe archive workshop cellar piano boat kiosk attic greenhouse mailbox studio
"""
FIRST, LAST, THINGS = (line.split() for line in _NAMES.strip().splitlines())
FILLER = "and by the way the weather was changeable, the train was late and nobody knew exactly why that had happened "


def facts(chance: random.Random) -> list[tuple[str, str]]:
    """A question's words, and the secret that answers it."""
    made: dict[str, str] = {}
    while len(made) < FACTS:
        about = f"{chance.choice(FIRST)} {chance.choice(LAST)} {chance.choice(THINGS)}"
        made[about] = str(chance.randrange(10**7, 10**8))
    return list(made.items())


def is_summary(context: Context) -> bool:
    return "You write the memory of a conversation" in context.system


class Model:
    """Answers in few words; as a summariser it forgets nearly everything, or behaves as `instead` says."""

    def __init__(self, instead: Any = None) -> None:
        self.instead = instead
        self.summaries = 0
        self.tool: Call | None = None

    def __call__(self, context: Context, options: Options) -> Any:
        if is_summary(context):
            self.summaries += 1
            if self.instead is not None:
                return self.instead(self.summaries)
            return json.dumps({"summary": "They spoke of many numbers.", "facts": []})
        if self.tool is not None:
            tool, self.tool = self.tool, None
            return tool
        return "Noted."


def config() -> Config:
    memory = MemorySettings(embeddings=EmbeddingSettings(enabled=False))
    return Config(context=ContextSettings(window=4096), sessions=SessionSettings(memory=memory))


def agent_of(model: Model, home: Path) -> Agent:
    provider = ScriptedProvider(model, info=ModelInfo(name="gpt-4.1-mini", window=4096))
    return Agent(provider, home=home, config=config())


async def found_by_the_model(agent: Agent, model: Model, about: str) -> str:
    """What memory_search tells the model in a conversation of its own."""
    model.tool = Call("memory_search", {"query": f"What is the number of the {about}?"})
    await agent.run("questions", "look it up")
    records = await agent.sessions.records("questions", limit=100_000)
    results = [r.event.result.content for r in records if type(r.event).__name__ == "ToolFinished"]
    return results[-1]


@pytest.mark.slow
@pytest.mark.timeout(600)
async def test_500_planted_facts_survive_50_folds(tmp_path: Path) -> None:
    model = Model()
    planted = facts(random.Random(7))
    async with agent_of(model, tmp_path) as agent:
        for about, secret in planted[:PINNED]:
            await agent.memory.remember(f"The number of the {about} is {secret}.", pin=True)
        for about, secret in planted[PINNED:]:
            await agent.run("s", f"The number of the {about} is {secret}, {FILLER * 6}")
        await agent.settled()
        folds = [r.event for r in await agent.sessions.records("s", limit=100_000) if isinstance(r.event, Folded)]
        assert len(folds) >= FOLDS
        assert [one.version for one in folds] == list(range(1, len(folds) + 1))
        profile = next(one for one in (await agent.sessions.context("s")).sections if one.name == "profile")
        assert all(secret in profile.text for _, secret in planted[:PINNED])
        missing = []
        for about, secret in planted[PINNED:]:
            hits = await agent.memory.search(f"What is the number of the {about}?", k=10)
            if not any(secret in hit.text for hit in hits):
                missing.append(about)
        assert missing == []
        for about, secret in random.Random(3).sample(planted[PINNED:], 10):
            assert secret in await found_by_the_model(agent, model, about)


def broken(kind: str) -> Any:
    def answer(number: int) -> Any:
        match kind:
            case "fails":
                return Raise(Overloaded("busy"))
            case "rubbish":
                return ["", "{", "]" * 50, '{"summary": 7}', "I cannot help with that."][
                    number % 5
                ] or '{"summary": ""}'
            case _:
                return json.dumps({"summary": "The number is 1. " * 3000})

    return answer


@pytest.mark.parametrize("kind", ["fails", "rubbish", "far too long"])
async def test_no_planted_fact_is_lost_with_any_behaviour_of_the_summariser(kind: str, tmp_path: Path) -> None:
    model = Model(broken(kind))
    planted = facts(random.Random(11))[:60]
    async with agent_of(model, tmp_path) as agent:
        for about, secret in planted:
            reply = await agent.run("s", f"The number of the {about} is {secret}, {FILLER * 6}")
            assert reply.text == "Noted."
        assert model.summaries > 0
        for about, secret in planted:
            hits = await agent.memory.search(f"number of the {about}", k=10)
            assert any(secret in hit.text for hit in hits), about


async def test_a_process_killed_in_the_middle_of_a_fold_loses_nothing(tmp_path: Path) -> None:
    """Closed while the summariser hangs: the next process folds again, from the same messages."""
    from mainstay.testing import Stall

    planted = facts(random.Random(13))[:40]
    stalls: list[Stall] = []

    def hang(number: int) -> Any:
        stalls.append(Stall(then="late"))
        return stalls[-1]

    model = Model(hang)
    told = 0
    agent = agent_of(model, tmp_path)
    async with agent:
        for about, secret in planted:
            await agent.run("s", f"The number of the {about} is {secret}, {FILLER * 6}")
            told += 1
            await asyncio.sleep(0)
            if stalls:
                break
    model = Model()
    async with agent_of(model, tmp_path) as agent:
        for about, secret in planted[told:]:
            await agent.run("s", f"The number of the {about} is {secret}, {FILLER * 6}")
        await agent.settled()
        assert model.summaries > 0
        for about, secret in planted:
            hits = await agent.memory.search(f"number of the {about}", k=10)
            assert any(secret in hit.text for hit in hits), about
        records = await agent.sessions.records("s", limit=100_000)
        said = [part.text for r in records for part in getattr(r.event, "parts", ()) if isinstance(part, Text)]
        assert all(any(secret in text for text in said) for _, secret in planted)
