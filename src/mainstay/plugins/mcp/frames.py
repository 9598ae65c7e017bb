"""A server's output, taken apart into messages: one to a line, bounded, and nothing of it is believed yet."""

from __future__ import annotations

import asyncio
from collections import deque

from mainstay.plugins.mcp.sieve import Sieve

_COUNT_MAX = 4000  # messages that we have not got round to


class Frames:
    """Lines of JSON as they come. What is none, or is too long, or is one too many, is dropped and counted."""

    def __init__(self, sieve: Sieve) -> None:
        self._sieve = sieve
        self._limits = sieve.limits
        self._gate = sieve.gate
        self._part = bytearray()  # of a line whose end has not come
        self._skipping = False  # such a line is too long, and its end is waited for
        self._lines: deque[bytes] = deque()
        self._size = 0
        self._came = asyncio.Event()
        self.over = False

    def take(self, data: bytes) -> bool:
        """False: slower, please."""
        start = 0
        while (end := data.find(b"\n", start)) >= 0:
            self._end_of_line(data[start:end])
            start = end + 1
        rest = data[start:]
        if self._skipping:
            self._gate.weigh(len(rest))
        elif len(self._part) + len(rest) > self._limits.message_bytes_max:
            self._gate.drop(len(self._part) + len(rest))
            self._skipping = True
            self._part.clear()
        else:
            self._part += rest
        if self._lines or self._gate.flooded:
            self._came.set()
        return self._size < self._limits.backlog_bytes_max // 2 and not self._skipping

    def _end_of_line(self, rest: bytes) -> None:
        if self._skipping:
            self._gate.weigh(len(rest))
            self._skipping = False
            return
        line = bytes(self._part) + rest if self._part else rest
        self._part.clear()
        line = line.strip(b" \t\r")
        if line:
            self._keep(line)

    def _keep(self, line: bytes) -> None:
        if len(self._lines) >= _COUNT_MAX or self._size + len(line) > self._limits.backlog_bytes_max:
            self._gate.drop(len(line))
        elif (passed := self._sieve.message(line, once=True)) is not None:
            self._lines.append(passed)
            self._size += len(passed)

    def end(self) -> None:
        """Nothing more will come."""
        self.over = True
        self._came.set()

    async def next(self) -> bytes | None:
        """None at the end, or as soon as the gate is flooded: whoever goes on so long is not listened to."""
        while not self._lines:
            if self.over or self._gate.flooded:
                return None
            self._came.clear()
            await self._came.wait()
        if self._gate.flooded:
            return None
        line = self._lines.popleft()
        self._size -= len(line)
        return line
