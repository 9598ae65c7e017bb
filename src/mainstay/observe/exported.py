"""An audit in a file: one line for each entry, and one at the end that says how far it goes.

Two formats, both written in one way only, so that a file of which any byte is otherwise is not the one that was
written: JSON Lines, with the details of an entry as an object, and CSV, with all of an entry's fields as text,
behind an apostrophe where a spreadsheet would take it for something else.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator
from typing import Any, BinaryIO, Literal

import msgspec

from mainstay.core.audit import FIELDS, NOTHING
from mainstay.core.errors import StoreCorrupt
from mainstay.observe.chain import DETAILS, End, Row

Format = Literal["jsonl", "csv"]
LINE_BYTES_MAX = 1_000_000
NUMBERS = frozenset(("seq", "at", "turn", "record"))
END = "end"
FORMULAS = ("=", "+", "-", "@", "\t", "\r", "'")

_encode = msgspec.json.Encoder().encode


class _Line(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An entry; the same fields in the same order, but for the details, which stand there as they are."""

    seq: int
    at: int
    kind: str
    workspace: str
    session: str
    turn: int
    record: int
    person: str
    what: str
    details: msgspec.Raw
    before: str
    digest: str


class _Last(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    entries: int
    digest: str
    seq: int


class _End(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    end: _Last


_line = msgspec.json.Decoder(_Line).decode
_end = msgspec.json.Decoder(_End).decode


# --- out -----------------------------------------------------------------------------------------


def written(rows: Iterable[tuple[Any, ...]], format: Format) -> Iterator[bytes]:
    """The file, a line at a time. Raises StoreCorrupt at an entry that none of ours ever was."""
    if format == "csv":
        yield _csv(FIELDS)
    count, seq, digest = 0, 0, NOTHING
    for row in rows:
        yield _csv(row) if format == "csv" else _json(row)
        count, seq, digest = count + 1, row[0], row[-1]
    yield _csv_end(count, seq, digest) if format == "csv" else _json_end(count, seq, digest)


def _json(row: tuple[Any, ...]) -> bytes:
    try:
        values: Any = (*row[:DETAILS], _raw(row[DETAILS]), *row[DETAILS + 1 :])
        return _encode(dict(zip(FIELDS, values, strict=True))) + b"\n"
    except (msgspec.DecodeError, TypeError, ValueError) as error:
        raise StoreCorrupt(f"entry {row[0]} of the audit is damaged ({error}); see `mainstay audit verify`") from None


def _raw(details: str) -> msgspec.Raw:
    text = details.encode()
    msgspec.json.decode(text)
    if b"\n" in text:
        raise ValueError("its details are of more than one line")
    return msgspec.Raw(text)


def _json_end(count: int, seq: int, digest: str) -> bytes:
    return _encode(_End(_Last(count, digest, seq))) + b"\n"


def _csv(values: Iterable[Any]) -> bytes:
    out = io.StringIO()
    cells = (_cell(one) if isinstance(one, str) else one for one in values)
    csv.writer(out, lineterminator="\n", quoting=csv.QUOTE_NONNUMERIC).writerow(cells)  # a name may hold anything
    return out.getvalue().encode(errors="surrogatepass")


def _cell(text: str) -> str:
    """A spreadsheet would take some names for something to work out; behind an apostrophe they are text."""
    return f"'{text}" if text.startswith(FORMULAS) else text


def _text(cell: str) -> str:
    return cell.removeprefix("'")


def _csv_end(count: int, seq: int, digest: str) -> bytes:
    values = {"seq": seq, "kind": END, "what": count, "digest": digest}
    return _csv([values.get(name, "") for name in FIELDS])


# --- in ------------------------------------------------------------------------------------------


class Exported:
    """A file that is read back. Once all `rows` were seen, `end` is what its last line says."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._count = 0
        self._end: End | None = None
        self._number = 0

    def rows(self) -> Iterator[Row]:
        first = self._read()
        is_csv = first == _csv(FIELDS)
        for line in self._lines(b"" if is_csv else first):
            where = f"line {self._number}"
            if self._end is not None:
                yield Row(where, trouble="something stands after the end")
                return
            row = self._csv_row(where, line) if is_csv else self._json_row(where, line)
            if row is not None:
                self._count += 1
                yield row

    def end(self) -> End:
        return self._end or End(f"line {self._number}", trouble="this is not the end: the last line is missing")

    def _lines(self, first: bytes) -> Iterator[bytes]:
        if first:
            yield first
        yield from iter(self._read, b"")

    def _read(self) -> bytes:
        self._number += 1
        line = self._file.readline(LINE_BYTES_MAX)
        if not line:
            self._number -= 1
        return line

    def _json_row(self, where: str, line: bytes) -> Row | None:
        try:
            if line.startswith(b'{"end"'):
                last = _end(line).end
                return self._ends(where, line, _json_end(last.entries, last.seq, last.digest), last)
            found = _line(line)
            values = tuple(getattr(found, name) for name in FIELDS)
            values = (*values[:DETAILS], bytes(found.details).decode(), *values[DETAILS + 1 :])
            return _same(where, line, _encode(found) + b"\n", values)
        except (msgspec.DecodeError, UnicodeDecodeError):
            return Row(where, trouble="this is not an entry")

    def _csv_row(self, where: str, line: bytes) -> Row | None:
        try:
            while line.count(b'"') % 2 and (more := self._read()):  # a name may hold the end of a line
                line += more
                if len(line) > LINE_BYTES_MAX:
                    return Row(where, trouble="this is not an entry")
            found = next(csv.reader(io.StringIO(line.decode(errors="surrogatepass"), newline=""), strict=True), [])
            named = dict(zip(FIELDS, found, strict=True))
            if named["kind"] == END and not named["at"]:
                last = _Last(int(named["what"]), named["digest"], int(named["seq"]))
                return self._ends(where, line, _csv_end(last.entries, last.seq, last.digest), last)
            values = tuple(int(text) if name in NUMBERS else _text(text) for name, text in named.items())
            return _same(where, line, _csv(values), values)
        except (ValueError, csv.Error, UnicodeError):
            return Row(where, trouble="this is not an entry")

    def _ends(self, where: str, line: bytes, same: bytes, last: _Last) -> Row | None:
        if line != same:
            return Row(where, trouble="this is not an entry")
        said = "" if last.entries == self._count else f"{last.entries} entries were written, and {self._count} are here"
        self._end = End(where, last.seq, last.digest, said)
        return None


def _same(where: str, line: bytes, again: bytes, values: tuple[Any, ...]) -> Row:
    """Whatever is written in another way was not written by us."""
    return Row(where, values) if line == again else Row(where, values, "this is not how it was written", values[0])
