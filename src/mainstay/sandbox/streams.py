"""What commands say: taken from their pipes as it comes, kept up to a bound, never more than that in memory."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable

CHUNK = 64 * 1024
DRIP_S = 0.01  # between two gulps of what nobody keeps: a flood must not be all the loop does
GULPS = 16


class Pipe:
    """The reading end of a pipe. `take` is called with what came, and says whether it wants more."""

    def __init__(self, file: int, take: Callable[[bytes], bool]) -> None:
        self._loop = asyncio.get_running_loop()
        self._file = file
        self._take = take
        self._later: asyncio.TimerHandle | None = None
        self._wanted = True
        os.set_blocking(file, False)
        self._loop.add_reader(file, self._ready)

    def _ready(self) -> None:
        self._gulp()
        if self._file >= 0 and not self._wanted:
            self._loop.remove_reader(self._file)
            self._later = self._loop.call_later(DRIP_S, self._drip)

    def _drip(self) -> None:
        self._later = None
        for _ in range(GULPS):
            if not self._gulp():
                break
        else:
            self._later = self._loop.call_later(DRIP_S, self._drip)
            return
        if self._file >= 0:  # the flood is over
            self._loop.add_reader(self._file, self._ready)

    def _gulp(self) -> bool:
        """False if there was nothing; closes at the end."""
        try:
            data = os.read(self._file, CHUNK)
        except BlockingIOError:
            return False
        except OSError:
            data = b""
        if data:
            self._wanted = self._take(data)
        else:
            self.close()
        return bool(data)

    def finish(self) -> None:
        """Takes what is still in it, and closes: whoever wrote is gone."""
        left = 32  # a pipe holds a megabyte at most; somebody who got away must not keep us
        while self._file >= 0 and left:
            left -= 1
            try:
                data = os.read(self._file, CHUNK)
            except OSError:
                break
            if not data:
                break
            self._take(data)
        self.close()

    def close(self) -> None:
        if self._later is not None:
            self._later.cancel()
            self._later = None
        if self._file >= 0:
            self._loop.remove_reader(self._file)
            os.close(self._file)
            self._file = -1


class Kept:
    """The beginning of a stream."""

    def __init__(self, bytes_max: int, heard: Callable[[bytes], object] | None = None) -> None:
        self._left = bytes_max
        self._heard = heard
        self._data = bytearray()
        self.cut = False

    def take(self, data: bytes) -> bool:
        if len(data) > self._left:
            data, self.cut = data[: self._left], True
        self._left -= len(data)
        self._data += data
        if data and self._heard is not None:
            self._heard(data)
        return not self.cut

    def bytes(self) -> bytes:
        return bytes(self._data)


class Told:
    """A stream that somebody else keeps."""

    def __init__(self, heard: Callable[[bytes], bool | None]) -> None:
        self._heard = heard

    def take(self, data: bytes) -> bool:
        return self._heard(data) is not False


class Unread:
    """The end of a stream, until it is read."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._data = bytearray()
        self._dropped = 0
        self.came = asyncio.Event()

    def take(self, data: bytes) -> bool:
        self._data += data
        if len(self._data) > 2 * self._bytes_max:
            self._trim()
        self.came.set()
        return len(self._data) < self._bytes_max  # slower, once something must be dropped

    def _trim(self) -> None:
        over = len(self._data) - self._bytes_max
        if over > 0:
            del self._data[:over]
            self._dropped += over

    def read(self) -> bytes:
        self._trim()
        note = b"[%d bytes were dropped, for nobody read them]\n" % self._dropped if self._dropped else b""
        data = note + bytes(self._data)
        self._data.clear()
        self._dropped = 0
        self.came.clear()
        return data


async def write_all(file: int, data: bytes) -> None:
    """Into a pipe that may be full, waiting where it is. Raises BrokenPipeError if nobody reads."""
    loop, left = asyncio.get_running_loop(), memoryview(data)
    os.set_blocking(file, False)
    while left:
        try:
            left = left[os.write(file, left) :]
        except BlockingIOError:
            room = asyncio.Event()
            loop.add_writer(file, room.set)
            try:
                await room.wait()
            finally:
                loop.remove_writer(file)
