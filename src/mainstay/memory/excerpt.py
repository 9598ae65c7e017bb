"""The part of a text that a question is about, on one line."""

from __future__ import annotations

import re
from collections.abc import Callable

from mainstay.core.stems import stems

_WORD = re.compile(r"[^\W_]+")
_TEXT_MAX = 64 * 1024
_WORDS_MAX = 5_000  # looked at; a place further down is not found, and the beginning is shown


def excerpt(text: str, query: str, room: int) -> str:
    """At most about `room` characters, around where most of what was asked for stands together."""
    line = " ".join(text[:_TEXT_MAX].split())
    if len(line) <= room:
        return line
    start = min(_best(line, query, room), len(line) - room)
    if start:
        space = line.find(" ", start, start + 20)
        start = space + 1 if space >= 0 else start
    end = start + room
    return ("…" if start else "") + line[start:end].rstrip() + ("…" if end < len(line) or len(text) > _TEXT_MAX else "")


def marked(line: str, query: str, mark: Callable[[str], str]) -> str:
    """The line with the query's words, in whatever form they stand there, as `mark` writes them."""
    wanted = set(stems(query))
    return _WORD.sub(lambda found: mark(found[0]) if wanted & set(stems(found[0])) else found[0], line)


def _best(line: str, query: str, room: int) -> int:
    """Where to begin, so that as many different words of the query as possible are seen."""
    wanted = set(stems(query))
    if not wanted:
        return 0
    places: list[tuple[int, str]] = []
    for number, word in enumerate(_WORD.finditer(line)):
        if number >= _WORDS_MAX:
            break
        places += [(word.start(), stem) for stem in stems(word[0]) if stem in wanted]
    most, begin = 0, 0
    for number, (at, _) in enumerate(places):
        seen = {stem for place, stem in places[number : number + 50] if place < at + room * 3 // 4}
        if len(seen) > most:
            most, begin = len(seen), at
    return 0 if begin < room // 2 else begin - room // 4
