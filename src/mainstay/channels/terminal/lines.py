"""Lines of a file descriptor, whatever it is: a terminal, a pipe or a file."""

from __future__ import annotations

import asyncio
import os
import select
import threading
from collections.abc import Callable

LINE_BYTES_MAX = 64 * 1024  # what is longer is no line that somebody typed
_PIECE = 4096


class Lines:
    """A thread waits, because no event loop can wait for every kind of file, and changing how the descriptor behaves
    would change it for whoever shares it: a shell, and our own output.

    `take` is called on the loop, with a line, with "" for one that is too long, or with None at the end."""

    def __init__(self, source: int, take: Callable[[str | None], None]) -> None:
        self._source = source
        self._take = take
        self._loop = asyncio.get_running_loop()
        self._wake, self._woken = os.pipe()
        self._thread = threading.Thread(target=self._read, name="terminal", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Nothing is taken any more. What was typed and not read is left to whoever reads next."""
        os.write(self._woken, b".")
        self._thread.join()
        os.close(self._wake)
        os.close(self._woken)

    def _read(self) -> None:
        rest, skipping = b"", False
        while (piece := self._piece()) is not None:
            *whole, rest = (rest + piece).split(b"\n") if piece else (rest, b"")
            for line in whole:
                if not skipping:
                    self._tell(line)
                skipping = False
            if len(rest) > LINE_BYTES_MAX:
                if not skipping:
                    self._tell(rest)
                rest, skipping = b"", True
            if not piece:
                self._hand(None)
                return

    def _piece(self) -> bytes | None:
        """Empty at the end; None: it is not wanted any more."""
        ready, _, _ = select.select([self._source, self._wake], [], [])
        if self._wake in ready:
            return None
        try:
            return os.read(self._source, _PIECE)
        except OSError:  # the other end of a pseudo-terminal has gone
            return b""

    def _tell(self, line: bytes) -> None:
        if line.strip():
            self._hand("" if len(line) > LINE_BYTES_MAX else line.decode(errors="replace").rstrip("\r"))

    def _hand(self, line: str | None) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._take, line)
