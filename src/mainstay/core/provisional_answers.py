"""Provisional answers: which of them judges passed, and hiding of those that users must not see.

The journal contains every attempt and marks the provisional ones. So the result is the same for a running turn and for
one that is read from disk, whatever the configuration is by then.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

import msgspec

from mainstay.core.events import Event, Forked, Judged, MessageAdded, Steered, StepCheckpointed, TurnEnded
from mainstay.core.journal import Record
from mainstay.core.messages import Text
from mainstay.core.outcome import Answered, Exhausted


def is_held_answer(event: Event) -> bool:
    return isinstance(event, MessageAdded) and event.role == "assistant" and event.provisional == "held"


def is_provisional_answer(event: Event) -> bool:
    """Return whether this is an answer that is held, or shown as a draft, until judges have passed it."""
    return isinstance(event, MessageAdded) and event.role == "assistant" and event.provisional != ""


def answer_stands(answer: Event, event: Event) -> bool | None:
    """Return whether `event` accepts (True) or rejects (False) the answer before it; None: it does not decide."""
    match event:
        case Judged(passed=passed, last=last):  # a verdict on a later answer rejects this one
            return (passed or last) and (event.turn, event.step) == (answer.turn, answer.step)
        case TurnEnded(outcome=outcome):  # it was not judged
            return isinstance(outcome, Answered | Exhausted) and event.turn == answer.turn
        case MessageAdded() | Steered() | Forked():  # the turn went on without a verdict, or in another session
            return False
    return None


class AnswerVerdicts(msgspec.Struct, frozen=True):
    """Sequences of rejected answers, and of the answer that is not decided yet."""

    rejected_seqs: frozenset[int] = frozenset()
    undecided_seq: int | None = None


def find_verdicts(records: Iterable[Record], *, include_drafts: bool = False) -> AnswerVerdicts:
    """Return the verdicts on held answers in these records; with `include_drafts`, on drafts that were shown too."""
    failed: set[int] = set()
    waiting: Record | None = None
    for record in records:
        if waiting is not None and (stands := answer_stands(waiting.event, record.event)) is not None:
            if not stands:
                failed.add(waiting.seq)
            waiting = None
        if is_provisional_answer(record.event) if include_drafts else is_held_answer(record.event):
            waiting = record
    return AnswerVerdicts(frozenset(failed), waiting.seq if waiting is not None else None)


def hidden_seqs(records: Iterable[Record], *, include_drafts: bool = False) -> frozenset[int]:
    """Return the sequences of answers that must not be shown: the rejected and the undecided ones."""
    answers = find_verdicts(records, include_drafts=include_drafts)
    return answers.rejected_seqs if answers.undecided_seq is None else answers.rejected_seqs | {answers.undecided_seq}


def decided_records(records: Sequence[Record]) -> Sequence[Record]:
    """Return the records before the undecided answer; all of them if there is none."""
    waiting = find_verdicts(records, include_drafts=True).undecided_seq
    return records if waiting is None else [record for record in records if record.seq < waiting]


def visible_records(records: Sequence[Record], later: Iterable[Record] = ()) -> list[Record]:
    """Return the records as users may read them, without hidden text; `later` are the records after them."""
    hidden = hidden_seqs([*records, *later])
    return [_visible_record(record, hidden) for record in records]


def _visible_record(record: Record, hidden: Collection[int]) -> Record:
    event = without_text(record.event) if record.seq in hidden else without_held_text(record.event)
    return record if event is record.event else msgspec.structs.replace(record, event=event)


def without_held_text(event: Event) -> Event:
    """Return the event without text about held answers: checkpoints, corrections and judges' reasons may quote them."""
    match event:
        case StepCheckpointed(held=True):
            return msgspec.structs.replace(event, text="")
        case MessageAdded(role="system", provisional="held"):
            return without_text(event)
        case Judged(held=True, passed=False, last=False, scores=scores):
            redacted = tuple(
                msgspec.structs.replace(score, reason="", error=score.error and "the reason is not shown")
                for score in scores
            )
            return msgspec.structs.replace(event, scores=redacted)
    return event


def without_text(event: Event) -> Event:
    """Return a message without its text parts."""
    assert isinstance(event, MessageAdded)
    return msgspec.structs.replace(event, parts=tuple(part for part in event.parts if not isinstance(part, Text)))
