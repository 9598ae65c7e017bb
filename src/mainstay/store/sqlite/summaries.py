"""What folds wrote, by time and by words: the SummaryTier on SQLite."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import apsw

from mainstay.core.recall import Query, Summary
from mainstay.store.sqlite.cursors import Gone, advance, followed, position, session_id
from mainstay.store.sqlite.slices import merge
from mainstay.store.sqlite.tier import SqliteTier, within
from mainstay.store.sqlite.words import indexed, match_query

LIMIT_MAX = 1_000

COLUMNS = """summaries.first, summaries.last, summaries.start, summaries."end", summaries.text, sessions.key
    FROM summaries JOIN sessions ON sessions.id = summaries.session"""
PUT = """
INSERT INTO summaries (session, first, last, start, "end", text) VALUES (?,?,?,?,?,?)
ON CONFLICT (session, first, last) DO UPDATE SET start=excluded.start, "end"=excluded."end", text=excluded.text
RETURNING id"""


class SqliteSummaries(SqliteTier):
    name = "summaries"

    @staticmethod
    def held(db: apsw.Connection, session: int, seqs: Sequence[int] | None) -> list[int]:
        """A summary knows what stands before it, so all go that reach as far as the first of these records."""
        lowest = 0 if seqs is None else min(seqs, default=1 << 32)
        rows: Any = db.execute("SELECT id FROM summaries WHERE session=? AND last >= ?", (session, lowest))
        return [row[0] for row in rows]

    @staticmethod
    def delete(db: apsw.Connection, rows: Sequence[int]) -> None:
        db.executemany("DELETE FROM summaries WHERE id=?", ((id,) for id in rows))
        db.executemany("DELETE FROM summaries_words WHERE rowid=?", ((id,) for id in rows))

    async def absorb(self, session: str, summaries: Sequence[Summary], upto: int) -> None:
        def step(db: apsw.Connection) -> None:
            number = followed(db, session, self._desk.journal)
            if upto <= position(db, self.name, number):
                return
            gone = Gone(db, number)
            for one in summaries:
                if not gone.touches(one.first, one.last):
                    _put(db, number, one)
            if summaries:
                merge(db, "summaries_words")
            advance(db, self.name, number, upto)

        await self._desk.trickle(iter([step]))

    async def between(self, start: int | None, end: int | None, limit: int = 50) -> list[Summary]:
        sql = f"""SELECT {COLUMNS} WHERE summaries."end" >= ? AND summaries.start < ?
            ORDER BY summaries."end" DESC, summaries.id DESC LIMIT ?"""
        values = (within(start, low=True), within(end, low=False), max(0, min(limit, LIMIT_MAX)))
        rows: Any = await self._desk.read(lambda db: db.execute(sql, values).fetchall())
        return [Summary(*row) for row in rows[::-1]]

    async def match(self, query: Query, limit: int) -> list[Summary]:
        asked = match_query(query.text)
        if not asked:
            return []
        sql = f"""SELECT {COLUMNS} JOIN summaries_words ON summaries_words.rowid = summaries.id
            WHERE summaries_words MATCH ? AND summaries."end" >= ? AND summaries.start < ?
            AND (? OR summaries.session = ?) ORDER BY summaries_words.rank LIMIT ?"""

        def work(db: apsw.Connection) -> list[Summary]:
            session = session_id(db, query.session) if query.session else 0
            values = (
                *(asked, within(query.start, low=True), within(query.end, low=False)),
                *(not query.session, session, max(0, min(limit, LIMIT_MAX))),
            )
            rows: Any = db.execute(sql, values).fetchall()
            return [Summary(*row) for row in rows]

        return await self._desk.read(work)


def _put(db: apsw.Connection, session: int, one: Summary) -> None:
    row: Any = db.execute(PUT, (session, one.first, one.last, one.start, one.end, one.text)).fetchone()
    db.execute("DELETE FROM summaries_words WHERE rowid=?", row)
    db.execute("INSERT INTO summaries_words (rowid, text) VALUES (?,?)", (row[0], indexed(one.text)))
