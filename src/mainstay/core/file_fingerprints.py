"""Fingerprints of files and folders, which change when one of them is replaced, written, added or removed."""

from __future__ import annotations

import hashlib
import os
import stat

FOLDER_DEPTH_MAX = 200
_OPEN_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def compute_fingerprint(stat_result: os.stat_result) -> str:
    """Return a fingerprint that changes when the file is replaced or written. Writers can set mtime, but not ctime."""
    return f"{stat_result.st_ino}:{stat_result.st_size}:{stat_result.st_mtime_ns}:{stat_result.st_ctime_ns}"


class FolderFingerprint:
    """The fingerprint of a folder with everything in it, and how much that is. Links are not followed."""

    def __init__(self, folder_fd: int, entries_max: int) -> None:
        """Raises ValueError if there are more than `entries_max` entries, or folders nested too deeply."""
        self.files = 0
        self.bytes = 0
        self._entries_left = entries_max
        self._digest = hashlib.sha256()
        self._add_folder(folder_fd, "", 0)
        self.fingerprint = self._digest.hexdigest()[:32]

    def _add_folder(self, folder_fd: int, path: str, depth: int) -> None:
        if depth > FOLDER_DEPTH_MAX:
            raise ValueError("the folders are nested too deeply")
        for name in sorted(os.listdir(folder_fd)):
            self._entries_left -= 1
            if self._entries_left < 0:
                raise ValueError("there are too many files")
            status = os.stat(name, dir_fd=folder_fd, follow_symlinks=False)
            if stat.S_ISDIR(status.st_mode):
                self._add_entry(f"{path}{name}/", str(status.st_ino))
                inner = os.open(name, _OPEN_FLAGS, dir_fd=folder_fd)
                try:
                    self._add_folder(inner, f"{path}{name}/", depth + 1)
                finally:
                    os.close(inner)
            else:
                self.files += 1
                self.bytes += status.st_size
                self._add_entry(path + name, compute_fingerprint(status))

    def _add_entry(self, path: str, fingerprint: str) -> None:
        self._digest.update(f"{path}\0{fingerprint}\0".encode(errors="surrogateescape"))
