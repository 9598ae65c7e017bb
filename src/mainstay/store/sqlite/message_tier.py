"""MessageTier on SQLite: full-text index (FTS5) of all messages, ranked by BM25.

The index holds words only; if the journal is in the same database, the text is read from there. A word that occurs in
thousands of messages is slow to score and tells little, so the rarest words of a query select the messages, up to a
limit, and the others only improve the ranking.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import groupby

import apsw

from mainstay.core.journal import Record, decode_events
from mainstay.core.memory_tiers import IndexedMessage, MemoryQuery, MessageRef
from mainstay.core.searchable_messages import searchable_message
from mainstay.store.sqlite.connection import SqliteValue
from mainstay.store.sqlite.full_text import build_match_query, to_index_text
from mainstay.store.sqlite.index_maintenance import BackgroundStep, merge_segments
from mainstay.store.sqlite.tier_base import SqliteTier, clamp_time, delete_and_schedule_purge, replace_surrogates
from mainstay.store.sqlite.tier_cursors import (
    SEQ_MAX,
    Tombstones,
    advance_cursor,
    ensure_session_id,
    find_session_id,
    select_position,
    select_session_keys,
    to_json_array,
)

STEP_CHARS = 16_000  # of text, indexed in one step: a millisecond or two
STEP_MESSAGES = 48  # messages indexed in one step
POSTINGS_MAX = 4_000  # messages that are scored for one query
FREQUENT_WORD_MESSAGES = 10_000  # words in more messages than this are ignored
RANKING_WORDS_MAX = 3  # frequent words that are only used for ranking
LIMIT_MAX = 1_000
TRIM_ROWS = 64  # rows deleted in one step
EXTRA_MERGES = 4  # additional merge steps after each batch: an index with few segments is searched faster

_TERM = re.compile(r'"[^"]*"\*?')
_INDEX_TABLE = "messages_words"

INSERT_MESSAGE = "INSERT OR IGNORE INTO messages (id, at, role, speaker, origin, ref, text) VALUES (?,?,?,?,?,?,?)"
INSERT_WORDS = "INSERT INTO messages_words (rowid, text) VALUES (?,?)"
COUNT_MESSAGES_WITH = "SELECT count(*) FROM (SELECT 1 FROM messages_words WHERE messages_words MATCH ? LIMIT ?)"
SELECT_NEIGHBOURS = """
SELECT spot.value, messages.id FROM json_each(?1) AS spot CROSS JOIN messages ON messages.id IN (
    SELECT id FROM (
        SELECT id FROM messages WHERE id <= spot.value AND id > spot.value >> 32 << 32 ORDER BY id DESC LIMIT ?2 + 1
    ) UNION ALL SELECT id FROM (
        SELECT id FROM messages WHERE id > spot.value AND id < (spot.value >> 32) + 1 << 32 ORDER BY id LIMIT ?2
    )
)"""


class SqliteMessageTier(SqliteTier):
    name = "messages"

    @staticmethod
    def find_rows(db: apsw.Connection, session: int, seqs: Sequence[int] | None) -> list[int]:
        low = session << 32
        if seqs is None:
            rows: Iterable[tuple[int]] = db.execute(
                "SELECT id FROM messages WHERE id > ? AND id <= ?", (low, low + SEQ_MAX)
            )
        else:
            ids = to_json_array(low + seq for seq in seqs)
            rows = db.execute("SELECT id FROM messages WHERE id IN (SELECT value FROM json_each(?))", (ids,))
        return [row[0] for row in rows]

    @staticmethod
    def delete_rows(db: apsw.Connection, rows: Sequence[int]) -> None:
        db.executemany("DELETE FROM messages WHERE id=?", ((id,) for id in rows))
        db.executemany("DELETE FROM messages_words WHERE rowid=?", ((id,) for id in rows))

    # --- ingesting -------------------------------------------------------------------------------

    async def ingest(self, session: str, messages: Sequence[IndexedMessage], position: int) -> None:
        """Store messages in steps, each with the position it reaches, so that an interruption leaves a consistent
        state."""
        await self._database.run_in_background(self._ingest_steps(session, messages, position))

    def _ingest_steps(
        self, session: str, messages: Sequence[IndexedMessage], position: int
    ) -> Iterator[BackgroundStep]:
        batches = list(_split_into_batches(messages))
        for number, batch in enumerate(batches, start=1):
            last = position if number == len(batches) else batch[-1].seq
            yield partial(self._ingest_step, session=session, entries=batch, upto=last)
        if not batches:
            yield partial(self._ingest_step, session=session, entries=(), upto=position)
        more = [bool(batches)]
        while more[-1] and len(more) <= EXTRA_MERGES:
            yield lambda db: more.append(merge_segments(db, _INDEX_TABLE))

    def _ingest_step(self, db: apsw.Connection, session: str, entries: Sequence[IndexedMessage], upto: int) -> None:
        number = ensure_session_id(db, session, self._database.has_journal)
        stored, low, tombstones = select_position(db, self.name, number), number << 32, Tombstones(db, number)
        new = [entry for entry in entries if entry.seq > stored and entry.seq not in tombstones]
        texts = [None] * len(new) if self._database.has_journal else [entry.text for entry in new]
        db.executemany(
            INSERT_MESSAGE,
            (
                (low + entry.seq, entry.at, entry.role, entry.speaker, entry.origin, entry.call_id, text)
                for entry, text in zip(new, texts, strict=True)
            ),
        )
        if new:
            merge_segments(db, _INDEX_TABLE)
            db.executemany(INSERT_WORDS, ((low + entry.seq, to_index_text(entry.text)) for entry in new))
        advance_cursor(db, self.name, number, upto)

    async def trim(self, newest_max: int) -> None:
        await self._database.run_in_background(self._trim_steps(newest_max))

    def _trim_steps(self, newest_max: int) -> Iterator[BackgroundStep]:
        more = [True]
        yield lambda db: db.execute("CREATE INDEX IF NOT EXISTS messages_by_time ON messages (at)")
        while more[-1]:
            yield lambda db: more.append(self._trim_rows(db, newest_max))

    def _trim_rows(self, db: apsw.Connection, newest_max: int) -> bool:
        rows: Iterable[tuple[int]] = db.execute(
            "SELECT id FROM messages ORDER BY at DESC, id DESC LIMIT ? OFFSET ?", (TRIM_ROWS, max(0, newest_max))
        )
        return delete_and_schedule_purge(db, self, [row[0] for row in rows])

    # --- searching -------------------------------------------------------------------------------

    async def search(self, query: MemoryQuery, limit: int) -> list[MessageRef]:
        expression = build_match_query(query.text)
        if not expression:
            return []
        return await self._database.read(lambda db: _search_words(db, expression, query, max(0, min(limit, LIMIT_MAX))))

    async def find_neighbours(self, refs: Sequence[MessageRef], radius: int) -> list[list[MessageRef]]:
        def work(db: apsw.Connection) -> list[list[MessageRef]]:
            ids = _message_ids(db, refs)
            distinct = to_json_array({id for id in ids if id})
            pairs = db.execute(SELECT_NEIGHBOURS, (distinct, min(max(radius, 0), 100)))
            rows: list[tuple[int, int]] = list(pairs)
            names = {ref.session for ref in refs}
            by_number = {number: name for name in names if (number := find_session_id(db, name)) is not None}
            neighbours = {
                center: [MessageRef(by_number[id >> 32], id & SEQ_MAX) for id in sorted(row[1] for row in group)]
                for center, group in groupby(rows, key=lambda row: row[0])
            }
            return [neighbours.get(id, []) for id in ids]

        return await self._database.read(work)

    async def filter_refs(self, refs: Sequence[MessageRef], query: MemoryQuery) -> list[MessageRef]:
        def work(db: apsw.Connection) -> list[MessageRef]:
            ids = _message_ids(db, refs)
            conditions, values = _build_conditions(db, query, "id")
            where = " AND ".join(["id IN (SELECT value FROM json_each(?))", *conditions])
            rows: Iterable[tuple[int]] = db.execute(
                f"SELECT id FROM messages WHERE {where}", (to_json_array(ids), *values)
            )
            matching = {row[0] for row in rows}
            return [ref for ref, id in zip(refs, ids, strict=True) if id in matching]

        return await self._database.read(work)

    async def fetch_messages(self, refs: Sequence[MessageRef]) -> list[IndexedMessage]:
        def work(db: apsw.Connection) -> list[IndexedMessage]:
            ids = _message_ids(db, refs)
            by_id = dict(self._read_messages(db, ids))
            return [by_id[id] for id in ids if id in by_id]

        return await self._database.read(work)

    async def find_tool_result(self, session: str, call_id: str) -> IndexedMessage | None:
        def work(db: apsw.Connection) -> IndexedMessage | None:
            number = find_session_id(db, session)
            row: tuple[int] | None = db.execute(
                "SELECT id FROM messages WHERE id >> 32 = ? AND ref = ? AND ref != '' ORDER BY id DESC LIMIT 1",
                (number, call_id),
            ).fetchone()
            return next((entry for _, entry in self._read_messages(db, [row[0]])), None) if row else None

        return await self._database.read(work)

    async def count(self) -> int:
        def work(db: apsw.Connection) -> int:
            count: int = db.execute("SELECT count(*) FROM messages").get
            return count

        return await self._database.read(work)

    def _read_messages(self, db: apsw.Connection, ids: Iterable[int]) -> Iterator[tuple[int, IndexedMessage]]:
        """Yield (id, message) pairs, from the journal or, without one, from this tier's own table."""
        names = select_session_keys(db, (id >> 32 for id in ids))
        if not self._database.has_journal:
            rows: Iterable[tuple[int, int, str, str, str, str, str]] = db.execute(
                "SELECT id, at, role, text, speaker, origin, ref FROM messages "
                "WHERE id IN (SELECT value FROM json_each(?))",
                (to_json_array(ids),),
            )
            for id, at, role, text, speaker, origin, ref in rows:
                yield id, IndexedMessage(names[id >> 32], id & SEQ_MAX, at, role, text, speaker, origin, ref)
            return
        sql = "SELECT id, at, body FROM events WHERE id IN (SELECT value FROM json_each(?))"
        stored: list[tuple[int, int, str]] = list(db.execute(sql, (to_json_array(ids),)))
        events = decode_events([body for _, _, body in stored])
        for (id, at, _), event in zip(stored, events, strict=True):
            entry = searchable_message(names[id >> 32], Record(id & SEQ_MAX, at, event))
            if entry is not None:
                yield id, entry


def _split_into_batches(messages: Sequence[IndexedMessage]) -> Iterator[list[IndexedMessage]]:
    batch: list[IndexedMessage] = []
    size = 0
    for entry in messages:
        if batch and (size + len(entry.text) > STEP_CHARS or len(batch) >= STEP_MESSAGES):
            yield batch
            batch, size = [], 0
        batch.append(entry)
        size += len(entry.text)
    if batch:
        yield batch


def _message_ids(db: apsw.Connection, refs: Sequence[MessageRef]) -> list[int]:
    """Return the ids of these messages; 0 for one of an unknown session."""
    numbers = {name: find_session_id(db, name) for name in {ref.session for ref in refs}}
    return [
        (number << 32) + ref.seq if (number := numbers[ref.session]) is not None and 0 < ref.seq <= SEQ_MAX else 0
        for ref in refs
    ]


# --- full-text search ----------------------------------------------------------------------------


def _search_words(db: apsw.Connection, match_expression: str, query: MemoryQuery, limit: int) -> list[MessageRef]:
    expression, frequent = _build_expression(db, _TERM.findall(match_expression))
    if not expression:
        return []
    conditions, values = _build_conditions(db, query, "messages_words.rowid")
    where = " AND ".join(["messages_words MATCH ?", *conditions])
    source = "messages_words"
    if "messages." in where:
        source += " CROSS JOIN messages ON messages.id = messages_words.rowid"
    if frequent:  # every word is in too many messages: rank only the newest of them
        sql = f"""
            SELECT id, score FROM (
                SELECT messages_words.rowid AS id, bm25(messages_words) AS score FROM {source}
                WHERE {where} ORDER BY messages_words.rowid DESC LIMIT {POSTINGS_MAX}
            ) ORDER BY score LIMIT ?"""
    else:
        sql = f"""
            SELECT messages_words.rowid, messages_words.rank FROM {source}
            WHERE {where} ORDER BY messages_words.rank LIMIT ?"""
    rows: list[tuple[int, float]] = list(db.execute(sql, (expression, *values, limit)))
    names = select_session_keys(db, (id >> 32 for id, _ in rows))
    return [MessageRef(names[id >> 32], id & SEQ_MAX, -score) for id, score in rows]


def _build_expression(db: apsw.Connection, terms: list[str]) -> tuple[str, bool]:
    """Return the MATCH expression, and whether even its rarest word is too frequent.

    A message must contain one of the rarest words, as many as `POSTINGS_MAX` allows; the others only add to its score.
    Empty if no message contains any of the words.
    """
    counts: list[int] = [db.execute(COUNT_MESSAGES_WITH, (term, FREQUENT_WORD_MESSAGES)).get for term in terms]
    by_count = sorted((count, index) for index, count in enumerate(counts) if count)
    required: list[str] = []
    optional: list[str] = []
    total = 0
    for count, index in by_count:
        total += count
        if total <= POSTINGS_MAX or not required:
            required.append(terms[index])
        elif count < FREQUENT_WORD_MESSAGES:
            optional.append(terms[index])
    one_of = " OR ".join(required)
    frequent = bool(by_count) and by_count[0][0] > POSTINGS_MAX
    if not optional:
        return one_of, frequent
    any_of = " OR ".join([*required, *optional[:RANKING_WORDS_MAX]])
    return f"({one_of}) AND ({any_of})", frequent


def _build_conditions(db: apsw.Connection, query: MemoryQuery, id_column: str) -> tuple[list[str], list[SqliteValue]]:
    """Return SQL conditions and their values for the query's time, speaker and session."""
    where: list[str] = []
    values: list[SqliteValue] = []
    if query.session:
        low = (find_session_id(db, query.session) or 0) << 32
        where.append(f"{id_column} > ? AND {id_column} <= ?")
        values += [low, low + SEQ_MAX if low else 0]
    if query.start is not None:
        where.append("messages.at >= ?")
        values.append(clamp_time(query.start, low=True))
    if query.end is not None:
        where.append("messages.at < ?")
        values.append(clamp_time(query.end, low=False))
    if query.speaker:
        where.append("(messages.speaker = ? COLLATE NOCASE OR messages.role = ? COLLATE NOCASE)")
        values += [replace_surrogates(query.speaker), replace_surrogates(query.speaker)]
    return where, values
