"""Splits long Markdown messages into chunks that a chat platform accepts, at paragraphs and outside of code blocks."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable

_FENCE = re.compile(r"^ {0,3}(`{3,}|~{3,})([^\n]*)$", re.MULTILINE)
_BREAKS = ("\n\n", "\n", ". ", " ")  # the best first: a paragraph, a line, a sentence, a word
_FILL_MIN = 0.5  # a better break is taken only if the chunk is at least this full
_INFO_CHARS_MAX = 20  # of a fence's info string: the language, mostly
_GRAPHEME_CODE_POINTS_MAX = 64  # code points of one grapheme cluster; longer ones (zalgo text) are cut

MarkupConverter = Callable[[str], str]


def split_message(text: str, format: MarkupConverter, length_max: int) -> list[str]:
    """Split Markdown into pieces that have at most `length_max` characters after `format`; no text is lost.

    A code block that has to be cut is closed and opened again in the next piece.
    """
    pieces: list[str] = []
    rest = text.replace("\r\n", "\n").strip("\n").rstrip()
    while rest:
        piece, rest = _next_piece(rest, format, length_max)
        if piece.strip():
            pieces.append(piece)
    return pieces


def _next_piece(text: str, format: MarkupConverter, length_max: int) -> tuple[str, str]:
    """Return a piece that fits and the rest, which is always shorter than `text`."""
    chars = length_max
    while chars > 0:
        piece, rest = (text, "") if len(text) <= chars else _split_at(text, chars)
        size = len(format(piece))
        if size <= length_max and len(rest) < len(text):
            return piece, rest
        # too long after formatting: take proportionally less, and at least one character less
        chars = min(int(chars * length_max / size) if size > length_max else chars, chars - 1)
    return text[:1], text[1:]  # not even one character fits: the platform will reject it


def _split_at(text: str, chars_max: int) -> tuple[str, str]:
    """Split in two, the first part with at most about `chars_max` characters."""
    cut = _find_break(text, chars_max)
    fence = _find_open_fence(text, cut)
    if fence is None:
        return text[:cut].rstrip(), text[cut:].lstrip("\n ")
    if fence.start() >= chars_max * _FILL_MIN:  # better before the block than inside it
        return text[: fence.start()].rstrip(), text[fence.start() :]
    closing = f"\n{fence[1]}"
    opening = fence[1] + fence[2].strip()[:_INFO_CHARS_MAX].partition(" ")[0] + "\n"
    newline = text.rfind("\n", fence.end() + 1, chars_max - len(closing))
    cut = newline + 1 if newline > fence.end() else _grapheme_boundary(text, chars_max - len(closing))
    if cut <= fence.end():  # not even the first line of code fits: cut it like plain text
        return text[: _grapheme_boundary(text, chars_max)], text[_grapheme_boundary(text, chars_max) :]
    rest = text[cut:]
    if _is_closing_fence(rest, fence[1]):  # only the closing fence was left
        return text[:cut].rstrip("\n") + closing, rest.partition("\n")[2].lstrip("\n")
    return text[:cut].rstrip("\n") + closing, opening + rest


def _find_break(text: str, chars_max: int) -> int:
    """Return the best position to cut at, at most `chars_max`."""
    for mark in _BREAKS:
        position = text.rfind(mark, int(chars_max * _FILL_MIN), chars_max + 1)
        if position > 0 and position + len(mark.rstrip()) <= chars_max:
            return position + len(mark.rstrip())
    return _grapheme_boundary(text, chars_max)


def _find_open_fence(text: str, upto: int) -> re.Match[str] | None:
    """Return the opening fence of the code block that position `upto` is in, or None."""
    opening: re.Match[str] | None = None
    for fence in _FENCE.finditer(text, 0, upto):
        if opening is None:
            opening = fence
        elif fence[1].startswith(opening[1]) and not fence[2].strip():
            opening = None
    return opening


def _is_closing_fence(text: str, fence: str) -> bool:
    line = text.partition("\n")[0].strip()
    return line.startswith(fence) and not line.strip(fence[0])


def _grapheme_boundary(text: str, cut: int) -> int:
    """Return `cut` or a position shortly before it that does not split a grapheme cluster."""
    cut = max(cut, 1)
    for back in range(min(_GRAPHEME_CODE_POINTS_MAX, cut - 1) + 1):
        if not _is_inside_grapheme(text, cut - back):
            return cut - back
    return cut


def _is_inside_grapheme(text: str, position: int) -> bool:
    """Return whether the characters before and after this position belong to one grapheme cluster."""
    if not 0 < position < len(text):
        return False
    before, after = text[position - 1], text[position]
    if after == "\u200d" or before == "\u200d" or "\U0001f3fb" <= after <= "\U0001f3ff":
        return True
    if "\U000e0020" <= after <= "\U000e007f" or unicodedata.category(after) in ("Mn", "Mc", "Me"):
        return True
    if "\u1160" <= after <= "\u11ff" or (before == "\r" and after == "\n"):  # conjoining Hangul letters
        return True
    if not _is_regional_indicator(before) or not _is_regional_indicator(after):
        return False
    flags = 0
    while flags < position and _is_regional_indicator(text[position - 1 - flags]):
        flags += 1
    return flags % 2 == 1


def _is_regional_indicator(char: str) -> bool:
    return "\U0001f1e6" <= char <= "\U0001f1ff"
