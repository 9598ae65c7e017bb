"""Commands on an overlay file system: what they wrote and removed is merged into the real folders afterwards.

Changes of files that other programs obey are held back and reported (`obeyed_file_guard.py`). Before something is
replaced or removed, a recorder keeps it. With deletion protection, what was there before is not removed at all: the
removal is held back too. The merge uses open folder descriptors and follows no links, so neither the command's
leftovers nor concurrent changes can redirect it (F32).
"""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterable, Sequence

from mainstay.core.file_changes import ChangeRecorder, EntryLocation, EntryState, NewEntry
from mainstay.core.tree_removal import remove_tree
from mainstay.sandbox.base import MergeResult
from mainstay.sandbox.bubblewrap.copied_folders import CopiedFolders
from mainstay.sandbox.bubblewrap.held_changes import (
    DEPTH_MAX,
    TOO_LARGE,
    HeldChangeCollector,
    is_opaque,
    open_upper_folder,
    stat_entry,
)
from mainstay.sandbox.bubblewrap.obeyed_file_guard import FolderRole, LayerEntry, ObeyedFileGuard
from mainstay.sandbox.bubblewrap.overlay_folders import FOLDER_PREFIX, OPEN_FOLDER_FLAGS
from mainstay.sandbox.limits import SandboxUnusable, is_within

NAMED_PATHS_MAX = 10_000  # paths reported for one command
HIDDEN = "is protected by the configuration"


IsOwnFile = Callable[[str], bool]
AnnounceWrites = Callable[[Sequence[str]], None]


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
        parent: str,
        guard: ObeyedFileGuard,
        is_own_file: IsOwnFile | None = _owns_nothing,
        announce: AnnounceWrites = _announce_nothing,
        recorder: ChangeRecorder | None = None,
    ) -> None:
        """Removals are held back unless `is_own_file`; None: only what the guard says is held back."""
        self._is_own_file = is_own_file
        self._announce = announce
        self._guard = guard
        self._recorder = recorder
        self._copied = CopiedFolders()
        self._folder, self._lock = _create_locked_folder(parent)
        self._roots = list(roots)
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
        merger = OverlayMerger(self._guard, self._is_own_file, self._announce, self._recorder, self._copied)
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
            merger.changed.to_tuple(),
            merger.created.to_tuple(),
            merger.held.to_tuple(),
            merger.collector.to_tuple(),
            merger.removed.to_tuple(),
        )


def _create_locked_folder(parent: str) -> tuple[str, int]:
    while True:
        room = tempfile.mkdtemp(prefix=FOLDER_PREFIX, dir=parent)
        lock = os.open(room, OPEN_FOLDER_FLAGS)
        fcntl.flock(lock, fcntl.LOCK_EX)
        if os.path.exists(room):
            return room, lock
        os.close(lock)  # a clean-up removed it before it was locked


class OverlayMerger:
    """Moves the content of an upper folder into the lower one, and holds back what the guard says.

    Removals are held back except of files that `is_own_file` names; None: all of them are applied.
    """

    def __init__(
        self,
        guard: ObeyedFileGuard,
        is_own_file: IsOwnFile | None,
        announce: AnnounceWrites = _announce_nothing,
        recorder: ChangeRecorder | None = None,
        copied: CopiedFolders | None = None,
    ) -> None:
        self._guard = guard
        self._copied = copied or CopiedFolders()
        self._is_own_file = is_own_file
        self.collector = HeldChangeCollector()
        self._announce = announce
        self._recorder = recorder
        self.changed, self.created = BoundedPathList(), BoundedPathList()
        self.held, self.removed = BoundedPathList(), BoundedPathList()

    def merge_folder(self, upper: int, lower: int, path: str, depth: int = 0, role: FolderRole = "") -> None:
        """Merge one folder; `role` is that of the folder above."""
        if depth > DEPTH_MAX:
            self.held.add(path)
            self.collector.add_problem(path, TOO_LARGE)
            return
        with os.scandir(upper) as entries:
            entries_sorted = sorted((entry.name, entry.stat(follow_symlinks=False)) for entry in entries)
        upper_names = {name for name, _ in entries_sorted}
        entries_sorted = [
            (name, new) for name, new in entries_sorted if not self._copied.is_unchanged(f"{path}/{name}", new)
        ]
        if files := [
            f"{path}/{name}" for name, new in entries_sorted if stat.S_ISREG(new.st_mode) or stat.S_ISLNK(new.st_mode)
        ]:
            self._announce(files)
        role = self._guard.find_role(path, role, upper_names, lower)
        for name, new in entries_sorted:
            self._merge_entry(LayerEntry(name, f"{path}/{name}", new, upper, lower, role), depth)
        if is_opaque(upper):  # the folder was removed and created again: what it lacks now was removed
            for name in sorted(os.listdir(lower)):
                if name not in upper_names:
                    self._apply_removal(name, lower, f"{path}/{name}", is_inner=False)

    def _merge_entry(self, entry: LayerEntry, depth: int) -> None:
        name, lower = entry.name, entry.lower
        old = stat_entry(name, lower)
        verdict = self._guard.judge(entry)
        if verdict == "skip":
            return
        if verdict == "hold":
            self._hold_entry(entry)
        elif entry.is_removal:  # a character device: how an overlay represents a removal
            if old is not None:
                self._apply_removal(name, lower, entry.path, is_inner=False)
        elif entry.is_folder:
            self._merge_subfolder(entry, depth)
        elif not stat.S_ISREG(entry.status.st_mode) and not entry.is_link and not self._keeps_pipe(entry):
            return  # sockets and pipes of exited processes
        elif old is not None and stat.S_ISDIR(old.st_mode) and not self._make_way(entry):
            self._hold_entry(entry)  # it would replace a whole folder
        else:
            old = stat_entry(name, lower)
            self._record(
                entry.path,
                EntryLocation(lower, name, old) if old is not None else None,
                EntryLocation(entry.upper, name, entry.status),
            )
            self._move_entry(name, entry.status, (entry.upper, lower))
            self.changed.add(entry.path)
            if old is None:
                self.created.add(entry.path)

    def _hold_entry(self, entry: LayerEntry) -> None:
        """Hold back everything that the command changed at this entry."""
        if self._guard.is_fixed(entry.path):  # the configuration hides it: nothing of it is shown
            if not entry.is_removal or stat_entry(entry.name, entry.lower) is not None:
                self.held.add(entry.path)
                self.collector.add_problem(entry.path, HIDDEN)
        elif self.collector.add_entry(entry.name, (entry.upper, entry.lower), entry.path):
            self.held.add(entry.path)

    def _hold_removal(self, name: str, folder: int, path: str) -> None:
        self.held.add(path)
        if self._guard.is_fixed(path):
            self.collector.add_problem(path, HIDDEN)
        else:
            self.collector.add_removal(name, folder, path)

    def _keeps_pipe(self, entry: LayerEntry) -> bool:
        return self._is_own_file is None and stat.S_ISFIFO(entry.status.st_mode)

    def _make_way(self, entry: LayerEntry) -> bool:
        """Remove the real entry, of another kind, that a new one replaces; return False if removals are held back."""
        if self._is_own_file is None:
            self._apply_removal(entry.name, entry.lower, entry.path, is_inner=True)
        return stat_entry(entry.name, entry.lower) is None

    def _record(self, path: str, old: EntryLocation | None, new: NewEntry) -> None:
        if self._recorder is not None:
            self._recorder.record(path, old, new)

    def _apply_removal(self, name: str, folder: int, path: str, *, is_inner: bool) -> bool:
        """Remove what may be removed (a folder if all its content goes too); hold the rest back. An obeyed file may go
        with its folder, not alone. Return whether anything was removed."""
        status = stat_entry(name, folder)
        if status is None:
            return False
        if self._is_own_file is None and not is_inner and self._guard.holds_removal(path):
            self._hold_removal(name, folder, path)
            return False
        if not stat.S_ISDIR(status.st_mode):
            if not self._may_remove(path):
                self._hold_removal(name, folder, path)
                return False
            self._record(path, EntryLocation(folder, name, status), None)
            os.unlink(name, dir_fd=folder)
            self.removed.add(path)
            return True
        removed = False
        inside = _open_folder(name, folder, status)
        try:
            before, collected = self.held.count, self.collector.count
            for child in sorted(os.listdir(inside)):
                removed = self._apply_removal(child, inside, f"{path}/{child}", is_inner=True) or removed
            emptied = self.held.count == before
            if not emptied and status.st_mode & 0o700 != 0o700:
                os.fchmod(inside, stat.S_IMODE(status.st_mode))
        finally:
            os.close(inside)
        if not emptied:
            if removed:
                self.collector.add_empty_folder(path, collected)
            else:
                self.collector.join_removals(collected, name, folder, path)
            return removed
        self._record(path, EntryLocation(folder, name, status), None)
        try:
            os.rmdir(name, dir_fd=folder)
        except OSError:  # it is no longer empty
            self._hold_removal(name, folder, path)
            return removed
        return True

    def _may_remove(self, path: str) -> bool:
        if self._guard.is_fixed(path):
            return False
        return self._is_own_file is None or (self._is_own_file(path) and not self._guard.holds_removal(path))

    def _merge_subfolder(self, entry: LayerEntry, depth: int) -> None:
        name, upper, lower = entry.name, entry.upper, entry.lower
        old = stat_entry(name, lower)
        if old is not None and not stat.S_ISDIR(old.st_mode):
            if not self._make_way(entry):
                self._hold_entry(entry)
                return
            old = None
        mode = stat.S_IMODE(entry.status.st_mode) & 0o777
        if old is None:
            self._record(entry.path, None, EntryState("folder", mode))
            os.mkdir(name, 0o700, dir_fd=lower)
        elif self._is_own_file is not None:
            mode = stat.S_IMODE(old.st_mode)
        elif mode != stat.S_IMODE(old.st_mode):
            self._record(entry.path, EntryLocation(lower, name, old), EntryState("folder", mode))
        inside = open_upper_folder(name, upper)
        held_before = self.held.count
        try:
            below = (
                _open_folder(name, lower, old) if old is not None else os.open(name, OPEN_FOLDER_FLAGS, dir_fd=lower)
            )
            try:
                self.merge_folder(inside, below, entry.path, depth + 1, entry.role)
                is_empty = old is None and self.held.count > held_before and not os.listdir(below)
                if stat.S_IMODE(os.fstat(below).st_mode) != mode:
                    os.fchmod(below, mode)
            finally:
                os.close(below)
        finally:
            os.close(inside)
        if is_empty:  # all of its content is held back
            self._record(entry.path, EntryLocation(lower, name, os.stat(name, dir_fd=lower)), None)
            os.rmdir(name, dir_fd=lower)

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


def _open_folder(name: str, parent: int, status: os.stat_result) -> int:
    """Open a folder of the workspace, and make it accessible if its permissions do not allow to change it."""
    if status.st_mode & 0o700 == 0o700:
        return os.open(name, OPEN_FOLDER_FLAGS, dir_fd=parent)
    entry = os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
    try:
        os.chmod(f"/proc/self/fd/{entry}", stat.S_IMODE(status.st_mode) | 0o700)
    finally:
        os.close(entry)
    return os.open(name, OPEN_FOLDER_FLAGS, dir_fd=parent)
