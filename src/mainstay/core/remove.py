"""Takes away a folder that others have filled: of any depth, with any names and rights, and no link is followed.

Every folder found is moved up to the top and emptied there. So no more than two are ever open, no path grows long, and
nothing goes down as deep as whoever made it did.
"""

from __future__ import annotations

import os
import secrets
import stat
from itertools import islice

ENTRIES_MAX = 2_000_000  # taken away at once; what is left then is for another time
_PASS = 1000  # names held
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def remove_tree(path: str | os.PathLike[str], entries_max: int = ENTRIES_MAX, *, dir_fd: int | None = None) -> bool:
    """Whether it is gone now. Never raises for what the disk says. Blocks."""
    try:
        top = os.open(path, _FOLDER, dir_fd=dir_fd)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    try:
        _emptied(top, entries_max)
        os.rmdir(path, dir_fd=dir_fd)
    except OSError:
        return False
    finally:
        os.close(top)
    return True


def _emptied(top: int, left: int) -> None:
    _opened_up(top)
    while left > 0:
        names = _some(top)
        taken = sum(_took(top, name) for name in names)
        if not taken:  # nothing is there, or nothing more can be done
            return
        left -= taken


def _took(top: int, name: str) -> int:
    """How much went: the entry itself, or what was in it."""
    try:
        if not stat.S_ISDIR(os.stat(name, dir_fd=top, follow_symlinks=False).st_mode):
            os.unlink(name, dir_fd=top)
            return 1
        folder = _entered(top, name)
        try:
            names = _some(folder)
            taken = sum(_lifted(top, folder, one) for one in names)
            if len(names) < _PASS:
                os.rmdir(name, dir_fd=top)
                taken += 1
            return taken
        finally:
            os.close(folder)
    except OSError:
        return 0


def _lifted(top: int, folder: int, name: str) -> int:
    """A file is gone afterwards; a folder is at the top."""
    try:
        if not stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
            os.unlink(name, dir_fd=folder)
        else:
            os.close(_entered(folder, name))  # one that may not be written cannot be moved either
            os.rename(name, f".{secrets.token_hex(12)}", src_dir_fd=folder, dst_dir_fd=top)
    except OSError:
        return 0
    return 1


def _entered(above: int, name: str) -> int:
    try:
        folder = os.open(name, _FOLDER, dir_fd=above)
    except PermissionError:  # it is the owner's all the same
        _unlocked(above, name)
        folder = os.open(name, _FOLDER, dir_fd=above)
    _opened_up(folder)
    return folder


def _opened_up(folder: int) -> None:
    if os.fstat(folder).st_mode & 0o700 != 0o700:
        os.fchmod(folder, 0o700)


def _unlocked(above: int, name: str) -> None:
    if os.chmod in os.supports_follow_symlinks:
        os.chmod(name, 0o700, dir_fd=above, follow_symlinks=False)
        return
    held = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=above)
    try:
        os.chmod(f"/proc/self/fd/{held}", 0o700)
    finally:
        os.close(held)


def _some(folder: int) -> list[str]:
    with os.scandir(folder) as listed:
        return [one.name for one in islice(listed, _PASS)]
