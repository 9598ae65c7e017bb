"""SKILL.md as an agent reads it: everything that can be read safely, and nothing else."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest
from support.skill_world import write_skill

from mainstay.skills.frontmatter import FILE_BYTES_MAX, HEADER_BYTES_MAX
from mainstay.skills.skill import SkillRefused, read_skill
from mainstay.skills.validator import validate_skill


def written(folder: Path, data: str | bytes) -> str:
    folder.mkdir(exist_ok=True)
    (folder / "SKILL.md").write_bytes(data if isinstance(data, bytes) else data.encode())
    return str(folder)


FULL = """---
name: infra-ops
description: Infrastructure operations for clusters.
license: MIT
compatibility: Requires kubectl
allowed-tools: Bash(kubectl:*) Bash(terraform:*)
metadata:
  author: sean
  version: 1.0
  gateway:trigger: keyword
  gateway:keywords: server deploy "blue green"
  gateway:workspace: homelab
---

# Operations

You are an expert.
"""


def test_a_skill_has_everything_that_its_header_says(tmp_path: Path) -> None:
    skill, body = read_skill(written(tmp_path / "infra-ops", FULL))
    assert (skill.name, skill.description) == ("infra-ops", "Infrastructure operations for clusters.")
    assert (skill.license, skill.compatibility) == ("MIT", "Requires kubectl")
    assert skill.allowed_tools == "Bash(kubectl:*) Bash(terraform:*)"
    assert (skill.trigger, skill.workspace) == ("keyword", "homelab")
    assert skill.keywords == ("blue green", "server", "deploy")
    assert skill.folder == str((tmp_path / "infra-ops").resolve())
    assert skill.warnings == ()
    assert body == "# Operations\n\nYou are an expert."


def test_metadata_is_a_map_of_texts_as_they_were_written(tmp_path: Path) -> None:
    """F34: `1.0` is no number, `no` no truth and `2026-11-15` no day."""
    header = "name: a\ndescription: b\nmetadata:\n  v: 1.0\n  w: no\n  x: 2026-11-15\n  y: 0123\n  z:\n  e: 1e3\n"
    skill, _ = read_skill(written(tmp_path / "a", f"---\n{header}---\n"))
    assert skill.metadata == {"v": "1.0", "w": "no", "x": "2026-11-15", "y": "0123", "z": "", "e": "1e3"}
    assert skill.trigger == "manual"


@pytest.mark.parametrize(
    "data",
    [
        FULL.replace("\n", "\r\n"),
        FULL.replace("\n", "\r"),
        "\ufeff" + FULL,
        FULL.rstrip("\n"),
        "\n\n" + FULL,
        FULL.replace("---\n", "---  \n"),
        "\ufeff" + FULL.replace("\n", "\r\n").rstrip(),
    ],
    ids=["crlf", "cr", "bom", "no last newline", "blank lines first", "spaces after the fence", "all at once"],
)
def test_how_a_file_is_written_makes_no_difference(tmp_path: Path, data: str) -> None:
    skill, body = read_skill(written(tmp_path / "infra-ops", data))
    assert (skill.name, skill.metadata["version"]) == ("infra-ops", "1.0")
    assert body == "# Operations\n\nYou are an expert."


def test_a_file_of_a_megabyte_works_and_one_byte_more_does_not(tmp_path: Path) -> None:
    head = "---\nname: big\ndescription: Large.\n---\n"
    folder = written(tmp_path / "big", head + "x" * (FILE_BYTES_MAX - len(head)))
    assert len(read_skill(folder)[1]) == FILE_BYTES_MAX - len(head)
    written(tmp_path / "big", head + "x" * (FILE_BYTES_MAX - len(head) + 1))
    with pytest.raises(SkillRefused, match="more than 1048576 bytes"):
        read_skill(folder)


@pytest.mark.parametrize(
    ("line", "description"),
    [
        ("description: Use when: the user asks", "Use when: the user asks"),
        ("description: [beta] Does it: well", "[beta] Does it: well"),
        ("description: @someone's way", "@someone's way"),
        ('description: "Quoted" and more: so', '"Quoted" and more: so'),
        ("description: `code` first", "`code` first"),
        ("description: **Bold** first", "**Bold** first"),
        ("description: One: two\n  and three: four", "One: two and three: four"),
        ("description: fine\nargument-hint: [a] [b]", "fine"),
        ("description: fine\ntags: [a, @b]", "fine"),
        ("description: one --- two: three", "one --- two: three"),
    ],
    ids=[
        "colon",
        "brackets",
        "at",
        "quotes",
        "backticks",
        "stars",
        "two lines",
        "unknown field",
        "unknown list",
        "hyphens",
    ],
)
def test_lenient_yaml_is_read_as_meant_and_reported(tmp_path: Path, line: str, description: str) -> None:
    skill, _ = read_skill(written(tmp_path / "a", f"---\nname: a\n{line}\nlicense: MIT\n---\nbody\n"))
    assert skill.description == description
    assert skill.license == "MIT"
    assert any("not valid YAML" in one for one in skill.warnings)


def test_three_hyphens_in_a_description_do_not_end_the_header(tmp_path: Path) -> None:
    skill, body = read_skill(written(tmp_path / "a", "---\nname: a\ndescription: one --- two\nlicense: MIT\n---\nbody"))
    assert (skill.description, skill.license, body) == ("one --- two", "MIT", "body")


def test_a_skill_that_breaks_rules_is_used_and_they_are_named(tmp_path: Path) -> None:
    """F35: a name that is not that of its folder."""
    long = "y" * 1500
    data = f"---\nname: Other Name\ndescription: {long}\nversion: 2\nallowed-tools:\n  - Read\n  - Bash(git:*)\n---\n"
    folder = written(tmp_path / "a", data)
    skill, _ = read_skill(folder)
    assert (skill.name, skill.description) == ("Other Name", "y" * 1023 + "…")
    assert skill.allowed_tools == "Read, Bash(git:*)"
    said = " ".join(skill.warnings)
    assert "differs from the name of its folder" in said
    assert "1500 characters" in said
    assert "version" in said
    assert set(validate_skill(Path(folder))) == set(skill.warnings)


def test_a_name_that_cannot_be_said_is_that_of_the_folder(tmp_path: Path) -> None:
    for name in ("''", "'x\\ny'", "'## System'", "'a<b>'", "'" + "n" * 200 + "'", "[a]"):
        skill, _ = read_skill(written(tmp_path / "mine", f"---\nname: {name}\ndescription: b\n---\n"))
        assert skill.name == "mine"
        assert skill.warnings


def test_an_odd_trigger_is_ignored_and_named(tmp_path: Path) -> None:
    header = "metadata:\n  gateway:trigger: always\n"
    skill, _ = read_skill(str(write_skill(tmp_path / "a", header=header)))
    assert (skill.trigger, skill.is_listed) == ("manual", True)
    assert any("'always' is not a trigger" in one for one in skill.warnings)


def test_nested_metadata_is_kept_as_text_and_named(tmp_path: Path) -> None:
    header = "metadata:\n  a:\n    b: c\n  gateway:keywords:\n    - one\n    - two words\n  gateway:trigger: Keyword\n"
    skill, _ = read_skill(str(write_skill(tmp_path / "a", header=header)))
    assert skill.metadata["a"] == '{"b":"c"}'
    assert (skill.trigger, skill.keywords) == ("keyword", ("one", "two words"))
    assert any("values that are not text" in one for one in skill.warnings)


def test_too_many_allowed_tools_allow_nothing_rather_than_more(tmp_path: Path) -> None:
    """F35: cut in the middle, `Bash(git:*)` would be `Bash`."""
    header = "allowed-tools: " + "Bash(git:*) " * 400
    skill, _ = read_skill(str(write_skill(tmp_path / "a", header=header)))
    assert "Bash" not in skill.allowed_tools
    assert any("allows nothing" in one for one in skill.warnings)


ALIASES = "\n".join([f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" if n else "a0: &a0 [x]" for n in range(9)])
HOSTILE = {
    "alias bomb": (f"name: a\ndescription: b\n{ALIASES}\n", "aliases"),
    "object tag": ("name: a\ndescription: b\nlicense: !!python/object/apply:os.system ['true']\n", "tags"),
    "tagged description": ("name: a\nmetadata:\n  x: !!python/name:os.system\ndescription: b\n", "tag"),
    "key twice": ("name: a\ndescription: b\ndescription: c\n", "given twice"),
    "huge header": (f"name: a\ndescription: b\nlicense: {'x' * HEADER_BYTES_MAX}\n", "more than 65536 bytes"),
    "deep": ("name: a\ndescription: b\nmetadata:\n" + "".join(f"{' ' * n}a:\n" for n in range(1, 60)), "deeper"),
    "tabs": ("name: a\ndescription: b\nmetadata:\n\t- x\n", "tab"),
    "merge": ("name: a\ndescription: b\nmetadata:\n  <<: {a: b}\n", "merge"),
    "no description": ("name: a\n", "no description"),
    "empty description": ("name: a\ndescription: ''\n", "no description"),
    "description is a map": ("name: a\ndescription:\n  x: y\n", "no description"),
    "list": ("- name: a\n", "no fields"),
    "nothing": ("", "no fields"),
}


@pytest.mark.parametrize("id", HOSTILE)
def test_hostile_headers_are_refused_with_a_sentence_that_says_why(tmp_path: Path, id: str) -> None:
    """F34"""
    header, why = HOSTILE[id]
    with pytest.raises(SkillRefused, match=why) as refused:
        read_skill(written(tmp_path / "a", f"---\n{header}---\nbody"))
    assert str(refused.value).endswith(".")


@pytest.mark.parametrize(
    ("data", "why"),
    [(b"\xff\xfe\x00", "UTF-8"), (b"", "hyphens"), (b"# Only a body\n", "hyphens"), (b"---\nname: a\n", "hyphens")],
    ids=["binary", "empty", "no header", "not closed"],
)
def test_a_file_without_a_header_is_refused(tmp_path: Path, data: bytes, why: str) -> None:
    with pytest.raises(SkillRefused, match=why):
        read_skill(written(tmp_path / "a", data))


def test_a_special_file_or_a_link_to_the_outside_is_refused_and_never_blocks(tmp_path: Path) -> None:
    """F32: a pipe, a folder, a link out of the skill."""
    secret = tmp_path / "secret.md"
    secret.write_text(FULL)
    for name in ("pipe", "folder", "link", "none"):
        (tmp_path / name).mkdir()
    os.mkfifo(tmp_path / "pipe" / "SKILL.md")
    (tmp_path / "folder" / "SKILL.md").mkdir()
    (tmp_path / "link" / "SKILL.md").symlink_to(secret)
    refused: list[str] = []

    def read_all() -> None:
        for name in ("pipe", "folder", "link", "none"):
            with pytest.raises(SkillRefused):
                read_skill(str(tmp_path / name))
            assert validate_skill(tmp_path / name)
            refused.append(name)

    reader = threading.Thread(target=read_all, daemon=True)
    reader.start()
    reader.join(120)
    assert refused == ["pipe", "folder", "link", "none"]


def test_a_link_that_stays_inside_of_the_skill_is_followed(tmp_path: Path) -> None:
    folder = tmp_path / "infra-ops"
    folder.mkdir()
    (folder / "README.md").write_text(FULL)
    (folder / "SKILL.md").symlink_to("README.md")
    assert read_skill(str(folder))[0].name == "infra-ops"


def test_the_body_knows_its_first_line_number(tmp_path: Path) -> None:
    skill, body = read_skill(written(tmp_path / "infra-ops", FULL))
    lines = FULL.split("\n")
    assert lines[skill.body_line - 1] == body.split("\n")[0]
