"""Redaction of secrets in what a caller reads of other people's sessions: events, records, approvals, memory.

The journal has tool results as they are, and answers that showed a secret to the person who asked for it. Everybody
but that person reads them without secrets. The owner of the home, who has the files, reads everything.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable
from contextlib import aclosing
from typing import TypeVar

import msgspec

from mainstay.core.chat_addresses import is_room_key
from mainstay.core.events import Event, TextDelta, ThinkingDelta, ToolCallDelta
from mainstay.core.outcome import Reply
from mainstay.core.session import Session
from mainstay.guards.guardrails import Guardrails
from mainstay.guards.redaction import RedactionStream
from mainstay.operations.caller import Caller

T = TypeVar("T")

# Identifiers, which clients send back. Every other text is redacted, also those of fields that are added later.
_IDENTIFIERS = frozenset(
    ("type", "id", "call_id", "session", "key", "digest", "message_id", "parent", "model", "trace", "mime", "ids")
)


class SecretVisibility:
    """Whose sessions a caller reads; the answers are kept for one request."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller
        self._own: dict[str, bool] = {}

    async def redact_others(self, value: T, session: str) -> T:
        """Return a struct without secrets, unless the session is the caller's own. "" is no session."""
        guards = await self.find_guards(session)
        return redact_struct(value, guards) if guards is not None else value

    async def redact_all(self, values: Iterable[tuple[T, str]]) -> list[T]:
        """Redact each struct that belongs to a session of another person."""
        return [await self.redact_others(value, session) for value, session in values]

    async def find_guards(self, session: str) -> Guardrails | None:
        """Return the guards that redact texts of this session for the caller; None if they are not redacted."""
        if not self._caller.person:
            return None
        if session not in self._own:
            self._own[session] = await self._is_own(session)
        return None if self._own[session] else (await self._caller.runtime()).services.trust.guards

    async def _is_own(self, session: str) -> bool:
        if not session or is_room_key(session):  # several people write in a room
            return False
        info = await (await self._caller.runtime()).services.store.get_session(session)
        return info is not None and info.person == self._caller.person


async def redact_reply(caller: Caller, session: Session, reply: Reply) -> Reply:
    """Return a reply as the caller may read it, without a look into the store for the caller's own session."""
    if session.started_by == caller.principal.person and (":" not in session.key or not is_room_key(session.key)):
        return reply
    return await SecretVisibility(caller).redact_others(reply, session.key)


async def redact_streamed_reply(caller: Caller, session: str, reply: Reply) -> Reply:
    """Return the reply of a turn that was streamed, in a session of this name, as the caller may read it."""
    if not caller.person:
        return reply
    lane = (await caller.runtime()).lanes.get(caller.session_key(session))
    return await redact_reply(caller, await lane.load_session(), reply)


def redact_struct(value: T, guards: Guardrails) -> T:
    """Return a struct with all texts redacted, except identifiers."""
    plain = msgspec.to_builtins(value, builtin_types=(bytes,))
    clean = _redact_plain(plain, guards)
    return value if clean == plain else msgspec.convert(clean, type=type(value), builtin_types=(bytes,))


def _redact_plain(value: object, guards: Guardrails) -> object:
    match value:
        case str():
            return guards.redact_text(value)
        case dict():
            return {name: item if name in _IDENTIFIERS else _redact_plain(item, guards) for name, item in value.items()}
        case list() | tuple():
            return [_redact_plain(item, guards) for item in value]
    return value


# --- live events ---------------------------------------------------------------------------------


class EventRedactor:
    """Redacts the events of one session. A secret may be split over several deltas: what may be the beginning of one is
    held back until the next delta, or another event, follows."""

    def __init__(self, guards: Guardrails) -> None:
        self._guards = guards
        self._stream: RedactionStream | None = None
        self._last: TextDelta | ThinkingDelta | ToolCallDelta | None = None

    def feed(self, event: Event) -> list[Event]:
        if not isinstance(event, TextDelta | ThinkingDelta | ToolCallDelta):
            return [*self._flush(), redact_struct(event, self._guards)]
        flushed = [] if self._continues(event) else self._flush()
        if self._stream is None:
            self._stream = self._guards.open_answer_stream()
        self._last = event
        text = event.input if isinstance(event, ToolCallDelta) else event.text
        return [*flushed, *self._build_delta(self._stream.feed(text) if self._stream is not None else text)]

    def _continues(self, event: TextDelta | ThinkingDelta | ToolCallDelta) -> bool:
        last = self._last
        if type(last) is not type(event) or last is None or (last.turn, last.step) != (event.turn, event.step):
            return False
        return not isinstance(event, ToolCallDelta) or getattr(last, "call_id", "") == event.call_id

    def _flush(self) -> list[Event]:
        rest = self._stream.finish() if self._stream is not None else ""
        flushed = self._build_delta(rest)
        self._stream = self._last = None
        return flushed

    def _build_delta(self, text: str) -> list[Event]:
        match self._last:
            case ToolCallDelta() if text:
                return [msgspec.structs.replace(self._last, input=text)]
            case TextDelta() | ThinkingDelta() if text:
                return [msgspec.structs.replace(self._last, text=text)]
        return []


async def redact_event_stream(
    caller: Caller, events: AsyncGenerator[Event, None], session: str = ""
) -> AsyncGenerator[Event, None]:
    """Yield the events as the caller may read them. `session` is set for a stream of one session."""
    visibility = SecretVisibility(caller)
    redactors: dict[str, EventRedactor | None] = {}
    async with aclosing(events):
        async for event in events:
            key = session or event.session
            if key not in redactors:
                guards = await visibility.find_guards(key)
                redactors[key] = EventRedactor(guards) if guards is not None else None
            redactor = redactors[key]
            if redactor is None:
                yield event
                continue
            for clean in redactor.feed(event):
                yield clean
