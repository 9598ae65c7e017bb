"""Collects the changes that an overlay's merge holds back, with their contents, so that a person can approve them."""

from __future__ import annotations

import os
import stat

from mainstay.core.file_fingerprints import FolderFingerprint, compute_fingerprint
from mainstay.core.held_changes import HELD_BYTES_MAX, HELD_CHANGES_MAX, HELD_FILE_BYTES_MAX, HeldChange
from mainstay.sandbox.bubblewrap.overlay_folders import OPEN_FOLDER_FLAGS

DEPTH_MAX = 200
FOLDER_ENTRIES_MAX = 20_000  # of a removed folder
TOO_LARGE = "is too large to be shown"
_OPAQUE_ATTRIBUTES = ("user.overlay.opaque", "trusted.overlay.opaque")
_READ_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class HeldChangeCollector:
    """The held changes of one command. `folders` are open descriptors of the upper and the lower folder."""

    def __init__(self) -> None:
        self._changes: list[HeldChange] = []
        self._bytes_left = HELD_BYTES_MAX
        self._omitted = 0

    def to_tuple(self) -> tuple[HeldChange, ...]:
        if not self._omitted:
            return tuple(self._changes)
        more = HeldChange(path=f"{self._omitted:,} more files", problem="are too many to be shown")
        return (*self._changes, more)

    @property
    def count(self) -> int:
        return len(self._changes) + self._omitted

    def add_problem(self, path: str, problem: str) -> None:
        """Add a change that cannot be approved."""
        self._add(HeldChange(path=path, problem=problem))

    def add_entry(self, name: str, folders: tuple[int, int], path: str, depth: int = 0) -> bool:
        """Add everything that differs at this entry of the upper folder; return whether anything does."""
        upper, lower = folders
        status, old = os.stat(name, dir_fd=upper, follow_symlinks=False), stat_entry(name, lower)
        before = self.count
        is_folder = stat.S_ISDIR(status.st_mode)
        if depth > DEPTH_MAX:
            self.add_problem(path, TOO_LARGE)
        elif stat.S_ISCHR(status.st_mode):
            self.add_removal(name, lower, path)
        elif is_folder and (old is None or stat.S_ISDIR(old.st_mode)):
            self._add_folder(name, folders, path, depth)
        elif is_folder or (old is not None and stat.S_ISDIR(old.st_mode)):
            self.add_removal(name, lower, path)  # a folder takes the place of a file, or a file that of a folder
            self._add_new(name, status, upper, path, depth)
        elif stat.S_ISREG(status.st_mode) or stat.S_ISLNK(status.st_mode):
            self._add_file(name, status, folders, path)
        return self.count > before

    def add_removal(self, name: str, lower: int, path: str) -> None:
        """Add the removal of a file, or of a folder with everything in it."""
        status = stat_entry(name, lower)
        if status is None:
            return
        if not stat.S_ISDIR(status.st_mode):
            self._add(HeldChange(path=path, kind="remove", before=compute_fingerprint(status)))
            return
        inside = os.open(name, OPEN_FOLDER_FLAGS, dir_fd=lower)
        try:
            whole = FolderFingerprint(inside, FOLDER_ENTRIES_MAX)
            self._add(HeldChange(path=path, kind="remove_folder", before=whole.fingerprint, files=whole.files))
        except ValueError:
            self.add_problem(path, TOO_LARGE)
        finally:
            os.close(inside)

    def join_removals(self, since: int, name: str, lower: int, path: str) -> None:
        """Replace the removals of a folder's content, all those since `since`, by that of the folder. It is not offered
        if something in it is not."""
        if any(change.problem for change in self._changes[since:]):
            return
        self._omitted = max(since - len(self._changes), 0)
        del self._changes[since:]
        self.add_removal(name, lower, path)

    def add_empty_folder(self, path: str, since: int) -> None:
        """Add the removal of a folder that is empty once the changes before it, those since `since`, are applied."""
        if not any(change.problem for change in self._changes[since:]):
            self._add(HeldChange(path=path, kind="remove_empty"))

    def add_created(self, path: str) -> None:
        """Add a file or a folder that a command created, where there was nothing before."""
        try:
            folder = os.open(os.path.dirname(path), OPEN_FOLDER_FLAGS)
        except OSError:  # a link, or removed meanwhile
            self.add_problem(path, "was removed meanwhile")
            return
        try:
            name = os.path.basename(path)
            if (status := stat_entry(name, folder)) is not None:
                self._add_new(name, status, folder, path, 0)
        finally:
            os.close(folder)

    def _add(self, change: HeldChange) -> None:
        if len(self._changes) < HELD_CHANGES_MAX:
            self._changes.append(change)
        else:
            self._omitted += 1

    def _add_folder(self, name: str, folders: tuple[int, int], path: str, depth: int) -> None:
        upper, lower = folders
        if stat_entry(name, lower) is None:
            self._add_new(name, os.stat(name, dir_fd=upper, follow_symlinks=False), upper, path, depth)
            return
        inside = open_upper_folder(name, upper)
        try:
            below = os.open(name, OPEN_FOLDER_FLAGS, dir_fd=lower)
            try:
                names = sorted(os.listdir(inside))
                if is_opaque(inside):
                    for gone in sorted(set(os.listdir(below)) - set(names)):
                        self.add_removal(gone, below, f"{path}/{gone}")
                for child in names:
                    self.add_entry(child, (inside, below), f"{path}/{child}", depth + 1)
            finally:
                os.close(below)
        finally:
            os.close(inside)

    def _add_new(self, name: str, status: os.stat_result, upper: int, path: str, depth: int) -> None:
        """Add what takes an empty place: a file, or all files of a folder."""
        if depth > DEPTH_MAX:
            self.add_problem(path, TOO_LARGE)
        elif stat.S_ISDIR(status.st_mode):
            inside = open_upper_folder(name, upper)
            try:
                for child in sorted(os.listdir(inside)):
                    child_status = os.stat(child, dir_fd=inside, follow_symlinks=False)
                    self._add_new(child, child_status, inside, f"{path}/{child}", depth + 1)
            finally:
                os.close(inside)
        elif stat.S_ISREG(status.st_mode) or stat.S_ISLNK(status.st_mode):
            self._add_file(name, status, (upper, -1), path)

    def _add_file(self, name: str, status: os.stat_result, folders: tuple[int, int], path: str) -> None:
        upper, lower = folders
        old = stat_entry(name, lower) if lower >= 0 else None
        before = compute_fingerprint(old) if old is not None else ""
        data = _read_entry(name, status, upper)
        if data is None or len(data) > self._bytes_left:
            self.add_problem(path, TOO_LARGE)
            return
        old_data = _read_entry(name, old, lower) if old is not None else None
        if stat.S_ISLNK(status.st_mode):
            if old is None or not stat.S_ISLNK(old.st_mode) or old_data != data:
                self._bytes_left -= len(data)
                self._add(HeldChange(path=path, kind="link", data=data, before=before))
            return
        mode, old_mode = stat.S_IMODE(status.st_mode) & 0o777, stat.S_IMODE(old.st_mode) & 0o777 if old else 0
        is_file = old is not None and stat.S_ISREG(old.st_mode)
        if is_file and old_data == data and mode == old_mode:
            return  # it was copied to the upper layer, but not changed
        self._bytes_left -= len(data)
        self._add(
            HeldChange(
                path=path,
                data=data,
                mode=mode,
                old_data=old_data if is_file else None,
                old_mode=old_mode if is_file else 0,
                before=before,
            )
        )


def _read_entry(name: str, status: os.stat_result, folder: int) -> bytes | None:
    """Return the content of a file or the target of a link; None if it is too large or neither."""
    if stat.S_ISLNK(status.st_mode):
        return os.fsencode(os.readlink(name, dir_fd=folder))
    if not stat.S_ISREG(status.st_mode) or status.st_size > HELD_FILE_BYTES_MAX:
        return None
    try:
        file = os.open(name, _READ_FLAGS, dir_fd=folder)
    except PermissionError:  # the command may have made it unreadable
        return None
    with os.fdopen(file, "rb") as reading:
        data = reading.read(HELD_FILE_BYTES_MAX + 1)
    return data if len(data) <= HELD_FILE_BYTES_MAX else None


def open_upper_folder(name: str, upper: int) -> int:
    """Open a folder of an upper layer, even if the command made it unreadable."""
    if os.stat(name, dir_fd=upper, follow_symlinks=False).st_mode & 0o700 != 0o700:
        os.chmod(name, 0o700, dir_fd=upper)  # it is a folder, not a link
    return os.open(name, OPEN_FOLDER_FLAGS, dir_fd=upper)


def stat_entry(name: str, folder: int) -> os.stat_result | None:
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None


def is_opaque(folder: int) -> bool:
    for name in _OPAQUE_ATTRIBUTES:
        try:
            if os.getxattr(folder, name) == b"y":
                return True
        except OSError:  # no such attribute, or none on this file system
            pass
    return False
