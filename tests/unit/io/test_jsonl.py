"""Lines of JSON after a crash: whole ones are kept, the torn end is dropped and reported (F10)."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mainstay.io.jsonl import JsonlBroken, JsonlContent, parse_jsonl

ROWS: list[dict[str, Any]] = [
    {"seq": 1, "text": "plain"},
    {"seq": 2, "text": 'Zoë 🐍 \u2028 \x85 line\nbreak \\ " {}'},
    {"seq": 3, "text": "日本 the last é", "more": {"a": [1, 2, {"b": None}]}},
]


def line(row: dict[str, Any]) -> bytes:
    return json.dumps(row, ensure_ascii=False).encode() + b"\n"


WHOLE = b"".join(line(row) for row in ROWS)
LAST = line(ROWS[-1])
EARLIER = WHOLE[: -len(LAST)]


def test_a_whole_file_is_read_and_nothing_is_said() -> None:
    assert parse_jsonl(WHOLE) == JsonlContent(ROWS)
    assert parse_jsonl(WHOLE).damage == ""
    assert parse_jsonl(b"") == parse_jsonl(b"\n \r\n") == JsonlContent([])


def test_f10_cut_at_every_byte_of_the_last_record_all_earlier_lines_are_kept_and_the_rest_is_reported() -> None:
    for cut in range(len(LAST) + 1):
        read = parse_jsonl(EARLIER + LAST[:cut])
        if cut >= len(LAST) - 1:  # only the end of the line is missing
            assert read == JsonlContent(ROWS)
        elif cut == 0:
            assert read == JsonlContent(ROWS[:-1])
        else:
            assert read.objects == ROWS[:-1]
            size = "1 byte" if cut == 1 else f"{cut} bytes"
            assert read.truncation == f"line 3 is cut off; what there was of it ({size}) was left out"


@pytest.mark.parametrize("fill", [b"\0", b"\0" * 4096, b"\0\n\0\r\n", b"\r\n\0"], ids=["one", "page", "ends", "after"])
def test_f10_zeros_at_the_end_are_dropped_at_any_cut(fill: bytes) -> None:
    for cut in range(len(LAST) + 1):
        read = parse_jsonl(EARLIER + LAST[:cut] + fill)
        assert read.objects == (ROWS if cut >= len(LAST) - 1 else ROWS[:-1])
        assert read.truncation
        assert ("zeros" in read.truncation) == (cut in (0, len(LAST) - 1, len(LAST)))


@pytest.mark.parametrize("end", [b"\n", b"\r\n"], ids=["lf", "crlf"])
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"], ids=["plain", "bom"])
def test_f10_foreign_line_ends_and_marks_change_nothing(end: bytes, mark: bytes) -> None:
    data = mark + WHOLE.replace(b"\n", end)
    assert parse_jsonl(data) == JsonlContent(ROWS)
    assert parse_jsonl(data + mark + WHOLE.replace(b"1", b"7").replace(b"\n", end)[:9]).objects == ROWS
    for cut in range(len(LAST) - 1):
        assert parse_jsonl(data[: len(data) - len(LAST) - len(end) + 1 + cut]).objects == ROWS[:-1]


def test_f10_cut_inside_a_character_is_cut_and_nothing_else() -> None:
    at = WHOLE.rindex("é".encode()) + 1
    assert parse_jsonl(WHOLE[:at]).objects == ROWS[:-1]
    assert parse_jsonl(WHOLE[:at] + b"\n").objects == ROWS[:-1]  # also if its line was ended since
    assert "line 3 is cut off" in parse_jsonl(WHOLE[:at]).truncation


@pytest.mark.parametrize(
    "broken",
    [
        b'{"seq": 9, "te',
        b'{"seq": 9}}',
        b"nonsense",
        b"7",
        b"[]",
        b'{"a": "\xff"}',
        b"\0\0{}",
        b'{"a": \0\0}',
        b"{" * 9999,
    ],
    ids=["cut", "more", "words", "number", "list", "utf8", "zeros", "inside", "deep"],
)
@pytest.mark.parametrize("at", [0, 1, 2])
def test_f10_a_broken_line_with_whole_ones_after_it_was_not_torn_and_is_named(broken: bytes, at: int) -> None:
    lines = [line(row) for row in ROWS]
    lines.insert(at, broken + b"\r\n")
    with pytest.raises(JsonlBroken, match=rf"\Aline {at + 1} is not JSON: ") as caught:
        parse_jsonl(b"".join(lines))
    assert caught.value.line == at + 1


@pytest.mark.parametrize("end", [b"nonsense", b"7", b"[]", b"null", b'"text"', b"\xff\xfe{", b"}"])
def test_f10_an_end_that_no_object_begins_with_is_no_torn_one(end: bytes) -> None:
    with pytest.raises(JsonlBroken, match="line 4"):
        parse_jsonl(WHOLE + end)


def test_lines_are_counted_as_a_person_counts_them() -> None:
    with pytest.raises(JsonlBroken) as caught:
        parse_jsonl(b"\n\n" + line(ROWS[0]) + b"\r\n\noops\n" + line(ROWS[1]))
    assert caught.value.line == 6


def test_f10_a_repeated_line_is_kept_once_and_reported() -> None:
    read = parse_jsonl(WHOLE + LAST)
    assert read.objects == ROWS
    assert read.duplicates == "line 4 has the same content as an earlier line, left out"
    read = parse_jsonl(WHOLE * 3)
    assert read.objects == ROWS
    assert read.duplicates == "lines 4, 5, 6, 7, 8 and 1 more have the same content as an earlier line, left out"
    assert parse_jsonl(WHOLE + LAST + LAST[:9]).damage.count("; ") == 2


def test_f10_the_same_number_with_another_content_is_kept_and_reported() -> None:
    other = {"seq": 3, "text": "another"}
    read = parse_jsonl(WHOLE + line(other))
    assert read.objects == [*ROWS, other]
    assert read.duplicates == "line 4 has the number of an earlier line, kept"
    named = [{"messageId": "a", "text": "x"}, {"messageId": "b", "text": "x"}, {"messageId": "a", "text": "x"}]
    assert parse_jsonl(b"".join(line(row) for row in named)).objects == named[:2]


def test_lines_without_a_number_may_repeat() -> None:
    said = [{"role": "user", "content": "ok"}] * 3
    assert parse_jsonl(b"".join(line(row) for row in said)) == JsonlContent(said)


def test_a_file_of_which_nothing_is_whole_has_no_objects() -> None:
    assert parse_jsonl(LAST[:9]) == JsonlContent([], "line 1 is cut off; what there was of it (9 bytes) was left out")
    assert parse_jsonl(b"\0" * 10) == JsonlContent([], "10 bytes of zeros at the end left out")


def test_a_hostile_file_does_not_take_long() -> None:
    began = time.process_time()
    same = b"".join(b'{"seq": 1, "n": %d}\n' % n for n in range(50_000))
    assert len(parse_jsonl(same).objects) == 50_000
    parse_jsonl(b"\n" * 2_000_000)
    parse_jsonl(WHOLE + b"\0" * 5_000_000)
    parse_jsonl(WHOLE + b"{" * 2_000_000)
    assert time.process_time() - began < 10


@settings(max_examples=150, deadline=None)
@given(
    rows=st.lists(st.dictionaries(st.text(max_size=5), st.text(max_size=10), max_size=3), min_size=1, max_size=5),
    data=st.data(),
)
def test_f10_a_file_cut_at_any_byte_keeps_its_whole_lines(rows: list[dict[str, str]], data: st.DataObject) -> None:
    made = [line({"n": number} | row) for number, row in enumerate(rows)]
    whole = b"".join(made)
    cut = data.draw(st.integers(0, len(whole)))
    kept = sum(len(b"".join(made[: number + 1])) - 1 <= cut for number in range(len(made)))
    read = parse_jsonl(whole[:cut])
    assert read.objects == [{"n": number} | row for number, row in enumerate(rows)][:kept]
    assert bool(read.truncation) == (len(b"".join(made[:kept])) < cut)
