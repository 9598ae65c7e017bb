"""Maintenance of the full-text indexes (FTS5) in small steps: merging segments, and purging deleted words.

An FTS5 index is a list of segments. By default SQLite merges them in bursts of many milliseconds, and an append would
wait; so automatic merging is off, and every step that adds to an index is followed by one that merges a few pages.
Deleted rows are not found any more at once, but their words remain in the segments until these are merged: so after
contents were erased all segments are merged into one, again in small steps, or at once when the store closes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import apsw

BackgroundStep = Callable[[apsw.Connection], object]

FTS_TABLES = ("messages_words", "summaries_words", "facts_words", "memories_words")
MERGE_PAGES = 16  # about a millisecond


def merge_segments(db: apsw.Connection, table: str, pages: int = MERGE_PAGES) -> bool:
    """Merge so many pages of segments; returns False if there was nothing to merge."""
    before = db.total_changes()
    db.execute(f"INSERT INTO {table} ({table}, rank) VALUES ('merge', ?)", (pages,))
    return db.total_changes() - before >= 2  # the command itself counts as one


def schedule_purge(db: apsw.Connection) -> None:
    """Schedule a purge. Call in the transaction that deletes rows, so that it is done even after a crash."""
    db.execute("INSERT INTO chores VALUES ('purge', 1) ON CONFLICT (name) DO UPDATE SET times = times + 1")


def purge_steps() -> Iterator[BackgroundStep]:
    """Yield steps after which no word is left of rows that were deleted before the first step."""
    times = [0]
    yield lambda db: times.append(_select_purge_count(db))
    for table in FTS_TABLES:
        yield from _merge_all_steps(table)
    yield lambda db: db.execute("DELETE FROM chores WHERE name='purge' AND times=?", (times[-1],))


def _merge_all_steps(table: str) -> Iterator[BackgroundStep]:
    more = [True]
    yield lambda db: more.append(merge_segments(db, table, -MERGE_PAGES))
    while more[-1]:
        yield lambda db: more.append(merge_segments(db, table))


def purge_indexes(db: apsw.Connection) -> None:
    """Purge all full-text indexes at once; this may take long."""
    for table in FTS_TABLES:
        db.execute(f"INSERT INTO {table} ({table}) VALUES ('optimize')")
    db.execute("DELETE FROM chores WHERE name='purge'")


def _select_purge_count(db: apsw.Connection) -> int:
    row = db.execute("SELECT times FROM chores WHERE name='purge'").fetchone()
    return int(row[0]) if row else 0
