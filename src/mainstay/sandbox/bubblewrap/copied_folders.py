"""Copies folders into the upper layer of an overlay before a command runs, so that the command can rename them.

An overlay refuses to rename a folder of its lower layer (`EXDEV`): `mv` then copies it, `git mv` fails.
"""

from __future__ import annotations

import os
import shutil
import stat

from mainstay.core.file_fingerprints import compute_fingerprint

COPIED_FILES_MAX = 2_000
COPIED_BYTES_MAX = 64 * 1024 * 1024
_OPAQUE_ATTRIBUTE = "user.overlay.opaque"


class FolderTooLarge(Exception):
    """The folder is not copied; the command sees it as it is, and cannot rename it."""


class CopiedFolders:
    """The folders that were copied, with the fingerprint of every copy: one that did not change is not merged."""

    def __init__(self) -> None:
        self._fingerprints: dict[str, str] = {}  # by path
        self._files_left, self._bytes_left = COPIED_FILES_MAX, COPIED_BYTES_MAX

    def is_unchanged(self, path: str, status: os.stat_result) -> bool:
        """Return whether an entry of the upper layer is a copy that the command did not touch."""
        return bool(self._fingerprints) and self._fingerprints.get(path) == compute_fingerprint(status)

    def copy_folder(self, path: str, root: str, upper: str) -> None:
        """Copy a folder below `root` into the layer `upper`, unless it is too large or cannot be copied."""
        if not os.path.isdir(path) or os.path.islink(path) or os.path.realpath(path) != path:
            return
        target = f"{upper}/{os.path.relpath(path, root)}"
        if os.path.lexists(target):
            return
        try:
            self._create_parents(os.path.dirname(path), root, upper)
            self._copy_tree(path, target, path)
        except (FolderTooLarge, OSError):
            shutil.rmtree(target, ignore_errors=True)

    def _create_parents(self, folder: str, root: str, upper: str) -> None:
        if folder != root and not os.path.isdir(target := f"{upper}/{os.path.relpath(folder, root)}"):
            self._create_parents(os.path.dirname(folder), root, upper)
            os.mkdir(target)
            shutil.copystat(folder, target)

    def _copy_tree(self, source: str, target: str, path: str) -> None:
        os.mkdir(target)
        with os.scandir(source) as entries:
            for entry in entries:
                status = entry.stat(follow_symlinks=False)
                copy = f"{target}/{entry.name}"
                if stat.S_ISDIR(status.st_mode):
                    self._copy_tree(entry.path, copy, f"{path}/{entry.name}")
                elif stat.S_ISREG(status.st_mode) or stat.S_ISLNK(status.st_mode):
                    self._files_left -= 1
                    self._bytes_left -= status.st_size
                    if self._files_left < 0 or self._bytes_left < 0:
                        raise FolderTooLarge
                    shutil.copy2(entry.path, copy, follow_symlinks=False)
                    self._fingerprints[f"{path}/{entry.name}"] = compute_fingerprint(os.lstat(copy))
        shutil.copystat(source, target)
        os.setxattr(target, _OPAQUE_ATTRIBUTE, b"y")  # otherwise it is merged with the folder below, and stays there
