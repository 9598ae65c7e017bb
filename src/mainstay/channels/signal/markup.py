"""Converts Markdown to Signal's plain text with style ranges."""

from __future__ import annotations

import msgspec

from mainstay.channels.styled_text import TextSpan, TextStyle, markdown_to_spans, utf16_length

_SIGNAL_STYLES: dict[TextStyle, str] = {
    "bold": "BOLD",
    "italic": "ITALIC",
    "strike": "STRIKETHROUGH",
    "code": "MONOSPACE",
    "pre": "MONOSPACE",
}


class SignalText(msgspec.Struct, frozen=True):
    text: str
    styles: tuple[str, ...] = ()  # "start:length:STYLE", in UTF-16 code units


def markdown_to_signal(markdown: str) -> SignalText:
    spans = markdown_to_spans(markdown)
    text: list[str] = []
    ranges: dict[str, list[tuple[int, int]]] = {}
    position = 0
    for index, span in enumerate(spans):
        piece = _span_text(spans, index)
        for style in sorted({_SIGNAL_STYLES[span_style] for span_style in span.styles if span_style in _SIGNAL_STYLES}):
            if piece.strip():
                _add_range(ranges.setdefault(style, []), position, utf16_length(piece))
        if span.href and span.href != span.text and (index + 1 == len(spans) or spans[index + 1].href != span.href):
            piece += f" ({span.href})"
        text.append(piece)
        position += utf16_length(piece)
    marks = sorted((start, length, style) for style, pairs in ranges.items() for start, length in pairs)
    return SignalText("".join(text), tuple(f"{start}:{length}:{style}" for start, length, style in marks))


def _span_text(spans: list[TextSpan], index: int) -> str:
    """Return a span's text, with "> " before each line of a quote."""
    span = spans[index]
    if "quote" not in span.styles:
        return span.text
    begins = index == 0 or "quote" not in spans[index - 1].styles
    return ("> " if begins else "") + span.text.replace("\n", "\n> ")


def _add_range(ranges: list[tuple[int, int]], start: int, length: int) -> None:
    if ranges and sum(ranges[-1]) == start:
        start, length = ranges[-1][0], ranges.pop()[1] + length
    ranges.append((start, length))
