"""Amazon's event stream, cut from bytes as they arrive: binary frames, each with two checksums.

A frame is its length, the length of its headers, a checksum of these two, the headers, the payload, and a checksum of
all that. Only three headers matter: whether it is an event or an error, and which.
"""

from __future__ import annotations

import struct
import zlib
from functools import lru_cache

from mainstay.core.errors import StreamBroken
from mainstay.providers.sse import EVENT_BYTES_MAX, STRAY_BYTES_MAX, EventCutter

HEADERS_BYTES_MAX = 16 * 1024
_PRELUDE = struct.Struct(">III")
_STRING = 7
_SIZES = {0: 0, 1: 0, 2: 1, 3: 2, 4: 4, 5: 8, 8: 8, 9: 16}  # of a header's value, by its type; 6 and 7 say theirs


class FrameCutter(EventCutter):
    """Payloads leave as JSON objects with one field, named for the event: `{"contentBlockDelta":{…}}`."""

    __slots__ = ("_need",)

    def __init__(self) -> None:
        super().__init__()
        self._need = _PRELUDE.size  # bytes until there is more to know

    def feed(self, data: bytes) -> list[bytes]:
        self._hold(data)
        if self._held < self._need:
            return []
        data = self._joined(b"")
        payloads: list[bytes] = []
        place = 0
        while len(data) - place >= _PRELUDE.size:
            total = self._size(data, place)
            if not total:
                return payloads
            if len(data) - place < total:
                break
            payloads.append(_read(data[place : place + total]))
            self._started = True
            place += total
        self._hold(data[place:])
        self._need = self._size(data, place) if len(data) - place >= _PRELUDE.size else _PRELUDE.size
        return payloads

    def end(self) -> list[bytes]:
        """Half a frame says nothing; what is none at all is told apart."""
        if not self._started:
            self.stray = (self.stray + self._joined(b""))[:STRAY_BYTES_MAX]
        return []

    def _size(self, data: bytes, place: int) -> int:
        """Of the frame that begins there; 0 if this is something else altogether."""
        total, headers, checksum = _PRELUDE.unpack_from(data, place)
        sound = zlib.crc32(data[place : place + 8]) == checksum and headers <= min(total - 16, HEADERS_BYTES_MAX)
        if sound:
            if total > EVENT_BYTES_MAX:
                raise StreamBroken(f"the model sent a single event of more than {EVENT_BYTES_MAX // 1024 // 1024} MB")
            return int(total)
        if self._started:
            raise StreamBroken("the answer came garbled: a frame's checksum is wrong")
        self.stray = (self.stray + data[place:])[:STRAY_BYTES_MAX]
        return 0


def _read(frame: bytes) -> bytes:
    _, size, _ = _PRELUDE.unpack_from(frame)
    (checksum,) = struct.unpack_from(">I", frame, len(frame) - 4)
    if zlib.crc32(frame[:-4]) != checksum:
        raise StreamBroken("the answer came garbled: a frame's checksum is wrong")
    before, after = _wrapping(frame[12 : 12 + size])
    return before + (frame[12 + size : -4] or b"{}") + after


@lru_cache(maxsize=64)  # a stream's frames have a few different headers, and there are many
def _wrapping(head: bytes) -> tuple[bytes, bytes]:
    """What stands around a payload for these headers."""
    headers = _headers(head)
    kind = headers.get(b":message-type")
    if kind == b"event":
        return b'{"%b":' % headers.get(b":event-type", b""), b"}"
    if kind == b"exception":
        return b'{"exception":"%b","error":' % headers.get(b":exception-type", b""), b"}"
    said = headers.get(b":error-message", b"").replace(b"\\", b"").replace(b'"', b"'")
    return b'{"exception":"%b","error":{"message":"%b"},"rest":' % (headers.get(b":error-code", b""), said), b"}"


def _headers(data: bytes) -> dict[bytes, bytes]:
    made: dict[bytes, bytes] = {}
    place = 0
    try:
        while place < len(data):
            end = place + 1 + data[place]
            name, kind = data[place + 1 : end], data[end]
            place = end + 1
            size = _SIZES.get(kind)
            if size is None:
                size = int.from_bytes(data[place : place + 2])
                place += 2
            if kind == _STRING:
                made[name] = data[place : place + size]
            place += size
    except IndexError:
        raise StreamBroken("the answer came garbled: a frame's headers make no sense") from None
    return made
