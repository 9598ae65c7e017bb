"""Installation plans: what a skill contains, its scan findings, and what it would replace. Changes nothing."""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from mainstay.core.errors import ConfigError
from mainstay.guards.line_escaping import one_line
from mainstay.io.package_installer import compute_digest, compute_pin, iter_file_digests
from mainstay.skills.frontmatter import SkillRefused, parse_lenient, read_skill_file
from mainstay.skills.lock_file import SkillLockEntry, check_skill_name, locked_state, read_lock
from mainstay.skills.security_scan import SkillFinding, is_script, scan_skill
from mainstay.skills.skill import Skill, SkillTrigger, read_skill
from mainstay.skills.skill_fetcher import UnpackedSkill

STORED_FILES_MAX = 500  # file hashes of one skill in the lock, to report what changed
CHANGES_MAX = 20
_SHORT_DIGEST_CHARS = 16


class ExistingSkill(msgspec.Struct, frozen=True, kw_only=True):
    """The existing skill of the same name."""

    own: bool = False  # the owner's own: it has no lock entry
    same: bool = False  # it has the same files
    source: str = ""
    at: str = ""
    trusted: bool = False
    link: str = ""
    edited: bool = False  # its files are not those that were installed
    changes: tuple[str, ...] = ()  # how the new skill differs: phrases that continue "it"


class SkillInstallPlan(msgspec.Struct, frozen=True, kw_only=True):
    """Everything to show the user before a skill is installed."""

    name: str
    description: str
    folder: Path  # the unpacked source
    source: str
    digest: str
    files: tuple[str, ...]
    size_bytes: int
    scripts: tuple[str, ...] = ()
    allowed_tools: str = ""
    trigger: SkillTrigger = "manual"
    is_listed: bool = True  # the model is told of it before a user requests it
    keywords: tuple[str, ...] = ()
    compatibility: str = ""
    license: str = ""
    findings: tuple[SkillFinding, ...] = ()
    existing: ExistingSkill | None = None

    @property
    def dangers(self) -> list[SkillFinding]:
        return [finding for finding in self.findings if finding.level == "danger"]


def plan_install(
    folder: Path, skills_folder: Path, *, source: str, folder_name: str = "", omitted_links: Sequence[str] = ()
) -> SkillInstallPlan:
    """Plan the installation of the skill in a folder, without changing anything.

    `folder_name` is the folder's original name; `omitted_links` are the links that it had there: without them the skill
    would be incomplete. Raises ConfigError if the skill cannot be installed at all.
    """
    try:
        skill = _read_installable(folder, omitted_links)
    except (SkillRefused, ConfigError) as error:
        prefix = f"{folder_name}: " if folder_name else ""
        raise ConfigError(f"{one_line(source)} cannot be installed: {one_line(prefix)}{error}") from None
    files = tuple(path for path, _, _ in iter_file_digests(folder))
    return SkillInstallPlan(
        name=skill.name,
        description=skill.description,
        folder=folder,
        source=source,
        digest=compute_digest(folder),
        files=files,
        size_bytes=sum((folder / path).stat().st_size for path in files),
        scripts=tuple(path for path in files if is_script(folder, path)),
        allowed_tools=skill.allowed_tools,
        trigger=skill.trigger,
        is_listed=skill.is_listed,
        keywords=skill.keywords,
        compatibility=skill.compatibility,
        license=skill.license,
        findings=(*scan_skill(folder), *_format_findings(skill, folder_name)),
        existing=_find_existing(skill, folder, skills_folder),
    )


class SkippedSkill(msgspec.Struct, frozen=True):
    """A skill of a source that is not installed with the others, and why."""

    name: str
    reason: str


def plan_all_installs(
    unpacked: Sequence[UnpackedSkill], skills_folder: Path, *, source: str, force: bool = False
) -> tuple[list[SkillInstallPlan], list[SkippedSkill]]:
    """Plan the installation of all skills of a source that can be installed, and return the others with the reason.

    So one skill that looks dangerous does not make the owner accept the dangers of all (`force`). Of identical copies
    one is planned. Raises ConfigError if no skill can be installed.
    """
    plans: list[SkillInstallPlan] = []
    skipped: list[SkippedSkill] = []
    for new in unpacked:
        try:
            _read_installable(new.folder, new.omitted_links)
        except (SkillRefused, ConfigError) as error:
            skipped.append(SkippedSkill(new.folder_name, str(error)))
            continue
        plan = plan_install(new.folder, skills_folder, source=source, folder_name=new.folder_name)
        if plan.dangers and not force:
            skipped.append(SkippedSkill(plan.name, f"it looks dangerous: {plan.dangers[0]}"))
        elif (plan.name, plan.digest) not in [(other.name, other.digest) for other in plans]:
            plans.append(plan)
    if not plans:
        name, reason = skipped[0].name, skipped[0].reason
        raise ConfigError(f"no skill of {one_line(source)} can be installed; {one_line(name)}: {reason}")
    return plans, skipped


def _read_installable(folder: Path, omitted_links: Sequence[str]) -> Skill:
    """Read a skill and require a complete folder and a valid name in the header: the fallback would be the folder's
    name, which is a temporary one here. Raises SkillRefused or ConfigError."""
    if omitted_links:
        raise ConfigError(f"{one_line(omitted_links[0])} is a link, not a regular file")
    skill, _ = read_skill(str(folder))
    name = parse_lenient(read_skill_file(str(folder))).fields.get("name")
    if not isinstance(name, str) or not name.strip():
        raise ConfigError("it has no name")
    check_skill_name(unicodedata.normalize("NFKC", name.strip()))
    assert skill.name == unicodedata.normalize("NFKC", name.strip()), "a sound name is kept"
    return skill


def compare_with_entry(entry: SkillLockEntry, skills_folder: Path) -> SkillInstallPlan:
    """Plan the approval of an installed skill; `before.changes` lists how it differs from what was approved."""
    place = skills_folder / entry.name
    if place.is_symlink():
        raise ConfigError(f"{one_line(str(place))} was replaced by a link; install it again")
    current = plan_install(place, skills_folder, source=entry.source)
    if current.name != entry.name:
        raise ConfigError(f"the skill in {one_line(str(place))} is now named {current.name}; install it again")
    hashes = short_digests(place)
    changes = tuple(_compare_files(entry.files, hashes)) if entry.files and hashes else ()
    before = ExistingSkill(
        same=current.digest == entry.digest,
        source=entry.source,
        at=entry.at,
        trusted=entry.trusted,
        edited=current.digest != entry.digest,
        changes=changes,
    )
    return msgspec.structs.replace(current, existing=before)


def short_digests(folder: Path) -> dict[str, str]:
    """Return shortened file hashes, enough to report which files changed; empty for a skill of very many files."""
    hashes = {
        path: f"{'x' if executable else '-'}{digest[:_SHORT_DIGEST_CHARS]}"
        for path, executable, digest in iter_file_digests(folder)
    }
    return hashes if len(hashes) <= STORED_FILES_MAX else {}


def _format_findings(skill: Skill, folder_name: str) -> Iterator[SkillFinding]:
    """Yield the validator's warnings. The name of the temporary folder does not matter, the original one does."""
    for warning in skill.warnings:
        if "differs from the name of its folder" not in warning:
            yield SkillFinding("warning", "SKILL.md", 0, f"does not follow the format: {warning.rstrip('.')}")
    if folder_name and folder_name != skill.name:
        yield SkillFinding(
            "warning", "SKILL.md", 0, f"is named {skill.name}, but its folder {one_line(folder_name)[:80]}"
        )


def _find_existing(skill: Skill, folder: Path, skills_folder: Path) -> ExistingSkill | None:
    place = skills_folder / skill.name
    if not os.path.lexists(place) or place == folder:
        return None
    entry = read_lock(skills_folder).get(skill.name)
    state, changes = compute_pin(place), tuple(_compare_skills(place, skill, folder))
    if entry is None:
        return ExistingSkill(own=True, same=state == compute_digest(folder), changes=changes)
    return ExistingSkill(
        same=state == entry.digest == compute_digest(folder),
        source=entry.source,
        at=entry.at,
        trusted=entry.trusted,
        link=entry.link,
        edited=state != locked_state(skills_folder, skill.name),
        changes=changes,
    )


def _collect_trigger_fields(skill: Skill) -> tuple[SkillTrigger, bool, tuple[str, ...]]:
    return skill.trigger, skill.is_listed, skill.keywords


def _compare_skills(existing: Path, new: Skill, folder: Path) -> Iterator[str]:
    """Yield how the new skill differs from the existing one."""
    try:
        old, _ = read_skill(str(existing))
        old_files = {path: (executable, digest) for path, executable, digest in iter_file_digests(existing)}
    except (SkillRefused, ConfigError, OSError):
        return
    for what, before, after in (
        ("has another description", old.description, new.description),
        ("names other allowed tools", old.allowed_tools, new.allowed_tools),
        ("has another trigger or other keywords", _collect_trigger_fields(old), _collect_trigger_fields(new)),
    ):
        if before != after:
            yield what
    yield from _compare_files(
        old_files, {path: (executable, digest) for path, executable, digest in iter_file_digests(folder)}
    )


def _compare_files(old_files: Mapping[str, object], new_files: Mapping[str, object]) -> Iterator[str]:
    differences = [
        ("changes", path) for path in sorted(old_files.keys() & new_files.keys()) if old_files[path] != new_files[path]
    ]
    differences += [("adds", path) for path in sorted(new_files.keys() - old_files.keys())]
    differences += [("no longer has", path) for path in sorted(old_files.keys() - new_files.keys())]
    yield from (f"{what} {one_line(path)}" for what, path in differences[:CHANGES_MAX])
    if len(differences) > CHANGES_MAX:
        yield f"differs in {len(differences) - CHANGES_MAX} more files"
