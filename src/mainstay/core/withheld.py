"""Answers that are judged before anybody is shown them, as the journal tells of them: which of them stand.

The journal has every attempt, and says of each whether it is provisional. So what is decided here is the same for what
happens and for what is read back, whatever is configured by now.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from mainstay.core.events import Event, Judged, MessageAdded, Steered, StepCheckpointed, TurnEnded
from mainstay.core.journal import Record
from mainstay.core.messages import Text
from mainstay.core.outcome import Answered, Exhausted


def is_held(event: Event) -> bool:
    return isinstance(event, MessageAdded) and event.role == "assistant" and event.provisional == "held"


def decides(event: Event) -> bool | None:
    """Whether the answer before it stands; None: that says nothing of it."""
    match event:
        case Judged(passed=passed, last=last):
            return passed or last
        case TurnEnded(outcome=outcome):  # nobody judged it any more
            return isinstance(outcome, Answered | Exhausted)
        case MessageAdded() | Steered():  # the turn went on without a verdict
            return False
    return None


def withheld(records: Iterable[Record]) -> set[int]:
    """Of records in their order, those that are answers which nobody was to see, or not yet."""
    hidden: set[int] = set()
    waiting: int | None = None
    for record in records:
        if waiting is not None and (stands := decides(record.event)) is not None:
            if stands:
                hidden.discard(waiting)
            waiting = None
        if is_held(record.event):
            waiting = record.seq
            hidden.add(waiting)
    return hidden


def told(records: Sequence[Record], later: Iterable[Record] = ()) -> list[Record]:
    """The same, as people may read them; `later` are those after them."""
    hidden = withheld([*records, *later])
    return [_told(one, hidden) for one in records]


def _told(record: Record, hidden: set[int]) -> Record:
    event = wordless(record.event) if record.seq in hidden else discreet(record.event)
    return record if event is record.event else msgspec.structs.replace(record, event=event)


def discreet(event: Event) -> Event:
    """Without what it says of answers that nobody was shown: judges may quote them."""
    match event:
        case StepCheckpointed(held=True):
            return msgspec.structs.replace(event, text="")
        case MessageAdded(role="system", provisional="held"):
            return wordless(event)
        case Judged(held=True, passed=False, last=False, scores=scores):
            silent = tuple(
                msgspec.structs.replace(one, reason="", error=one.error and "it could not say") for one in scores
            )
            return msgspec.structs.replace(event, scores=silent)
    return event


def wordless(event: Event) -> Event:
    assert isinstance(event, MessageAdded)
    return msgspec.structs.replace(event, parts=tuple(part for part in event.parts if not isinstance(part, Text)))
