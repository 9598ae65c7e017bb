"""Names of mentioned users, as they are put into the text of a message."""

from __future__ import annotations

import re

from mainstay.core.quoted_lines import separate_quoted_lines

NAME_CHARS_MAX = 80
_NOT_IN_NAMES = re.compile(r"[^\w \-'\u2019]+")


def format_mention(name: str) -> str:
    """Return `@Name`. Users choose their own names: characters of addresses are replaced by spaces, so that a mention
    does not name a destination that the sender of the message did not write."""
    return "@" + (" ".join(_NOT_IN_NAMES.sub(" ", name).split())[:NAME_CHARS_MAX] or "?")


def is_typed(text: str, start: int, stop: int) -> bool:
    """Return whether this range of a message is what its sender typed, and not in a quoted line (`> …`): a mention of
    the agent in a quote does not address the agent."""
    mark = next(chr(code) for code in range(0xF0000, 0xFFFFE) if chr(code) not in text)
    return mark in separate_quoted_lines(text[:start] + mark + text[stop:])[0]
