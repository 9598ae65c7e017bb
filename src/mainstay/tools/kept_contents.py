"""Where the content of a file is kept after a command has removed it: a copy, an archive, the git repository."""

from __future__ import annotations

import bz2
import gzip
import hashlib
import lzma
import os
import stat
import tarfile
import time
import zipfile
import zlib
from collections.abc import Callable, Iterator
from functools import cached_property, partial
from typing import IO

import msgspec

from mainstay.io.git_repository import GitRepository

ENTRIES_MAX = 20_000
FILE_BYTES_MAX = 64 * 1024 * 1024
READ_BYTES_MAX = 256 * 1024 * 1024  # of all contents that are compared for one command
_CHUNK_BYTES = 1024 * 1024
_Stream = IO[bytes] | gzip.GzipFile
_ARCHIVES = (".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tbz2", ".tar.xz", ".txz", ".zip")
_COMPRESSED: dict[str, Callable[[str], _Stream]] = {
    ".gz": lambda path: gzip.open(path, "rb"),  # noqa: SIM115 -- the caller closes it
    ".bz2": lambda path: bz2.open(path, "rb"),  # noqa: SIM115
    ".xz": lambda path: lzma.open(path, "rb"),  # noqa: SIM115
}
_ARCHIVE_ERRORS = (
    OSError, EOFError, ValueError, RuntimeError, NotImplementedError, tarfile.TarError, zipfile.BadZipFile, zlib.error,
    lzma.LZMAError,
)  # fmt: skip


class WorkspaceFile(msgspec.Struct, frozen=True):
    """A file of a session's working folder."""

    path: str  # absolute
    size: int
    age_days: float


class WorkspaceFiles:
    """The files of a working folder, and where their contents are kept. `removed` are not there any more, as far as the
    user can see; `is_own` says which files this session created."""

    def __init__(self, root: str, removed: frozenset[str], is_own: Callable[[str], bool]) -> None:
        self.root = root
        self._removed = removed
        self._is_own = is_own
        self._bytes_left = READ_BYTES_MAX
        self._digests: dict[str, bytes] = {}
        self._repositories: dict[str, GitRepository | None] = {}  # by folder
        self.is_complete = True

    @cached_property
    def files(self) -> list[WorkspaceFile]:
        """All files, the removed ones too, without git folders and links. Not all of a very large folder."""
        found: list[WorkspaceFile] = []
        now, entries, folders = time.time(), 0, [self.root]
        while folders:
            try:
                with os.scandir(folders.pop()) as scan:
                    listed = sorted(scan, key=lambda entry: entry.name)
            except OSError:
                continue
            for entry in listed:
                entries += 1
                if entries > ENTRIES_MAX:
                    self.is_complete = False
                    return found
                if entry.is_dir(follow_symlinks=False) and entry.name != ".git":
                    folders.append(entry.path)
                elif entry.is_file(follow_symlinks=False):
                    status = entry.stat(follow_symlinks=False)
                    found.append(WorkspaceFile(entry.path, status.st_size, (now - status.st_mtime) / 86_400))
        return found

    @cached_property
    def _by_size(self) -> dict[int, list[str]]:
        sizes: dict[int, list[str]] = {}
        for file in self.files:
            if file.path not in self._removed and "/." not in file.path.removeprefix(self.root):
                sizes.setdefault(file.size, []).append(file.path)
        return sizes

    def find_copy(self, path: str) -> str:
        """Return another file of the working folder, not a hidden one, that has the same content, or an archive of it
        that this session created; empty if there is none. One that the session did not create comes first."""
        size = _file_size(path)
        digest = self._digest(path) if size is not None else b""
        if size is None or not digest:
            return ""
        copies = [other for other in self._by_size.get(size, ()) if self._digest(other) == digest]
        if copies:
            return next((other for other in copies if not self._is_own(other)), copies[0])
        return self._archived.get(digest) or self._find_compressed(path, size, digest)

    def _find_repository(self, path: str) -> GitRepository | None:
        folder = os.path.dirname(path)
        if folder not in self._repositories:
            if os.path.lexists(f"{folder}/.git") or folder == self.root or len(folder) <= len(self.root):
                self._repositories[folder] = GitRepository.find(path, self.root)
            else:
                self._repositories[folder] = self._find_repository(folder)
        return self._repositories[folder]

    def is_in_repository(self, path: str) -> bool:
        """Return whether git has stored the content of a file."""
        repository = self._find_repository(path)
        size = _file_size(path)
        if repository is None or size is None or size > FILE_BYTES_MAX or not self._take(size):
            return False
        try:
            with open(path, "rb") as file:
                return repository.has_content(file.read(FILE_BYTES_MAX))
        except OSError:
            return False

    def is_tracked(self, path: str) -> bool:
        """Return whether git tracks a file; True if that is not known."""
        repository = self._find_repository(path)
        if repository is None:
            return False
        return repository.tracked_paths is None or path in repository.tracked_paths

    def _take(self, size: int) -> bool:
        self._bytes_left -= size
        return self._bytes_left >= 0

    def _digest(self, path: str) -> bytes:
        """Return the digest of a file's content; empty if it cannot be read or is too large."""
        if path not in self._digests:
            size = _file_size(path)
            readable = size is not None and size <= FILE_BYTES_MAX and self._take(size)
            try:
                self._digests[path] = _hash_file(partial(_open_file, path), size or 0) if readable else b""
            except OSError:
                self._digests[path] = b""
        return self._digests[path]

    @cached_property
    def _archived(self) -> dict[bytes, str]:
        """The archives that this session created, by the digests of the files in them."""
        sizes = {size for path in self._removed if (size := _file_size(path)) is not None}
        archives: dict[bytes, str] = {}
        for file in self.files:
            name = file.path.casefold()
            if name.endswith(_ARCHIVES) and file.path not in self._removed and self._is_own(file.path):
                try:
                    members = _iterate_zip(file.path) if name.endswith(".zip") else _iterate_tar(file.path)
                    for size, open_member in members:
                        if size in sizes and self._take(size):
                            archives[_hash_file(open_member, size)] = file.path
                except _ARCHIVE_ERRORS:
                    continue  # not an archive, or a damaged one: it keeps nothing
        return archives

    def _find_compressed(self, path: str, size: int, digest: bytes) -> str:
        for ending, open_compressed in _COMPRESSED.items():
            target = f"{path}{ending}"
            if target in self._removed or not os.path.isfile(target) or not self._take(size):
                continue
            try:
                if _hash_file(lambda: open_compressed(target), size) == digest:  # noqa: B023 -- called at once
                    return target
            except _ARCHIVE_ERRORS:
                continue
        return ""


def _open_file(path: str) -> _Stream:
    return open(path, "rb")


def _file_size(path: str) -> int | None:
    try:
        status = os.lstat(path)
    except OSError:
        return None
    return status.st_size if stat.S_ISREG(status.st_mode) else None


def _hash_file(open_file: Callable[[], _Stream], size: int) -> bytes:
    """Return the digest of a content of this size; empty for one of another size, of which no more is read."""
    digest, length = hashlib.sha256(), 0
    with open_file() as file:
        while length <= size and (chunk := file.read(_CHUNK_BYTES)):
            digest.update(chunk)
            length += len(chunk)
    return digest.digest() if length == size else b""


def _iterate_tar(path: str) -> Iterator[tuple[int, Callable[[], _Stream]]]:
    with tarfile.open(path) as archive:
        for count, member in enumerate(archive):
            if count > ENTRIES_MAX:
                return
            if member.isfile() and (file := archive.extractfile(member)) is not None:
                yield member.size, lambda file=file: file  # type: ignore[misc]


def _iterate_zip(path: str) -> Iterator[tuple[int, Callable[[], _Stream]]]:
    with zipfile.ZipFile(path) as archive:
        for member in archive.infolist()[:ENTRIES_MAX]:
            if not member.is_dir():
                yield member.file_size, lambda member=member: archive.open(member)  # type: ignore[misc]
