"""What a shell script is made of, once it was read."""

from __future__ import annotations

import re
import shlex

import msgspec

NESTING_MAX = 20
TEXT_MAX = 64 * 1024
WORK_LEAST = 4 * 1024  # characters read in all, beside thrice the script: what stands inside of it is read again


_ANSI = re.compile(r"\\(x[0-9a-fA-F]{1,2}|u[0-9a-fA-F]{1,4}|U[0-9a-fA-F]{1,8}|[0-7]{1,3}|c.|.)", re.DOTALL)
_ANSI_LETTERS = {"a": "\a", "b": "\b", "e": "\x1b", "E": "\x1b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


def names(text: str) -> frozenset[str]:
    """The words of a list that is easier to read as a text."""
    return frozenset(text.split())


class Unparsable(Exception):
    """A script, or a part of it, that cannot be read; the text says why."""


class Word(msgspec.Struct, frozen=True):
    """`value` is what the program will get; None if only running it can tell. `prefix` it begins with in any case.

    `shown` is the value with patterns and `~` left as they stand; None if more than these is unknown.
    """

    value: str | None
    raw: str
    prefix: str = ""
    shown: str | None = None
    quoted: bool = False

    @property
    def may_be_option(self) -> bool:
        return self.value is None and (not self.prefix or self.prefix.startswith("-"))


def literal(value: str) -> Word:
    return Word(value, shlex.quote(value), value, value, True)


UNKNOWN = Word(None, '"$@"')


class Redirect(msgspec.Struct):
    """`word` of a here-document is its text, once that was read."""

    operator: str
    word: Word


class Command(msgspec.Struct):
    """One simple command as it stands in the script."""

    words: list[Word]
    assigned: list[tuple[str, Word]]
    redirects: list[Redirect]
    joint: str = ""  # what stands between it and the one before
    depth: int = 0


class Found(msgspec.Struct):
    """All that reading brought up; shared by a script and the scripts inside of it."""

    commands: list[Command] = []
    troubles: list[str] = []
    work: int = 0
    work_max: int = WORK_LEAST

    def trouble(self, sentence: str) -> None:
        if sentence not in self.troubles:
            self.troubles.append(sentence)


def ansi(text: str) -> str:
    """What stands between the quotes of `$'…'`."""
    return _ANSI.sub(_ansi_character, text)


def _ansi_character(found: re.Match[str]) -> str:
    code = found[1]
    if code[0] in "xuU" and len(code) > 1:
        number = int(code[1:], 16)
    elif code[0] in "01234567":
        number = int(code, 8) & 0xFF
    elif code[0] == "c" and len(code) > 1:
        number = ord(code[1]) & 0x1F
    else:
        return _ANSI_LETTERS.get(code, code if code in "\\'\"?" else "\\" + code)
    return chr(number) if number < 0x110000 else ""
