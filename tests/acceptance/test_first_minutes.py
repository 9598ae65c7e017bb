"""The first five minutes, with the two protocols that most models speak."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from support import first_minutes
from support.cli_support import Command
from support.obedient_models import ObedientAnthropic, ObedientModel, ObedientOpenAI

CONFIG = "model: {name}/fake\nproviders:\n  {name}:\n    base_url: {url}\n    api_key: ${{KEY}}\n"


@pytest.fixture(params=[ObedientOpenAI, ObedientAnthropic], ids=["openai", "anthropic"])
def model(request: pytest.FixtureRequest) -> Iterator[ObedientModel]:
    made: ObedientModel = request.param()
    yield made
    made.close()


@pytest.fixture
def mainstay(tmp_path: Path, model: ObedientModel) -> Command:
    command = Command(tmp_path)
    command.env["KEY"] = "sk-test"
    command.configure(CONFIG.format(name=model.provider, url=model.url + ("/v1" if model.provider == "openai" else "")))
    command.folder = tmp_path / "project"
    command.folder.mkdir()
    return command


def test_it_reads_a_file_remembers_recalls_and_stops_when_told_to(mainstay: Command, model: ObedientModel) -> None:
    first_minutes.read_a_file(mainstay)
    first_minutes.remember_a_fact(mainstay)
    first_minutes.recall_it_in_a_new_session(mainstay)
    first_minutes.be_aborted(mainstay)
    assert model.left >= 1, "the model was let go in the midst of its answer"
