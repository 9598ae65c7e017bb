"""Text that others wrote, made safe for a terminal.

A terminal obeys what it is sent: escape sequences set its title and clipboard, a carriage return overwrites
what was shown, bidirectional overrides make text read otherwise than it runs. None of that gets through.
"""

from __future__ import annotations

import re

from mainstay.guards.lines import one_line

_SEQUENCE = (
    r"(?:\x1b\[|\x9b)[0-?]{0,64}[ -/]{0,8}[@-~]"  # CSI: colours, cursor, screen
    r"|(?:\x1b[\]PX^_]|[\x9d\x90\x98\x9e\x9f])[^\x07\x1b\x9c\n]{0,4096}(?:\x07|\x1b\\|\x9c)"  # OSC, DCS, SOS, PM, APC
    r"|\x1b[ -/]{1,8}[0-~]"  # character sets and the like
)
_SEQUENCES = re.compile(_SEQUENCE)
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_NOT_IN_JSON = re.compile("[\x7f-\x9f\u2028-\u202e\u2066-\u2069]")
_OPEN = re.compile(  # a sequence at the very end that may still go on
    r"(?:(?:\x1b\[|\x9b)[0-?]{0,64}[ -/]{0,8}"
    r"|(?:\x1b[\]PX^_]|[\x9d\x90\x98\x9e\x9f])[^\x07\x1b\x9c\n]{0,4096}\x1b?"
    r"|\x1b[ -/]{0,8}"
    r"|\r)\Z"
)


def safe(text: str) -> str:
    """Lines as they are meant to be read: whole escape sequences go, and so does every other control character
    but newline and tab."""
    if text.isprintable():
        return text
    return _CONTROLS.sub("", _SEQUENCES.sub("", text.replace("\r\n", "\n")))


def visible(text: str, width: int = 0) -> str:
    """One line that hides nothing: control characters are written out (`\\x1b`, `\\n`), what is too long is cut."""
    shown = one_line(text)
    return shown if not width or len(shown) <= width else shown[: max(width - 1, 0)] + "…"


def safe_json(document: str) -> str:
    """The same JSON document; what JSON may leave as it is and a terminal obeys is escaped."""
    return _NOT_IN_JSON.sub(lambda found: f"\\u{ord(found[0]):04x}", document)


class Stream:
    """`safe` for text that comes in pieces: a sequence cut in two is still seen whole."""

    def __init__(self) -> None:
        self._held = ""

    def feed(self, piece: str) -> str:
        if not self._held and piece.isprintable():
            return piece
        text = self._held + piece
        found = _OPEN.search(text)
        cut = found.start() if found else len(text)
        self._held = text[cut:]
        return safe(text[:cut])

    def end(self) -> str:
        held, self._held = self._held, ""
        return safe(held)
