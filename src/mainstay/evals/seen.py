"""What happened in a session, turn by turn, as checks and judges look at it. The journal tells it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import msgspec

from mainstay.core.events import Folded, Relieved, TurnEnded, TurnStarted
from mainstay.core.journal import Record
from mainstay.core.messages import Message, ToolCall, Usage
from mainstay.core.outcome import Aborted, Answered, Exhausted, Failed, Outcome, Paused
from mainstay.core.session import Session
from mainstay.turn.catalogue import CALL, read_call


class Call(msgspec.Struct, frozen=True):
    """A tool call that the model wanted, whether or not it was let run."""

    tool: str
    arguments: dict[str, Any] | None  # None: they were no JSON object


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """A turn, or several as one."""

    prompt: str
    answer: str
    outcome: Outcome
    turn: int = 1
    messages: tuple[Message, ...] = ()
    calls: tuple[Call, ...] = ()
    steps: int = 0
    usage: Usage = Usage()
    cost: float = 0.0
    seconds: float = 0.0
    models: tuple[str, ...] = ()

    @property
    def tokens(self) -> int:
        return self.usage.prompt + self.usage.completion


def turns_of(records: Sequence[Record]) -> list[Seen]:
    """Every turn that has ended, the first first. What was brought from elsewhere has no turns."""
    session = Session("eval")
    found: list[Seen] = []
    first, began = 0, 0
    for record in records:
        match record.event:
            case Folded() | Relieved():  # these change what is shown, and nothing that was said
                continue
            case TurnStarted():
                first, began = len(session.messages), record.at
            case TurnEnded(outcome=outcome) if session.open is not None:
                found.append(_seen(session, first, outcome, (record.at - began) / 1000))
        session.apply(record.seq, record.at, record.event)
    return found


def _seen(session: Session, first: int, outcome: Outcome, seconds: float) -> Seen:
    turn = session.open
    assert turn is not None, "it is about to end"
    messages = tuple(session.messages[first:])
    last = messages[-1] if messages else None
    return Seen(
        prompt="\n\n".join(one.text for one in messages if one.role == "user"),
        answer=last.text if last is not None and last.role == "assistant" else "",
        outcome=outcome,
        turn=turn.turn,
        messages=messages,
        calls=tuple(_call(one) for message in messages for one in message.calls),
        steps=turn.step,
        usage=turn.usage,
        cost=turn.cost,
        seconds=seconds,
        models=tuple(dict.fromkeys(one.model for one in messages if one.model)),
    )


def _call(call: ToolCall) -> Call:
    name, input = call.name, call.input
    if name == CALL and (inner := read_call(input)) is not None:  # through the catalogue
        name, input = inner.name, msgspec.json.encode(inner.arguments).decode()
    try:
        arguments = msgspec.json.decode(input or "{}")
    except (msgspec.DecodeError, ValueError, RecursionError):
        arguments = None
    return Call(name, arguments if isinstance(arguments, dict) else None)


def together(turns: Sequence[Seen], expected: Collection[int] = ()) -> Seen:
    """Several turns of a case as one: the last answer, everything that was done for it, and the first trouble. Of
    those that are `expected` to end in some way (the first is 0), that is no trouble."""
    last = turns[-1]
    others = [one.outcome for number, one in enumerate(turns) if number not in expected]
    trouble = next((one for one in others if not isinstance(one, Answered)), Answered())
    usage = Usage()
    for one in turns:
        usage = usage + one.usage
    return Seen(
        prompt=_said_before(turns) + last.prompt,
        answer=last.answer,
        outcome=trouble,
        turn=last.turn,
        messages=tuple(message for one in turns for message in one.messages),
        calls=tuple(call for one in turns for call in one.calls),
        steps=sum(one.steps for one in turns),
        usage=usage,
        cost=sum(one.cost for one in turns),
        seconds=sum(one.seconds for one in turns),
        models=tuple(dict.fromkeys(name for one in turns for name in one.models)),
    )


def _said_before(turns: Sequence[Seen]) -> str:
    """For judges: what the last prompt may refer to."""
    said = [f"person: {one.prompt}\n\nassistant: {one.answer}\n\n" for one in turns[:-1]]
    return "".join(["Earlier in this conversation:\n\n", *said, "Now:\n\n"]) if said else ""


def named(outcome: Outcome) -> str:
    """As a case names it."""
    match outcome:
        case Answered():
            return "answered"
        case Exhausted():
            return "exhausted"
        case Aborted():
            return "aborted"
        case Paused():
            return "paused"
        case Failed():
            return "failed"
