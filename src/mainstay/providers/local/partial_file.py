"""A partially downloaded file of weights, hashed as it is written, so that it need not be read again.

It has a temporary name in its final folder and is renamed once its hash is verified. Every source has the same bytes,
so a download resumes after the bytes that are there, whichever source they came from.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any

from mainstay.core.errors import MainstayError
from mainstay.providers.local.catalogue import Weights

PART_SUFFIX = ".part"
CHUNK_BYTES = 1 << 20
GGUF_MAGIC = b"GGUF"  # the first bytes of every GGUF file


class DownloadFailed(MainstayError):
    """The weights could not be downloaded. The bytes received so far stay for the next attempt."""


class SourceFailed(DownloadFailed):
    """This source could not deliver the weights; another may."""


class PartialFileRollbackPoint:
    """A size and hash state to roll back to."""

    def __init__(self, size_bytes: int, digest: Any) -> None:
        self.size_bytes = size_bytes
        self.digest = digest


class PartialFile:
    """The first `size_bytes` bytes of a file. `on_progress` is called with that number after each write."""

    def __init__(self, weights: Weights, folder: Path, on_progress: Callable[[int], None]) -> None:
        self.weights = weights
        self.size_bytes = 0
        self._folder = folder
        self._part_path = folder / (weights.file_name + PART_SUFFIX)
        self._on_progress = on_progress
        self._digest = hashlib.sha256()
        self._fd = -1

    def __enter__(self) -> PartialFile:
        try:
            self._fd = os.open(self._part_path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise DownloadFailed(f"{self._part_path} cannot be written: {error.strerror}") from None
        try:
            self._resume()
        except BaseException:
            os.close(self._fd)
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        os.close(self._fd)
        if not self.size_bytes:
            self._part_path.unlink(missing_ok=True)

    def _resume(self) -> None:
        """Read the bytes of an earlier attempt once, to continue their hash."""
        status = os.fstat(self._fd)
        if not stat.S_ISREG(status.st_mode):
            raise DownloadFailed(f"{self._part_path} is not a file; remove it")
        if status.st_size > self.weights.size_bytes:
            self.restart()
        while data := os.read(self._fd, CHUNK_BYTES):
            self._digest.update(data)
            self.size_bytes += len(data)

    def write(self, data: bytes | memoryview) -> None:
        """Append data. Raises SourceFailed if it cannot belong to the file, DownloadFailed if it cannot be written."""
        if self.size_bytes + len(data) > self.weights.size_bytes:
            raise SourceFailed(f"it sent more than the expected {self.weights.size_bytes:,} bytes")
        if (
            self.size_bytes < len(GGUF_MAGIC)
            and not GGUF_MAGIC.startswith(bytes(data[: len(GGUF_MAGIC)]))
            and not self._starts_with_magic(data)
        ):
            raise SourceFailed("it did not send a GGUF file")
        view = memoryview(data)
        while view:
            try:
                written = os.write(self._fd, view[:CHUNK_BYTES])
            except OSError as error:
                raise DownloadFailed(f"{self._part_path}: {error.strerror}; {self.describe_progress()}") from None
            self._digest.update(view[:written])
            self.size_bytes += written
            view = view[written:]
        self._on_progress(self.size_bytes)

    def _starts_with_magic(self, data: bytes | memoryview) -> bool:
        start = os.pread(self._fd, len(GGUF_MAGIC), 0) + bytes(data[: len(GGUF_MAGIC)])
        return start[: len(GGUF_MAGIC)] == GGUF_MAGIC[: len(start)]

    def report_incoming(self, extra_bytes: int) -> None:
        """Report progress of bytes that are downloaded but not written to this file yet."""
        self._on_progress(min(self.size_bytes + extra_bytes, self.weights.size_bytes))

    def save_position(self) -> PartialFileRollbackPoint:
        return PartialFileRollbackPoint(self.size_bytes, self._digest.copy())

    def roll_back(self, position: PartialFileRollbackPoint) -> None:
        os.ftruncate(self._fd, position.size_bytes)
        os.lseek(self._fd, position.size_bytes, os.SEEK_SET)
        self.size_bytes, self._digest = position.size_bytes, position.digest

    def restart(self) -> None:
        self.roll_back(PartialFileRollbackPoint(0, hashlib.sha256()))

    @property
    def is_complete(self) -> bool:
        return self.size_bytes == self.weights.size_bytes

    def is_verified(self) -> bool:
        return self.is_complete and self._digest.hexdigest() == self.weights.sha256

    def finish(self) -> Path:
        """Flush the verified file to disk, give it its final name and return its path."""
        assert self.is_verified(), "only a verified file gets its final name"
        path = self._folder / self.weights.file_name
        try:
            os.fsync(self._fd)
            os.replace(self._part_path, path)
            _sync_folder(self._folder)
        except OSError as error:
            raise DownloadFailed(f"{path}: {error.strerror}; {self.describe_progress()}") from None
        return path

    def describe_progress(self) -> str:
        return describe_partial_download(self.weights, self.size_bytes)


def describe_partial_download(weights: Weights, size_bytes: int) -> str:
    """Return a sentence that says how much is downloaded and how to resume."""
    if not size_bytes:
        return "nothing was downloaded"
    progress = f"{size_bytes / 1e6:,.0f} of {weights.size_bytes / 1e6:,.0f} MB are downloaded"
    return f"{progress}: `mainstay model pull {weights.name}` resumes the download"


def partial_size_bytes(weights: Weights, folder: Path) -> int:
    """Return the size of the partial file of an unfinished download; 0 if there is none."""
    try:
        return min((folder / (weights.file_name + PART_SUFFIX)).lstat().st_size, weights.size_bytes)
    except OSError:
        return 0


def _sync_folder(path: Path) -> None:
    """Flush a folder to disk, if the file system supports it."""
    try:
        folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return
    try:
        os.fsync(folder)
    except OSError:
        pass
    finally:
        os.close(folder)
