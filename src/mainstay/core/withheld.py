"""Answers that are judged before anybody is shown them, as the journal tells of them: which of them stand.

The journal has every attempt, and says of each whether it is provisional. So what is decided here is the same for what
happens and for what is read back, whatever is configured by now.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

import msgspec

from mainstay.core.events import Event, Forked, Judged, MessageAdded, Steered, StepCheckpointed, TurnEnded
from mainstay.core.journal import Record
from mainstay.core.messages import Text
from mainstay.core.outcome import Answered, Exhausted


def is_held(event: Event) -> bool:
    return isinstance(event, MessageAdded) and event.role == "assistant" and event.provisional == "held"


def is_provisional(event: Event) -> bool:
    """Held, or shown as a draft: no answer before judges have passed it."""
    return isinstance(event, MessageAdded) and event.role == "assistant" and event.provisional != ""


def decides(answer: Event, event: Event) -> bool | None:
    """Whether the answer before it stands; None: that says nothing of it."""
    match event:
        case Judged(passed=passed, last=last):  # of a later one: what was said of this one was missed
            return (passed or last) and (event.turn, event.step) == (answer.turn, answer.step)
        case TurnEnded(outcome=outcome):  # nobody judged it any more
            return isinstance(outcome, Answered | Exhausted) and event.turn == answer.turn
        case MessageAdded() | Steered() | Forked():  # the turn went on without a verdict, or somewhere else
            return False
    return None


class Verdicts(msgspec.Struct, frozen=True):
    """Of records in their order: the answers that do not stand, and where the one stands that nothing decides yet."""

    failed: frozenset[int] = frozenset()
    waiting: int | None = None


def verdicts(records: Iterable[Record], *, drafts: bool = False) -> Verdicts:
    """Of those that were held; with `drafts`, of those that were shown as such, too."""
    failed: set[int] = set()
    waiting: Record | None = None
    for record in records:
        if waiting is not None and (stands := decides(waiting.event, record.event)) is not None:
            if not stands:
                failed.add(waiting.seq)
            waiting = None
        if is_provisional(record.event) if drafts else is_held(record.event):
            waiting = record
    return Verdicts(frozenset(failed), waiting.seq if waiting is not None else None)


def withheld(records: Iterable[Record], *, drafts: bool = False) -> frozenset[int]:
    """Of records in their order, those that are answers which nobody was to see, or not yet."""
    found = verdicts(records, drafts=drafts)
    return found.failed if found.waiting is None else found.failed | {found.waiting}


def decided(records: Sequence[Record]) -> Sequence[Record]:
    """Those before an answer of which it is not known yet whether it stands."""
    waiting = verdicts(records, drafts=True).waiting
    return records if waiting is None else [one for one in records if one.seq < waiting]


def told(records: Sequence[Record], later: Iterable[Record] = ()) -> list[Record]:
    """The same, as people may read them; `later` are those after them."""
    hidden = withheld([*records, *later])
    return [_told(one, hidden) for one in records]


def _told(record: Record, hidden: Collection[int]) -> Record:
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
                msgspec.structs.replace(one, reason="", error=one.error and "the reason is not shown") for one in scores
            )
            return msgspec.structs.replace(event, scores=silent)
    return event


def wordless(event: Event) -> Event:
    assert isinstance(event, MessageAdded)
    return msgspec.structs.replace(event, parts=tuple(part for part in event.parts if not isinstance(part, Text)))
