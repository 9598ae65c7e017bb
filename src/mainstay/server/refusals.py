"""What was refused, in the log: enough to see that somebody tries, never so much that the log is what they fill."""

from __future__ import annotations

import logging
import time
from typing import Any

LINES_MAX = 10  # a second
_WORD_CHARS = 80


class Refusals:
    def __init__(self, log: logging.Logger) -> None:
        self._log = log
        self._second = 0
        self._lines = 0
        self._unsaid = 0

    def note(self, what: str, client: tuple[str, int] | None, path: str = "") -> None:
        """`path` without its query, where a key might be."""
        second = int(time.monotonic())
        if second != self._second:
            if self._unsaid:
                self._log.warning("%d more requests were refused", self._unsaid)
            self._second, self._lines, self._unsaid = second, 0, 0
        if self._lines >= LINES_MAX:
            self._unsaid += 1
            return
        self._lines += 1
        where = f" {plain(path)}" if path else ""
        self._log.warning("refused%s from %s: %s", where, client[0] if client else "a socket", what)


def plain(text: Any) -> str:
    """As it can stand in a line of a log."""
    shown = str(text).encode("ascii", "backslashreplace").decode()
    shown = "".join(char if char.isprintable() else "?" for char in shown)
    return shown if len(shown) <= _WORD_CHARS else shown[:_WORD_CHARS] + "…"
