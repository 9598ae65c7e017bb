"""Whose words files hold, as all workspaces of a home know it: each keeps for itself what its agents have written."""

from __future__ import annotations

import logging
from pathlib import Path

from mainstay.agent.remembering import Place
from mainstay.agent.workplace import SKILLS
from mainstay.config.schema import Config
from mainstay.core.errors import StoreError
from mainstay.core.outside import Labels
from mainstay.core.recall import origin_of, worst
from mainstay.io.beneath import is_inside

log = logging.getLogger("mainstay")

DATABASE = "workspace.db"
WORKSPACES_MAX = 1_000
_DOUBTFUL = origin_of("conversation", untrusted=True)


class Whose:
    """What is known of files, whichever agent of the home wrote them."""

    def __init__(self, *labels: Labels) -> None:
        self._labels = list(labels)
        self._unread: list[str] = []  # workspaces of which nobody can tell what their agents wrote

    def origin(self, path: str) -> str:
        if self._is_unread(path):
            return _DOUBTFUL
        found = (label.origin for labels in self._labels if (label := labels.get(path)) is not None)
        return worst(found)

    def any_untrusted(self, folder: str) -> bool:
        """True if some file in this folder is known to come from outside, or nobody can tell."""
        return self._is_unread(folder) or any(labels.any_untrusted(folder) for labels in self._labels)

    async def learn(self, config: Config, place: Place) -> None:
        """From the workspaces whose agents may have written what is used in this one."""
        databases = _databases(config, place, own=not self._labels)
        self._unread += [str(path.parent) for path in databases[WORKSPACES_MAX:]]
        for path in databases[:WORKSPACES_MAX]:
            await self._read(path)

    async def _read(self, path: Path) -> None:
        from mainstay.store.sqlite import SqliteStore  # only for those who need it

        store = SqliteStore(str(path), read_only=True)
        try:
            await store.open()
            self._labels.append(await store.labels())  # which has them all in memory
        except StoreError as error:
            log.warning("what agents of %s have written counts as from outside: %s", path.parent, error)
            self._unread.append(str(path.parent))
        finally:
            await store.close()

    def _is_unread(self, path: str) -> bool:
        return any(is_inside(path, folder) for folder in self._unread)


def _databases(config: Config, place: Place, *, own: bool) -> list[Path]:
    """The workspace's own first, if that is to be read too."""
    mine = place.workspace / DATABASE
    others = sorted(place.workspace.parent.glob(f"*/{DATABASE}")) if _shares(config, place) else []
    asked = [mine] if own and mine.exists() else []
    return [one.resolve() for one in asked + [one for one in others if one != mine]]


def _shares(config: Config, place: Place) -> bool:
    """Some of it lies in a folder that the configuration names, or is linked."""
    if config.skills.folders or config.patterns.folders:
        return True
    below = [one for depth in ("", "*/", "*/*/") for one in place.workspace.glob(depth + SKILLS)]
    folders = [one for one in (place.home / SKILLS, *below) if one.is_dir()]
    return any(entry.is_symlink() for one in folders for entry in (one, *one.iterdir()))
