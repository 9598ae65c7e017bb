"""Converts Markdown to HTML for Matrix clients. Raw HTML and images in the text are not passed through."""

from __future__ import annotations

import functools
import re
from typing import Any

from mainstay.core.errors import ConfigError

_ALLOWED_LINKS = re.compile(r"(?:https?|mailto|matrix):", re.IGNORECASE)
_CONTROL_CHARS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\u2028\u2029]")


def strip_control_chars(text: str) -> str:
    """Remove control characters and line separators, which some clients mishandle."""
    return _CONTROL_CHARS.sub("", text.replace("\r\n", "\n"))


def markdown_to_html(text: str) -> str:
    """Return the HTML; empty if the text has no markup."""
    html = str(_create_parser().render(text)).strip()
    if html.startswith("<p>") and html.endswith("</p>") and html.count("<p>") == 1:  # a single paragraph needs no tag
        html = html[3:-4]
    return "" if html == text else html


@functools.cache
def _create_parser() -> Any:
    try:
        from markdown_it import MarkdownIt
    except ImportError:
        raise ConfigError("Matrix needs markdown-it-py: pip install -e '.[matrix]'") from None
    parser = MarkdownIt("commonmark", {"html": False, "breaks": True}).enable(["table", "strikethrough"])
    parser.disable("image")  # fetching an image tells its server who reads the message
    parser.validateLink = lambda url: _ALLOWED_LINKS.match(url) is not None  # type: ignore[method-assign]
    return parser
