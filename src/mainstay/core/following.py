"""Following the journals, as a port: whoever makes something of them is told what is new, each record once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import msgspec

from mainstay.core.journal import Record
from mainstay.core.ports import Standing


class Stretch(msgspec.Struct, frozen=True):
    """New records of one session, in order.

    `earlier` is what a reader has been given before of the turn in which they begin, so that it need not remember;
    empty between turns.
    """

    standing: Standing
    records: Sequence[Record]
    earlier: Sequence[Record] = ()


class Reader(Protocol):
    """Keeps how far it is together with what it made of the records, so that nothing is lost or done twice."""

    name: str

    async def positions(self) -> dict[str, int]:
        """By session: the last record that it was given."""
        ...

    async def take(self, stretch: Stretch) -> None:
        """Raises MainstayError if it cannot now; the same is offered again later."""
        ...
