"""Escapes untrusted text to one visible line, for logs, terminals and approval requests."""

from __future__ import annotations

import re

# Characters of zero width that do not belong inside words, for a regular-expression class.
INVISIBLE_CHARACTERS = (
    "\u00ad\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u2060-\u2064\u206a-\u206f\u3164\ufeff\uffa0"
    "\U000e0000-\U000e00ff\U000e01f0-\U000e0fff"
)

_CONTROLS = "\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufff9-\ufffb"
# A joiner belongs between letters of some scripts and inside emoji; next to Latin letters it only hides something.
_ESCAPED_CHARACTERS = re.compile(
    f"[{_CONTROLS}{INVISIBLE_CHARACTERS}]|(?:(?<=[\x20-\x7e])|(?<=^))[\u200c\u200d]|[\u200c\u200d](?=[\x20-\x7e]|$)"
)
_DIRECTION_MARKS = re.compile("[\u200e\u200f\u061c]")
_RIGHT_TO_LEFT = re.compile("[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufeff]")


def one_line(text: str) -> str:
    """Return the text as one line in which every invisible character is escaped (`\\n`, `\\x1b`, `\\u202e`)."""
    if text.isprintable() and text.isascii():
        return text
    escaped = _ESCAPED_CHARACTERS.sub(_escape_character, text)
    # Direction marks are part of right-to-left writing; anywhere else they mislead.
    return escaped if _RIGHT_TO_LEFT.search(escaped) else _DIRECTION_MARKS.sub(_escape_character, escaped)


def _escape_character(match: re.Match[str]) -> str:
    code = ord(match[0])
    if code < 256:
        return {9: "\\t", 10: "\\n", 13: "\\r"}.get(code) or f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
