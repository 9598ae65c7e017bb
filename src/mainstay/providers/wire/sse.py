"""Decoder for server-sent events (SSE).

Only `data` is used: model APIs repeat the event's name inside it. The bytes may be cut anywhere, so nothing is decoded
to text before an event is complete.
"""

from __future__ import annotations

from mainstay.core.errors import StreamBroken

EVENT_BYTES_MAX = 4 * 1024 * 1024
NON_EVENT_BYTES_MAX = 2048
_BOM = b"\xef\xbb\xbf"
_IGNORED_FIELDS = (b"event", b"id", b"retry")
_FIELD_STARTS = (b"data:", b"event:", b"id:", b"retry:", b":")


class SseDecoder:
    """Splits bytes into the payloads of complete events.

    `non_event_data` has the beginning of data that is no event, such as an HTML page or a JSON body.
    """

    __slots__ = ("_buffered_bytes", "_data_lines", "_ended_with_cr", "_has_started", "_partial_line", "non_event_data")

    def __init__(self) -> None:
        self._partial_line: list[bytes] = []  # parts of the incomplete line
        self._data_lines: list[bytes] = []  # data lines of the incomplete event
        self._buffered_bytes = 0  # bytes of both
        self._ended_with_cr = False
        self._has_started = False
        self.non_event_data = b""

    def feed(self, data: bytes) -> list[bytes]:
        """Return the payloads of the events that these bytes complete. Raises StreamBroken if an event is too large."""
        is_one_event = data[:6] == b"data: " and data[-2:] == b"\n\n" and data.find(b"\n") == len(data) - 2 > 6
        if is_one_event and self._is_between_events and b"\r" not in data:  # the fast path of a slow stream
            return [data[6:-2]]
        return self._parse(data)

    @property
    def _is_between_events(self) -> bool:
        """Whether no event is incomplete, so that a single complete one needs no further parsing."""
        return self._has_started and not (self._partial_line or self._data_lines or self._ended_with_cr)

    def _parse(self, data: bytes) -> list[bytes]:
        if not self._has_started or self._ended_with_cr:
            data = self._strip_start(data)
        if b"\r" in data:
            self._ended_with_cr = data.endswith(b"\r")
            data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        if self._partial_line:
            if b"\n" not in data:  # join only at a line end: joining each time is quadratic
                return self._buffer_partial(data)
            data = self._join_partial(data)
        if not self._data_lines and data.startswith(b"data: "):
            payloads = self._parse_single_line_events(data)
            if payloads:
                return payloads
        lines = data.split(b"\n")
        rest = lines.pop()
        payloads = self._parse_lines(lines)
        self._buffer_partial(rest)
        return payloads

    def _parse_single_line_events(self, data: bytes) -> list[bytes]:
        """Parse events of one `data: ` line each, which nearly all are; an empty list if some are not."""
        end = data.rfind(b"\n\n")
        if end < 0:
            return []
        payloads = data[6:end].split(b"\n\ndata: ")
        if data.count(b"\n", 0, end + 2) != 2 * len(payloads) or not all(payloads):
            return []
        self._buffered_bytes = 0
        self._buffer_partial(data[end + 2 :])
        return payloads

    def flush(self) -> list[bytes]:
        """Return the last event at the end of the stream, if its last line is complete."""
        lines = self._join_partial(b"").split(b"\n")
        rest = lines.pop()
        payloads = self._parse_lines([*lines, b""])
        if rest and not _may_begin_field(rest):
            self.non_event_data = (self.non_event_data + rest)[:NON_EVENT_BYTES_MAX]
        return payloads

    def _join_partial(self, data: bytes) -> bytes:
        if not self._partial_line:
            return data
        joined = b"".join([*self._partial_line, data])
        self._partial_line.clear()
        self._buffered_bytes -= len(joined) - len(data)
        return joined

    def _strip_start(self, data: bytes) -> bytes:
        """Drop the second half of a split \\r\\n, and a byte-order mark before the first event."""
        if self._ended_with_cr and data:
            self._ended_with_cr = False
            if data[:1] == b"\n":
                data = data[1:]
        if not self._has_started:
            data = self._join_partial(data)
            if len(data) < len(_BOM) and _BOM.startswith(data):
                self._buffer_partial(data)
                return b""
            self._has_started = True
            data = data.removeprefix(_BOM)
        return data

    def _buffer_partial(self, piece: bytes) -> list[bytes]:
        if piece:
            self._partial_line.append(piece)
            self._count_buffered(len(piece))
        return []

    def _count_buffered(self, size: int) -> None:
        self._buffered_bytes += size
        if self._buffered_bytes > EVENT_BYTES_MAX:
            sentence = f"the model sent a single event of more than {EVENT_BYTES_MAX // 1024 // 1024} MB"
            raise StreamBroken(sentence, retryable=False)

    def _parse_lines(self, lines: list[bytes]) -> list[bytes]:
        payloads: list[bytes] = []
        for line in lines:
            if not line:
                if self._data_lines:
                    payload = b"\n".join(self._data_lines)
                    self._data_lines.clear()
                    if payload:
                        payloads.append(payload)
                self._buffered_bytes = 0
                continue
            field, _, value = line.partition(b":")
            if field == b"data":
                self._data_lines.append(value[1:] if value[:1] == b" " else value)
                self._count_buffered(len(line))
            elif field and field not in _IGNORED_FIELDS and len(self.non_event_data) < NON_EVENT_BYTES_MAX:
                self.non_event_data += line[:NON_EVENT_BYTES_MAX] + b"\n"
        return payloads


def _may_begin_field(line: bytes) -> bool:
    """Return True if an incomplete line may be the beginning of a field, cut off with the stream."""
    return any(line.startswith(start) or start.startswith(line) for start in _FIELD_STARTS)
