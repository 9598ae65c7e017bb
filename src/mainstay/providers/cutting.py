"""JSON by the line, cut from bytes as they arrive."""

from __future__ import annotations

from mainstay.providers.sse import STRAY_BYTES_MAX, EventCutter


class LineCutter(EventCutter):
    """One JSON object a line. A last line without an end counts: whether it is whole, its JSON says."""

    __slots__ = ()

    def feed(self, data: bytes) -> list[bytes]:
        if b"\n" not in data:  # joined only when a line ends, or a long one would cost its square
            return self._hold(data)
        lines = self._joined(data).split(b"\n")
        rest = lines.pop()
        payloads = self._pick(lines)
        self._hold(rest)
        return payloads

    def end(self) -> list[bytes]:
        return self._pick([self._joined(b"")])

    def _pick(self, lines: list[bytes]) -> list[bytes]:
        """What is there instead of a first object is no stream at all."""
        payloads: list[bytes] = []
        for line in lines:
            line = line.strip()
            if self._started or line.startswith(b"{"):
                self._started = True
                if line:
                    payloads.append(line)
            elif line and len(self.stray) < STRAY_BYTES_MAX:
                self.stray += line[:STRAY_BYTES_MAX] + b"\n"
        return payloads
