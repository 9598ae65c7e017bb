"""Search result snippets: the part of a text that matches a query, on one line."""

from __future__ import annotations

import re
from collections.abc import Callable

from mainstay.core.stemming import stem_words

_WORD = re.compile(r"[^\W_]+")
_TEXT_CHARS_MAX = 64 * 1024
_SCANNED_WORDS_MAX = 5_000  # scanned; if the match is further down, the snippet is the beginning


def make_snippet(text: str, query: str, chars_max: int) -> str:
    """Return about `chars_max` characters around the densest match of the query's words."""
    line = " ".join(text[:_TEXT_CHARS_MAX].split())
    if len(line) <= chars_max:
        return line
    start = min(_best_start(line, query, chars_max), len(line) - chars_max)
    if start:
        space = line.find(" ", start, start + 20)
        start = space + 1 if space >= 0 else start
    end = start + chars_max
    return (
        ("…" if start else "")
        + line[start:end].rstrip()
        + ("…" if end < len(line) or len(text) > _TEXT_CHARS_MAX else "")
    )


def highlight_matches(line: str, query: str, highlight: Callable[[str], str]) -> str:
    """Return the line with the query's words, in any inflection, passed through `highlight`."""
    wanted = set(stem_words(query))
    return _WORD.sub(lambda match: highlight(match[0]) if wanted & set(stem_words(match[0])) else match[0], line)


def _best_start(line: str, query: str, chars_max: int) -> int:
    """Return the start offset at which the snippet shows most of the query's different words."""
    wanted = set(stem_words(query))
    if not wanted:
        return 0
    matches: list[tuple[int, str]] = []
    for number, word in enumerate(_WORD.finditer(line)):
        if number >= _SCANNED_WORDS_MAX:
            break
        matches += [(word.start(), stem) for stem in stem_words(word[0]) if stem in wanted]
    most, begin = 0, 0
    for number, (at, _) in enumerate(matches):
        seen = {stem for place, stem in matches[number : number + 50] if place < at + chars_max * 3 // 4}
        if len(seen) > most:
            most, begin = len(seen), at
    return 0 if begin < chars_max // 2 else begin - chars_max // 4
