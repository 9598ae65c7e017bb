"""Markdown for platforms that show nothing but text."""

from __future__ import annotations

from mainstay.channels.layout import lay_out


def plain(markdown: str) -> str:
    """Its words without its marks; where a link leads is written behind it."""
    said: list[str] = []
    spans = lay_out(markdown)
    for number, span in enumerate(spans):
        said.append(span.text)
        ends = number + 1 == len(spans) or spans[number + 1].href != span.href
        if span.href and ends and span.href.removeprefix("mailto:") != span.text:
            said.append(f" ({span.href})")
    return "".join(said)
