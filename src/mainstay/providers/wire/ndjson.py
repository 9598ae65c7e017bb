"""Decoder for newline-delimited JSON (NDJSON) streams."""

from __future__ import annotations

from mainstay.providers.wire.sse import NON_EVENT_BYTES_MAX, SseDecoder


class NdjsonDecoder(SseDecoder):
    """Splits bytes into lines of JSON. A last line without a line end counts: its JSON shows whether it is complete."""

    __slots__ = ()

    def feed(self, data: bytes) -> list[bytes]:
        if b"\n" not in data:  # join only at a line end: joining each time is quadratic in the length of a line
            return self._buffer_partial(data)
        lines = self._join_partial(data).split(b"\n")
        rest = lines.pop()
        payloads = self._select_objects(lines)
        self._buffer_partial(rest)
        return payloads

    def flush(self) -> list[bytes]:
        return self._select_objects([self._join_partial(b"")])

    def _select_objects(self, lines: list[bytes]) -> list[bytes]:
        """Return the lines that are payloads. Anything before the first object goes to `non_event_data`."""
        payloads: list[bytes] = []
        for line in lines:
            line = line.strip()
            if self._has_started or line.startswith(b"{"):
                self._has_started = True
                if line:
                    payloads.append(line)
            elif line and len(self.non_event_data) < NON_EVENT_BYTES_MAX:
                self.non_event_data += line[:NON_EVENT_BYTES_MAX] + b"\n"
        return payloads
