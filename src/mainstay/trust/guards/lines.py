"""Text that others wrote, on one line: for logs, for screens, and for what a person is asked to approve."""

from __future__ import annotations

import re

# Takes no room on the screen and has no place inside of words.
INVISIBLE_CLASS = (
    "\u00ad\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u2060-\u2064\u206a-\u206f\u3164\ufeff\uffa0"
    "\U000e0000-\U000e00ff\U000e01f0-\U000e0fff"
)

_CONTROLS = "\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufff9-\ufffb"
# A joiner belongs between letters of some scripts and inside of emoji; next to Latin letters it only hides something.
_WRITTEN_OUT = re.compile(
    f"[{_CONTROLS}{INVISIBLE_CLASS}]|(?:(?<=[\x20-\x7e])|(?<=^))[\u200c\u200d]|[\u200c\u200d](?=[\x20-\x7e]|$)"
)
_MARKS = re.compile("[\u200e\u200f\u061c]")
_RIGHT_TO_LEFT = re.compile("[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufeff]")


def one_line(text: str) -> str:
    """One line that hides nothing: what is no visible character is written out (`\\n`, `\\x1b`, `\\u202e`)."""
    if text.isprintable() and text.isascii():
        return text
    shown = _WRITTEN_OUT.sub(_written, text)
    # Direction marks are part of right-to-left writing; anywhere else they are there to mislead.
    return shown if _RIGHT_TO_LEFT.search(shown) else _MARKS.sub(_written, shown)


def _written(found: re.Match[str]) -> str:
    code = ord(found[0])
    if code < 256:
        return {9: "\\t", 10: "\\n", 13: "\\r"}.get(code) or f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
