"""Ids of budget reservations in the journal, and which events close them."""

from __future__ import annotations

from collections.abc import Iterable

from mainstay.core.events import Event, Folded, Judged, MessageAdded, Reserved, Settled
from mainstay.core.messages import Usage
from mainstay.core.usage_bounds import DOLLARS_MAX

NANODOLLARS_PER_DOLLAR = (
    1_000_000_000  # nanodollars in a dollar; a price of $1 per million tokens is 1,000 nanodollars per token
)
FOLD_ID_PREFIX = "fold:"


def step_reservation_id(turn: int, step: int) -> str:
    return f"{turn}.{step}"


def judge_reservation_id(turn: int, step: int, judge: str) -> str:
    return f"judge:{turn}.{step}:{judge}"


def reservations_closed_by(event: Event, open_ids: Iterable[str]) -> list[str]:
    """Return which of the open reservations this event closes. A fold closes all reservations made for folds."""
    match event:
        case MessageAdded(role="assistant", turn=turn, step=step):
            return [id for id in open_ids if id == step_reservation_id(turn, step)]
        case Settled(id=closed):
            return [id for id in open_ids if id == closed]
        case Judged(turn=turn, step=step):
            return [id for id in open_ids if id.startswith(judge_reservation_id(turn, step, ""))]
        case Folded():
            return [id for id in open_ids if id.startswith(FOLD_ID_PREFIX)]
    return []


def full_usage(reserved: Reserved, problem: str = "") -> Usage:
    """Return the maximal usage of a reserved call, which is assumed if the real one is unknown, or if the reported one
    has a problem."""
    correction = f"{problem}; the reservation was charged" if problem else ""
    return Usage(reserved.prompt, reserved.output, correction=correction)


def settle_lost(reserved: Iterable[Reserved]) -> list[Settled]:
    """Return the events that settle reservations of a process that died."""
    return [
        Settled(
            call.id, full_usage(call), call.cost / NANODOLLARS_PER_DOLLAR, lost=True, turn=call.turn, step=call.step
        )
        for call in reserved
    ]


def to_nanodollars(cost: float) -> int:
    """Convert dollars, as events have them, to nanodollars: never negative, and never more than can be stored."""
    return round(min(max(0.0, cost), DOLLARS_MAX) * NANODOLLARS_PER_DOLLAR)
