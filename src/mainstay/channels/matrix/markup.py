"""Our Markdown as the HTML that Matrix's clients show. Nothing that somebody wrote becomes a tag or an image."""

from __future__ import annotations

import functools
import re
from typing import Any

from mainstay.core.errors import ConfigError

_LINKS = re.compile(r"(?:https?|mailto|matrix):", re.IGNORECASE)
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\u2028\u2029]")


def clean(text: str) -> str:
    """Without what no client shows, and some are confused by."""
    return _CONTROLS.sub("", text.replace("\r\n", "\n"))


def html_of(text: str) -> str:
    """Empty if there is nothing in it but plain words."""
    made = str(_markdown().render(text)).strip()
    if made.startswith("<p>") and made.endswith("</p>") and made.count("<p>") == 1:  # a line needs no paragraph
        made = made[3:-4]
    return "" if made == text else made


@functools.cache
def _markdown() -> Any:
    try:
        from markdown_it import MarkdownIt
    except ImportError:
        raise ConfigError("Matrix needs markdown-it-py: pip install -e '.[matrix]'") from None
    made = MarkdownIt("commonmark", {"html": False, "breaks": True}).enable(["table", "strikethrough"])
    made.disable("image")  # one that is fetched from elsewhere tells its owner who looks
    made.validateLink = lambda url: _LINKS.match(url) is not None  # type: ignore[method-assign]
    return made
