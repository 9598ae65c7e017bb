"""Origins of files that agents wrote, from the file labels of all workspaces of a home."""

from __future__ import annotations

import logging
from pathlib import Path

from mainstay.agent.memory_context import AgentFolders
from mainstay.agent.session_folders import SKILLS_FOLDER
from mainstay.agent.workspace_stores import get_auxiliary_stores, has_store, list_used_workspaces, open_store
from mainstay.config.schema import Config, StorageSettings
from mainstay.core.errors import HomeUnusable, StoreError
from mainstay.core.memory_tiers import combine_origins, format_origin
from mainstay.core.tool_ports import FileLabelStore
from mainstay.io.path_resolver import is_inside

log = logging.getLogger("mainstay")

WORKSPACES_MAX = 1_000
_UNKNOWN_ORIGIN = format_origin("conversation", untrusted=True)


class FileOriginLookup:
    """Looks up the origin of a file in the labels of several workspaces: each records what its own agents wrote."""

    def __init__(self, *labels: FileLabelStore) -> None:
        self._labels = list(labels)
        # folders of workspaces whose labels cannot be read: everything in them is untrusted
        self._unreadable_folders: list[str] = []

    def find_origin(self, path: str) -> str:
        """Return the combined origin of a file in all labels; "" if none says that it is untrusted or private."""
        if self._is_unreadable(path):
            return _UNKNOWN_ORIGIN
        origins = (label.origin for labels in self._labels if (label := labels.get(path)) is not None)
        return combine_origins(origins)

    def has_untrusted(self, folder: str) -> bool:
        """Return True if a file in this folder is untrusted, or its labels cannot be read."""
        return self._is_unreadable(folder) or any(labels.has_untrusted(folder) for labels in self._labels)

    async def load_labels(self, config: Config, folders: AgentFolders) -> None:
        """Load the labels of the workspaces whose agents may have written files that this workspace uses."""
        workspaces = _list_workspaces(config, folders, include_own=not self._labels)
        self._unreadable_folders += [str(folder) for folder in workspaces[WORKSPACES_MAX:]]
        for folder in workspaces[:WORKSPACES_MAX]:
            await self._load_workspace(config.storage, folder)

    async def _load_workspace(self, storage: StorageSettings, folder: Path) -> None:
        try:
            async with open_store(storage, folder, read_only=True) as store:
                # all in memory: the store can be closed
                self._labels.append(await get_auxiliary_stores(store).load_file_labels())
        except (StoreError, HomeUnusable) as error:
            log.warning("files that agents of %s wrote count as untrusted: %s", folder, error)
            self._unreadable_folders.append(str(folder))

    def _is_unreadable(self, path: str) -> bool:
        return any(is_inside(path, folder) for folder in self._unreadable_folders)


def _list_workspaces(config: Config, folders: AgentFolders, *, include_own: bool) -> list[Path]:
    """Return the folders of workspaces to read labels from; with `include_own`, the workspace's own comes first."""
    own = folders.workspace
    others = list_used_workspaces(config.storage, own.parent.parent) if _may_share_files(config, folders) else []
    first = [own] if include_own and has_store(config.storage, own) else []
    return [folder.resolve() for folder in first + [folder for folder in others if folder != own]]


def _may_share_files(config: Config, folders: AgentFolders) -> bool:
    """Return True if other workspaces may have written this one's skills or patterns: in a configured folder, or
    through a symbolic link."""
    if config.skills.folders or config.patterns.folders:
        return True
    below = [path for depth in ("", "*/", "*/*/") for path in folders.workspace.glob(depth + SKILLS_FOLDER)]
    skill_folders = [folder for folder in (folders.home / SKILLS_FOLDER, *below) if folder.is_dir()]
    return any(entry.is_symlink() for folder in skill_folders for entry in (folder, *folder.iterdir()))
