"""Where a workspace is: under a plain name, and never in another's folder by way of a link."""

from __future__ import annotations

import os
from pathlib import Path

from mainstay.config.schema import check_workspace
from mainstay.core.errors import HomeUnusable
from mainstay.store.home import workspace_path

GATEWAY = "gateway.db"  # in the home: people, their keys, and what is derived from the journals of all workspaces


def own_database(home: Path, workspace: str) -> Path:
    """The workspace's database, whether it is there yet or not. Raises ConfigError or HomeUnusable."""
    path = workspace_path(home, check_workspace(workspace))
    beside = (path.with_name(path.name + suffix) for suffix in ("-wal", "-shm", "-ahead"))
    for one in (path.parent, path, *beside):
        if one.is_symlink():
            raise HomeUnusable(f"{one} is a link, and may lead to what is another's; put the real one in its place")
    return path


def reachable(path: Path) -> str:
    """A socket's path may have about a hundred bytes; a longer one is named from where we stand."""
    if len(os.fsencode(path)) <= 100:
        return str(path)
    return os.path.relpath(path)
