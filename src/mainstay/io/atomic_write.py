"""Steps of an atomic file write: create a temporary file, fill it, sync it, and only then give it its name."""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager

from mainstay.io.path_resolver import OPEN_FOLDER_FLAGS, PathRefused, ResolvedPath, shorten_for_message

_CREATE_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_O_TMPFILE = getattr(os, "O_TMPFILE", 0)


@contextmanager
def translate_os_errors(what: str) -> Iterator[None]:
    """Turn an OSError into PathRefused with the message "`what`: reason."."""
    try:
        yield
    except OSError as error:
        raise PathRefused(f"{what}: {error.strerror}.") from None


@contextmanager
def open_for_listing(folder_fd: int) -> Iterator[int]:
    """Reopen a folder for listing: one opened with O_PATH cannot be listed."""
    inner = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=folder_fd)
    try:
        yield inner
    finally:
        os.close(inner)


@contextmanager
def create_missing_folders(resolved: ResolvedPath) -> Iterator[int]:
    """Create the missing parent folders of a path and yield the innermost; on an error, remove the created ones."""
    opened: list[int] = [os.dup(resolved.folder_fd)]
    created: list[tuple[int, str]] = []
    try:
        for name in resolved.missing_names[:-1]:
            with translate_os_errors(f"the folder {shorten_for_message(name)} cannot be created"):
                try:
                    os.mkdir(name, 0o755, dir_fd=opened[-1])
                    created.append((opened[-1], name))
                except FileExistsError:  # created by another process meanwhile; a symlink is not followed
                    pass
                opened.append(os.open(name, OPEN_FOLDER_FLAGS, dir_fd=opened[-1]))
        yield opened[-1]
    except BaseException:
        for parent_fd, name in reversed(created):
            try:
                os.rmdir(name, dir_fd=parent_fd)
            except OSError:  # another process put a file there: leave it
                break
        raise
    finally:
        for parent_fd in opened:
            os.close(parent_fd)


def stage_file(folder_fd: int, data: bytes, old_stat: os.stat_result | None, mode: int | None) -> str:
    """Write `data` to a new, synced file beside the old one, with its owner, and its mode unless another is given;
    return its name.

    Where O_TMPFILE works, the file has no name until it is complete: a process killed before that leaves nothing.
    """
    name = f".{secrets.token_hex(8)}.mainstay"
    file = _open_unnamed_file(folder_fd)
    unnamed = file is not None
    if file is None:
        file = os.open(name, _CREATE_FLAGS, 0o666, dir_fd=folder_fd)
    try:
        _write_and_sync(file, data, old_stat, mode)
        if unnamed:
            os.link(f"/proc/self/fd/{file}", name, dst_dir_fd=folder_fd, follow_symlinks=True)
    except BaseException:
        if not unnamed:
            unlink_if_exists(name, folder_fd)
        raise
    finally:
        os.close(file)
    return name


def _open_unnamed_file(folder_fd: int) -> int | None:
    if not _O_TMPFILE or not os.path.exists("/proc/self/fd"):
        return None
    try:
        return os.open(".", _O_TMPFILE | os.O_WRONLY | os.O_CLOEXEC, 0o666, dir_fd=folder_fd)
    except OSError:  # not every file system supports O_TMPFILE
        return None


def _write_and_sync(file_fd: int, data: bytes, old_stat: os.stat_result | None, mode: int | None) -> None:
    if old_stat is not None:
        mode = stat.S_IMODE(old_stat.st_mode) if mode is None else mode
        if (old_stat.st_uid, old_stat.st_gid) != (os.geteuid(), os.fstat(file_fd).st_gid):
            try:
                os.fchown(file_fd, old_stat.st_uid, old_stat.st_gid)
            except PermissionError:  # only root may change the owner
                pass
    if mode is not None:
        os.fchmod(file_fd, mode & 0o777)  # setuid and setgid must not carry over to new content
    view = memoryview(data)
    while view:
        view = view[os.write(file_fd, view[: 1 << 20]) :]
    os.fsync(file_fd)


def unlink_if_exists(name: str, folder_fd: int) -> None:
    try:
        os.unlink(name, dir_fd=folder_fd)
    except FileNotFoundError:
        pass


def sync_folder_fd(folder_fd: int) -> None:
    """Sync a folder, which makes a rename in it durable. Ignores file systems that cannot sync folders."""
    try:
        with open_for_listing(folder_fd) as inner:
            os.fsync(inner)
    except OSError:
        pass
