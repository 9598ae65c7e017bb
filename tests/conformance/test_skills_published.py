"""Skills that others published, as they are: in the packages of three collections."""

from __future__ import annotations

import os
import tarfile
from pathlib import Path

import pytest
from support.published_packages import CACHE, locked, npm

from mainstay.skills.allowed_tools import UNREADABLE_PREFIX, parse_allowed_tools
from mainstay.skills.frontmatter import SkillRefused
from mainstay.skills.registry import SkillRegistry, SkillScope
from mainstay.skills.skill import read_skill
from mainstay.skills.validator import validate_skill
from mainstay.trust.rules import ToolRule

skills_ref = pytest.importorskip("skills_ref", reason="this needs skills-ref")

PACKAGES = ("ecc-universal@2.0.0", "bmad-method@6.12.0", "claude-flow@3.43.0")
EVERY = 1 if os.environ.get("MAINSTAY_TEST_ALL") else 3


@pytest.fixture(scope="session")
def published() -> list[Path]:
    """The folders of all skills in the packages, unpacked but not installed: nothing of them is run."""
    folder = CACHE / "skills"
    with locked(folder):
        done = folder / "unpacked"
        if not done.exists() or done.read_text() != " ".join(PACKAGES):
            for old in folder.glob("*.tgz"):
                old.unlink()
            npm(folder, "pack", "--silent", *PACKAGES)
            for archive in folder.glob("*.tgz"):
                with tarfile.open(archive) as tar:
                    tar.extractall(folder / archive.stem, filter="data")
            done.write_text(" ".join(PACKAGES))
    return sorted(path.parent for path in folder.rglob("SKILL.md") if path.is_file())


def some(folders: list[Path]) -> list[Path]:
    return folders[::EVERY]


def test_there_are_hundreds_of_them(published: list[Path]) -> None:
    assert len(published) > 500


def test_the_verdict_on_published_skills_is_that_of_the_reference(published: list[Path]) -> None:
    wrong = [folder for folder in some(published) if bool(validate_skill(folder)) != bool(skills_ref.validate(folder))]
    assert wrong == []


def test_published_skills_are_loaded_unchanged_whenever_they_have_a_header_and_a_description(
    published: list[Path],
) -> None:
    refused = {}
    for folder in published:
        try:
            skill, body = read_skill(str(folder))
        except SkillRefused as error:
            refused[folder] = str(error)
            continue
        assert skill.description
        assert body in (folder / "SKILL.md").read_text().replace("\r\n", "\n")
    odd = {
        folder: why
        for folder, why in refused.items()
        if (folder / "SKILL.md").read_text().removeprefix("\ufeff").lstrip().startswith("---")
        and "description" not in why
    }
    assert odd == {}
    assert len(refused) < len(published) / 20


def test_all_valid_skills_of_a_collection_are_registered(published: list[Path]) -> None:
    every = [folder for folder in published if not validate_skill(folder)]
    collection = max({folder.parent for folder in every}, key=lambda one: sum(folder.parent == one for folder in every))
    shelf = SkillRegistry(lambda session: (SkillScope("home", str(collection), str(collection)),), workspace="main")
    found = {one.skill.folder: one for one in shelf.skills("s")}
    valid = [folder for folder in every if folder.parent == collection]
    assert len(valid) > 20
    for folder in valid:
        assert shelf.load_skill(found[str(folder.resolve())])[1]


def test_their_allowed_tools_become_readable_rules(published: list[Path]) -> None:
    seen: set[str] = set()
    for folder in published:
        try:
            skill, _ = read_skill(str(folder))
        except SkillRefused:
            continue
        for rule in parse_allowed_tools(skill.allowed_tools):
            ToolRule.parse(rule)
            seen.add(rule)
    assert {"read", "bash", "edit"} <= seen
    assert not [rule for rule in seen if rule.startswith(UNREADABLE_PREFIX)]
