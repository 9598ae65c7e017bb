"""Exports a session as JSON Lines: `log.jsonl` (all that was said) and `context.jsonl` (what the model sees).

Compaction shortens the context and never the log. The context has what the journal says of it: the instructions, the
summary and the messages after it. Not in it are the profile section and the tools, which are no part of the history."""

from __future__ import annotations

import datetime
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal

import msgspec

from mainstay.core.chat_addresses import PlatformMessage
from mainstay.core.events import Delivered, Folded, MessageAdded, Received, Relieved
from mainstay.core.journal import Record
from mainstay.core.messages import AnyPart, Binary, Finish, Message, Text, parts_text
from mainstay.core.provisional_answers import hidden_seqs
from mainstay.core.session import Session

TextRedactor = Callable[[str], str]  # removes secrets from a text
ExportFile = Literal["log", "context"]


def _whole_window(session: Session) -> Sequence[Message]:
    return session.messages


class ExportOptions(msgspec.Struct, frozen=True):
    """How a session is exported."""

    session: str = "export"  # its key, which shortened messages name
    redact: TextRedactor | None = None  # applied to all texts
    select_messages: Callable[[Session], Sequence[Message]] = _whole_window  # those that the model sees


DEFAULT_OPTIONS = ExportOptions()


def write_session(records: Sequence[Record], folder: Path, options: ExportOptions = DEFAULT_OPTIONS) -> list[Path]:
    """Write `log.jsonl` and `context.jsonl` into the folder, which is created if needed."""
    folder.mkdir(parents=True, exist_ok=True)
    return [
        write_log(records, folder / "log.jsonl", options),
        write_context(records, folder / "context.jsonl", options),
    ]


def write_log(records: Sequence[Record], path: Path, options: ExportOptions = DEFAULT_OPTIONS) -> Path:
    """Write the lines of `log.jsonl`."""
    return write_lines(path, export_lines(records, "log", options))


def write_context(records: Sequence[Record], path: Path, options: ExportOptions = DEFAULT_OPTIONS) -> Path:
    """Write the lines of `context.jsonl`."""
    return write_lines(path, export_lines(records, "context", options))


def export_lines(
    records: Sequence[Record], file: ExportFile, options: ExportOptions = DEFAULT_OPTIONS
) -> Iterator[bytes]:
    """Yield the lines of `log.jsonl` or `context.jsonl`, as JSON."""
    redact = options.redact
    for line in _log_lines(records) if file == "log" else _context_lines(records, options):
        yield msgspec.json.encode(_redact_value(msgspec.to_builtins(line), redact) if redact is not None else line)


def full_history(records: Sequence[Record]) -> list[Message]:
    """Return every message of a session from its beginning; folds are ignored."""
    session = Session("export")
    messages: list[Message] = []
    for record in records:
        if isinstance(record.event, Folded | Relieved):  # these change what the model is shown, not the history
            continue
        before = len(session.messages)
        session.apply(record.seq, record.at, record.event)
        messages += session.messages[before:]
    return messages


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


def _context_lines(records: Sequence[Record], options: ExportOptions) -> Iterator[dict[str, object]]:
    """Yield one line per message of the context, in the model's order: the instructions in force, the summary if there
    is one, and the messages after it with their tool calls and results, shortened where the model sees them so."""
    session = Session(options.session)
    begun = 0  # time of the instructions
    for record in records:
        session.apply(record.seq, record.at, record.event)
        begun = record.at if session.fixed_seq == record.seq else begun
    if session.instructions:
        yield _context_line(Message(session.fixed_seq, "system", (Text(session.instructions),), at=begun))
    for message in options.select_messages(session):
        yield _context_line(message)


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
