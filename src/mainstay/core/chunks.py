"""Long texts in pieces that a platform takes: cut where a reader would, with code left whole."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable

_FENCE = re.compile(r"^ {0,3}(`{3,}|~{3,})([^\n]*)$", re.MULTILINE)
_BREAKS = ("\n\n", "\n", ". ", " ")  # the best first: a paragraph, a line, a sentence, a word
_WORTH = 0.5  # a better break is taken only if so much of the room is used
_INFO_CHARS_MAX = 20  # of what stands behind the fence: the language, mostly
_CLUSTER_MAX = 64  # code points of one character as people see it; more are somebody's joke

Format = Callable[[str], str]


def chunks(text: str, format: Format, length: int) -> list[str]:
    """Pieces of Markdown of which none is longer than `length` once it is formatted; all of the text is in them. A
    block of code that has to be cut is closed, and opened again in the next piece."""
    pieces: list[str] = []
    rest = text.replace("\r\n", "\n").strip("\n").rstrip()
    while rest:
        piece, rest = _first(rest, format, length)
        if piece.strip():
            pieces.append(piece)
    return pieces


def _first(text: str, format: Format, length: int) -> tuple[str, str]:
    """A piece that fits, and what is left: always less than before."""
    room = length
    while room > 0:
        piece, rest = (text, "") if len(text) <= room else _split(text, room)
        size = len(format(piece))
        if size <= length and len(rest) < len(text):
            return piece, rest
        # formatted it is longer: by as much less is taken, and by one at least
        room = min(int(room * length / size) if size > length else room, room - 1)
    return text[:1], text[1:]  # nothing fits, whatever one does: the platform will say so


def _split(text: str, room: int) -> tuple[str, str]:
    """In two, the first of at most about `room` characters."""
    cut = _break(text, room)
    fence = _open_fence(text, cut)
    if fence is None:
        return text[:cut].rstrip(), text[cut:].lstrip("\n ")
    if fence.start() >= room * _WORTH:  # rather before the block than through it
        return text[: fence.start()].rstrip(), text[fence.start() :]
    closing = f"\n{fence[1]}"
    opening = fence[1] + fence[2].strip()[:_INFO_CHARS_MAX].partition(" ")[0] + "\n"
    newline = text.rfind("\n", fence.end() + 1, room - len(closing))
    cut = newline + 1 if newline > fence.end() else _whole(text, room - len(closing))
    if cut <= fence.end():  # not even the first line of the code has room: it is text like any other
        return text[: _whole(text, room)], text[_whole(text, room) :]
    rest = text[cut:]
    if _closes(rest, fence[1]):  # nothing was left of the block but its end
        return text[:cut].rstrip("\n") + closing, rest.partition("\n")[2].lstrip("\n")
    return text[:cut].rstrip("\n") + closing, opening + rest


def _break(text: str, room: int) -> int:
    for mark in _BREAKS:
        found = text.rfind(mark, int(room * _WORTH), room + 1)
        if found > 0 and found + len(mark.rstrip()) <= room:
            return found + len(mark.rstrip())
    return _whole(text, room)


def _open_fence(text: str, upto: int) -> re.Match[str] | None:
    """The beginning of the block of code that this place is in."""
    begun: re.Match[str] | None = None
    for found in _FENCE.finditer(text, 0, upto):
        if begun is None:
            begun = found
        elif found[1].startswith(begun[1]) and not found[2].strip():
            begun = None
    return begun


def _closes(text: str, fence: str) -> bool:
    line = text.partition("\n")[0].strip()
    return line.startswith(fence) and not line.strip(fence[0])


def _whole(text: str, cut: int) -> int:
    """The same place or a little before, so that nothing is cut which people see as one character."""
    cut = max(cut, 1)
    for back in range(min(_CLUSTER_MAX, cut - 1) + 1):
        if not _joined(text, cut - back):
            return cut - back
    return cut


def _joined(text: str, at: int) -> bool:
    """Whether the characters before and after this place belong together."""
    if not 0 < at < len(text):
        return False
    before, after = text[at - 1], text[at]
    if after == "\u200d" or before == "\u200d" or "\U0001f3fb" <= after <= "\U0001f3ff":
        return True
    if "\U000e0020" <= after <= "\U000e007f" or unicodedata.category(after) in ("Mn", "Mc", "Me"):
        return True
    if "\u1160" <= after <= "\u11ff" or (before == "\r" and after == "\n"):  # Hangul in its letters
        return True
    if not _regional(before) or not _regional(after):
        return False
    flags = 0
    while flags < at and _regional(text[at - 1 - flags]):
        flags += 1
    return flags % 2 == 1


def _regional(char: str) -> bool:
    return "\U0001f1e6" <= char <= "\U0001f1ff"
