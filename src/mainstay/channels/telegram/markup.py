"""Our Markdown as the HTML that Telegram takes, and back to plain text where it does not take it."""

from __future__ import annotations

import html
import re
from collections.abc import Sequence
from itertools import groupby

from mainstay.channels.layout import Span, clean, lay_out

_TAGS = (("strike", "s"), ("italic", "i"), ("bold", "b"))  # from the inside out
_TAG = re.compile(r'</?(?:a|b|i|s|code|pre|blockquote)>|<a href="[^"<>]*">|<code class="language-[^"<>]*">')  # ours
# Telegram counts UTF-16 units. Written as a number, a character of two of them is never shorter than it is counted.
_WIDE = re.compile(r"[\U00010000-\U0010ffff]")


def html_of(markdown: str) -> str:
    """Never shorter in characters than Telegram counts it."""
    spans = lay_out(clean(markdown))
    made = []
    for quoted, group in groupby(spans, key=lambda span: "quote" in span.styles and "pre" not in span.styles):
        inner = "".join(_shown(span) for span in group)
        made.append(f"<blockquote>{inner}</blockquote>" if quoted else inner)
    return "".join(made).strip("\n")


def plain_of(text: str) -> str:
    return html.unescape(_TAG.sub("", text))


def _shown(span: Span) -> str:
    text = _escape(span.text)
    if "pre" in span.styles:
        inner = f'<code class="language-{_escape(span.language, quote=True)}">{text}</code>' if span.language else text
        return f"<pre>{inner}</pre>"
    if "code" in span.styles:  # which may hold no other
        return f"<code>{text}</code>"
    if not span.text.strip():
        return text
    for style, tag in _TAGS:
        if style in span.styles:
            text = f"<{tag}>{text}</{tag}>"
    return f'<a href="{_escape(span.href, quote=True)}">{text}</a>' if span.href else text


def _escape(text: str, *, quote: bool = False) -> str:
    return _WIDE.sub(lambda found: f"&#{ord(found[0])};", html.escape(text, quote=quote))


def slices(text: str, places: Sequence[tuple[int, int]]) -> list[str]:
    """Pieces by offset and length as Telegram counts them; empty where there is nothing."""
    raw = text.encode("utf-16-le", "surrogatepass")
    return [
        raw[2 * offset : 2 * (offset + length)].decode("utf-16-le", "replace") if offset >= 0 <= length else ""
        for offset, length in places
    ]
