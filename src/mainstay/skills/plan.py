"""What installing a skill would mean, told before anything is done: what it says, what it brings, what was found in it,
and what is in its place already."""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

from mainstay.core.errors import ConfigError
from mainstay.io.packages import digest_of, file_digests, standing
from mainstay.skills.header import SkillRefused, read_file, read_leniently
from mainstay.skills.lock import Pinned, checked_name, pinned_state, read_lock
from mainstay.skills.scan import Finding, is_script, scan
from mainstay.skills.skill import Skill, Trigger, read_skill
from mainstay.trust.guards.lines import one_line

FILES_KEPT_MAX = 500  # of one skill, in the lock, to tell what has changed
CHANGES_MAX = 20
_SHORT = 16


class Before(msgspec.Struct, frozen=True, kw_only=True):
    """What is in the place of a skill already."""

    own: bool = False  # the owner's own: it was not installed
    same: bool = False  # the very same files
    source: str = ""
    at: str = ""
    trusted: bool = False
    link: str = ""
    edited: bool = False  # its files are not those that were installed
    changes: tuple[str, ...] = ()  # what is otherwise now: phrases that go on from "it"


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """What installing a skill would mean."""

    name: str
    description: str
    folder: Path  # where it was brought to
    source: str
    digest: str
    files: tuple[str, ...]
    bytes: int
    scripts: tuple[str, ...] = ()
    allowed_tools: str = ""
    trigger: Trigger = "manual"
    keywords: tuple[str, ...] = ()
    compatibility: str = ""
    license: str = ""
    findings: tuple[Finding, ...] = ()
    before: Before | None = None

    @property
    def dangers(self) -> list[Finding]:
        return [one for one in self.findings if one.level == "danger"]


def plan(folder: Path, skills_folder: Path, *, source: str, called: str = "") -> Plan:
    """Looks at a folder with a SKILL.md, and changes nothing. `called` is what its author calls the folder. Raises
    ConfigError if it cannot be installed at all."""
    try:
        skill, _ = read_skill(str(folder))
        _check_name(folder, skill)
    except (SkillRefused, ConfigError) as error:
        where = f"{called}: " if called else ""
        raise ConfigError(f"{one_line(source)} cannot be installed: {one_line(where)}{error}") from None
    files = tuple(path for path, _, _ in file_digests(folder))
    return Plan(
        name=skill.name,
        description=skill.description,
        folder=folder,
        source=source,
        digest=digest_of(folder),
        files=files,
        bytes=sum((folder / path).stat().st_size for path in files),
        scripts=tuple(path for path in files if is_script(folder, path)),
        allowed_tools=skill.allowed_tools,
        trigger=skill.trigger,
        keywords=skill.keywords,
        compatibility=skill.compatibility,
        license=skill.license,
        findings=(*scan(folder), *_odd(skill, called)),
        before=_before(skill, folder, skills_folder),
    )


def _check_name(folder: Path, skill: Skill) -> None:
    """What cannot be said is called as its folder is, which is ours here, and not its author's."""
    given = read_leniently(read_file(str(folder))).fields.get("name")
    if not isinstance(given, str) or not given.strip():
        raise ConfigError("it has no name")
    checked_name(unicodedata.normalize("NFKC", given.strip()))
    assert skill.name == unicodedata.normalize("NFKC", given.strip()), "a sound name is kept"


def changed(pinned: Pinned, skills_folder: Path) -> Plan:
    """What an installed skill is now; `before.changes` tells what it is otherwise than when it was approved."""
    place = skills_folder / pinned.name
    if place.is_symlink():
        raise ConfigError(f"{one_line(str(place))} is a link, and was none when it was installed; install it anew")
    found = plan(place, skills_folder, source=pinned.source)
    if found.name != pinned.name:
        raise ConfigError(f"what is in {one_line(str(place))} calls itself {found.name} now; install it anew")
    has = short_digests(place)
    changes = tuple(_differences(pinned.files, has)) if pinned.files and has else ()
    before = Before(
        same=found.digest == pinned.digest,
        source=pinned.source,
        at=pinned.at,
        trusted=pinned.trusted,
        edited=found.digest != pinned.digest,
        changes=changes,
    )
    return msgspec.structs.replace(found, before=before)


def short_digests(folder: Path) -> dict[str, str]:
    """Enough to tell which files are others now; nothing for a skill of very many."""
    made = {path: f"{'x' if runs else '-'}{inner[:_SHORT]}" for path, runs, inner in file_digests(folder)}
    return made if len(made) <= FILES_KEPT_MAX else {}


def _odd(skill: Skill, called: str) -> Iterator[Finding]:
    """What a validator says of it. The folder that it was unpacked into has no say in what it is called."""
    for said in skill.warnings:
        if "is not that of its folder" not in said:
            yield Finding("warning", "SKILL.md", 0, f"is not quite in the format: {said.rstrip('.')}")
    if called and called != skill.name:
        yield Finding("warning", "SKILL.md", 0, f"calls itself {skill.name}, and its folder {one_line(called)[:80]}")


def _before(skill: Skill, folder: Path, skills_folder: Path) -> Before | None:
    place = skills_folder / skill.name
    if not os.path.lexists(place) or place == folder:
        return None
    pinned = read_lock(skills_folder).get(skill.name)
    now, changes = standing(place), tuple(_changes(place, skill, folder))
    if pinned is None:
        return Before(own=True, same=now == digest_of(folder), changes=changes)
    return Before(
        same=now == pinned.digest == digest_of(folder),
        source=pinned.source,
        at=pinned.at,
        trusted=pinned.trusted,
        link=pinned.link,
        edited=now != pinned_state(skills_folder, skill.name),
        changes=changes,
    )


def _changes(place: Path, new: Skill, folder: Path) -> Iterator[str]:
    """What the new one has otherwise than the one that is there."""
    try:
        old, _ = read_skill(str(place))
        had = {path: (runs, inner) for path, runs, inner in file_digests(place)}
    except (SkillRefused, ConfigError, OSError):
        return
    for what, was, now in (
        ("describes itself otherwise", old.description, new.description),
        ("wants other tools", old.allowed_tools, new.allowed_tools),
        ("is brought in otherwise", (old.trigger, old.keywords), (new.trigger, new.keywords)),
    ):
        if was != now:
            yield what
    yield from _differences(had, {path: (runs, inner) for path, runs, inner in file_digests(folder)})


def _differences(had: Mapping[str, object], has: Mapping[str, object]) -> Iterator[str]:
    differ = [("changes", path) for path in sorted(had.keys() & has.keys()) if had[path] != has[path]]
    differ += [("adds", path) for path in sorted(has.keys() - had.keys())]
    differ += [("has no longer", path) for path in sorted(had.keys() - has.keys())]
    yield from (f"{what} {one_line(path)}" for what, path in differ[:CHANGES_MAX])
    if len(differ) > CHANGES_MAX:
        yield f"differs in {len(differ) - CHANGES_MAX} more files"
