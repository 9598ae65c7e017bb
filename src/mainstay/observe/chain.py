"""Whether an audit is what was written: every entry names the digest of the one before it, so that a change anywhere
shows, and where.

What is found is one line for each place. A chain that somebody forged as a whole, from some entry to its end, is told
from the true one only by what was kept elsewhere: the file beside the database, or an older export.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgspec

from mainstay.core.audit import ACCEPTED, BEGUN, FIELDS, NOTHING, PRUNED, RESUMED, digest_of

KNOWN_MAX = 10_000  # how far what was noted of the end may be behind
FORM = (int, int, str, str, str, int, int, str, str, str, str, str)  # of a row, by FIELDS
SEQ, KIND, WHAT, DETAILS, BEFORE = (FIELDS.index(name) for name in ("seq", "kind", "what", "details", "before"))


class Row(msgspec.Struct, frozen=True):
    """An entry as it was found: where, and its values; or what is the matter with it."""

    where: str
    values: tuple[Any, ...] = ()
    trouble: str = ""
    seq: int = 0  # of one that cannot be read, where that is known


class End(msgspec.Struct, frozen=True):
    """What is known of the end from elsewhere."""

    where: str
    seq: int = 0
    digest: str = ""
    trouble: str = ""


class Finding(msgspec.Struct, frozen=True):
    where: str
    what: str
    fine: bool = False  # worth knowing, but on record itself

    def __str__(self) -> str:
        return f"{self.where}: {self.what}"


class _Pruned(msgspec.Struct):
    through: int = 0
    digest: str = ""


class _Accepted(msgspec.Struct):
    seq: int = 0
    digest: str = ""


def verify(rows: Iterable[Row], end: Callable[[], End | None], *, past: bool = False) -> Iterator[Finding]:
    """What is wrong, in order. `end` is asked when all rows have been seen. `past`: these were followed by others,
    which may say that what these tell of is known."""
    chain = _Chain(past)
    for row in rows:
        yield from chain.look(row)
    yield from chain.close(end())


class Against:
    """An earlier export, beside the rows that are there now: what was on record then is on record still, or it was
    removed since and its digest is in the entry after it."""

    def __init__(self, name: str, earlier: Iterable[Row]) -> None:
        self._name = name
        self._earlier = (row.values for row in earlier if not (row.trouble or _malformed(row.values)))
        self._next: tuple[Any, ...] | None = next(self._earlier, None)
        self._is_empty = self._next is None
        self._compared = False
        self._last = 0  # seen now
        self._differs = 0  # the first of those

    def seen(self, rows: Iterable[Row]) -> Iterator[Row]:
        """The same rows, each of them compared."""
        for row in rows:
            yield row
            if not (row.trouble or _malformed(row.values)):
                self._compare(row.values)

    def _compare(self, values: tuple[Any, ...]) -> None:
        seq = values[SEQ]
        before: tuple[Any, ...] | None = None
        while self._next is not None and self._next[SEQ] < seq:
            before = self._next
            self._next = next(self._earlier, None)
        if before is not None and before[SEQ] == seq - 1 and not self._last:  # the one before the first that is left
            self._same(seq - 1, before[-1], values[BEFORE])
        if self._next is not None and self._next[SEQ] == seq:
            self._same(seq, self._next[-1], values[-1])
        self._last = seq

    def _same(self, seq: int, then: str, now: str) -> None:
        self._compared = True
        if then != now and not self._differs:
            self._differs = seq

    def findings(self) -> Iterator[Finding]:
        """When all rows were seen."""
        if self._differs:
            yield Finding(
                self._name, f"entry {self._differs} was another one when this was written, or was changed since"
            )
        first = last = 0
        while self._next is not None:
            if self._next[SEQ] > self._last:
                first, last = first or self._next[SEQ], self._next[SEQ]
            self._next = next(self._earlier, None)
        if first:
            yield Finding(self._name, f"{_missing(first, last)}: when this was written, the audit went further")
        elif not self._compared and not self._is_empty:
            yield Finding(self._name, "nothing of it can be compared: all that it has was removed since")


class _Chain:
    def __init__(self, past: bool) -> None:
        self._past = past
        self._last: Row | None = None  # the one before, if it could be read
        self._seq = 0  # its number, or that of one that could not
        self._wrong = False  # its digest is not that of its fields
        self._told = False  # of the one before something was said already
        self._first: Row | None = None
        self._begins = False  # the first can be believed
        self._pruned: tuple[int, str] = (0, "")
        self._known: dict[int, str] = {}  # the digests of the newest
        self._resumed: dict[int, Row] = {}  # entries that say that it went on, of which nobody said that they know

    # --- one after the other ---------------------------------------------------------------------

    def look(self, row: Row) -> Iterator[Finding]:
        trouble = row.trouble or _malformed(row.values)
        if trouble:
            yield from self._settle(None)
            yield Finding(row.where, trouble)
            seq = row.seq or (row.values[SEQ] if row.values and type(row.values[SEQ]) is int else 0)
            self._last, self._seq, self._told = None, seq or self._seq + 1, True
            self._first = self._first or row
            return
        seq, before = row.values[SEQ], row.values[BEFORE]
        if seq < 1:
            yield Finding(row.where, f"entry {seq} was put in: numbers begin with 1")
            return
        follows = seq == self._seq + 1
        yield from self._settle(before if follows else None)
        wrong = digest_of(row.values[:-1]) != row.values[-1]
        if self._first is None:
            self._first = row
            self._begins = not wrong
        elif seq <= self._seq:
            yield Finding(row.where, f"entry {seq} stands after entry {self._seq}")
        elif not follows:
            yield Finding(row.where, _missing(self._seq + 1, seq - 1))
        elif self._last is not None and not self._told and not wrong and before != self._last.values[-1]:
            yield Finding(row.where, f"entry {seq} does not follow entry {self._seq}: one was put in or exchanged")
        self._last, self._seq, self._told, self._wrong = row, seq, False, wrong
        if seq == 1 and (before != NOTHING or row.values[KIND] != BEGUN) and not self._wrong:
            yield Finding(row.where, "entry 1 is not how an audit begins")
        self._mark(row)
        if row.values[KIND] == RESUMED and not self._wrong:
            self._resumed[seq] = row
        elif row.values[KIND] == ACCEPTED and not self._wrong:
            yield from self._accepted(row)

    def _settle(self, named: str | None) -> Iterator[Finding]:
        """The one before was wrong: what, is told by the digest under which the next one names it."""
        if self._wrong and self._last is not None:
            self._wrong, self._told = False, True
            seq = self._last.values[SEQ]
            if named == digest_of(self._last.values[:-1]):
                yield Finding(self._last.where, f"the digest of entry {seq} was changed")
            else:
                yield Finding(self._last.where, f"entry {seq} was changed")

    def _accepted(self, row: Row) -> Iterator[Finding]:
        try:
            found = msgspec.json.decode(row.values[DETAILS], type=_Accepted)
        except msgspec.DecodeError:
            return
        known = self._resumed.get(found.seq)
        if known is not None and known.values[-1] == found.digest:
            del self._resumed[found.seq]
            said = f"{_went_on(known)}; entry {row.values[SEQ]} says that this is known"
            yield Finding(known.where, said, fine=True)

    def _mark(self, row: Row) -> None:
        if row.values[KIND] == PRUNED and not self._wrong:
            try:
                found = msgspec.json.decode(row.values[DETAILS], type=_Pruned)
            except msgspec.DecodeError:
                return
            self._pruned = found.through, found.digest
        self._known[row.values[SEQ]] = row.values[-1]
        if len(self._known) > KNOWN_MAX:
            del self._known[next(iter(self._known))]

    # --- the end ---------------------------------------------------------------------------------

    def close(self, end: End | None) -> Iterator[Finding]:
        wrong = self._last.values[SEQ] if self._wrong and self._last is not None else 0
        yield from self._settle(end.digest if end is not None and end.seq == self._seq else None)
        yield from self._beginning()
        for row in self._resumed.values():
            yield Finding(row.where, f"{_went_on(row)}, and nobody said that this is known", fine=self._past)
        if end is None:
            return
        if end.trouble:
            yield Finding(end.where, end.trouble)
        elif end.seq > self._seq:
            yield Finding(end.where, f"{_missing(self._seq + 1, end.seq)} at the end")
        elif end.seq in self._known and self._known[end.seq] != end.digest and end.seq != wrong:
            yield Finding(end.where, f"entry {end.seq} has not the digest that was noted here")
        elif end.seq and end.seq not in self._known and not self._told:
            yield Finding(end.where, f"entry {end.seq}, which was noted here, is not there")

    def _beginning(self) -> Iterator[Finding]:
        """Whatever is missing there was removed, and somebody said so."""
        if self._first is None or not self._begins or self._first.values[SEQ] == 1:
            return
        seq, before = self._first.values[SEQ], self._first.values[BEFORE]
        if self._pruned != (seq - 1, before):
            yield Finding(self._first.where, f"{_missing(1, seq - 1)}, and no entry says that this was meant to be")


def _went_on(row: Row) -> str:
    return f"entry {row.values[SEQ]} says that the audit went on although {row.values[WHAT]}"


def _missing(first: int, last: int) -> str:
    return f"entry {first} is missing" if first == last else f"entries {first} to {last} are missing"


def _malformed(values: tuple[Any, ...]) -> str:
    if len(values) != len(FORM) or any(type(one) is not kind for one, kind in zip(values, FORM, strict=True)):
        return "this is not an entry"
    return ""
