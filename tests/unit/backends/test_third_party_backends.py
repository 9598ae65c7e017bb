"""Backends of other distributions whose code fails: the agent opens without them and says which one it is and why."""

from __future__ import annotations

import logging
import os
from pathlib import Path

import pytest
from support.fake_distribution import installed_distribution

from mainstay import Agent
from mainstay.agent.backend_factory import build_backend
from mainstay.backends.factory_context import BackendFactoryContext
from mainstay.config.loader import load_config
from mainstay.core.errors import ConfigError
from mainstay.testing import ScriptedProvider

WELL = """
import os

from mainstay.backends.base import BackendTool, BackendToolArguments
from mainstay.core.backend_settings import BackendSettings
from mainstay.core.components import Component


class Ask(BackendToolArguments, frozen=True):
    word: str


class Query(BackendTool[Ask]):
    action = "query"
    arguments = Ask


class Well:
    def __init__(self, name, settings):
        self.name, self.settings = name, settings
        self.tools = (Query(self, ""),)

    def schema_summary(self):
        return ""

    async def start(self):
        raise KeyError("depth")

    async def close(self): ...


def build_well(name, settings, context):
    return Well(name, settings) if os.environ.get("WELL") == "start" else {}["rope"]


COMPONENT = Component(
    kind="backend", name="well", summary="A well.", settings=BackendSettings, factory="mainstay_well:build_well"
)
"""
SENTENCE = "the backend 'water' of mainstay-well-backend cannot be used: its factory failed: KeyError: 'rope'"


@pytest.mark.parametrize(
    ("fault", "sentence"),
    [
        ("factory", f"the backend water is left out: {SENTENCE}"),
        ("start", "the backend water cannot be used: its code failed in start: KeyError: 'depth'"),
    ],
)
async def test_an_agent_opens_without_a_backend_whose_code_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, fault: str, sentence: str
) -> None:
    monkeypatch.setenv("WELL", fault)
    caplog.set_level(logging.WARNING)
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    (home / "mainstay.yaml").write_text("backends:\n  water: {kind: well}\npolicy: {allow: ['water__*']}\n")
    with installed_distribution(tmp_path / "site", "backend", "well", WELL, monkeypatch):
        async with Agent(ScriptedProvider(["hello"]), home=home) as agent:
            assert (await agent.run("s", "hi")).text == "hello"
        assert sentence in [record.getMessage() for record in caplog.records]


def test_a_factory_that_raises_is_a_config_error_that_names_the_backend_and_its_distribution(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mainstay.yaml").write_text("backends:\n  water: {kind: well}\n")
    with installed_distribution(tmp_path / "site", "backend", "well", WELL, monkeypatch):
        settings = load_config(tmp_path, env=os.environ).config.backends["water"]
        context = BackendFactoryContext(home=tmp_path, index_folder=None, open_mcp_source=lambda name: None)  # type: ignore[arg-type,return-value]
        with pytest.raises(ConfigError) as raised:
            build_backend("water", settings, context)
        assert str(raised.value) == SENTENCE
