"""Lines that come in pieces, each bounded."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mainstay.server.line_splitter import LineSplitter


def cut(data: bytes, sizes: list[int]) -> list[bytes]:
    made, at = [], 0
    for size in sizes:
        made.append(data[at : at + size])
        at += size
    return [*made, data[at:]]


@given(st.lists(st.binary(max_size=12).filter(lambda one: b"\n" not in one)), st.lists(st.integers(0, 9)))
def test_lines_come_out_as_they_went_in_however_they_are_cut(lines: list[bytes], sizes: list[int]) -> None:
    split = LineSplitter(10)
    data = b"".join(line + b"\n" for line in lines)
    came = [line for piece in cut(data, sizes) for line in split.feed(piece)]
    assert came == [line if len(line) <= 10 else None for line in lines]
    assert split.finish() == []


def test_a_last_line_without_an_end_is_a_line() -> None:
    split = LineSplitter()
    assert split.feed(b"one\ntw") == [b"one"]
    assert split.feed(b"o") == []
    assert split.finish() == [b"two"]
    assert split.finish() == []


def test_an_endless_line_is_not_held() -> None:
    split = LineSplitter(1000)
    for _ in range(10_000):
        assert split.feed(b"x" * 500) == []
    assert sum(map(len, split._pieces)) <= 1000
    assert split.feed(b"x\nnext\n") == [None, b"next"]
