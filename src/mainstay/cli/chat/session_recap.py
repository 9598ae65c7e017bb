"""Recap of a session for a user who returns to it: the last prompt, its answer, and the session's state."""

from __future__ import annotations

from mainstay.cli.chat.chat_session import ChatSession
from mainstay.cli.commands.home_locator import open_store_read_only
from mainstay.core.outcome_text import format_count
from mainstay.core.provisional_answers import hidden_seqs
from mainstay.core.session import Session
from mainstay.guards.terminal_sanitizer import escape_line, sanitize_text
from mainstay.terminal.formatters import PROMPT_MARK, StyledLine, describe_waiting

_TAIL_BYTES = 64 * 1024
LINE_CHARS_MAX = 76


async def build_recap(chat: ChatSession) -> list[StyledLine]:
    """Return the last prompt and the beginning of its answer; also load the last turns' calls for `/calls`."""
    async with open_store_read_only(chat.setup.location) as store:
        tail = await store.load_tail(chat.session, _TAIL_BYTES)
    if tail is None:
        return []
    session = Session.from_tail(tail)
    chat.calls.reset(session.messages)
    lines: list[StyledLine] = [f"{format_count(session.turns, 'turn')} so far; the last one:"] if session.turns else []
    hidden = hidden_seqs(tail.records)
    messages = [message for message in session.messages if message.role in ("user", "assistant")]
    texts = [message for message in messages if message.id not in hidden and message.text.strip()]
    prompt = next((n for n in reversed(range(len(texts))) if texts[n].role == "user"), 0)
    for message in texts[prompt:][:1] + texts[prompt + 1 :][-1:]:
        lines += _quote_text(message.text, PROMPT_MARK if message.role == "user" else "  ")
    if session.pending_approval is not None:
        lines.append(f"the session is {describe_waiting(session.pending_approval)}")
    elif session.is_unfinished:
        lines.append("the turn was interrupted and now continues")
    return lines


def _quote_text(text: str, mark: str) -> list[StyledLine]:
    lines = [line for line in sanitize_text(text).expandtabs(4).splitlines() if line.strip()]
    quoted: list[StyledLine] = [mark + escape_line(line, LINE_CHARS_MAX) for line in lines[:3]]
    return [*quoted, "  …"] if len(lines) > 3 else quoted
