"""A summary that no model had to write: what was said, a line each, with the numbers to read it by. Pure."""

from __future__ import annotations

from collections.abc import Callable

from mainstay.core.messages import Message, ToolCall
from mainstay.core.ports import Passage

OUTLINED = "No summary could be made"
_LINE_CHARS = 80


def outline(passage: Passage, tokens: int, count: Callable[[str], int]) -> str:
    """A summary that no model wrote: one short line a message. If not all fit, the newest are listed.

    Where there are no messages, it is the newest part of the summaries before. Never more than `tokens` by `count`.
    """
    if passage.messages:
        return _newest([line for one in passage.messages if (line := _sketch(one))], tokens, count)
    return _newest([line for line in passage.before.splitlines() if line.strip()], tokens, count, listed="lines")


def _sketch(message: Message) -> str:
    if message.role not in ("user", "assistant"):
        return ""
    text = " ".join(message.text.split())
    if not text:
        calls = [part.name for part in message.parts if isinstance(part, ToolCall)]
        text = f"called {', '.join(calls)}" if calls else ""
    if len(text) > _LINE_CHARS:
        text = text[: _LINE_CHARS - 1].rstrip() + "…"
    return f"[{message.id}] {message.role}: {text}" if text else ""


def _newest(lines: list[str], tokens: int, count: Callable[[str], int], listed: str = "messages") -> str:
    def shown(first: int) -> str:
        left = f" {first} earlier {listed} are not listed; memory_search finds them." if first else ""
        return "\n".join([f"({OUTLINED}; this is a list.{left})", *lines[first:]])

    first, used = len(lines), count(shown(len(lines)))
    while first and (used := used + count("\n" + lines[first - 1])) <= tokens:
        first -= 1
    while count(shown(first)) > tokens:  # counts of parts do not always add up
        first += 1
        if first > len(lines):
            return ""
    return shown(first)
