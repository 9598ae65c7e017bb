"""Formats a session's journal for people: the conversation, and one line per event."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from mainstay.cli.commands.output import format_time, style_text
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
from mainstay.core.messages import AnyPart, Binary, Message, Text, Thinking, ToolCall, ToolResult, parts_text
from mainstay.core.outcome import Answered
from mainstay.core.outcome_text import describe_outcome, format_dollars
from mainstay.core.session import Session
from mainstay.guards.terminal_sanitizer import escape_line, sanitize_text
from mainstay.terminal.formatters import describe_stop, format_number
from mainstay.terminal.formatters import describe_verdict as verdict_of
from mainstay.terminal.tool_calls import format_call, format_result

_ROLE_STYLES = {"user": ("you", "cyan"), "assistant": ("agent", "green"), "system": ("runtime", "dim")}


def format_conversation(records: Sequence[Record]) -> Iterator[str]:
    """Return the lines of the conversation, in order, ready to print."""
    session = Session("show")
    for record in records:
        before = session.message_count
        session.apply(record.seq, record.at, record.event)
        for message in session.messages[-(session.message_count - before) or len(session.messages) :]:
            yield from _format_message(message)
        match record.event:
            case TurnEnded(outcome=outcome) if not isinstance(outcome, Answered):
                yield from ("", style_text(f"— {escape_line(describe_stop(outcome))}", "yellow"))
            case Judged():
                yield from _format_verdict(record.event)


def _format_verdict(judged: Judged) -> Iterator[str]:
    """Return the verdict on the answer above it, and the score of each judge."""
    colour = "dim" if judged.passed else "yellow"
    yield from ("", style_text(f"— {escape_line(verdict_of(judged))}", colour))
    for score in judged.scores:
        if score.score is not None:
            reason = escape_line(score.reason) or "no reason given"
            yield style_text(f"  {escape_line(score.judge)} {score.score:.2f}: {reason}", "dim")


def _format_message(message: Message) -> Iterator[str]:
    if message.role in _ROLE_STYLES:
        name, colour = _ROLE_STYLES[message.role]
        yield ""
        yield f"{style_text(name, 'bold', colour)} {style_text(format_time(message.at), 'dim')}"
    for part in message.parts:
        yield from (f"  {line}".rstrip() for line in _format_part(part))


def _format_part(part: AnyPart) -> Iterator[str]:
    match part:
        case Text(text=text):
            yield from sanitize_text(text).splitlines()
        case Thinking(text=text):
            yield from (style_text(line, "dim") for line in sanitize_text(text).splitlines())
        case ToolCall():
            yield format_call(part.name, part.input)
        case ToolResult():
            for line in format_result(part.content):
                yield style_text(line, "red") if part.is_error else line
        case Binary():
            yield f"[{escape_line(part.mime)} {escape_line(part.path) or f'{len(part.data):,} bytes'}]"


def format_event_row(event: Event) -> tuple[str, str, str, str]:
    """Return turn, step, a short description, and tokens."""
    usage = event.usage if isinstance(event, MessageAdded) else None
    spent = f"{format_number(usage.prompt)} / {format_number(usage.completion)}" if usage is not None else ""
    return str(event.turn or ""), str(event.step or ""), escape_line(_summarize_event(event), 80), spent


def _summarize_event(event: Event) -> str:
    match event:
        case Received(parts=parts, kind=kind):
            return parts_text(parts) if kind == "prompt" else f"{kind}: {parts_text(parts)}"
        case TurnStarted(model=model):
            return model
        case MessageAdded(role=role, parts=parts, cost=cost):
            texts = [parts_text(parts), *(f"{part.name}({part.input})" for part in parts if isinstance(part, ToolCall))]
            return " ".join([f"{role}:", *filter(None, texts), *filter(None, [format_dollars(cost)])])
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
        case StepCheckpointed(text=text, thinking=thinking, calls=calls):
            return text or thinking or calls
        case StepRestarted(reason=reason):
            return reason
        case Folded(upto=upto, summary=summary):
            return f"up to {upto}: {summary}"
        case TurnEnded(outcome=outcome):
            return describe_outcome(outcome)
        case Delivered(to=to, ids=ids, state=state, note=note):
            return " ".join(filter(None, [f"{state} to {to}", ", ".join(ids), note]))
        case SessionChanged(guests=guests) if guests is not None:
            return f"client tools: {', '.join(tool.name for tool in guests) or 'none'}"
        case SessionChanged():
            names = ("title", "status", "model", "instructions", "metadata")
            return ", ".join(f"{name} = {getattr(event, name)}" for name in names if getattr(event, name) is not None)
        case Forked(parent=parent, upto=upto):
            return f"from {parent}, records 1 to {upto}"
    return ""
