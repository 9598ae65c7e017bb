"""The single steps by which a file is replaced: made aside, filled, synced, and only then given its name."""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager

from mainstay.io.beneath import FOLDER, PathRefused, Spot, brief

_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_UNNAMED = getattr(os, "O_TMPFILE", 0)


@contextmanager
def worded(what: str) -> Iterator[None]:
    """What the disk says, as a sentence."""
    try:
        yield
    except OSError as error:
        raise PathRefused(f"{what}: {error.strerror}.") from None


@contextmanager
def readable(folder: int) -> Iterator[int]:
    """The same folder, to be listed: one that was only passed through cannot be."""
    inner = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=folder)
    try:
        yield inner
    finally:
        os.close(inner)


@contextmanager
def folders(spot: Spot) -> Iterator[int]:
    """The folder that a file is to be in, made where it was missing, and gone again if nothing came of it."""
    opened: list[int] = [os.dup(spot.folder)]
    made: list[tuple[int, str]] = []
    try:
        for name in spot.missing[:-1]:
            with worded(f"the folder {brief(name)} cannot be made"):
                try:
                    os.mkdir(name, 0o755, dir_fd=opened[-1])
                    made.append((opened[-1], name))
                except FileExistsError:  # somebody was quicker; a link is not followed
                    pass
                opened.append(os.open(name, FOLDER, dir_fd=opened[-1]))
        yield opened[-1]
    except BaseException:
        for folder, name in reversed(made):
            try:
                os.rmdir(name, dir_fd=folder)
            except OSError:  # somebody has put something there: then it is theirs
                break
        raise
    finally:
        for folder in opened:
            os.close(folder)


def stage(folder: int, data: bytes, old: os.stat_result | None, mode: int | None) -> str:
    """The name of a new file beside the old one, with all of this in it, on disk, and as the old one may be used.

    Where the system can, it has no name until it is whole: whoever is killed before that leaves nothing behind.
    """
    name = f".{secrets.token_hex(8)}.mainstay"
    file = _unnamed(folder)
    unnamed = file is not None
    if file is None:
        file = os.open(name, _NEW, 0o666, dir_fd=folder)
    try:
        _fill(file, data, old, mode)
        if unnamed:
            os.link(f"/proc/self/fd/{file}", name, dst_dir_fd=folder, follow_symlinks=True)
    except BaseException:
        if not unnamed:
            drop(name, folder)
        raise
    finally:
        os.close(file)
    return name


def _unnamed(folder: int) -> int | None:
    if not _UNNAMED or not os.path.exists("/proc/self/fd"):
        return None
    try:
        return os.open(".", _UNNAMED | os.O_WRONLY | os.O_CLOEXEC, 0o666, dir_fd=folder)
    except OSError:  # not every file system has such files
        return None


def _fill(file: int, data: bytes, old: os.stat_result | None, mode: int | None) -> None:
    if old is not None:
        mode = stat.S_IMODE(old.st_mode)
        if (old.st_uid, old.st_gid) != (os.geteuid(), os.fstat(file).st_gid):
            try:
                os.fchown(file, old.st_uid, old.st_gid)
            except PermissionError:  # only root gives files away
                pass
    if mode is not None:
        os.fchmod(file, mode & 0o777)  # rights that a program has over its user's are not for a new content
    view = memoryview(data)
    while view:
        view = view[os.write(file, view[: 1 << 20]) :]
    os.fsync(file)


def drop(name: str, folder: int) -> None:
    try:
        os.unlink(name, dir_fd=folder)
    except FileNotFoundError:
        pass


def is_there(name: str, folder: int) -> bool:
    try:
        os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


def sync(folder: int) -> None:
    """A rename is on disk once its folder is. Some file systems cannot be asked, and then do it in their own time."""
    try:
        with readable(folder) as inner:
            os.fsync(inner)
    except OSError:
        pass
