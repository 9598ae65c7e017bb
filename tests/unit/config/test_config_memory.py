"""What can be configured about context and memory."""

from __future__ import annotations

from pathlib import Path

import pytest

from mainstay.cli.commands.home_locator import WorkspaceLocation, locate_workspace
from mainstay.config.loader import Config, load_config
from mainstay.core.errors import ConfigError


def read(home: Path, text: str, **env: str) -> Config:
    home.mkdir(exist_ok=True)
    (home / "mainstay.yaml").write_text(text)
    return load_config(home, env=env).config


def test_nothing_leaves_for_another_vendor_unless_configured() -> None:
    memory = Config().sessions.memory
    assert memory.compaction.summary_model is None
    assert memory.embeddings.model == "local"


def test_the_defaults_of_a_context_are_the_design_s() -> None:
    context = Config().context
    assert (context.window, context.reserve_tokens, context.recent_tokens) == (None, 16_384, 20_000)
    assert (context.fixed_tokens, context.profile_tokens, context.summary_tokens) == (5_000, 2_000, 3_000)
    assert (context.high, context.low) == (0.9, 0.6)


def test_backends_and_models_of_memory_can_be_chosen(tmp_path: Path) -> None:
    text = """
sessions:
  memory:
    compaction: {summary_model: ollama/small}
    embeddings: {model: openai/text-embedding-3-small}
storage:
  memory: {knowledge: {backend: oxigraph}}
  vector: {backend: none}
tools: {memory: off}
context: {window: 4096, high: 0.8, low: 0.5}
workspace: my-team_2
"""
    config = read(tmp_path, text)
    assert config.sessions.memory.compaction.summary_model == "ollama/small"
    assert config.sessions.memory.embeddings.model == "openai/text-embedding-3-small"
    assert config.storage.memory.knowledge.backend == "oxigraph"
    assert config.storage.vector.backend == "none"
    assert (config.tools.memory, config.context.window, config.workspace) == ("off", 4096, "my-team_2")
    assert read(tmp_path, "", MAINSTAY__CONTEXT__WINDOW="8000").context.window == 8000


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("workspace: ''", "'workspace' must be 1 to 64 characters of a-z, 0-9, _ and -"),
        ("workspace: ../other", "'workspace' must be 1 to 64"),
        ("workspace: Team", "'workspace' must be 1 to 64"),
        (f"workspace: {'a' * 65}", "'workspace' must be 1 to 64"),
        ("workspace: a/b", "'workspace' must be 1 to 64"),
        ('workspace: "a\\n"', "'workspace' must be 1 to 64"),
        ("context: {window: 10}", "'context.window': expected a whole number of at least 1024 or null"),
        ("context: {reserve_tokens: 0}", "expected a whole number of at least 1"),
        ("context: {high: 1.5}", "'context.high' must be a share from 0.1 to 1"),
        ("context: {low: 0}", "'context.low' must be a share from 0.1 to 1"),
        ("context: {high: 0.5}", "'context.low' must be below 'context.high'"),
        ("context: {windw: 5000}", "did you mean 'context.window'?"),
        ("tools: {memory: maybe}", "'tools.memory'"),
        ("sessions: {memory: {embeddings: {model: small}}}", "must be '<provider>/<model>'"),
        ("sessions: {memory: {compaction: {summary_model: local}}}", "must be '<provider>/<model>'"),
        ("model: local", "must be '<provider>/<model>'"),
        ("storage: {vector: {backend: pinecone}}", "'sqlite_vec' or 'none'"),
    ],
)
def test_an_invalid_setting_is_refused_in_a_sentence(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(ConfigError) as refused:
        read(tmp_path, text + "\n")
    assert words in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_command_uses_the_given_workspace_or_the_configured_one(tmp_path: Path) -> None:
    assert locate_workspace(tmp_path) == WorkspaceLocation(tmp_path, tmp_path, "default")
    read(tmp_path, "workspace: team\nstate: {data_dir: data}\n")
    assert locate_workspace(tmp_path) == WorkspaceLocation(tmp_path, tmp_path / "data", "team")
    assert locate_workspace(tmp_path, "mine").folder == tmp_path / "data" / "workspaces" / "mine"
    (tmp_path / "mainstay.yaml").write_text("what is this")
    assert locate_workspace(tmp_path, "mine") == WorkspaceLocation(tmp_path, tmp_path, "mine")


@pytest.mark.parametrize("name", ["", ".", "..", "../default", "a/b", "/etc", "A", "a b", "a\0b", "é", "a" * 65, "a\n"])
def test_f41_a_workspace_s_name_cannot_lead_out_of_its_folder(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigError, match="must be 1 to 64 characters"):
        locate_workspace(tmp_path, name)
