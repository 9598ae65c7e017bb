"""Formats outcomes and counts as text for people."""

from __future__ import annotations

from mainstay.core.outcome import Aborted, Answered, Exhausted, Failed, Outcome, Paused


def describe_outcome(outcome: Outcome) -> str:
    """Return how a turn ended, in a few words."""
    match outcome:
        case Answered():
            return "answered"
        case Aborted():
            return "stopped"
        case Exhausted(bound=bound):
            return f"stopped at a limit: {bound}"
        case Paused():
            return "waiting for approval"
        case Failed(sentence=sentence):
            return sentence


def format_count(number: int, noun: str) -> str:
    """Return `1 turn` or `2 turns`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def format_dollars(amount: float) -> str:
    """Return the amount with its significant digits: `$12.34`, `$0.0021`; "" for 0."""
    if not amount:
        return ""
    return f"${amount:,.2f}" if amount >= 1 else f"${amount:.4f}" if amount >= 0.0001 else "<$0.0001"
