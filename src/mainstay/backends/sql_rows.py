"""Rows as text: a header and a line for each, as CSV, with nothing unseen in it and nothing endless."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from mainstay.backends.common import clean_name

CELL_CHARS_MAX = 500
ANSWER_BYTES_MAX = 56 * 1024  # below what is kept by reference: going on by offset is the better way
NUMBER_DIGITS_MAX = 1_000

_ESCAPES = {"\n": "\\n", "\r": "\\r", "\t": "\\t", "\\": "\\\\"}


class Rows(msgspec.Struct, frozen=True):
    """Some rows, each cell as it is to be shown; None is NULL."""

    columns: tuple[str, ...]
    rows: Sequence[tuple[str | None, ...]]
    more: bool  # there are others after these


def show(value: Any) -> str | None:
    """A value as a driver gives it."""
    match value:
        case None:
            return None
        case bytes() | bytearray() | memoryview():
            return binary(len(value))
        case bool():
            return "true" if value else "false"
        case int() if value.bit_length() > NUMBER_DIGITS_MAX * 3:  # writing it out would take for ever
            return f"<a number of {value.bit_length()} bits>"
        case str():
            return shorten(value[: CELL_CHARS_MAX + 1], len(value))
        case _:
            text = str(value)
            return shorten(text[: CELL_CHARS_MAX + 1], len(text))


def shorten(text: str, length: int) -> str:
    """The beginning of a text that has so many characters."""
    return text if length <= CELL_CHARS_MAX else f"{text[:CELL_CHARS_MAX]}… ({length} characters)"


def binary(length: int) -> str:
    return f"<{length} bytes>"


def table(rows: Rows, offset: int, ordered: bool) -> str:
    """NULL is NULL, and an empty text is two quotes."""
    lines = [",".join(clean_name(name) for name in rows.columns)]
    size, shown = len(lines[0].encode(errors="replace")), 0
    for row in rows.rows:
        line = ",".join(_cell(cell) for cell in row)
        size += len(line.encode(errors="replace")) + 1
        if size > ANSWER_BYTES_MAX and shown:
            break
        lines.append(line)
        shown += 1
    more = rows.more or shown < len(rows.rows)
    return "\n".join((*lines, _last(offset, shown, more=more, ordered=ordered)))


def _last(offset: int, shown: int, *, more: bool, ordered: bool) -> str:
    if not shown:
        return f"[no rows from {offset} on]" if offset else "[no rows]"
    if not more and not offset:
        return f"[{shown} row{'s' if shown > 1 else ''}]"
    place = f"rows {offset + 1} to {offset + shown}"
    if not more:
        return f"[{place}; there are no more]"
    hint = "" if ordered else "; with ORDER BY pages are sure to fit together"
    return f"[{place}; there are more: offset={offset + shown}{hint}]"


def _cell(cell: str | None) -> str:
    if cell is None:
        return "NULL"
    text = "".join(_ESCAPES.get(char) or _plain(char) for char in cell)
    if not text or text == "NULL" or text != text.strip() or any(char in text for char in ',"'):
        return '"' + text.replace('"', '""') + '"'
    return text


def _plain(char: str) -> str:
    """Control characters are named, not sent."""
    return char if char >= " " and char != "\x7f" and not "\x80" <= char <= "\x9f" else f"\\x{ord(char):02x}"
