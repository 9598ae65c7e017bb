"""The first five minutes with a model on this machine, whose weights were pulled before: no key, no network."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

import pytest
from support import first_minutes
from support.cli_support import Command

from mainstay.providers.local import catalogue

PLACE = catalogue.weights_folder(os.environ)
MODEL = catalogue.DEFAULT_WEIGHTS
ALL = os.environ.get("MAINSTAY_TEST_ALL") == "1"


def _lacking() -> str:
    if importlib.util.find_spec("xllamacpp") is None:
        return "xllamacpp is not installed: pip install -e '.[local]'"
    if not catalogue.is_pulled(MODEL, PLACE):
        return f"the weights of {MODEL.name} are not in {PLACE}: mainstay model pull {MODEL.name}"
    return "" if ALL else "a model on two cores takes a minute: MAINSTAY_TEST_ALL=1 runs it"


@pytest.fixture
def mainstay(tmp_path: Path) -> Command:
    command = Command(tmp_path)
    command.env[catalogue.FOLDER_VARIABLE] = str(PLACE)
    command.configure(f"model: local/{MODEL.name}\n")
    command.folder = tmp_path / "project"
    command.folder.mkdir()
    return command


@pytest.mark.slow
@pytest.mark.skipif(bool(_lacking()), reason=_lacking())
def test_a_local_model_reads_a_file_remembers_recalls_and_stops_when_told_to(mainstay: Command) -> None:
    for act in first_minutes.ALL:
        act(mainstay)
