"""Formats query results as CSV text: control characters escaped, cells and total size limited."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from mainstay.backends.base import clean_name

CELL_CHARS_MAX = 500
RESULT_BYTES_MAX = 56 * 1024  # below the size at which results are stored by reference: paging by offset is better
NUMBER_DIGITS_MAX = 1_000

_ESCAPES = {"\n": "\\n", "\r": "\\r", "\t": "\\t", "\\": "\\\\"}


class ResultRows(msgspec.Struct, frozen=True):
    """Some rows of a result, each cell as displayed; None is NULL."""

    columns: tuple[str, ...]
    rows: Sequence[tuple[str | None, ...]]
    has_more: bool  # further rows follow


def format_value(value: object) -> str | None:
    """Format a driver's value; None stays None."""
    match value:
        case None:
            return None
        case bytes() | bytearray() | memoryview():
            return format_binary(len(value))
        case bool():
            return "true" if value else "false"
        case int() if value.bit_length() > NUMBER_DIGITS_MAX * 3:  # converting it to decimal would take too long
            return f"<a number of {value.bit_length()} bits>"
        case str():
            return truncate_cell(value[: CELL_CHARS_MAX + 1], len(value))
        case _:
            text = str(value)
            return truncate_cell(text[: CELL_CHARS_MAX + 1], len(text))


def truncate_cell(text: str, chars_total: int) -> str:
    """Truncate the beginning of a text that has `chars_total` characters."""
    return text if chars_total <= CELL_CHARS_MAX else f"{text[:CELL_CHARS_MAX]}… ({chars_total} characters)"


def format_binary(size_bytes: int) -> str:
    return f"<{size_bytes} bytes>"


def format_csv(rows: ResultRows, offset: int, is_ordered: bool) -> str:
    """Format rows as CSV with a header and a footer. NULL is written as NULL, an empty text as two quotes."""
    lines = [",".join(clean_name(name) for name in rows.columns)]
    size, row_count = len(lines[0].encode(errors="replace")), 0
    for row in rows.rows:
        line = ",".join(_format_cell(cell) for cell in row)
        size += len(line.encode(errors="replace")) + 1
        if size > RESULT_BYTES_MAX and row_count:
            break
        lines.append(line)
        row_count += 1
    has_more = rows.has_more or row_count < len(rows.rows)
    return "\n".join((*lines, _format_footer(offset, row_count, has_more=has_more, is_ordered=is_ordered)))


def _format_footer(offset: int, row_count: int, *, has_more: bool, is_ordered: bool) -> str:
    if not row_count:
        return f"[no rows from {offset} on]" if offset else "[no rows]"
    if not has_more and not offset:
        return f"[{row_count} row{'s' if row_count > 1 else ''}]"
    position = f"rows {offset + 1} to {offset + row_count}"
    if not has_more:
        return f"[{position}; there are no more]"
    hint = "" if is_ordered else "; use ORDER BY to get consistent pages"
    return f"[{position}; there are more: offset={offset + row_count}{hint}]"


def _format_cell(cell: str | None) -> str:
    if cell is None:
        return "NULL"
    text = "".join(_ESCAPES.get(char) or _escape_control(char) for char in cell)
    if not text or text == "NULL" or text != text.strip() or any(char in text for char in ',"'):
        return '"' + text.replace('"', '""') + '"'
    return text


def _escape_control(char: str) -> str:
    """Escape a control character."""
    return char if char >= " " and char != "\x7f" and not "\x80" <= char <= "\x9f" else f"\\x{ord(char):02x}"
