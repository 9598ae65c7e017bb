"""FactTier on SQLite: facts with their sources, superseding and full-text search."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial

import apsw

from mainstay.core.memory_tiers import Fact
from mainstay.store import fact_rules as rules
from mainstay.store.sqlite.connection import SqliteValue
from mainstay.store.sqlite.full_text import build_match_query, to_index_text
from mainstay.store.sqlite.index_maintenance import merge_segments, purge_steps, schedule_purge
from mainstay.store.sqlite.tier_base import SqliteTier, replace_surrogates
from mainstay.store.sqlite.tier_cursors import Tombstones, advance_cursor, ensure_session_id, select_position

FactRow = tuple[str, str, str, int, float, str, int, str, int, str, int]  # see COLUMNS

LIMIT_MAX = 1_000
CANDIDATES_MAX = 400  # candidate facts for a topic, before ranking
RELATED_HOPS = 2  # from object to subject, to find related facts
STEP_FACTS = 16  # facts stored in one step

COLUMNS = """facts.subject, facts.predicate, facts.object, facts.source, facts.confidence, facts.origin, facts.many,
    sessions.key, facts.at, facts.name, facts.until FROM facts JOIN sessions ON sessions.id = facts.session"""
UPSERT_FACT = """
INSERT INTO facts (name, topic, about, value, subject, predicate, object, session, source, at, confidence, origin,
    many, until)
VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,0)
ON CONFLICT (name, session, source) DO UPDATE SET
    at=max(at, excluded.at), confidence=max(confidence, excluded.confidence), many=excluded.many
RETURNING id"""
SELECT_LEAST_VALUABLE = """
SELECT id FROM facts
ORDER BY until = 0, origin NOT LIKE 'untrusted%', CASE WHEN until = 0 THEN confidence ELSE 0 END, at
LIMIT max(0, ?)"""  # superseded first, then untrusted, so that a flood of untrusted facts never displaces others


class SqliteFactTier(SqliteTier):
    name = "facts"

    @staticmethod
    def find_rows(db: apsw.Connection, session: int, seqs: Sequence[int] | None) -> list[int]:
        """Return the facts from these messages, and those of this session whose message is unknown (source 0)."""
        rows: Iterable[tuple[int, int]] = db.execute("SELECT id, source FROM facts WHERE session=?", (session,))
        sources = None if seqs is None else {0, *seqs}
        return [id for id, source in rows if sources is None or source in sources]

    @staticmethod
    def delete_rows(db: apsw.Connection, rows: Sequence[int]) -> None:
        """Delete facts; those that they superseded become current again."""
        topics = set()
        for id in rows:
            deleted: tuple[str] | None = db.execute("DELETE FROM facts WHERE id=? RETURNING topic", (id,)).fetchone()
            if deleted is not None:
                topics.add(deleted[0])
            db.execute("DELETE FROM facts_words WHERE rowid=?", (id,))
        for topic in topics:
            _update_superseded(db, topic)

    async def ingest(self, session: str, facts: Sequence[Fact], position: int) -> None:
        """Store facts in steps; the last one stores the position. If interrupted, repeating it only confirms facts."""
        batches = [facts[start : start + STEP_FACTS] for start in range(0, len(facts), STEP_FACTS)] or [()]
        await self._database.run_in_background(
            partial(self._ingest_step, session=session, facts=batch, upto=position, last=batch is batches[-1])
            for batch in batches
        )

    def _ingest_step(self, db: apsw.Connection, session: str, facts: Sequence[Fact], upto: int, last: bool) -> None:
        number = ensure_session_id(db, session, self._database.has_journal)
        if upto <= select_position(db, self.name, number):
            return
        tombstones = Tombstones(db, number)
        allowed = (fact for fact in facts if fact.source not in tombstones)
        new = [cleaned for fact in allowed if (cleaned := rules.clean_fact(fact)) is not None]
        for fact in new:
            _upsert_fact(db, number, fact)
        for topic in {rules.topic_key(fact) for fact in new}:
            _update_superseded(db, topic)
        if new:
            _trim_facts(db)
            merge_segments(db, "facts_words")
        if last:
            advance_cursor(db, self.name, number, upto)

    async def recall(self, topic: str, limit: int = 20, *, past: bool = False) -> list[Fact]:
        return await self._database.read(lambda db: _search_topic(db, topic, max(0, min(limit, LIMIT_MAX)), past))

    async def forget(self, ids: Sequence[str]) -> int:
        def work(db: apsw.Connection) -> int:
            rows: list[tuple[int, str]] = [
                row
                for id in set(ids)
                for row in db.execute("SELECT id, name FROM facts WHERE name=?", (replace_surrogates(id),))
            ]
            if rows:
                self.delete_rows(db, [id for id, _ in rows])
                schedule_purge(db)
            return len({name for _, name in rows})

        forgotten = await self._database.write(work)
        if forgotten:
            await self._database.run_in_background(purge_steps())
        return forgotten

    async def list_facts(self, *, origin: str | None = None, limit: int = 100) -> list[Fact]:
        """Return current facts, newest first. `origin` is a prefix; the empty one matches only the empty origin."""
        where = ""
        values: list[SqliteValue] = []
        if origin is not None:
            where = "AND facts.origin = ?" if not origin else "AND substr(facts.origin, 1, ?) = ?"
            values = [""] if not origin else [len(origin), replace_surrogates(origin)]
        sql = f"SELECT {COLUMNS} WHERE facts.until = 0 {where} ORDER BY facts.at DESC, facts.id DESC"

        def work(db: apsw.Connection) -> list[Fact]:
            rows: Iterable[FactRow] = db.execute(sql, values)
            return rules.merge_mentions([_row_to_fact(row) for row in rows])[: max(0, limit)]

        return await self._database.read(work)


def _upsert_fact(db: apsw.Connection, session: int, fact: Fact) -> None:
    id, topic = rules.fact_id(fact), rules.topic_key(fact)
    values = (
        *(id, topic, rules.normalise_text(fact.subject), rules.normalise_text(fact.object)),
        *(fact.subject, fact.predicate, fact.object, session, fact.source, fact.at, fact.confidence),
        *(fact.origin, fact.many),
    )
    row: int = db.execute(UPSERT_FACT, values).get
    db.execute("DELETE FROM facts_words WHERE rowid=?", (row,))
    texts = (to_index_text(fact.subject), to_index_text(fact.predicate), to_index_text(fact.object))
    db.execute("INSERT INTO facts_words (rowid, subject, predicate, object) VALUES (?,?,?,?)", (row, *texts))
    mentions: Iterable[tuple[int]] = db.execute("SELECT id FROM facts WHERE name=? ORDER BY at DESC, id DESC", (id,))
    _delete_facts(db, [rowid for (rowid,) in mentions][rules.MENTIONS_PER_FACT_MAX :])


def _update_superseded(db: apsw.Connection, topic: str) -> None:
    """Recompute which facts of a topic are superseded, and delete the oldest superseded ones beyond the limit."""
    sql = f"SELECT facts.id, {COLUMNS} WHERE facts.topic=? AND NOT facts.many ORDER BY facts.at, facts.source, facts.id"
    rows: list[tuple[int, *FactRow]] = list(db.execute(sql, (topic,)))
    facts = [_row_to_fact(row[1:]) for row in rows]
    until = rules.compute_superseded_times(facts)
    past = [row[0] for row, when in zip(rows, until, strict=True) if when]
    db.executemany(
        "UPDATE facts SET until=? WHERE id=?",
        [(when, row[0]) for row, fact, when in zip(rows, facts, until, strict=True) if when != fact.until],
    )
    _delete_facts(db, past[: max(0, len(past) - rules.SUPERSEDED_PER_TOPIC_MAX)])


def _trim_facts(db: apsw.Connection) -> None:
    """Delete facts beyond the limit, in the order of `SELECT_LEAST_VALUABLE`."""
    count: int = db.execute("SELECT count(*) FROM facts").get
    if count > rules.MENTIONS_MAX:
        rows: Iterable[tuple[int]] = db.execute(SELECT_LEAST_VALUABLE, (count - rules.MENTIONS_MAX,))
        _delete_facts(db, [id for (id,) in rows])


def _delete_facts(db: apsw.Connection, rows: Iterable[int]) -> None:
    ids = [(id,) for id in rows]
    db.executemany("DELETE FROM facts WHERE id=?", ids)
    db.executemany("DELETE FROM facts_words WHERE rowid=?", ids)


# --- searching -----------------------------------------------------------------------------------


def _search_topic(db: apsw.Connection, topic: str, limit: int, include_superseded: bool) -> list[Fact]:
    current = "" if include_superseded else "AND facts.until = 0"
    subject = rules.normalise_text(replace_surrogates(topic[: rules.FIELD_CHARS_MAX]))
    about = f"SELECT {COLUMNS} WHERE facts.about = ? {current} LIMIT {CANDIDATES_MAX}"
    rows: list[FactRow] = list(db.execute(about, (subject,)))
    expression = build_match_query(topic)
    if expression:
        rows += db.execute(
            f"""SELECT {COLUMNS} JOIN facts_words ON facts_words.rowid = facts.id
            WHERE facts_words MATCH ? {current} ORDER BY bm25(facts_words, 4.0, 1.0, 2.0) LIMIT {CANDIDATES_MAX}""",
            (expression,),
        )
    facts = rules.merge_mentions([_row_to_fact(row) for row in rows])
    facts.sort(key=lambda fact: rules.rank_for_topic(fact, subject))  # stable: of equals, the better match is first
    for _ in range(RELATED_HOPS):
        if len(facts) >= limit:
            break
        facts = rules.merge_mentions([*facts, *_find_related(db, facts[:limit], current)])
    return facts[:limit]


def _find_related(db: apsw.Connection, facts: Sequence[Fact], current: str) -> list[Fact]:
    """Return further facts whose subject is the object of one of these. `current` is an SQL condition."""
    rows: list[FactRow] = []
    known = {fact.id for fact in facts}
    for object in dict.fromkeys(rules.normalise_text(fact.object) for fact in facts):
        rows += db.execute(f"SELECT {COLUMNS} WHERE facts.about = ? {current} LIMIT {CANDIDATES_MAX}", (object,))
    return [fact for row in rows if (fact := _row_to_fact(row)).id not in known]


def _row_to_fact(row: FactRow) -> Fact:
    subject, predicate, object, source, confidence, origin, many, session, at, id, until = row
    return Fact(subject, predicate, object, source, confidence, origin, bool(many), session, at, id, until)
