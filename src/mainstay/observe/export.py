"""A session as files: what people said, and what the model saw."""

from __future__ import annotations

import datetime
import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from mainstay.core.events import Folded, MessageAdded, Received, Relieved
from mainstay.core.journal import Record
from mainstay.core.messages import AnyPart, Binary, text_of
from mainstay.core.session import Session

Clean = Callable[[str], str]  # what must not leave is taken out of a text


def write_session(records: Sequence[Record], folder: Path, clean: Clean | None = None) -> list[Path]:
    """`log.jsonl` and `context.jsonl`."""
    folder.mkdir(parents=True, exist_ok=True)
    return [write_log(records, folder / "log.jsonl", clean), write_context(records, folder / "context.jsonl", clean)]


def write_log(records: Sequence[Record], path: Path, clean: Clean | None = None) -> Path:
    """One line a message that a person or the agent said; no tool calls or results."""
    return _write(path, (_log_line(record) for record in records if _was_said(record)), clean)


def write_context(records: Sequence[Record], path: Path, clean: Clean | None = None) -> Path:
    """One line a message of the history, calls and results included, in the order the model has them."""
    lines = (_context_line(message.role, message.parts, message.id, message.at) for message in history(records))
    return _write(path, lines, clean)


def history(records: Sequence[Record]) -> list[Any]:
    """Every message of a session from its birth, folds notwithstanding."""
    session = Session("export")
    messages: list[Any] = []
    for record in records:
        if isinstance(record.event, Folded | Relieved):  # these change what is shown, and nothing that was said
            continue
        before = len(session.messages)
        session.apply(record.seq, record.at, record.event)
        messages += session.messages[before:]
    return messages


def _was_said(record: Record) -> bool:
    match record.event:
        case Received():
            return True
        case MessageAdded(role="assistant" | "user", parts=parts):
            return bool(text_of(parts))
    return False


def _log_line(record: Record) -> dict[str, Any]:
    event = record.event
    assert isinstance(event, Received | MessageAdded)
    is_bot = isinstance(event, MessageAdded) and event.role == "assistant"
    sender = event.sender if isinstance(event, Received) else ""
    line: dict[str, Any] = {
        "date": _iso(record.at),
        "messageId": (event.id if isinstance(event, Received) else "") or str(record.seq),
        "userId": "agent" if is_bot else sender,
        "userName": "agent" if is_bot else sender,
        "text": text_of(event.parts),
        "isBot": is_bot,
    }
    attachments = [{"original": part.path, "local": part.path} for part in event.parts if isinstance(part, Binary)]
    return {**line, "attachments": attachments} if attachments else line


def _context_line(role: str, parts: Iterable[AnyPart], id: int, at: int) -> dict[str, Any]:
    return {"id": id, "date": _iso(at), "role": role, "parts": list(parts)}


def _iso(at: int) -> str:
    return datetime.datetime.fromtimestamp(at / 1000, datetime.UTC).isoformat(timespec="milliseconds")


def _cleaned(value: Any, clean: Clean) -> Any:
    match value:
        case str():
            return clean(value)
        case dict():
            return {name: _cleaned(one, clean) for name, one in value.items()}
        case list() | tuple():
            return [_cleaned(one, clean) for one in value]
    return value


def _write(path: Path, lines: Iterable[dict[str, Any]], clean: Clean | None) -> Path:
    """Whole or not at all: a reader never sees half an export."""
    draft = path.with_name(path.name + ".part")
    with open(draft, "wb") as file:
        os.fchmod(file.fileno(), 0o600)
        for line in lines:
            made = _cleaned(msgspec.to_builtins(line), clean) if clean is not None else line
            file.write(msgspec.json.encode(made) + b"\n")
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)
    return path
