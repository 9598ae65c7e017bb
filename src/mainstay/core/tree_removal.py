"""Deletes a folder tree with untrusted content: any depth, names and permissions; symbolic links are not followed.

Every subfolder is moved to the top level and emptied there. So at most two folders are open at a time, no path grows
long, and the depth of the tree does not matter.
"""

from __future__ import annotations

import os
import secrets
import stat
from itertools import islice

ENTRIES_MAX = 2_000_000  # deleted in one call; the rest is left for the next
_BATCH = 1000  # names read from a folder at once
_OPEN_FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def remove_tree(path: str | os.PathLike[str], entries_max: int = ENTRIES_MAX, *, dir_fd: int | None = None) -> bool:
    """Delete a folder and return whether it is gone; also True if there was none. Never raises OSError. Blocks."""
    try:
        top = os.open(path, _OPEN_FOLDER_FLAGS, dir_fd=dir_fd)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    try:
        _empty_folder(top, entries_max)
        os.rmdir(path, dir_fd=dir_fd)
    except OSError:
        return False
    finally:
        os.close(top)
    return True


def _empty_folder(top: int, entries_max: int) -> None:
    _make_accessible(top)
    while entries_max > 0:
        names = _list_some(top)
        removed = sum(_remove_entry(top, name) for name in names)
        if not removed:  # it is empty, or nothing more can be removed
            return
        entries_max -= removed


def _remove_entry(top: int, name: str) -> int:
    """Remove an entry, or part of a folder's content; returns how many entries were removed or moved up."""
    try:
        if not stat.S_ISDIR(os.stat(name, dir_fd=top, follow_symlinks=False).st_mode):
            os.unlink(name, dir_fd=top)
            return 1
        folder = _open_folder(top, name)
        try:
            names = _list_some(folder)
            removed = sum(_remove_or_move_up(top, folder, child) for child in names)
            if len(names) < _BATCH:
                os.rmdir(name, dir_fd=top)
                removed += 1
            return removed
        finally:
            os.close(folder)
    except OSError:
        return 0


def _remove_or_move_up(top: int, folder: int, name: str) -> int:
    """Delete a file, or move a folder to the top level; returns 1, or 0 if that failed."""
    try:
        if not stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
            os.unlink(name, dir_fd=folder)
        else:
            os.close(_open_folder(folder, name))  # makes it writable: a folder that is not cannot be moved
            os.rename(name, f".{secrets.token_hex(12)}", src_dir_fd=folder, dst_dir_fd=top)
    except OSError:
        return 0
    return 1


def _open_folder(parent: int, name: str) -> int:
    try:
        folder = os.open(name, _OPEN_FOLDER_FLAGS, dir_fd=parent)
    except PermissionError:  # our own folder, with permissions removed
        _make_readable(parent, name)
        folder = os.open(name, _OPEN_FOLDER_FLAGS, dir_fd=parent)
    _make_accessible(folder)
    return folder


def _make_accessible(folder: int) -> None:
    if os.fstat(folder).st_mode & 0o700 != 0o700:
        os.fchmod(folder, 0o700)


def _make_readable(parent: int, name: str) -> None:
    if os.chmod in os.supports_follow_symlinks:
        os.chmod(name, 0o700, dir_fd=parent, follow_symlinks=False)
        return
    fd = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=parent)
    try:
        os.chmod(f"/proc/self/fd/{fd}", 0o700)
    finally:
        os.close(fd)


def _list_some(folder: int) -> list[str]:
    with os.scandir(folder) as entries:
        return [entry.name for entry in islice(entries, _BATCH)]
