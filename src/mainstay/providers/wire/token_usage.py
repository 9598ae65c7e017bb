"""Token counts of responses. APIs omit counts or send null for them."""

from __future__ import annotations

from mainstay.core.messages import Usage


def build_usage(
    prompt: int | None,
    completion: int | None,
    *,
    cached: int | None = None,
    reasoning: int | None = None,
    written: int | None = None,
) -> Usage:
    """Return the usage of a response whose count of prompt tokens includes cached ones."""
    return Usage(prompt or 0, completion or 0, cached or 0, reasoning or 0, written or 0)


def build_uncached_usage(
    uncached: int | None, completion: int | None, cached: int | None, written: int | None
) -> Usage:
    """Return the usage of a response whose count of prompt tokens excludes those read from or written to the cache."""
    return build_usage((uncached or 0) + (cached or 0) + (written or 0), completion, cached=cached, written=written)
