"""Converts journal records into searchable messages, one for each message of a session.

The search index is built from these, and hits are read back with the same functions, so the two never disagree.
"""

from __future__ import annotations

from collections.abc import Sequence

from mainstay.core.events import Event, MessageAdded, Received, ToolFinished
from mainstay.core.journal import FORGOTTEN_TEXT, Record
from mainstay.core.memory_tiers import IndexedMessage, combine_origins
from mainstay.core.messages import AnyPart, Text, ToolCall, ToolResult
from mainstay.core.provisional_answers import hidden_seqs


def searchable_messages(session: str, records: Sequence[Record]) -> list[IndexedMessage]:
    """Return the messages of users, models and tools in order.

    Left out: the runtime's notes; empty messages; recalled content, which would be found in place of its source; and
    answers that judges rejected or have not decided on in these records.
    """
    hidden = hidden_seqs(records, include_drafts=True)
    candidates = [record for record in records if isinstance(record.event, MESSAGE_EVENTS) and record.seq not in hidden]
    messages = [searchable_message(session, record) for record in candidates if not _is_recall_only(record.event)]
    return [message for message in messages if message is not None]


MESSAGE_EVENTS = (Received, MessageAdded, ToolFinished)
RECALL_TOOLS = frozenset(
    [
        *("memory_search", "memory_get", "memory_summary", "memory_recall", "memory_semantic"),
        *("remember", "forget", "result", "tool_search"),
    ]
)


def _is_recall_only(event: Event) -> bool:
    """Return whether this is a result of a memory tool, or a message that only calls such tools."""
    match event:
        case ToolFinished(result=result):
            return result.name in RECALL_TOOLS
        case MessageAdded(role="assistant", parts=parts):
            calls = [part for part in parts if isinstance(part, ToolCall)]
            has_text = any(isinstance(part, Text) and part.text.strip() for part in parts)
            return bool(calls) and not has_text and all(call.name in RECALL_TOOLS for call in calls)
    return False


def searchable_message(session: str, record: Record) -> IndexedMessage | None:
    """Return the record's message, or None if it is none or has no text."""
    match record.event:
        case Received(parts=parts, sender=sender, heard=message):
            role, speaker, ref = "user", sender or (message.name if message is not None else "") or "user", ""
        case MessageAdded(role="user" | "assistant" as role, parts=parts):
            speaker, ref = role, ""
        case ToolFinished(result=result):
            parts, role, speaker, ref = (result,), "tool", result.name, result.call_id
        case MessageAdded(role="tool", parts=(ToolResult() as first, *_) as parts):  # imported
            role, speaker, ref = "tool", first.name, first.call_id
        case _:
            return None
    text = "\n".join(line for line in map(_part_text, parts) if line)
    if not text or text.isspace():
        return None
    return IndexedMessage(session, record.seq, record.at, role, text, speaker, _combined_origin(parts), ref)


def _part_text(part: AnyPart) -> str:
    match part:
        case Text(text=text) | ToolResult(content=text) if text != FORGOTTEN_TEXT:
            return text
        case ToolCall(name=name, input=input):
            return f"{name}({input})"
    return ""


def _combined_origin(parts: Sequence[AnyPart]) -> str:
    """Return one origin for all parts: untrusted or private if any part is."""
    origins = [part.origin for part in parts if part.origin]
    return combine_origins(origins) or (origins[0] if origins else "")
