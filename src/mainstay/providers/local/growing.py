"""A file of weights while it comes: hashed as it is written, so that it need not be read again.

It lies beside its place under another name and is given its own once its hash is right. Every source brings the same
bytes, so whatever of them is there already, from whichever source, is where the next one goes on.
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
from mainstay.providers.local.weights import Weights

PART = ".part"
CHUNK = 1 << 20
MAGIC = b"GGUF"  # how every file of weights begins


class NotPulled(MainstayError):
    """The weights did not come. What of them is whole stays for the next attempt."""


class SourceFailed(NotPulled):
    """This source did not bring them; another may."""


class Mark:
    """A state to come back to."""

    def __init__(self, have: int, digest: Any) -> None:
        self.have = have
        self.digest = digest


class Growing:
    """What there is of a file: `have` bytes. `told` hears how many, as they come."""

    def __init__(self, one: Weights, place: Path, told: Callable[[int], None]) -> None:
        self.one = one
        self.have = 0
        self._place = place
        self._path = place / (one.file + PART)
        self._told = told
        self._digest = hashlib.sha256()
        self._file = -1

    def __enter__(self) -> Growing:
        try:
            self._file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise NotPulled(f"{self._path} cannot be written: {error.strerror}") from None
        try:
            self._take_up()
        except BaseException:
            os.close(self._file)
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        os.close(self._file)
        if not self.have:
            self._path.unlink(missing_ok=True)

    def _take_up(self) -> None:
        """What an earlier attempt left is read once, to go on with its hash."""
        found = os.fstat(self._file)
        if not stat.S_ISREG(found.st_mode):
            raise NotPulled(f"{self._path} is not a file; remove it")
        if found.st_size > self.one.size:
            self.restart()
        while data := os.read(self._file, CHUNK):
            self._digest.update(data)
            self.have += len(data)

    def write(self, data: bytes | memoryview) -> None:
        """Raises SourceFailed for what cannot be part of it, NotPulled if the disk does not take it."""
        if self.have + len(data) > self.one.size:
            raise SourceFailed(f"more came than the {self.one.size:,} bytes it has")
        if self.have < len(MAGIC) and not MAGIC.startswith(bytes(data[: len(MAGIC)])) and not self._begun_with(data):
            raise SourceFailed("what came is no file of weights (GGUF)")
        view = memoryview(data)
        while view:
            try:
                written = os.write(self._file, view[:CHUNK])
            except OSError as error:
                raise NotPulled(f"{self._path}: {error.strerror}; {self.kept()}") from None
            self._digest.update(view[:written])
            self.have += written
            view = view[written:]
        self._told(self.have)

    def _begun_with(self, data: bytes | memoryview) -> bool:
        began = os.pread(self._file, len(MAGIC), 0) + bytes(data[: len(MAGIC)])
        return began[: len(MAGIC)] == MAGIC[: len(began)]

    def coming(self, more: int) -> None:
        """So many bytes are on this machine beside those that are written."""
        self._told(min(self.have + more, self.one.size))

    def mark(self) -> Mark:
        return Mark(self.have, self._digest.copy())

    def back(self, to: Mark) -> None:
        os.ftruncate(self._file, to.have)
        os.lseek(self._file, to.have, os.SEEK_SET)
        self.have, self._digest = to.have, to.digest

    def restart(self) -> None:
        self.back(Mark(0, hashlib.sha256()))

    @property
    def whole(self) -> bool:
        return self.have == self.one.size

    def right(self) -> bool:
        return self.whole and self._digest.hexdigest() == self.one.sha256

    def finish(self) -> Path:
        """Its own name, once it is on disk."""
        assert self.right(), "only what is right gets its name"
        path = self._place / self.one.file
        try:
            os.fsync(self._file)
            os.replace(self._path, path)
            _sync(self._place)
        except OSError as error:
            raise NotPulled(f"{path}: {error.strerror}; {self.kept()}") from None
        return path

    def kept(self) -> str:
        return kept(self.one, self.have)


def kept(one: Weights, have: int) -> str:
    """What is there, and how to go on."""
    if not have:
        return "nothing was kept"
    return (
        f"{have / 1e6:,.0f} of {one.size / 1e6:,.0f} MB are kept: `mainstay model pull {one.name}` goes on from there"
    )


def began(one: Weights, place: Path) -> int:
    """How much an attempt that did not end has left."""
    try:
        return min((place / (one.file + PART)).lstat().st_size, one.size)
    except OSError:
        return 0


def _sync(place: Path) -> None:
    """Some file systems cannot be asked about a folder, and then do it in their own time."""
    try:
        folder = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return
    try:
        os.fsync(folder)
    except OSError:
        pass
    finally:
        os.close(folder)
