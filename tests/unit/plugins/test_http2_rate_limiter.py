"""Counting of HTTP/2 frames before they reach the server of a plugin's state."""

from __future__ import annotations

import pytest

from mainstay.plugins.http2_rate_limiter import BYTES_PER_UNIT, HEADERS_FRAME_UNITS, Http2FrameCounter

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"


def frame(kind: int, payload: bytes) -> bytes:
    return len(payload).to_bytes(3) + bytes([kind, 0, 0, 0, 0, 1]) + payload


@pytest.mark.parametrize("size", [1, 2, 8, 9, 10, 1000, 100_000])
def test_frames_are_counted_however_they_are_cut(size: int) -> None:
    sent = PREFACE + frame(4, b"") + frame(1, b"h" * 300) + frame(0, b"\x00\x00\x00" * 1000) + frame(6, b"12345678") * 3
    frames = Http2FrameCounter()
    found = sum(frames.count_units(sent[at : at + size]) for at in range(0, len(sent), size))
    assert found == pytest.approx(5 + HEADERS_FRAME_UNITS + len(sent) / BYTES_PER_UNIT)
