"""Port for projections of the journals: components that receive every new record once, with a cursor per session."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import msgspec

from mainstay.core.journal import Record
from mainstay.core.ports import SessionInfo


class JournalBatch(msgspec.Struct, frozen=True):
    """New records of one session, in order. Records that a fork copied are not included; blanked ones are empty.

    `earlier` repeats the records of the turn in which the new ones begin, and of inputs that were queued then, so that
    a projection need not keep state between batches.
    """

    info: SessionInfo
    records: Sequence[Record]
    earlier: Sequence[Record] = ()


class JournalPage(msgspec.Struct, frozen=True, gc=False):
    """A session's summary row and the first page of its records after sequence `after`."""

    info: SessionInfo
    after: int
    records: Sequence[Record]


class BulkJournalReader(Protocol):
    """A store that can read many sessions in one call, which is cheaper than one by one. Optional."""

    async def read_many(self, positions: Sequence[tuple[str, int]], limit: int) -> list[JournalPage | None]:
        """Return, for each (session, sequence), at most `limit` records after it; None if there is no such session."""
        ...


class Projection(Protocol):
    """A projection of the journals: audit, errors, traces, the spending ledger.

    It stores its positions in the same transaction as what it derives, so that no record is lost or applied twice.
    """

    name: str

    async def positions(self) -> dict[str, int]:
        """Return, by session, the last record that was applied."""
        ...

    async def apply(self, batch: JournalBatch) -> None:
        """Apply a batch; raises MainstayError if it cannot now, and the batch is offered again later."""
        ...
