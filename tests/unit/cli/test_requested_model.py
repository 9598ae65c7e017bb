"""The model that --model names: the session keeps it, so that a later process resumes the turn with the same model."""

from __future__ import annotations

from pathlib import Path

import pytest

from mainstay import Agent, Config
from mainstay.agent.model_discovery import DiscoveredModel
from mainstay.cli.commands.agent_setup import AgentSetup, apply_requested_model
from mainstay.core.errors import SessionUnknown

MODEL = "ollama/llama3"


async def requested(tmp_path: Path, config: Config) -> str:
    setup = AgentSetup(tmp_path, config, DiscoveredModel(MODEL, None, "given with --model"), MODEL)
    async with Agent(model=MODEL, home=tmp_path) as agent:
        await apply_requested_model(setup, agent, "s")
        return (await agent.sessions.get("s")).model


async def test_the_session_keeps_a_model_that_only_the_command_line_names(tmp_path: Path) -> None:
    assert await requested(tmp_path, Config()) == MODEL


async def test_a_model_that_is_configured_is_not_recorded_for_the_session(tmp_path: Path) -> None:
    with pytest.raises(SessionUnknown):
        await requested(tmp_path, Config(model=MODEL))
