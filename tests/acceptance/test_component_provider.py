"""The provider of `examples/components/provider`, installed as a distribution of its own and used as the page says."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from support.cli_support import Command
from support.docs_pages import DOCS, blocks
from support.example_distributions import ROOT, install_example

PAGE = DOCS / "how-to" / "components.md"
SOURCE = ROOT / "examples" / "components" / "provider" / "mainstay_eliza_provider.py"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return install_example("provider", tmp_path_factory.mktemp("provider"))


@pytest.fixture
def mainstay(site: Path, tmp_path: Path) -> Command:
    command = Command(tmp_path, "http://127.0.0.1:9/v1")
    command.env["PYTHONPATH"] += os.pathsep + str(site)
    (block,) = (one for one in blocks(PAGE) if one.kind == "yaml" and "eliza" in one.text)
    command.configure(block.text)
    return command


def test_it_answers_with_its_settings_and_doctor_knows_it(mainstay: Command) -> None:
    answered = mainstay("run", "I am tired")
    assert (answered.returncode, answered.stdout.strip()) == (0, "Why are you tired?"), answered.stderr
    assert mainstay("run", "hello").stdout.strip() == "I see."
    found = json.loads(mainstay("doctor", "--json").stdout)["checks"]
    said = [(one["check"], one["verdict"], one["says"]) for one in found if one["check"] in ("Components", "Model")]
    assert said[:2] == [
        (
            "Components",
            "ok",
            "the provider 'eliza' comes with mainstay-eliza-provider: Answers by rules, on this machine.",
        ),
        ("Model", "ok", "eliza/doctor has 2 rules"),
    ]
    assert said[2][2].startswith("eliza/doctor answered in ")
    wrong = mainstay("run", "--model", "eliza/nurse", "hello")
    assert "eliza has no model 'nurse'; there are: doctor" in wrong.stderr


def test_the_page_shows_the_example() -> None:
    section = PAGE.read_text().partition("\n## A provider\n")[2].partition("\n## ")[0]
    source = SOURCE.read_text() + (SOURCE.parent / "pyproject.toml").read_text()
    shown = [one for one in blocks(PAGE) if one.kind in ("py", "toml") and one.text in section]
    assert len(shown) == 4
    for block in shown:
        for line in block.text.splitlines():
            assert line in source or line.lstrip().startswith(("...", "# ")), f"{block.where}: {line}"
