"""`mainstay pattern`: lists, searches and validates patterns."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from support.cli_support import Command

EXAMPLES = Path(__file__).parents[2] / "examples" / "patterns"


@pytest.fixture
def mainstay(tmp_path: Path) -> Command:
    command = Command(tmp_path)
    command.configure("# mine\n")
    return command


@pytest.fixture
def filled(mainstay: Command) -> Command:
    shutil.copytree(EXAMPLES, mainstay.home / "patterns")
    return mainstay


def test_patterns_of_the_home_are_listed_found_and_shown(filled: Command) -> None:
    done = filled("pattern", "list")
    assert done.returncode == 0, done.stderr
    assert [line.split()[0] for line in done.stdout.splitlines()] == [
        "NAME",
        "cancel_order",
        "refund_order",
        "slow_query",
    ]
    done = filled("patterns", "search", "the", "customer", "wants", "a", "refund")
    assert done.stdout.splitlines()[0].partition(": ")[0].endswith("* refund_order")
    done = filled("pattern", "show", "refund_order")
    assert "## Pattern: Refund an order (refund_order)" in done.stdout
    assert "Dear {{customer}}," in done.stdout
    assert f"{filled.home}/patterns/refunds.yaml:2" in done.stdout


def test_everything_is_also_there_as_json(filled: Command) -> None:
    listed = filled.json("pattern", "list")
    assert [one["name"] for one in listed["patterns"]] == ["cancel_order", "refund_order", "slow_query"]
    assert listed["troubles"] == []
    found = filled.json("pattern", "search", "why is this query slow")
    assert found["patterns"][0]["name"] == "slow_query"
    assert 0 < found["threshold"] < found["patterns"][0]["score"] <= 1
    shown = filled.json("pattern", "show", "slow_query")["pattern"]
    assert [one["name"] for one in shown["templates"]] == ["plan", "index"]
    assert filled.json("pattern", "validate") == {"ok": True, "patterns": 3, "troubles": []}


def test_the_workspace_and_configured_folders_have_patterns_too(filled: Command, tmp_path: Path) -> None:
    filled.configure("patterns:\n  folders: [~/more]\n")
    more, own = tmp_path / "more", filled.home / "workspaces" / "default" / "patterns"
    own.mkdir(parents=True)
    more.mkdir()
    (more / "a.yaml").write_text("- {name: from_elsewhere, description: x}\n- {name: slow_query, description: x}\n")
    (own / "a.yaml").write_text("name: refund_order\ndescription: as this workspace does it\n")
    listed = {one["name"]: one for one in filled.json("pattern", "list")["patterns"]}
    assert sorted(listed) == ["cancel_order", "from_elsewhere", "refund_order", "slow_query"]
    assert listed["refund_order"]["description"] == "as this workspace does it"
    assert listed["slow_query"]["title"] == "Find out why a query is slow"


def test_validate_lists_every_problem_with_file_and_line_and_fails(filled: Command) -> None:
    folder = filled.home / "patterns"
    (folder / "bad.yaml").write_text("- name: good\n  description: x\n- name: bad\n- name: ../evil\n  description: y\n")
    (folder / "bomb.yaml").write_text("a: !!python/object:x {}\n")
    done = filled("pattern", "validate")
    assert done.returncode == 1
    assert done.stdout.splitlines() == [
        f"{folder}/bad.yaml:3: the pattern 'bad' has no description",
        f"{folder}/bad.yaml:4: '../evil' is not a valid name: letters, digits, '_', '-' and '.', at most 64",
        f"{folder}/bomb.yaml:1: only plain tags are allowed",
    ]
    assert done.stderr == "3 problems; 4 patterns can be used\n"
    told = filled("pattern", "validate", "--json")
    assert told.returncode == 1
    assert '"line": 3' in told.stdout
    listing = filled("pattern", "list")
    assert listing.returncode == 0
    assert "3 problems: `mainstay pattern validate` lists them" in listing.stderr


def test_validate_takes_files_and_folders_that_are_nowhere_in_the_home(mainstay: Command, tmp_path: Path) -> None:
    done = mainstay("pattern", "validate", str(EXAMPLES), str(EXAMPLES / "refunds.yaml"))
    assert (done.returncode, done.stdout) == (0, "5 patterns, no problems\n")
    done = mainstay("pattern", "validate", "missing.yaml")
    assert (done.returncode, done.stdout) == (1, "missing.yaml: there is no such file\n")


def test_nothing_to_find_and_unknown_names_are_sentences(mainstay: Command, tmp_path: Path) -> None:
    done = mainstay("pattern", "list")
    assert done.returncode == 0
    assert done.stderr.startswith("there are no patterns; ")
    shutil.copytree(EXAMPLES, mainstay.home / "patterns")
    done = mainstay("pattern", "show", "refund_ordre")
    assert done.returncode != 0
    assert "there is no pattern 'refund_ordre'; did you mean 'refund_order'?" in done.stderr
    done = mainstay("pattern", "search", "weather")
    assert done.stderr == "none of 3 patterns matches\n"
    done = mainstay("pattern", "search")
    assert done.returncode != 0
    assert "Traceback" not in done.stderr


def test_text_of_a_pattern_cannot_command_the_terminal(mainstay: Command) -> None:
    folder = mainstay.home / "patterns"
    folder.mkdir()
    (folder / "a.yaml").write_text('name: a\ntitle: "x\\e[2J"\ndescription: "y\\e]0;z\\a \\u202e"\n')
    for arguments in (("list",), ("show", "a"), ("search", "y"), ("list", "--json")):
        done = mainstay("pattern", *arguments)
        assert done.returncode == 0
        assert not any(char in done.stdout + done.stderr for char in "\x1b\x07\u202e")
