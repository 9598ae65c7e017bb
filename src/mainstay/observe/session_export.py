"""Exports a session as JSON Lines: `log.jsonl` (the conversation) and `context.jsonl` (the model's history)."""

from __future__ import annotations

import datetime
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal

import msgspec

from mainstay.core.chat_addresses import PlatformMessage
from mainstay.core.events import Delivered, Folded, MessageAdded, Received, Relieved, SessionChanged
from mainstay.core.journal import Record
from mainstay.core.messages import AnyPart, Binary, Finish, Message, Text, parts_text
from mainstay.core.provisional_answers import hidden_seqs
from mainstay.core.session import Session

TextRedactor = Callable[[str], str]  # removes secrets from a text
ExportFile = Literal["log", "context"]


def write_session(records: Sequence[Record], folder: Path, redact: TextRedactor | None = None) -> list[Path]:
    """Write `log.jsonl` and `context.jsonl` into the folder, which is created if needed."""
    folder.mkdir(parents=True, exist_ok=True)
    return [write_log(records, folder / "log.jsonl", redact), write_context(records, folder / "context.jsonl", redact)]


def write_log(records: Sequence[Record], path: Path, redact: TextRedactor | None = None) -> Path:
    """Write the lines of `log.jsonl`."""
    return write_lines(path, export_lines(records, "log", redact))


def write_context(records: Sequence[Record], path: Path, redact: TextRedactor | None = None) -> Path:
    """Write the lines of `context.jsonl`."""
    return write_lines(path, export_lines(records, "context", redact))


def export_lines(records: Sequence[Record], file: ExportFile, redact: TextRedactor | None = None) -> Iterator[bytes]:
    """Yield the lines of `log.jsonl` or `context.jsonl`, as JSON; `redact` is applied to all texts."""
    for line in _log_lines(records) if file == "log" else _context_lines(records):
        yield msgspec.json.encode(_redact_value(msgspec.to_builtins(line), redact) if redact is not None else line)


def full_history(records: Sequence[Record]) -> list[Message]:
    """Return every message of a session from its beginning; folds are ignored."""
    return [message for _, messages in _replay_messages(records) for message in messages]


def _replay_messages(records: Sequence[Record]) -> Iterator[tuple[Record, list[Message]]]:
    """Yield each record with the messages that it added to the history."""
    session = Session("export")
    for record in records:
        if isinstance(record.event, Folded | Relieved):  # these change what the model is shown, not the history
            continue
        before = len(session.messages)
        session.apply(record.seq, record.at, record.event)
        yield record, session.messages[before:]


def _log_lines(records: Sequence[Record]) -> Iterator[dict[str, object]]:
    """Yield one line per message of a person or the agent, without tool calls, results and answers that judges rejected
    before they were shown."""
    posted = {record.event.turn: record.event for record in records if isinstance(record.event, Delivered)}
    hidden = hidden_seqs(records)
    return (_log_line(record, posted) for record in records if _is_message(record) and record.seq not in hidden)


def _is_message(record: Record) -> bool:
    match record.event:
        case Received():
            return True
        case MessageAdded(role="assistant" | "user", parts=parts):
            return bool(parts_text(parts))
    return False


def _log_line(record: Record, deliveries: Mapping[int, Delivered]) -> dict[str, object]:
    match record.event:
        case Received(heard=PlatformMessage() as message, sender=sender) as event:
            line = _log_fields(message.at or record.at, message.message, message.user, message.name or sender)
            text = message.text or parts_text(event.parts)
            files = [{"original": file.original, "local": file.local} for file in message.files]
        case Received(sender=sender, id=id) as event:
            line = _log_fields(record.at, id or str(record.seq), sender, sender)
            text, files = parts_text(event.parts), _attachments(event.parts)
        case MessageAdded(role=role) as event:
            delivered = deliveries.get(event.turn) if role == "assistant" else None
            id = delivered.ids[0] if delivered is not None and delivered.ids else str(record.seq)  # the platform's id
            sender = "agent" if role == "assistant" else ""
            line = _log_fields(record.at, id, sender, sender)
            text, files = parts_text(event.parts), _attachments(event.parts)
        case _:
            raise AssertionError("this record is not a message")
    is_bot = isinstance(event, MessageAdded) and event.role == "assistant"
    if isinstance(event, Received) and event.heard is not None and not event.heard.user:  # its own post in a new thread
        is_bot, line = True, line | {"userId": "agent", "userName": "agent"}
    line |= {"text": text, "isBot": is_bot}
    return {**line, "attachments": files} if files else line


def _log_fields(at: int, id: str, user: str, name: str) -> dict[str, object]:
    return {"date": _iso_time(at), "messageId": id, "userId": user, "userName": name}


def _attachments(parts: Iterable[AnyPart]) -> list[dict[str, str]]:
    return [{"original": part.path, "local": part.path} for part in parts if isinstance(part, Binary)]


def _context_lines(records: Sequence[Record]) -> Iterator[dict[str, object]]:
    """Yield one line per message of the history, including tool calls and results, in the model's order. The
    instructions precede the first message for which they were in force."""
    # recorded after the turn's start
    changes = {record.event.turn: record for record in records if _has_instructions(record)}
    for record, messages in list(_replay_messages(records)):  # how a turn ended changes its last message
        if _has_instructions(record) and not record.event.turn:  # renewed by a fold, between turns
            yield _instructions_line(record)
        for message in messages:
            if message.turn and (change := changes.pop(message.turn, None)) is not None:
                yield _instructions_line(change)
            yield _context_line(message)


def _has_instructions(record: Record) -> bool:
    return isinstance(record.event, SessionChanged) and bool(record.event.instructions)


def _instructions_line(record: Record) -> dict[str, object]:
    assert isinstance(record.event, SessionChanged)
    return _context_line(Message(record.seq, "system", (Text(record.event.instructions or ""),), at=record.at))


def _context_line(message: Message) -> dict[str, object]:
    date = _iso_time(message.at)
    parts = [_finish_part(part, date) if isinstance(part, Finish) else part for part in message.parts]
    line = {"id": message.id, "date": date, "role": message.role, "parts": parts}
    return {**line, "model": message.model} if message.model else line


def _finish_part(finish: Finish, date: str) -> dict[str, object]:
    """Return the part with the time of its record, at which the message was finished."""
    return {**msgspec.to_builtins(finish), "time": date}


def _iso_time(at: int) -> str:
    return datetime.datetime.fromtimestamp(at / 1000, datetime.UTC).isoformat(timespec="milliseconds")


def _redact_value(value: object, redact: TextRedactor) -> object:
    match value:
        case str():
            return redact(value)
        case dict():
            return {name: _redact_value(item, redact) for name, item in value.items()}
        case list() | tuple():
            return [_redact_value(item, redact) for item in value]
    return value


def write_lines(path: Path, lines: Iterable[bytes]) -> Path:
    """Write the file atomically, so that no reader sees half an export. Its mode is 0600."""
    draft = path.with_name(path.name + ".part")
    with open(draft, "wb") as file:
        os.fchmod(file.fileno(), 0o600)
        for line in lines:
            file.write(line + b"\n")
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)
    return path
