"""Folders that hold the layers of overlays: where they may be, and what crashed processes left there."""

from __future__ import annotations

import fcntl
import os

from mainstay.core.errors import HomeUnusable
from mainstay.core.resource_errors import get_temporary_folder
from mainstay.core.tool_ports import SessionFolders
from mainstay.core.tree_removal import remove_tree
from mainstay.sandbox.limits import is_within

OPEN_FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
FOLDER_PREFIX = ".mainstay-guarded-"


def overlay_parents(folders: SessionFolders) -> list[str]:
    """Return folders that may hold layers, best first: preferably on the workspace's disk, never inside its folders."""
    siblings = [os.path.dirname(folders.scratch)] if folders.scratch else []
    roots = (*folders.writable, *folders.readable)
    candidates = [*siblings, "/var/tmp", *_temporary_folders()]
    return [
        candidate
        for candidate in dict.fromkeys(map(os.path.realpath, candidates))
        if os.access(candidate, os.W_OK) and not any(is_within(candidate, root) for root in roots)
    ]


def _temporary_folders() -> list[str]:
    try:
        return [get_temporary_folder()]
    except HomeUnusable:
        return []


def remove_stale_overlays(parent: str) -> None:
    """Delete the layers that crashed processes left behind."""
    with os.scandir(parent) as entries:
        stale = [entry.path for entry in entries if entry.name.startswith(FOLDER_PREFIX)]
    for path in stale:
        try:
            folder = os.open(path, OPEN_FOLDER_FLAGS)
        except OSError:
            continue
        try:
            if os.fstat(folder).st_uid == os.geteuid():
                fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
                remove_tree(path)
        except BlockingIOError:  # it is in use
            pass
        finally:
            os.close(folder)
