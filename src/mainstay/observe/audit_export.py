"""Writes and reads exports of the audit log: a line per entry and an end line with the number of entries.

There are two formats: JSON Lines, with an entry's details as an object, and CSV, with an apostrophe before fields that
a spreadsheet would take for a formula. Both are canonical, so that every changed byte of an export is detected.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator
from typing import BinaryIO, Literal

import msgspec

from mainstay.core.audit import ENTRY_FIELDS, GENESIS_DIGEST
from mainstay.core.errors import StoreCorrupt
from mainstay.observe.audit_verifier import DETAILS_INDEX, ChainAnchor, ChainRow

AuditExportFormat = Literal["jsonl", "csv"]
LINE_BYTES_MAX = 1_000_000
NUMBER_FIELDS = frozenset(("seq", "at", "turn", "record"))
END_KIND = "end"
FORMULA_PREFIXES = ("=", "+", "-", "@", "\t", "\r", "'")

_encode_json = msgspec.json.Encoder().encode


class _AuditJsonLine(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An entry in JSON: the fields of AuditEntry in their order, with the details as raw JSON."""

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


class _ExportEnd(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    entries: int
    digest: str
    seq: int


class _ExportEndLine(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    end: _ExportEnd


_decode_line = msgspec.json.Decoder(_AuditJsonLine).decode
_decode_end = msgspec.json.Decoder(_ExportEndLine).decode


# --- writing -------------------------------------------------------------------------------------


def encode_export(rows: Iterable[tuple[object, ...]], format: AuditExportFormat) -> Iterator[bytes]:
    """Yield the lines of the export. Raises StoreCorrupt for an entry whose details are not a line of JSON."""
    if format == "csv":
        yield _csv_line(ENTRY_FIELDS)
    count, seq, digest = 0, 0, GENESIS_DIGEST
    for row in rows:
        yield _csv_line(row) if format == "csv" else _json_line(row)
        match row:
            case (int(seq), *_, str(digest)):
                count += 1
            case _:
                raise StoreCorrupt(f"entry {row[0]} of the audit log is damaged; run `mainstay audit verify`")
    yield _csv_end_line(count, seq, digest) if format == "csv" else _json_end_line(count, seq, digest)


def _json_line(row: tuple[object, ...]) -> bytes:
    try:
        values = (*row[:DETAILS_INDEX], _raw_json(row[DETAILS_INDEX]), *row[DETAILS_INDEX + 1 :])
        return _encode_json(dict(zip(ENTRY_FIELDS, values, strict=True))) + b"\n"
    except (msgspec.DecodeError, TypeError, ValueError) as error:
        raise StoreCorrupt(
            f"entry {row[0]} of the audit log is damaged ({error}); run `mainstay audit verify`"
        ) from None


def _raw_json(details: object) -> msgspec.Raw:
    if not isinstance(details, str):
        raise TypeError("its details are not text")
    text = details.encode()
    msgspec.json.decode(text)
    if b"\n" in text:
        raise ValueError("its details span more than one line")
    return msgspec.Raw(text)


def _json_end_line(count: int, seq: int, digest: str) -> bytes:
    return _encode_json(_ExportEndLine(_ExportEnd(count, digest, seq))) + b"\n"


def _csv_line(values: Iterable[object]) -> bytes:
    out = io.StringIO()
    cells = (_escape_cell(value) if isinstance(value, str) else value for value in values)
    csv.writer(out, lineterminator="\n", quoting=csv.QUOTE_NONNUMERIC).writerow(cells)  # names may contain anything
    return out.getvalue().encode(errors="surrogatepass")


def _escape_cell(text: str) -> str:
    """Put an apostrophe before a text that a spreadsheet would take for a formula (CSV injection)."""
    return f"'{text}" if text.startswith(FORMULA_PREFIXES) else text


def _unescape_cell(cell: str) -> str:
    return cell.removeprefix("'")


def _csv_end_line(count: int, seq: int, digest: str) -> bytes:
    values = {"seq": seq, "kind": END_KIND, "what": count, "digest": digest}
    return _csv_line([values.get(name, "") for name in ENTRY_FIELDS])


# --- reading -------------------------------------------------------------------------------------


class AuditExportReader:
    """Reads an export. Once all `rows` have been read, `anchor` returns what its end line says."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._row_count = 0
        self._anchor: ChainAnchor | None = None
        self._line_number = 0  # of the line that was read last

    def rows(self) -> Iterator[ChainRow]:
        first = self._read_line()
        is_csv = first == _csv_line(ENTRY_FIELDS)
        for line in self._remaining_lines(b"" if is_csv else first):
            where = f"line {self._line_number}"
            if self._anchor is not None:
                yield ChainRow(where, error="there is something after the end line")
                return
            row = self._parse_csv_line(where, line) if is_csv else self._parse_json_line(where, line)
            if row is not None:
                self._row_count += 1
                yield row

    def anchor(self) -> ChainAnchor:
        return self._anchor or ChainAnchor(f"line {self._line_number}", error="the end line is missing")

    def _remaining_lines(self, first: bytes) -> Iterator[bytes]:
        if first:
            yield first
        yield from iter(self._read_line, b"")

    def _read_line(self) -> bytes:
        self._line_number += 1
        line = self._file.readline(LINE_BYTES_MAX)
        if not line:
            self._line_number -= 1
        return line

    def _parse_json_line(self, location: str, line: bytes) -> ChainRow | None:
        try:
            if line.startswith(b'{"end"'):
                last = _decode_end(line).end
                return self._store_end(location, line, _json_end_line(last.entries, last.seq, last.digest), last)
            entry = _decode_line(line)
            values = tuple(getattr(entry, name) for name in ENTRY_FIELDS)
            values = (*values[:DETAILS_INDEX], bytes(entry.details).decode(), *values[DETAILS_INDEX + 1 :])
            return _build_row(location, line, _encode_json(entry) + b"\n", values)
        except (msgspec.DecodeError, UnicodeDecodeError):
            return ChainRow(location, error="this is not a valid entry")

    def _parse_csv_line(self, location: str, line: bytes) -> ChainRow | None:
        try:
            while line.count(b'"') % 2 and (more := self._read_line()):  # a name may contain a line break
                line += more
                if len(line) > LINE_BYTES_MAX:
                    return ChainRow(location, error="this is not a valid entry")
            cells = next(csv.reader(io.StringIO(line.decode(errors="surrogatepass"), newline=""), strict=True), [])
            fields = dict(zip(ENTRY_FIELDS, cells, strict=True))
            if fields["kind"] == END_KIND and not fields["at"]:
                last = _ExportEnd(int(fields["what"]), fields["digest"], int(fields["seq"]))
                return self._store_end(location, line, _csv_end_line(last.entries, last.seq, last.digest), last)
            values = tuple(
                int(text) if name in NUMBER_FIELDS else _unescape_cell(text) for name, text in fields.items()
            )
            return _build_row(location, line, _csv_line(values), values)
        except (ValueError, csv.Error, UnicodeError):
            return ChainRow(location, error="this is not a valid entry")

    def _store_end(self, location: str, line: bytes, canonical: bytes, last: _ExportEnd) -> ChainRow | None:
        """Store the end line; return a row only if it is not canonical."""
        if line != canonical:
            return ChainRow(location, error="this is not a valid entry")
        problem = (
            ""
            if last.entries == self._row_count
            else f"{last.entries} entries were written, {self._row_count} are here"
        )
        self._anchor = ChainAnchor(location, last.seq, last.digest, problem)
        return None


def _build_row(location: str, line: bytes, canonical: bytes, values: tuple[int | str, ...]) -> ChainRow:
    """Return the row, with an error if the line is not in the canonical encoding."""
    if line == canonical:
        return ChainRow(location, values)
    seq = values[0]
    assert isinstance(seq, int), "it was parsed as a number"
    return ChainRow(location, values, "this line was changed", seq)
