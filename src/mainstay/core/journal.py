"""Journal records and their JSON codec, used by every store; also redaction of stored events."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import msgspec

from mainstay.core.chat_addresses import PlatformMessage
from mainstay.core.errors import StoreCorrupt, StoreTooNew
from mainstay.core.events import (
    ApprovalAnswered,
    ApprovalAsked,
    Blanked,
    DurableEvent,
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
from mainstay.core.json_types import JsonObject
from mainstay.core.memory_tiers import Fact
from mainstay.core.messages import AnyPart, Binary, Text, Thinking, ToolCall, ToolResult
from mainstay.core.outcome import Failed
from mainstay.core.surrogates import replace_surrogates_in


class Record(msgspec.Struct, frozen=True):
    """An event in a session's journal: its sequence number and when it was written (ms since 1970)."""

    seq: int
    at: int
    event: Event


class ReplayResult(msgspec.Struct, frozen=True):
    """Result of a replay (`lane/replay.py`). `difference` describes the first event that differs; empty: none does."""

    records: int
    turns: int
    difference: str = ""

    @property
    def is_identical(self) -> bool:
        return not self.difference


encode_event: Callable[[Event], bytes] = msgspec.json.Encoder().encode
_decode: Callable[[str | bytes], Event] = msgspec.json.Decoder(DurableEvent).decode
_decode_all: Callable[[str | bytes], Sequence[Event]] = msgspec.json.Decoder(list[DurableEvent]).decode

BLANKED_BODY = encode_event(Blanked())
FORGOTTEN_TEXT = "[forgotten]"  # replaces redacted text

# Upcasts of events that older releases wrote: tag -> function from its fields to today's. The tests replay golden
# journals of every release, so an entry here is never removed.
UPCASTS: dict[str, Callable[[JsonObject], JsonObject]] = {}

_KNOWN_TAGS = frozenset(str(kind.__struct_config__.tag) for kind in DurableEvent.__args__)


def replace_surrogates(event: Event) -> Event:
    """Replace lone surrogates in an event's texts, which UTF-8 cannot encode and `encode_event` refuses."""
    mended_event: Event = msgspec.convert(replace_surrogates_in(msgspec.to_builtins(event)), DurableEvent)
    return mended_event


def redact_event(event: Event) -> Event:
    """Return the event without its contents. Names, ids and times stay, so that the history keeps its structure."""
    match event:
        case Received(heard=PlatformMessage() as message):
            blank = msgspec.structs.replace(message, text=message.text and FORGOTTEN_TEXT, files=())
            parts = tuple(_redact_part(part) for part in event.parts)
            return msgspec.structs.replace(event, parts=parts, heard=blank)
        case Received() | MessageAdded():
            return msgspec.structs.replace(event, parts=tuple(_redact_part(part) for part in event.parts))
        case ToolFinished(result=result):
            return msgspec.structs.replace(event, result=_redact_part(result))
        case StepCheckpointed(text=text, thinking=thinking, calls=calls):
            return msgspec.structs.replace(
                event,
                text=text and FORGOTTEN_TEXT,
                thinking=thinking and FORGOTTEN_TEXT,
                calls=calls and FORGOTTEN_TEXT,
            )
        case TurnEnded(outcome=Failed() as failed):
            return msgspec.structs.replace(event, outcome=msgspec.structs.replace(failed, details=""))
        case ApprovalAsked():
            return msgspec.structs.replace(event, input="{}", why="", destinations=(), ran=None)
        case ApprovalAnswered(input=input, reason=reason, result=result):
            changed = None if input is None else "{}"
            result = None if result is None else FORGOTTEN_TEXT
            return msgspec.structs.replace(event, input=changed, reason=reason and FORGOTTEN_TEXT, result=result)
        case Judged(scores=scores):
            blanked = tuple(
                msgspec.structs.replace(
                    score, reason=score.reason and FORGOTTEN_TEXT, error=score.error and FORGOTTEN_TEXT
                )
                for score in scores
            )
            return msgspec.structs.replace(event, scores=blanked)
        case Guarded():
            return msgspec.structs.replace(event, note="")
        case Folded():  # all of it is a summary of the redacted records
            return Blanked()
    return event


def remove_facts(fold: Folded, facts: Sequence[Fact]) -> Folded:
    """Return the fold without these facts."""
    removed = {_fact_key(fact) for fact in facts}
    return msgspec.structs.replace(fold, facts=tuple(fact for fact in fold.facts if _fact_key(fact) not in removed))


def _fact_key(fact: Fact) -> tuple[str, ...]:
    return tuple(" ".join(text.casefold().split()) for text in (fact.subject, fact.predicate, fact.object))


def _redact_part(part: AnyPart) -> AnyPart:
    match part:
        case Text(text=text):
            return msgspec.structs.replace(part, text=text and FORGOTTEN_TEXT)
        case Thinking():  # the signature would no longer match, and the provider would refuse it
            return msgspec.structs.replace(part, text=FORGOTTEN_TEXT, signature="")
        case ToolCall():
            return msgspec.structs.replace(part, input="{}")
        case ToolResult():
            return msgspec.structs.replace(part, content=FORGOTTEN_TEXT)
        case Binary():
            return msgspec.structs.replace(part, data=b"", path="")
    return part


def decode_event(body: str | bytes) -> Event:
    """Decode one stored event, of any release; raises StoreCorrupt or StoreTooNew."""
    try:
        return _decode(body)
    except msgspec.DecodeError as error:
        return _decode_upcast(body, error)


def decode_events(bodies: Sequence[str]) -> Iterable[Event]:
    """Decode many stored events with one call into C, which is fast enough for a session's whole window."""
    try:
        return _decode_all("[" + ",".join(bodies) + "]")
    except msgspec.DecodeError:
        return [decode_event(body) for body in bodies]


def _decode_upcast(body: str | bytes, error: msgspec.DecodeError) -> Event:
    try:
        fields = msgspec.json.decode(body, type=JsonObject)
        tag = str(fields["type"])
    except (msgspec.DecodeError, KeyError):
        raise StoreCorrupt(f"a journal record cannot be read: {error}") from error
    if tag in UPCASTS:
        event: Event = msgspec.convert(UPCASTS[tag](fields), DurableEvent)
        return event
    if tag not in _KNOWN_TAGS:
        raise StoreTooNew(
            f"the journal contains a record of type {tag!r} that this release does not know; use the newer release"
        ) from error
    raise StoreCorrupt(f"a journal record of type {tag} cannot be read: {error}") from error
