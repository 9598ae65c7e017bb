"""FreeFormMemoryTier on SQLite: free-form memories, and workflows derived from successful turns."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence

import apsw
import msgspec

from mainstay.core.memory_tiers import Memory, MemoryQuery, parse_message_id
from mainstay.store.fact_rules import normalise_text
from mainstay.store.sqlite.connection import SqliteValue
from mainstay.store.sqlite.full_text import build_match_query, to_index_text
from mainstay.store.sqlite.index_maintenance import merge_segments, purge_steps, schedule_purge
from mainstay.store.sqlite.tier_base import SqliteTier, clamp_time, replace_surrogates
from mainstay.store.sqlite.tier_cursors import Tombstones, advance_cursor, ensure_session_id, select_position

MemoryRow = tuple[str, str, str, int, str, str, int, str]  # see COLUMNS

LIMIT_MAX = 10_000
WORKFLOWS_MAX = 2_000  # derived workflows; the oldest are deleted

COLUMNS = """memories.name, memories.text, memories.tags, memories.at, memories.source, memories.origin,
    memories.pinned, memories.data FROM memories"""
INSERT_MEMORY = """
INSERT OR IGNORE INTO memories (name, digest, text, tags, at, session, first, last, source, origin, pinned, data)
VALUES (?,?,?,?,?,?,?,?,?,?,?,?) RETURNING id"""
SELECT_OLDEST_WORKFLOWS = "SELECT id FROM memories WHERE digest IS NULL ORDER BY at DESC, id DESC LIMIT -1 OFFSET ?"
HAS_ALL_TAGS = """NOT EXISTS (
    SELECT 1 FROM json_each(?) AS asked
    WHERE NOT EXISTS (
        SELECT 1 FROM json_each(memories.tags) AS tag WHERE tag.value = asked.value COLLATE NOCASE
    )
)"""

_decode_tags = msgspec.json.Decoder(tuple[str, ...]).decode


class SqliteMemoryTier(SqliteTier):
    name = "memories"

    @staticmethod
    def find_rows(db: apsw.Connection, session: int, seqs: Sequence[int] | None) -> list[int]:
        rows: Iterable[tuple[int, int, int]] = db.execute(
            "SELECT memories.id, first, last FROM memories JOIN sessions ON sessions.key = memories.session "
            "WHERE sessions.id=?",
            (session,),
        )
        return [id for id, first, last in rows if seqs is None or any(first <= seq <= last for seq in seqs)]

    @staticmethod
    def delete_rows(db: apsw.Connection, rows: Sequence[int]) -> None:
        db.executemany("DELETE FROM memories WHERE id=?", ((id,) for id in rows))
        db.executemany("DELETE FROM memories_words WHERE rowid=?", ((id,) for id in rows))

    async def ingest(self, session: str, memories: Sequence[Memory], position: int) -> None:
        def step(db: apsw.Connection) -> None:
            number = ensure_session_id(db, session, self._database.has_journal)
            if position <= select_position(db, self.name, number):
                return
            tombstones = Tombstones(db, number)
            for memory in memories:
                source = parse_message_id(memory.source)
                first = source[1] if source is not None else 0
                if not tombstones.overlaps(first, position):
                    _insert_memory(db, memory, None, position)
            if memories:
                oldest: Iterable[tuple[int]] = db.execute(SELECT_OLDEST_WORKFLOWS, (WORKFLOWS_MAX,))
                self.delete_rows(db, [id for (id,) in oldest])
                merge_segments(db, "memories_words")
            advance_cursor(db, self.name, number, position)

        await self._database.run_in_background(iter([step]))

    async def save(self, memory: Memory) -> Memory:
        digest = hashlib.sha256(
            "\x1f".join([normalise_text(memory.text), *sorted(normalise_text(tag) for tag in memory.tags)]).encode(
                "utf-8", "replace"
            )
        ).hexdigest()

        def work(db: apsw.Connection) -> Memory:
            if _insert_memory(db, memory, digest, None):
                merge_segments(db, "memories_words")
            sql = f"SELECT {COLUMNS} WHERE name=? OR digest=? ORDER BY name=? DESC LIMIT 1"
            row: MemoryRow = db.execute(sql, (memory.id, digest, memory.id)).get
            return _row_to_memory(row)

        return await self._database.write(work)

    async def search(self, query: MemoryQuery, tags: Sequence[str] = (), limit: int = 10) -> list[tuple[Memory, float]]:
        expression = build_match_query(query.text)
        if not expression and (query.text.strip() or not tags):
            return []
        where = [HAS_ALL_TAGS, "memories.at >= ?", "memories.at < ?"]
        values: list[SqliteValue] = [
            json.dumps(list(tags)),  # unlike msgspec, it accepts lone surrogates
            clamp_time(query.start, low=True),
            clamp_time(query.end, low=False),
        ]
        if query.session:
            where.append("memories.session = ?")
            values.append(replace_surrogates(query.session))
        source, order, score = "", "memories.at DESC, memories.id DESC", "0.0"
        if expression:
            source = "JOIN memories_words ON memories_words.rowid = memories.id"
            where.append("memories_words MATCH ?")
            values.append(expression)
            order, score = "memories_words.rank", "-memories_words.rank"
        sql = f"SELECT {score}, {COLUMNS} {source} WHERE {' AND '.join(where)} ORDER BY {order} LIMIT ?"

        def work(db: apsw.Connection) -> list[tuple[Memory, float]]:
            rows: Iterable[tuple[float, *MemoryRow]] = db.execute(sql, (*values, _clamp_limit(limit)))
            return [(_row_to_memory(row[1:]), row[0]) for row in rows]

        return await self._database.read(work)

    async def list_memories(
        self, *, tag: str = "", origin: str | None = None, pinned: bool | None = None, limit: int = 100
    ) -> list[Memory]:
        """Return memories, newest first. `origin` is a prefix; the empty one matches only the empty origin."""
        where = ["1"]
        values: list[SqliteValue] = []
        if tag:
            where.append(HAS_ALL_TAGS)
            values.append(json.dumps([tag]))
        if origin is not None:
            where.append("memories.origin = ?" if not origin else "substr(memories.origin, 1, ?) = ?")
            values += [""] if not origin else [len(origin), replace_surrogates(origin)]
        if pinned is not None:
            where.append("memories.pinned = ?")
            values.append(pinned)
        sql = f"SELECT {COLUMNS} WHERE {' AND '.join(where)} ORDER BY memories.at DESC, memories.id DESC LIMIT ?"

        def work(db: apsw.Connection) -> list[Memory]:
            rows: Iterable[MemoryRow] = db.execute(sql, (*values, _clamp_limit(limit)))
            return [_row_to_memory(row) for row in rows]

        return await self._database.read(work)

    async def forget(self, ids: Sequence[str]) -> int:
        def work(db: apsw.Connection) -> int:
            rows: list[tuple[int]] = [
                row
                for id in set(ids)
                for row in db.execute("SELECT id FROM memories WHERE name=?", (replace_surrogates(id),))
            ]
            if rows:
                self.delete_rows(db, [id for (id,) in rows])
                schedule_purge(db)
            return len(rows)

        forgotten = await self._database.write(work)
        if forgotten:
            await self._database.run_in_background(purge_steps())
        return forgotten

    async def pin(self, id: str, pinned: bool) -> bool:
        def work(db: apsw.Connection) -> bool:
            db.execute("UPDATE memories SET pinned=? WHERE name=?", (pinned, id))
            return db.changes() > 0

        return await self._database.write(work)


def _insert_memory(db: apsw.Connection, memory: Memory, digest: str | None, upto: int | None) -> bool:
    """Insert a memory; returns False if it exists already. A workflow has no digest, and ends at record `upto`."""
    session, first = parse_message_id(memory.source) or ("", 0)
    values = (
        *(memory.id, digest, memory.text, msgspec.json.encode(memory.tags).decode(), memory.at),
        *(session, first, first if upto is None else upto, memory.source, memory.origin, memory.pinned, memory.data),
    )
    row: tuple[int] | None = db.execute(INSERT_MEMORY, values).fetchone()
    if row is None:
        return False
    texts = (to_index_text(memory.text), to_index_text(" ".join(memory.tags)))
    db.execute("INSERT INTO memories_words (rowid, text, tags) VALUES (?,?,?)", (row[0], *texts))
    return True


def _clamp_limit(limit: int) -> int:
    return max(0, min(limit, LIMIT_MAX))


def _row_to_memory(row: MemoryRow) -> Memory:
    id, text, tags, at, source, origin, pinned, data = row
    return Memory(
        id=id, text=text, tags=_decode_tags(tags), at=at, source=source, origin=origin, pinned=bool(pinned), data=data
    )
