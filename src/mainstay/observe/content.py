"""What was said, for spans: messages in the shape that the conventions give them, cleaned and bounded."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from mainstay.core.events import MessageAdded
from mainstay.core.messages import AnyPart, Finish, Text, Thinking, ToolCall
from mainstay.observe.spans import Telling, reason_name

MESSAGES_CHARS_MAX = 64 * 1024  # of all parts together


def said_in(messages: Iterable[Sequence[AnyPart]], telling: Telling) -> str:
    """What people said, as `gen_ai.input.messages`."""
    return _encoded([{"role": "user", "parts": _parts(parts, telling)} for parts in messages])


def said_out(event: MessageAdded, telling: Telling) -> str:
    """What the model said, as `gen_ai.output.messages`."""
    said: dict[str, Any] = {"role": "assistant", "parts": _parts(event.parts, telling)}
    for part in event.parts:
        if isinstance(part, Finish):
            said["finish_reason"] = reason_name(part.reason)
    return _encoded([said])


def _parts(parts: Sequence[AnyPart], telling: Telling) -> list[dict[str, str]]:
    found: list[dict[str, str]] = []
    left = MESSAGES_CHARS_MAX
    for part in parts:
        match part:
            case Text(text=text):
                one = {"type": "text", "content": telling.text(text)}
            case Thinking(text=text):
                one = {"type": "reasoning", "content": telling.text(text)}
            case ToolCall(id=id, name=name, input=input):
                one = {"type": "tool_call", "id": id, "name": telling.text(name, 100), "arguments": telling.text(input)}
            case _:
                continue
        left -= sum(map(len, one.values()))
        if left < 0:
            break
        found.append(one)
    return found


def _encoded(messages: list[dict[str, Any]]) -> str:
    return msgspec.json.encode(messages).decode()
