"""Lock file of a scope's skills (`skills/lock.json`): installed skills, their sources and content hashes.

A skill without a lock entry counts as written by the owner. So a third-party skill is never in its place without an
entry here, not even for a moment (skills/installer).
"""

from __future__ import annotations

import unicodedata
from pathlib import Path
from typing import Literal

import msgspec

from mainstay.core.errors import ConfigError
from mainstay.guards.line_escaping import one_line
from mainstay.io import package_installer
from mainstay.io.package_installer import PackageKind, compute_digest, read_lock_file, write_lock_file

__all__ = [
    "SkillLockEntry",
    "check_skill_name",
    "compute_digest",
    "is_skill_name",
    "read_lock",
    "recover_interrupted",
    "write_lock",
]

NAME_CHARS_MAX = 64
NAME_BYTES_MAX = 200  # file systems allow 255, and prefixes are added
UNREADABLE_DIGEST = "unreadable"  # matches no hash


class SkillLockEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An installed skill, pinned to the content hash that the owner approved.

    A linked skill (`link` is the absolute real path of its target) has the digest and trust of the target's own lock
    entry, filled in by `read_lock`. An empty digest means that nothing is pinned: the target is the owner's own skill,
    and edits take effect at once.
    """

    name: str
    digest: str  # "sha256:…" over all files
    source: str = ""  # path or URL, as the user wrote it
    at: str = ""  # installation time, ISO 8601 in UTC
    trusted: bool = False  # the owner has read the skill and trusts it
    link: str = ""
    findings: tuple[str, ...] = ()  # of the security scan at installation
    files: dict[str, str] = {}  # path: start of its hash, to report which files changed; `digest` alone decides


class SkillLockFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    skills: tuple[SkillLockEntry, ...] = ()
    format: Literal[1] = 1

    def __post_init__(self) -> None:
        if invalid := [entry.name for entry in self.skills if not _is_valid_entry(entry)]:
            raise ValueError(
                f"{one_line(invalid[0])} cannot be pinned: it needs a valid name, and either a hash or a link"
            )


def read_lock(skills_folder: Path) -> dict[str, SkillLockEntry]:
    """Return entries by name, links resolved. Raises ConfigError if unreadable: no skill's author is known then."""
    return {
        name: _resolve_link(entry) if entry.link else entry
        for name, entry in read_unresolved_lock(skills_folder).items()
    }


def read_unresolved_lock(skills_folder: Path) -> dict[str, SkillLockEntry]:
    """Return entries by name as stored: links without their target's digest and trust. Raises ConfigError."""
    return {entry.name: entry for entry in read_lock_file(skills_folder, SKILL_PACKAGES).skills}


def _is_valid_entry(entry: SkillLockEntry) -> bool:
    return (
        is_skill_name(entry.name)
        and (bool(entry.digest) != bool(entry.link))
        and (not entry.link or entry.link.startswith("/"))
    )


def _resolve_link(entry: SkillLockEntry) -> SkillLockEntry:
    target = Path(entry.link)
    try:
        target_entry = read_unresolved_lock(target.parent).get(target.name)
    except ConfigError:
        return msgspec.structs.replace(entry, digest=UNREADABLE_DIGEST, trusted=False)
    if target_entry is None:
        return msgspec.structs.replace(entry, digest="", trusted=True)
    return msgspec.structs.replace(
        entry,
        digest=target_entry.digest or UNREADABLE_DIGEST,  # links to links are not supported
        trusted=target_entry.trusted,
        findings=target_entry.findings,
        files=target_entry.files,
    )


def write_lock(skills_folder: Path, entries_by_name: dict[str, SkillLockEntry]) -> None:
    """Replace the lock file atomically. Raises ConfigError for entries that could not be read back: one would make the
    whole lock unreadable."""
    entries = (entries_by_name[name] for name in sorted(entries_by_name))
    stored = tuple(
        msgspec.structs.replace(entry, digest="", trusted=False, findings=(), files={}) if entry.link else entry
        for entry in entries
    )
    try:
        lock = SkillLockFile(stored)
    except ValueError as error:
        raise ConfigError(str(error)) from None
    write_lock_file(skills_folder, SKILL_PACKAGES, lock)


def recover_interrupted(skills_folder: Path) -> bool:
    """Finish a command that was killed half-way; return True if a locked skill had to be moved to its place."""
    return package_installer.recover_interrupted(skills_folder, SKILL_PACKAGES)


def _list_pins(lock: SkillLockFile) -> dict[str, str]:
    return {entry.name: f"link:{entry.link}" if entry.link else entry.digest for entry in lock.skills}


def locked_state(skills_folder: Path, name: str) -> str:
    """Return the expected state as `compute_pin` has it: a digest, `link:` and its target, or "" without entry."""
    return _list_pins(read_lock_file(skills_folder, SKILL_PACKAGES)).get(name, "")


SKILL_PACKAGES = PackageKind(
    noun="skill",
    lock_type=SkillLockFile,
    lock_bytes_max=8 * 1024 * 1024,
    # If only the lock were deleted, all skills in the folder would count as the owner's own.
    damage_remedy="move the skills that were installed away with it, and install them again",
    list_pins=_list_pins,
)


def is_skill_name(name: str) -> bool:
    """Check the specification's rule: lower-case letters of any language, digits, and single hyphens in between."""
    return (
        0 < len(name) <= NAME_CHARS_MAX
        and name == unicodedata.normalize("NFKC", name) == name.lower()
        and not name.startswith("-")
        and not name.endswith("-")
        and "--" not in name
        and all(char == "-" or char.isalnum() for char in name)
        and len(name.encode()) <= NAME_BYTES_MAX
    )


def check_skill_name(name: str) -> str:
    """Return the name if it is valid and safe as a path component. Raises ConfigError."""
    if not is_skill_name(name):
        rule = f"lower-case letters, digits and single hyphens, at most {NAME_CHARS_MAX} characters"
        raise ConfigError(f"{one_line(name)[:80]!r} is not a skill name: {rule}")
    return name
