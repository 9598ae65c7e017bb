"""The few signs that a chat draws with, and what stands for them where a terminal has no Unicode."""

from __future__ import annotations

import locale
import os
import sys

from mainstay.cli.chat.words import MARK

_PLAIN = str.maketrans(
    {
        MARK[0]: ">",
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


class Signs:
    """`all` says whether the terminal shows every sign."""

    def __init__(self, *, all: bool) -> None:
        self.all = all
        self.spinner = SPINNER if all else "|/-\\"

    def drawn(self, text: str) -> str:
        return text if self.all or text.isascii() else text.translate(_PLAIN)


ALL_SIGNS = Signs(all=True)


def signs_of_terminal() -> Signs:
    """By what Python would write: whoever has a locale without Unicode sees its signs as question marks. In the
    plainest locale it writes more than a person who asked for that one wants to see."""
    if os.environ.get("LC_ALL") in ("C", "POSIX") and sys.stdout.isatty():
        return Signs(all=False)
    encoding = getattr(sys.stdout, "encoding", None) or locale.getpreferredencoding(False)
    try:
        SPINNER.encode(encoding)
    except (UnicodeEncodeError, LookupError):
        return Signs(all=False)
    return ALL_SIGNS
