"""Write-ahead file: appends that must survive a crash of the process but need not wait for the database.

Each is a line of a file beside the database. One write to a file costs a few microseconds, and data that the kernel has
outlives the process. The appends enter the database with the next synced append, or when the store is opened again.
Recovery is idempotent: an append names the sequence that it expects, so one that is stored already is refused.
"""

from __future__ import annotations

import contextlib
import logging
import os
import threading
from collections.abc import Iterator, Sequence

import msgspec

from mainstay.core.errors import MainstayError, StoreFailed
from mainstay.core.journal import decode_event
from mainstay.core.ports import SessionInfo

log = logging.getLogger("mainstay.store")

FILE_SUFFIX = "-ahead"
FILE_BYTES_MAX = 64 * 1024  # file size from which on it is truncated once all lines are in the database


class WriteAheadEntry(msgspec.Struct, frozen=True, array_like=True):
    """One append, as a line of the file."""

    info: SessionInfo
    expected: int
    events: list[msgspec.Raw]  # encoded as in the journal


_OPEN_FLAGS = os.O_CLOEXEC | os.O_NOFOLLOW
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(WriteAheadEntry).decode


class WriteAheadFile:
    """The write-ahead file of a database. Written by the event loop's thread, truncated by the writer thread."""

    def __init__(self, path: str) -> None:
        self.path = path + FILE_SUFFIX
        self._fd: int | None = None
        self._lines_pending = 0  # lines that are not in the database yet
        self._size_bytes = 0
        self._is_truncation_due = False  # truncate it as soon as all lines are in the database
        self._is_torn = False  # it ends in an incomplete line, so that no other may follow
        self._lock = threading.Lock()

    def append_entry(self, info: SessionInfo, expected: int, events: Sequence[bytes]) -> bool:
        """Add an append to the file; returns False if that failed and it must go to the database directly."""
        line = _encode(WriteAheadEntry(info, expected, [msgspec.Raw(body) for body in events])) + b"\n"
        try:
            with self._lock:
                if self._fd is None:
                    self._fd = os.open(self.path, _OPEN_FLAGS | os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
                    self._size_bytes = os.fstat(self._fd).st_size
                if self._is_torn:
                    return False
                written = os.write(self._fd, line)
                if written != len(line):  # the disk is full
                    self._is_torn = True
                    os.ftruncate(self._fd, self._size_bytes)
                    self._is_torn = False
                    return False
                self._size_bytes += written
                self._lines_pending += 1
                return True
        except OSError:
            return False

    def mark_stored(self, count: int) -> None:
        """Count so many lines as done: they are in the database, or were refused."""
        with self._lock:
            self._lines_pending -= count
            if self._is_truncation_due or self._is_torn or self._size_bytes > FILE_BYTES_MAX:
                self._truncate_if_stored()

    def request_truncation(self) -> None:
        """Truncate the file as soon as possible, because contents are being erased."""
        with self._lock:
            self._is_truncation_due = True
            self._truncate_if_stored()

    def _truncate_if_stored(self) -> None:
        if not self._lines_pending and self._fd is not None:
            with contextlib.suppress(OSError):  # then the next start recovers these lines again, without effect
                os.ftruncate(self._fd, 0)
                self._size_bytes, self._is_truncation_due, self._is_torn = 0, False, False

    def read_entries(self) -> Iterator[WriteAheadEntry]:
        """Yield the appends that an earlier process left; invalid and incomplete lines are skipped."""
        try:
            with open(os.open(self.path, _OPEN_FLAGS | os.O_RDONLY), "rb") as file:
                lines = file.read().split(b"\n")
        except (FileNotFoundError, IsADirectoryError):
            return
        except OSError as error:
            raise StoreFailed(
                f"{self.path} cannot be read ({error.strerror}); it may hold events that are not in the database yet"
            ) from error
        for number, line in enumerate(lines[:-1], start=1):
            try:
                entry = _decode(line)
                for body in entry.events:
                    decode_event(bytes(body))
            except (msgspec.DecodeError, ValueError, MainstayError) as error:
                log.warning("line %d of %s is invalid and was skipped: %s", number, self.path, error)
            else:
                yield entry

    def close(self, *, remove: bool) -> None:
        """Close the file; with `remove`, delete it too if all lines are in the database."""
        with self._lock:
            if self._fd is not None:
                os.close(self._fd)
                self._fd = None
            if remove and not self._lines_pending:
                with contextlib.suppress(OSError):
                    os.unlink(self.path)
