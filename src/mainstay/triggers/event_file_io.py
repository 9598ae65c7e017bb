"""File operations on event files: read, write atomically, move to failed/ with a reason, prune. All of them block."""

from __future__ import annotations

import hashlib
import os
import secrets
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import msgspec

from mainstay.core.errors import HomeUnusable
from mainstay.core.triggers import Trigger
from mainstay.io.atomic_write import stage_file
from mainstay.triggers.trigger_json import FILE_BYTES_MAX, TriggerRefused, check_trigger_name, parse_trigger

SUFFIX = ".json"
REASON_SUFFIX = ".reason.txt"
STEM_BYTES_MAX = 180  # of a moved file's name, which leaves room for a time after it
NUMBERED_NAMES_MAX = 1_000

_READ_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC

FileSignature = tuple[int, int, int, int, int]


class EventFolderUnusable(HomeUnusable):
    """The folder of event files cannot be read or written at the moment. Nothing was changed."""


@contextmanager
def disk_errors(action: str) -> Iterator[None]:
    """Raise EventFolderUnusable, with a sentence that begins with `action`, for an OSError in the body."""
    try:
        yield
    except OSError as error:
        raise EventFolderUnusable(f"{action}: {error.strerror or type(error).__name__}.") from None


def file_signature(status: os.stat_result) -> FileSignature:
    return stat.S_IFMT(status.st_mode), status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def trigger_digest(trigger: Trigger) -> str:
    """Return a hash of the parsed trigger, independent of the file's layout: a late line break does not change it."""
    return hashlib.sha256(msgspec.json.encode(trigger)).hexdigest()


def read_event_file(path: str, name: str) -> Trigger:
    """Read a trigger from an event file. Raises FileNotFoundError if it is missing, TriggerRefused if it is not a
    valid trigger, OSError for disk errors."""
    _check_file_kind(os.lstat(path))
    check_trigger_name(name)
    file = os.open(path, _READ_FLAGS)
    try:
        status = os.fstat(file)
        _check_file_kind(status)  # again: the file may have been replaced meanwhile
        with os.fdopen(file, "rb", closefd=False) as opened:
            return parse_trigger(name, opened.read(status.st_size + 1))  # if it grows, its signature changes
    finally:
        os.close(file)


def _check_file_kind(status: os.stat_result) -> None:
    if stat.S_ISLNK(status.st_mode):
        raise TriggerRefused("it is a link: put the file itself here.")
    if not stat.S_ISREG(status.st_mode):
        raise TriggerRefused("it is a folder." if stat.S_ISDIR(status.st_mode) else "it is not a plain file.")
    if status.st_size > FILE_BYTES_MAX:
        raise TriggerRefused(f"it has {status.st_size} bytes; at most {FILE_BYTES_MAX} are read.")


def write_file_atomically(folder: str, name: str, data: bytes, is_ready: Callable[[], bool] = lambda: True) -> bool:
    """Write a file atomically: a temporary file is synced and renamed. `is_ready` is called right before the rename;
    if it returns False, nothing is changed and this returns False."""
    inner = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        draft = stage_file(inner, data, None, 0o600)
        try:
            if is_ready():
                os.rename(draft, name, src_dir_fd=inner, dst_dir_fd=inner)
                os.fsync(inner)
                return True
            os.unlink(draft, dir_fd=inner)
            return False
        except OSError:
            _delete_quietly(f"{folder}/{draft}")
            raise
    finally:
        os.close(inner)


def sync_folders(*folders: str) -> None:
    """Sync folders, so that renames in them are on disk. Errors are ignored: some file systems do not support it."""
    for folder in folders:
        try:
            inner = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError:
            continue
        try:
            os.fsync(inner)
        except OSError:
            pass
        finally:
            os.close(inner)


def find_free_stem(folder: str, name: str, stamp: str = "") -> str:
    """Return a name that is not taken in this folder: `name`, `name.2`, …; with a stamp `name`, `name.STAMP`,
    `name.STAMP.2`, …"""
    stem = os.fsencode(name)[:STEM_BYTES_MAX].decode(errors="ignore") or "unnamed"
    for candidate in _iter_stems(stem, stamp):
        if not os.path.lexists(f"{folder}/{candidate}{SUFFIX}"):
            return candidate
    return f"{stem}.{secrets.token_hex(8)}"


def _iter_stems(stem: str, stamp: str) -> Iterator[str]:
    yield stem
    if stamp:
        stem = f"{stem}.{stamp}"
        yield stem
    yield from (f"{stem}.{number}" for number in range(2, NUMBERED_NAMES_MAX))


# --- failed files and their reasons --------------------------------------------------------------


def move_to_failed(path: str, folder: str, name: str, reason: str) -> str:
    """Move a file to `folder` with the reason in a file beside it; return its name there, without suffix.

    The reason is written first, so that no file is ever there without one. It gets the file's modification time, by
    which later writes to the file are noticed.
    """
    stem = find_free_stem(folder, name)
    reason_path = f"{folder}/{stem}{REASON_SUFFIX}"
    changed = os.lstat(path).st_mtime_ns
    text = f"{name}{SUFFIX}\n{reason}\n"
    write_file_atomically(folder, f"{stem}{REASON_SUFFIX}", text.encode(errors="surrogateescape"))
    try:
        os.utime(reason_path, ns=(changed, changed))
        os.rename(path, f"{folder}/{stem}{SUFFIX}")
    except OSError:
        _delete_quietly(reason_path)
        raise
    return stem


def find_rewritten(folder: str) -> Iterator[tuple[str, str]]:
    """Yield the files that were written to after they were moved here: name here, and name before."""
    with os.scandir(folder) as entries:
        stems = [entry.name[: -len(SUFFIX)] for entry in entries if entry.name.endswith(SUFFIX)]
    for stem in stems:
        try:
            status = os.lstat(f"{folder}/{stem}{SUFFIX}")
            reason = os.lstat(f"{folder}/{stem}{REASON_SUFFIX}")
            if stat.S_ISREG(status.st_mode) and status.st_mtime_ns > reason.st_mtime_ns:
                yield stem, read_reason(folder, stem)[0]
        except OSError:  # it was removed, or has no reason: it was not moved here by us
            continue


def read_reason(folder: str, stem: str) -> tuple[str, str]:
    """Return the file's original name and why it was moved to failed/."""
    file = os.open(f"{folder}/{stem}{REASON_SUFFIX}", _READ_FLAGS)
    with os.fdopen(file, "rb") as opened:
        first, _, rest = os.fsdecode(opened.read(16 * 1024)).partition("\n")
    return first.removesuffix(SUFFIX), rest.strip()


def restore_file(folder: str, stem: str, path: str) -> bool:
    """Move a file back to `path` and delete its reason; False if `path` exists."""
    if os.path.lexists(path):
        return False
    os.rename(f"{folder}/{stem}{SUFFIX}", path)
    _delete_quietly(f"{folder}/{stem}{REASON_SUFFIX}")
    return True


def prune_oldest(folder: str, files_max: int) -> int:
    """Delete all but the newest `files_max` files, by the time they were moved here; return how many are left."""
    with os.scandir(folder) as entries:
        files = [(entry.stat(follow_symlinks=False).st_ctime_ns, entry.name) for entry in entries]
    files = sorted(file for file in files if file[1].endswith(SUFFIX))
    for _, name in files[: max(len(files) - files_max, 0)]:
        _delete_quietly(f"{folder}/{name}")
        _delete_quietly(f"{folder}/{name[: -len(SUFFIX)]}.note.txt")
    return min(len(files), files_max)


def _delete_quietly(path: str) -> None:
    try:
        os.unlink(path)
    except OSError:  # it does not exist, or cannot be deleted
        pass
