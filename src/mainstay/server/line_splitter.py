"""Splits a byte stream into lines of bounded length; longer lines are dropped while they arrive, not buffered."""

from __future__ import annotations

LINE_BYTES_MAX = 4 * 1024 * 1024


class LineSplitter:
    """Incremental splitter. `None` stands for a line that was too long."""

    def __init__(self, bytes_max: int = LINE_BYTES_MAX) -> None:
        self._bytes_max = bytes_max
        self._pieces: list[bytes] = []
        self._size = 0

    def feed(self, data: bytes) -> list[bytes | None]:
        *ends, rest = data.split(b"\n")
        lines = [self._complete_line(end) for end in ends]
        self._append(rest)
        return lines

    def finish(self) -> list[bytes | None]:
        """Return the last line, if it has no newline."""
        return [self._complete_line(b"")] if self._size else []

    def _complete_line(self, last_piece: bytes) -> bytes | None:
        self._append(last_piece)
        line = b"".join(self._pieces) if self._size <= self._bytes_max else None
        self._pieces, self._size = [], 0
        return line

    def _append(self, piece: bytes) -> None:
        self._size += len(piece)
        if self._size > self._bytes_max:
            self._pieces.clear()
        elif piece:
            self._pieces.append(piece)
