"""Banner of the chat: version, model, workspace, folder and session."""

from __future__ import annotations

import time
from pathlib import Path

from mainstay import __version__
from mainstay.cli.chat.chat_session import ChatSession
from mainstay.core.outcome_text import format_count
from mainstay.core.ports import SessionInfo
from mainstay.guards.terminal_sanitizer import escape_line
from mainstay.terminal.formatters import StyledLine

TITLE_CHARS_MAX = 60
HINTS = "/help lists commands · Ctrl-C stops a turn · Ctrl-D exits"


def build_banner(chat: ChatSession, info: SessionInfo | None) -> list[StyledLine]:
    """Return model, workspace, folder and session, one per line so that they fit a narrow window."""
    setup = chat.setup
    facts = [
        ("model", escape_line(chat.model), escape_line(setup.discovered.reason)),
        ("workspace", escape_line(setup.config.workspace), f"in {escape_line(_shorten_path(setup.home))}"),
        ("folder", escape_line(_shorten_path(Path(chat.folder))) if chat.folder else "the session's own", ""),
        ("session", escape_line(chat.session), _format_session_state(info)),
    ]
    lines: list[StyledLine] = [(("▌ ", "cyan"), (f"mainstay {__version__}", "bold"))]
    for name, value, more in facts:
        rest = f" · {more}" if more else ""
        lines.append((("▌ ", "cyan"), (f"{name:10}", "dim"), (value, "default"), (rest, "dim")))
    return [*lines, ((HINTS, "dim"),)]


def _format_session_state(info: SessionInfo | None) -> str:
    if info is None or not info.turns:
        return "new"
    title = f"{escape_line(info.title, TITLE_CHARS_MAX)}, " if info.title else ""
    return f"{title}{format_count(info.turns, 'turn')} so far" + (
        f", {_format_age(info.updated)}" if info.updated else ""
    )


def _format_age(at_ms: int) -> str:
    minutes = max(int(time.time() - at_ms / 1000) // 60, 0)
    if minutes < 1:
        return "just now"
    for unit, name in ((1440, "day"), (60, "hour"), (1, "minute")):
        if minutes >= unit:
            return f"{format_count(minutes // unit, name)} ago"
    return ""


def _shorten_path(path: Path) -> str:
    """Return the path with ~ for the user's home folder."""
    try:
        return str("~" / path.relative_to(Path.home()))
    except (ValueError, RuntimeError):
        return str(path)
