"""Readers for the output of commands: non-blocking pipes, and buffers of bounded size."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from typing import Protocol

CHUNK_BYTES = 64 * 1024
SLOW_READ_INTERVAL_S = 0.01  # between reads of output that is not wanted: a flood must not occupy the event loop
SLOW_READ_CHUNKS = 16


class PipeReader:
    """Reads a pipe. `on_data` is called with each chunk; while it returns False, the pipe is read slowly."""

    def __init__(self, file: int, on_data: Callable[[bytes], bool]) -> None:
        self._loop = asyncio.get_running_loop()
        self._file = file
        self._on_data = on_data
        self._timer: asyncio.TimerHandle | None = None
        self._is_wanted = True
        os.set_blocking(file, False)
        self._loop.add_reader(file, self._on_readable)

    def _on_readable(self) -> None:
        self._read_chunk()
        if self._file >= 0 and not self._is_wanted:
            self._loop.remove_reader(self._file)
            self._timer = self._loop.call_later(SLOW_READ_INTERVAL_S, self._read_slowly)

    def _read_slowly(self) -> None:
        self._timer = None
        for _ in range(SLOW_READ_CHUNKS):
            if not self._read_chunk():
                break
        else:
            self._timer = self._loop.call_later(SLOW_READ_INTERVAL_S, self._read_slowly)
            return
        if self._file >= 0:  # nothing left to read: back to normal
            self._loop.add_reader(self._file, self._on_readable)

    def _read_chunk(self) -> bool:
        """Read one chunk; return False if there was none. Closes at the end of the stream."""
        try:
            data = os.read(self._file, CHUNK_BYTES)
        except BlockingIOError:
            return False
        except OSError:
            data = b""
        if data:
            self._is_wanted = self._on_data(data)
        else:
            self.close()
        return bool(data)

    def drain(self) -> None:
        """Read what is left in the pipe and close it: the writers have exited."""
        left = 32  # chunks; a pipe holds at most a megabyte, and an escaped writer must not keep us here
        while self._file >= 0 and left:
            left -= 1
            try:
                data = os.read(self._file, CHUNK_BYTES)
            except OSError:
                break
            if not data:
                break
            self._on_data(data)
        self.close()

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._file >= 0:
            self._loop.remove_reader(self._file)
            os.close(self._file)
            self._file = -1


class OutputConsumer(Protocol):
    """Receives the output of a process."""

    def consume(self, data: bytes) -> bool:
        """Take a chunk; returns False if no more is wanted."""
        ...


class OutputHead:
    """Keeps the beginning of a stream, up to `bytes_max`."""

    def __init__(self, bytes_max: int, on_data: Callable[[bytes], object] | None = None) -> None:
        self._bytes_left = bytes_max
        self._on_data = on_data
        self._data = bytearray()
        self.is_cut = False

    def consume(self, data: bytes) -> bool:
        if len(data) > self._bytes_left:
            data, self.is_cut = data[: self._bytes_left], True
        self._bytes_left -= len(data)
        self._data += data
        if data and self._on_data is not None:
            self._on_data(data)
        return not self.is_cut

    def to_bytes(self) -> bytes:
        return bytes(self._data)


class OutputCallback:
    """Passes a stream on to a callback."""

    def __init__(self, on_data: Callable[[bytes], bool | None]) -> None:
        self._on_data = on_data

    def consume(self, data: bytes) -> bool:
        return self._on_data(data) is not False


class OutputTail:
    """Keeps the unread end of a stream, up to `bytes_max`."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._data = bytearray()
        self._dropped = 0
        self.available = asyncio.Event()

    def consume(self, data: bytes) -> bool:
        self._data += data
        if len(self._data) > 2 * self._bytes_max:
            self._trim()
        self.available.set()
        return len(self._data) < self._bytes_max  # read slowly once data must be dropped

    def _trim(self) -> None:
        over = len(self._data) - self._bytes_max
        if over > 0:
            del self._data[:over]
            self._dropped += over

    def read(self) -> bytes:
        self._trim()
        note = b"[%d bytes were dropped because they were not read in time]\n" % self._dropped if self._dropped else b""
        data = note + bytes(self._data)
        self._data.clear()
        self._dropped = 0
        self.available.clear()
        return data


async def write_all(file: int, data: bytes) -> None:
    """Write to a pipe, waiting while it is full. Raises BrokenPipeError if the reader is gone."""
    loop, left = asyncio.get_running_loop(), memoryview(data)
    os.set_blocking(file, False)
    while left:
        try:
            left = left[os.write(file, left) :]
        except BlockingIOError:
            writable = asyncio.Event()
            loop.add_writer(file, writable.set)
            try:
                await writable.wait()
            finally:
                loop.remove_writer(file)
