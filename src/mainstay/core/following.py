"""Following the journals, as a port: whoever makes something of them is told what is new, each record once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import msgspec

from mainstay.core.journal import Record
from mainstay.core.ports import Standing


class Stretch(msgspec.Struct, frozen=True):
    """New records of one session, in order.

    `earlier` is what a reader has been given before of the turn in which they begin, and of inputs that waited then, so
    that it need not remember. What a fork copied is not told again, what was blanked says nothing.
    """

    standing: Standing
    records: Sequence[Record]
    earlier: Sequence[Record] = ()


class Glimpse(msgspec.Struct, frozen=True, gc=False):
    """Where a session stands, and its records after some place: the first of them."""

    standing: Standing
    after: int
    records: Sequence[Record]


class Glancing(Protocol):
    """A store that can be asked about many sessions at once, which costs less than one after the other."""

    async def glance(self, wanted: Sequence[tuple[str, int]], limit: int) -> list[Glimpse | None]:
        """Of each its records after this sequence, at most so many; None for one that is not there."""
        ...


class Reader(Protocol):
    """Keeps how far it is together with what it made of the records, so that nothing is lost or done twice."""

    name: str

    async def positions(self) -> dict[str, int]:
        """By session: the last record that it was given."""
        ...

    async def take(self, stretch: Stretch) -> None:
        """Raises MainstayError if it cannot now; the same is offered again later."""
        ...
