"""A conversation that was held elsewhere, as records of ours."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from mainstay.core.envelope import IMPORTED
from mainstay.core.errors import InputRefused
from mainstay.core.events import MessageAdded
from mainstay.core.messages import AnyPart, Text, ToolCall, ToolResult
from mainstay.core.recall import origin_of

LOST = "Outcome unknown: the conversation was brought from elsewhere without this call's result."
_RESULT = origin_of("import", untrusted=True)
Clean = Callable[[AnyPart], AnyPart]


def imported(messages: Sequence[Mapping[str, Any]], clean: Clean) -> list[MessageAdded]:
    """Raises InputRefused, naming the message, if one cannot be understood. Every call gets its one result."""
    events: list[MessageAdded] = []
    open_calls: dict[str, ToolCall] = {}
    results: dict[str, ToolResult] = {}

    def settle() -> None:
        if open_calls:
            made = (
                results.get(id) or ToolResult(id, call.name, LOST, is_error=True) for id, call in open_calls.items()
            )
            events.append(MessageAdded("tool", tuple(made)))
        open_calls.clear()
        results.clear()

    for number, message in enumerate(messages):
        match message:
            case {"role": "tool", "tool_call_id": str(id), "content": str(content)} if id in open_calls:
                part = clean(Text(content))
                assert isinstance(part, Text)
                results[id] = ToolResult(id, open_calls[id].name, part.text, origin=_RESULT)
            case {"role": "user" | "assistant" as role, "content": str() | None as content}:
                settle()
                parts = [clean(Text(content, origin=IMPORTED[role]))] if content else []
                calls = list(_calls(message, number)) if role == "assistant" else []
                if not parts and not calls:
                    raise InputRefused(f"message {number} of the history says nothing")
                open_calls.update({call.id: call for call in calls})
                events.append(MessageAdded(role, (*parts, *calls)))
            case _:
                raise InputRefused(
                    f"message {number} of the history is not {{'role': 'user' or 'assistant', 'content': text}}"
                )
    settle()
    return events


def _calls(message: Mapping[str, Any], number: int) -> Iterator[ToolCall]:
    """As the usual API writes them."""
    given = message.get("tool_calls") or ()
    if not isinstance(given, list | tuple):
        raise InputRefused(f"the tool_calls of message {number} of the history are no list")
    for one in given:
        match one:
            case {"id": str(id), "function": {"name": str(name), "arguments": str(input)}}:
                yield ToolCall(id, name, input, origin=IMPORTED["assistant"])
            case _:
                raise InputRefused(f"a call of message {number} of the history cannot be understood")
