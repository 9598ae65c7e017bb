"""Transcripts of turns for checks and judges, built from the journal of a session."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import msgspec

from mainstay.core.events import Folded, Relieved, TurnEnded, TurnStarted
from mainstay.core.journal import Record
from mainstay.core.json_types import JsonObject
from mainstay.core.messages import Message, ToolCall, ToolResult, Usage
from mainstay.core.outcome import Aborted, Answered, Exhausted, Failed, Outcome, Paused
from mainstay.core.session import Session
from mainstay.turn.tool_search import CALL_TOOL, parse_catalogue_call
from mainstay.turn.toolbox import UNKNOWN_TOOL_PREFIX


class TranscriptCall(msgspec.Struct, frozen=True):
    """A tool call that the model requested, whether or not it was allowed to run."""

    tool: str
    arguments: JsonObject | None  # None: they were not a JSON object
    result: str = ""
    exists: bool = True  # False: there is no tool of this name


class Transcript(msgspec.Struct, frozen=True, kw_only=True):
    """One turn, or several turns merged into one."""

    prompt: str
    answer: str
    outcome: Outcome
    turn: int = 1
    messages: tuple[Message, ...] = ()
    calls: tuple[TranscriptCall, ...] = ()
    steps: int = 0
    usage: Usage = Usage()
    cost: float = 0.0
    seconds: float = 0.0
    models: tuple[str, ...] = ()

    @property
    def tokens(self) -> int:
        return self.usage.prompt + self.usage.completion


def read_transcripts(records: Sequence[Record]) -> list[Transcript]:
    """Return the transcript of every finished turn, oldest first. Imported history has no turns."""
    session = Session("eval")
    transcripts: list[Transcript] = []
    first_message, started_at = 0, 0
    for record in records:
        match record.event:
            case Folded() | Relieved():  # these change the context only, not the messages
                continue
            case TurnStarted():
                first_message, started_at = len(session.messages), record.at
            case TurnEnded(outcome=outcome) if session.open_turn is not None:
                transcripts.append(_build_transcript(session, first_message, outcome, (record.at - started_at) / 1000))
        session.apply(record.seq, record.at, record.event)
    return transcripts


def _build_transcript(session: Session, first_message: int, outcome: Outcome, seconds: float) -> Transcript:
    turn = session.open_turn
    assert turn is not None, "it is about to end"
    messages = tuple(session.messages[first_message:])
    last = messages[-1] if messages else None
    return Transcript(
        prompt="\n\n".join(message.text for message in messages if message.role == "user"),
        answer=last.text if last is not None and last.role == "assistant" else "",
        outcome=outcome,
        turn=turn.turn,
        messages=messages,
        calls=_list_calls(messages),
        steps=turn.step,
        usage=turn.usage,
        cost=turn.cost,
        seconds=seconds,
        models=tuple(dict.fromkeys(message.model for message in messages if message.model)),
    )


def _list_calls(messages: Sequence[Message]) -> tuple[TranscriptCall, ...]:
    parts = [part for message in messages for part in message.parts]
    results = {part.call_id: part for part in parts if isinstance(part, ToolResult)}
    return tuple(_to_transcript_call(call, results.get(call.id)) for message in messages for call in message.calls)


def _to_transcript_call(call: ToolCall, result: ToolResult | None) -> TranscriptCall:
    name, input = call.name, call.input
    if name == CALL_TOOL and (inner := parse_catalogue_call(input)) is not None:  # called through the tool catalogue
        name, input = inner.name, msgspec.json.encode(inner.arguments).decode()
    try:
        arguments = msgspec.json.decode(input or "{}")
    except (msgspec.DecodeError, ValueError, RecursionError):
        arguments = None
    text = result.content if result is not None else ""
    exists = result is None or not (result.is_error and text.startswith(UNKNOWN_TOOL_PREFIX))
    return TranscriptCall(name, arguments if isinstance(arguments, dict) else None, text, exists)


def merge_transcripts(turns: Sequence[Transcript], expected_turns: Collection[int] = ()) -> Transcript:
    """Merge the turns of a case: the last answer, all calls and costs, and the first outcome other than Answered.

    The outcomes of `expected_turns` (counted from 0) are ignored.
    """
    last = turns[-1]
    others = [turn.outcome for number, turn in enumerate(turns) if number not in expected_turns]
    outcome = next((turn for turn in others if not isinstance(turn, Answered)), Answered())
    usage = Usage()
    for turn in turns:
        usage = usage + turn.usage
    return Transcript(
        prompt=_format_earlier_turns(turns) + last.prompt,
        answer=last.answer,
        outcome=outcome,
        turn=last.turn,
        messages=tuple(message for turn in turns for message in turn.messages),
        calls=tuple(call for turn in turns for call in turn.calls),
        steps=sum(turn.steps for turn in turns),
        usage=usage,
        cost=sum(turn.cost for turn in turns),
        seconds=sum(turn.seconds for turn in turns),
        models=tuple(dict.fromkeys(name for turn in turns for name in turn.models)),
    )


def _format_earlier_turns(turns: Sequence[Transcript]) -> str:
    """Return the earlier turns as text for judges, because the last prompt may refer to them."""
    earlier = [f"person: {turn.prompt}\n\nassistant: {turn.answer}\n\n" for turn in turns[:-1]]
    return "".join(["Earlier in this conversation:\n\n", *earlier, "Now:\n\n"]) if earlier else ""


def get_outcome_name(outcome: Outcome) -> str:
    """Return the name of an outcome in a case file."""
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
