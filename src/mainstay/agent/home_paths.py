"""Paths in a home: folders of workspaces, checked against symbolic links, and socket paths."""

from __future__ import annotations

import os
from pathlib import Path

from mainstay.config.schema import check_workspace
from mainstay.core.errors import HomeUnusable
from mainstay.store.home import workspace_folder

EVENTS_FOLDER = "events"  # in the home: files of triggers
GATEWAY_DATABASE = "gateway.db"  # in the home: people, their keys, and the projections of all workspaces' journals


def checked_workspace_folder(home: Path, workspace: str) -> Path:
    """Return the folder of a workspace, which need not exist yet. Raises ConfigError for a name that no workspace can
    have, HomeUnusable if the folder is a symbolic link."""
    folder = workspace_folder(home, check_workspace(workspace))
    if folder.is_symlink():
        raise HomeUnusable(
            f"{folder} is a symbolic link, which may lead into another workspace; "
            "replace it by the file or folder itself"
        )
    return folder


def connectable_path(path: Path) -> str:
    """Return a socket's path as it can be connected to: one over 100 bytes, which the system refuses, relative to the
    current directory."""
    if len(os.fsencode(path)) <= 100:
        return str(path)
    return os.path.relpath(path)
