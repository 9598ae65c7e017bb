"""Skills and patterns of an agent: where they are loaded from, their tools, and what they add to contexts."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Self

from mainstay.agent.file_origins import FileOriginLookup
from mainstay.agent.memory_context import AgentFolders
from mainstay.agent.session_folders import NO_SKILL_FOLDERS, SKILLS_FOLDER, SkillFolders
from mainstay.config.schema import Config
from mainstay.core.ports import ContextContributor, Tool
from mainstay.core.tool_ports import FileLabelStore
from mainstay.core.worker_threads import run_in_thread
from mainstay.io.paths import encode_folder_name, parse_session_scopes
from mainstay.operations.runtime_protocols import SkillInfo
from mainstay.patterns.contributor import PatternContributor
from mainstay.patterns.library import PatternLibrary
from mainstay.patterns.tool import build_pattern_tool
from mainstay.skills.contributor import SkillContributor
from mainstay.skills.registry import SkillRegistry, SkillScope
from mainstay.skills.tool import build_skill_tool
from mainstay.trust.policy import SkillRestriction

PATTERNS_FOLDER = "patterns"


class SkillsAndPatterns:
    """The skills and patterns of an open agent. `labels` record the origin of files that agents wrote."""

    def __init__(self, config: Config, folders: AgentFolders | None, labels: FileLabelStore | None) -> None:
        self.skill_registry: SkillRegistry | None = None
        self._skill_contributor: SkillContributor | None = None
        self.pattern_library: PatternLibrary | None = None
        self._pattern_contributor: PatternContributor | None = None
        self._skill_folders: dict[str, tuple[object, SkillFolders]] = {}
        self._config = config
        self._folders = folders
        self._file_origins = FileOriginLookup(*([labels] if labels is not None else []))
        if config.skills.enabled:
            self.skill_registry = build_skill_registry(config, folders, self._file_origins.find_origin)
            self._skill_contributor = SkillContributor(
                self.skill_registry,
                catalogue_tokens=config.skills.catalogue_tokens,
                body_tokens=config.skills.body_tokens,
            )
        if config.patterns.enabled:
            self.pattern_library = build_pattern_library(config, folders, self._file_origins.find_origin)
            self._pattern_contributor = PatternContributor(
                self.pattern_library,
                matches_max=config.patterns.matches,
                threshold=config.patterns.threshold,
                tokens_max=config.patterns.tokens,
                window_tokens_max=config.patterns.window_tokens,
            )

    async def open(self) -> Self:
        if self._folders is not None:
            # No other workspace changes meanwhile: this process owns the home.
            await self._file_origins.load_labels(self._config, self._folders)
        if self.skill_registry is not None:
            await run_in_thread(self.skill_registry.prepare)
        if self.pattern_library is not None:
            await run_in_thread(self.pattern_library.load)
            self.pattern_library.start_watching()
        return self

    @property
    def contributors(self) -> tuple[ContextContributor, ...]:
        return tuple(
            contributor
            for contributor in (self._skill_contributor, self._pattern_contributor)
            if contributor is not None
        )

    @property
    def tools(self) -> tuple[Tool, ...]:
        """The `skill` and `pattern` tools; each offers itself only while there is a skill or pattern to load."""
        skills = (build_skill_tool(self.skill_registry),) if self.skill_registry is not None else ()
        patterns = (build_pattern_tool(self.pattern_library),) if self.pattern_library is not None else ()
        return (*skills, *patterns)

    def show_paths(self, to_shown: Callable[[str], str]) -> None:
        """Name the folders of skills by the paths that commands see."""
        if self.skill_registry is not None:
            self.skill_registry.to_shown_path = to_shown

    @property
    def problems(self) -> list[str]:
        skills = list(self.skill_registry.problems("")) if self.skill_registry is not None else []
        patterns = self.pattern_library.snapshot.problems if self.pattern_library is not None else ()
        return skills + [str(problem) for problem in patterns]

    def skill_folders(self, session: str) -> SkillFolders:
        """Return the skill folders of a session: the same object while its skills have not changed."""
        if self.skill_registry is None:
            return NO_SKILL_FOLDERS
        available = self.skill_registry.skills(session)
        cached = self._skill_folders.get(session)
        if cached is None or cached[0] is not available:
            trusted_folders = tuple(entry.skill.folder for entry in available if not entry.untrusted)
            cached = self._skill_folders[session] = (
                available,
                SkillFolders(self.skill_registry.folders(session), trusted_folders),
            )
        return cached[1]

    def list_skills(self, session: str) -> list[SkillInfo]:
        available = self.skill_registry.skills(session) if self.skill_registry is not None else ()
        return [
            SkillInfo(entry.skill.name, entry.skill.description, entry.skill.trigger, entry.scope.name, entry.untrusted)
            for entry in available
        ]

    def untrusted_skills(self, session: str, earlier: tuple[str, ...] = ()) -> tuple[str, ...]:
        return (
            self._skill_contributor.untrusted_skills(session, earlier)
            if self._skill_contributor is not None
            else earlier
        )

    def skill_restrictions(self, headers: Sequence[str]) -> tuple[SkillRestriction, ...]:
        """Return the tool restrictions of the skills that a session follows."""
        restrictions = self._skill_contributor.tool_rules(headers) if self._skill_contributor is not None else ()
        return tuple(SkillRestriction(*restriction) for restriction in restrictions)

    async def close(self) -> None:
        if self.pattern_library is not None:
            await run_in_thread(self.pattern_library.close)


def build_skill_registry(
    config: Config, folders: AgentFolders | None, file_origin: Callable[[str], str] = lambda path: ""
) -> SkillRegistry:
    """Return the skill registry of a workspace. Scopes, broadest first: configured folders, home, workspace, channel,
    room. `file_origin` returns the origin of a file."""
    configured = [_resolve_folder(folder, folders) for folder in config.skills.folders]

    @lru_cache(1024)
    def within(*parts: str) -> tuple[SkillScope, ...]:
        scopes = [SkillScope(f"folder {folder}", folder, folder) for folder in configured]
        if folders is None:
            return tuple(scopes)
        home, folder = str(folders.home), str(folders.workspace)
        scopes += [
            SkillScope("home", os.path.join(home, SKILLS_FOLDER), home),
            SkillScope("workspace", os.path.join(folder, SKILLS_FOLDER), folder),
        ]
        for kind, part in zip(("channel", "room"), parts, strict=False):
            if not part:
                break
            folder = os.path.join(folder, encode_folder_name(part))
            scopes.append(SkillScope(f"{kind} {part}", os.path.join(folder, SKILLS_FOLDER), str(folders.workspace)))
        return tuple(scopes)

    def session_scopes(session: str) -> tuple[SkillScope, ...]:
        return within(*parse_session_scopes(session))

    return SkillRegistry(
        session_scopes, workspace=config.workspace, trusted=config.skills.trusted, file_origin=file_origin
    )


def build_pattern_library(
    config: Config, folders: AgentFolders | None, file_origin: Callable[[str], str] = lambda path: ""
) -> PatternLibrary:
    """Return the pattern library of a workspace. Folders, broadest first: configured folders, home, workspace; a
    pattern in a later folder replaces an earlier one of the same name."""
    pattern_folders = [_resolve_folder(folder, folders) for folder in config.patterns.folders]
    if folders is not None:
        pattern_folders += [str(folders.home / PATTERNS_FOLDER), str(folders.workspace / PATTERNS_FOLDER)]
    return PatternLibrary(pattern_folders, file_origin=file_origin)


def _resolve_folder(path: str, folders: AgentFolders | None) -> str:
    base = folders.home if folders is not None else Path()
    return os.path.realpath(base / Path(path).expanduser())
