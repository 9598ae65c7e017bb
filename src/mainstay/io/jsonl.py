"""One JSON object a line, as a crash may have left it.

Whoever appends to such a file can be stopped in the middle of a line, of a character, or before the disk has got more
than zeros. What follows the last whole line is then left out, and said to be. A line that is broken with whole lines
after it was not torn by a crash: then nothing can be said about the rest, and nothing is read.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import msgspec

_BOM = b"\xef\xbb\xbf"
_BLANK = b" \t\r\n"
NUMBERS = ("seq", "messageId")  # by which a line is known, where it has one
_SHOWN_MAX = 5


class JsonlBroken(ValueError):
    """`line`, from 1, cannot be read, and not because the file was cut there."""

    def __init__(self, line: int, sentence: str) -> None:
        super().__init__(f"line {line} {sentence}")
        self.line = line
        self.sentence = sentence


class Lines(msgspec.Struct, frozen=True):
    """What was read. `torn` says what was left out at the end, and where; `repeated` which lines were there twice."""

    objects: list[dict[str, Any]]
    torn: str = ""
    repeated: str = ""

    @property
    def incident(self) -> str:
        """What a person should know; empty: nothing was wrong."""
        return "; ".join(filter(None, (self.torn, self.repeated)))


def read_lines(data: bytes) -> Lines:
    """Raises JsonlBroken. Line ends may be CRLF; marks of byte order and blank lines are skipped."""
    whole = data.rstrip(_BLANK + b"\0")
    nulls = data.count(b"\0", len(whole))
    torn = f"{_bytes(nulls)} of zeros at the end left out" if nulls else ""
    lines = [(number, line.removeprefix(_BOM).strip(_BLANK)) for number, line in enumerate(whole.split(b"\n"), start=1)]
    lines = [(number, line) for number, line in lines if line]
    kept: list[dict[str, Any]] = []
    repeats = _Repeats()
    for number, line in lines:
        try:
            made = _object(line)
        except ValueError as error:
            if number != lines[-1][0] or not line.startswith(b"{"):  # no object begins like this
                raise JsonlBroken(number, f"is not JSON: {error}") from None
            size = len(data) - whole.rfind(b"\n") - 1
            torn = f"line {number} is cut off; what there was of it ({_bytes(size)}) was left out"
        else:
            if repeats.fresh(number, line, made):
                kept.append(made)
    return Lines(kept, torn, repeats.told())


def _object(line: bytes) -> dict[str, Any]:
    try:
        made = json.loads(line.decode())
    except UnicodeDecodeError:
        raise ValueError("it is not UTF-8") from None
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if not isinstance(made, dict):
        raise ValueError("it is not an object")
    return made


class _Repeats:
    """A line that was written again after a crash is the same line. The same number with another content is kept:
    who knows which of them is right?"""

    def __init__(self) -> None:
        self._numbers: set[tuple[str, str | int]] = set()
        self._lines: set[bytes] = set()
        self._same: list[int] = []
        self._other: list[int] = []

    def fresh(self, number: int, line: bytes, made: dict[str, Any]) -> bool:
        name = next((name for name in NUMBERS if isinstance(made.get(name), str | int)), "")
        if not name:  # people do say the same thing twice
            return True
        if (name, made[name]) in self._numbers:
            (self._same if line in self._lines else self._other).append(number)
        known = line in self._lines
        self._numbers.add((name, made[name]))
        self._lines.add(line)
        return not known

    def told(self) -> str:
        same = f"{_numbered(self._same)} an earlier line once more, left out" if self._same else ""
        other = f"{_numbered(self._other)} the number of an earlier line, kept" if self._other else ""
        return "; ".join(filter(None, (same, other)))


def _numbered(numbers: Sequence[int]) -> str:
    shown = ", ".join(str(one) for one in numbers[:_SHOWN_MAX])
    more = f" and {len(numbers) - _SHOWN_MAX} more" if len(numbers) > _SHOWN_MAX else ""
    return f"line {shown} has" if len(numbers) == 1 else f"lines {shown}{more} have"


def _bytes(count: int) -> str:
    return "1 byte" if count == 1 else f"{count} bytes"
