"""Reads the messages of a session from a file of another program, or from an export of our own."""

from __future__ import annotations

import json
from typing import Any, Literal

from mainstay.core.errors import InputRefused
from mainstay.core.events import MessageAdded
from mainstay.core.input_envelope import IMPORT_ORIGINS
from mainstay.core.messages import Text
from mainstay.io.jsonl import JsonlBroken, parse_jsonl


def read_messages(raw: bytes, source: str) -> tuple[list[MessageAdded], str]:
    """Parse a JSON list (or {"messages": list}), or one JSON object per line, also the log.jsonl of `export`.

    The second value says what was left out because the end of the file is damaged; empty: nothing. Raises InputRefused.
    """
    incident = ""
    try:
        document = json.loads(raw.decode("utf-8-sig"))
    except (ValueError, RecursionError):
        try:
            lines = parse_jsonl(raw)
        except JsonlBroken as broken:
            raise InputRefused(f"{source} {broken}") from None
        document, incident = lines.objects, lines.damage
    match document:
        case {"messages": list(messages)} | list(messages):
            pass
        case dict():
            messages = [document]
        case _:
            raise InputRefused(f"{source} does not contain a list of messages")
    if not messages:
        raise InputRefused(f"{source} contains no messages" + (f": {incident}" if incident else ""))
    return [_parse_message(message, number, source) for number, message in enumerate(messages, start=1)], incident


def _parse_message(message: Any, number: int, source: str) -> MessageAdded:
    match message:
        case {"role": "user" | "assistant" as role, "content": str(text)}:
            return MessageAdded(role, (Text(text, origin=IMPORT_ORIGINS[role]),))
        case {"role": "user" | "assistant" as role, "content": list(parts)}:
            texts = [part["text"] for part in parts if isinstance(part, dict) and isinstance(part.get("text"), str)]
            return MessageAdded(role, (Text("\n".join(texts), origin=IMPORT_ORIGINS[role]),))
        case {"isBot": bool(is_bot), "text": str(text)}:
            speaker: Literal["assistant", "user"] = "assistant" if is_bot else "user"
            return MessageAdded(speaker, (Text(text, origin=IMPORT_ORIGINS[speaker]),))
    expected = '{"role": "user" or "assistant", "content": text}'
    raise InputRefused(f"message {number} of {source} is not {expected}")
