"""F37: nothing that a model or a tool writes reaches the terminal as a command."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainstay.guards.terminal_sanitizer import (
    StreamSanitizer,
    escape_json,
    escape_line,
    keep_only_colours,
    sanitize_text,
)

FORBIDDEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
ATTACKS = [
    ("\x1b]0;a new title\x07text", "text"),
    ("\x1b]52;c;aGVsbG8=\x1b\\text", "text"),
    ("\x1b]8;;https://evil.example\x1b\\click\x1b]8;;\x1b\\", "click"),
    ("\x1b[31mred\x1b[0m", "red"),
    ("\x9b31mred", "red"),
    ("\x1b[2J\x1b[Hgone", "gone"),
    ("\x1bP1$r0m\x1b\\text", "text"),
    ("\x1b(0text", "text"),
    ("safe\rrm -rf", "saferm -rf"),
    ("one\r\ntwo", "one\ntwo"),
    ("a\x08\x08b\x00\x7f", "ab"),
    ("\u202egpj.exe\u202c", "gpj.exe"),
    ("\u2066hidden\u2069", "hidden"),
    ("\x1b]0;never closed", "]0;never closed"),
    ("half \x1b", "half "),
    ("\ud800lone", "lone"),
    ("tab\tand\nline", "tab\tand\nline"),
    ("a\u200b\u2060\ufeff\u00ad\U000e0041b", "ab"),
    ("one\u2028two\u2029three", "one\ntwo\nthree"),
    ("e" + "\u0301" * 50_000 + "x", "e" + "\u0301" * 6 + "x"),
    ("שלום 👩‍👩‍👧 مرحبا", "שלום 👩‍👩‍👧 مرحبا"),
]

ORDINARY = st.characters(
    exclude_categories=["Cc", "Cs", "Cf", "Cn", "Zl", "Zp", "Mn", "Me"],
    exclude_characters="\u115f\u1160\u3164\uffa0",  # invisible letters
)

hostile = st.text(
    alphabet=st.one_of(
        st.sampled_from(
            "\x1b\x9b\x9d\x90\x07\x9c\r\n\t[]0;31mPX^_\\()\u202e\u2066\u2028\u200b\u0301\u0301\u0301\ufe0f "
        ),
        st.characters(codec=None),
    ),
    max_size=80,
)


@pytest.mark.parametrize(("text", "shown"), ATTACKS, ids=range(len(ATTACKS)))
def test_escape_sequences_go_and_text_stays(text: str, shown: str) -> None:
    assert sanitize_text(text) == shown


@given(hostile)
def test_no_control_character_survives(text: str) -> None:
    assert not FORBIDDEN.search(sanitize_text(text))
    assert not FORBIDDEN.search(escape_line(text))
    assert "\n" not in escape_line(text)


@given(st.lists(hostile, max_size=8))
def test_text_in_pieces_is_as_safe_as_the_whole(pieces: list[str]) -> None:
    stream = StreamSanitizer()
    shown = "".join(stream.feed(piece) for piece in pieces) + stream.finish()
    assert not FORBIDDEN.search(shown)
    assert shown == sanitize_text("".join(pieces))


@given(st.text(alphabet=ORDINARY))
def test_ordinary_text_is_unchanged(text: str) -> None:
    assert sanitize_text(text) == text


def test_a_sequence_cut_anywhere_is_still_seen_whole() -> None:
    whole = "a\x1b]52;c;aGVsbG8=\x1b\\b\x1b[31mc"
    for cut in range(len(whole)):
        stream = StreamSanitizer()
        assert stream.feed(whole[:cut]) + stream.feed(whole[cut:]) + stream.finish() == "abc"


def test_an_endless_sequence_is_not_held_for_ever() -> None:
    stream = StreamSanitizer()
    stream.feed("\x1b]0;")
    assert len("".join(stream.feed("x" * 1000) for _ in range(10))) > 5000


def test_a_flood_of_marks_is_no_more_in_pieces_than_at_once() -> None:
    stream = StreamSanitizer()
    assert "".join(stream.feed("\u0301\u0301") for _ in range(1000)) + stream.feed("e") == "\u0301" * 6 + "e"
    assert escape_line("e" + "\u0301" * 9) == "e" + "\u0301" * 6 + "(and 3 more marks)"


def test_drawn_text_sets_colours_and_nothing_else() -> None:
    assert keep_only_colours("\x1b[1;31mred\x1b[0m\x1b[2J\x1b]0;t\x07\x9b1m\r\x01x\x02\u202e\n") == (
        "\x1b[1;31mred\x1b[0m[2J]0;t1mx\n"
    )


def test_visible_hides_nothing_and_stays_on_one_line() -> None:
    assert escape_line("rm x\n\x1b[8m; rm y\u202e") == "rm x\\n\\x1b[8m; rm y\\u202e"
    assert escape_line("long text", 6) == "long …"


@given(st.text(alphabet=st.characters(exclude_categories=["Cs"])))
def test_json_stays_the_same_document(text: str) -> None:
    document = escape_json(json.dumps({"text": text}, ensure_ascii=False))
    assert json.loads(document) == {"text": text}
    assert not FORBIDDEN.search(document)
