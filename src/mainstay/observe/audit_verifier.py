"""Verifies the hash chain of the audit log: finds changed, missing, inserted and reordered entries (tamper evidence).

Every entry contains the digest of the previous one, so a change is found together with its location. A chain that was
forged completely, from some entry to the end, is only detected with data from outside of it: the anchor file next to
the database, or an earlier export.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple, TypeGuard

import msgspec

from mainstay.core.audit import (
    CHAIN_ACCEPTED,
    CHAIN_BEGUN,
    CHAIN_PRUNED,
    CHAIN_RESUMED,
    ENTRY_FIELDS,
    GENESIS_DIGEST,
    AuditEntry,
    AuditRow,
    entry_digest,
)

ANCHOR_LAG_MAX = 10_000  # entries that the anchor may be behind
# types of the values of a row, by ENTRY_FIELDS
ENTRY_TYPES = (int, int, str, str, str, int, int, str, str, str, str, str)
SEQ_INDEX, KIND_INDEX, DETAILS_INDEX = (ENTRY_FIELDS.index(name) for name in ("seq", "kind", "details"))


class ChainRow(msgspec.Struct, frozen=True):
    """An entry as it was read: its location and values, or why it cannot be read."""

    location: str
    values: tuple[object, ...] = ()  # unchecked
    error: str = ""  # empty: it could be read
    seq: int = 0  # of an entry that cannot be read; 0: not known

    def parse(self) -> AuditEntry | None:
        """Return the entry; None if it could not be read or its values are not those of an entry."""
        return None if self.error or not _is_entry_row(self.values) else AuditEntry(*self.values)


class _LocatedEntry(NamedTuple):
    """An entry and its location."""

    location: str
    entry: AuditEntry

    def compute_digest(self) -> str:
        return entry_digest(msgspec.structs.astuple(self.entry)[:-1])


class ChainAnchor(msgspec.Struct, frozen=True):
    """The last entry according to an anchor: the anchor file, or the end line of an export."""

    location: str
    seq: int = 0
    digest: str = ""
    error: str = ""  # why the anchor cannot be used; empty: it can


class AuditFinding(msgspec.Struct, frozen=True, rename={"location": "where", "message": "what", "is_note": "fine"}):
    """A problem in the audit log, or a note about one."""

    location: str
    message: str
    is_note: bool = False  # only a note: the log itself accounts for it

    def __str__(self) -> str:
        return f"{self.location}: {self.message}"


class _PrunedDetails(msgspec.Struct):
    through: int = 0
    digest: str = ""


class _AcceptedDetails(msgspec.Struct):
    seq: int = 0
    digest: str = ""


def verify_chain(
    rows: Iterable[ChainRow], get_anchor: Callable[[], ChainAnchor | None], *, is_prefix: bool = False
) -> Iterator[AuditFinding]:
    """Yield what is wrong with the rows, in order. `get_anchor` is called after the last row. `is_prefix`: the rows are
    an earlier part of a log, whose later entries may acknowledge a continuation."""
    chain = _ChainVerifier(is_prefix)
    for row in rows:
        yield from chain.check_row(row)
    yield from chain.check_end(get_anchor())


class ExportComparison:
    """Compares an earlier export with the current rows: each of its entries must still be there unchanged, or have been
    pruned since, in which case its digest is in the entry after it."""

    def __init__(self, name: str, export_rows: Iterable[ChainRow]) -> None:
        self._name = name
        self._exported = (entry for row in export_rows if (entry := row.parse()) is not None)
        self._next_exported = next(self._exported, None)
        self._is_empty = self._next_exported is None
        self._has_compared = False
        self._last_seq = 0  # sequence of the last current row
        self._first_different_seq = 0  # sequence of the first entry that differs; 0: none

    def compare_rows(self, rows: Iterable[ChainRow]) -> Iterator[ChainRow]:
        """Compare the current rows while passing them through."""
        for row in rows:
            yield row
            if (entry := row.parse()) is not None:
                self._compare_entry(entry)

    def _compare_entry(self, entry: AuditEntry) -> None:
        previous: AuditEntry | None = None
        while self._next_exported is not None and self._next_exported.seq < entry.seq:
            previous = self._next_exported
            self._next_exported = next(self._exported, None)
        # the entry before the first remaining
        if previous is not None and previous.seq == entry.seq - 1 and not self._last_seq:
            self._compare_digests(previous.seq, previous.digest, entry.before)
        if self._next_exported is not None and self._next_exported.seq == entry.seq:
            self._compare_digests(entry.seq, self._next_exported.digest, entry.digest)
        self._last_seq = entry.seq

    def _compare_digests(self, seq: int, exported_digest: str, current_digest: str) -> None:
        self._has_compared = True
        if exported_digest != current_digest and not self._first_different_seq:
            self._first_different_seq = seq

    def findings(self) -> Iterator[AuditFinding]:
        """Yield the differences, after the last row."""
        if self._first_different_seq:
            yield AuditFinding(
                self._name, f"entry {self._first_different_seq} was different when this export was written"
            )
        first = last = 0
        while self._next_exported is not None:
            if self._next_exported.seq > self._last_seq:
                first, last = first or self._next_exported.seq, self._next_exported.seq
            self._next_exported = next(self._exported, None)
        if first:
            yield AuditFinding(
                self._name, f"{_describe_missing(first, last)}: this export goes further than the audit log"
            )
        elif not self._has_compared and not self._is_empty:
            yield AuditFinding(self._name, "it cannot be compared: all of its entries have been removed since")


class _ChainVerifier:
    """State of a verification between two rows."""

    def __init__(self, is_prefix: bool) -> None:
        self._is_prefix = is_prefix
        self._previous: _LocatedEntry | None = None  # of the previous row; None: it could not be read
        self._previous_seq = 0  # sequence of the previous row, readable or not
        self._is_previous_wrong = False  # the previous row's digest is not that of its fields
        self._is_previous_reported = False  # a finding about the previous row was yielded
        self._has_rows = False
        self._valid_first: _LocatedEntry | None = None  # of the first row, if its digest is right
        # last removed entry according to the newest pruning entry: seq, digest
        self._pruned_through: tuple[int, str] = (0, "")
        self._recent_digests: dict[int, str] = {}  # digests of the newest entries, by sequence
        # continuations that no later entry acknowledges, by sequence
        self._unacknowledged: dict[int, _LocatedEntry] = {}

    # --- rows ------------------------------------------------------------------------------------

    def check_row(self, row: ChainRow) -> Iterator[AuditFinding]:
        entry = row.parse()
        if entry is None:
            yield from self._report_previous(None)
            yield AuditFinding(row.location, row.error or "this is not a valid entry")
            number = row.values[SEQ_INDEX] if row.values else 0
            seq = row.seq or (number if isinstance(number, int) else 0)
            self._previous, self._is_previous_reported = None, True
            self._previous_seq = seq or self._previous_seq + 1
            self._has_rows = True
        elif entry.seq < 1:
            yield AuditFinding(row.location, f"entry {entry.seq} was inserted: numbers begin with 1")
        else:
            yield from self._check_entry(_LocatedEntry(row.location, entry))

    def _check_entry(self, located: _LocatedEntry) -> Iterator[AuditFinding]:
        location, entry = located
        follows = entry.seq == self._previous_seq + 1
        yield from self._report_previous(entry.before if follows else None)
        wrong = located.compute_digest() != entry.digest
        if not self._has_rows:
            self._has_rows = True
            self._valid_first = None if wrong else located
        elif entry.seq <= self._previous_seq:
            yield AuditFinding(location, f"entry {entry.seq} comes after entry {self._previous_seq}")
        elif not follows:
            yield AuditFinding(location, _describe_missing(self._previous_seq + 1, entry.seq - 1))
        elif (
            self._previous is not None
            and not self._is_previous_reported
            and not wrong
            and entry.before != self._previous.entry.digest
        ):
            yield AuditFinding(
                location,
                f"entry {entry.seq} is not linked to entry {self._previous_seq}: an entry was inserted or replaced",
            )
        self._previous, self._previous_seq = located, entry.seq
        self._is_previous_reported, self._is_previous_wrong = False, wrong
        if entry.seq == 1 and (entry.before != GENESIS_DIGEST or entry.kind != CHAIN_BEGUN) and not wrong:
            yield AuditFinding(location, "entry 1 is not a valid first entry")
        self._remember_entry(entry)
        if entry.kind == CHAIN_RESUMED and not wrong:
            self._unacknowledged[entry.seq] = located
        elif entry.kind == CHAIN_ACCEPTED and not wrong:
            yield from self._apply_acknowledgement(entry)

    def _report_previous(self, linked_digest: str | None) -> Iterator[AuditFinding]:
        """If the previous row is wrong, report what was changed. `linked_digest` is its digest according to the next
        row (None: not known): if that fits the fields, the digest was changed, else the fields."""
        if self._is_previous_wrong and self._previous is not None:
            self._is_previous_wrong, self._is_previous_reported = False, True
            location, entry = self._previous
            if linked_digest == self._previous.compute_digest():
                yield AuditFinding(location, f"the digest of entry {entry.seq} was changed")
            else:
                yield AuditFinding(location, f"entry {entry.seq} was changed")

    def _apply_acknowledgement(self, entry: AuditEntry) -> Iterator[AuditFinding]:
        try:
            accepted = msgspec.json.decode(entry.details, type=_AcceptedDetails)
        except msgspec.DecodeError:
            return
        resumed = self._unacknowledged.get(accepted.seq)
        if resumed is not None and resumed.entry.digest == accepted.digest:
            del self._unacknowledged[accepted.seq]
            note = f"{_describe_continuation(resumed.entry)}; entry {entry.seq} acknowledges this"
            yield AuditFinding(resumed.location, note, is_note=True)

    def _remember_entry(self, entry: AuditEntry) -> None:
        if entry.kind == CHAIN_PRUNED and not self._is_previous_wrong:
            try:
                pruned = msgspec.json.decode(entry.details, type=_PrunedDetails)
            except msgspec.DecodeError:
                return
            self._pruned_through = pruned.through, pruned.digest
        self._recent_digests[entry.seq] = entry.digest
        if len(self._recent_digests) > ANCHOR_LAG_MAX:
            del self._recent_digests[next(iter(self._recent_digests))]

    # --- after the last row ----------------------------------------------------------------------

    def check_end(self, anchor: ChainAnchor | None) -> Iterator[AuditFinding]:
        wrong = self._previous.entry.seq if self._is_previous_wrong and self._previous is not None else 0
        yield from self._report_previous(
            anchor.digest if anchor is not None and anchor.seq == self._previous_seq else None
        )
        yield from self._check_beginning()
        for location, entry in self._unacknowledged.values():
            yield AuditFinding(
                location, f"{_describe_continuation(entry)}, and no entry acknowledges this", is_note=self._is_prefix
            )
        if anchor is None:
            return
        if anchor.error:
            yield AuditFinding(anchor.location, anchor.error)
        elif anchor.seq > self._previous_seq:
            yield AuditFinding(anchor.location, f"{_describe_missing(self._previous_seq + 1, anchor.seq)} at the end")
        elif (
            anchor.seq in self._recent_digests
            and self._recent_digests[anchor.seq] != anchor.digest
            and anchor.seq != wrong
        ):
            yield AuditFinding(anchor.location, f"entry {anchor.seq} does not have the digest that is recorded here")
        elif anchor.seq and anchor.seq not in self._recent_digests and not self._is_previous_reported:
            yield AuditFinding(anchor.location, f"entry {anchor.seq}, which is recorded here, does not exist")

    def _check_beginning(self) -> Iterator[AuditFinding]:
        """Entries may only be missing at the beginning if a pruning entry accounts for them."""
        if self._valid_first is None or self._valid_first.entry.seq == 1:
            return
        location, entry = self._valid_first
        if self._pruned_through != (entry.seq - 1, entry.before):
            yield AuditFinding(
                location, f"{_describe_missing(1, entry.seq - 1)}, and no pruning entry accounts for this"
            )


def _describe_continuation(entry: AuditEntry) -> str:
    return f"entry {entry.seq} says that the audit log was continued although {entry.what}"


def _describe_missing(first: int, last: int) -> str:
    return f"entry {first} is missing" if first == last else f"entries {first} to {last} are missing"


def _is_entry_row(values: tuple[object, ...]) -> TypeGuard[AuditRow]:
    return len(values) == len(ENTRY_TYPES) and all(
        type(value) is kind for value, kind in zip(values, ENTRY_TYPES, strict=True)
    )
