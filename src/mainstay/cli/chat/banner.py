"""Who talks here, and where: the first lines of a chat."""

from __future__ import annotations

import time
from pathlib import Path

from mainstay import __version__
from mainstay.cli.chat.safe import visible
from mainstay.cli.chat.talk import Talk
from mainstay.cli.chat.words import Line, count
from mainstay.core.ports import Standing

TITLE_CHARS = 60
HINTS = "/help lists commands · Ctrl-C stops a turn · Ctrl-D leaves"


def banner(talk: Talk, standing: Standing | None) -> list[Line]:
    """Model, workspace, folder, session; one below the other, so that it fits a narrow window too."""
    where = talk.where
    facts = [
        ("model", visible(talk.model), visible(where.found.how)),
        ("workspace", visible(where.config.workspace), f"in {visible(_short(where.home))}"),
        ("folder", visible(_short(Path(talk.folder))) if talk.folder else "its own", ""),
        ("session", visible(talk.session), _state(standing)),
    ]
    lines: list[Line] = [(("▌ ", "cyan"), (f"mainstay {__version__}", "bold"))]
    for name, value, more in facts:
        rest = f" · {more}" if more else ""
        lines.append((("▌ ", "cyan"), (f"{name:10}", "dim"), (value, "default"), (rest, "dim")))
    return [*lines, ((HINTS, "dim"),)]


def _state(standing: Standing | None) -> str:
    if standing is None or not standing.turns:
        return "new"
    title = f"{visible(standing.title, TITLE_CHARS)}, " if standing.title else ""
    return f"{title}{count(standing.turns, 'turn')} so far" + (
        f", {_ago(standing.updated)}" if standing.updated else ""
    )


def _ago(at_ms: int) -> str:
    minutes = max(int(time.time() - at_ms / 1000) // 60, 0)
    if minutes < 1:
        return "just now"
    for unit, name in ((1440, "day"), (60, "hour"), (1, "minute")):
        if minutes >= unit:
            return f"{count(minutes // unit, name)} ago"
    return ""


def _short(path: Path) -> str:
    """As people write it, with ~ for where they live."""
    try:
        return str("~" / path.relative_to(Path.home()))
    except (ValueError, RuntimeError):
        return str(path)
