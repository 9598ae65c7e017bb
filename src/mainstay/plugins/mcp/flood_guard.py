"""Flood protection: rate limit for a server's unsolicited messages, and a bound on what is dropped."""

from __future__ import annotations

from collections.abc import Callable

from mainstay.plugins.mcp.server_config import McpLimits


class FloodGuard:
    """Token bucket for unsolicited messages, and counters of everything dropped. `on_flood` is called once the counters
    exceed their limits: the connection is then closed."""

    def __init__(self, limits: McpLimits, now: Callable[[], float]) -> None:
        self._limits = limits
        self._now = now
        self._tokens = float(limits.unsolicited_burst)
        self._refilled_at = now()
        self.dropped = 0
        self.dropped_bytes = 0
        self.on_flood: Callable[[], None] = lambda: None

    def try_admit(self) -> bool:
        """Take a token; False if there is none."""
        now = self._now()
        self._tokens = min(
            self._tokens + (now - self._refilled_at) * self._limits.unsolicited_per_s, self._limits.unsolicited_burst
        )
        self._refilled_at = now
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True

    def count_dropped(self, size_bytes: int) -> None:
        self.dropped += 1
        self.count_dropped_bytes(size_bytes)

    def count_dropped_bytes(self, size_bytes: int) -> None:
        """Count dropped bytes that are no message of their own."""
        self.dropped_bytes += size_bytes
        if self.flooded:
            self.on_flood()

    @property
    def flooded(self) -> bool:
        return self.dropped > self._limits.dropped_max or self.dropped_bytes > self._limits.dropped_bytes_max
