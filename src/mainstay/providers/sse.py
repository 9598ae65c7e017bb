"""Server-sent events, cut from bytes as they arrive.

Only `data` matters here: model APIs repeat the event's name inside it. The stream may be cut anywhere, so
nothing is decoded to text before an event is whole.
"""

from __future__ import annotations

from mainstay.core.errors import StreamBroken

EVENT_BYTES_MAX = 4 * 1024 * 1024
STRAY_BYTES_MAX = 2048
_BOM = b"\xef\xbb\xbf"
_FIELDS = (b"event", b"id", b"retry")


class EventCutter:
    """Give it bytes, get the payloads of the events that became whole.

    `stray` keeps the beginning of what is no event at all: a page or a JSON body that came instead.
    """

    __slots__ = ("_after_cr", "_held", "_line", "_lines", "_started", "stray")

    def __init__(self) -> None:
        self._line: list[bytes] = []  # pieces of the line that is not complete yet
        self._lines: list[bytes] = []  # data lines of the event that is not complete yet
        self._held = 0  # bytes of both
        self._after_cr = False
        self._started = False
        self.stray = b""

    def feed(self, data: bytes) -> list[bytes]:
        alone = data[:6] == b"data: " and data[-2:] == b"\n\n" and data.find(b"\n") == len(data) - 2 > 6
        if alone and self._ready and b"\r" not in data:  # as a paced stream comes
            return [data[6:-2]]
        return self._feed(data)

    @property
    def _ready(self) -> bool:
        """Between two events, where one that comes whole and alone needs no more looking at."""
        return self._started and not (self._line or self._lines or self._after_cr)

    def _feed(self, data: bytes) -> list[bytes]:
        if not self._started or self._after_cr:
            data = self._without_head(data)
        if b"\r" in data:
            self._after_cr = data.endswith(b"\r")
            data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        if self._line:
            if b"\n" not in data:  # joined only when a line ends, or a long one would cost its square
                return self._hold(data)
            data = self._joined(data)
        if not self._lines and data.startswith(b"data: "):
            payloads = self._read_ordinary(data)
            if payloads:
                return payloads
        lines = data.split(b"\n")
        rest = lines.pop()
        payloads = self._read_lines(lines)
        self._hold(rest)
        return payloads

    def _read_ordinary(self, data: bytes) -> list[bytes]:
        """Events of one `data: ` line each, which is nearly all there is; an empty list if these are others."""
        end = data.rfind(b"\n\n")
        if end < 0:
            return []
        payloads = data[6:end].split(b"\n\ndata: ")
        if data.count(b"\n", 0, end + 2) != 2 * len(payloads) or not all(payloads):
            return []
        self._held = 0
        self._hold(data[end + 2 :])
        return payloads

    def end(self) -> list[bytes]:
        """The stream is over: an event whose last line was complete counts, half a line does not."""
        lines = self._joined(b"").split(b"\n")
        rest = lines.pop()
        payloads = self._read_lines([*lines, b""])
        if rest and not rest.startswith((b"data", b":")):
            self.stray = (self.stray + rest)[:STRAY_BYTES_MAX]
        return payloads

    def _joined(self, data: bytes) -> bytes:
        if not self._line:
            return data
        whole = b"".join([*self._line, data])
        self._line.clear()
        self._held -= len(whole) - len(data)
        return whole

    def _without_head(self, data: bytes) -> bytes:
        """Drop the rest of a \\r\\n that was cut in two, and a byte-order mark before the first event."""
        if self._after_cr and data:
            self._after_cr = False
            if data[:1] == b"\n":
                data = data[1:]
        if not self._started:
            data = self._joined(data)
            if len(data) < len(_BOM) and _BOM.startswith(data):
                self._hold(data)
                return b""
            self._started = True
            data = data.removeprefix(_BOM)
        return data

    def _hold(self, piece: bytes) -> list[bytes]:
        if piece:
            self._line.append(piece)
            self._count(len(piece))
        return []

    def _count(self, size: int) -> None:
        self._held += size
        if self._held > EVENT_BYTES_MAX:
            raise StreamBroken(f"the model sent a single event of more than {EVENT_BYTES_MAX // 1024 // 1024} MB")

    def _read_lines(self, lines: list[bytes]) -> list[bytes]:
        payloads: list[bytes] = []
        for line in lines:
            if not line:
                if self._lines:
                    payload = b"\n".join(self._lines)
                    self._lines.clear()
                    if payload:
                        payloads.append(payload)
                self._held = 0
                continue
            field, _, value = line.partition(b":")
            if field == b"data":
                self._lines.append(value[1:] if value[:1] == b" " else value)
                self._count(len(line))
            elif field and field not in _FIELDS and len(self.stray) < STRAY_BYTES_MAX:
                self.stray += line[:STRAY_BYTES_MAX] + b"\n"
        return payloads
