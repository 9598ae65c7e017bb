"""Rate-limited log of rejected requests: attacks are visible, but cannot fill the log."""

from __future__ import annotations

import logging
import time

LINES_PER_S_MAX = 10  # per second
_TEXT_CHARS_MAX = 80


class RejectionLog:
    """Logs rejected requests, at most LINES_PER_S_MAX a second, and counts the others."""

    def __init__(self, log: logging.Logger) -> None:
        self._log = log
        self._second = 0
        self._lines = 0
        self._suppressed = 0

    def record(self, reason: str, client: tuple[str, int] | None, path: str = "") -> None:
        """Log a rejected request. Give `path` without its query, which may contain a key."""
        second = int(time.monotonic())
        if second != self._second:
            if self._suppressed:
                self._log.warning("%d more requests were rejected", self._suppressed)
            self._second, self._lines, self._suppressed = second, 0, 0
        if self._lines >= LINES_PER_S_MAX:
            self._suppressed += 1
            return
        self._lines += 1
        suffix = f" {escape_for_log(path)}" if path else ""
        self._log.warning("rejected%s from %s: %s", suffix, client[0] if client else "a socket", reason)


def escape_for_log(text: object) -> str:
    """Return text as printable ASCII of bounded length, for a log line."""
    escaped = str(text).encode("ascii", "backslashreplace").decode()
    escaped = "".join(char if char.isprintable() else "?" for char in escaped)
    return escaped if len(escaped) <= _TEXT_CHARS_MAX else escaped[:_TEXT_CHARS_MAX] + "…"
