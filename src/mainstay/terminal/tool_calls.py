"""Tool calls in the chat: keeps track of them and formats each as one row or with all its details."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

import msgspec

from mainstay.core.events import (
    ApprovalAsked,
    Event,
    MessageAdded,
    ToolCallReady,
    ToolCallStarted,
    ToolFinished,
    ToolProgress,
    ToolStarted,
    TurnEnded,
)
from mainstay.core.messages import Message, ToolCall, ToolResult
from mainstay.core.outcome_text import format_count
from mainstay.guards.terminal_sanitizer import escape_line, sanitize_text
from mainstay.terminal.formatters import StyledLine, format_duration

VALUE_CHARS_MAX = 60
LINE_CHARS_MAX = 160
RESULT_LINES_MAX = 4
SUMMARY_CHARS_MAX = 40
HELD_BACK_PREFIX = "[held back"  # how the sandbox marks removals that it prevented
CALLS_KEPT_MAX = 100  # calls whose details can still be shown
DETAIL_LINES_MAX = 400


def format_call(name: str, input: str) -> str:
    """Return `● add(a=2, b=3)`, with control characters escaped."""
    return f"● {escape_line(name, LINE_CHARS_MAX)}({escape_line(_format_call_arguments(input), LINE_CHARS_MAX)})"


def _format_call_arguments(input: str) -> str:
    try:
        arguments = json.loads(input or "{}")
        if isinstance(arguments, dict):
            return ", ".join(f"{key}={_format_value(value)}" for key, value in arguments.items())
    except (ValueError, RecursionError):  # a model can write endlessly nested brackets
        pass
    return input


def _format_value(value: object) -> str:
    return escape_line(json.dumps(value, ensure_ascii=False), VALUE_CHARS_MAX)


def format_result(content: str, ms: int | None = None, lines_max: int = RESULT_LINES_MAX) -> list[str]:
    """Return `  └ 5`: at most `lines_max` lines of the result, with the duration after the first."""
    lines = _split_lines(content) or ["(empty)"]
    excerpt = [escape_line(line, LINE_CHARS_MAX) for line in lines[:lines_max]]
    if len(lines) > lines_max:
        excerpt.append(f"… {format_count(len(lines) - lines_max, 'more line')}")
    if ms is not None:
        excerpt[0] += f"  {ms} ms"
    return [f"  {'└' if number == 0 else ' '} {line}" for number, line in enumerate(excerpt)]


def _split_lines(content: str) -> list[str]:
    return [line.rstrip() for line in sanitize_text(content).expandtabs(4).splitlines() if line.strip()]


def find_held_back_lines(content: str) -> list[str]:
    """Return the lines that report removals which the sandbox prevented.

    The command itself may claim that they happened, so the user must see these lines.
    """
    return [escape_line(line, LINE_CHARS_MAX) for line in content.splitlines() if line.startswith(HELD_BACK_PREFIX)]


# --- the calls of a session ----------------------------------------------------------------------


class TrackedToolCall(msgspec.Struct):
    """A tool call and its current state."""

    number: int
    id: str
    name: str
    input: str | None = None  # None: the model is still writing it
    started_at: float = 0.0  # when it started to run; 0: it is not running
    progress_note: str = ""  # the latest progress message
    result: ToolResult | None = None
    duration_s: float | None = None  # None: not measured

    @property
    def heading(self) -> str:
        return (
            f"● {escape_line(self.name, LINE_CHARS_MAX)}(…"
            if self.input is None
            else format_call(self.name, self.input)
        )

    @property
    def summary(self) -> str:
        """The result in a few words: `5`, `12 lines`."""
        if self.result is None:
            return "no result"
        lines = _split_lines(self.result.content)
        if len(lines) == 1 and len(lines[0]) <= SUMMARY_CHARS_MAX:
            return escape_line(lines[0].strip())
        return format_count(len(lines), "line") if lines else "empty"

    @property
    def details(self) -> list[str]:
        took = [] if self.duration_s is None else [format_duration(self.duration_s)]
        return [self.summary, *took, f"#{self.number}"]


class ToolCallLog:
    """The tool calls of the chat's session, numbered while the chat is open; only the newest are kept."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self.reset()

    def reset(self, messages: Sequence[Message] = ()) -> None:
        """Start over for another session, whose latest messages are `messages`."""
        self._calls: dict[str, TrackedToolCall] = {}
        self._count = 0
        for message in messages:
            for part in message.parts:
                match part:
                    case ToolCall():
                        self._get_or_add(part.id, part.name).input = part.input
                    case ToolResult():
                        self._get_or_add(part.call_id, part.name).result = part

    def apply_event(self, event: Event) -> None:
        match event:
            case ToolCallStarted(call_id=call_id, name=name):
                self._get_or_add(call_id, name, is_new_if_finished=True)
            case MessageAdded(role="assistant", parts=parts):
                for part in parts:
                    if isinstance(part, ToolCall):
                        self._get_or_add(part.id, part.name, is_new_if_finished=True).input = part.input
            case ToolCallReady(call_id=call_id, name=name, input=input):
                call = self._get_or_add(call_id, name)
                call.input, call.started_at = input, self._now()
            case ToolStarted(call_id=call_id) if call_id in self._calls:
                self._calls[call_id].started_at = self._now()
            case ToolProgress(call_id=call_id, note=note) if call_id in self._calls:
                self._calls[call_id].progress_note = escape_line(note, 100)
            case ApprovalAsked(call_id=call_id, name=name, input=input, ran=None):
                call = self._get_or_add(call_id, name)
                call.input, call.started_at = input, 0.0  # time that the user takes to decide is not the tool's
            case ToolFinished(result=result):
                call = self._get_or_add(result.call_id, result.name)
                call.result, call.progress_note = result, ""
                call.duration_s = self._now() - call.started_at if call.started_at else None
            case TurnEnded():
                for call in self._calls.values():
                    call.started_at, call.progress_note = 0.0, ""

    def _get_or_add(self, id: str, name: str, *, is_new_if_finished: bool = False) -> TrackedToolCall:
        """Return the call with this id, or add it.

        Ids are unique within a turn only: with `is_new_if_finished`, a finished call of this id is another call.
        """
        known = self._calls.get(id)
        if known is not None and not (is_new_if_finished and known.result is not None):
            return known
        if known is not None:
            self._calls[f"{id}#{known.number}"] = self._calls.pop(id)
        self._count += 1
        call = self._calls[id] = TrackedToolCall(self._count, id, name)
        while len(self._calls) > CALLS_KEPT_MAX:
            del self._calls[next(iter(self._calls))]
        return call

    def get(self, id: str) -> TrackedToolCall | None:
        return self._calls.get(id)

    def find_by_number(self, number: int) -> TrackedToolCall | None:
        return next((call for call in self._calls.values() if call.number == number), None)

    @property
    def by_number(self) -> list[TrackedToolCall]:
        return sorted(self._calls.values(), key=lambda call: call.number)


def format_call_row(call: TrackedToolCall) -> StyledLine:
    failed = call.result is not None and call.result.is_error
    style, sign = ("red", "✗ ") if failed else ("dim", "")
    return (call.heading, "cyan"), (f" · {sign}{' · '.join(call.details)}", style)


def format_call_details(call: TrackedToolCall) -> list[StyledLine]:
    """Return all arguments and the result, up to DETAIL_LINES_MAX lines of it."""
    from mainstay.trust.approval_text import format_arguments  # loaded with the first call that is shown

    took = "" if call.duration_s is None else f" · {format_duration(call.duration_s)}"
    details: list[StyledLine] = [((f"#{call.number} {escape_line(call.name)}", "bold cyan"), (took, "dim"))]
    for line in format_arguments(call.input or ""):
        details.append(((line, "default"),))
    if call.result is None:
        return [*details, (("  no result", "dim"),)]
    style = "red" if call.result.is_error else "default"
    lines = sanitize_text(call.result.content).expandtabs(4).rstrip().split("\n")
    details.append(
        ((f"  {'failed' if call.result.is_error else 'result'}, {format_count(len(lines), 'line')}", "dim"),)
    )
    details += [(("  │ ", "dim"), (line, style)) for line in lines[:DETAIL_LINES_MAX]]
    if (more := len(lines) - DETAIL_LINES_MAX) > 0:
        details.append(((f"  … {format_count(more, 'more line')}", "dim"),))
    return details
