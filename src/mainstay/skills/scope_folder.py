"""Reads the skills in one scope's folder, and verifies installed ones against the lock file.

The folder is checked often, so files are read and hashed again only when their times or sizes change. An installed
skill is used only while its files have the approved hash, which is verified again before its body is returned
(skills/tree_hashes).
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Mapping
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from mainstay.core.errors import ConfigError
from mainstay.core.memory_tiers import is_untrusted
from mainstay.io.path_resolver import is_inside, shorten_for_message
from mainstay.skills.frontmatter import SKILL_FILE_NAMES, SkillRefused, normalise_name
from mainstay.skills.tree_hash_cache import (
    HashBudget,
    SkillUnverified,
    TreeFingerprint,
    TreeHashCache,
    is_settled,
    stat_fingerprint,
)

if TYPE_CHECKING:  # loaded with the first skill
    from mainstay.skills.lock_file import SkillLockEntry
    from mainstay.skills.skill import Skill

SKILLS_MAX = 1_000  # of one scope
ENTRIES_MAX = 10_000  # of a scope's folder
TREES_PER_REFRESH = 25
LISTED_FILES_MAX = 200
VISITED_MAX = 2_000  # files and folders visited to list a skill's files
DEPTH_MAX = 12
LOCK_FILE_NAME = "lock.json"
_IGNORED_FOLDERS = frozenset(("__pycache__", "node_modules"))

FileOrigin = Callable[[str], str]  # path to the file's recorded origin; "" for none


class SkillScope(msgspec.Struct, frozen=True):
    """A folder of skills. Its real path must be inside of `root`."""

    name: str
    folder: str
    root: str


class AvailableSkill(msgspec.Struct, frozen=True):
    """A usable skill, and whether its text is trusted."""

    skill: Skill
    scope: SkillScope
    untrusted: bool = False
    untrusted_reason: str = ""  # why it is untrusted, a sentence
    entry_path: str = ""  # its path in the scope's folder; differs from the skill's real folder if it is a link
    owner_trusted: bool = False  # the owner trusts exactly these files
    scope_rank: int = 0  # of its scope among those of a session: the narrowest has the highest
    shown_folder: str = ""  # the skill's folder as commands see it; empty: not loaded


class ScopeContents(msgspec.Struct, frozen=True):
    """Contents of a scope's folder: usable skills by name, and problems of those left out."""

    skills: tuple[AvailableSkill, ...] = ()
    problems: tuple[str, ...] = ()
    refusals: dict[str, str] = {}  # folder name: why it is left out


class SkillTrustRules(msgspec.Struct, frozen=True):
    """Trust settings: the workspace, the installed skills that the owner trusts, and the origins of files."""

    workspace: str
    trusted: Collection[str] = ()
    file_origin: FileOrigin = lambda path: ""


class _CachedEntry(msgspec.Struct, frozen=True):
    """Cached result of reading one entry of the folder."""

    fingerprint: TreeFingerprint
    tree_fingerprint: TreeFingerprint = ()
    available: AvailableSkill | None = None
    problem: str = ""
    is_pending: bool = False  # for a thread to verify its hash


class SkillScopeFolder:
    """The folder of one scope."""

    def __init__(self, scope: SkillScope, rules: SkillTrustRules, hashes: TreeHashCache) -> None:
        self.scope = scope
        self._rules = rules
        self._hashes = hashes
        self._folder = scope.folder  # its real path
        self._cache: dict[str, _CachedEntry] = {}
        self._lock_cache: tuple[TreeFingerprint, dict[str, SkillLockEntry]] = (), {}
        self._next_tree = 0
        self._contents = ScopeContents()

    def refresh(self, budget: HashBudget) -> ScopeContents:
        """Return the folder's contents now; the same object until something changes."""
        try:
            entries = self._list_entries()
            pinned = self._load_lock()
        except (ConfigError, SkillRefused) as error:
            return self._set_contents(
                ScopeContents(
                    problems=(f"No skill in {shorten_for_message(self.scope.folder)} is used: {_to_sentence(error)}",)
                )
            )
        known: dict[str, _CachedEntry] = {}
        trees = self._check_trees(entries, pinned, budget)
        for name, is_link in entries[:SKILLS_MAX]:
            lock_entry = _find_lock_entry(pinned, name)
            if (entry := self._read_entry(name, is_link, lock_entry, trees.get(name), budget)) is not None:
                known[name] = entry
        for name in pinned.keys() - known.keys() - {normalise_name(name) for name in known} if pinned else ():
            missing = _CachedEntry(
                (), problem=f"The skill {shorten_for_message(name)} was installed, but its folder is missing."
            )
            known[name] = self._cache[name] if self._cache.get(name) == missing else missing
        if known.keys() == self._cache.keys() and all(known[name] is self._cache[name] for name in known):
            return self._contents
        self._cache = known
        return self._set_contents(
            _build_contents(known, is_truncated=len(entries) > SKILLS_MAX, folder=self.scope.folder)
        )

    def prepare(self, deadline: float) -> None:
        """Hash the installed skills now, so that `refresh` need not. Blocks.

        Skills that remain at the `deadline` are hashed in the background.
        """
        try:
            entries, pinned = self._list_entries(), self._load_lock()
        except (ConfigError, SkillRefused):  # the next refresh reports it
            return
        for name, _ in entries[:SKILLS_MAX]:
            if (lock_entry := _find_lock_entry(pinned, name)) is not None and lock_entry.digest:
                hash_tree = self._hashes.hash_now if time.monotonic() < deadline else self._hashes.request_hash
                hash_tree(self._real_path(name))

    def load_skill(self, available: AvailableSkill, budget: HashBudget | None = None) -> tuple[AvailableSkill, str]:
        """Return the skill and its body as they are now.

        Raises SkillRefused, or SkillUnverified if hashing would exceed `budget`.
        """
        name = os.path.basename(available.entry_path)
        try:
            lock_entry = self._load_lock().get(normalise_name(name))
        except ConfigError as error:
            raise SkillRefused(_to_sentence(error)) from None
        current, body = self._read_skill(
            name, os.path.islink(available.entry_path), lock_entry, partial(self._hashes.current_digest, budget=budget)
        )
        if current is None or current.skill.name != available.skill.name:
            raise SkillRefused(
                f"The skill {shorten_for_message(available.skill.name)} has just changed; ask for it again."
            )
        return current, body

    def _set_contents(self, contents: ScopeContents) -> ScopeContents:
        if contents != self._contents:
            self._contents = contents
        return self._contents

    def _list_entries(self) -> list[tuple[str, bool]]:
        """Return the names of folders and whether they are links, sorted; empty if the scope's folder is missing."""
        folder = self.scope.folder
        try:
            entries = []
            with os.scandir(folder) as listed:
                for count, entry in enumerate(listed):
                    if count >= ENTRIES_MAX:
                        raise SkillRefused(f"it has more than {ENTRIES_MAX} entries")
                    if entry.name[0] != "." and (entry.is_symlink() or entry.is_dir(follow_symlinks=False)):
                        entries.append((entry.name, entry.is_symlink()))
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            raise SkillRefused(f"it cannot be read ({error.strerror})") from None
        if entries:
            self._folder = os.path.realpath(folder)
            if not is_inside(self._folder, os.path.realpath(self.scope.root)):
                raise SkillRefused("it is a link out of the folder that it belongs to")
        return sorted(entries)

    def _load_lock(self) -> Mapping[str, SkillLockEntry]:
        """Return the lock's entries. Reads it again if it changed, or if it has links, which depend on other locks."""
        path = os.path.join(self.scope.folder, LOCK_FILE_NAME)
        mark = _file_fingerprint(path)
        if mark is None:
            if os.path.lexists(path):  # it exists but cannot be read, so the skills' authors are unknown
                raise SkillRefused("its lock file cannot be read")
            return {}
        before, entries = self._lock_cache
        if before != mark or any(entry.link for entry in entries.values()):
            from mainstay.skills.lock_file import read_lock  # only needed for installed skills

            entries = {normalise_name(name): entry for name, entry in read_lock(Path(self.scope.folder)).items()}
            self._lock_cache = mark, entries
        return entries

    def _check_trees(
        self, entries: list[tuple[str, bool]], lock: Mapping[str, SkillLockEntry], budget: HashBudget
    ) -> dict[str, TreeFingerprint]:
        """Return, by name, the tree fingerprints of the installed skills that are checked this time.

        Many skills are checked in rotation. That is enough: before a skill is opened, only text from its SKILL.md is
        shown, and that file is always checked.
        """
        if not lock:
            return {}
        lock_entries = ((name, _find_lock_entry(lock, name)) for name, _ in entries[:SKILLS_MAX])
        names = [name for name, lock_entry in lock_entries if lock_entry is not None and lock_entry.digest]
        trees: dict[str, TreeFingerprint] = {}
        while len(trees) < min(TREES_PER_REFRESH, len(names)) and budget.files > 0:
            name = names[(self._next_tree + len(trees)) % len(names)]
            if not self._hashes.is_affordable(real := self._real_path(name), budget):
                break  # the next rotation starts with it
            trees[name] = self._hashes.fingerprint(real, budget)
        self._next_tree += len(trees)
        return trees

    def _real_path(self, name: str) -> str:
        return os.path.realpath(os.path.join(self._folder, name))

    def _read_entry(
        self,
        name: str,
        is_link: bool,
        lock_entry: SkillLockEntry | None,
        tree: TreeFingerprint | None,
        budget: HashBudget,
    ) -> _CachedEntry | None:
        """Read one entry of the folder; None if it is not a skill. `tree` is its current fingerprint, if checked."""
        place = f"{self._folder}/{name}"
        mark = _file_fingerprint(f"{place}/{SKILL_FILE_NAMES[0]}") or _file_fingerprint(
            f"{place}/{SKILL_FILE_NAMES[1]}"
        )
        if mark is None:
            return None
        cached = self._cache.get(name)
        real = os.path.realpath(place) if is_link else place
        if lock_entry is None or not lock_entry.digest:
            tree = ()
        elif tree is None:
            tree = (
                self._hashes.fingerprint(real, budget)
                if cached is None or cached.is_pending
                else cached.tree_fingerprint
            )
        fingerprint: TreeFingerprint = (mark, tree, is_link, real, lock_entry, self._untrusted_origin(real))
        if cached is not None and cached.fingerprint == fingerprint and not cached.is_pending:
            return cached
        try:
            skill, _ = self._read_skill(name, is_link, lock_entry, partial(self._hashes.listing_digest, budget=budget))
            return _CachedEntry(fingerprint, tree, skill)
        except SkillRefused as error:
            return _CachedEntry(
                fingerprint, tree, problem=_to_sentence(error), is_pending=isinstance(error, SkillUnverified)
            )

    def _read_skill(
        self, name: str, is_link: bool, lock_entry: SkillLockEntry | None, get_digest: Callable[[str, str], str]
    ) -> tuple[AvailableSkill | None, str]:
        """Read and verify one skill and its body; None if it is for another workspace. Raises SkillRefused."""
        from mainstay.skills.skill import read_skill  # only needed if there is a skill

        place = os.path.join(self._folder, name)
        real = os.path.realpath(place)
        if is_link and (lock_entry is None or lock_entry.link != real):
            raise SkillRefused(
                f"{shorten_for_message(name)} is a link that the lock file does not list; use `mainstay skill link`."
            )
        if lock_entry is not None and lock_entry.link and not is_link:
            raise SkillRefused(f"{shorten_for_message(name)} is no longer the link that is in the lock file.")
        try:
            skill, body = read_skill(place)
        except SkillRefused as error:
            raise SkillRefused(f"The skill {shorten_for_message(name)} cannot be used: {error}") from None
        if lock_entry is not None:
            _check_digest(name, skill, lock_entry, lambda: get_digest(real, skill.digest))
        if skill.workspace and skill.workspace != self._rules.workspace:
            return None, ""
        is_vouched = lock_entry is not None and lock_entry.trusted and bool(lock_entry.digest)
        why = self._untrusted_source(name, lock_entry) or ("" if is_vouched else self._untrusted_origin(real))
        return AvailableSkill(skill, self.scope, bool(why), why, place, is_vouched), body

    def _untrusted_source(self, name: str, lock_entry: SkillLockEntry | None) -> str:
        if lock_entry is None or lock_entry.trusted or normalise_name(name) in self._rules.trusted:
            return ""
        return f"It was installed from {shorten_for_message(lock_entry.source) or 'an unknown source'}."

    def _untrusted_origin(self, folder: str) -> str:
        labels = self._rules.file_origin
        if any(
            is_untrusted(labels(path))
            for path in (folder, f"{folder}/{SKILL_FILE_NAMES[0]}", f"{folder}/{SKILL_FILE_NAMES[1]}")
        ):
            return "It was written after untrusted content had been read."
        return ""


def _check_digest(name: str, skill: Skill, lock_entry: SkillLockEntry, get_digest: Callable[[], str]) -> None:
    """Raise SkillRefused if the skill's files do not have the approved hash."""
    if normalise_name(skill.name) != normalise_name(name):
        raise SkillRefused(
            f"The skill {shorten_for_message(name)} was installed under this name, but its own name is {skill.name!r}."
        )
    if not lock_entry.digest:
        return
    try:
        now = get_digest()
    except SkillUnverified as error:
        raise SkillUnverified(f"The skill {shorten_for_message(name)} is left out for the moment: {error}.") from None
    except (ConfigError, OSError) as error:
        raise SkillRefused(
            f"The skill {shorten_for_message(name)} cannot be compared with what was approved: {error}."
        ) from None
    if now != lock_entry.digest:
        raise SkillRefused(
            f"The skill {shorten_for_message(name)} is not used: its files are not those that were approved. "
            f"Review them, then run `mainstay skill approve {shorten_for_message(name)}`."
        )


def _build_contents(entries: Mapping[str, _CachedEntry], *, is_truncated: bool, folder: str) -> ScopeContents:
    chosen: dict[str, tuple[str, AvailableSkill]] = {}
    problems, refused = [], {}
    for name, entry in sorted(entries.items()):
        if entry.problem:
            problems.append(entry.problem)
            refused[name] = entry.problem
        if entry.available is None:
            continue
        skill_name = entry.available.skill.name
        if skill_name in chosen:
            unused, other = (name, chosen[skill_name][0]) if name != skill_name else (chosen[skill_name][0], name)
            problems.append(
                f"Two skills in {shorten_for_message(folder)} are named {skill_name}: {other} is used, {unused} is not."
            )
        if skill_name not in chosen or name == skill_name:
            chosen[skill_name] = name, entry.available
    if is_truncated:
        problems.append(f"{shorten_for_message(folder)} has more than {SKILLS_MAX} skills; the rest is left out.")
    return ScopeContents(tuple(skill for _, (_, skill) in sorted(chosen.items())), tuple(problems), refused)


# --- files ---------------------------------------------------------------------------------------


def list_skill_files(folder: str) -> list[str]:
    """Return a skill's files other than SKILL.md, sorted, at most LISTED_MAX, without links and hidden files."""
    files: list[str] = []
    pending, visited = [""], 0
    while pending and len(files) <= LISTED_FILES_MAX and visited < VISITED_MAX:
        folder_path = pending.pop()
        try:
            with os.scandir(os.path.join(folder, folder_path)) as listed:
                entries = sorted(islice(listed, VISITED_MAX), key=lambda entry: entry.name)
        except OSError:
            continue
        visited += len(entries)
        visible = [item for item in entries if not item.name.startswith(".") and item.name not in _IGNORED_FOLDERS]
        files += [os.path.join(folder_path, item.name) for item in visible if item.is_file(follow_symlinks=False)]
        if folder_path.count("/") < DEPTH_MAX:
            folders = [item.name for item in visible if item.is_dir(follow_symlinks=False)]
            pending += [os.path.join(folder_path, item) for item in reversed(folders)]
    return sorted(path for path in files if path not in SKILL_FILE_NAMES)[:LISTED_FILES_MAX]


def _file_fingerprint(path: str) -> TreeFingerprint | None:
    """Return a file's fingerprint, or None if it is missing. It never repeats while the file changed just now."""
    try:
        status, now = os.stat(path), time.time_ns()
    except OSError:
        return None
    return (*stat_fingerprint(status), 0 if is_settled(status, now) else now)


def _find_lock_entry(lock: Mapping[str, SkillLockEntry], name: str) -> SkillLockEntry | None:
    """Return the lock entry of a folder entry."""
    return lock.get(name if not lock or name in lock else normalise_name(name))


def _to_sentence(error: Exception) -> str:
    text = str(error)
    return text if text.endswith((".", "`")) else f"{text}."
