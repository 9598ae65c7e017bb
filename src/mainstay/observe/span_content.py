"""Message content of spans in the shape of OpenTelemetry's GenAI semantic conventions, redacted and bounded."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from mainstay.core.events import MessageAdded
from mainstay.core.messages import AnyPart, Finish, Text, Thinking, ToolCall
from mainstay.observe.span_types import TelemetryOptions, finish_reason_name

MESSAGES_CHARS_MAX = 64 * 1024  # all parts of a message together


def encode_input_messages(messages: Iterable[Sequence[AnyPart]], options: TelemetryOptions) -> str:
    """Return the user's messages as the attribute `gen_ai.input.messages`."""
    return _encode_json([{"role": "user", "parts": _part_documents(parts, options)} for parts in messages])


def encode_output_message(event: MessageAdded, options: TelemetryOptions) -> str:
    """Return the model's message as the attribute `gen_ai.output.messages`."""
    message: dict[str, object] = {"role": "assistant", "parts": _part_documents(event.parts, options)}
    for part in event.parts:
        if isinstance(part, Finish):
            message["finish_reason"] = finish_reason_name(part.reason)
    return _encode_json([message])


def _part_documents(parts: Sequence[AnyPart], options: TelemetryOptions) -> list[dict[str, str]]:
    documents: list[dict[str, str]] = []
    left = MESSAGES_CHARS_MAX
    for part in parts:
        match part:
            case Text(text=text):
                document = {"type": "text", "content": options.redact_text(text)}
            case Thinking(text=text):
                document = {"type": "reasoning", "content": options.redact_text(text)}
            case ToolCall(id=id, name=name, input=input):
                document = {
                    "type": "tool_call",
                    "id": id,
                    "name": options.redact_text(name, 100),
                    "arguments": options.redact_text(input),
                }
            case _:
                continue
        left -= sum(map(len, document.values()))
        if left < 0:
            break
        documents.append(document)
    return documents


def _encode_json(messages: Sequence[Mapping[str, object]]) -> str:
    return msgspec.json.encode(messages).decode()
