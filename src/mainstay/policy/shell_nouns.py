"""What a shell script is made of, once it was read."""

from __future__ import annotations

import shlex

import msgspec

NESTING_MAX = 20
TEXT_MAX = 64 * 1024
WORK_LEAST = 4 * 1024  # characters read in all, beside thrice the script: what stands inside of it is read again


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
