"""What commands print: tables, JSON, times, colours where they are wanted."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from shutil import get_terminal_size
from typing import Any

import msgspec

from mainstay.cli.chat.safe import safe_json, visible

_STYLES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}


def print_json(document: Any) -> None:
    try:
        encoded = msgspec.json.encode(document)
    except UnicodeEncodeError:  # the name of a file may be anything
        encoded = msgspec.json.encode(_written_out(msgspec.to_builtins(document)))
    print(safe_json(msgspec.json.format(encoded, indent=2).decode()))


def _written_out(document: Any) -> Any:
    """The same; what is not UTF-8 is written out (`\\udcff`)."""
    match document:
        case str(text):
            return text.encode(errors="backslashreplace").decode()
        case list() | tuple():
            return [_written_out(one) for one in document]
        case dict():
            return {_written_out(key): _written_out(value) for key, value in document.items()}
    return document


def coloured() -> bool:
    """Whether stdout may be painted (https://no-color.org)."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def paint(text: str, *styles: str) -> str:
    if not text or not coloured():
        return text
    return f"\x1b[{';'.join(_STYLES[one] for one in styles)}m{text}\x1b[0m"


def print_table(head: Sequence[str], rows: Sequence[Sequence[str]], right: str = "", *, narrow: bool = False) -> None:
    """Columns as wide as they need to be; those named in `right` (letters, from a) are flush right. With `narrow`, on a
    terminal that has no room for them they stand below one another."""
    cells = [[visible(cell) for cell in row] for row in rows]
    widths = [max(_width(one) for one in column) for column in zip(head, *cells, strict=True)]
    if narrow and sys.stdout.isatty() and sum(widths) + 2 * len(widths) - 2 > get_terminal_size().columns:
        _print_stacked(head, cells)
        return
    lines = [_line(row, widths, right) for row in [list(head), *cells]]
    print(paint(lines[0], "dim"))
    for line in lines[1:]:
        print(line)


def _print_stacked(head: Sequence[str], cells: Sequence[Sequence[str]]) -> None:
    """Each row as a paragraph: its first cell, and the others below it with their names."""
    width = max(map(_width, head[1:]))
    for number, (first, *rest) in enumerate(cells):
        print(("\n" if number else "") + paint(first, "bold"))
        for name, cell in zip(head[1:], rest, strict=True):
            if cell:
                print(f"  {paint(f'{name.lower():{width}}', 'dim')}  {cell}")


def _line(row: Sequence[str], widths: Sequence[int], right: str) -> str:
    made = []
    for number, (cell, width) in enumerate(zip(row, widths, strict=True)):
        space = " " * (width - _width(cell))
        made.append(space + cell if chr(97 + number) in right else cell + space)
    return "  ".join(made).rstrip()


def _width(text: str) -> int:
    """How many columns a terminal gives it."""
    if text.isascii():
        return len(text)
    from unicodedata import combining, east_asian_width

    return sum(0 if combining(char) else 2 if east_asian_width(char) in "WF" else 1 for char in text)


def when(at_ms: int) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(at_ms / 1000)) if at_ms else ""


def clock(at_ms: int) -> str:
    return time.strftime("%H:%M:%S", time.localtime(at_ms / 1000)) + f".{at_ms % 1000:03d}"
