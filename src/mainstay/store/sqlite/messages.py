"""Every message by its words: the MessageTier on SQLite's full-text index.

The text itself stays in the journal where there is one; the index holds words only. Scores are BM25. A word that
stands in thousands of messages costs as much time as it tells little, so the rarest words of a question choose the
messages, up to a bound, and the others only help to put them in order.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import groupby
from typing import Any

import apsw

from mainstay.core.entries import entry_of
from mainstay.core.journal import Record, decode_all
from mainstay.core.recall import Entry, Query, Spot
from mainstay.store.sqlite.cursors import MOST, Gone, advance, followed, keys, listed, position, session_id
from mainstay.store.sqlite.slices import Step, merge
from mainstay.store.sqlite.tier import SqliteTier, discard, plain, within
from mainstay.store.sqlite.words import indexed, match_query

SLICE_CHARS = 16_000  # of text, indexed in one go: a millisecond or two
SLICE_ENTRIES = 48
POSTINGS_MAX = 4_000  # messages that are scored for one question
COUNTED_MAX = 10_000  # a word that stands in more tells nothing
HELPERS_MAX = 3  # frequent words that help to put them in order
LIMIT_MAX = 1_000
TRIM_ROWS = 64
MERGES = 4  # further ones after each batch, where there is something to merge: few segments are searched faster

_TERM = re.compile(r'"[^"]*"\*?')
_TABLE = "messages_words"

INSERT = "INSERT OR IGNORE INTO messages (id, at, role, speaker, origin, ref, text) VALUES (?,?,?,?,?,?,?)"
INDEX = "INSERT INTO messages_words (rowid, text) VALUES (?,?)"
COUNT = "SELECT count(*) FROM (SELECT 1 FROM messages_words WHERE messages_words MATCH ? LIMIT ?)"
AROUND = """
SELECT spot.value, messages.id FROM json_each(?1) AS spot CROSS JOIN messages ON messages.id IN (
    SELECT id FROM (
        SELECT id FROM messages WHERE id <= spot.value AND id > spot.value >> 32 << 32 ORDER BY id DESC LIMIT ?2 + 1
    ) UNION ALL SELECT id FROM (
        SELECT id FROM messages WHERE id > spot.value AND id < (spot.value >> 32) + 1 << 32 ORDER BY id LIMIT ?2
    )
)"""


class SqliteMessages(SqliteTier):
    name = "messages"

    @staticmethod
    def held(db: apsw.Connection, session: int, seqs: Sequence[int] | None) -> list[int]:
        low = session << 32
        if seqs is None:
            rows: Any = db.execute("SELECT id FROM messages WHERE id > ? AND id <= ?", (low, low + MOST))
        else:
            wanted = listed(low + seq for seq in seqs)
            rows = db.execute("SELECT id FROM messages WHERE id IN (SELECT value FROM json_each(?))", (wanted,))
        return [row[0] for row in rows]

    @staticmethod
    def delete(db: apsw.Connection, rows: Sequence[int]) -> None:
        db.executemany("DELETE FROM messages WHERE id=?", ((id,) for id in rows))
        db.executemany("DELETE FROM messages_words WHERE rowid=?", ((id,) for id in rows))

    # --- following -------------------------------------------------------------------------------

    async def absorb(self, session: str, entries: Sequence[Entry], upto: int) -> None:
        """Many are taken in slices, each with the position it brings: whatever interrupts, nothing is half done."""
        await self._desk.trickle(self._slices(session, entries, upto))

    def _slices(self, session: str, entries: Sequence[Entry], upto: int) -> Iterator[Step]:
        slices = list(_sliced(entries))
        for number, some in enumerate(slices, start=1):
            last = upto if number == len(slices) else some[-1].seq
            yield partial(self._absorb, session=session, entries=some, upto=last)
        if not slices:
            yield partial(self._absorb, session=session, entries=(), upto=upto)
        more = [bool(slices)]
        while more[-1] and len(more) <= MERGES:
            yield lambda db: more.append(merge(db, _TABLE))

    def _absorb(self, db: apsw.Connection, session: str, entries: Sequence[Entry], upto: int) -> None:
        number = followed(db, session, self._desk.journal)
        have, low, gone = position(db, self.name, number), number << 32, Gone(db, number)
        new = [entry for entry in entries if entry.seq > have and entry.seq not in gone]
        kept = [None] * len(new) if self._desk.journal else [entry.text for entry in new]
        db.executemany(
            INSERT,
            (
                (low + entry.seq, entry.at, entry.role, entry.speaker, entry.origin, entry.ref, text)
                for entry, text in zip(new, kept, strict=True)
            ),
        )
        if new:
            merge(db, _TABLE)
            db.executemany(INDEX, ((low + entry.seq, indexed(entry.text)) for entry in new))
        advance(db, self.name, number, upto)

    async def trim(self, newest: int) -> None:
        await self._desk.trickle(self._trimming(newest))

    def _trimming(self, newest: int) -> Iterator[Step]:
        going = [True]
        yield lambda db: db.execute("CREATE INDEX IF NOT EXISTS messages_by_time ON messages (at)")
        while going[-1]:
            yield lambda db: going.append(self._trim(db, newest))

    def _trim(self, db: apsw.Connection, newest: int) -> bool:
        rows: Any = db.execute(
            "SELECT id FROM messages ORDER BY at DESC, id DESC LIMIT ? OFFSET ?", (TRIM_ROWS, max(0, newest))
        ).fetchall()
        return discard(db, self, [row[0] for row in rows])

    # --- finding ---------------------------------------------------------------------------------

    async def match(self, query: Query, limit: int) -> list[Spot]:
        asked = match_query(query.text)
        if not asked:
            return []
        return await self._desk.read(lambda db: _match(db, asked, query, max(0, min(limit, LIMIT_MAX))))

    async def near(self, spots: Sequence[Spot], radius: int) -> list[list[Spot]]:
        def work(db: apsw.Connection) -> list[list[Spot]]:
            places = _places(db, spots)
            wanted = listed({place for place in places if place})
            rows: Any = db.execute(AROUND, (wanted, min(max(radius, 0), 100))).fetchall()
            names = {spot.session for spot in spots}
            by_number = {number: name for name in names if (number := session_id(db, name)) is not None}
            around = {
                place: [Spot(by_number[id >> 32], id & MOST) for id in sorted(row[1] for row in group)]
                for place, group in groupby(rows, key=lambda row: row[0])
            }
            return [around.get(place, []) for place in places]

        return await self._desk.read(work)

    async def select(self, spots: Sequence[Spot], query: Query) -> list[Spot]:
        def work(db: apsw.Connection) -> list[Spot]:
            places = _places(db, spots)
            conditions, values = _conditions(db, query, "id")
            where = " AND ".join(["id IN (SELECT value FROM json_each(?))", *conditions])
            rows: Any = db.execute(f"SELECT id FROM messages WHERE {where}", (listed(places), *values))
            found = {row[0] for row in rows}
            return [spot for spot, place in zip(spots, places, strict=True) if place in found]

        return await self._desk.read(work)

    async def fetch(self, spots: Sequence[Spot]) -> list[Entry]:
        def work(db: apsw.Connection) -> list[Entry]:
            places = _places(db, spots)
            found = dict(self._entries(db, places))
            return [found[place] for place in places if place in found]

        return await self._desk.read(work)

    async def find(self, session: str, ref: str) -> Entry | None:
        def work(db: apsw.Connection) -> Entry | None:
            number = session_id(db, session)
            row: Any = db.execute(
                "SELECT id FROM messages WHERE id >> 32 = ? AND ref = ? AND ref != '' ORDER BY id DESC LIMIT 1",
                (number, ref),
            ).fetchone()
            return next((entry for _, entry in self._entries(db, [row[0]])), None) if row else None

        return await self._desk.read(work)

    async def count(self) -> int:
        def work(db: apsw.Connection) -> int:
            row: Any = db.execute("SELECT count(*) FROM messages").fetchone()
            return int(row[0])

        return await self._desk.read(work)

    def _entries(self, db: apsw.Connection, places: Iterable[int]) -> Iterator[tuple[int, Entry]]:
        names = keys(db, (place >> 32 for place in places))
        if not self._desk.journal:
            rows: Any = db.execute(
                "SELECT id, at, role, text, speaker, origin, ref FROM messages "
                "WHERE id IN (SELECT value FROM json_each(?))",
                (listed(places),),
            )
            for id, at, role, text, speaker, origin, ref in rows:
                yield id, Entry(names[id >> 32], id & MOST, at, role, text, speaker, origin, ref)
            return
        rows = db.execute(
            "SELECT id, at, body FROM events WHERE id IN (SELECT value FROM json_each(?))", (listed(places),)
        ).fetchall()
        events = decode_all([body for _, _, body in rows])
        for (id, at, _), event in zip(rows, events, strict=True):
            entry = entry_of(names[id >> 32], Record(id & MOST, at, event))
            if entry is not None:
                yield id, entry


def _sliced(entries: Sequence[Entry]) -> Iterator[list[Entry]]:
    some: list[Entry] = []
    size = 0
    for entry in entries:
        if some and (size + len(entry.text) > SLICE_CHARS or len(some) >= SLICE_ENTRIES):
            yield some
            some, size = [], 0
        some.append(entry)
        size += len(entry.text)
    if some:
        yield some


def _places(db: apsw.Connection, spots: Sequence[Spot]) -> list[int]:
    """Their ids; 0 for what is in no session that is known here."""
    numbers = {name: session_id(db, name) for name in {spot.session for spot in spots}}
    return [
        (number << 32) + spot.seq if (number := numbers[spot.session]) is not None and 0 < spot.seq <= MOST else 0
        for spot in spots
    ]


# --- by words ------------------------------------------------------------------------------------


def _match(db: apsw.Connection, asked: str, query: Query, limit: int) -> list[Spot]:
    expression, frequent = _expression(db, _TERM.findall(asked))
    if not expression:
        return []
    conditions, values = _conditions(db, query, "messages_words.rowid")
    where = " AND ".join(["messages_words MATCH ?", *conditions])
    source = "messages_words"
    if "messages." in where:
        source += " CROSS JOIN messages ON messages.id = messages_words.rowid"
    if frequent:  # every word is everywhere: of the newest of them, the best
        sql = f"""
            SELECT id, score FROM (
                SELECT messages_words.rowid AS id, bm25(messages_words) AS score FROM {source}
                WHERE {where} ORDER BY messages_words.rowid DESC LIMIT {POSTINGS_MAX}
            ) ORDER BY score LIMIT ?"""
    else:
        sql = f"""
            SELECT messages_words.rowid, messages_words.rank FROM {source}
            WHERE {where} ORDER BY messages_words.rank LIMIT ?"""
    rows: Any = db.execute(sql, (expression, *values, limit)).fetchall()
    names = keys(db, (id >> 32 for id, _ in rows))
    return [Spot(names[id >> 32], id & MOST, -score) for id, score in rows]


def _expression(db: apsw.Connection, terms: list[str]) -> tuple[str, bool]:
    """The rarest words, as long as they are few enough to be scored; then the others, which only help. And whether
    even the rarest is too frequent. Empty if none of them was ever said."""
    counts: Any = [db.execute(COUNT, (term, COUNTED_MAX)).fetchone() for term in terms]
    said = sorted((count, place) for place, (count,) in enumerate(counts) if count)
    chosen: list[str] = []
    helping: list[str] = []
    total = 0
    for count, place in said:
        total += count
        if total <= POSTINGS_MAX or not chosen:
            chosen.append(terms[place])
        elif count < COUNTED_MAX:
            helping.append(terms[place])
    one_of = " OR ".join(chosen)
    frequent = bool(said) and said[0][0] > POSTINGS_MAX
    if not helping:
        return one_of, frequent
    any_of = " OR ".join([*chosen, *helping[:HELPERS_MAX]])
    return f"({one_of}) AND ({any_of})", frequent


def _conditions(db: apsw.Connection, query: Query, id: str) -> tuple[list[str], list[Any]]:
    """The query's time, speaker and session, in SQL."""
    where: list[str] = []
    values: list[Any] = []
    if query.session:
        low = (session_id(db, query.session) or 0) << 32
        where.append(f"{id} > ? AND {id} <= ?")
        values += [low, low + MOST if low else 0]
    if query.start is not None:
        where.append("messages.at >= ?")
        values.append(within(query.start, low=True))
    if query.end is not None:
        where.append("messages.at < ?")
        values.append(within(query.end, low=False))
    if query.speaker:
        where.append("(messages.speaker = ? COLLATE NOCASE OR messages.role = ? COLLATE NOCASE)")
        values += [plain(query.speaker), plain(query.speaker)]
    return where, values
