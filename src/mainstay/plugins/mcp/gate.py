"""What a server says unasked, let through up to a rate. The rest is dropped and counted; too much of it is the end."""

from __future__ import annotations

from collections.abc import Callable

from mainstay.plugins.mcp.server import McpLimits


class Gate:
    """A bucket of tokens that fills with time, and the count of what was dropped for whatever reason."""

    def __init__(self, limits: McpLimits, now: Callable[[], float]) -> None:
        self._limits = limits
        self._now = now
        self._tokens = float(limits.unasked_burst)
        self._at = now()
        self.dropped = 0
        self.dropped_bytes = 0
        self.on_flood: Callable[[], None] = lambda: None

    def admit(self) -> bool:
        now = self._now()
        self._tokens = min(self._tokens + (now - self._at) * self._limits.unasked_per_s, self._limits.unasked_burst)
        self._at = now
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True

    def drop(self, size: int) -> None:
        self.dropped += 1
        self.weigh(size)

    def weigh(self, size: int) -> None:
        """What is no message of its own."""
        self.dropped_bytes += size
        if self.flooded:
            self.on_flood()

    @property
    def flooded(self) -> bool:
        return self.dropped > self._limits.dropped_max or self.dropped_bytes > self._limits.dropped_bytes_max
