"""Events and sessions as a person sees them: by the names that they know, without what is for the operator."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from mainstay.core.events import ApprovalAsked, Event, Forked, Spawned, TurnEnded
from mainstay.core.messages import ToolResult, Usage
from mainstay.core.outcome import Failed, Outcome, Reply
from mainstay.core.ports import Standing
from mainstay.gateway.visit import Visit

Shown = Callable[[Event], Event]
_DELICATE = (TurnEnded, Failed, Forked, Spawned)


def shown_events(visit: Visit, session: str) -> Shown:
    """Of one session. Most events are a few letters of an answer: those cost next to nothing here."""
    key = visit.key(session)
    renamed = visit.name(key) != key
    operator = visit.principal.role == "admin"

    def shown(event: Event) -> Event:
        if renamed and event.session not in ("", session):
            event = msgspec.structs.replace(event, session=session)
        return _plain(event, visit, operator) if isinstance(event, _DELICATE) else event

    return shown


def _plain(event: Event, visit: Visit, operator: bool) -> Event:
    match event:
        case Failed() if not operator:
            return msgspec.structs.replace(event, details="")
        case TurnEnded(outcome=Failed() as failed) if not operator:
            return msgspec.structs.replace(event, outcome=_told(failed))
        case Forked(parent=parent) | Spawned(parent=parent):
            return msgspec.structs.replace(event, parent=visit.name(parent) or "")
    return event


def _told(failed: Failed) -> Failed:
    return msgspec.structs.replace(failed, details="")


class ReplyShown(msgspec.Struct, frozen=True, kw_only=True):
    """What came of a prompt."""

    session: str
    turn: int
    text: str
    outcome: Outcome
    usage: Usage
    cost: float
    results: tuple[ToolResult, ...] = ()  # of its calls, in their order
    trace: str = ""  # what its turn is found under in logs, traces and the list of errors


def shown_reply(reply: Reply, visit: Visit, session: str) -> ReplyShown:
    outcome: Any = reply.outcome
    if isinstance(outcome, Failed):
        outcome = msgspec.structs.replace(outcome, session=session)
        if visit.principal.role != "admin":
            outcome = _told(outcome)
    return ReplyShown(
        session=session,
        turn=reply.turn,
        text=reply.text,
        outcome=outcome,
        usage=reply.usage,
        cost=reply.cost,
        results=reply.results,
        trace=reply.trace,
    )


class SessionShown(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A conversation."""

    id: str
    status: str
    workspace: str = ""
    person: str = ""  # who began it; empty: the owner
    title: str = ""
    model: str = ""
    parent: str = ""
    head: int = 0  # the sequence of its last event
    turns: int = 0
    messages: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost: float = 0.0
    created: int = 0  # ms
    updated: int = 0
    unfinished: bool = False
    untrusted: bool = False
    private: bool = False
    approval: ApprovalAsked | None = None
    metadata: dict[str, str] = {}


_SAME = tuple(name for name in SessionShown.__struct_fields__ if name not in ("id", "parent"))


def shown_session(standing: Standing, visit: Visit) -> SessionShown:
    same: dict[str, Any] = {name: getattr(standing, name) for name in _SAME}
    parent = visit.name(standing.parent) if standing.parent else ""
    return SessionShown(id=standing.key, parent=parent or "", **same)
