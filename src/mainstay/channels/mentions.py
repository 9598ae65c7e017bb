"""Names of mentioned users, as they are put into the text of a message."""

from __future__ import annotations

import re

NAME_CHARS_MAX = 80
_NOT_IN_NAMES = re.compile(r"[^\w \-'\u2019]+")


def format_mention(name: str) -> str:
    """Return `@Name`. Users choose their own names: characters of addresses are replaced by spaces, so that a mention
    does not name a destination that the sender of the message did not write."""
    return "@" + (" ".join(_NOT_IN_NAMES.sub(" ", name).split())[:NAME_CHARS_MAX] or "?")
