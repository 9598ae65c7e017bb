"""Reads lines from a file descriptor (terminal, pipe or file) in a thread."""

from __future__ import annotations

import asyncio
import os
import select
import threading
from collections.abc import Callable

LINE_BYTES_MAX = 64 * 1024  # longer lines are reported and skipped
_CHUNK_BYTES = 4096


class LineReader:
    """Reads in a thread, because an event loop cannot wait for every kind of file, and making the descriptor
    non-blocking would affect every process that shares it: a shell, and our own output.

    `on_line` is called on the event loop with a line, with "" for a line that is too long, or with None at the end."""

    def __init__(self, source: int, on_line: Callable[[str | None], None]) -> None:
        self._source = source
        self._on_line = on_line
        self._loop = asyncio.get_running_loop()
        self._wake_read_fd, self._wake_write_fd = os.pipe()
        self._thread = threading.Thread(target=self._read_lines, name="terminal", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop reading and join the thread. Unread input stays in the descriptor for its next reader."""
        os.write(self._wake_write_fd, b".")
        self._thread.join()
        os.close(self._wake_read_fd)
        os.close(self._wake_write_fd)

    def _read_lines(self) -> None:
        rest, skipping = b"", False
        while (piece := self._read_chunk()) is not None:
            *lines, rest = (rest + piece).split(b"\n") if piece else (rest, b"")
            for line in lines:
                if not skipping:
                    self._handle_line(line)
                skipping = False
            if len(rest) > LINE_BYTES_MAX:
                if not skipping:
                    self._handle_line(rest)
                rest, skipping = b"", True
            if not piece:
                self._call_on_loop(None)
                return

    def _read_chunk(self) -> bytes | None:
        """Return the next bytes: empty at the end of the input, None once `close` was called."""
        try:
            ready, _, _ = select.select([self._source, self._wake_read_fd], [], [])
            if self._wake_read_fd in ready:
                return None
            return os.read(self._source, _CHUNK_BYTES)
        except (OSError, ValueError):  # the other end of a pseudo-terminal has gone, or the descriptor was closed
            return b""

    def _handle_line(self, line: bytes) -> None:
        if line.strip():
            self._call_on_loop("" if len(line) > LINE_BYTES_MAX else line.decode(errors="replace").rstrip("\r"))

    def _call_on_loop(self, line: str | None) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._on_line, line)
