"""What one API wants back word for word and no other could read: kept as the signature of a thought.

A session may change its model, so each signature says whose it is. Anthropic's own have no such mark; they are base64,
in which there is no colon.
"""

from __future__ import annotations


def marked(whose: str, value: str) -> str:
    return f"{whose}:{value}" if value else ""


def of(whose: str, signature: str) -> str:
    """What was marked, or an empty string for what somebody else wrote."""
    name, found, value = signature.partition(":")
    return value if found and name == whose else ""


def is_unmarked(signature: str) -> bool:
    """Anthropic's own."""
    return bool(signature) and ":" not in signature
