"""Reads JSON Lines files that a crash may have truncated.

A process that appends can be killed in the middle of a line or a character, or before the disk holds more than zeros.
What follows the last whole line is then dropped and reported. A broken line followed by whole lines was not caused by a
crash: then the rest cannot be trusted, and nothing is read.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

import msgspec

from mainstay.core.json_types import JsonObject

_BOM = b"\xef\xbb\xbf"
_BLANK = b" \t\r\n"
ID_FIELDS = ("seq", "messageId")  # fields that identify a line, where it has one
_LISTED_MAX = 5


class JsonlBroken(ValueError):
    """`line` (from 1) cannot be parsed, and not because the file ends there."""

    def __init__(self, line: int, reason: str) -> None:
        super().__init__(f"line {line} {reason}")
        self.line = line
        self.reason = reason


class JsonlContent(msgspec.Struct, frozen=True):
    """The parsed objects. `truncation` says what was dropped at the end; `duplicates` which lines occurred twice."""

    objects: list[JsonObject]
    truncation: str = ""
    duplicates: str = ""

    @property
    def damage(self) -> str:
        """A summary of the damage for the user; empty if there was none."""
        return "; ".join(filter(None, (self.truncation, self.duplicates)))


def parse_jsonl(data: bytes) -> JsonlContent:
    """Parse JSON Lines. Raises JsonlBroken. Lines may end with CRLF; byte-order marks and blank lines are skipped."""
    whole = data.rstrip(_BLANK + b"\0")
    nulls = data.count(b"\0", len(whole))
    torn = f"{_format_bytes(nulls)} of zeros at the end left out" if nulls else ""
    lines = [(number, line.removeprefix(_BOM).strip(_BLANK)) for number, line in enumerate(whole.split(b"\n"), start=1)]
    lines = [(number, line) for number, line in lines if line]
    objects: list[JsonObject] = []
    duplicates = _DuplicateFilter()
    for number, line in lines:
        try:
            parsed = _parse_object(line)
        except ValueError as error:
            if number != lines[-1][0] or not line.startswith(b"{"):  # not the start of an object, so not truncated
                raise JsonlBroken(number, f"is not JSON: {error}") from None
            size = len(data) - whole.rfind(b"\n") - 1
            torn = f"line {number} is cut off; what there was of it ({_format_bytes(size)}) was left out"
        else:
            if duplicates.accept(number, line, parsed):
                objects.append(parsed)
    return JsonlContent(objects, torn, duplicates.summarize())


def _parse_object(line: bytes) -> JsonObject:
    try:
        parsed = json.loads(line.decode())
    except UnicodeDecodeError:
        raise ValueError("it is not UTF-8") from None
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if not isinstance(parsed, dict):
        raise ValueError("it is not an object")
    return parsed


class _DuplicateFilter:
    """Drops lines that a process wrote again after a crash. A line with the id of an earlier one but other content is
    kept: either may be the right one."""

    def __init__(self) -> None:
        self._ids: set[tuple[str, str | int]] = set()
        self._seen_lines: set[bytes] = set()
        self._identical_lines: list[int] = []
        self._conflicting_lines: list[int] = []

    def accept(self, number: int, line: bytes, parsed: JsonObject) -> bool:
        ids = ((name, value) for name in ID_FIELDS if isinstance(value := parsed.get(name), str | int))
        id = next(ids, None)
        if id is None:  # without an id, equal lines may be two messages
            return True
        if id in self._ids:
            (self._identical_lines if line in self._seen_lines else self._conflicting_lines).append(number)
        is_duplicate = line in self._seen_lines
        self._ids.add(id)
        self._seen_lines.add(line)
        return not is_duplicate

    def summarize(self) -> str:
        same = (
            f"{_format_line_numbers(self._identical_lines)} the same content as an earlier line, left out"
            if self._identical_lines
            else ""
        )
        other = (
            f"{_format_line_numbers(self._conflicting_lines)} the number of an earlier line, kept"
            if self._conflicting_lines
            else ""
        )
        return "; ".join(filter(None, (same, other)))


def _format_line_numbers(numbers: Sequence[int]) -> str:
    listed = ", ".join(str(number) for number in numbers[:_LISTED_MAX])
    more = f" and {len(numbers) - _LISTED_MAX} more" if len(numbers) > _LISTED_MAX else ""
    return f"line {listed} has" if len(numbers) == 1 else f"lines {listed}{more} have"


def _format_bytes(count: int) -> str:
    return "1 byte" if count == 1 else f"{count} bytes"
