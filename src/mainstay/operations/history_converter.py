"""Converts the messages of an earlier conversation (OpenAI chat format) into journal events."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from mainstay.core.errors import InputRefused
from mainstay.core.events import MessageAdded
from mainstay.core.input_envelope import IMPORT_ORIGINS
from mainstay.core.memory_tiers import format_origin
from mainstay.core.messages import AnyPart, Text, ToolCall, ToolResult
from mainstay.core.surrogates import refuse_surrogates_in

RESULT_MISSING = "Outcome unknown: the imported conversation does not contain this call's result."
_RESULT_ORIGIN = format_origin("import", untrusted=True)
PartRedactor = Callable[[AnyPart], AnyPart]


def build_import_events(messages: Sequence[Mapping[str, object]], redact: PartRedactor) -> list[MessageAdded]:
    """Return the events that import these messages; every tool call gets exactly one result. Raises InputRefused, with
    the message's index, for a message that has another form."""
    events: list[MessageAdded] = []
    open_calls: dict[str, ToolCall] = {}
    results: dict[str, ToolResult] = {}

    def settle() -> None:
        if open_calls:
            parts = (
                results.get(id) or ToolResult(id, call.name, RESULT_MISSING, is_error=True)
                for id, call in open_calls.items()
            )
            events.append(MessageAdded("tool", tuple(parts)))
        open_calls.clear()
        results.clear()

    for number, message in enumerate(messages):
        refuse_surrogates_in(message, f"message {number} of the history")
        match message:
            case {"role": "tool", "tool_call_id": str(id), "content": str(content)} if id in open_calls:
                part = redact(Text(content))
                assert isinstance(part, Text)
                results[id] = ToolResult(id, open_calls[id].name, part.text, origin=_RESULT_ORIGIN)
            case {"role": "user" | "assistant" as role, "content": str() | None as content}:
                settle()
                parts = [redact(Text(content, origin=IMPORT_ORIGINS[role]))] if content else []
                calls = list(_parse_tool_calls(message, number)) if role == "assistant" else []
                if not parts and not calls:
                    raise InputRefused(f"message {number} of the history is empty")
                open_calls.update({call.id: call for call in calls})
                events.append(MessageAdded(role, (*parts, *calls)))
            case {"role": "tool", "tool_call_id": str(id), "content": str()}:
                raise InputRefused(
                    f"message {number} of the history is the result of the call {id[:40]!r}, which the messages before "
                    "it do not have"
                )
            case _:
                raise InputRefused(
                    f"message {number} of the history is not {{'role': 'user' or 'assistant', 'content': text}}"
                )
    settle()
    return events


def _parse_tool_calls(message: Mapping[str, object], index: int) -> Iterator[ToolCall]:
    """Yield the tool calls of an assistant's message, in OpenAI's format."""
    calls = message.get("tool_calls") or ()
    if not isinstance(calls, list | tuple):
        raise InputRefused(f"the tool_calls of message {index} of the history are not a list")
    for call in calls:
        match call:
            case {"id": str(id), "function": {"name": str(name), "arguments": str(input)}}:
                yield ToolCall(id, name, input, origin=IMPORT_ORIGINS["assistant"])
            case _:
                raise InputRefused(f"a tool call of message {index} of the history is not in OpenAI's format")
