"""Bytes cut into lines, each bounded: what is longer is dropped as it comes and never held."""

from __future__ import annotations

LINE_BYTES_MAX = 4 * 1024 * 1024


class Lines:
    """`None` stands for a line that was too long."""

    def __init__(self, bytes_max: int = LINE_BYTES_MAX) -> None:
        self._bytes_max = bytes_max
        self._held: list[bytes] = []
        self._size = 0

    def feed(self, data: bytes) -> list[bytes | None]:
        *ends, rest = data.split(b"\n")
        made = [self._whole(end) for end in ends]
        self._hold(rest)
        return made

    def end(self) -> list[bytes | None]:
        """A last line that nobody ended."""
        return [self._whole(b"")] if self._size else []

    def _whole(self, end: bytes) -> bytes | None:
        self._hold(end)
        line = b"".join(self._held) if self._size <= self._bytes_max else None
        self._held, self._size = [], 0
        return line

    def _hold(self, piece: bytes) -> None:
        self._size += len(piece)
        if self._size > self._bytes_max:
            self._held.clear()
        elif piece:
            self._held.append(piece)
