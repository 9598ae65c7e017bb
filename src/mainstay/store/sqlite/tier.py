"""What all tiers on SQLite have in common."""

from __future__ import annotations

from collections.abc import Sequence

import apsw

from mainstay.store.sqlite.cursors import forget, position, positions, session_id
from mainstay.store.sqlite.desk import Desk
from mainstay.store.sqlite.slices import purge_later, purging


class SqliteTier:
    """Says what it holds of a session and how to delete it; the rest follows."""

    name = ""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    @staticmethod
    def held(db: apsw.Connection, session: int, seqs: Sequence[int] | None) -> list[int]:
        """The rows that came of these records, or of the whole session."""
        raise NotImplementedError

    @staticmethod
    def delete(db: apsw.Connection, rows: Sequence[int]) -> None:
        raise NotImplementedError

    async def positions(self) -> dict[str, int]:
        return await self._desk.read(lambda db: positions(db, self.name, self._desk.journal))

    async def position(self, session: str) -> int:
        def work(db: apsw.Connection) -> int:
            number = session_id(db, session)
            return 0 if number is None else position(db, self.name, number)

        return await self._desk.read(work)

    async def drop(self, session: str, seqs: Sequence[int] | None = None) -> None:
        if await self._desk.read(lambda db: not self._rows(db, session, seqs)) and self._desk.journal:
            return  # the journal forgot it, and with it this tier

        def work(db: apsw.Connection) -> bool:
            number = session_id(db, session)
            if number is None:
                return False
            forget(db, number, seqs, self._desk.journal)
            rows = self.held(db, number, seqs)
            return discard(db, self, rows)

        if await self._desk.write(work):
            await self._desk.trickle(purging())

    def _rows(self, db: apsw.Connection, session: str, seqs: Sequence[int] | None) -> list[int]:
        number = session_id(db, session)
        return self.held(db, number, seqs) if number is not None else []


def discard(db: apsw.Connection, tier: type[SqliteTier] | SqliteTier, rows: Sequence[int]) -> bool:
    """Delete, and see to it that nothing of it stays in the file. Whether there was anything."""
    if not rows:
        return False
    tier.delete(db, rows)
    purge_later(db)
    return True


def within(ms: int | None, *, low: bool) -> int:
    """A time that SQLite can take; none is the first or the last."""
    if ms is None:
        return -(1 << 63) if low else (1 << 63) - 1
    return max(-(1 << 63), min(ms, (1 << 63) - 1))


def plain(text: str) -> str:
    """What is only compared with may be anything; half characters are in nothing that is kept."""
    return text.encode("utf-8", "replace").decode()
