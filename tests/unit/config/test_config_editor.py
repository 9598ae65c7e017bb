"""Changes that commands make to mainstay.yaml: the rest of the file stays as it is."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mainstay.config.editor import add_entry, add_item, read_entry, remove_entry
from mainstay.config.loader import FILE, load_config, set_value
from mainstay.config.yaml_file import edit_text, lock_file, with_value
from mainstay.core.errors import ConfigError
from mainstay.io.yaml import load_yaml

SRC = Path(__file__).resolve().parents[3] / "src"
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


def test_an_invalid_item_leaves_the_file_alone(tmp_path: Path) -> None:
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
    assert remove_entry(tmp_path, ("mcpServers", "files"))
    gone = "  files:\n    command: npx\n    args:\n      - server-filesystem\n      - /srv  # all of it\n"
    assert path.read_text() == SERVERS.replace(gone, "")
    assert not remove_entry(tmp_path, ("mcpServers", "files"))
    assert read_entry(tmp_path, ("mcpServers", "time", "command")) == "uvx"


def test_a_section_goes_with_its_last_entry(tmp_path: Path) -> None:
    path = written(tmp_path, "model: openai/x\nmcpServers:\n  time:\n    command: uvx\n")
    assert remove_entry(tmp_path, ("mcpServers", "time"))
    assert path.read_text() == "model: openai/x\n"
    path.write_text("mcpServers:\n  time: {command: uvx}\n")
    assert remove_entry(tmp_path, ("mcpServers", "time"))
    assert path.read_text() == ""


JSON = """\
{
  "mcpServers": {
    "time": {
      "command": "uvx",
      "args": ["mcp-server-time"]
    },
    "files": {"command": "npx"},
    "search": {"url": "https://search.example/mcp"}
  },
  "policy": {
    "allow": [
      "read"
    ]
  }
}
"""


@pytest.mark.parametrize(
    ("name", "gone"),
    [
        ("time", '"time": {\n      "command": "uvx",\n      "args": ["mcp-server-time"]\n    },\n    '),
        ("files", ',\n    "files": {"command": "npx"}'),
        ("search", ',\n    "search": {"url": "https://search.example/mcp"}'),
    ],
)
def test_an_entry_is_taken_out_of_a_document_that_was_pasted_as_json(tmp_path: Path, name: str, gone: str) -> None:
    path = written(tmp_path, JSON)
    assert remove_entry(tmp_path, ("mcpServers", name))
    assert path.read_text() == JSON.replace(gone, "")


def test_a_document_that_was_pasted_as_json_can_be_added_to_and_emptied(tmp_path: Path) -> None:
    path = written(tmp_path, JSON)
    assert add_entry(tmp_path, ("mcpServers", "my notes.v2"), {"command": "node", "args": ["@me/notes"]})
    assert add_item(tmp_path, ALLOW, "time__*")
    added = path.read_text()
    assert '\n    "my notes.v2": {"command": node, "args": ["@me/notes"]}\n' in added
    assert '      "read",\n      "time__*"\n    ]' in added
    for name in ("search", "my notes.v2", "time", "files"):
        assert remove_entry(tmp_path, ("mcpServers", name))
    assert load_yaml(path.read_text()).data == {"policy": {"allow": ["read", "time__*"]}}
    assert remove_entry(tmp_path, ALLOW)
    assert path.read_text() == "{}\n"
    assert load_config(tmp_path, env={}).config.policy.allow == ()


def test_commas_at_the_end_stay_where_they_are(tmp_path: Path) -> None:
    path = written(tmp_path, "mcpServers: {a: {command: x}, b: {command: y,},}\npolicy: {allow: [read,]}\n")
    assert add_item(tmp_path, ALLOW, "b__*")
    assert add_entry(tmp_path, ("mcpServers", "c"), {"command": "z"})
    assert remove_entry(tmp_path, ("mcpServers", "a"))
    assert path.read_text() == (
        'mcpServers: {b: {command: y,}, c: {"command": z},}\npolicy: {allow: [read, "b__*",]}\n'
    )


def test_an_existing_entry_stays_as_it_is(tmp_path: Path) -> None:
    path = written(tmp_path, SERVERS)
    assert not add_entry(tmp_path, ("mcpServers", "time"), {"command": "other"})
    assert path.read_text() == SERVERS


def test_an_unusual_layout_is_left_to_an_editor(tmp_path: Path) -> None:
    text = "mcpServers: &s\n  time: {command: uvx}\n  files: {command: npx}\nbackends: {}\nx: *s\n"
    path = written(tmp_path, text.replace("x: *s", "plugins: *s"))
    before = path.read_text()
    with pytest.raises(ConfigError, match="left unchanged"):
        remove_entry(tmp_path, ("plugins", "time"))
    assert path.read_text() == before


# --- any text, anywhere --------------------------------------------------------------------------

NASTY = st.sampled_from(["@a/b", "`x", "%x", "-", "--", "- a", "?", "? a", ":", "a:", "a: b", "#", "a #b", "*a", "&a"])
ODD = st.sampled_from(["!a", "|", ">", "~", "null", "1e3", "0x1", "---", "...", "{", "[", ",", "'", '"', "<<", "=", ""])
TEXT = st.one_of(NASTY, ODD, st.text(max_size=30), st.text(alphabet="@`%:-?#,[]{}&*!|>'\"a/. \\\t\n", max_size=8))
PLACES = [
    "",
    "block:\n  other: 1\n",
    "block: {other: 1}\n",
    "{block: {other: 1}}\n",
    "{}\n",
    "block:\n",
    'block: {\n  "other": 1\n}\n',
]


@settings(max_examples=300, deadline=None)
@given(TEXT.filter(bool), TEXT, st.sampled_from(PLACES), st.integers(0, 3))
def test_any_text_written_anywhere_is_read_back_the_same(key: str, text: str, before: str, shape: int) -> None:
    value = [text, [text, "x", text], {key: text}, [{key: [text]}, text]][shape]
    document = load_yaml(before)
    for keys in ((key,), ("block", key), ("block", key, "in it")):
        if document.find_position(keys) is None:
            wanted = with_value(document.data, keys, value)
            assert load_yaml(edit_text(before, document, keys, value)).data == wanted


# --- one at a time -------------------------------------------------------------------------------

ADDING = """
import sys
from pathlib import Path
from mainstay.config.loader import set_value
from mainstay.config.editor import add_item, remove_entry
home, name = Path(sys.argv[1]), sys.argv[2]
print("ready", flush=True)
sys.stdin.read()
for n in range(5):
    set_value(home, f"mcpServers.{name}-{n}", {"command": "node", "args": ["x.js"]})
    add_item(home, ("policy", "allow"), f"{name}-{n}__*")
remove_entry(home, ("mcpServers", f"{name}-0"))
"""


def test_commands_at_once_lose_nothing_of_each_other(tmp_path: Path) -> None:
    home = tmp_path / "new"
    env = {**os.environ, "PYTHONPATH": str(SRC)}
    running = [
        subprocess.Popen(
            [sys.executable, "-c", ADDING, str(home), name], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        for name in "abcd"
    ]
    for one in running:
        assert one.stdout is not None
        assert one.stdout.readline() == b"ready\n"
    for one in running:
        assert one.stdin is not None
        one.stdin.close()
    for one in running:
        assert one.wait(timeout=120) == 0
        assert one.stdout is not None
        one.stdout.close()
    config = load_config(home, env={}).config
    assert set(config.mcpServers) == {f"{name}-{n}" for name in "abcd" for n in range(1, 5)}
    assert set(config.policy.allow) == {f"{name}-{n}__*" for name in "abcd" for n in range(5)}
    assert [one.name for one in home.iterdir()] == [FILE], "no lock is left lying about"


def test_a_command_that_waits_too_long_for_the_lock_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path, SERVERS)
    monkeypatch.setattr("mainstay.config.yaml_file._LOCK_TIMEOUT_S", 0.05)
    changes: list[Callable[[], object]] = [
        lambda: set_value(tmp_path, "model", "openai/y", env={}),
        lambda: add_item(tmp_path, ALLOW, "time__*"),
        lambda: add_entry(tmp_path, ("mcpServers", "new"), {"command": "x"}),
        lambda: remove_entry(tmp_path, ("mcpServers", "time")),
    ]
    with lock_file(path):
        for change in changes:
            with pytest.raises(ConfigError, match="is being changed by another command; try again"):
                change()
    assert path.read_text() == SERVERS
    for change in changes:
        change()
