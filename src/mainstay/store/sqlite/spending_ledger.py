"""Spending ledger of a home on SQLite: money, tokens and tool calls per hour for each person, workspace and the home.

It is written even without budgets, so that one configured today includes what was spent earlier in its month.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import apsw
import msgspec

from mainstay.core.ledger_entries import (
    HOUR_MS,
    LEDGER_AMOUNT_MAX,
    RETENTION_HOURS,
    BudgetScope,
    LedgerEntry,
    LedgerRow,
    OpenReservation,
    ledger_entries,
)
from mainstay.core.projection_ports import JournalBatch
from mainstay.store.sqlite.home_projection_database import HomeProjectionDatabase

LedgerSums = tuple[int, int, int, int]  # nanodollars, tokens, tool calls, and lost nanodollars
_ZERO_SUMS: LedgerSums = (0, 0, 0, 0)
OnRowsAdded = Callable[[str, Iterable[LedgerRow]], None]

# Amounts of a row are from 0 to this; in rows that an earlier release wrote they may be anything.
_NANODOLLARS, _TOKENS, _CALLS, _LOST = (
    f"min(max({column}, 0), {LEDGER_AMOUNT_MAX})" for column in ("nanodollars", "tokens", "calls", "lost")
)
_ADD_TO_ROW = f"""
INSERT INTO ledger (scope, name, hour, nanodollars, tokens, calls, lost) VALUES (?,?,?,?,?,?,?)
ON CONFLICT (scope, name, hour) DO UPDATE SET nanodollars={_NANODOLLARS}+excluded.nanodollars,
    tokens={_TOKENS}+excluded.tokens, calls={_CALLS}+excluded.calls, lost={_LOST}+excluded.lost"""
_SELECT_POSITIONS = "SELECT session, position FROM ledger_followed WHERE workspace=? AND NOT away"
_SELECT_POSITION = """
SELECT created, position FROM ledger_followed WHERE workspace=? AND session=? AND (created=? OR (? AND NOT away))
ORDER BY away LIMIT 1"""
_UPSERT_POSITION = """
INSERT INTO ledger_followed (workspace, session, created, position, hour, away) VALUES (?,?,?,?,?,?)
ON CONFLICT (workspace, session, created) DO UPDATE
    SET position=excluded.position, hour=excluded.hour, away=excluded.away"""
_SELECT_RESERVATIONS = "SELECT id, hour, person, nanodollars, tokens FROM ledger_open WHERE workspace=? AND session=?"
_REPLACE_RESERVATION = """
INSERT OR REPLACE INTO ledger_open (workspace, session, id, person, hour, nanodollars, tokens)
VALUES (?,?,?,?,?,?,?)"""
_DELETE_RESERVATION = "DELETE FROM ledger_open WHERE workspace=? AND session=? AND id=?"


class SpendingTotal(msgspec.Struct, frozen=True):
    """What a person, a workspace or the home has spent since some hour, open reservations included."""

    scope: BudgetScope
    name: str
    nanodollars: int
    tokens: int
    calls: int  # of tools
    lost: int  # nanodollars of these, reserved by processes that died


class SqliteSpendingLedger:
    """The Projection of one workspace's journals to the ledger. `on_rows_added` is called with the workspace and
    the rows. Without `expects_journals` the journals end with this process: the home does not miss them later.
    """

    name = "ledger"

    def __init__(
        self,
        database: HomeProjectionDatabase,
        workspace: str,
        on_rows_added: OnRowsAdded | None = None,
        *,
        expects_journals: bool = True,
    ) -> None:
        self._database = database
        self._workspace = workspace
        self._on_rows_added = on_rows_added
        self._expects_journals = expects_journals
        self._pruned_hour = 0  # hour since 1970 of the last pruning

    async def positions(self) -> dict[str, int]:
        if not self._expects_journals:  # the home's positions are those of other journals
            return {}

        def work(db: apsw.Connection) -> dict[str, int]:
            rows: Iterable[tuple[str, int]] = db.execute(_SELECT_POSITIONS, (self._workspace,))
            return dict(rows)

        return await self._database.read(work)

    async def apply(self, batch: JournalBatch) -> None:
        if not batch.records:
            return
        rows = await self._database.write(lambda db: self._apply_batch(db, batch))
        if self._on_rows_added is not None and rows:
            self._on_rows_added(self._workspace, rows)

    def _apply_batch(self, db: apsw.Connection, batch: JournalBatch) -> list[LedgerRow]:
        """Apply a batch and return the rows that were added. Idempotent: records that were counted before are skipped,
        also if their workspace was removed and restored since."""
        session = (self._workspace, batch.info.key)
        of_session = (*session, batch.info.created, self._expects_journals)
        row: tuple[int, int] | None = db.execute(_SELECT_POSITION, of_session).fetchone()
        created, known = row if row is not None else (batch.info.created, 0)
        new = [record for record in batch.records if record.seq > known]
        if not new:
            return []
        earlier = (*batch.earlier, *batch.records[: len(batch.records) - len(new)])
        # else they belong to an earlier session of its name
        stored: Iterable[tuple[str, int, str, int, int]] = db.execute(_SELECT_RESERVATIONS, session) if known else ()
        open = {row[0]: OpenReservation(*row[1:]) for row in stored}
        before = dict(open)
        rows = self._sum_entries(ledger_entries(msgspec.structs.replace(batch, records=new, earlier=earlier), open))
        db.executemany(_ADD_TO_ROW, rows)
        for id in before.keys() - open.keys():
            db.execute(_DELETE_RESERVATION, (*session, id))
        for id, reservation in open.items():
            if before.get(id) != reservation:
                values = (reservation.person, reservation.hour, reservation.money, reservation.tokens)
                db.execute(_REPLACE_RESERVATION, (*session, id, *values))
        hour = new[-1].at // HOUR_MS
        db.execute(_UPSERT_POSITION, (*session, created, new[-1].seq, hour, not self._expects_journals))
        if hour != self._pruned_hour:
            self._pruned_hour = hour
            _prune_hours(db)
        return [(scope, name, hour, money, tokens, calls) for scope, name, hour, money, tokens, calls, _ in rows]

    def _sum_entries(
        self, new_entries: Iterable[LedgerEntry]
    ) -> list[tuple[BudgetScope, str, int, int, int, int, int]]:
        """Sum entries by hour for the person, the workspace and the home; each entry counts for all three."""
        people: dict[tuple[str, int], LedgerSums] = {}
        for entry in new_entries:
            money, tokens, calls, lost = people.get((entry.person, entry.hour), _ZERO_SUMS)
            people[entry.person, entry.hour] = (
                min(money + entry.money, LEDGER_AMOUNT_MAX),
                min(tokens + entry.tokens, LEDGER_AMOUNT_MAX),
                calls + entry.calls,
                min(lost + entry.lost, LEDGER_AMOUNT_MAX),
            )
        hours: dict[int, LedgerSums] = {}
        for (_, hour), (money, tokens, calls, lost) in people.items():
            total = hours.get(hour, _ZERO_SUMS)
            hours[hour] = (
                min(money + total[0], LEDGER_AMOUNT_MAX),
                min(tokens + total[1], LEDGER_AMOUNT_MAX),
                calls + total[2],
                min(lost + total[3], LEDGER_AMOUNT_MAX),
            )
        rows: list[tuple[BudgetScope, str, int, int, int, int, int]] = []
        rows += [("person", person, hour, *sums) for (person, hour), sums in people.items()]
        for scope, name in (("workspace", self._workspace), ("home", "")):
            rows += [(scope, name, hour, *sums) for hour, sums in hours.items()]  # type: ignore[misc]
        return rows


def _prune_hours(db: apsw.Connection) -> None:
    """Delete all but the newest hours with spending. The clock is not used: one that is ahead would delete recent
    hours."""
    sql = "SELECT hour FROM ledger WHERE scope='home' AND name='' ORDER BY hour DESC LIMIT 1 OFFSET ?"
    if (row := db.execute(sql, (RETENTION_HOURS - 1,)).fetchone()) is not None:
        db.execute("DELETE FROM ledger WHERE hour < ?", row)
        db.execute("DELETE FROM ledger_open WHERE hour < ?", row)
        db.execute("DELETE FROM ledger_followed WHERE away AND hour < ?", row)


async def load_rows(database: HomeProjectionDatabase) -> list[LedgerRow]:
    """Return all rows. Read through the writer's queue, so that they include everything reported to `on_rows_added`
    before."""
    sql = f"SELECT scope, name, hour, {_NANODOLLARS}, {_TOKENS}, {_CALLS} FROM ledger"

    def work(db: apsw.Connection) -> list[LedgerRow]:
        return list(db.execute(sql))

    return await database.write(work)


def select_totals(db: apsw.Connection, since_hour: int) -> list[SpendingTotal]:
    """Return the totals of every person, workspace and the home from this hour (since 1970) on."""
    sql = f"""SELECT scope, name, sum({_NANODOLLARS}), sum({_TOKENS}), sum({_CALLS}), sum({_LOST}) FROM ledger
        WHERE hour >= ? GROUP BY scope, name ORDER BY scope, name"""
    rows: Iterable[tuple[BudgetScope, str, int, int, int, int]] = db.execute(sql, (since_hour,))
    return [SpendingTotal(*row) for row in rows]


def sum_open_reservations(db: apsw.Connection) -> int:
    """Return the nanodollars of all open reservations."""
    total: int = db.execute(f"SELECT coalesce(sum({_NANODOLLARS}), 0) FROM ledger_open").get
    return total


def has_ledger(db: apsw.Connection) -> bool:
    """Return whether the file has a ledger; one of an earlier release has none before it is migrated."""
    return db.execute("SELECT 1 FROM sqlite_master WHERE name='ledger'").fetchone() is not None
