"""Text that others wrote, made safe for a terminal.

A terminal obeys what it is sent: escape sequences set its title and clipboard, a carriage return overwrites
what was shown, bidirectional overrides make text read otherwise than it runs, a heap of signs without width makes
it stand still. None of that gets through.
"""

from __future__ import annotations

import re

from mainstay.trust.guards.lines import INVISIBLE_CLASS, one_line

_SEQUENCE = (
    r"(?:\x1b\[|\x9b)[0-?]{0,64}[ -/]{0,8}[@-~]"  # CSI: colours, cursor, screen
    r"|(?:\x1b[\]PX^_]|[\x9d\x90\x98\x9e\x9f])[^\x07\x1b\x9c\n]{0,4096}(?:\x07|\x1b\\|\x9c)"  # OSC, DCS, SOS, PM, APC
    r"|\x1b[ -/]{1,8}[0-~]"  # character sets and the like
)
_SEQUENCES = re.compile(_SEQUENCE)
_CONTROL_CLASS = "\x00-\x08\x0b-\x1a\x1c-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufff9-\ufffb"
_CONTROLS = re.compile(f"[\x1b{_CONTROL_CLASS}{INVISIBLE_CLASS}]")
_LINE_ENDS = re.compile("\r\n|[\u2028\u2029]")
# Signs that are put onto the one before them: accents, vowels, joiners. A few are writing, many are a flood.
_MARK = (
    "\u0300-\u036f\u0483-\u0489\u0591-\u05bd\u0610-\u061a\u064b-\u065f\u0e31\u0e34-\u0e3a\u0e47-\u0e4e\u1ab0-\u1aff"
    "\u1dc0-\u1dff\u200c-\u200f\u061c\u20d0-\u20ff\u302a-\u302f\ufe00-\ufe0f\ufe20-\ufe2f\U000e0100-\U000e01ef"
)
_MARKS = re.compile(f"[{_MARK}]+")
_MARKS_LAST = re.compile(f"[{_MARK}]*\\Z")
MARKS_MAX = 6
# What is left for a terminal to obey once everything is drawn: colours, and nothing else.
_NOT_A_COLOUR = re.compile(f"\x1b(?!\\[[0-9;]*m)|[{_CONTROL_CLASS}]")
_NOT_IN_JSON = re.compile("[\x7f-\x9f\u2028-\u202e\u2066-\u2069]")
_OPEN = re.compile(  # a sequence at the very end that may still go on
    r"(?:(?:\x1b\[|\x9b)[0-?]{0,64}[ -/]{0,8}"
    r"|(?:\x1b[\]PX^_]|[\x9d\x90\x98\x9e\x9f])[^\x07\x1b\x9c\n]{0,4096}\x1b?"
    r"|\x1b[ -/]{0,8}"
    r"|\r)\Z"
)


def safe(text: str) -> str:
    """Lines as they are meant to be read: whole escape sequences go, and so does every other control character
    but newline and tab, and whatever cannot be seen."""
    if text.isascii() and text.isprintable():
        return text
    return _thin(_obedient(text), 0)[0]


def _obedient(text: str) -> str:
    return _CONTROLS.sub("", _SEQUENCES.sub("", _LINE_ENDS.sub("\n", text)))


def _thin(text: str, before: int) -> tuple[str, int]:
    """At most a few marks on one sign; so many came right before. Returns how many it ends with."""
    if not text:
        return text, before
    if text.isascii() or not _MARKS.search(text):
        return text, 0

    def fewer(found: re.Match[str]) -> str:
        return found[0][: max(MARKS_MAX - (before if found.start() == 0 else 0), 0)]

    thin = _MARKS.sub(fewer, text)
    if not (last := _MARKS_LAST.search(thin)):
        return thin, 0
    return thin, len(last[0]) + (before if last.start() == 0 else 0)


def colours_only(drawn: str) -> str:
    """The last gate before a terminal: of what was drawn, every sequence goes that does not set a colour."""
    return _NOT_A_COLOUR.sub("", drawn)


def visible(text: str, width: int = 0) -> str:
    """One line that hides nothing: control characters are written out (`\\x1b`, `\\n`), a heap of marks is counted,
    what is too long is cut."""
    shown = one_line(text)
    if not shown.isascii():
        shown = _MARKS.sub(_counted, shown)
    return shown if not width or len(shown) <= width else shown[: max(width - 1, 0)] + "…"


def _counted(found: re.Match[str]) -> str:
    more = len(found[0]) - MARKS_MAX
    return found[0] if more <= 0 else f"{found[0][:MARKS_MAX]}(and {more} more marks)"


def safe_json(document: str) -> str:
    """The same JSON document; what JSON may leave as it is and a terminal obeys is escaped."""
    return _NOT_IN_JSON.sub(lambda found: f"\\u{ord(found[0]):04x}", document)


class Stream:
    """`safe` for text that comes in pieces: a sequence cut in two is still seen whole."""

    def __init__(self) -> None:
        self._held = ""
        self._marks = 0  # at the end of what was let through

    def feed(self, piece: str) -> str:
        if not self._held and piece.isascii() and piece.isprintable():
            self._marks = 0 if piece else self._marks
            return piece
        text = self._held + piece
        found = _OPEN.search(text)
        cut = found.start() if found else len(text)
        self._held = text[cut:]
        return self._let(text[:cut])

    def end(self) -> str:
        held, self._held = self._held, ""
        shown = self._let(held)
        self._marks = 0
        return shown

    def _let(self, text: str) -> str:
        shown, self._marks = _thin(_obedient(text), self._marks)
        return shown
