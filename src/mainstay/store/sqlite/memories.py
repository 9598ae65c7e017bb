"""Free memories, and what turns did that worked: the MemoryTier on SQLite."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import Any

import apsw
import msgspec

from mainstay.core.recall import Memory, Query, split_id
from mainstay.store.facts import normal
from mainstay.store.sqlite.cursors import Gone, advance, followed, position
from mainstay.store.sqlite.slices import merge, purge_later, purging
from mainstay.store.sqlite.tier import SqliteTier, plain, within
from mainstay.store.sqlite.words import indexed, match_query

LIMIT_MAX = 10_000
FOLLOWED_MAX = 2_000  # of what a follower made; the oldest go

COLUMNS = """memories.name, memories.text, memories.tags, memories.at, memories.source, memories.origin,
    memories.pinned, memories.data FROM memories"""
PUT = """
INSERT OR IGNORE INTO memories (name, digest, text, tags, at, session, first, last, source, origin, pinned, data)
VALUES (?,?,?,?,?,?,?,?,?,?,?,?) RETURNING id"""
OLDEST = "SELECT id FROM memories WHERE digest IS NULL ORDER BY at DESC, id DESC LIMIT -1 OFFSET ?"
TAGGED = """NOT EXISTS (
    SELECT 1 FROM json_each(?) AS asked
    WHERE NOT EXISTS (
        SELECT 1 FROM json_each(memories.tags) AS tag WHERE tag.value = asked.value COLLATE NOCASE
    )
)"""

_tags = msgspec.json.Decoder(tuple[str, ...]).decode


class SqliteMemories(SqliteTier):
    name = "memories"

    @staticmethod
    def held(db: apsw.Connection, session: int, seqs: Sequence[int] | None) -> list[int]:
        rows: Any = db.execute(
            "SELECT memories.id, first, last FROM memories JOIN sessions ON sessions.key = memories.session "
            "WHERE sessions.id=?",
            (session,),
        )
        return [id for id, first, last in rows if seqs is None or any(first <= seq <= last for seq in seqs)]

    @staticmethod
    def delete(db: apsw.Connection, rows: Sequence[int]) -> None:
        db.executemany("DELETE FROM memories WHERE id=?", ((id,) for id in rows))
        db.executemany("DELETE FROM memories_words WHERE rowid=?", ((id,) for id in rows))

    async def absorb(self, session: str, memories: Sequence[Memory], upto: int) -> None:
        def step(db: apsw.Connection) -> None:
            number = followed(db, session, self._desk.journal)
            if upto <= position(db, self.name, number):
                return
            gone = Gone(db, number)
            for memory in memories:
                place = split_id(memory.source)
                first = place[1] if place is not None else 0
                if not gone.touches(first, upto):
                    _put(db, memory, None, upto)
            if memories:
                old: Any = db.execute(OLDEST, (FOLLOWED_MAX,)).fetchall()
                self.delete(db, [id for (id,) in old])
                merge(db, "memories_words")
            advance(db, self.name, number, upto)

        await self._desk.trickle(iter([step]))

    async def keep(self, memory: Memory) -> Memory:
        digest = hashlib.sha256(
            "\x1f".join([normal(memory.text), *sorted(normal(tag) for tag in memory.tags)]).encode("utf-8", "replace")
        ).hexdigest()

        def work(db: apsw.Connection) -> Memory:
            if _put(db, memory, digest, None):
                merge(db, "memories_words")
            row: Any = db.execute(
                f"SELECT {COLUMNS} WHERE name=? OR digest=? ORDER BY name=? DESC", (memory.id, digest, memory.id)
            ).fetchone()
            return _memory(row)

        return await self._desk.write(work)

    async def match(self, query: Query, tags: Sequence[str] = (), limit: int = 10) -> list[tuple[Memory, float]]:
        asked = match_query(query.text)
        if not asked and (query.text.strip() or not tags):
            return []
        where = [TAGGED, "memories.at >= ?", "memories.at < ?"]
        values: list[Any] = [
            json.dumps(list(tags)),  # which, unlike others, takes half characters
            within(query.start, low=True),
            within(query.end, low=False),
        ]
        if query.session:
            where.append("memories.session = ?")
            values.append(plain(query.session))
        source, order, score = "", "memories.at DESC, memories.id DESC", "0.0"
        if asked:
            source = "JOIN memories_words ON memories_words.rowid = memories.id"
            where.append("memories_words MATCH ?")
            values.append(asked)
            order, score = "memories_words.rank", "-memories_words.rank"
        sql = f"SELECT {score}, {COLUMNS} {source} WHERE {' AND '.join(where)} ORDER BY {order} LIMIT ?"

        def work(db: apsw.Connection) -> list[tuple[Memory, float]]:
            rows: Any = db.execute(sql, (*values, _limited(limit))).fetchall()
            return [(_memory(row[1:]), row[0]) for row in rows]

        return await self._desk.read(work)

    async def memories(
        self, *, tag: str = "", origin: str | None = None, pinned: bool | None = None, limit: int = 100
    ) -> list[Memory]:
        """Newest first. An origin may be given by its beginning; the empty one is exact."""
        where = ["1"]
        values: list[Any] = []
        if tag:
            where.append(TAGGED)
            values.append(json.dumps([tag]))
        if origin is not None:
            where.append("memories.origin = ?" if not origin else "substr(memories.origin, 1, ?) = ?")
            values += [""] if not origin else [len(origin), plain(origin)]
        if pinned is not None:
            where.append("memories.pinned = ?")
            values.append(pinned)
        sql = f"SELECT {COLUMNS} WHERE {' AND '.join(where)} ORDER BY memories.at DESC, memories.id DESC LIMIT ?"

        def work(db: apsw.Connection) -> list[Memory]:
            rows: Any = db.execute(sql, (*values, _limited(limit)))
            return [_memory(row) for row in rows]

        return await self._desk.read(work)

    async def forget(self, ids: Sequence[str]) -> int:
        def work(db: apsw.Connection) -> int:
            rows: Any = [
                row for id in set(ids) for row in db.execute("SELECT id FROM memories WHERE name=?", (plain(id),))
            ]
            if rows:
                self.delete(db, [id for (id,) in rows])
                purge_later(db)
            return len(rows)

        forgotten = await self._desk.write(work)
        if forgotten:
            await self._desk.trickle(purging())
        return forgotten

    async def pin(self, id: str, pinned: bool) -> bool:
        def work(db: apsw.Connection) -> bool:
            db.execute("UPDATE memories SET pinned=? WHERE name=?", (pinned, id))
            return db.changes() > 0

        return await self._desk.write(work)


def _put(db: apsw.Connection, memory: Memory, digest: str | None, upto: int | None) -> bool:
    session, first = split_id(memory.source) or ("", 0)
    values = (
        *(memory.id, digest, memory.text, msgspec.json.encode(memory.tags).decode(), memory.at),
        *(session, first, first if upto is None else upto, memory.source, memory.origin, memory.pinned, memory.data),
    )
    row: Any = db.execute(PUT, values).fetchone()
    if row is None:  # it is there already
        return False
    words = (indexed(memory.text), indexed(" ".join(memory.tags)))
    db.execute("INSERT INTO memories_words (rowid, text, tags) VALUES (?,?,?)", (row[0], *words))
    return True


def _limited(limit: int) -> int:
    return max(0, min(limit, LIMIT_MAX))


def _memory(row: Any) -> Memory:
    id, text, tags, at, source, origin, pinned, data = row
    return Memory(
        id=id, text=text, tags=_tags(tags), at=at, source=source, origin=origin, pinned=bool(pinned), data=data
    )
