"""Calls that were paid for in advance, as the journal tells of them: what each is called, and what closes it."""

from __future__ import annotations

from collections.abc import Iterable

from mainstay.core.events import Event, Folded, Judged, MessageAdded, Reserved, Settled
from mainstay.core.messages import Usage

NANO = 1_000_000_000  # money is counted in whole nanodollars: a dollar per million tokens is 1,000 of them a token
FOLD = "fold:"


def step_id(turn: int, step: int) -> str:
    return f"{turn}.{step}"


def judge_id(turn: int, step: int, judge: str) -> str:
    return f"judge:{turn}.{step}:{judge}"


def closed_by(event: Event, open: Iterable[str]) -> list[str]:
    """Which of the reservations that are open come to their end with this. A fold closes all that went into it."""
    match event:
        case MessageAdded(role="assistant", turn=turn, step=step):
            return [id for id in open if id == step_id(turn, step)]
        case Settled(id=closed):
            return [id for id in open if id == closed]
        case Judged(turn=turn, step=step):
            return [id for id in open if id.startswith(judge_id(turn, step, ""))]
        case Folded():
            return [id for id in open if id.startswith(FOLD)]
    return []


def in_full(reserved: Reserved) -> Usage:
    """What it has cost if nobody knows better."""
    return Usage(reserved.prompt, reserved.output)


def lost(reserved: Iterable[Reserved]) -> list[Settled]:
    """What is to be said of calls whose process died."""
    return [Settled(one.id, in_full(one), one.cost / NANO, lost=True, turn=one.turn, step=one.step) for one in reserved]


def nanodollars(cost: float) -> int:
    """Of what an event says something has cost: there it is a number of dollars."""
    return round(cost * NANO)
