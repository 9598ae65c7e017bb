"""What a git repository has stored, read from its files without running git: stored contents, and tracked paths.

Git is not run, because the configuration of a repository makes it run programs.
"""

from __future__ import annotations

import hashlib
import os
import struct
from functools import cached_property
from pathlib import Path

PACKS_MAX = 200
INDEX_BYTES_MAX = 64 * 1024 * 1024
_INDEX_ENTRY_BYTES = 62  # before the path
_INDEX_LONG_ENTRY = 0x4000  # a flag: two more bytes before the path
_PACK_INDEX_HEAD = b"\xfftOc\x00\x00\x00\x02"
_HASH_BYTES = 20


class GitRepository:
    """The repository of a work tree. `.git` must be a folder; linked work trees and SHA-256 are not supported."""

    def __init__(self, work_tree: str) -> None:
        self.work_tree = work_tree
        self._folder = f"{work_tree}/.git"

    @classmethod
    def find(cls, path: str, root: str) -> GitRepository | None:
        """Return the repository around a path, not above `root`."""
        folder = os.path.dirname(path)
        while folder == root or folder.startswith(f"{root.rstrip('/')}/"):
            if os.path.lexists(f"{folder}/.git"):
                return cls(folder) if os.path.isdir(f"{folder}/.git/objects") else None
            folder = os.path.dirname(folder)
        return None

    def has_content(self, data: bytes) -> bool:
        """Return whether a file with this content is stored in the repository."""
        digest = hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).digest()
        name = digest.hex()
        if os.path.isfile(f"{self._folder}/objects/{name[:2]}/{name[2:]}"):
            return True
        return any(_contains_hash(index, digest) for index in self._pack_indexes)

    @cached_property
    def _pack_indexes(self) -> list[bytes]:
        paths = sorted(Path(f"{self._folder}/objects/pack").glob("*.idx"))[:PACKS_MAX]
        return [data for path in paths if (data := _read_file(path)).startswith(_PACK_INDEX_HEAD)]

    @cached_property
    def tracked_paths(self) -> frozenset[str] | None:
        """The absolute paths of all tracked files; None if the index cannot be read."""
        data = _read_file(Path(self._folder, "index"))
        if not data:
            return None if os.path.lexists(f"{self._folder}/index") else frozenset()
        try:
            names = _parse_index(data)
        except (struct.error, ValueError):
            return None
        return frozenset(f"{self.work_tree}/{name}" for name in names)


def _read_file(path: Path) -> bytes:
    try:
        return path.read_bytes() if path.stat().st_size <= INDEX_BYTES_MAX else b""
    except OSError:
        return b""


def _contains_hash(index: bytes, digest: bytes) -> bool:
    """Search a pack index (version 2): 256 cumulative counts by first byte, then the sorted hashes."""
    try:
        counts = struct.unpack_from(">256I", index, 8)
    except struct.error:
        return False
    low, high = counts[digest[0] - 1] if digest[0] else 0, counts[digest[0]]
    start = 8 + 256 * 4
    while low < high:
        middle = (low + high) // 2
        found = index[start + middle * _HASH_BYTES : start + (middle + 1) * _HASH_BYTES]
        if found == digest:
            return True
        low, high = (middle + 1, high) if found < digest else (low, middle)
    return False


def _parse_index(data: bytes) -> list[str]:
    """Return the paths of an index of version 2 or 3. Raises ValueError or struct.error for others."""
    signature, version, count = struct.unpack_from(">4sII", data)
    if signature != b"DIRC" or version not in (2, 3):
        raise ValueError("not an index of version 2 or 3")
    names, at = [], 12
    for _ in range(count):
        (flags,) = struct.unpack_from(">H", data, at + 60)
        start = at + _INDEX_ENTRY_BYTES + (2 if flags & _INDEX_LONG_ENTRY else 0)
        end = data.index(b"\0", start)
        names.append(os.fsdecode(data[start:end]))
        at += (end - at + 8) // 8 * 8  # padded with NULs to a multiple of eight
    return names
