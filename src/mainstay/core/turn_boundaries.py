"""Cuts the loaded end of a journal at a turn boundary."""

from __future__ import annotations

from mainstay.core.events import MessageAdded, Received, Steered, TurnStarted
from mainstay.core.journal import Record


def trim_to_whole_turns(records: list[Record], *, complete: bool) -> list[Record]:
    """Return the records from the first whole turn on; all of them if they are `complete`."""
    if complete:
        return records
    loaded = {record.seq for record in records}
    for index, record in enumerate(records):
        match record.event:
            case TurnStarted(inputs=inputs) if all(seq in loaded for seq in inputs):
                return _with_needed_inputs(records, index)
            case MessageAdded(role="user", turn=0):  # imported history has no turns
                return _with_needed_inputs(records, index)
    return records


def _with_needed_inputs(records: list[Record], index: int) -> list[Record]:
    """Return the records from `index` on, preceded by earlier inputs that are used after it or still queued."""
    received = [record for record in records[:index] if isinstance(record.event, Received)]
    used_after = {
        seq
        for record in records[index:]
        if isinstance(record.event, TurnStarted | Steered)
        for seq in record.event.inputs
    }
    used_before = {
        seq
        for record in records[:index]
        if isinstance(record.event, TurnStarted | Steered)
        for seq in record.event.inputs
    }
    needed = [record for record in received if record.seq in used_after or record.seq not in used_before]
    return needed + records[index:]
