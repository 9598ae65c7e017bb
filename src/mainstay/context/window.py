"""Which part of a session's history is in the window.

The window moves in large steps: it grows until it holds nine tenths of the budget and then drops its
oldest whole turns down to six tenths, so that between two moves every request begins with the same bytes
and the provider's prompt cache keeps hitting.
"""

from __future__ import annotations

from typing import cast

from mainstay.core.messages import AnyPart, Binary, Message, Text, Thinking, ToolCall, ToolResult
from mainstay.core.session import Session

FULL = 0.9
RELIEVED = 0.6
TOKENS_PER_BYTE = 0.3  # bytes / 4, and a fifth more: errs on the side of too many
IMAGE_TOKENS = 1600
MESSAGE_TOKENS = 4
FRAME_BYTES = 20  # ids and names around a call or a result


def fit(session: Session, budget: int) -> list[Message]:
    """The session's messages, its oldest turns dropped from memory (never from the journal) if too many."""
    messages = session.messages
    count, total = session.weighed
    for message in messages[count:]:  # only what is new since the last call
        total += weigh(message)
    session.weighed = (len(messages), total)
    if total > budget * FULL:
        session.messages = _newest_turns(messages, total, int(budget * RELIEVED))
        session.weighed = (0, 0)
    return session.messages


def window_bytes(budget: int) -> int:
    """How much of a journal to read to fill a window after waking up."""
    return int(budget * RELIEVED / TOKENS_PER_BYTE)


def weigh(message: Message) -> int:
    if message.tokens < 0:
        message.tokens = MESSAGE_TOKENS + sum(_part_tokens(part) for part in message.parts)
    return message.tokens


def _newest_turns(messages: list[Message], total: int, wanted: int) -> list[Message]:
    """Whole turns only: a window begins with a user message, and at least the newest turn is in it."""
    starts = [index for index, message in enumerate(messages) if message.role == "user"]
    dropped, done = 0, 0
    for start in starts[1:]:
        dropped += sum(weigh(message) for message in messages[done:start])
        done = start
        if total - dropped <= wanted:
            break
    return messages[done:]


def _part_tokens(part: AnyPart) -> int:
    kind = type(part)
    if kind is Text or kind is Thinking:
        return int(_bytes(cast(Text, part).text) * TOKENS_PER_BYTE)
    if kind is ToolResult:
        return int((_bytes(cast(ToolResult, part).content) + FRAME_BYTES) * TOKENS_PER_BYTE)
    if kind is ToolCall:
        call = cast(ToolCall, part)
        return int((len(call.name) + _bytes(call.input) + FRAME_BYTES) * TOKENS_PER_BYTE)
    return IMAGE_TOKENS if isinstance(part, Binary) and part.mime.startswith("image/") else 0


def _bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode(errors="replace"))
