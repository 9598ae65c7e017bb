"""Reasoning signatures, tagged with the API that issued them.

Some APIs want opaque data back unchanged with the model's thinking; it is stored as the signature of a `Thinking` part.
A session may change its model, so each signature names its owner. Anthropic's signatures have no tag: they are base64,
which contains no colon.
"""

from __future__ import annotations


def tag_signature(owner: str, value: str) -> str:
    """Return the value tagged with its owner; an empty string if it is empty."""
    return f"{owner}:{value}" if value else ""


def untag_signature(owner: str, signature: str) -> str:
    """Return the value without its tag; an empty string if another API issued it."""
    name, colon, value = signature.partition(":")
    return value if colon and name == owner else ""


def is_untagged(signature: str) -> bool:
    """Return whether Anthropic issued this signature."""
    return bool(signature) and ":" not in signature
