"""Terminal output of commands: tables, JSON documents, times and ANSI styles."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Sequence
from shutil import get_terminal_size
from typing import Any

import msgspec

from mainstay.core.surrogates import replace_surrogates_in
from mainstay.guards.terminal_sanitizer import escape_json, escape_line

_ANSI_CODES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}


def print_json(document: Any) -> None:
    try:
        encoded = msgspec.json.encode(document)
    except UnicodeEncodeError:  # file names may hold surrogates
        encoded = msgspec.json.encode(replace_surrogates_in(msgspec.to_builtins(document), "backslashreplace"))
    print(escape_json(msgspec.json.format(encoded, indent=2).decode()))


def print_done(options: argparse.Namespace, sentence: str, document: dict[str, Any]) -> int:
    """Print what a command has done: the sentence, or the document with `--json`. Returns the exit status 0."""
    if options.json:
        print_json({"ok": True, **document})
    else:
        print(escape_line(sentence))
    return 0


def is_colour_enabled() -> bool:
    """Whether stdout accepts ANSI styles (https://no-color.org)."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def style_text(text: str, *styles: str) -> str:
    """Add ANSI styles if stdout accepts them."""
    if not text or not is_colour_enabled():
        return text
    return f"\x1b[{';'.join(_ANSI_CODES[style] for style in styles)}m{text}\x1b[0m"


def print_table(
    header: Sequence[str], rows: Sequence[Sequence[str]], right_aligned: str = "", *, stack_if_narrow: bool = False
) -> None:
    """Print columns as wide as their content. `right_aligned` has the letters (from a) of the right-aligned columns.

    With `stack_if_narrow`, a table that is wider than the terminal is printed row by row, each cell on its own line.
    """
    cells = [[escape_line(cell) for cell in row] for row in rows]
    widths = [max(_display_width(cell) for cell in column) for column in zip(header, *cells, strict=True)]
    if stack_if_narrow and sys.stdout.isatty() and sum(widths) + 2 * len(widths) - 2 > get_terminal_size().columns:
        _print_stacked(header, cells)
        return
    lines = [_format_row(row, widths, right_aligned) for row in [list(header), *cells]]
    print(style_text(lines[0], "dim"))
    for line in lines[1:]:
        print(line)


def _print_stacked(header: Sequence[str], cells: Sequence[Sequence[str]]) -> None:
    """Print each row as a paragraph: its first cell, then the others below it with their column names."""
    width = max(map(_display_width, header[1:]))
    for number, (first, *rest) in enumerate(cells):
        print(("\n" if number else "") + style_text(first, "bold"))
        for name, cell in zip(header[1:], rest, strict=True):
            if cell:
                print(f"  {style_text(f'{name.lower():{width}}', 'dim')}  {cell}")


def _format_row(row: Sequence[str], widths: Sequence[int], right_aligned: str) -> str:
    padded = []
    for number, (cell, width) in enumerate(zip(row, widths, strict=True)):
        space = " " * (width - _display_width(cell))
        padded.append(space + cell if chr(97 + number) in right_aligned else cell + space)
    return "  ".join(padded).rstrip()


def _display_width(text: str) -> int:
    """Return the number of terminal columns that the text takes."""
    if text.isascii():
        return len(text)
    from unicodedata import combining, east_asian_width

    return sum(0 if combining(char) else 2 if east_asian_width(char) in "WF" else 1 for char in text)


def format_time(at_ms: int) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(at_ms / 1000)) if at_ms else ""


def format_clock(at_ms: int) -> str:
    return time.strftime("%H:%M:%S", time.localtime(at_ms / 1000)) + f".{at_ms % 1000:03d}"
