"""Steps of an atomic file write: create a temporary file, fill it, sync it, and only then give it its name."""

from __future__ import annotations

import errno
import fcntl
import os
import secrets
import signal
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from mainstay.io.path_resolver import OPEN_FOLDER_FLAGS, PathRefused, ResolvedPath, shorten_for_message

LEASE_ATTEMPTS_MAX = 50
LEASE_RETRY_S = 0.002
_CREATE_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_READER_FLAGS = os.O_RDONLY | os.O_CLOEXEC
_F_SETSIG = 10  # of Linux; the module fcntl does not have it
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


class StagedFile(NamedTuple):
    """A complete temporary file beside the file that it will replace. `reader` is open on it."""

    name: str
    reader: int

    def is_at(self, status: os.stat_result) -> bool:
        """Return whether this is the file that was staged, and not another that has taken its name."""
        own = os.fstat(self.reader)
        return (own.st_ino, own.st_dev) == (status.st_ino, status.st_dev)


def stage_file(folder_fd: int, data: bytes, old_stat: os.stat_result | None, mode: int | None) -> str:
    """Write `data` to a new, synced file beside the old one, with its owner, and its mode unless another is given;
    return its name.

    Where O_TMPFILE works, the file has no name until it is complete: a process killed before that leaves nothing.
    """
    staged = _stage(folder_fd, data, old_stat, mode)
    os.close(staged.reader)
    return staged.name


@contextmanager
def stage_locked_file(
    folder_fd: int, data: bytes, old_stat: os.stat_result | None, mode: int | None
) -> Iterator[StagedFile]:
    """Stage a file that no other process can open for writing until the end of the block, under whatever name.

    A read lease makes the kernel hold such processes up, sandboxed ones included. Raises PathRefused if one has it open
    already. Not every file system has leases; without one, `StagedFile.is_at` still tells whether it was replaced.
    """
    staged = _stage(folder_fd, data, old_stat, mode, is_locked=True)
    try:
        yield staged
    finally:
        os.close(staged.reader)  # which also ends the lease


def _stage(
    folder_fd: int, data: bytes, old_stat: os.stat_result | None, mode: int | None, *, is_locked: bool = False
) -> StagedFile:
    name = f".{secrets.token_hex(8)}.mainstay"
    file = _open_unnamed_file(folder_fd)
    unnamed = file is not None
    if file is None:
        file = os.open(name, _CREATE_FLAGS, 0o666, dir_fd=folder_fd)
    reader = -1
    try:
        try:
            if unnamed:
                reader = os.open(f"/proc/self/fd/{file}", _READER_FLAGS)
            else:
                reader = os.open(name, _READER_FLAGS | os.O_NOFOLLOW, dir_fd=folder_fd)
            _write_and_sync(file, data, old_stat, mode)
        finally:
            os.close(file)  # a lease needs that the file is not open for writing
        if is_locked and not _take_lease(reader) and not unnamed:
            raise PathRefused("Another process opened the file while it was being written. Nothing was changed.")
        if unnamed:
            os.link(f"/proc/self/fd/{reader}", name, dst_dir_fd=folder_fd, follow_symlinks=True)
    except BaseException:
        if reader >= 0:
            os.close(reader)
        if not unnamed:
            unlink_if_exists(name, folder_fd)
        raise
    return StagedFile(name, reader)


def _take_lease(reader: int) -> bool:
    """Take a read lease; return False if the file is open for writing. True also where there are no leases."""
    if not hasattr(fcntl, "F_SETLEASE"):
        return True
    for _ in range(LEASE_ATTEMPTS_MAX):
        try:
            fcntl.fcntl(reader, _F_SETSIG, signal.SIGURG)  # ignored by default; SIGIO would end this process
            fcntl.fcntl(reader, fcntl.F_SETLEASE, fcntl.F_RDLCK)
        except OSError as error:
            if error.errno != errno.EAGAIN:  # the file system has no leases
                return True
            time.sleep(
                LEASE_RETRY_S
            )  # a child process that another thread starts has it open until it runs its program
        else:
            return True
    return False


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
