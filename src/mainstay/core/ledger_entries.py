"""Derives spending ledger entries (hour, person, money, tokens, calls) from journal records.

Pure, and the only such code, so that a recount from the journals gives the same totals.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import msgspec

from mainstay.core.budget_reservation_ids import NANODOLLARS_PER_DOLLAR, reservations_closed_by, to_nanodollars
from mainstay.core.events import (
    Event,
    Folded,
    Judged,
    MessageAdded,
    Received,
    Reserved,
    Settled,
    Steered,
    ToolFinished,
    TurnStarted,
)
from mainstay.core.input_envelope import sender_person
from mainstay.core.journal import Record
from mainstay.core.messages import Usage
from mainstay.core.projection_ports import JournalBatch
from mainstay.core.usage_bounds import RECORD_DOLLARS_MAX, RECORD_TOKENS_MAX, bound_charge

HOUR_MS = 3_600_000
RETENTION_HOURS = 64 * 24  # the newest with spending in them: a month, and another in case a clock had been ahead
BudgetScope = Literal["turn", "session", "person", "workspace", "home"]
BudgetPeriod = Literal["", "hour", "day", "month"]
BudgetKind = Literal["money", "tokens", "calls"]
BUDGET_SCOPES: tuple[BudgetScope, ...] = ("turn", "session", "person", "workspace", "home")  # narrowest first
LEDGER_AMOUNT_MAX = 10**15  # nanodollars, tokens or calls of an hour: sums of all hours fit in 64 bits
LedgerRow = tuple[BudgetScope, str, int, int, int, int]  # scope, name, hour, nanodollars, tokens, tool calls


class LedgerEntry(msgspec.Struct, frozen=True, gc=False):
    """One addition to the ledger; negative amounts release a reservation."""

    hour: int  # since 1970
    person: str  # empty: the owner
    money: int = 0  # nanodollars
    tokens: int = 0
    calls: int = 0  # of tools
    lost: int = 0  # nanodollars, counted before, that a process had reserved when it died


class OpenReservation(msgspec.Struct, frozen=True, gc=False):
    """A reservation that no record has closed yet; it counts as spent until then."""

    hour: int
    person: str
    money: int  # nanodollars
    tokens: int


def ledger_entries(batch: JournalBatch, open_reservations: dict[str, OpenReservation]) -> Iterator[LedgerEntry]:
    """Yield the entries of a batch in order; consume all of them. Updates the session's `open_reservations`."""
    payers = _PayerTracker(batch)
    for record in batch.earlier:
        payers.observe(record)
    for record in batch.records:
        payers.observe(record)
        yield from _record_entries(record, open_reservations, payers)


def _record_entries(
    record: Record, open_reservations: dict[str, OpenReservation], payers: _PayerTracker
) -> Iterator[LedgerEntry]:
    event, hour = record.event, record.at // HOUR_MS
    person = payers.person
    if isinstance(event, Reserved):
        if (older := open_reservations.get(event.id)) is not None:  # its process died, and no record closed it
            yield LedgerEntry(older.hour, older.person, lost=older.money)
        money = min(max(0, event.cost), round(RECORD_DOLLARS_MAX * NANODOLLARS_PER_DOLLAR))
        tokens = min(max(0, event.prompt + event.output), RECORD_TOKENS_MAX)
        reservation = open_reservations[event.id] = OpenReservation(hour, event.person, money, tokens)
        yield LedgerEntry(hour, reservation.person, reservation.money, reservation.tokens)
        return
    charges = _find_charges(event)
    closed = reservations_closed_by(event, tuple(open_reservations)) if open_reservations else ()
    if closed and any(bound_charge(*charge) != charge for charge in charges):
        for id in closed:  # an earlier release stored whatever was reported: the reservations stay charged instead
            del open_reservations[id]
        return
    for id in closed:
        reservation = open_reservations.pop(id)
        person = reservation.person
        if isinstance(event, Settled) and event.lost:
            yield LedgerEntry(reservation.hour, person, lost=reservation.money)
        else:
            yield LedgerEntry(reservation.hour, person, -reservation.money, -reservation.tokens)
    for charge in charges:
        usage, cost = bound_charge(*charge)
        yield LedgerEntry(hour, person, to_nanodollars(cost), usage.prompt + usage.completion)
    if isinstance(event, ToolFinished) and event.calls:
        yield LedgerEntry(hour, person, calls=1)  # a sub-agent's calls and spending are in its own journal


def _find_charges(event: Event) -> list[tuple[Usage, float]]:
    """Return the tokens and dollars that an event reports."""
    match event:
        case (
            MessageAdded(role="assistant", usage=Usage() as usage, cost=cost)
            | Folded(usage=Usage() as usage, cost=cost)
        ):
            return [(usage, cost)]
        case Settled(usage=Usage() as usage, cost=cost, lost=False):
            return [(usage, cost)]
        case Judged(scores=scores):
            return [(score.usage, score.cost) for score in scores if score.usage is not None]
    return []


class _PayerTracker:
    """Tracks who pays for a turn: the last sender in it, or the person that a sub-agent acts for."""

    def __init__(self, batch: JournalBatch) -> None:
        standing = batch.info
        self._spawned = standing.spawned
        self.person = standing.spawned.person if standing.spawned is not None else standing.person
        self._queued: dict[int, Received] = {}

    def observe(self, record: Record) -> None:
        match record.event:
            case Received() as received:
                self._queued[record.seq] = received
            case TurnStarted(inputs=inputs) | Steered(inputs=inputs):
                used = [self._queued.pop(seq) for seq in inputs if seq in self._queued]
                prompts = [received for received in used if received.kind != "overheard"]
                if self._spawned is None and used:
                    self.person = sender_person((prompts or used)[-1].sender)
