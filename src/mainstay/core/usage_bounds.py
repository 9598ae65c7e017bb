"""Bounds of token counts and costs: what the ledger, sessions and metrics take from a journal record.

New records hold checked counts (`ModelInfo.check_usage`). Records of earlier releases may hold whatever a model server
reported: such numbers are never credited, and never exceed what can be stored.
"""

from __future__ import annotations

from mainstay.core.messages import TOKENS_MAX, Usage

RECORD_TOKENS_MAX = 1_000_000_000  # of one record, which may report several calls
RECORD_DOLLARS_MAX = 100_000.0
DOLLARS_MAX = 1_000_000.0  # sums of dollars stop here


def bound_charge(usage: Usage, cost: float) -> tuple[Usage, float]:
    """Return what a record reports, with negative and absurd numbers replaced by the nearest plausible ones."""
    if (
        0 <= usage.prompt <= RECORD_TOKENS_MAX
        and 0 <= usage.completion <= RECORD_TOKENS_MAX
        and 0 <= usage.cached <= RECORD_TOKENS_MAX
        and 0 <= usage.reasoning <= RECORD_TOKENS_MAX
        and 0 <= usage.written <= RECORD_TOKENS_MAX
        and 0.0 <= cost <= RECORD_DOLLARS_MAX
    ):
        return usage, cost
    return _clip_usage(usage, RECORD_TOKENS_MAX), min(max(0.0, cost), RECORD_DOLLARS_MAX)


def bound_totals(prompt: int, completion: int, cost: float) -> tuple[Usage, float]:
    """Return the totals of a session, within what can be stored."""
    return _clip_usage(Usage(prompt, completion), TOKENS_MAX), min(max(0.0, cost), DOLLARS_MAX)


def format_count(value: object) -> str:
    """Describe a count of untrusted size and type in a few characters."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return f"a {type(value).__name__}"
    if abs(value) > TOKENS_MAX:  # an integer of any length cannot be formatted
        return f"{'-' if value < 0 else ''}more than 10^15"
    return f"{value:g}" if isinstance(value, float) else str(value)


def _clip_usage(usage: Usage, tokens_max: int) -> Usage:
    reported = (usage.prompt, usage.completion, usage.cached, usage.reasoning, usage.written)
    prompt, completion, cached, reasoning, written = (min(max(0, count), tokens_max) for count in reported)
    return Usage(prompt, completion, cached, reasoning, written, usage.correction)
