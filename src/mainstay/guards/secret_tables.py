"""Secrets in tables: cells below a heading such as `password`, in Markdown and in the output of database clients."""

from __future__ import annotations

import re

from mainstay.guards.redaction_pattern_compiler import (
    AnnouncedPattern,
    MatchCheck,
    RedactionPattern,
    build_pattern,
    optional,
)
from mainstay.guards.secret_checks import is_key, is_password, is_placeholder

TABLE_CONTEXT_CHARS = 1024  # two rows of a table must fit

_HEADING = re.compile(
    r"[ \t*_`\"]*(?:[\w.-]{1,24}[ _.-])?(?:(?i:(pass(?:wor[dt]|wd|phrase|code)?|pwd|pass))"
    r"|(?i:(?:api|access|auth|secret|private|client)?[ _-]?(?:token|key|secret)|credentials?))s?[ \t*_`\"]*"
)
_RULE = re.compile(r"[-+=:| \t]+")


def _is_cell_password(value: str, _: str) -> bool:
    return is_password(value) or (len(value) >= 8 and not value.isalpha() and not is_placeholder(value))


def _build_cell_pattern(check: MatchCheck) -> RedactionPattern:
    return build_pattern(
        "password or key",
        *("|", ("[ \\t]", 0, 40), optional("`", "'", '"', "**"), (r"[^\s|`\"'<>]", 6, 256)),
        keep=3,
        check=check,
        of=AnnouncedPattern,
    )


_PASSWORD_CELL = _build_cell_pattern(_is_cell_password)
_KEY_CELL = _build_cell_pattern(lambda value, _: is_key(value))


class TableHeadings:
    """The columns of the current table that hold secrets, found by their headings.

    `pattern_for_cell` is called for every vertical bar of a text, in order. Only the last TABLE_CONTEXT_CHARS before a
    bar are examined.
    """

    __slots__ = ("_columns",)

    def __init__(self) -> None:
        self._columns: dict[int, RedactionPattern] = {}  # by the number of bars before the cell in its line

    def pattern_for_cell(self, text: str, bar: int) -> RedactionPattern | None:
        """Return the pattern of a secret in the cell that begins with this bar, if its column has such a heading."""
        begin = max(0, bar - TABLE_CONTEXT_CHARS)
        line_start = text.rfind("\n", begin, bar) + 1
        number = text.count("|", max(begin, line_start), bar)
        if number == 0:
            self._start_row(text[begin : max(line_start - 1, begin)])
        return self._columns.get(number)

    def _start_row(self, before: str) -> None:
        """Continue the table if the line before this row is a part of it; otherwise that line may be the headings."""
        rows = before.rsplit("\n", 2)
        last = rows.pop() if rows else ""
        if _RULE.fullmatch(last) and rows:
            last = rows.pop()
        if "|" not in last:
            self._columns = {}
        elif not self._columns:
            self._columns = {
                number: _PASSWORD_CELL if heading[1] else _KEY_CELL
                for number, cell in enumerate(last.split("|"), start=-1)
                if number >= 0 and (heading := _HEADING.fullmatch(cell.rstrip("\r"))) is not None
            }
