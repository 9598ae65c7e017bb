"""Tool calls: in a few lines, in one, and unfolded."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

import msgspec

from mainstay.cli.chat.asking import arguments_of
from mainstay.cli.chat.safe import safe, visible
from mainstay.cli.chat.words import Line, count, lasted
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

VALUE_CHARS_MAX = 60
LINE_CHARS_MAX = 160
RESULT_LINES_MAX = 4
GIST_CHARS = 40
HELD_BACK = "[held back"
KEPT_MAX = 100  # calls that can still be unfolded
UNFOLDED_LINES_MAX = 400


def call_line(name: str, input: str) -> str:
    """`● add(a=2, b=3)`; every control character in it is written out."""
    return f"● {visible(name, LINE_CHARS_MAX)}({visible(_arguments(input), LINE_CHARS_MAX)})"


def _arguments(input: str) -> str:
    try:
        given = json.loads(input or "{}")
        if isinstance(given, dict):
            return ", ".join(f"{key}={_value(value)}" for key, value in given.items())
    except (ValueError, RecursionError):  # a model may write brackets without end
        pass
    return input


def _value(value: object) -> str:
    return visible(json.dumps(value, ensure_ascii=False), VALUE_CHARS_MAX)


def result_lines(content: str, ms: int | None = None, lines_max: int = RESULT_LINES_MAX) -> list[str]:
    """`  └ 5`, at most a few lines of it, with how long it took behind the first."""
    lines = _lines(content) or ["(nothing)"]
    shown = [visible(line, LINE_CHARS_MAX) for line in lines[:lines_max]]
    if len(lines) > lines_max:
        shown.append(f"… {count(len(lines) - lines_max, 'more line')}")
    if ms is not None:
        shown[0] += f"  {ms} ms"
    return [f"  {'└' if number == 0 else ' '} {line}" for number, line in enumerate(shown)]


def _lines(content: str) -> list[str]:
    return [line.rstrip() for line in safe(content).expandtabs(4).splitlines() if line.strip()]


def held_back(content: str) -> list[str]:
    """What a command did not do, though it may say so: whoever sits there is to know."""
    return [visible(line, LINE_CHARS_MAX) for line in content.splitlines() if line.startswith(HELD_BACK)]


# --- those of a conversation ---------------------------------------------------------------------


class Call(msgspec.Struct):
    """A call as far as it has come."""

    number: int
    id: str
    name: str
    input: str | None = None  # the model is still writing it
    since: float = 0.0  # when it began to run
    note: str = ""  # how far it is
    result: ToolResult | None = None
    seconds: float | None = None

    @property
    def head(self) -> str:
        return f"● {visible(self.name, LINE_CHARS_MAX)}(…" if self.input is None else call_line(self.name, self.input)

    @property
    def gist(self) -> str:
        """What came of it, in a few words: `5`, `12 lines`."""
        if self.result is None:
            return "no result"
        lines = _lines(self.result.content)
        if len(lines) == 1 and len(lines[0]) <= GIST_CHARS:
            return visible(lines[0].strip())
        return count(len(lines), "line") if lines else "nothing"

    @property
    def facts(self) -> list[str]:
        took = [] if self.seconds is None else [lasted(self.seconds)]
        return [self.gist, *took, f"#{self.number}"]


class Calls:
    """Every call of a conversation by its number, as long as this chat is open; the oldest are forgotten."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self.begin()

    def begin(self, messages: Sequence[Message] = ()) -> None:
        """With another conversation, of which this is the end."""
        self._calls: dict[str, Call] = {}
        self._made = 0
        for message in messages:
            for part in message.parts:
                match part:
                    case ToolCall():
                        self._named(part.id, part.name).input = part.input
                    case ToolResult():
                        self._named(part.call_id, part.name).result = part

    def hear(self, event: Event) -> None:
        match event:
            case ToolCallStarted(call_id=call_id, name=name):
                self._named(call_id, name, again=True)
            case MessageAdded(role="assistant", parts=parts):
                for part in parts:
                    if isinstance(part, ToolCall):
                        self._named(part.id, part.name, again=True).input = part.input
            case ToolCallReady(call_id=call_id, name=name, input=input):
                call = self._named(call_id, name)
                call.input, call.since = input, self._now()
            case ToolStarted(call_id=call_id) if call_id in self._calls:
                self._calls[call_id].since = self._now()
            case ToolProgress(call_id=call_id, note=note) if call_id in self._calls:
                self._calls[call_id].note = visible(note, 100)
            case ApprovalAsked(call_id=call_id, name=name, input=input):
                call = self._named(call_id, name)
                call.input, call.since = input, 0.0  # somebody's time to think is not the tool's
            case ToolFinished(result=result):
                call = self._named(result.call_id, result.name)
                call.result, call.note = result, ""
                call.seconds = self._now() - call.since if call.since else None
            case TurnEnded():
                for call in self._calls.values():
                    call.since, call.note = 0.0, ""

    def _named(self, id: str, name: str, *, again: bool = False) -> Call:
        """An id belongs to one turn: the next may use it `again`, for another call."""
        found = self._calls.get(id)
        if found is not None and not (again and found.result is not None):
            return found
        if found is not None:
            self._calls[f"{id}#{found.number}"] = self._calls.pop(id)
        self._made += 1
        call = self._calls[id] = Call(self._made, id, name)
        while len(self._calls) > KEPT_MAX:
            del self._calls[next(iter(self._calls))]
        return call

    def get(self, id: str) -> Call | None:
        return self._calls.get(id)

    def numbered(self, number: int) -> Call | None:
        return next((call for call in self._calls.values() if call.number == number), None)

    @property
    def all(self) -> list[Call]:
        return sorted(self._calls.values(), key=lambda call: call.number)


def folded(call: Call) -> Line:
    failed = call.result is not None and call.result.is_error
    style, sign = ("red", "✗ ") if failed else ("dim", "")
    return (call.head, "cyan"), (f" · {sign}{' · '.join(call.facts)}", style)


def unfolded(call: Call) -> list[Line]:
    """All that went in and all that came out, up to what a person would still scroll through."""
    took = "" if call.seconds is None else f" · {lasted(call.seconds)}"
    made: list[Line] = [((f"#{call.number} {visible(call.name)}", "bold cyan"), (took, "dim"))]
    for line in arguments_of(call.input or ""):
        made.append(((line, "default"),))
    if call.result is None:
        return [*made, (("  no result", "dim"),)]
    style = "red" if call.result.is_error else "default"
    lines = safe(call.result.content).expandtabs(4).rstrip().split("\n")
    made.append(((f"  {'failed' if call.result.is_error else 'result'}, {count(len(lines), 'line')}", "dim"),))
    made += [(("  │ ", "dim"), (line, style)) for line in lines[:UNFOLDED_LINES_MAX]]
    if (more := len(lines) - UNFOLDED_LINES_MAX) > 0:
        made.append(((f"  … {count(more, 'more line')}", "dim"),))
    return made
