"""Guarded work: a command writes beside the folders it works in. Afterwards what it wrote is moved there; what it
removed stays, and is named.

The kernel's overlay keeps the two apart. Everything here walks with open folders and follows no link: neither what the
command left behind nor what others change meanwhile leads us elsewhere (F32).
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from mainstay.core.outside import Grounds
from mainstay.core.remove import remove_tree
from mainstay.sandbox.limits import SandboxUnusable, within

NAMED_MAX = 10_000  # paths told of one command
DEPTH_MAX = 200
_PREFIX = ".mainstay-guarded-"
FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_OPAQUE = ("user.overlay.opaque", "trusted.overlay.opaque")


Made = Callable[[str], bool]
Announce = Callable[[Sequence[str]], None]
# What git acts by, in whichever folder: to write it is to have something run for the owner.
_OBEYED = re.compile(
    r".*/\.git(?:/(?:modules|worktrees)/.+)?/(?:config(?:\.worktree)?|commondir|hooks)", re.IGNORECASE | re.DOTALL
)


def _nothing(path: str) -> bool:
    return False


def _nobody(paths: Sequence[str]) -> None:
    """There is nobody to be told."""


class Merged(NamedTuple):
    """Files that were written, those of them that are new, and removals that were held back."""

    changed: tuple[str, ...] = ()
    created: tuple[str, ...] = ()
    held: tuple[str, ...] = ()


class Named:
    """Paths up to a bound; the rest are counted."""

    def __init__(self) -> None:
        self._paths: list[str] = []
        self._more = 0

    def add(self, path: str) -> None:
        if len(self._paths) < NAMED_MAX:
            self._paths.append(path)
        else:
            self._more += 1

    @property
    def count(self) -> int:
        return len(self._paths) + self._more

    def told(self) -> tuple[str, ...]:
        return (*self._paths, f"… and {self._more:,} more") if self._more else tuple(self._paths)


class Guarded:
    """Room for what one command writes, one layer for each folder. Locked while it is in use."""

    def __init__(
        self,
        roots: Iterable[str],
        fixed: Iterable[str],
        parent: str,
        made: Made = _nothing,
        announce: Announce = _nobody,
    ) -> None:
        self._made = made
        self._announce = announce
        self._room, self._lock = _take_room(parent)
        self._roots = list(roots)
        self._fixed = {path.casefold() for path in fixed}
        for number in range(len(self._roots)):
            os.mkdir(f"{self._room}/{number}")
            os.mkdir(f"{self._room}/{number}.work")
        for number, root in enumerate(self._roots):
            os.chmod(f"{self._room}/{number}", stat.S_IMODE(os.stat(root).st_mode))

    def mounts(self) -> dict[str, list[str]]:
        """For each folder the arguments for bwrap."""
        return {
            root: ["--overlay-src", root, "--overlay", f"{self._room}/{number}", f"{self._room}/{number}.work", root]
            for number, root in enumerate(self._roots)
        }

    def merge(self) -> Merged:
        """What was written, and which removals were held back; then the room is gone."""
        merged = Merge(self._fixed, self._made, self._announce)
        try:
            for number, root in enumerate(self._roots):
                upper, lower = os.open(f"{self._room}/{number}", FOLDER), os.open(root, FOLDER)
                try:
                    merged.folder(upper, lower, root)
                finally:
                    os.close(upper)
                    os.close(lower)
        except OSError as error:
            reason = error.strerror or str(error)
            raise SandboxUnusable(f"what the command wrote could not be put in its place: {reason}") from error
        finally:
            remove_tree(self._room)
            os.close(self._lock)
        return Merged(merged.changed.told(), merged.created.told(), merged.held.told())


def _take_room(parent: str) -> tuple[str, int]:
    while True:
        room = tempfile.mkdtemp(prefix=_PREFIX, dir=parent)
        lock = os.open(room, FOLDER)
        fcntl.flock(lock, fcntl.LOCK_EX)
        if os.path.exists(room):
            return room, lock
        os.close(lock)  # somebody who sweeps was between the two


class Merge:
    """Moves what lies in an upper folder into the lower one."""

    def __init__(self, fixed: set[str], made: Made, announce: Announce = _nobody) -> None:
        self._fixed = fixed
        self._made = made
        self._announce = announce
        self.changed, self.created, self.held = Named(), Named(), Named()

    def folder(self, upper: int, lower: int, path: str, depth: int = 0) -> None:
        if depth > DEPTH_MAX:
            self.held.add(path)
            return
        with os.scandir(upper) as entries:
            found = sorted((entry.name, entry.stat(follow_symlinks=False)) for entry in entries)
        if files := [f"{path}/{name}" for name, new in found if stat.S_ISREG(new.st_mode) or stat.S_ISLNK(new.st_mode)]:
            self._announce(files)
        for name, new in found:
            self._entry(name, new, (upper, lower), f"{path}/{name}", depth)
        if _is_opaque(upper):  # it was removed and made again: what it no longer has, it was to lose
            ours = {name for name, _ in found}
            for name in sorted(os.listdir(lower)):
                if name not in ours:
                    self._remove(name, lower, f"{path}/{name}")

    def _entry(self, name: str, new: os.stat_result, folders: tuple[int, int], path: str, depth: int) -> None:
        old = _look(name, folders[1])
        if path.casefold() in self._fixed or _is_obeyed(name, path, new):
            if not stat.S_ISCHR(new.st_mode) or old is not None:
                self.held.add(path)
        elif stat.S_ISCHR(new.st_mode):  # how an overlay notes a removal
            if old is not None:
                self._remove(name, folders[1], path)
        elif stat.S_ISDIR(new.st_mode):
            self._inner(name, new, folders, path, depth)
        elif not stat.S_ISREG(new.st_mode) and not stat.S_ISLNK(new.st_mode):
            return  # sockets and pipes of processes that are gone
        elif old is not None and stat.S_ISDIR(old.st_mode):
            self.held.add(path)  # a whole folder would have to go
        else:
            self._move(name, new, folders)
            self.changed.add(path)
            if old is None:
                self.created.add(path)

    def _remove(self, name: str, folder: int, path: str) -> None:
        """What the session made itself goes, a folder if all in it does; the rest is held back."""
        found = _look(name, folder)
        if found is None:
            return
        if not stat.S_ISDIR(found.st_mode):
            if self._made(path) and path.casefold() not in self._fixed:
                os.unlink(name, dir_fd=folder)
            else:
                self.held.add(path)
            return
        inside = os.open(name, FOLDER, dir_fd=folder)
        try:
            before = self.held.count
            for one in sorted(os.listdir(inside)):
                self._remove(one, inside, f"{path}/{one}")
            emptied = self.held.count == before
        finally:
            os.close(inside)
        if emptied:
            try:
                os.rmdir(name, dir_fd=folder)
            except OSError:  # somebody has put something there meanwhile
                self.held.add(path)

    def _inner(self, name: str, new: os.stat_result, folders: tuple[int, int], path: str, depth: int) -> None:
        upper, lower = folders
        old = _look(name, lower)
        if old is None:
            os.mkdir(name, 0o700, dir_fd=lower)
        elif not stat.S_ISDIR(old.st_mode):
            self.held.add(path)
            return
        if new.st_mode & 0o700 != 0o700:
            os.chmod(name, 0o700, dir_fd=upper)  # it is ours to read; no link can stand here any more
        inside = os.open(name, FOLDER, dir_fd=upper)
        try:
            below = os.open(name, FOLDER, dir_fd=lower)
            try:
                self.folder(inside, below, path, depth + 1)
                if old is None:
                    os.fchmod(below, stat.S_IMODE(new.st_mode) & 0o777)
            finally:
                os.close(below)
        finally:
            os.close(inside)

    def _move(self, name: str, new: os.stat_result, folders: tuple[int, int]) -> None:
        upper, lower = folders
        if new.st_mode & (stat.S_ISUID | stat.S_ISGID) and stat.S_ISREG(new.st_mode):
            os.chmod(name, stat.S_IMODE(new.st_mode) & 0o777, dir_fd=upper)
        try:
            os.rename(name, name, src_dir_fd=upper, dst_dir_fd=lower)
        except OSError as error:
            if error.errno != errno.EXDEV:
                raise
            _copy(name, new, folders)


def _copy(name: str, new: os.stat_result, folders: tuple[int, int]) -> None:
    """To another disk: whole under a name of its own first."""
    upper, lower = folders
    beside = f".{name[:80]}.{os.urandom(6).hex()}"
    try:
        if stat.S_ISLNK(new.st_mode):
            os.symlink(os.readlink(name, dir_fd=upper), beside, dir_fd=lower)
        else:
            source = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=upper)
            target = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600, dir_fd=lower)
            with os.fdopen(source, "rb") as reading, os.fdopen(target, "wb") as writing:
                shutil.copyfileobj(reading, writing, 1024 * 1024)
                writing.flush()
                os.fchmod(target, stat.S_IMODE(new.st_mode) & 0o777)
                os.utime(target, ns=(new.st_atime_ns, new.st_mtime_ns))
                os.fsync(target)
        os.rename(beside, name, src_dir_fd=lower, dst_dir_fd=lower)
    except OSError:
        if _look(beside, lower) is not None:
            os.unlink(beside, dir_fd=lower)
        raise


def _is_obeyed(name: str, path: str, new: os.stat_result) -> bool:
    """A `.git` that is no folder says that the real one is elsewhere, where nobody would look for it."""
    elsewhere = name.casefold() == ".git" and (stat.S_ISREG(new.st_mode) or stat.S_ISLNK(new.st_mode))
    return elsewhere or _OBEYED.fullmatch(path) is not None


def _look(name: str, folder: int) -> os.stat_result | None:
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None


def _is_opaque(folder: int) -> bool:
    for name in _OPAQUE:
        try:
            if os.getxattr(folder, name) == b"y":
                return True
        except OSError:  # it has none, or its disk knows of none
            pass
    return False


def room_for(grounds: Grounds) -> list[str]:
    """Where layers may be kept, best first: on the disk of the workspace, but in none of its folders."""
    beside = [os.path.dirname(grounds.scratch)] if grounds.scratch else []
    roots = (*grounds.writable, *grounds.readable)
    places = [*beside, "/var/tmp", tempfile.gettempdir()]
    return [
        place
        for place in dict.fromkeys(map(os.path.realpath, places))
        if os.access(place, os.W_OK) and not any(within(place, root) for root in roots)
    ]


def sweep(parent: str) -> None:
    """Takes away what a process left behind that died at its work."""
    with os.scandir(parent) as entries:
        left = [entry.path for entry in entries if entry.name.startswith(_PREFIX)]
    for path in left:
        try:
            folder = os.open(path, FOLDER)
        except OSError:
            continue
        try:
            if os.fstat(folder).st_uid == os.geteuid():
                fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
                remove_tree(path)
        except BlockingIOError:  # somebody is at work there
            pass
        finally:
            os.close(folder)
