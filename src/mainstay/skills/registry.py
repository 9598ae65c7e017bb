"""Registry of the skills of each session: those of all its scopes, where the narrowest scope wins."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Collection, Sequence
from difflib import get_close_matches

import msgspec

from mainstay.core.memory_tiers import is_untrusted
from mainstay.io.path_resolver import shorten_for_message
from mainstay.skills.frontmatter import SkillRefused, normalise_name
from mainstay.skills.scope_folder import (
    AvailableSkill,
    FileOrigin,
    ScopeContents,
    SkillScope,
    SkillScopeFolder,
    SkillTrustRules,
    list_skill_files,
)
from mainstay.skills.tree_hash_cache import HashBudget, TreeHashCache

__all__ = ["AvailableSkill", "SkillRegistry", "SkillScope"]

REFRESH_S = 1.0  # the disk is checked at most this often
PREPARE_S = 5.0
SIMILAR_NAMES_MAX = 5
_CACHE_MAX = 1024


class _MergedSkills(msgspec.Struct, frozen=True):
    contents: tuple[ScopeContents, ...]
    skills: tuple[AvailableSkill, ...]
    by_name: dict[str, AvailableSkill]


class SkillRegistry:
    """Finds and loads the skills of sessions in one workspace.

    `scopes(session)` returns a session's scopes, broadest first. `trusted` names installed skills that the owner
    trusts, and `file_origin(path)` returns a file's recorded origin. The disk is checked at most every `refresh_s`
    seconds, and only within a budget: large installed skills are left out until a thread has verified their hashes
    (`prepare` does so at once). `unlimited` removes that budget, for callers that can wait.
    """

    def __init__(
        self,
        scopes: Callable[[str], Sequence[SkillScope]],
        *,
        workspace: str,
        trusted: Collection[str] = (),
        file_origin: FileOrigin = lambda path: "",
        refresh_s: float = REFRESH_S,
        unlimited: bool = False,
    ) -> None:
        self.to_shown_path: Callable[[str], str] = lambda path: path  # a path as commands see it
        self._scopes = scopes
        self._rules = SkillTrustRules(workspace, frozenset(map(normalise_name, trusted)), file_origin)
        self._refresh_s = refresh_s
        self._unlimited = unlimited
        self._hashes = TreeHashCache()
        self._folders: dict[SkillScope, tuple[SkillScopeFolder, float, ScopeContents]] = {}
        self._merged: dict[tuple[SkillScope, ...], _MergedSkills] = {}
        # by the id of the scopes tuple, until the next check of the disk
        self._recent: dict[int, tuple[tuple[SkillScope, ...], float, _MergedSkills]] = {}

    def prepare(self, session: str = "") -> None:
        """Verify and cache a session's skills. Blocks for up to several seconds, so call it in a thread."""
        deadline = time.monotonic() + PREPARE_S
        for scope in self._scopes(session):
            folder = self._get_folder(scope)
            folder.prepare(deadline)
            folder.refresh(HashBudget())  # fills the cache for the next call

    def skills(self, session: str) -> tuple[AvailableSkill, ...]:
        """Return the session's skills, sorted by name; the same object until something changes."""
        return self._get_merged(session).skills

    def has_skills(self) -> bool:
        """Return whether any session seen so far has skills, or one without a channel or room."""
        return bool(self.skills("")) or any(seen.skills for _, _, seen in self._folders.values())

    def get(self, session: str, name: str, *, refresh: bool = True) -> AvailableSkill:
        """Return a skill by name. Raises SkillRefused with the reason why it is left out, or with similar names.

        `refresh`: check the disk again before failing.
        """
        wanted = normalise_name(name)
        merged = self._get_merged(session)
        if wanted not in merged.by_name and refresh:
            merged = self._get_merged(session, refresh=True)  # it may have just been created
        if (entry := merged.by_name.get(wanted)) is not None:
            return entry
        for seen in reversed(merged.contents):
            if (problem := seen.refusals.get(name.strip()) or seen.refusals.get(wanted)) is not None:
                raise SkillRefused(problem)
        similar = get_close_matches(wanted[:200], merged.by_name, SIMILAR_NAMES_MAX, 0.5) if refresh else ()
        names = [merged.by_name[other].skill.name for other in similar]
        hint = f" There is {', '.join(names)}." if names else ""
        raise SkillRefused(f"There is no skill {shorten_for_message(name)!r}.{hint}")

    def load_skill(self, available: AvailableSkill, budget: HashBudget | None = None) -> tuple[AvailableSkill, str]:
        """Return the skill and its body as they are now, verified against the approved hash.

        Raises SkillRefused, or SkillUnverified if hashing would exceed `budget`.
        """
        current, body = self._get_folder(available.scope).load_skill(available, budget)
        return msgspec.structs.replace(current, shown_folder=self.to_shown_path(current.skill.folder)), body

    def list_files(self, available: AvailableSkill) -> list[str]:
        """Return the skill's files other than SKILL.md, relative to its folder; at most LISTED_MAX."""
        return list_skill_files(available.skill.folder)

    def list_trusted_files(self, available: AvailableSkill) -> tuple[list[str], int]:
        """Return the files whose names may be shown as trusted text, and the number of others.

        A file name that a tainted agent chose is untrusted, unless the owner trusts the skill.
        """
        files = self.list_files(available)
        if available.untrusted or available.owner_trusted:
            return files, 0
        trusted = [
            path for path in files if not is_untrusted(self.file_origin(os.path.join(available.skill.folder, path)))
        ]
        return trusted, len(files) - len(trusted)

    def folders(self, session: str) -> tuple[str, ...]:
        """Return the real folders of the session's skills, which the sandbox makes readable."""
        return tuple(entry.skill.folder for entry in self.skills(session))

    def problems(self, session: str) -> list[str]:
        """Return why skills are left out, one sentence each."""
        return [problem for contents in self._get_merged(session).contents for problem in contents.problems]

    def warnings(self, session: str) -> list[str]:
        """Return what a strict validator says about skills that are used nevertheless."""
        return [f"{entry.skill.name}: {text}" for entry in self.skills(session) for text in entry.skill.warnings]

    def file_origin(self, path: str) -> str:
        """Return the recorded origin of a file, by its real path; "" for none."""
        return self._rules.file_origin(path)

    def _get_merged(self, session: str, *, refresh: bool = False) -> _MergedSkills:
        scopes = tuple(self._scopes(session))
        cached = self._recent.get(id(scopes))
        if cached is not None and cached[0] is scopes and not refresh and time.monotonic() < cached[1]:
            return cached[2]
        merged = self._merge_scopes(scopes, refresh)
        if len(self._recent) >= _CACHE_MAX:
            self._recent.clear()
        expires = min((self._folders[scope][1] for scope in scopes), default=0.0)
        self._recent[id(scopes)] = scopes, expires, merged
        return merged

    def _merge_scopes(self, scopes: tuple[SkillScope, ...], refresh: bool) -> _MergedSkills:
        contents = tuple([self._get_contents(scope, refresh) for scope in scopes])
        merged = self._merged.get(scopes)
        if merged is None or any(new is not old for new, old in zip(contents, merged.contents, strict=True)):
            if len(self._merged) >= _CACHE_MAX:  # a cache: all of it can be built again
                self._merged.clear()
            merged = self._merged[scopes] = _merge(contents)
        return merged

    def _get_contents(self, scope: SkillScope, refresh: bool) -> ScopeContents:
        cached = self._folders.get(scope)
        checked_at = time.monotonic()
        if cached is not None and checked_at < cached[1] and not refresh:
            return cached[2]
        folder = self._get_folder(scope)
        contents = folder.refresh(HashBudget(sys.maxsize, sys.maxsize) if self._unlimited else HashBudget())
        self._folders[scope] = folder, checked_at + self._refresh_s, contents
        return contents

    def _get_folder(self, scope: SkillScope) -> SkillScopeFolder:
        cached = self._folders.get(scope)
        if cached is not None:
            return cached[0]
        if len(self._folders) >= _CACHE_MAX:
            self._folders.clear()
        folder = SkillScopeFolder(scope, self._rules, self._hashes)
        self._folders[scope] = folder, 0.0, ScopeContents()
        return folder


def _merge(scopes: tuple[ScopeContents, ...]) -> _MergedSkills:
    """Merge scopes: of each name the narrowest skill; broader ones are hidden."""
    by_name: dict[str, AvailableSkill] = {}
    for rank, contents in enumerate(scopes):
        for entry in contents.skills:
            by_name[normalise_name(entry.skill.name)] = msgspec.structs.replace(entry, scope_rank=rank)
    ordered = tuple(sorted(by_name.values(), key=lambda entry: entry.skill.name))
    return _MergedSkills(scopes, ordered, by_name)
