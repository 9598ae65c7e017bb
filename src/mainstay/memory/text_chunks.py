"""Splits a text into chunks for embedding."""

from __future__ import annotations

import re

CHUNK_CHARS_MAX = 1_000
CHUNKS_MAX = 16  # of one message; the rest of it is found by full-text search only

_BREAK_PATTERNS = tuple(re.compile(pattern) for pattern in (r"\n\s*\n", r"\n", r"[.!?…]\s|[\u3002\uff01\uff1f]", r"\s"))


def split_chunks(text: str) -> list[str]:
    """Split a text into chunks at the end of a paragraph, a line, a sentence or a word, in that order."""
    chunks: list[str] = []
    start, end = 0, len(text)
    while start < end and len(chunks) < CHUNKS_MAX:
        stop = end if end - start <= CHUNK_CHARS_MAX else _find_break(text, start)
        if chunk := text[start:stop].strip():
            chunks.append(chunk)
        start = stop
    return chunks


def _find_break(text: str, start: int) -> int:
    """Return the last break of the best kind in the second half of a chunk."""
    low, high = start + CHUNK_CHARS_MAX // 2, start + CHUNK_CHARS_MAX
    for kind in _BREAK_PATTERNS:
        stops = [match.end() for match in kind.finditer(text, low, high)]
        if stops:
            return stops[-1]
    return high
