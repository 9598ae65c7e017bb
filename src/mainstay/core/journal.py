"""Between events and the bytes that are kept: one codec for every store."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec

from mainstay.core.addresses import Heard
from mainstay.core.errors import StoreCorrupt, StoreTooNew
from mainstay.core.events import (
    DURABLE,
    ApprovalAnswered,
    ApprovalAsked,
    Blanked,
    Event,
    Folded,
    Guarded,
    Judged,
    MessageAdded,
    Received,
    StepCheckpointed,
    ToolFinished,
    TurnEnded,
)
from mainstay.core.messages import AnyPart, Binary, Text, Thinking, ToolCall, ToolResult
from mainstay.core.outcome import Failed
from mainstay.core.recall import Fact


class Record(msgspec.Struct, frozen=True):
    """An event where it stands: its sequence in the session, and when it was written (ms since 1970)."""

    seq: int
    at: int
    event: Event


encode: Callable[[Event], bytes] = msgspec.json.Encoder().encode
_decode: Callable[[str | bytes], Event] = msgspec.json.Decoder(DURABLE).decode
_decode_all: Callable[[str | bytes], Sequence[Event]] = msgspec.json.Decoder(list[DURABLE]).decode

BLANK = encode(Blanked())
FORGOTTEN = "[forgotten]"  # what a part says whose words were taken away

# How to read what an older release wrote: tag -> a function from its fields to today's. Golden journals
# of every release are replayed by the tests, so an entry here is never removed.
UPCASTS: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {}

_TAGS = frozenset(str(kind.__struct_config__.tag) for kind in DURABLE.__args__)


def mended(event: Event) -> Event:
    """The same without half characters (lone surrogates), which UTF-8 cannot carry and `encode` refuses."""
    made: Event = msgspec.convert(_mended(msgspec.to_builtins(event)), DURABLE)
    return made


def _mended(value: Any) -> Any:
    match value:
        case str():
            return value.encode(errors="replace").decode()
        case dict():
            return {_mended(key): _mended(item) for key, item in value.items()}
        case list() | tuple():
            return [_mended(item) for item in value]
    return value


def redacted(event: Event) -> Event:
    """The same event without what it says. Who called what and when stays, so that the history keeps its shape."""
    match event:
        case Received(heard=Heard() as heard):
            said = msgspec.structs.replace(heard, text=heard.text and FORGOTTEN, files=())
            parts = tuple(_without_content(part) for part in event.parts)
            return msgspec.structs.replace(event, parts=parts, heard=said)
        case Received() | MessageAdded():
            return msgspec.structs.replace(event, parts=tuple(_without_content(part) for part in event.parts))
        case ToolFinished(result=result):
            return msgspec.structs.replace(event, result=_without_content(result))
        case StepCheckpointed(text=text, thinking=thinking):
            return msgspec.structs.replace(event, text=text and FORGOTTEN, thinking=thinking and FORGOTTEN)
        case TurnEnded(outcome=Failed() as failed):
            return msgspec.structs.replace(event, outcome=msgspec.structs.replace(failed, details=""))
        case ApprovalAsked():
            return msgspec.structs.replace(event, input="{}", why="")
        case ApprovalAnswered(input=input, reason=reason, result=result):
            changed = None if input is None else "{}"
            result = None if result is None else FORGOTTEN
            return msgspec.structs.replace(event, input=changed, reason=reason and FORGOTTEN, result=result)
        case Judged(scores=scores):
            told = tuple(
                msgspec.structs.replace(one, reason=one.reason and FORGOTTEN, error=one.error and FORGOTTEN)
                for one in scores
            )
            return msgspec.structs.replace(event, scores=told)
        case Guarded():
            return msgspec.structs.replace(event, note="")
        case Folded():  # a summary of what is forgotten, from its first word to its last
            return Blanked()
    return event


def unlearned(fold: Folded, facts: Sequence[Fact]) -> Folded:
    """The fold without what it taught of these."""
    gone = {_triple(fact) for fact in facts}
    return msgspec.structs.replace(fold, facts=tuple(fact for fact in fold.facts if _triple(fact) not in gone))


def _triple(fact: Fact) -> tuple[str, ...]:
    return tuple(" ".join(text.casefold().split()) for text in (fact.subject, fact.predicate, fact.object))


def _without_content(part: AnyPart) -> AnyPart:
    match part:
        case Text(text=text):
            return msgspec.structs.replace(part, text=text and FORGOTTEN)
        case Thinking():  # a signature would not fit any more, and a provider would refuse it
            return msgspec.structs.replace(part, text=FORGOTTEN, signature="")
        case ToolCall():
            return msgspec.structs.replace(part, input="{}")
        case ToolResult():
            return msgspec.structs.replace(part, content=FORGOTTEN)
        case Binary():
            return msgspec.structs.replace(part, data=b"", path="")
    return part


def decode(body: str | bytes) -> Event:
    try:
        return _decode(body)
    except msgspec.DecodeError as error:
        return _decode_old(body, error)


def decode_all(bodies: Sequence[str]) -> Iterable[Event]:
    """One call for many, in C: a session's whole window is read this way."""
    try:
        return _decode_all("[" + ",".join(bodies) + "]")
    except msgspec.DecodeError:
        return [decode(body) for body in bodies]


def _decode_old(body: str | bytes, error: msgspec.DecodeError) -> Event:
    try:
        fields = msgspec.json.decode(body, type=dict[str, Any])
        tag = fields["type"]
    except (msgspec.DecodeError, KeyError):
        raise StoreCorrupt(f"a journal record cannot be read: {error}") from error
    if tag in UPCASTS:
        event: Event = msgspec.convert(UPCASTS[tag](fields), DURABLE)
        return event
    if tag not in _TAGS:
        raise StoreTooNew(
            f"the journal holds a record of type {tag!r} that this release does not know; use the newer release"
        ) from error
    raise StoreCorrupt(f"a journal record of type {tag} cannot be read: {error}") from error
