"""Manifests of embedders: which one a model's name means."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Annotated

import msgspec
import pytest
from msgspec import Meta

from mainstay.agent.embedder_health import check_embedder
from mainstay.agent.workspace_memory import build_embedder
from mainstay.config.loader import Config, load_config
from mainstay.config.reference import render_page
from mainstay.core.components import Component, find_component
from mainstay.core.embedder_settings import (
    EmbedderCheckContext,
    EmbedderFactoryContext,
    EmbedderOptions,
    split_embedding_model,
)
from mainstay.core.errors import ConfigError, EmbedderMissing
from mainstay.core.health import CheckContext, CheckFinding
from mainstay.core.provider_manifest import ProviderSettings
from mainstay.memory import embedders
from mainstay.memory.embedders.local.embedder import LocalEmbedder
from mainstay.memory.hybrid_search import VECTOR_WEIGHT, _vector_weight
from mainstay.providers.embeddings.embedder import ApiEmbedder


class DiceOptions(EmbedderOptions, frozen=True, kw_only=True):
    sides: Annotated[int, Meta(description="Of each die.")] = 6


class DiceEmbedder:
    def __init__(self, name: str) -> None:
        self.name = name

    async def load(self) -> int:
        return 1

    async def embed(self, texts: Sequence[str]) -> list[bytes]:
        return [bytes(4)] * len(texts)

    async def close(self) -> None:
        pass


def build_dice(model: str, options: DiceOptions, context: EmbedderFactoryContext) -> DiceEmbedder:
    return DiceEmbedder(f"dice/{model or 'wood'}-{options.sides}")


def check_dice(model: str, options: DiceOptions, context: EmbedderCheckContext) -> Iterator[CheckFinding]:
    name = build_dice(model, options, context).name
    yield CheckFinding("Memory", "ok", f"{name} is fair; offline: {context.is_offline}")


DICE = Component(kind="embedder", name="dice", summary="Chance.", settings=DiceOptions, factory="fake_dice:build_dice")


@pytest.fixture
def dice(monkeypatch: pytest.MonkeyPatch) -> None:
    """One more built-in embedder: a folder, and a line in the index."""
    module = ModuleType("fake_dice")
    module.__dict__.update(COMPONENT=DICE, build_dice=build_dice, check_dice=check_dice)
    monkeypatch.setitem(sys.modules, "fake_dice", module)
    monkeypatch.setitem(embedders.COMPONENTS, "dice", "fake_dice")


def configured(home: Path, text: str) -> Config:
    (home / "mainstay.yaml").write_text(f"sessions: {{memory: {{embeddings: {{{text}}}}}}}\n")
    return load_config(home, env={}).config


@pytest.mark.usefixtures("dice")
@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("model: dice", "dice/wood-6"),
        ("model: dice/bone", "dice/bone-6"),
        ("model: dice/bone, options: {sides: 20}", "dice/bone-20"),
        ("model: local", "local/wordllama-256"),
        ("model: ollama/nomic-embed-text", "ollama/nomic-embed-text"),
        ("model: api/ollama/nomic-embed-text", "ollama/nomic-embed-text"),
    ],
)
def test_the_name_of_the_model_chooses_the_embedder(tmp_path: Path, text: str, name: str) -> None:
    assert build_embedder(configured(tmp_path, text)).name == name


@pytest.mark.usefixtures("dice")
@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("model: dcie", "must be '<provider>/<model>'"),
        ("model: dice, options: {sids: 3}", "'sessions.memory.embeddings.options.sids'; did you mean"),
        ("model: dice, options: {sides: many}", "options.sides': expected a whole number"),
        ("model: local, options: {sides: 3}", "options"),
    ],
)
def test_mistakes_have_a_line(tmp_path: Path, text: str, sentence: str) -> None:
    with pytest.raises(ConfigError) as failed:
        configured(tmp_path, text)
    assert str(failed.value).startswith("mainstay.yaml line 1: ")
    assert sentence in str(failed.value)


@pytest.mark.usefixtures("dice")
def test_it_is_in_the_reference() -> None:
    page = render_page()
    assert "### `sessions.memory.embeddings.options`, model `dice`\n\nChance.\n" in page
    assert "| `sides` | a whole number | `6` | Of each die. |" in page


@pytest.mark.parametrize("name", embedders.COMPONENTS)
def test_a_manifest_is_complete(name: str) -> None:
    component = find_component("embedder", name)
    assert component.name == name
    assert component.summary.endswith(".")
    assert issubclass(component.settings, EmbedderOptions)
    assert callable(component.load_factory())


async def test_an_embedder_that_cannot_be_built_says_why_when_it_is_used(tmp_path: Path) -> None:
    unusable = build_embedder(configured(tmp_path, "model: local/large"))
    with pytest.raises(EmbedderMissing, match="write `local` only"):
        await unusable.load()


def test_an_embedder_may_say_how_much_its_vectors_count() -> None:
    assert _vector_weight(LocalEmbedder()) == 0.3
    assert _vector_weight(ApiEmbedder("m")) == VECTOR_WEIGHT == 1.0
    assert _vector_weight(None) == 0.0


def test_a_name_that_is_built_in_costs_no_look_at_other_distributions() -> None:
    program = """
import sys
from mainstay.core.embedder_settings import split_embedding_model
before = set(sys.modules)
assert split_embedding_model("local") == ("local", "")
assert split_embedding_model("openai/text-embedding-3-small") == ("api", "openai/text-embedding-3-small")
assert "importlib.metadata" not in set(sys.modules) - before
"""
    env = {**os.environ, "PYTHONPATH": str(Path(embedders.__file__).parents[3])}
    subprocess.run([sys.executable, "-c", program], check=True, env=env, timeout=120)
    assert split_embedding_model("mine/e5") == ("api", "mine/e5")


# --- doctor --------------------------------------------------------------------------------------


def check(config: Config, home: Path) -> tuple[str, str, str]:
    context = CheckContext(home=home, data=home, workspace="default", is_offline=True)
    (finding,) = check_embedder(config, context)
    assert finding.check == "Memory"
    return finding.verdict, finding.message, finding.fix


@pytest.mark.usefixtures("dice")
def test_doctor_runs_the_check_of_the_configured_embedder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = configured(tmp_path, "model: dice/bone, options: {sides: 20}")
    plain = "full-text and semantic search; the embedder 'dice': Chance."
    assert check(config, tmp_path) == ("ok", plain, "")
    checked = msgspec.structs.replace(DICE, check="fake_dice:check_dice")
    monkeypatch.setattr("mainstay.agent.embedder_health.find_component", lambda kind, name: checked)
    assert check(config, tmp_path) == ("ok", "dice/bone-20 is fair; offline: True", "")


@pytest.mark.usefixtures("dice")
def test_doctor_names_the_missing_libraries_of_the_configured_embedder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lacking = msgspec.structs.replace(DICE, libraries={"no_such_ivory": "ivory"}, distribution="mainstay-dice")
    monkeypatch.setattr("mainstay.agent.embedder_health.find_component", lambda kind, name: lacking)
    problem = "the embedder 'dice' of mainstay-dice needs ivory, not installed"
    assert check(configured(tmp_path, "model: dice"), tmp_path) == (
        "warn",
        f"full-text search only, no semantic search: {problem}",
        "pip install ivory",
    )


def test_doctor_checks_the_embedder_of_an_api_without_word_vectors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "wordllama", None)  # find_spec raises ValueError for it: nothing may look
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    verdict, message, _ = check(configured(tmp_path, "model: openai/text-embedding-3-small"), tmp_path)
    assert verdict == "warn"
    assert message.startswith("full-text search only, no semantic search: openai needs an API key: set OPENAI_API_KEY")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-12345")
    verdict, message, _ = check(configured(tmp_path, "model: openai/text-embedding-3-small"), tmp_path)
    assert (verdict, "openai/text-embedding-3-small, not called" in message) == ("ok", True)


def test_doctor_says_that_an_api_gives_no_vectors(tmp_path: Path) -> None:
    config = configured(tmp_path, "model: ollama/nomic-embed-text")
    url = msgspec.structs.replace(ProviderSettings(), base_url="http://127.0.0.1:9/v1")
    config = msgspec.structs.replace(config, providers={"ollama": url})
    context = CheckContext(home=tmp_path, data=tmp_path, workspace="default", timeout_s=0.5)
    (finding,) = check_embedder(config, context)
    assert finding.verdict == "warn"
    assert finding.message.startswith("full-text search only, no semantic search: ollama")


def test_doctor_loads_the_local_embedder_unless_semantic_search_is_off(tmp_path: Path) -> None:
    sentence = "full-text and semantic search; the embedding model is part of the wheel"
    assert check(configured(tmp_path, "model: local"), tmp_path) == ("ok", sentence, "")
    off = check(configured(tmp_path, "enabled: false"), tmp_path)
    assert off == ("ok", "full-text search; semantic search is turned off", "")
