"""Sanitizes untrusted text for a terminal.

A terminal executes what it receives: escape sequences set its title and clipboard, a carriage return overwrites
earlier output, bidirectional overrides make text read differently than it runs, and long runs of combining characters
make it hang. All of these are removed or escaped.
"""

from __future__ import annotations

import re

from mainstay.guards.line_escaping import INVISIBLE_CHARACTERS, one_line

_ESCAPE_SEQUENCE = (
    r"(?:\x1b\[|\x9b)[0-?]{0,64}[ -/]{0,8}[@-~]"  # CSI: colours, cursor, screen
    r"|(?:\x1b[\]PX^_]|[\x9d\x90\x98\x9e\x9f])[^\x07\x1b\x9c\n]{0,4096}(?:\x07|\x1b\\|\x9c)"  # OSC, DCS, SOS, PM, APC
    r"|\x1b[ -/]{1,8}[0-~]"  # character sets and the like
)
_ESCAPE_SEQUENCES = re.compile(_ESCAPE_SEQUENCE)
_CONTROL_CLASS = "\x00-\x08\x0b-\x1a\x1c-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufff9-\ufffb"
_CONTROLS = re.compile(f"[\x1b{_CONTROL_CLASS}{INVISIBLE_CHARACTERS}]")
_LINE_ENDS = re.compile("\r\n|[\u2028\u2029]")
# Combining characters: accents, vowels, joiners. A few on one character are ordinary writing, many are an attack.
_COMBINING_CLASS = (
    "\u0300-\u036f\u0483-\u0489\u0591-\u05bd\u0610-\u061a\u064b-\u065f\u0e31\u0e34-\u0e3a\u0e47-\u0e4e\u1ab0-\u1aff"
    "\u1dc0-\u1dff\u200c-\u200f\u061c\u20d0-\u20ff\u302a-\u302f\ufe00-\ufe0f\ufe20-\ufe2f\U000e0100-\U000e01ef"
)
_COMBINING_RUN = re.compile(f"[{_COMBINING_CLASS}]+")
_COMBINING_END = re.compile(f"[{_COMBINING_CLASS}]*\\Z")
COMBINING_MAX = 6
# Everything that must not remain in rendered output: escape sequences other than colours, and control characters.
_NON_COLOUR_SEQUENCES = re.compile(f"\x1b(?!\\[[0-9;]*m)|[{_CONTROL_CLASS}]")
_JSON_ESCAPED = re.compile("[\x7f-\x9f\u2028-\u202e\u2066-\u2069]")
_INCOMPLETE_SEQUENCE = re.compile(  # an incomplete sequence at the end of the text
    r"(?:(?:\x1b\[|\x9b)[0-?]{0,64}[ -/]{0,8}"
    r"|(?:\x1b[\]PX^_]|[\x9d\x90\x98\x9e\x9f])[^\x07\x1b\x9c\n]{0,4096}\x1b?"
    r"|\x1b[ -/]{0,8}"
    r"|\r)\Z"
)


def sanitize_text(text: str) -> str:
    """Return the text without escape sequences, invisible characters, and control characters but newline and tab."""
    if text.isascii() and text.isprintable():
        return text
    return _limit_combining(_strip_controls(text), 0)[0]


def _strip_controls(text: str) -> str:
    return _CONTROLS.sub("", _ESCAPE_SEQUENCES.sub("", _LINE_ENDS.sub("\n", text)))


def _limit_combining(text: str, before: int) -> tuple[str, int]:
    """Limit combining characters to MARKS_MAX in a row, of which `before` came at the end of the previous text.

    Returns the text, and the number of combining characters it ends with.
    """
    if not text:
        return text, before
    if text.isascii() or not _COMBINING_RUN.search(text):
        return text, 0

    def fewer(match: re.Match[str]) -> str:
        return match[0][: max(COMBINING_MAX - (before if match.start() == 0 else 0), 0)]

    thin = _COMBINING_RUN.sub(fewer, text)
    if not (last := _COMBINING_END.search(thin)):
        return thin, 0
    return thin, len(last[0]) + (before if last.start() == 0 else 0)


def keep_only_colours(rendered: str) -> str:
    """Remove every escape sequence that does not set a colour; the last filter before a terminal."""
    return _NON_COLOUR_SEQUENCES.sub("", rendered)


def escape_line(text: str, width: int = 0) -> str:
    """Return the text as one line that hides nothing.

    Control characters are escaped (`\\x1b`, `\\n`), excess combining characters are counted, and text longer than
    `width` is cut (0: unlimited).
    """
    line = one_line(text)
    if not line.isascii():
        line = _COMBINING_RUN.sub(_count_extra_marks, line)
    return line if not width or len(line) <= width else line[: max(width - 1, 0)] + "…"


def _count_extra_marks(match: re.Match[str]) -> str:
    more = len(match[0]) - COMBINING_MAX
    return match[0] if more <= 0 else f"{match[0][:COMBINING_MAX]}(and {more} more marks)"


def escape_json(document: str) -> str:
    """Return the same JSON document, with the characters escaped that JSON allows and a terminal would execute."""
    return _JSON_ESCAPED.sub(lambda match: f"\\u{ord(match[0]):04x}", document)


class StreamSanitizer:
    """`sanitize_text` for streamed text: an escape sequence split over two pieces is still recognised."""

    def __init__(self) -> None:
        self._pending = ""  # an incomplete sequence, until the next piece
        self._combining_count = 0  # combining characters at the end of the released text

    def feed(self, piece: str) -> str:
        if not self._pending and piece.isascii() and piece.isprintable():
            self._combining_count = 0 if piece else self._combining_count
            return piece
        text = self._pending + piece
        match = _INCOMPLETE_SEQUENCE.search(text)
        cut = match.start() if match else len(text)
        self._pending = text[cut:]
        return self._release(text[:cut])

    def finish(self) -> str:
        held, self._pending = self._pending, ""
        released = self._release(held)
        self._combining_count = 0
        return released

    def _release(self, text: str) -> str:
        released, self._combining_count = _limit_combining(_strip_controls(text), self._combining_count)
        return released
