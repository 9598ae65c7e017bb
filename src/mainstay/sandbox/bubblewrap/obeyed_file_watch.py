"""Protection of files that other programs obey where the kernel has no overlay: existing ones are mounted read-only,
new ones are found and removed after the command."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator

from mainstay.core.git_configured_paths import find_git_configured_paths
from mainstay.core.obeyed_files import find_obeyed_topic
from mainstay.sandbox.bubblewrap.obeyed_file_guard import MayChange
from mainstay.sandbox.git_config_rules import CONFIG_BYTES_MAX, is_config_change_harmless

WATCHED_ENTRIES_MAX = 200_000  # of all folders of a session
_CONTROL_NAMES = ("config", "config.worktree", "commondir", "hooks")


class ObeyedFileWatch:
    """The obeyed files below some folders, before and after one command."""

    def __init__(self, roots: Iterable[str], obeyed: Iterable[str], may_change: MayChange) -> None:
        self._roots = tuple(roots)
        self._may_change = may_change
        self._obeyed = tuple(path.rstrip("/") for path in obeyed)
        self._before = self._find_paths()
        self.existing_paths = tuple(path for path, topic in self._before.items() if not may_change(path, topic))

    def find_new_paths(self) -> list[str]:
        """Return the obeyed files that the command created against protection."""
        created = {path: topic for path, topic in self._find_paths().items() if path not in self._before}
        return [path for path, topic in created.items() if not self._may_change(path, topic) and not _is_harmless(path)]

    def _find_paths(self) -> dict[str, str]:
        found = {path: "other" for path in self._obeyed if os.path.lexists(path)}
        seen = 0
        for root in self._roots:
            for folder, folders, names in os.walk(root):
                seen += len(folders) + len(names)
                if seen > WATCHED_ENTRIES_MAX:
                    return found
                found |= dict(_find_in_folder(root, folder, [*folders, *names]))
                if folder.endswith("/.git"):
                    folders[:] = [name for name in folders if name != "objects"]
                folders[:] = [name for name in folders if f"{folder}/{name}" not in found]
        return {
            path: topic for path, topic in found.items() if any(path.startswith(f"{root}/") for root in self._roots)
        }


def _find_in_folder(root: str, folder: str, names: list[str]) -> Iterator[tuple[str, str]]:
    if ".git" in names:
        yield from ((path, "git-hooks") for path in find_git_configured_paths(folder) if os.path.lexists(path))
    is_git = "/.git" in folder.casefold() or ("HEAD" in names and {"objects", "refs"} <= set(names))
    for name in names:
        path = f"{folder}/{name}"
        if is_git and name in _CONTROL_NAMES:
            yield path, "git-hooks" if name == "hooks" else "git-config"
        elif name == ".git" and not os.path.isdir(path):
            yield path, "git-folder"
        elif (topic := find_obeyed_topic(path[len(root) + 1 :])) is not None:
            yield path, topic


def _is_harmless(path: str) -> bool:
    """Return whether git itself writes this for a new repository."""
    if os.path.islink(path):
        return False
    if os.path.isdir(path):
        return os.path.basename(path) == "hooks" and all(name.endswith(".sample") for name in os.listdir(path))
    if os.path.basename(path) != "config" or os.path.getsize(path) > CONFIG_BYTES_MAX:
        return False
    with open(path, "rb") as file:
        return is_config_change_harmless(None, file.read(), lambda key: False)
