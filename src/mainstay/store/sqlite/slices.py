"""What is done a little at a time on the writing connection: merging the word indexes, and clearing them.

A word index is a pile of segments. Left to itself, SQLite merges them in bursts of many milliseconds, and an append
would wait; so it is told not to, and every slice that adds to an index is followed by one that merges a few pages.
What was deleted is found no more at once, but its words stand in the segments until those are merged: so after
something was forgotten all of them are merged into one, again a little at a time, or whole when the store closes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import apsw

Step = Callable[[apsw.Connection], object]

WORDS = ("messages_words", "summaries_words", "facts_words", "memories_words")
MERGE_PAGES = 16  # about a millisecond


def merge(db: apsw.Connection, table: str, pages: int = MERGE_PAGES) -> bool:
    """Merge so many pages; False if there was nothing to merge."""
    before = db.total_changes()
    db.execute(f"INSERT INTO {table} ({table}, rank) VALUES ('merge', ?)", (pages,))
    return db.total_changes() - before >= 2  # the command itself counts as one


def purge_later(db: apsw.Connection) -> None:
    """Within the transaction that deleted something, so that a crash does not forget to finish."""
    db.execute("INSERT INTO chores VALUES ('purge', 1) ON CONFLICT (name) DO UPDATE SET times = times + 1")


def purging() -> Iterator[Step]:
    """Until no word is left of what was deleted before this began."""
    times = [0]
    yield lambda db: times.append(_times(db))
    for table in WORDS:
        yield from _merging_all(table)
    yield lambda db: db.execute("DELETE FROM chores WHERE name='purge' AND times=?", (times[-1],))


def _merging_all(table: str) -> Iterator[Step]:
    more = [True]
    yield lambda db: more.append(merge(db, table, -MERGE_PAGES))
    while more[-1]:
        yield lambda db: more.append(merge(db, table))


def purge(db: apsw.Connection) -> None:
    """The same at once."""
    for table in WORDS:
        db.execute(f"INSERT INTO {table} ({table}) VALUES ('optimize')")
    db.execute("DELETE FROM chores WHERE name='purge'")


def _times(db: apsw.Connection) -> int:
    row = db.execute("SELECT times FROM chores WHERE name='purge'").fetchone()
    return int(row[0]) if row else 0
