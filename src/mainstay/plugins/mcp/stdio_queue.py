"""Splits a server's stdout into JSON-RPC messages, one per line, and queues them within limits."""

from __future__ import annotations

import asyncio
from collections import deque

from mainstay.plugins.mcp.message_filter import MessageFilter

_QUEUED_MESSAGES_MAX = 4000  # queued messages


class StdioMessageQueue:
    """Queue of the lines that passed the filter. Lines that are not JSON-RPC, too long or too many are dropped and
    counted."""

    def __init__(self, message_filter: MessageFilter) -> None:
        self._message_filter = message_filter
        self._limits = message_filter.limits
        self._flood_guard = message_filter.flood_guard
        self._partial_line = bytearray()  # a line whose end has not arrived
        self._is_skipping = False  # the current line is too long: dropped up to its end
        self._lines: deque[bytes] = deque()
        self._queued_bytes = 0
        self._wakeup = asyncio.Event()
        self.closed = False

    def feed(self, data: bytes) -> bool:
        """Add output. False asks the sender to read more slowly."""
        start = 0
        while (end := data.find(b"\n", start)) >= 0:
            self._finish_line(data[start:end])
            start = end + 1
        rest = data[start:]
        if self._is_skipping:
            self._flood_guard.count_dropped_bytes(len(rest))
        elif len(self._partial_line) + len(rest) > self._limits.message_bytes_max:
            self._flood_guard.count_dropped(len(self._partial_line) + len(rest))
            self._is_skipping = True
            self._partial_line.clear()
        else:
            self._partial_line += rest
        if self._lines or self._flood_guard.flooded:
            self._wakeup.set()
        return self._queued_bytes < self._limits.backlog_bytes_max // 2 and not self._is_skipping

    def _finish_line(self, rest: bytes) -> None:
        if self._is_skipping:
            self._flood_guard.count_dropped_bytes(len(rest))
            self._is_skipping = False
            return
        line = bytes(self._partial_line) + rest if self._partial_line else rest
        self._partial_line.clear()
        line = line.strip(b" \t\r")
        if line:
            self._enqueue(line)

    def _enqueue(self, line: bytes) -> None:
        if len(self._lines) >= _QUEUED_MESSAGES_MAX or self._queued_bytes + len(line) > self._limits.backlog_bytes_max:
            self._flood_guard.count_dropped(len(line))
        elif (passed := self._message_filter.filter_message(line, finishes=True)) is not None:
            self._lines.append(passed)
            self._queued_bytes += len(passed)

    def close(self) -> None:
        """End the queue: no more output will arrive."""
        self.closed = True
        self._wakeup.set()

    async def next_line(self) -> bytes | None:
        """Wait for the next line. None at the end, or as soon as the flood limit is reached."""
        while not self._lines:
            if self.closed or self._flood_guard.flooded:
                return None
            self._wakeup.clear()
            await self._wakeup.wait()
        if self._flood_guard.flooded:
            return None
        line = self._lines.popleft()
        self._queued_bytes -= len(line)
        return line
