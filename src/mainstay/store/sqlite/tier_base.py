"""Base class of the SQLite memory tiers: positions and deletion."""

from __future__ import annotations

from collections.abc import Sequence

import apsw

from mainstay.store.sqlite.index_maintenance import purge_steps, schedule_purge
from mainstay.store.sqlite.tier_cursors import add_tombstones, find_session_id, select_position, select_positions
from mainstay.store.sqlite.workspace_database import WorkspaceDatabase


class SqliteTier:
    """Subclasses define `name`, `find_rows` and `delete_rows`; positions and deletion are implemented here."""

    name = ""

    def __init__(self, database: WorkspaceDatabase) -> None:
        self._database = database

    @staticmethod
    def find_rows(db: apsw.Connection, session: int, seqs: Sequence[int] | None) -> list[int]:
        """Return the ids of the rows that were derived from these records (None: from the whole session)."""
        raise NotImplementedError

    @staticmethod
    def delete_rows(db: apsw.Connection, rows: Sequence[int]) -> None:
        raise NotImplementedError

    async def positions(self) -> dict[str, int]:
        return await self._database.read(lambda db: select_positions(db, self.name, self._database.has_journal))

    async def position(self, session: str) -> int:
        def work(db: apsw.Connection) -> int:
            number = find_session_id(db, session)
            return 0 if number is None else select_position(db, self.name, number)

        return await self._database.read(work)

    async def delete_derived(self, session: str, seqs: Sequence[int] | None = None) -> None:
        if (
            await self._database.read(lambda db: not self._find_session_rows(db, session, seqs))
            and self._database.has_journal
        ):
            return  # erasing from the journal has erased this tier's rows in the same transaction

        def work(db: apsw.Connection) -> bool:
            number = find_session_id(db, session)
            if number is None:
                return False
            add_tombstones(db, number, seqs, self._database.has_journal)
            rows = self.find_rows(db, number, seqs)
            return delete_and_schedule_purge(db, self, rows)

        if await self._database.write(work):
            await self._database.run_in_background(purge_steps())

    def _find_session_rows(self, db: apsw.Connection, session: str, seqs: Sequence[int] | None) -> list[int]:
        number = find_session_id(db, session)
        return self.find_rows(db, number, seqs) if number is not None else []


def delete_and_schedule_purge(db: apsw.Connection, tier: type[SqliteTier] | SqliteTier, rows: Sequence[int]) -> bool:
    """Delete rows and schedule a purge of their words from the file; returns False if there were none."""
    if not rows:
        return False
    tier.delete_rows(db, rows)
    schedule_purge(db)
    return True


def clamp_time(time_ms: int | None, *, low: bool) -> int:
    """Clamp a time to SQLite's 64-bit integers; None becomes the lowest or the highest."""
    if time_ms is None:
        return -(1 << 63) if low else (1 << 63) - 1
    return max(-(1 << 63), min(time_ms, (1 << 63) - 1))


def replace_surrogates(text: str) -> str:
    """Replace lone surrogates, so that any text can be compared with stored text, which contains none."""
    return text.encode("utf-8", "replace").decode()
