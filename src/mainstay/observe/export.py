"""A session as files: what people said, and what the model saw."""

from __future__ import annotations

import datetime
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from mainstay.core.addresses import Heard
from mainstay.core.events import Delivered, Folded, MessageAdded, Received, Relieved, SessionChanged
from mainstay.core.journal import Record
from mainstay.core.messages import AnyPart, Binary, Message, Text, text_of
from mainstay.core.session import Session
from mainstay.core.withheld import withheld

Clean = Callable[[str], str]  # what must not leave is taken out of a text


def write_session(records: Sequence[Record], folder: Path, clean: Clean | None = None) -> list[Path]:
    """`log.jsonl` and `context.jsonl`."""
    folder.mkdir(parents=True, exist_ok=True)
    return [write_log(records, folder / "log.jsonl", clean), write_context(records, folder / "context.jsonl", clean)]


def write_log(records: Sequence[Record], path: Path, clean: Clean | None = None) -> Path:
    """One line a message that a person or the agent said; no tool calls or results, and no attempt at an answer that
    nobody was shown."""
    posted = {record.event.turn: record.event for record in records if isinstance(record.event, Delivered)}
    hidden = withheld(records)
    said = (record for record in records if _was_said(record) and record.seq not in hidden)
    return _write(path, (_log_line(record, posted) for record in said), clean)


def write_context(records: Sequence[Record], path: Path, clean: Clean | None = None) -> Path:
    """One line a message of the history, calls and results included, in the order the model has them; before those
    for which they held, the instructions."""
    return _write(path, _context_lines(records), clean)


def history(records: Sequence[Record]) -> list[Any]:
    """Every message of a session from its birth, folds notwithstanding."""
    return [message for _, said in _told(records) for message in said]


def _told(records: Sequence[Record]) -> Iterator[tuple[Record, list[Message]]]:
    """Each record, and what it added to the history."""
    session = Session("export")
    for record in records:
        if isinstance(record.event, Folded | Relieved):  # these change what is shown, and nothing that was said
            continue
        before = len(session.messages)
        session.apply(record.seq, record.at, record.event)
        yield record, session.messages[before:]


def _was_said(record: Record) -> bool:
    match record.event:
        case Received():
            return True
        case MessageAdded(role="assistant" | "user", parts=parts):
            return bool(text_of(parts))
    return False


def _log_line(record: Record, posted: Mapping[int, Delivered]) -> dict[str, Any]:
    match record.event:
        case Received(heard=Heard() as heard, sender=sender) as event:
            line = _line(heard.at or record.at, heard.message, heard.user, heard.name or sender)
            text = heard.text or text_of(event.parts)
            files = [{"original": one.original, "local": one.local} for one in heard.files]
        case Received(sender=sender, id=id) as event:
            line = _line(record.at, id or str(record.seq), sender, sender)
            text, files = text_of(event.parts), _files(event.parts)
        case MessageAdded(role=role) as event:
            told = posted.get(event.turn) if role == "assistant" else None
            id = told.ids[0] if told is not None and told.ids else str(record.seq)  # as the platform knows it
            who = "agent" if role == "assistant" else ""
            line = _line(record.at, id, who, who)
            text, files = text_of(event.parts), _files(event.parts)
        case _:
            raise AssertionError("nobody said it")
    is_bot = isinstance(event, MessageAdded) and event.role == "assistant"
    line |= {"text": text, "isBot": is_bot}
    return {**line, "attachments": files} if files else line


def _line(at: int, id: str, user: str, name: str) -> dict[str, Any]:
    return {"date": _iso(at), "messageId": id, "userId": user, "userName": name}


def _files(parts: Iterable[AnyPart]) -> list[dict[str, str]]:
    return [{"original": part.path, "local": part.path} for part in parts if isinstance(part, Binary)]


def _context_lines(records: Sequence[Record]) -> Iterator[dict[str, Any]]:
    held = {record.event.turn: record for record in records if _instructs(record)}  # recorded after the turn's start
    for record, said in _told(records):
        if _instructs(record) and not record.event.turn:  # a fold renewed them
            yield _instructions(record)
        for message in said:
            if message.turn and (first := held.pop(message.turn, None)) is not None:
                yield _instructions(first)
            yield _context_line(message)


def _instructs(record: Record) -> bool:
    return isinstance(record.event, SessionChanged) and bool(record.event.instructions)


def _instructions(record: Record) -> dict[str, Any]:
    assert isinstance(record.event, SessionChanged)
    return _context_line(Message(record.seq, "system", (Text(record.event.instructions or ""),), at=record.at))


def _context_line(message: Message) -> dict[str, Any]:
    line = {"id": message.id, "date": _iso(message.at), "role": message.role, "parts": list(message.parts)}
    return {**line, "model": message.model} if message.model else line


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
