"""An agent's know-how, wired to its contexts: skills and patterns, for agents that have some."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path

from mainstay.agent.opened import KnownSkill
from mainstay.agent.remembering import Place
from mainstay.agent.whose import Whose
from mainstay.agent.workplace import NO_SKILLS, SKILLS, SkillGround
from mainstay.config.schema import Config
from mainstay.core.outside import Labels
from mainstay.core.ports import Contributor, Tool
from mainstay.core.workers import in_thread
from mainstay.io.paths import folder_name, scopes_of
from mainstay.patterns.contribute import PatternContributor
from mainstay.patterns.library import Library
from mainstay.patterns.tool import pattern_tool
from mainstay.skills.contribute import SkillContributor
from mainstay.skills.find import Scope, Shelf
from mainstay.skills.tool import skill_tool
from mainstay.trust.narrow import Narrowing

PATTERNS = "patterns"


class KnowHow:
    """For as long as its agent is open. `labels` know where files are from that an agent wrote."""

    def __init__(self, config: Config, place: Place | None, labels: Labels | None) -> None:
        self.shelf: Shelf | None = None
        self._skills: SkillContributor | None = None
        self.library: Library | None = None
        self._patterns: PatternContributor | None = None
        self._grounds: dict[str, tuple[object, SkillGround]] = {}
        self._config = config
        self._place = place
        self._whose = Whose(*([labels] if labels is not None else []))
        if config.skills.enabled:
            self.shelf = shelf_of(config, place, self._whose.origin)
            self._skills = SkillContributor(
                self.shelf,
                catalogue_tokens=config.skills.catalogue_tokens,
                body_tokens=config.skills.body_tokens,
            )
        if config.patterns.enabled:
            self.library = library_of(config, place, self._whose.origin)
            self._patterns = PatternContributor(
                self.library,
                matches=config.patterns.matches,
                threshold=config.patterns.threshold,
                tokens=config.patterns.tokens,
            )

    async def open(self) -> None:
        if self._place is not None:
            # No other workspace changes meanwhile: whoever asks has the home.
            await self._whose.learn(self._config, self._place)
        if self.shelf is not None:
            await in_thread(self.shelf.prepare)
        if self.library is not None:
            await in_thread(self.library.load)
            self.library.watch()

    @property
    def contributors(self) -> tuple[Contributor, ...]:
        return tuple(one for one in (self._skills, self._patterns) if one is not None)

    @property
    def tools(self) -> tuple[Tool, ...]:
        """Each is offered for as long as there is something to be found with it."""
        skills = (skill_tool(self.shelf),) if self.shelf is not None else ()
        patterns = (pattern_tool(self.library),) if self.library is not None else ()
        return (*skills, *patterns)

    @property
    def troubles(self) -> list[str]:
        found = list(self.shelf.troubles("")) if self.shelf is not None else []
        return found + ([str(one) for one in self.library.snapshot.troubles] if self.library is not None else [])

    def ground(self, session: str) -> SkillGround:
        """The same object while nothing has changed."""
        if self.shelf is None:
            return NO_SKILLS
        found = self.shelf.skills(session)
        known = self._grounds.get(session)
        if known is None or known[0] is not found:
            vouched = tuple(one.skill.folder for one in found if not one.untrusted)
            known = self._grounds[session] = found, SkillGround(self.shelf.folders(session), vouched)
        return known[1]

    def skills(self, session: str) -> list[KnownSkill]:
        found = self.shelf.skills(session) if self.shelf is not None else ()
        return [
            KnownSkill(one.skill.name, one.skill.description, one.skill.trigger, one.scope.name, one.untrusted)
            for one in found
        ]

    def told(self, session: str, before: tuple[str, ...] = ()) -> tuple[str, ...]:
        return self._skills.told(session, before) if self._skills is not None else before

    def narrowing(self, followed: Sequence[str]) -> tuple[Narrowing, ...]:
        found = self._skills.narrowing(followed) if self._skills is not None else ()
        return tuple(Narrowing(*one) for one in found)

    async def close(self) -> None:
        if self.library is not None:
            await in_thread(self.library.close)


def shelf_of(config: Config, place: Place | None, labels: Callable[[str], str] = lambda path: "") -> Shelf:
    given = [_folder(one, place) for one in config.skills.folders]

    @lru_cache(1024)
    def within(*parts: str) -> tuple[Scope, ...]:
        found = [Scope(f"folder {one}", one, one) for one in given]
        if place is None:
            return tuple(found)
        home, folder = str(place.home), str(place.workspace)
        found += [
            Scope("home", os.path.join(home, SKILLS), home),
            Scope("workspace", os.path.join(folder, SKILLS), folder),
        ]
        for kind, part in zip(("channel", "room"), parts, strict=False):
            if not part:
                break
            folder = os.path.join(folder, folder_name(part))
            found.append(Scope(f"{kind} {part}", os.path.join(folder, SKILLS), str(place.workspace)))
        return tuple(found)

    def scopes(session: str) -> tuple[Scope, ...]:
        return within(*scopes_of(session))

    return Shelf(scopes, workspace=config.workspace, trusted=config.skills.trusted, labels=labels)


def library_of(config: Config, place: Place | None, labels: Callable[[str], str] = lambda path: "") -> Library:
    """Broadest first: a pattern of a narrower place has another's name only once."""
    folders = [_folder(one, place) for one in config.patterns.folders]
    if place is not None:
        folders += [str(place.home / PATTERNS), str(place.workspace / PATTERNS)]
    return Library(folders, labels=labels)


def _folder(given: str, place: Place | None) -> str:
    base = place.home if place is not None else Path()
    return os.path.realpath(base / Path(given).expanduser())
