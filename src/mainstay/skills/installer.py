"""Installs, approves, trusts, copies, links and removes skills.

A skill without a lock entry counts as written by the owner. So the lock is written before a skill is moved in, and
after one was moved out: a process that is killed at any moment leaves a skill that is not used, never one that is
trusted by mistake. The next command finishes the interrupted one (io/package_folder).
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from mainstay.core.errors import ConfigError
from mainstay.guards.line_escaping import one_line
from mainstay.io.package_installer import (
    NEW_PREFIX,
    OLD_PREFIX,
    change_packages,
    compute_digest,
    compute_pin,
    move_in,
    move_out,
    sync_folder,
    sync_tree,
    unpack_package,
)
from mainstay.skills.frontmatter import SkillRefused
from mainstay.skills.install_plan import (
    ExistingSkill,
    SkillInstallPlan,
    SkippedSkill,
    compare_with_entry,
    plan_all_installs,
    plan_install,
    short_digests,
)
from mainstay.skills.lock_file import (
    SKILL_PACKAGES,
    SkillLockEntry,
    check_skill_name,
    is_skill_name,
    locked_state,
    read_lock,
    read_unresolved_lock,
    write_lock,
)
from mainstay.skills.skill import read_skill
from mainstay.skills.skill_fetcher import ARCHIVE_LIMITS

__all__ = [
    "ExistingSkill",
    "SkillInstallPlan",
    "SkippedSkill",
    "approve_changes",
    "copy_skill",
    "distrust_skill",
    "install_skills",
    "link_skill",
    "plan_all_installs",
    "plan_approval",
    "plan_install",
    "remove_skill",
    "trust_agent_written",
    "trust_skill",
]

AGENT_SOURCE = "an agent that worked here"

STORED_FINDINGS_MAX = 20

LockEntries = dict[str, SkillLockEntry]


# --- installing ----------------------------------------------------------------------------------


def install_skills(
    plans: Sequence[SkillInstallPlan], skills_folder: Path, *, trusted: bool = False, force: bool = False
) -> dict[str, SkillLockEntry]:
    """Install all skills or none; each replaces an installed skill of its name.

    `force` accepts dangerous findings and replaces the owner's own skills. On ConfigError nothing has changed.
    """
    _check_unique_names(plans)
    for new in plans:
        if new.dangers and not force:
            danger = new.dangers[0]
            raise ConfigError(f"{new.name} looks dangerous: {danger}; review it, then install it with --force")
    with change_packages(skills_folder, SKILL_PACKAGES) as staging:
        entries = read_unresolved_lock(skills_folder)
        for new in plans:
            if new.name not in entries:
                _check_not_present(new.name, skills_folder, entries, force=force)
        new_entries = {}
        for new in plans:
            old = entries.get(new.name)
            was_trusted = old is not None and old.trusted and old.digest == new.digest
            staged = _stage_copy(new.name, new.folder, new.digest, staging)
            new_entries[new.name] = _build_entry(staged, new, trusted or was_trusted)
        _move_into_place(skills_folder, list(new_entries), staging, [entries, {**entries, **new_entries}])
        return new_entries


def _check_unique_names(plans: Sequence[SkillInstallPlan]) -> None:
    names = [new.name for new in plans]
    if duplicates := sorted({name for name in names if names.count(name) > 1}):
        raise ConfigError(f"two skills are named {duplicates[0]}; install one of them by itself")


def _check_not_present(name: str, skills_folder: Path, entries: dict[str, SkillLockEntry], *, force: bool) -> None:
    if os.path.lexists(skills_folder / name) and not force:
        origin = "was installed" if name in entries else "is your own"
        raise ConfigError(f"{name} already exists and {origin}; --force replaces it")


def _stage_copy(name: str, folder: Path, digest: str, staging: Path) -> Path:
    """Copy a skill next to its target, sync it to disk, and check that it has the digest that was reviewed."""
    root = staging / f"{NEW_PREFIX}{name}"
    unpack_package(folder, root, ARCHIVE_LIMITS, shown_as=name, excluded_names=frozenset())
    if compute_digest(root) != digest:
        raise _changed_since_shown_error(name)
    sync_tree(root)
    return root


def _build_entry(folder: Path, plan: SkillInstallPlan, trusted: bool) -> SkillLockEntry:
    return SkillLockEntry(
        plan.name,
        plan.digest,
        source=plan.source,
        at=_now_iso(),
        trusted=trusted,
        findings=tuple(map(str, plan.findings[:STORED_FINDINGS_MAX])),
        files=short_digests(folder),
    )


def _move_into_place(skills_folder: Path, names: Sequence[str], staging: Path, locks: Sequence[LockEntries]) -> None:
    """Write the lock, then move each skill to its place; on failure restore everything.

    `locks` are the old lock, the new one, and optionally the one to write after all skills are in place.
    """
    begun: list[str] = []
    try:
        write_lock(skills_folder, locks[1])
        for name in names:
            begun.append(name)
            move_in(staging / f"{NEW_PREFIX}{name}", skills_folder / name, staging)
        sync_folder(skills_folder)
        for lock in locks[2:]:
            write_lock(skills_folder, lock)
    except BaseException:
        write_lock(skills_folder, locks[1])
        for name in reversed(begun):
            move_out(staging / f"{NEW_PREFIX}{name}", skills_folder / name, staging)
        write_lock(skills_folder, locks[0])
        raise


# --- approval and trust --------------------------------------------------------------------------


def plan_approval(name: str, skills_folder: Path) -> SkillInstallPlan:
    """Return the current state of an installed skill, and what changed since it was approved. Raises ConfigError."""
    entry = _load_entry(name, skills_folder)
    if entry.link:
        raise ConfigError(f"{name} is a link to {one_line(entry.link)}; approve it there")
    return compare_with_entry(entry, skills_folder)


def approve_changes(approved: SkillInstallPlan, skills_folder: Path, *, trusted: bool = False) -> SkillLockEntry:
    """Pin the files as they were shown to the owner. Trust in the earlier files does not carry over.

    Raises ConfigError if the files have changed since.
    """
    with change_packages(skills_folder, SKILL_PACKAGES):
        entries = read_unresolved_lock(skills_folder)
        if approved.name not in entries:
            raise _unknown_skill_error(approved.name, skills_folder)
        if compute_pin(skills_folder / approved.name) != approved.digest:
            raise _changed_since_shown_error(approved.name)
        entry = _build_entry(skills_folder / approved.name, approved, trusted)
        write_lock(skills_folder, {**entries, approved.name: entry})
        return entry


def trust_skill(name: str, skills_folder: Path, shown_digest: str) -> SkillLockEntry:
    """Treat a skill's text as the owner's from now on.

    Raises ConfigError if its files are not those installed, or not those shown to the owner (`shown_digest`).
    """
    _load_trustable(name, skills_folder)
    with change_packages(skills_folder, SKILL_PACKAGES):
        entry = _load_trustable(name, skills_folder)
        if (digest := compute_pin(skills_folder / name)) != entry.digest:
            raise _files_changed_error(name)
        if digest != shown_digest:
            raise _changed_since_shown_error(name)
        return _set_trusted(entry, skills_folder, True)


def distrust_skill(name: str, skills_folder: Path) -> SkillLockEntry:
    """Treat a skill's text as untrusted again, even if its files have changed. Raises ConfigError if not installed."""
    _load_trustable(name, skills_folder)
    with change_packages(skills_folder, SKILL_PACKAGES):
        return _set_trusted(_load_trustable(name, skills_folder), skills_folder, False)


def _load_trustable(name: str, skills_folder: Path) -> SkillLockEntry:
    entry = _load_entry(name, skills_folder)
    if entry.link:
        raise ConfigError(f"{name} is a link to {one_line(entry.link)}; trust it there")
    return entry


def _set_trusted(old_entry: SkillLockEntry, skills_folder: Path, trusted: bool) -> SkillLockEntry:
    entry = msgspec.structs.replace(old_entry, trusted=trusted)
    entries = read_unresolved_lock(skills_folder)
    write_lock(skills_folder, {**entries, entry.name: entry})
    return entry


def trust_agent_written(name: str, skills_folder: Path, shown_digest: str) -> SkillLockEntry:
    """Trust a skill that an agent wrote: pin it as if it had been installed.

    Raises ConfigError if its files are not those shown to the owner (`shown_digest`).
    """
    check_skill_name(name)
    if not os.path.lexists(skills_folder / name):
        raise _unknown_skill_error(name, skills_folder)
    with change_packages(skills_folder, SKILL_PACKAGES):
        entries = read_unresolved_lock(skills_folder)
        if not shown_digest or compute_pin(skills_folder / name) != shown_digest:
            raise _changed_since_shown_error(name)
        entry = SkillLockEntry(
            name,
            shown_digest,
            source=AGENT_SOURCE,
            at=_now_iso(),
            trusted=True,
            files=short_digests(skills_folder / name),
        )
        write_lock(skills_folder, {**entries, name: entry})
        return entry


def remove_skill(name: str, skills_folder: Path) -> SkillLockEntry | None:
    """Remove a skill (of a link, only the link). Return its entry; None for the owner's own. Raises ConfigError."""
    check_skill_name(name)
    place = skills_folder / name
    if not os.path.lexists(place) and name not in read_unresolved_lock(skills_folder):
        raise _unknown_skill_error(name, skills_folder)
    with change_packages(skills_folder, SKILL_PACKAGES) as staging:
        entries = read_unresolved_lock(skills_folder)
        try:
            if os.path.lexists(place):  # moved out first: without an entry it would count as the owner's own
                os.rename(place, staging / f"{OLD_PREFIX}{name}")
                sync_folder(skills_folder)
            if name in entries:
                write_lock(skills_folder, {other: entry for other, entry in entries.items() if other != name})
        except BaseException:
            if os.path.lexists(old := staging / f"{OLD_PREFIX}{name}"):
                os.rename(old, place)
            raise
        return entries.get(name)


# --- to other workspaces -------------------------------------------------------------------------


def copy_skill(
    name: str, source: Path, target: Path, *, force: bool = False, untrusted: bool = False
) -> SkillLockEntry | None:
    """Copy a skill to another skills folder. An installed skill keeps its lock entry and trust.

    The owner's own skill stays without an entry, unless it is tainted (`untrusted`). Raises ConfigError.
    """
    folder = _find_source_folder(name, source, target)
    source_entry = read_lock(source).get(name)
    digest = compute_digest(folder)
    if source_entry is not None and source_entry.digest and digest != source_entry.digest:
        raise _files_changed_error(name)
    with change_packages(target, SKILL_PACKAGES) as staging:
        entries = read_unresolved_lock(target)
        _check_not_present(name, target, entries, force=force)
        root = _stage_copy(name, folder, digest, staging)
        entry = SkillLockEntry(
            name, digest, source="an agent that had read others' words", at=_now_iso(), files=short_digests(root)
        )
        if source_entry is not None and source_entry.digest:
            entry = msgspec.structs.replace(source_entry, link="", at=_now_iso())
        locks: list[LockEntries] = [entries, {**entries, name: entry}]
        own = not untrusted and (source_entry is None or not source_entry.digest)
        if own:  # removed last: until then a third party's skill may be in that place
            locks.append({other: entries[other] for other in entries if other != name})
        _move_into_place(target, [name], staging, locks)
        return None if own else entry


def link_skill(name: str, source: Path, target: Path, *, force: bool = False) -> SkillLockEntry:
    """Link a skill's real folder into another skills folder: edits take effect in both. Raises ConfigError."""
    folder = _find_source_folder(name, source, target)
    with change_packages(target, SKILL_PACKAGES) as staging:
        entries = read_unresolved_lock(target)
        _check_not_present(name, target, entries, force=force)
        os.symlink(folder, staging / f"{NEW_PREFIX}{name}")
        entry = SkillLockEntry(name, "", source=str(folder), at=_now_iso(), link=str(folder))
        _move_into_place(target, [name], staging, [entries, {**entries, name: entry}])
    return read_lock(target)[name]


def _find_source_folder(name: str, source: Path, target: Path) -> Path:
    """Return the skill's real folder. In `source` it may be a link, if the lock has it."""
    check_skill_name(name)
    if source.resolve() == target.resolve():
        raise ConfigError(f"{name} is already there: set the source with --from and the target with --to")
    place = source / name
    if place.is_symlink() and compute_pin(place) != locked_state(source, name):
        raise ConfigError(f"{name} is a link that was not made by `mainstay skill link`")
    folder = place.resolve()
    try:
        skill, _ = read_skill(str(folder))
    except SkillRefused as error:
        raise _unknown_skill_error(name, source) if not os.path.lexists(place) else ConfigError(str(error)) from None
    if skill.name != name:
        raise ConfigError(f"the skill in {one_line(str(place))} is named {skill.name}")
    return folder


# --- helpers -------------------------------------------------------------------------------------


def _load_entry(name: str, skills_folder: Path) -> SkillLockEntry:
    check_skill_name(name)
    entries = read_lock(skills_folder)
    if name in entries:
        return entries[name]
    if os.path.lexists(skills_folder / name):
        raise ConfigError(f"{name} is your own: it was not installed, and there is nothing to approve or trust")
    raise _unknown_skill_error(name, skills_folder)


def _unknown_skill_error(name: str, skills_folder: Path) -> ConfigError:
    present = {path.name for path in skills_folder.iterdir() if path.is_dir()} if skills_folder.is_dir() else set()
    names = ", ".join(sorted(filter(is_skill_name, present | read_unresolved_lock(skills_folder).keys()))) or "none"
    return ConfigError(f"there is no skill {name} here; available: {names}")


def _files_changed_error(name: str) -> ConfigError:
    return ConfigError(f"the files of {name} have changed; review them, then run `mainstay skill approve {name}`")


def _changed_since_shown_error(name: str) -> ConfigError:
    return ConfigError(f"{name} has changed since it was shown; review it again")


def _now_iso() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
