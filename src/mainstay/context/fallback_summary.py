"""Fallback summary without a model: one line for each message, with its id for reading it. Pure."""

from __future__ import annotations

from collections.abc import Callable

from mainstay.core.messages import Message, ToolCall
from mainstay.core.ports import SummaryRequest

OUTLINE_NOTE = "No summary could be made"
_LINE_CHARS_MAX = 80


def build_outline(request: SummaryRequest, tokens_max: int, count_tokens: Callable[[str], int]) -> str:
    """Return one short line for each message; if not all fit in `tokens_max`, the newest.

    Without messages it is the end of the previous summary.
    """
    if request.messages:
        return _fit_newest(
            [line for message in request.messages if (line := _message_line(message))], tokens_max, count_tokens
        )
    return _fit_newest(
        [line for line in request.previous_summary.splitlines() if line.strip()], tokens_max, count_tokens, noun="lines"
    )


def _message_line(message: Message) -> str:
    if message.role not in ("user", "assistant"):
        return ""
    text = " ".join(message.text.split())
    if not text:
        calls = [part.name for part in message.parts if isinstance(part, ToolCall)]
        text = f"called {', '.join(calls)}" if calls else ""
    if len(text) > _LINE_CHARS_MAX:
        text = text[: _LINE_CHARS_MAX - 1].rstrip() + "…"
    return f"[{message.id}] {message.role}: {text}" if text else ""


def _fit_newest(lines: list[str], tokens_max: int, count_tokens: Callable[[str], int], noun: str = "messages") -> str:
    def render(first: int) -> str:
        omitted = f" {first} earlier {noun} are not listed; memory_search finds them." if first else ""
        return "\n".join([f"({OUTLINE_NOTE}; this is a list.{omitted})", *lines[first:]])

    first, used = len(lines), count_tokens(render(len(lines)))
    while first and (used := used + count_tokens("\n" + lines[first - 1])) <= tokens_max:
        first -= 1
    while count_tokens(render(first)) > tokens_max:  # token counts of parts do not always add up
        first += 1
        if first > len(lines):
            return ""
    return render(first)
