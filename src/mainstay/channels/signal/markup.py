"""Our Markdown as Signal shows it: plain text, and stretches of it that look different."""

from __future__ import annotations

import msgspec

from mainstay.channels.layout import Span, Style, lay_out, units

_STYLES: dict[Style, str] = {
    "bold": "BOLD",
    "italic": "ITALIC",
    "strike": "STRIKETHROUGH",
    "code": "MONOSPACE",
    "pre": "MONOSPACE",
}


class Styled(msgspec.Struct, frozen=True):
    text: str
    styles: tuple[str, ...] = ()  # "start:length:STYLE", counted in UTF-16 units


def styled(markdown: str) -> Styled:
    spans = lay_out(markdown)
    text: list[str] = []
    ranges: dict[str, list[tuple[int, int]]] = {}
    at = 0
    for number, span in enumerate(spans):
        said = _said(spans, number)
        for style in sorted({_STYLES[one] for one in span.styles if one in _STYLES}):
            if said.strip():
                _mark(ranges.setdefault(style, []), at, units(said))
        if span.href and span.href != span.text and (number + 1 == len(spans) or spans[number + 1].href != span.href):
            said += f" ({span.href})"
        text.append(said)
        at += units(said)
    found = sorted((start, length, style) for style, ones in ranges.items() for start, length in ones)
    return Styled("".join(text), tuple(f"{start}:{length}:{style}" for start, length, style in found))


def _said(spans: list[Span], number: int) -> str:
    """What is quoted has a mark before each of its lines."""
    span = spans[number]
    if "quote" not in span.styles:
        return span.text
    begins = number == 0 or "quote" not in spans[number - 1].styles
    return ("> " if begins else "") + span.text.replace("\n", "\n> ")


def _mark(ranges: list[tuple[int, int]], start: int, length: int) -> None:
    if ranges and sum(ranges[-1]) == start:
        start, length = ranges[-1][0], ranges.pop()[1] + length
    ranges.append((start, length))
