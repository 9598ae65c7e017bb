"""Manifests of fact stores: what is listed in the index, or comes with another distribution, can be configured, is
checked by `doctor` and is in the reference."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
from support.fake_distribution import installed_distribution

from mainstay import Agent, Config
from mainstay.agent.health import check_fact_store
from mainstay.cli.main import main
from mainstay.config.loader import load_config
from mainstay.config.reference import render_page
from mainstay.config.schema import KnowledgeStorageSettings, MemoryStorageSettings, StorageSettings
from mainstay.core.component_options import FactStoreOptions
from mainstay.core.components import component_names, entry_point_group, find_component
from mainstay.core.errors import ConfigError
from mainstay.core.health import CheckContext
from mainstay.core.memory_tiers import Fact
from mainstay.core.third_party_component_health import check_components
from mainstay.store import FACT_STORES
from mainstay.testing import ScriptedProvider

CARDS = '''
"""Facts on cards: a fact store whose database is in memory."""

from contextlib import asynccontextmanager
from typing import Annotated

from msgspec import Meta

from mainstay.core.component_options import FactStoreOptions
from mainstay.core.components import Component
from mainstay.core.health import CheckFinding
from mainstay.store.sqlite.workspace_tiers import SeparateTierDatabase

OPENED = []


class CardOptions(FactStoreOptions, frozen=True, kw_only=True):
    colour: Annotated[str, Meta(description="Of the cards.")] = "white"

    def find_problem(self):
        return "black cards cannot be read" if self.colour == "black" else ""


@asynccontextmanager
async def open_cards(options, context):
    database = SeparateTierDatabase(vectors=False)
    tiers = await database.open()
    assert tiers.facts is not context.store_facts
    OPENED.append((options.colour, context.folder.name, tiers.facts))
    try:
        yield tiers.facts
    finally:
        await database.close()
        OPENED.append("closed")


def check_cards(options, context):
    yield CheckFinding("Facts", "ok", f"the {options.colour} cards are sorted")


COMPONENT = Component(
    kind="fact store",
    name="cards",
    summary="Facts on cards.",
    settings=CardOptions,
    factory="mainstay_cards:open_cards",
    check="mainstay_cards:check_cards",
)
'''


@pytest.fixture
def cards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The distribution `mainstay-cards-fact_store` is installed."""
    with installed_distribution(tmp_path / "site", "fact_store", "cards", CARDS, monkeypatch):
        yield


def write_config(home: Path, text: str) -> Path:
    home.mkdir(mode=0o700, exist_ok=True)
    (home / "mainstay.yaml").write_text(f"storage: {{memory: {{knowledge: {text}}}}}\n")
    (home / "mainstay.yaml").chmod(0o600)
    return home


def run_doctor(home: Path, capsys: pytest.CaptureFixture[str]) -> list[tuple[str, str, str]]:
    """Return verdict, message and fix of each finding about facts."""
    main(["doctor", "--offline", "--json", "--home", str(home)])
    findings = json.loads(capsys.readouterr().out)["checks"]
    return [(one["verdict"], one["says"], one["fix"]) for one in findings if one["check"] == "Facts"]


# --- manifests -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", FACT_STORES)
def test_a_manifest_is_complete(name: str) -> None:
    component = find_component("fact store", name)
    assert (component.kind, component.name) == ("fact store", name)
    assert component.summary.endswith(".")
    assert issubclass(component.settings, FactStoreOptions)
    assert callable(component.load_factory())
    assert f"### `storage.memory.knowledge.options`, backend `{name}`\n\n{component.summary}\n" in render_page()


def test_manifests_import_neither_libraries_nor_databases() -> None:
    code = """
import sys
from mainstay.core.components import find_component
for name in ("sqlite", "oxigraph"):
    find_component("fact store", name)
names = ("apsw", "pyoxigraph", "importlib.metadata")
print([name for name in sys.modules if name in names or name.endswith((".fact_tier", ".workspace_tiers"))])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout.strip() == "[]"


def test_other_distributions_use_a_group_without_spaces() -> None:
    assert entry_point_group("fact store") == "mainstay.fact_stores"


# --- configuration -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            "{backend: abacus}",
            "line 1: 'storage.memory.knowledge.backend' is not valid: there is no fact store 'abacus'; there are: "
            "sqlite, oxigraph (others come with a distribution that has an entry point in the group "
            "mainstay.fact_stores)",
        ),
        ("{backend: oxygraph}", "there is no fact store 'oxygraph'; did you mean 'oxigraph'?"),
        ("{backend: memory}", "there is no fact store 'memory'"),
        ("{backend: oxigraph, options: {colour: red}}", "line 1: "),
    ],
)
def test_a_mistake_is_one_sentence(tmp_path: Path, text: str, sentence: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_config(write_config(tmp_path / "home", text), env={})
    assert sentence in str(caught.value)


async def test_an_unknown_name_in_python_is_refused_when_the_agent_opens(tmp_path: Path) -> None:
    knowledge = KnowledgeStorageSettings(backend="oxygraph")
    config = Config(storage=StorageSettings(memory=MemoryStorageSettings(knowledge=knowledge)))
    with pytest.raises(ConfigError, match="there is no fact store 'oxygraph'; did you mean 'oxigraph'"):
        await Agent(ScriptedProvider([]), home=tmp_path / "home", config=config).runtime()


# --- doctor --------------------------------------------------------------------------------------


def test_doctor_names_the_missing_library(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "pyoxigraph", None)
    home = write_config(tmp_path / "home", "{backend: oxigraph}")
    assert run_doctor(home, capsys) == [("FAIL", "oxigraph: pyoxigraph not installed", "pip install -e '.[graph]'")]


def test_doctor_has_no_line_for_the_default(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_doctor(write_config(tmp_path / "home", "{backend: sqlite}"), capsys) == []


@pytest.mark.skipif(find_spec("pyoxigraph") is None, reason="the extra `graph` is not installed")
def test_doctor_checks_the_folders_of_oxigraph(tmp_path: Path) -> None:
    context = CheckContext(home=tmp_path, data=tmp_path, workspace="default")
    settings = KnowledgeStorageSettings(backend="oxigraph")
    (tmp_path / "workspaces" / "default" / "facts").mkdir(parents=True)
    (found,) = check_fact_store(settings, context)
    assert (found.check, found.verdict) == ("Facts", "ok")
    assert found.message.endswith(": databases of 1 workspace")
    broken = tmp_path / "workspaces" / "team" / "facts"
    broken.parent.mkdir()
    broken.write_text("")
    (found,) = check_fact_store(settings, context)
    assert (found.verdict, found.message) == (
        "FAIL",
        f"oxigraph: {broken} is not a folder that this user can read and write",
    )


# --- another distribution ------------------------------------------------------------------------


@pytest.mark.usefixtures("cards")
def test_a_fact_store_of_another_distribution_is_configured_used_and_checked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert component_names("fact store") == ["sqlite", "oxigraph", "cards"]
    home = write_config(tmp_path / "home", "{backend: cards, options: {colour: green}}")

    async def talk() -> None:
        async with Agent(ScriptedProvider(["Hello."]), home=home) as agent:
            await agent.run("s", "hi")
            opened = sys.modules["mainstay_cards"].OPENED
            ((colour, workspace, facts),) = opened
            assert (colour, workspace) == ("green", "default")
            await facts.ingest("other", [Fact("Ana", "lives in", "Lisbon", source=1)], 1)
            assert [fact.object for fact in await agent.memory.facts()] == ["Lisbon"]
        assert opened[1:] == ["closed"]

    asyncio.run(talk())
    assert run_doctor(home, capsys) == [("ok", "the green cards are sorted", "")]
    message = "the fact store 'cards' comes with mainstay-cards-fact_store: Facts on cards."
    assert message in [finding.message for finding in check_components()]


@pytest.mark.usefixtures("cards")
@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("{backend: card}", "there is no fact store 'card'; did you mean 'cards'?"),
        ("{backend: cards, options: {colour: black}}", "black cards cannot be read"),
        ("{backend: cards, options: {color: red}}", "unknown key 'storage.memory.knowledge.options.color'"),
    ],
)
def test_mistakes_with_another_distribution_are_found_before_anything_is_opened(
    tmp_path: Path, text: str, sentence: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        load_config(write_config(tmp_path / "home", text), env={})
    assert sentence in str(caught.value)
