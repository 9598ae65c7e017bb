"""Unicode glyphs that the chat draws with, and their ASCII fallbacks for terminals without Unicode."""

from __future__ import annotations

import locale
import os
import sys

from mainstay.terminal.formatters import PROMPT_MARK

_ASCII_FALLBACKS = str.maketrans(
    {
        PROMPT_MARK[0]: ">",
        "↪": ">",
        "●": "*",
        "✗": "x",
        "✻": "*",
        "→": ">",
        "└": "`",
        "│": "|",
        "▌": "|",
        "…": "...",
        "·": "-",
        "█": "#",
        "▓": "=",
        "▒": "+",
        "░": ":",
        "▚": "%",
        "─": "-",
        "━": "-",
        "╺": "-",
        "╸": "-",
        "╶": "-",
        "╴": "-",
        "•": "-",
        "▕": "[",
        "▏": "]",
    }
)
SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"


class GlyphSet:
    """The glyphs that a terminal can show: all of them, or ASCII only."""

    def __init__(self, *, has_unicode: bool) -> None:
        self.has_unicode = has_unicode
        self.spinner = SPINNER if has_unicode else "|/-\\"

    def replace_missing(self, text: str) -> str:
        return text if self.has_unicode or text.isascii() else text.translate(_ASCII_FALLBACKS)


UNICODE_GLYPHS = GlyphSet(has_unicode=True)


def detect_glyphs() -> GlyphSet:
    """Return the glyphs that stdout's encoding can show.

    With LC_ALL=C or POSIX, Python writes UTF-8 all the same; a user who chose that locale gets ASCII.
    """
    if os.environ.get("LC_ALL") in ("C", "POSIX") and sys.stdout.isatty():
        return GlyphSet(has_unicode=False)
    encoding = getattr(sys.stdout, "encoding", None) or locale.getpreferredencoding(False)
    try:
        SPINNER.encode(encoding)
    except (UnicodeEncodeError, LookupError):
        return GlyphSet(has_unicode=False)
    return UNICODE_GLYPHS
