"""A session's journal as a person reads it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from mainstay.cli.chat.calls import call_line, result_lines
from mainstay.cli.chat.safe import safe, visible
from mainstay.cli.chat.words import dollars, ending, short, stopped
from mainstay.cli.chat.words import verdict as verdict_of
from mainstay.cli.commands.out import paint, when
from mainstay.core.events import (
    ApprovalAnswered,
    ApprovalAsked,
    Delivered,
    Event,
    Folded,
    Forked,
    Guarded,
    Judged,
    MessageAdded,
    Received,
    SessionChanged,
    Spawned,
    Steered,
    StepCheckpointed,
    StepRestarted,
    ToolFinished,
    ToolStarted,
    TurnEnded,
    TurnStarted,
)
from mainstay.core.journal import Record
from mainstay.core.messages import AnyPart, Binary, Message, Text, Thinking, ToolCall, ToolResult, text_of
from mainstay.core.outcome import Answered
from mainstay.core.session import Session

_WHO = {"user": ("you", "cyan"), "assistant": ("agent", "green"), "system": ("runtime", "dim")}


def conversation(records: Sequence[Record]) -> Iterator[str]:
    """What was said, in order, ready to print."""
    session = Session("show")
    for record in records:
        before = session.message_count
        session.apply(record.seq, record.at, record.event)
        for message in session.messages[-(session.message_count - before) or len(session.messages) :]:
            yield from _message(message)
        match record.event:
            case TurnEnded(outcome=outcome) if not isinstance(outcome, Answered):
                yield from ("", paint(f"— {visible(stopped(outcome))}", "yellow"))
            case Judged():
                yield from _verdict(record.event)


def _verdict(judged: Judged) -> Iterator[str]:
    """What was made of the answer above it, and by whom."""
    colour = "dim" if judged.passed else "yellow"
    yield from ("", paint(f"— {visible(verdict_of(judged))}", colour))
    for one in judged.scores:
        if one.score is not None:
            yield paint(
                f"  {visible(one.judge)} {one.score:.2f}: {visible(one.reason) or 'no reason was given'}", "dim"
            )


def _message(message: Message) -> Iterator[str]:
    if message.role in _WHO:
        name, colour = _WHO[message.role]
        yield ""
        yield f"{paint(name, 'bold', colour)} {paint(when(message.at), 'dim')}"
    for part in message.parts:
        yield from (f"  {line}".rstrip() for line in _part(part))


def _part(part: AnyPart) -> Iterator[str]:
    match part:
        case Text(text=text):
            yield from safe(text).splitlines()
        case Thinking(text=text):
            yield from (paint(line, "dim") for line in safe(text).splitlines())
        case ToolCall():
            yield call_line(part.name, part.input)
        case ToolResult():
            for line in result_lines(part.content):
                yield paint(line, "red") if part.is_error else line
        case Binary():
            yield f"[{visible(part.mime)} {visible(part.path) or f'{len(part.data):,} bytes'}]"


def trace_row(event: Event) -> tuple[str, str, str, str]:
    """Turn, step, what it says in a few words, and tokens."""
    usage = event.usage if isinstance(event, MessageAdded) else None
    spent = f"{short(usage.prompt)} / {short(usage.completion)}" if usage is not None else ""
    return str(event.turn or ""), str(event.step or ""), visible(_gist(event), 80), spent


def _gist(event: Event) -> str:
    match event:
        case Received(parts=parts, kind=kind):
            return text_of(parts) if kind == "prompt" else f"{kind}: {text_of(parts)}"
        case TurnStarted(model=model):
            return model
        case MessageAdded(role=role, parts=parts, cost=cost):
            said = [text_of(parts), *(f"{one.name}({one.input})" for one in parts if isinstance(one, ToolCall))]
            return " ".join([f"{role}:", *filter(None, said), *filter(None, [dollars(cost)])])
        case ToolStarted(call_id=call_id):
            return call_id
        case ToolFinished(result=result):
            return f"{result.name} → {'error: ' if result.is_error else ''}{result.content}"
        case ApprovalAsked(name=name, input=input, why=why):
            return f"{name}({input}): {why}"
        case ApprovalAnswered(verdict=verdict, by=by, reason=reason, always=always):
            return " ".join(filter(None, [verdict, by and f"by {by}", reason, always and f"always: {always}"]))
        case Guarded(stage=stage, action=action, kinds=kinds, note=note):
            return f"{stage}: {action} {', '.join(kinds)} {note}"
        case Spawned(parent=parent, tools=tools):
            return f"by {parent}, with {', '.join(tools)}"
        case Judged():
            return verdict_of(event)
        case Steered(inputs=inputs):
            return f"by record {', '.join(map(str, inputs))}"
        case StepCheckpointed(text=text, thinking=thinking):
            return text or thinking
        case StepRestarted(reason=reason):
            return reason
        case Folded(upto=upto, summary=summary):
            return f"up to {upto}: {summary}"
        case TurnEnded(outcome=outcome):
            return ending(outcome)
        case Delivered(to=to, ids=ids, state=state, note=note):
            return " ".join(filter(None, [f"{state} to {to}", ", ".join(ids), note]))
        case SessionChanged(guests=guests) if guests is not None:
            return f"tools of whoever asks: {', '.join(one.name for one in guests) or 'none'}"
        case SessionChanged():
            names = ("title", "status", "model", "instructions", "metadata")
            return ", ".join(f"{one} = {getattr(event, one)}" for one in names if getattr(event, one) is not None)
        case Forked(parent=parent, upto=upto):
            return f"from {parent}, records 1 to {upto}"
    return ""
