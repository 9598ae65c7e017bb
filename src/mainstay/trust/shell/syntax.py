"""Syntax nodes of a parsed shell script: words, redirections, simple commands."""

from __future__ import annotations

import re
import shlex
from typing import Literal

import msgspec

NESTING_MAX = 20
SCRIPT_CHARS_MAX = 64 * 1024
# characters that parsing may read, plus three times the script: nested scripts are read again
WORK_CHARS_MIN = 4 * 1024


_ANSI = re.compile(r"\\(x[0-9a-fA-F]{1,2}|u[0-9a-fA-F]{1,4}|U[0-9a-fA-F]{1,8}|[0-7]{1,3}|c.|.)", re.DOTALL)
_ANSI_LETTERS = {"a": "\a", "b": "\b", "e": "\x1b", "E": "\x1b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


def word_set(text: str) -> frozenset[str]:
    """Return the set of words in a space-separated text."""
    return frozenset(text.split())


AcceptedBy = Literal["name", "input", "exact", ""]


class OpaqueReason(msgspec.Struct, frozen=True):
    """Why it cannot be known what one command runs, and which allow rules accept that: one whose pattern spells the
    program's name, one that also ends with `*` (`input`), one without wildcards (`exact`), or none."""

    sentence: str
    accepted_by: AcceptedBy = ""


class ScriptUnparsable(Exception):
    """A script, or a part of it, cannot be parsed; the message says why."""


class ShellWord(msgspec.Struct, frozen=True):
    """One word of a command."""

    value: str | None  # what the program will get; None: not known before it runs
    raw: str  # as the script writes it
    prefix: str = ""  # what the value begins with in any case
    unexpanded: str | None = None  # the value with globs and `~` not expanded; None: more than these is unknown
    quoted: bool = False

    @property
    def may_be_option(self) -> bool:
        return self.value is None and (not self.prefix or self.prefix.startswith("-"))


def literal_word(value: str) -> ShellWord:
    return ShellWord(value, shlex.quote(value), value, value, True)


UNKNOWN_WORD = ShellWord(None, '"$@"')


class Redirection(msgspec.Struct):
    """One redirection, here-documents included."""

    operator: str
    word: ShellWord  # the target; of a here-document, its text


class ShellCommand(msgspec.Struct):
    """One simple command as the script writes it."""

    words: list[ShellWord]
    assignments: list[tuple[str, ShellWord]]
    redirects: list[Redirection]
    operator_before: str = ""  # the operator between it and the command before, such as `&&` or `|`
    depth: int = 0


class ParseState(msgspec.Struct):
    """What the parser collects; shared by a script and the scripts nested in it."""

    commands: list[ShellCommand] = []
    ambiguities: list[str] = []  # constructs that shells read differently or that run hidden commands, as sentences
    work_chars: int = 0  # characters read so far
    work_chars_max: int = WORK_CHARS_MIN

    def add_ambiguity(self, sentence: str) -> None:
        if sentence not in self.ambiguities:
            self.ambiguities.append(sentence)


def decode_ansi(text: str) -> str:
    """Decode the escapes between the quotes of `$'…'`."""
    return _ANSI.sub(_decode_ansi_escape, text)


def _decode_ansi_escape(match: re.Match[str]) -> str:
    code = match[1]
    if code[0] in "xuU" and len(code) > 1:
        number = int(code[1:], 16)
    elif code[0] in "01234567":
        number = int(code, 8) & 0xFF
    elif code[0] == "c" and len(code) > 1:
        number = ord(code[1]) & 0x1F
    else:
        return _ANSI_LETTERS.get(code, code if code in "\\'\"?" else "\\" + code)
    return chr(number) if number < 0x110000 else ""
