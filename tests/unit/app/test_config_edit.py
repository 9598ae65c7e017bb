"""Changes that commands make to mainstay.yaml: the rest of the file stays as it is."""

from __future__ import annotations

from pathlib import Path

import pytest

from mainstay.app.config import FILE, load_config
from mainstay.app.config_edit import add_item, drop_entry, entry
from mainstay.core.errors import ConfigError

ALLOW = ("policy", "allow")


def written(home: Path, text: str) -> Path:
    (home / FILE).write_text(text)
    return home / FILE


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", 'policy:\n  allow: ["weather__*"]\n'),
        ("model: openai/x  # mine\n", 'model: openai/x  # mine\npolicy:\n  allow: ["weather__*"]\n'),
        ("policy:\n  deny: [bash]\n", 'policy:\n  deny: [bash]\n  allow: ["weather__*"]\n'),
        ("policy:\n  allow: [read]  # ours\n", 'policy:\n  allow: [read, "weather__*"]  # ours\n'),
        ("policy:\n  allow: []\n", 'policy:\n  allow: ["weather__*"]\n'),
        (
            "policy:\n  allow:\n    - read  # a\n    # b\n    - 'bash(git *)'  # c\n  # d\nmodel: openai/x\n",
            "policy:\n  allow:\n    - read  # a\n    # b\n    - 'bash(git *)'  # c\n"
            '    - "weather__*"\n  # d\nmodel: openai/x\n',
        ),
        ("policy:\n  allow:\n  - read", 'policy:\n  allow:\n  - read\n  - "weather__*"\n'),
    ],
    ids=["no file", "no section", "no list", "one line", "empty", "many lines", "no end of line"],
)
def test_an_item_is_added_where_the_list_is(tmp_path: Path, before: str, after: str) -> None:
    path = written(tmp_path, before)
    assert add_item(tmp_path, ALLOW, "weather__*")
    assert path.read_text() == after
    assert load_config(tmp_path, env={}).config.policy.allow[-1] == "weather__*"
    assert not add_item(tmp_path, ALLOW, "weather__*"), "it is there already"
    assert path.read_text() == after


def test_an_item_that_makes_no_sense_leaves_the_file_alone(tmp_path: Path) -> None:
    path = written(tmp_path, "policy:\n  allow:\n    - read\n")
    with pytest.raises(ConfigError, match="left unchanged"):
        add_item(tmp_path, ALLOW, "bash(")
    assert path.read_text() == "policy:\n  allow:\n    - read\n"


SERVERS = """\
model: openai/x
mcpServers:
  # the clock
  time: {command: uvx, args: [mcp-server-time]}
  files:
    command: npx
    args:
      - server-filesystem
      - /srv  # all of it
  # after it
policy:
  allow: [read]
"""


def test_an_entry_is_taken_out_and_nothing_else(tmp_path: Path) -> None:
    path = written(tmp_path, SERVERS)
    assert drop_entry(tmp_path, ("mcpServers", "files"))
    gone = "  files:\n    command: npx\n    args:\n      - server-filesystem\n      - /srv  # all of it\n"
    assert path.read_text() == SERVERS.replace(gone, "")
    assert not drop_entry(tmp_path, ("mcpServers", "files"))
    assert entry(tmp_path, ("mcpServers", "time", "command")) == "uvx"


def test_a_section_goes_with_its_last_entry(tmp_path: Path) -> None:
    path = written(tmp_path, "model: openai/x\nmcpServers:\n  time:\n    command: uvx\n")
    assert drop_entry(tmp_path, ("mcpServers", "time"))
    assert path.read_text() == "model: openai/x\n"
    path.write_text("mcpServers:\n  time: {command: uvx}\n")
    assert drop_entry(tmp_path, ("mcpServers", "time"))
    assert path.read_text() == ""


def test_what_is_laid_out_otherwise_is_left_to_an_editor(tmp_path: Path) -> None:
    text = "mcpServers: {time: {command: uvx}, files: {command: npx}}\n"
    path = written(tmp_path, text)
    with pytest.raises(ConfigError, match="use an editor"):
        drop_entry(tmp_path, ("mcpServers", "time"))
    assert path.read_text() == text
