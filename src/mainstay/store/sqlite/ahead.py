"""Appends that must outlive the process but need not wait for the database: a line of a file each, until it has them.

One write to a file costs a few microseconds, and what the kernel has outlives whoever wrote it. They enter the database
with the next append that somebody waits for, or when the file is next opened: an append names the sequence that it
expects, so whoever brings it in twice brings in nothing.
"""

from __future__ import annotations

import contextlib
import logging
import os
import threading
from collections.abc import Iterator, Sequence

import msgspec

from mainstay.core.errors import MainstayError, StoreFailed
from mainstay.core.journal import decode
from mainstay.core.ports import Standing

log = logging.getLogger("mainstay.store")

SUFFIX = "-ahead"
BYTES_MAX = 64 * 1024  # of lines that are in the database too, before the file is emptied


class Line(msgspec.Struct, frozen=True, array_like=True):
    standing: Standing
    expected: int
    events: list[msgspec.Raw]  # as they are in the journal


_FLAGS = os.O_CLOEXEC | os.O_NOFOLLOW
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Line).decode


class Ahead:
    """Beside a database. Written by the loop's thread, emptied by the one that writes the database."""

    def __init__(self, path: str) -> None:
        self.path = path + SUFFIX
        self._file: int | None = None
        self._open = 0  # lines that are not in the database yet
        self._bytes = 0
        self._is_due = False  # to be emptied, as soon as that can be
        self._is_torn = False  # it ends in half a line, and takes no other
        self._lock = threading.Lock()

    def write(self, standing: Standing, expected: int, events: Sequence[bytes]) -> bool:
        """False if it cannot be kept this way."""
        line = _encode(Line(standing, expected, [msgspec.Raw(body) for body in events])) + b"\n"
        try:
            with self._lock:
                if self._file is None:
                    self._file = os.open(self.path, _FLAGS | os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
                    self._bytes = os.fstat(self._file).st_size
                if self._is_torn:
                    return False
                written = os.write(self._file, line)
                if written != len(line):  # the disk is full
                    self._is_torn = True
                    os.ftruncate(self._file, self._bytes)
                    self._is_torn = False
                    return False
                self._bytes += written
                self._open += 1
                return True
        except OSError:
            return False

    def settle(self, count: int) -> None:
        """So many of them are in the database now, or will never be."""
        with self._lock:
            self._open -= count
            if self._is_due or self._is_torn or self._bytes > BYTES_MAX:
                self._empty()

    def forget(self) -> None:
        """Something is to be gone for good: no line stays that is in the database."""
        with self._lock:
            self._is_due = True
            self._empty()

    def _empty(self) -> None:
        if not self._open and self._file is not None:
            with contextlib.suppress(OSError):  # then they are brought in once more, which does nothing
                os.ftruncate(self._file, 0)
                self._bytes, self._is_due, self._is_torn = 0, False, False

    def lines(self) -> Iterator[Line]:
        """What an earlier process left here; what is no line, or was cut off, is none."""
        try:
            with open(os.open(self.path, _FLAGS | os.O_RDONLY), "rb") as file:
                found = file.read().split(b"\n")
        except (FileNotFoundError, IsADirectoryError):
            return
        except OSError as error:
            raise StoreFailed(f"{self.path} cannot be read ({error.strerror}); what was reserved is in it") from error
        for number, line in enumerate(found[:-1], start=1):
            try:
                made = _decode(line)
                for body in made.events:
                    decode(bytes(body))
            except (msgspec.DecodeError, ValueError, MainstayError) as error:
                log.warning("line %d of %s says nothing, and is left out: %s", number, self.path, error)
            else:
                yield made

    def close(self, *, remove: bool) -> None:
        """`remove`: if the database has all of it."""
        with self._lock:
            if self._file is not None:
                os.close(self._file)
                self._file = None
            if remove and not self._open:
                with contextlib.suppress(OSError):
                    os.unlink(self.path)
