"""SummaryTier on SQLite: the summaries of folds, by date and by full-text search."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import apsw

from mainstay.core.memory_tiers import MemoryQuery, Summary
from mainstay.store.sqlite.full_text import build_match_query, to_index_text
from mainstay.store.sqlite.index_maintenance import merge_segments
from mainstay.store.sqlite.tier_base import SqliteTier, clamp_time
from mainstay.store.sqlite.tier_cursors import (
    Tombstones,
    advance_cursor,
    ensure_session_id,
    find_session_id,
    select_position,
)

SummaryRow = tuple[int, int, int, int, str, str]  # see COLUMNS

LIMIT_MAX = 1_000

COLUMNS = """summaries.first, summaries.last, summaries.start, summaries."end", summaries.text, sessions.key
    FROM summaries JOIN sessions ON sessions.id = summaries.session"""
UPSERT_SUMMARY = """
INSERT INTO summaries (session, first, last, start, "end", text) VALUES (?,?,?,?,?,?)
ON CONFLICT (session, first, last) DO UPDATE SET start=excluded.start, "end"=excluded."end", text=excluded.text
RETURNING id"""


class SqliteSummaryTier(SqliteTier):
    name = "summaries"

    @staticmethod
    def find_rows(db: apsw.Connection, session: int, seqs: Sequence[int] | None) -> list[int]:
        """Return all summaries that end at or after the first of these records: a summary includes those before it."""
        lowest = 0 if seqs is None else min(seqs, default=1 << 32)
        rows: Iterable[tuple[int]] = db.execute(
            "SELECT id FROM summaries WHERE session=? AND last >= ?", (session, lowest)
        )
        return [row[0] for row in rows]

    @staticmethod
    def delete_rows(db: apsw.Connection, rows: Sequence[int]) -> None:
        db.executemany("DELETE FROM summaries WHERE id=?", ((id,) for id in rows))
        db.executemany("DELETE FROM summaries_words WHERE rowid=?", ((id,) for id in rows))

    async def ingest(self, session: str, summaries: Sequence[Summary], position: int) -> None:
        def step(db: apsw.Connection) -> None:
            number = ensure_session_id(db, session, self._database.has_journal)
            if position <= select_position(db, self.name, number):
                return
            tombstones = Tombstones(db, number)
            for summary in summaries:
                if not tombstones.overlaps(summary.first, summary.last):
                    _upsert_summary(db, number, summary)
            if summaries:
                merge_segments(db, "summaries_words")
            advance_cursor(db, self.name, number, position)

        await self._database.run_in_background(iter([step]))

    async def list_between(self, start: int | None, end: int | None, limit: int = 50) -> list[Summary]:
        sql = f"""SELECT {COLUMNS} WHERE summaries."end" >= ? AND summaries.start < ?
            ORDER BY summaries."end" DESC, summaries.id DESC LIMIT ?"""
        values = (clamp_time(start, low=True), clamp_time(end, low=False), max(0, min(limit, LIMIT_MAX)))

        def work(db: apsw.Connection) -> list[Summary]:
            rows: list[SummaryRow] = list(db.execute(sql, values))
            return [Summary(*row) for row in rows[::-1]]

        return await self._database.read(work)

    async def search(self, query: MemoryQuery, limit: int) -> list[Summary]:
        expression = build_match_query(query.text)
        if not expression:
            return []
        sql = f"""SELECT {COLUMNS} JOIN summaries_words ON summaries_words.rowid = summaries.id
            WHERE summaries_words MATCH ? AND summaries."end" >= ? AND summaries.start < ?
            AND (? OR summaries.session = ?) ORDER BY summaries_words.rank LIMIT ?"""

        def work(db: apsw.Connection) -> list[Summary]:
            session = find_session_id(db, query.session) if query.session else 0
            values = (
                *(expression, clamp_time(query.start, low=True), clamp_time(query.end, low=False)),
                *(not query.session, session, max(0, min(limit, LIMIT_MAX))),
            )
            rows: Iterable[SummaryRow] = db.execute(sql, values)
            return [Summary(*row) for row in rows]

        return await self._database.read(work)


def _upsert_summary(db: apsw.Connection, session: int, summary: Summary) -> None:
    values = (session, summary.first, summary.last, summary.start, summary.end, summary.text)
    id: int = db.execute(UPSERT_SUMMARY, values).get
    db.execute("DELETE FROM summaries_words WHERE rowid=?", (id,))
    db.execute("INSERT INTO summaries_words (rowid, text) VALUES (?,?)", (id, to_index_text(summary.text)))
