"""A turn on the screen: what of it is settled and printed for good, and what is still moving."""

from __future__ import annotations

from collections.abc import Callable

from rich.console import Group, RenderableType
from rich.text import Text

from mainstay.app.chat.asking import asked_lines, how
from mainstay.app.chat.calls import call_line, result_lines
from mainstay.app.chat.markdown import rendered, settled
from mainstay.app.chat.safe import Stream, safe, visible
from mainstay.app.chat.words import MARK, ending, notice, usage_line
from mainstay.core.events import (
    ApprovalAsked,
    Event,
    MessageAdded,
    Steered,
    StepRestarted,
    TextDelta,
    ThinkingDelta,
    ToolCallReady,
    ToolCallStarted,
    ToolFinished,
    ToolProgress,
    TurnEnded,
)
from mainstay.core.messages import ToolCall, ToolResult, Usage, text_of
from mainstay.core.outcome import Answered, Failed, Outcome

THOUGHT_CHARS = 60


class Screen:
    """`show` what happens, then `take` what is settled and look at what is `live`."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._settled: list[RenderableType] = []
        self._last = ""  # kind of what was settled last
        self._asked_at: float | None = None
        self._inputs: dict[str, str] = {}  # of calls, for those that never run
        self._steers: list[str] = []
        self._begin_turn(0)

    def _begin_turn(self, turn: int) -> None:
        self._turn = turn
        self._started = self._now() if self._asked_at is None else self._asked_at
        self._asked_at = None
        self._usage = Usage()
        self._cost = 0.0
        self._begin_step()

    def _begin_step(self) -> None:
        self._clean = Stream()
        self._said = ""  # of this step, as it came
        self._text = ""  # of it, what is not settled yet
        self._thought = ""
        self._thought_since = 0.0
        self._calls: dict[str, tuple[str, float]] = {}  # running calls: how they look, since when

    # --- what happens ----------------------------------------------------------------------------

    def show(self, event: Event) -> None:
        if event.turn and event.turn != self._turn:
            self._begin_turn(event.turn)
        match event:
            case ThinkingDelta(text=text):
                self._thought_since = self._thought_since or self._now()
                self._thought += safe(text)
            case TextDelta(text=text):
                self._end_thought()
                self._said += text
                self._text += self._clean.feed(text)
                self._settle_blocks()
            case ToolCallStarted(call_id=call_id, name=name):
                self._end_thought()
                self._calls.setdefault(call_id, (f"● {visible(name)}(…", self._now()))
            case ToolCallReady(call_id=call_id, name=name, input=input):
                self._calls[call_id] = (call_line(name, input), self._now())
            case ToolProgress(call_id=call_id, note=note) if call_id in self._calls:
                line, since = self._calls[call_id]
                self._calls[call_id] = (line.partition("\n")[0] + f"\n  … {visible(note, 100)}", since)
            case ToolFinished(result=result):
                self._finish_call(result)
            case MessageAdded(role="assistant"):
                self._finish_message(event)
            case Steered():
                self._settle_steers()
            case ApprovalAsked():
                self._calls.pop(event.call_id, None)  # it stands below, whole, and its time is not the tool's
                self._inputs[event.call_id] = event.input
                self._put("asked", Group(*(_line(line, "bold yellow") for line in asked_lines(event))))
                self.lines(how(event))
            case StepRestarted(reason=reason):
                self._begin_step()
                self.note(f"the answer broke off and starts again: {reason}", "yellow")
            case TurnEnded(outcome=outcome):
                self._finish_turn(outcome)
            case _:
                if (said := notice(event)) is not None:
                    self.note(said, "yellow")

    def _finish_message(self, event: MessageAdded) -> None:
        self._end_thought()
        whole = text_of(event.parts)
        if whole.startswith(self._said):  # a slow screen may have missed pieces; the whole message has them
            self._text += self._clean.feed(whole[len(self._said) :]) + self._clean.end()
        else:
            self.note("some of it was missed; here is all of it", "yellow")
            self._text = safe(whole)
        self._settle_text()
        self._said = ""
        for call in (part for part in event.parts if isinstance(part, ToolCall)):
            self._inputs[call.id] = call.input
            if call.id in self._calls:  # it may be refused before it is ready
                self._calls[call.id] = (call_line(call.name, call.input), self._calls[call.id][1])
        self._usage = self._usage + (event.usage or Usage())
        self._cost += event.cost

    def _finish_call(self, result: ToolResult) -> None:
        line, since = self._calls.pop(result.call_id, ("", 0.0))
        head = call_line(result.name, self._inputs.get(result.call_id, "")) if not line else line.partition("\n")[0]
        ms = round((self._now() - since) * 1000) if since else None
        body = result_lines(result.content, ms)
        style = "red" if result.is_error else "dim"
        self._put("tool", Group(_line(head, "cyan"), *(_line(one, style) for one in body)))

    def _finish_turn(self, outcome: Outcome) -> None:
        self._end_thought()
        self._settle_text()
        self._settle_steers()
        self._calls.clear()
        self._inputs.clear()
        spent = usage_line(self._usage, self._cost, self._now() - self._started)
        if isinstance(outcome, Answered):
            self._put("usage", _line(spent, "dim"))
        else:
            style = "red" if isinstance(outcome, Failed) else "yellow"
            self._put("usage", Text.assemble((visible(ending(outcome)), style), (f" · {spent}", "dim")))
        self._begin_step()

    # --- what is settled -------------------------------------------------------------------------

    def take(self) -> list[RenderableType]:
        """What can be printed for good, once."""
        taken, self._settled = self._settled, []
        return taken

    def know(self, inputs: dict[str, str]) -> None:
        """Calls that were made before this screen was there."""
        self._inputs = dict(inputs)

    def asked(self, text: str) -> None:
        self._asked_at = self._started = self._now()
        self.typed(text)

    def typed(self, text: str) -> None:
        self._put("person", _typed(MARK, text))

    def steered(self, text: str) -> None:
        """It stands below the moving part until the turn takes it up: there it belongs."""
        self._steers.append(text)

    def _settle_steers(self) -> None:
        steers, self._steers = self._steers, []
        for text in steers:
            self._put("person", _typed("↪ ", text))

    def note(self, sentence: str, style: str = "dim") -> None:
        self._put("note", _line(visible(sentence), style))

    def lines(self, lines: list[str]) -> None:
        """What a command has to say; each line was made safe by who made it."""
        self._put("lines", Group(*(_line(line, "dim") for line in lines)))

    def _put(self, kind: str, thing: RenderableType) -> None:
        if kind != self._last or kind in ("text", "person", "lines"):
            self._settled.append(Text(""))
        self._settled.append(thing)
        self._last = kind

    def _settle_blocks(self) -> None:
        if "\n" not in self._text:
            return
        if cut := settled(self._text):
            self._put("text", rendered(self._text[:cut]))
            self._text = self._text[cut:]

    def _settle_text(self) -> None:
        text, self._text = self._text + self._clean.end(), ""
        if text.strip():
            self._put("text", rendered(text))

    def _end_thought(self) -> None:
        if self._thought.strip():
            gist = visible(" ".join(self._thought.split()), THOUGHT_CHARS)
            seconds = self._now() - self._thought_since
            self._put("thought", _line(f"✻ thought for {seconds:.1f} s: {gist}", "dim italic"))
        self._thought, self._thought_since = "", 0.0

    # --- what is moving --------------------------------------------------------------------------

    @property
    def seconds(self) -> float:
        return self._now() - self._started

    def live(self) -> RenderableType | None:
        """What may still change, or None."""
        parts: list[RenderableType] = []
        if self._thought.strip():
            tail = visible(" ".join(self._thought.split())[-THOUGHT_CHARS:])
            parts.append(_line(f"✻ thinking… {tail}", "dim italic"))
        if self._text.strip():
            parts.append(rendered(self._text))
        parts += [_line(line, "cyan") for line, _ in self._calls.values()]
        parts += [_typed("↪ ", text) for text in self._steers]
        return Group(*parts) if parts else None


def _typed(mark: str, text: str) -> RenderableType:
    lines = safe(text).expandtabs(4).split("\n")
    return Group(*(_line((mark if number == 0 else "  ") + line, "bold cyan") for number, line in enumerate(lines)))


def _line(text: str, style: str) -> Text:
    return Text(text, style=style, overflow="fold")
