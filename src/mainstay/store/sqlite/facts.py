"""Facts and how they are known: the FactTier on SQLite."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

import apsw

from mainstay.core.recall import Fact
from mainstay.store import facts as rules
from mainstay.store.sqlite.cursors import Gone, advance, followed, position
from mainstay.store.sqlite.slices import merge, purge_later, purging
from mainstay.store.sqlite.tier import SqliteTier, plain
from mainstay.store.sqlite.words import indexed, match_query

LIMIT_MAX = 1_000
FOUND_MAX = 400  # facts that a topic is looked up in, before they are put in order
HOPS = 2
SLICE = 16  # facts written in one go

COLUMNS = """facts.subject, facts.predicate, facts.object, facts.source, facts.confidence, facts.origin, facts.many,
    sessions.key, facts.at, facts.name, facts.until FROM facts JOIN sessions ON sessions.id = facts.session"""
PUT = """
INSERT INTO facts (name, topic, about, value, subject, predicate, object, session, source, at, confidence, origin,
    many, until)
VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,0)
ON CONFLICT (name, session, source) DO UPDATE SET
    at=max(at, excluded.at), confidence=max(confidence, excluded.confidence), many=excluded.many
RETURNING id"""
EXTRA = """
SELECT id FROM facts
ORDER BY until = 0, origin NOT LIKE 'untrusted%', CASE WHEN until = 0 THEN confidence ELSE 0 END, at
LIMIT max(0, ?)"""  # what is superseded goes first, then what came from outside: a flood of it drives nothing else out


class SqliteFacts(SqliteTier):
    name = "facts"

    @staticmethod
    def held(db: apsw.Connection, session: int, seqs: Sequence[int] | None) -> list[int]:
        """What these messages said; and what nobody can say where it was said, if it was in this session."""
        rows: Any = db.execute("SELECT id, source FROM facts WHERE session=?", (session,))
        wanted = None if seqs is None else {0, *seqs}
        return [id for id, source in rows if wanted is None or source in wanted]

    @staticmethod
    def delete(db: apsw.Connection, rows: Sequence[int]) -> None:
        """Whatever these superseded holds again."""
        topics = set()
        for id in rows:
            found: Any = db.execute("DELETE FROM facts WHERE id=? RETURNING topic", (id,)).fetchone()
            if found is not None:
                topics.add(found[0])
            db.execute("DELETE FROM facts_words WHERE rowid=?", (id,))
        for topic in topics:
            _settle(db, topic)

    async def absorb(self, session: str, facts: Sequence[Fact], upto: int) -> None:
        """The position comes with the last slice; before that, the same again only confirms."""
        slices = [facts[start : start + SLICE] for start in range(0, len(facts), SLICE)] or [()]
        await self._desk.trickle(
            partial(self._absorb, session=session, facts=some, upto=upto, last=some is slices[-1]) for some in slices
        )

    def _absorb(self, db: apsw.Connection, session: str, facts: Sequence[Fact], upto: int, last: bool) -> None:
        number = followed(db, session, self._desk.journal)
        if upto <= position(db, self.name, number):
            return
        gone = Gone(db, number)
        new = [one for fact in facts if fact.source not in gone and (one := rules.bounded(fact)) is not None]
        for fact in new:
            _put(db, number, fact)
        for topic in {rules.topic_of(fact) for fact in new}:
            _settle(db, topic)
        if new:
            _bound(db)
            merge(db, "facts_words")
        if last:
            advance(db, self.name, number, upto)

    async def recall(self, topic: str, limit: int = 20, *, past: bool = False) -> list[Fact]:
        return await self._desk.read(lambda db: _recall(db, topic, max(0, min(limit, LIMIT_MAX)), past))

    async def forget(self, ids: Sequence[str]) -> int:
        def work(db: apsw.Connection) -> int:
            rows: Any = [
                row for id in set(ids) for row in db.execute("SELECT id, name FROM facts WHERE name=?", (plain(id),))
            ]
            if rows:
                self.delete(db, [id for id, _ in rows])
                purge_later(db)
            return len({name for _, name in rows})

        forgotten = await self._desk.write(work)
        if forgotten:
            await self._desk.trickle(purging())
        return forgotten

    async def facts(self, *, origin: str | None = None, limit: int = 100) -> list[Fact]:
        """Those that hold, newest first. An origin may be given by its beginning."""
        where = ""
        values: list[Any] = []
        if origin is not None:
            where = "AND facts.origin = ?" if not origin else "AND substr(facts.origin, 1, ?) = ?"
            values = [""] if not origin else [len(origin), plain(origin)]
        sql = f"SELECT {COLUMNS} WHERE facts.until = 0 {where} ORDER BY facts.at DESC, facts.id DESC"

        def work(db: apsw.Connection) -> list[Fact]:
            rows: Any = db.execute(sql, values)
            return rules.merged([_fact(row) for row in rows])[: max(0, limit)]

        return await self._desk.read(work)


def _put(db: apsw.Connection, session: int, fact: Fact) -> None:
    name, topic = rules.name_of(fact), rules.topic_of(fact)
    values = (
        *(name, topic, rules.normal(fact.subject), rules.normal(fact.object)),
        *(fact.subject, fact.predicate, fact.object, session, fact.source, fact.at, fact.confidence),
        *(fact.origin, fact.many),
    )
    row: Any = db.execute(PUT, values).fetchone()
    db.execute("DELETE FROM facts_words WHERE rowid=?", row)
    words = (indexed(fact.subject), indexed(fact.predicate), indexed(fact.object))
    db.execute("INSERT INTO facts_words (rowid, subject, predicate, object) VALUES (?,?,?,?)", (row[0], *words))
    said: Any = db.execute("SELECT id FROM facts WHERE name=? ORDER BY at DESC, id DESC", (name,)).fetchall()
    _remove(db, [id for (id,) in said[rules.SAID_MAX :]])


def _settle(db: apsw.Connection, topic: str) -> None:
    """Which of the facts about one thing hold."""
    rows: Any = db.execute(
        f"SELECT facts.id, {COLUMNS} WHERE facts.topic=? AND NOT facts.many ORDER BY facts.at, facts.source, facts.id",
        (topic,),
    ).fetchall()
    found = [_fact(row[1:]) for row in rows]
    until = rules.settled(found)
    past = [row[0] for row, when in zip(rows, until, strict=True) if when]
    db.executemany(
        "UPDATE facts SET until=? WHERE id=?",
        [(when, row[0]) for row, fact, when in zip(rows, found, until, strict=True) if when != fact.until],
    )
    _remove(db, past[: max(0, len(past) - rules.PAST_MAX)])


def _bound(db: apsw.Connection) -> None:
    """The oldest superseded go first, then the oldest of those that are least sure."""
    count: Any = db.execute("SELECT count(*) FROM facts").fetchone()
    if count[0] > rules.FACTS_MAX:
        rows: Any = db.execute(EXTRA, (count[0] - rules.FACTS_MAX,)).fetchall()
        _remove(db, [id for (id,) in rows])


def _remove(db: apsw.Connection, rows: Iterable[int]) -> None:
    ids = [(id,) for id in rows]
    db.executemany("DELETE FROM facts WHERE id=?", ids)
    db.executemany("DELETE FROM facts_words WHERE rowid=?", ids)


# --- recalling -----------------------------------------------------------------------------------


def _recall(db: apsw.Connection, topic: str, limit: int, past: bool) -> list[Fact]:
    holds = "" if past else "AND facts.until = 0"
    named = rules.normal(plain(topic[: rules.CHARS_MAX]))
    rows: Any = db.execute(f"SELECT {COLUMNS} WHERE facts.about = ? {holds} LIMIT {FOUND_MAX}", (named,)).fetchall()
    asked = match_query(topic)
    if asked:
        rows += db.execute(
            f"""SELECT {COLUMNS} JOIN facts_words ON facts_words.rowid = facts.id
            WHERE facts_words MATCH ? {holds} ORDER BY bm25(facts_words, 4.0, 1.0, 2.0) LIMIT {FOUND_MAX}""",
            (asked,),
        ).fetchall()
    found = rules.merged([_fact(row) for row in rows])
    found.sort(key=lambda fact: rules.nearness(fact, named))  # stable: of equals, the better match
    for _ in range(HOPS):
        if len(found) >= limit:
            break
        found = rules.merged([*found, *_next_to(db, found[:limit], holds)])
    return found[:limit]


def _next_to(db: apsw.Connection, found: Sequence[Fact], holds: str) -> list[Fact]:
    """What is known about the things that these facts mention."""
    rows: Any = []
    have = {fact.id for fact in found}
    for value in dict.fromkeys(rules.normal(fact.object) for fact in found):
        rows += db.execute(f"SELECT {COLUMNS} WHERE facts.about = ? {holds} LIMIT {FOUND_MAX}", (value,)).fetchall()
    return [fact for row in rows if (fact := _fact(row)).id not in have]


def _fact(row: Any) -> Fact:
    subject, predicate, object, source, confidence, origin, many, session, at, name, until = row
    return Fact(subject, predicate, object, source, confidence, origin, bool(many), session, at, name, until)
