"""Separates the lines of a message that its sender quotes from those that the sender typed."""

from __future__ import annotations

import re

# A quoted text may contain any line separator, but clients put the mark only after line feeds. So every separator can
# begin a quoted line, and only a line feed ends it.
_LINE_STARTS = re.compile("(?<=[\n\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029])")


def separate_quoted_lines(text: str, *, mark: str = ">", block_mark: str = "") -> tuple[str, str]:
    """Return the typed text and the quoted text, the latter without its marks.

    A line that begins with `mark` is quoted, indented or not. A line that begins with `block_mark` is quoted with all
    lines after it."""
    if mark not in text:
        return text, ""
    typed: list[str] = []
    quoted: list[str] = []
    is_open = is_block = False  # inside a quoted line; inside a quote that ends with the text
    is_interrupted = False  # by typed text, since the last quoted line
    for piece in _LINE_STARTS.split(text):
        start = piece.lstrip()
        if not is_open and not is_block and start.startswith(mark):
            is_open, is_block = True, bool(block_mark) and start.startswith(block_mark)
            line = start.removeprefix(block_mark if is_block else mark).removeprefix(" ")
            quoted.append(f"\n{line}" if is_interrupted else line)
            is_interrupted = False
        elif is_open or is_block:
            quoted.append(piece)
        else:
            typed.append(piece)
            is_interrupted = bool(quoted)
        is_open = is_open and not piece.endswith("\n")
    if not quoted:
        return text, ""
    return "".join(typed).strip("\n"), "".join(quoted).strip("\n")
