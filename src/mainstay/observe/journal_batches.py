"""Builds the batches of records that projections receive: the new records, and the open turn before them."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

from mainstay.core.events import Blanked, Received, Steered, StepCheckpointed, TurnEnded, TurnStarted
from mainstay.core.journal import Record
from mainstay.core.ports import SessionInfo
from mainstay.core.projections import JournalBatch

EARLIER_RECORDS_MAX = 4096  # records of an open turn that are repeated in a batch


def build_batch(info: SessionInfo, tail: Sequence[Record], records: Sequence[Record], position: int) -> JournalBatch:
    """Return the batch of those records that are after a position. `tail`: what is open before the records."""
    first = bisect_right(records, position, key=lambda record: record.seq)
    return JournalBatch(info, records[first:], open_records(tail, records[:first]) if first else tail)


def open_records(tail: Sequence[Record], records: Sequence[Record]) -> Sequence[Record]:
    """Return what is open after these records if `tail` is open before them: queued inputs and the running turn,
    without its streaming checkpoints."""
    still_open = list(tail)
    is_running = any(isinstance(record.event, TurnStarted) for record in still_open)
    for record in records:
        match record.event:
            case Received(kind=kind):
                if kind != "overheard":
                    still_open.append(record)
            case TurnStarted():
                still_open = [*(other for other in still_open if isinstance(other.event, Received)), record]
                is_running = True
            case TurnEnded():
                consumed = {
                    seq
                    for other in still_open
                    if isinstance(other.event, TurnStarted | Steered)
                    for seq in other.event.inputs
                }
                still_open = [
                    other for other in still_open if isinstance(other.event, Received) and other.seq not in consumed
                ]
                is_running = False
            case Blanked() | StepCheckpointed():
                pass
            case _ if is_running:
                still_open.append(record)
    return still_open[-EARLIER_RECORDS_MAX:]
