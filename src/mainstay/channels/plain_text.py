"""Converts Markdown to plain text for platforms without formatting."""

from __future__ import annotations

from mainstay.channels.styled_text import markdown_to_spans


def markdown_to_plain_text(markdown: str) -> str:
    """Return the text without its markup; a link's target follows in parentheses unless it is the link's own text."""
    pieces: list[str] = []
    spans = markdown_to_spans(markdown)
    for index, span in enumerate(spans):
        pieces.append(span.text)
        is_link_end = index + 1 == len(spans) or spans[index + 1].href != span.href
        if span.href and is_link_end and span.href.removeprefix("mailto:") != span.text:
            pieces.append(f" ({span.href})")
    return "".join(pieces)
