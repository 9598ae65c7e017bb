"""The single steps by which event files are read, moved and explained. All of it is plain and blocking."""

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
from mainstay.io.disk import stage
from mainstay.triggers.definition import FILE_BYTES_MAX, TriggerRefused, check_trigger_name, read_trigger

SUFFIX = ".json"
REASON = ".reason.txt"
STEM_BYTES_MAX = 180  # of a file that is moved, so that there is room for a time behind it
SAME_NAMED_MAX = 1_000

_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC

Signature = tuple[int, int, int, int, int]


class EventsUnusable(HomeUnusable):
    """The folder of event files cannot be read or written just now. Nothing was changed."""


@contextmanager
def told(what: str) -> Iterator[None]:
    """What the disk says, as a sentence."""
    try:
        yield
    except OSError as error:
        raise EventsUnusable(f"{what}: {error.strerror or type(error).__name__}.") from None


def signature_of(found: os.stat_result) -> Signature:
    return stat.S_IFMT(found.st_mode), found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def digest_of(trigger: Trigger) -> str:
    """Of what a file says, however it is laid out: a line break that comes late does not make it another."""
    return hashlib.sha256(msgspec.json.encode(trigger)).hexdigest()


def read_file(path: str, name: str) -> Trigger:
    """Raises FileNotFoundError if it has gone, TriggerRefused if it is none of ours, OSError if the disk says no."""
    seen = os.lstat(path)
    _check_kind(seen)
    check_trigger_name(name)
    file = os.open(path, _READ)
    try:
        found = os.fstat(file)
        _check_kind(found)  # it may be another one by now
        with os.fdopen(file, "rb", closefd=False) as opened:
            return read_trigger(name, opened.read(found.st_size + 1))  # if it has grown, it looks different next time
    finally:
        os.close(file)


def _check_kind(found: os.stat_result) -> None:
    if stat.S_ISLNK(found.st_mode):
        raise TriggerRefused("it is a link: put the file itself here.")
    if not stat.S_ISREG(found.st_mode):
        raise TriggerRefused("it is a folder." if stat.S_ISDIR(found.st_mode) else "it is not a plain file.")
    if found.st_size > FILE_BYTES_MAX:
        raise TriggerRefused(f"it has {found.st_size} bytes; at most {FILE_BYTES_MAX} are read.")


def write_file(folder: str, name: str, data: bytes, ready: Callable[[], bool] = lambda: True) -> bool:
    """Made aside, synced, and only then given its name; `ready` is asked right before. False if it said no."""
    inner = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        draft = stage(inner, data, None, 0o600)
        try:
            if ready():
                os.rename(draft, name, src_dir_fd=inner, dst_dir_fd=inner)
                os.fsync(inner)
                return True
            os.unlink(draft, dir_fd=inner)
            return False
        except OSError:
            _drop(f"{folder}/{draft}")
            raise
    finally:
        os.close(inner)


def sync(*folders: str) -> None:
    """A rename is on disk once its folders are. Some file systems cannot be asked, and do it in their own time."""
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


def free_stem(folder: str, name: str, stamp: str = "") -> str:
    """How a file may be called in this folder without taking the place of another: `name`, `name.2`, …; with a
    stamp, that comes first."""
    stem = os.fsencode(name)[:STEM_BYTES_MAX].decode(errors="ignore") or "unnamed"
    for one in _stems(stem, stamp):
        if not os.path.lexists(f"{folder}/{one}{SUFFIX}"):
            return one
    return f"{stem}.{secrets.token_hex(8)}"


def _stems(stem: str, stamp: str) -> Iterator[str]:
    yield stem
    if stamp:
        stem = f"{stem}.{stamp}"
        yield stem
    yield from (f"{stem}.{number}" for number in range(2, SAME_NAMED_MAX))


# --- what could not be used, and why -------------------------------------------------------------


def set_aside(path: str, folder: str, name: str, sentence: str) -> str:
    """Move a file to `folder` with the reason beside it; returns how it is called there.

    The reason comes first, so that no file is ever there without; it bears the time of the file as it was, by which
    one sees whether somebody has written to the file since.
    """
    stem = free_stem(folder, name)
    reason = f"{folder}/{stem}{REASON}"
    changed = os.lstat(path).st_mtime_ns
    text = f"{name}{SUFFIX}\n{sentence}\n"
    write_file(folder, f"{stem}{REASON}", text.encode(errors="surrogateescape"))
    try:
        os.utime(reason, ns=(changed, changed))
        os.rename(path, f"{folder}/{stem}{SUFFIX}")
    except OSError:
        _drop(reason)
        raise
    return stem


def changed_since(folder: str) -> Iterator[tuple[str, str]]:
    """Files that were written to after they were set aside: how they are called here, and how they were before."""
    with os.scandir(folder) as entries:
        stems = [entry.name[: -len(SUFFIX)] for entry in entries if entry.name.endswith(SUFFIX)]
    for stem in stems:
        try:
            found = os.lstat(f"{folder}/{stem}{SUFFIX}")
            reason = os.lstat(f"{folder}/{stem}{REASON}")
            if stat.S_ISREG(found.st_mode) and found.st_mtime_ns > reason.st_mtime_ns:
                yield stem, read_reason(folder, stem)[0]
        except OSError:  # it has gone, or has no reason beside it: somebody else put it there
            continue


def read_reason(folder: str, stem: str) -> tuple[str, str]:
    """What the file was called, and why it was set aside."""
    file = os.open(f"{folder}/{stem}{REASON}", _READ)
    with os.fdopen(file, "rb") as opened:
        first, _, rest = os.fsdecode(opened.read(16 * 1024)).partition("\n")
    return first.removesuffix(SUFFIX), rest.strip()


def bring_back(folder: str, stem: str, path: str) -> bool:
    """False if its place is taken."""
    if os.path.lexists(path):
        return False
    os.rename(f"{folder}/{stem}{SUFFIX}", path)
    _drop(f"{folder}/{stem}{REASON}")
    return True


def prune(folder: str, most: int) -> int:
    """Remove the oldest, by when they were moved here; returns how many are left."""
    with os.scandir(folder) as entries:
        found = [(entry.stat(follow_symlinks=False).st_ctime_ns, entry.name) for entry in entries]
    found = sorted(one for one in found if one[1].endswith(SUFFIX))
    for _, name in found[: max(len(found) - most, 0)]:
        _drop(f"{folder}/{name}")
        _drop(f"{folder}/{name[: -len(SUFFIX)]}.note.txt")
    return min(len(found), most)


def _drop(path: str) -> None:
    try:
        os.unlink(path)
    except OSError:  # it was not there, or stays
        pass
