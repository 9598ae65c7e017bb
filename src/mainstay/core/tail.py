"""Where a history that is read from its end may begin."""

from __future__ import annotations

from mainstay.core.events import MessageAdded, Received, Steered, TurnStarted
from mainstay.core.journal import Record


def whole_turns(records: list[Record], *, complete: bool) -> list[Record]:
    """Cut a window that starts somewhere in the middle at the first record that begins something whole."""
    if complete:
        return records
    have = {record.seq for record in records}
    for index, record in enumerate(records):
        match record.event:
            case TurnStarted(inputs=inputs) if all(seq in have for seq in inputs):
                return _with_waiting(records, index)
            case MessageAdded(role="user", turn=0):  # imported history has no turns
                return _with_waiting(records, index)
    return records


def _with_waiting(records: list[Record], index: int) -> list[Record]:
    """Inputs that stand before the cut but are used after it are kept."""
    before = [record for record in records[:index] if isinstance(record.event, Received)]
    used = {
        seq
        for record in records[index:]
        if isinstance(record.event, TurnStarted | Steered)
        for seq in record.event.inputs
    }
    done = {
        seq
        for record in records[:index]
        if isinstance(record.event, TurnStarted | Steered)
        for seq in record.event.inputs
    }
    return [r for r in before if r.seq in used or r.seq not in done] + records[index:]
