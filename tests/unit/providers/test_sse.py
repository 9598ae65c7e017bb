"""Server-sent events from bytes: the same at any cut, and never more than is allowed."""

from __future__ import annotations

import time
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainstay.core.errors import StreamBroken
from mainstay.providers.wire.sse import EVENT_BYTES_MAX, SseDecoder


def cut(*parts: bytes) -> list[bytes]:
    cutter = SseDecoder()
    return [payload for part in parts for payload in cutter.feed(part)] + cutter.flush()


@pytest.mark.parametrize(
    ("stream", "payloads"),
    [
        (b"data: a\n\ndata: b\n\n", [b"a", b"b"]),
        (b"data:a\r\n\r\ndata:  b\r\n\r\n", [b"a", b" b"]),
        (b"data: a\rdata: b\r\r", [b"a\nb"]),
        (b"data: a\r\ndata: b\r\n\r\n", [b"a\nb"]),
        (b"\xef\xbb\xbfdata: a\n\n", [b"a"]),
        (b": hi\n\nevent: x\ndata: a\nid: 1\n\n:\n\n", [b"a"]),
        (b"data: a\ndata: b\n\n", [b"a\nb"]),
        (b"data\n\ndata:\n\ndata: \n\ndata: a\n\n", [b"a"]),
        (b"\n\n\ndata: a\n\n\n\n", [b"a"]),
        (b"data: a\n", [b"a"]),
        (b"data: a\n\ndata: half", [b"a"]),
        (b"database: x\n\ndata: a\n\n", [b"a"]),
        (b"", []),
    ],
)
def test_every_way_to_write_them_at_every_cut(stream: bytes, payloads: list[bytes]) -> None:
    assert cut(stream) == payloads
    assert cut(*(stream[at : at + 1] for at in range(len(stream)))) == payloads
    for at in range(len(stream)):
        assert cut(stream[:at], stream[at:]) == payloads


lines = st.sampled_from([b"data: a", b"data:b", b"", b"", b"", b": c", b"event: e", b"junk", b"data: \xc3\xa9"])
ends = st.sampled_from([b"\n", b"\r\n", b"\r"])


@given(st.lists(lines, max_size=12), ends, st.lists(st.integers(0, 80), max_size=5))
def test_cuts_never_change_what_is_read(made: list[bytes], end: bytes, cuts: list[int]) -> None:
    stream = b"".join(line + end for line in made)
    places = [0, *sorted(at for at in cuts if at < len(stream)), len(stream)]
    parts = [stream[a:b] for a, b in pairwise(places)]
    assert cut(*parts) == cut(stream.replace(end, b"\n"))


def test_bytes_outside_events_are_kept_up_to_a_limit() -> None:
    cutter = SseDecoder()
    cutter.feed(b'{\n  "error": {"message": "no"}\n}')
    cutter.flush()
    assert b'"message": "no"' in cutter.non_event_data
    cutter = SseDecoder()
    cutter.feed(b"<html>" + b"x\n" * 1_000_000)
    assert len(cutter.non_event_data) < 5000


@pytest.mark.parametrize("piece", [b"x" * 1000, b"data: " + b"x" * 1000 + b"\n"], ids=["one line", "many lines"])
def test_f20_an_event_without_end_is_refused_in_bounded_time(piece: bytes) -> None:
    count = EVENT_BYTES_MAX // 1000 + 2
    began = time.process_time()
    with pytest.raises(StreamBroken):
        cut(b"data: ", *[piece] * count)
    assert time.process_time() - began < 2
