"""Deletion protection with an overlay file system: a command's writes are merged back, its removals are held back.

A guarded command writes to an upper layer. Afterwards its writes are moved into the real folders; what it removed stays
and is reported. The merge uses open folder descriptors and follows no links, so neither the command's leftovers nor
concurrent changes can redirect it (F32).
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import shutil
import stat
import tempfile
from collections.abc import Callable, Collection, Iterable, Sequence

from mainstay.core.tool_ports import SessionFolders
from mainstay.core.tree_removal import remove_tree
from mainstay.sandbox.base import MergeResult
from mainstay.sandbox.bubblewrap.copied_folders import CopiedFolders
from mainstay.sandbox.bubblewrap.held_changes import (
    DEPTH_MAX,
    OPEN_FOLDER_FLAGS,
    TOO_LARGE,
    HeldChangeCollector,
    is_opaque,
    open_upper_folder,
    stat_entry,
)
from mainstay.sandbox.limits import SandboxUnusable, is_within

NAMED_PATHS_MAX = 10_000  # paths reported for one command
_FOLDER_PREFIX = ".mainstay-guarded-"
HIDDEN = "is protected by the configuration"


IsOwnFile = Callable[[str], bool]
AnnounceWrites = Callable[[Sequence[str]], None]
# Files that git obeys, in any folder: writing one makes git run programs for the owner.
_GIT_CONTROL_FILE = re.compile(
    r".*/\.git(?:/(?:modules|worktrees)/.+)?/(?:config(?:\.worktree)?|commondir|hooks)", re.IGNORECASE | re.DOTALL
)


def _owns_nothing(path: str) -> bool:
    return False


def _announce_nothing(paths: Sequence[str]) -> None:
    """Do nothing: there is no listener."""


class BoundedPathList:
    """A list of at most NAMED_PATHS_MAX paths; further ones are only counted."""

    def __init__(self) -> None:
        self._paths: list[str] = []
        self._omitted = 0

    def add(self, path: str) -> None:
        if len(self._paths) < NAMED_PATHS_MAX:
            self._paths.append(path)
        else:
            self._omitted += 1

    @property
    def count(self) -> int:
        return len(self._paths) + self._omitted

    def to_tuple(self) -> tuple[str, ...]:
        return (*self._paths, f"… and {self._omitted:,} more") if self._omitted else tuple(self._paths)


class CommandOverlay:
    """The overlay of one command: an upper layer for each writable folder. Its folder is locked while in use."""

    def __init__(
        self,
        roots: Iterable[str],
        protected: Iterable[str],
        parent: str,
        is_own_file: IsOwnFile = _owns_nothing,
        announce: AnnounceWrites = _announce_nothing,
        obeyed: Iterable[str] = (),
    ) -> None:
        self._is_own_file = is_own_file
        self._announce = announce
        self._folder, self._lock = _create_locked_folder(parent)
        self._roots = list(roots)
        self._copied = CopiedFolders()
        self._protected = {path.rstrip("/").casefold() for path in protected}
        self._obeyed = {path.rstrip("/").casefold() for path in obeyed}
        for number in range(len(self._roots)):
            os.mkdir(f"{self._folder}/{number}")
            os.mkdir(f"{self._folder}/{number}.work")
        for number, root in enumerate(self._roots):
            os.chmod(f"{self._folder}/{number}", stat.S_IMODE(os.stat(root).st_mode))

    def copy_folders(self, paths: Iterable[str]) -> None:
        """Copy folders into the layers, so that the command can rename them."""
        for path in paths:
            for number, root in enumerate(self._roots):
                if path != root and is_within(path, root):
                    self._copied.copy_folder(path, root, f"{self._folder}/{number}")

    def mount_arguments(self) -> dict[str, list[str]]:
        """Return the arguments for bwrap, by folder."""
        return {
            root: [
                "--overlay-src",
                root,
                "--overlay",
                f"{self._folder}/{number}",
                f"{self._folder}/{number}.work",
                root,
            ]
            for number, root in enumerate(self._roots)
        }

    def merge(self) -> MergeResult:
        """Move the writes into the real folders, then delete the layers. Raises SandboxUnusable."""
        merger = OverlayMerger(self._protected, self._is_own_file, self._announce, self._obeyed, self._copied)
        try:
            for number, root in enumerate(self._roots):
                upper, lower = os.open(f"{self._folder}/{number}", OPEN_FOLDER_FLAGS), os.open(root, OPEN_FOLDER_FLAGS)
                try:
                    merger.merge_folder(upper, lower, root)
                finally:
                    os.close(upper)
                    os.close(lower)
        except OSError as error:
            reason = error.strerror or str(error)
            raise SandboxUnusable(
                f"the files that the command wrote could not be moved to their place: {reason}"
            ) from error
        finally:
            remove_tree(self._folder)
            os.close(self._lock)
        return MergeResult(
            merger.changed.to_tuple(), merger.created.to_tuple(), merger.held.to_tuple(), merger.collector.to_tuple()
        )


def _create_locked_folder(parent: str) -> tuple[str, int]:
    while True:
        room = tempfile.mkdtemp(prefix=_FOLDER_PREFIX, dir=parent)
        lock = os.open(room, OPEN_FOLDER_FLAGS)
        fcntl.flock(lock, fcntl.LOCK_EX)
        if os.path.exists(room):
            return room, lock
        os.close(lock)  # a clean-up removed it before it was locked


class OverlayMerger:
    """Moves the content of an upper folder into the lower one, and holds removals back."""

    def __init__(
        self,
        protected: set[str],
        is_own_file: IsOwnFile,
        announce: AnnounceWrites = _announce_nothing,
        obeyed: Collection[str] = (),
        copied: CopiedFolders | None = None,
    ) -> None:
        self._copied = copied or CopiedFolders()
        self._protected = protected
        self._fixed = {*protected, *obeyed}
        self._is_own_file = is_own_file
        self._announce = announce
        self.collector = HeldChangeCollector()
        self.changed, self.created, self.held = BoundedPathList(), BoundedPathList(), BoundedPathList()

    def merge_folder(self, upper: int, lower: int, path: str, depth: int = 0) -> None:
        if depth > DEPTH_MAX:
            self.held.add(path)
            self.collector.add_problem(path, TOO_LARGE)
            return
        with os.scandir(upper) as entries:
            entries_sorted = sorted((entry.name, entry.stat(follow_symlinks=False)) for entry in entries)
        upper_names = {name for name, _ in entries_sorted}
        entries_sorted = [
            entry for entry in entries_sorted if not self._copied.is_unchanged(f"{path}/{entry[0]}", entry[1])
        ]
        if files := [
            f"{path}/{name}" for name, new in entries_sorted if stat.S_ISREG(new.st_mode) or stat.S_ISLNK(new.st_mode)
        ]:
            self._announce(files)
        for name, new in entries_sorted:
            self._merge_entry(name, new, (upper, lower), f"{path}/{name}", depth)
        if is_opaque(upper):  # the folder was removed and created again: what it lacks now was removed
            for name in sorted(os.listdir(lower)):
                if name not in upper_names:
                    self._apply_removal(name, lower, f"{path}/{name}")

    def _merge_entry(self, name: str, status: os.stat_result, folders: tuple[int, int], path: str, depth: int) -> None:
        old = stat_entry(name, folders[1])
        if path.casefold() in self._fixed or _is_git_control_file(name, path, status):
            self._hold_entry(name, status, folders, path)
        elif stat.S_ISCHR(status.st_mode):  # how an overlay represents a removal
            if old is not None:
                self._apply_removal(name, folders[1], path)
        elif stat.S_ISDIR(status.st_mode):
            self._merge_subfolder(name, status, folders, path, depth)
        elif not stat.S_ISREG(status.st_mode) and not stat.S_ISLNK(status.st_mode):
            return  # sockets and pipes of exited processes
        elif old is not None and stat.S_ISDIR(old.st_mode):  # it would replace a whole folder
            self._hold_entry(name, status, folders, path)
        else:
            self._move_entry(name, status, folders)
            self.changed.add(path)
            if old is None:
                self.created.add(path)

    def _hold_entry(self, name: str, status: os.stat_result, folders: tuple[int, int], path: str) -> None:
        """Hold back everything that the command changed at this entry."""
        if path.casefold() in self._protected:  # the configuration hides it: nothing of it is shown
            if not stat.S_ISCHR(status.st_mode) or stat_entry(name, folders[1]) is not None:
                self.held.add(path)
                self.collector.add_problem(path, HIDDEN)
        elif self.collector.add_entry(name, folders, path):
            self.held.add(path)

    def _apply_removal(self, name: str, folder: int, path: str) -> bool:
        """Remove what the session itself created (a folder if all its content goes too); hold the rest back. Return
        whether anything was removed."""
        status = stat_entry(name, folder)
        if status is None:
            return False
        if not stat.S_ISDIR(status.st_mode):
            if self._is_own_file(path) and path.casefold() not in self._fixed:
                os.unlink(name, dir_fd=folder)
                return True
            self._hold_removal(name, folder, path)
            return False
        inside = os.open(name, OPEN_FOLDER_FLAGS, dir_fd=folder)
        removed = False
        try:
            before, collected = self.held.count, self.collector.count
            for child in sorted(os.listdir(inside)):
                removed = self._apply_removal(child, inside, f"{path}/{child}") or removed
            emptied = self.held.count == before
        finally:
            os.close(inside)
        if emptied:
            try:
                os.rmdir(name, dir_fd=folder)
                return True
            except OSError:  # it is no longer empty
                self._hold_removal(name, folder, path)
        elif removed:
            self.collector.add_empty_folder(path)
        else:
            self.collector.join_removals(collected, name, folder, path)
        return removed

    def _hold_removal(self, name: str, folder: int, path: str) -> None:
        self.held.add(path)
        if path.casefold() in self._protected:
            self.collector.add_problem(path, HIDDEN)
        else:
            self.collector.add_removal(name, folder, path)

    def _merge_subfolder(
        self, name: str, status: os.stat_result, folders: tuple[int, int], path: str, depth: int
    ) -> None:
        upper, lower = folders
        old = stat_entry(name, lower)
        if old is None:
            os.mkdir(name, 0o700, dir_fd=lower)
        elif not stat.S_ISDIR(old.st_mode):
            self._hold_entry(name, status, folders, path)
            return
        inside = open_upper_folder(name, upper)
        try:
            below = os.open(name, OPEN_FOLDER_FLAGS, dir_fd=lower)
            try:
                self.merge_folder(inside, below, path, depth + 1)
                if old is None:
                    os.fchmod(below, stat.S_IMODE(status.st_mode) & 0o777)
            finally:
                os.close(below)
        finally:
            os.close(inside)

    def _move_entry(self, name: str, status: os.stat_result, folders: tuple[int, int]) -> None:
        upper, lower = folders
        if status.st_mode & (stat.S_ISUID | stat.S_ISGID) and stat.S_ISREG(status.st_mode):
            os.chmod(name, stat.S_IMODE(status.st_mode) & 0o777, dir_fd=upper)
        try:
            os.rename(name, name, src_dir_fd=upper, dst_dir_fd=lower)
        except OSError as error:
            if error.errno != errno.EXDEV:
                raise
            _copy_entry(name, status, folders)


def _copy_entry(name: str, status: os.stat_result, folders: tuple[int, int]) -> None:
    """Copy to another file system: complete under a temporary name, then renamed."""
    upper, lower = folders
    temporary = f".{name[:80]}.{os.urandom(6).hex()}"
    try:
        if stat.S_ISLNK(status.st_mode):
            os.symlink(os.readlink(name, dir_fd=upper), temporary, dir_fd=lower)
        else:
            source = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=upper)
            target = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600, dir_fd=lower)
            with os.fdopen(source, "rb") as reading, os.fdopen(target, "wb") as writing:
                shutil.copyfileobj(reading, writing, 1024 * 1024)
                writing.flush()
                os.fchmod(target, stat.S_IMODE(status.st_mode) & 0o777)
                os.utime(target, ns=(status.st_atime_ns, status.st_mtime_ns))
                os.fsync(target)
        os.rename(temporary, name, src_dir_fd=lower, dst_dir_fd=lower)
    except OSError:
        if stat_entry(temporary, lower) is not None:
            os.unlink(temporary, dir_fd=lower)
        raise


def _is_git_control_file(name: str, path: str, status: os.stat_result) -> bool:
    """Return True for files that git obeys, and for a `.git` file or link, which redirects git to another folder."""
    redirects_git = name.casefold() == ".git" and (stat.S_ISREG(status.st_mode) or stat.S_ISLNK(status.st_mode))
    return redirects_git or _GIT_CONTROL_FILE.fullmatch(path) is not None


def overlay_parents(folders: SessionFolders) -> list[str]:
    """Return folders that may hold layers, best first: preferably on the workspace's disk, never inside its folders."""
    siblings = [os.path.dirname(folders.scratch)] if folders.scratch else []
    roots = (*folders.writable, *folders.readable)
    candidates = [*siblings, "/var/tmp", tempfile.gettempdir()]
    return [
        candidate
        for candidate in dict.fromkeys(map(os.path.realpath, candidates))
        if os.access(candidate, os.W_OK) and not any(is_within(candidate, root) for root in roots)
    ]


def remove_stale_overlays(parent: str) -> None:
    """Delete the layers that crashed processes left behind."""
    with os.scandir(parent) as entries:
        stale = [entry.path for entry in entries if entry.name.startswith(_FOLDER_PREFIX)]
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
