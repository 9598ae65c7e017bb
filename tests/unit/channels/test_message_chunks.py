"""Markdown as the plain text of a channel without markup (Signal), and long texts in pieces."""

from __future__ import annotations

import html
import random

import pytest

from mainstay.channels.signal.markup import markdown_to_signal
from mainstay.core.message_chunks import split_message
from mainstay.testing.channel_suite import MARKDOWN, WORDS

FAMILY = "👩‍👩‍👧‍👦"
ODDS = ["a", "bc ", "\n", "\n\n", "```\n", "~~~\n", "```py\n", "&<", FAMILY, ". "]


def same(text: str) -> str:
    return text


def plain(markdown: str) -> str:
    return markdown_to_signal(markdown).text


@pytest.mark.parametrize(
    ("markdown", "text"),
    [
        ("**bold** and `code`", "bold and code"),
        ("[here](https://example.org/a)", "here (https://example.org/a)"),
        ("[the **whole** thing](https://example.org)", "the whole thing (https://example.org)"),
        ("<https://example.org>", "https://example.org"),
        ("# Title\n\ntext", "Title\n\ntext"),
        ("- a\n- b", "• a\n• b"),
        ("2 < 3 & 4 > 1, a_b_c, 3 * 4 * 5", "2 < 3 & 4 > 1, a_b_c, 3 * 4 * 5"),
        ("<b>not html</b>", "<b>not html</b>"),
        ("", ""),
    ],
)
def test_marks_go_and_words_stay(markdown: str, text: str) -> None:
    assert plain(markdown) == text


def test_all_words_of_a_document_are_there() -> None:
    for word in WORDS:
        assert word in plain(MARKDOWN)


@pytest.mark.parametrize("length", [12, 40, 100, 399, 4000])
@pytest.mark.parametrize("format", [same, html.escape, plain], ids=["same", "longer", "shorter"])
def test_no_piece_is_too_long_once_it_is_formatted_and_nothing_is_lost(length: int, format) -> None:  # type: ignore[no-untyped-def]
    text = MARKDOWN * 3 + "x" * 500 + " & " * 50
    pieces = split_message(text, format, length)
    assert all(0 < len(format(piece)) <= length for piece in pieces)
    assert pieces == [text.strip()] or len(pieces) > 1
    told = "".join("".join(piece.split()) for piece in pieces).replace("```python", "").replace("```", "")
    assert told == "".join(text.split()).replace("```python", "").replace("```", "")


def test_it_is_cut_where_a_reader_would() -> None:
    text = "A first paragraph of some length.\n\nA second paragraph. It has two sentences.\nAnd a line."
    assert split_message(text, same, 60)[0] == "A first paragraph of some length."
    assert split_message("one two three four", same, 10) == ["one two", "three four"]
    assert split_message("First sentence here. Second one follows", same, 25) == [
        "First sentence here.",
        "Second one follows",
    ]


def test_code_is_moved_whole_where_it_fits() -> None:
    code = "```python\n" + "print(1)\n" * 5 + "```"
    text = "x" * 60 + "\n\n" + code + "\n\nafter"
    assert split_message(text, same, 100)[1].startswith(code)


def test_code_that_is_too_long_is_closed_and_opened_again() -> None:
    lines = [f"line({number})" for number in range(60)]
    pieces = split_message("~~~~python\n" + "\n".join(lines) + "\n~~~~\n\nafter", same, 120)
    assert len(pieces) > 3
    for piece in pieces[:-1]:
        assert piece.startswith("~~~~python\n")
        assert piece.endswith("\n~~~~")
    told = [line for piece in pieces for line in piece.splitlines() if line.startswith("line(")]
    assert told == lines
    assert pieces[-1].endswith("after")


@pytest.mark.parametrize(
    "cluster", [FAMILY, "e\u0301", "🇩🇪", "👍🏽", "각"], ids=["family", "accent", "flag", "skin", "jamo"]
)
def test_a_grapheme_is_never_cut(cluster: str) -> None:
    for length in range(len(cluster) * 2, 40):
        for piece in split_message(cluster * 60, same, length):
            assert piece == cluster * (len(piece) // len(cluster)), length


def test_any_text_is_cut_into_pieces_that_fit() -> None:
    chance = random.Random(7)
    for _ in range(300):
        text = "".join(
            chance.choice(["a", "bc ", "\n", "\n\n", "```\n", "~~~\n", "```py\n", "&<", FAMILY, ". "])
            for _ in range(80)
        )
        length = chance.randrange(8, 120)
        pieces = split_message(text, html.escape, length)
        assert all(len(html.escape(piece)) <= length for piece in pieces)
        letters = [char for char in "".join(pieces) if char in "abc&<"]
        assert letters == [char for char in text if char in "abc&<"]


def test_a_long_text_is_cut_in_no_time() -> None:
    pieces = split_message("word " * 200_000, same, 2000)
    assert len(pieces) > 400
