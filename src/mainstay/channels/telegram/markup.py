"""Converts Markdown to Telegram's HTML subset, and that to plain text where Telegram rejects it."""

from __future__ import annotations

import html
import re
from collections.abc import Sequence
from itertools import groupby

from mainstay.channels.styled_text import TextSpan, markdown_to_spans, strip_control_chars

_TAG_OF_STYLE = (("strike", "s"), ("italic", "i"), ("bold", "b"))  # innermost first
# The tags that markdown_to_html writes.
_TAG = re.compile(r'</?(?:a|b|i|s|code|pre|blockquote)>|<a href="[^"<>]*">|<code class="language-[^"<>]*">')
# Telegram counts UTF-16 code units. A numeric entity is longer than the two units of the character that it replaces.
_SUPPLEMENTARY_CHARS = re.compile(r"[\U00010000-\U0010ffff]")


def markdown_to_html(markdown: str) -> str:
    """Return HTML with at least as many characters as Telegram counts, so that splitting by characters is safe."""
    spans = markdown_to_spans(strip_control_chars(markdown))
    parts = []
    for quoted, group in groupby(spans, key=lambda span: "quote" in span.styles and "pre" not in span.styles):
        inner = "".join(_span_to_html(span) for span in group)
        parts.append(f"<blockquote>{inner}</blockquote>" if quoted else inner)
    return "".join(parts).strip("\n")


def html_to_plain_text(text: str) -> str:
    return html.unescape(_TAG.sub("", text))


def _span_to_html(span: TextSpan) -> str:
    text = _escape(span.text)
    if "pre" in span.styles:
        inner = f'<code class="language-{_escape(span.language, quote=True)}">{text}</code>' if span.language else text
        return f"<pre>{inner}</pre>"
    if "code" in span.styles:  # which may contain no other tags
        return f"<code>{text}</code>"
    if not span.text.strip():
        return text
    for style, tag in _TAG_OF_STYLE:
        if style in span.styles:
            text = f"<{tag}>{text}</{tag}>"
    return f'<a href="{_escape(span.href, quote=True)}">{text}</a>' if span.href else text


def _escape(text: str, *, quote: bool = False) -> str:
    return _SUPPLEMENTARY_CHARS.sub(lambda match: f"&#{ord(match[0])};", html.escape(text, quote=quote))


def slice_utf16(text: str, ranges: Sequence[tuple[int, int]]) -> list[str]:
    """Return the pieces at these offsets and lengths in UTF-16 code units; empty if out of range."""
    raw = text.encode("utf-16-le", "surrogatepass")
    return [
        raw[2 * offset : 2 * (offset + length)].decode("utf-16-le", "replace") if offset >= 0 <= length else ""
        for offset, length in ranges
    ]
