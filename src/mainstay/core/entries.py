"""From records to what can be searched: one entry for each message of a session.

The index is made of this, and what it finds is read back the same way, so the two never disagree.
"""

from __future__ import annotations

from collections.abc import Sequence

from mainstay.core.events import Event, MessageAdded, Received, ToolFinished
from mainstay.core.journal import FORGOTTEN, Record
from mainstay.core.messages import AnyPart, Text, ToolCall, ToolResult
from mainstay.core.recall import Entry, worst
from mainstay.core.withheld import withheld


def entries_of(session: str, records: Sequence[Record]) -> list[Entry]:
    """What people, models and tools said, in order. Notes of the runtime and what is empty are left out, and so is
    what was only recalled: it would be found in the place of what it repeats. Attempts at an answer that do not stand,
    or of which the records do not say, are nothing that was said."""
    hidden = withheld(records, drafts=True)
    said = [one for one in records if isinstance(one.event, SAYING) and one.seq not in hidden]
    found = [entry_of(session, record) for record in said if not _only_recalls(record.event)]
    return [entry for entry in found if entry is not None]


SAYING = (Received, MessageAdded, ToolFinished)
RECALLING = frozenset(
    [
        *("memory_search", "memory_get", "memory_summary", "memory_recall", "memory_semantic"),
        *("remember", "forget", "result", "tool_search"),
    ]
)


def _only_recalls(event: Event) -> bool:
    match event:
        case ToolFinished(result=result):
            return result.name in RECALLING
        case MessageAdded(role="assistant", parts=parts):
            calls = [part for part in parts if isinstance(part, ToolCall)]
            said = any(isinstance(part, Text) and part.text.strip() for part in parts)
            return bool(calls) and not said and all(call.name in RECALLING for call in calls)
    return False


def entry_of(session: str, record: Record) -> Entry | None:
    match record.event:
        case Received(parts=parts, sender=sender, heard=heard):
            role, speaker, ref = "user", sender or (heard.name if heard is not None else "") or "user", ""
        case MessageAdded(role="user" | "assistant" as role, parts=parts):
            speaker, ref = role, ""
        case ToolFinished(result=result):
            parts, role, speaker, ref = (result,), "tool", result.name, result.call_id
        case MessageAdded(role="tool", parts=(ToolResult() as first, *_) as parts):  # brought from elsewhere
            role, speaker, ref = "tool", first.name, first.call_id
        case _:
            return None
    text = "\n".join(line for line in map(_line, parts) if line)
    if not text or text.isspace():
        return None
    return Entry(session, record.seq, record.at, role, text, speaker, _origin(parts), ref)


def _line(part: AnyPart) -> str:
    match part:
        case Text(text=text) | ToolResult(content=text) if text != FORGOTTEN:
            return text
        case ToolCall(name=name, input=input):
            return f"{name}({input})"
    return ""


def _origin(parts: Sequence[AnyPart]) -> str:
    """The worst of them: what came from outside outweighs whatever stands beside it."""
    origins = [part.origin for part in parts if part.origin]
    return worst(origins) or (origins[0] if origins else "")
