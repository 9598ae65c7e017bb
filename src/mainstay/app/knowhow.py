"""An agent's know-how, wired to its contexts: skills and patterns, for agents that have some."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path

from mainstay.app.opened import KnownSkill
from mainstay.app.remembering import Place
from mainstay.app.schema import Config
from mainstay.app.workplace import NO_SKILLS, SKILLS, SkillGround
from mainstay.core.errors import StoreError
from mainstay.core.outside import Labels
from mainstay.core.ports import Contributor, Tool
from mainstay.core.recall import origin_of, worst
from mainstay.core.workers import in_thread
from mainstay.edges.beneath import is_inside
from mainstay.edges.paths import folder_name, scopes_of
from mainstay.patterns.contribute import PatternContributor
from mainstay.patterns.library import Library
from mainstay.patterns.tool import pattern_tool
from mainstay.policy.narrow import Narrowing
from mainstay.skills.contribute import SkillContributor
from mainstay.skills.find import Scope, Shelf
from mainstay.skills.tool import skill_tool

log = logging.getLogger("mainstay")

PATTERNS = "patterns"
DATABASE = "workspace.db"
WORKSPACES_MAX = 1_000
_DOUBTFUL = origin_of("conversation", untrusted=True)


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
        self._labels = [labels] if labels is not None else []
        self._unread: list[str] = []  # workspaces of which nobody can tell what their agents wrote
        if config.skills.enabled:
            self.shelf = shelf_of(config, place, self._origin)
            self._skills = SkillContributor(
                self.shelf,
                catalogue_tokens=config.skills.catalogue_tokens,
                body_tokens=config.skills.body_tokens,
            )
        if config.patterns.enabled:
            self.library = library_of(config, place, self._origin)
            self._patterns = PatternContributor(
                self.library,
                matches=config.patterns.matches,
                threshold=config.patterns.threshold,
                tokens=config.patterns.tokens,
            )

    async def open(self) -> None:
        if self._place is not None:
            await self._learn(_unknown(self._config, self._place, self._labels))
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

    # --- whose words files hold ------------------------------------------------------------------

    def _origin(self, path: str) -> str:
        """What is known of a file, whichever agent of the home wrote it."""
        if any(is_inside(path, folder) for folder in self._unread):
            return _DOUBTFUL
        found = (label.origin for labels in self._labels if (label := labels.get(path)) is not None)
        return worst(found)

    async def _learn(self, databases: list[Path]) -> None:
        """What agents of these workspaces have written: each keeps that for itself."""
        from mainstay.store.sqlite import SqliteStore  # only for those who need it

        for path in databases:
            store = SqliteStore(str(path), read_only=True)
            try:
                await store.open()
                self._labels.append(await store.labels())  # which has them all in memory
            except StoreError as error:
                log.warning("what agents of %s have written counts as from outside: %s", path.parent, error)
                self._unread.append(str(path.parent))
            finally:
                await store.close()


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


def _unknown(config: Config, place: Place, known: Sequence[Labels]) -> list[Path]:
    """Databases of workspaces whose agents may have written what is used here. None of them changes meanwhile: whoever
    asks has the home."""
    own, found = place.workspace / DATABASE, sorted(place.workspace.parent.glob(f"*/{DATABASE}"))[:WORKSPACES_MAX]
    asked = [one for one in found if one != own] if _shares(config, place) else []
    return [one.resolve() for one in asked + ([own] if not known and own.exists() else [])]


def _shares(config: Config, place: Place) -> bool:
    """Some of it lies in a folder that the configuration names, or is linked."""
    if config.skills.folders or config.patterns.folders:
        return True
    below = [one for depth in ("", "*/", "*/*/") for one in place.workspace.glob(depth + SKILLS)]
    folders = [one for one in (place.home / SKILLS, *below) if one.is_dir()]
    return any(entry.is_symlink() for one in folders for entry in one.iterdir())
