"""What is new to a reader, and what it needs to know of what was before."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

from mainstay.core.events import Blanked, Received, Steered, StepCheckpointed, TurnEnded, TurnStarted
from mainstay.core.following import Stretch
from mainstay.core.journal import Record
from mainstay.core.ports import Standing

EARLIER_MAX = 4096  # records of an open turn that are told of again


def stretch_of(standing: Standing, tail: Sequence[Record], records: Sequence[Record], place: int) -> Stretch:
    """What is new after this place, of records some of which may not be."""
    cut = bisect_right(records, place, key=lambda record: record.seq)
    return Stretch(standing, records[cut:], open_in(tail, records[:cut]) if cut else tail)


def open_in(tail: Sequence[Record], records: Sequence[Record]) -> Sequence[Record]:
    """What is open after these records, if `tail` was before them: inputs that nobody has taken up, and the running
    turn. What it has streamed is left out."""
    kept = list(tail)
    turn = any(isinstance(record.event, TurnStarted) for record in kept)
    for record in records:
        match record.event:
            case Received(kind=kind):
                if kind != "overheard":
                    kept.append(record)
            case TurnStarted():
                kept = [*(one for one in kept if isinstance(one.event, Received)), record]
                turn = True
            case TurnEnded():
                taken = {
                    seq for one in kept if isinstance(one.event, TurnStarted | Steered) for seq in one.event.inputs
                }
                kept = [one for one in kept if isinstance(one.event, Received) and one.seq not in taken]
                turn = False
            case Blanked() | StepCheckpointed():
                pass
            case _ if turn:
                kept.append(record)
    return kept[-EARLIER_MAX:]
