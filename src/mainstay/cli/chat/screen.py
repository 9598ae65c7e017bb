"""A turn on the screen: what of it is settled and printed for good, and what is still moving."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rich.cells import cell_len, set_cell_size
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.text import Text

from mainstay.cli.chat.asking import asked_lines, how
from mainstay.cli.chat.calls import Calls, held_back, result_lines
from mainstay.cli.chat.flow import Block, Flow
from mainstay.cli.chat.safe import Stream, safe, visible
from mainstay.cli.chat.words import CUT, MARK, Line, lasted, notice, stopped, traced, usage_line, verdict
from mainstay.core.events import (
    ApprovalAsked,
    Event,
    Judged,
    MessageAdded,
    Steered,
    StepRestarted,
    TextDelta,
    ThinkingDelta,
    ToolCallReady,
    ToolCallStarted,
    ToolFinished,
    TurnEnded,
    TurnStarted,
    Waiting,
)
from mainstay.core.messages import ToolResult, Usage, is_cut, text_of
from mainstay.core.outcome import Answered, Failed, Outcome

THOUGHT_CHARS = 60
WORTH_TELLING_S = 5.0  # a wait that was longer leaves a line behind
UNFOLDS = " · Ctrl-O unfolds it"


class Screen:
    """`show` what happens, then `take` what is settled and look at what is `live`. `charge` puts a price in words."""

    def __init__(self, now: Callable[[], float], calls: Calls, charge: Callable[[float], str]) -> None:
        self._now = now
        self._calls = calls
        self._charge = charge
        self._settled: list[RenderableType] = []
        self._last = ""  # kind of what was settled last
        self._asked_at: float | None = None
        self._steers: list[str] = []
        self._hinted = False  # that a call can be unfolded
        self._begin_turn(0)

    def _begin_turn(self, turn: int) -> None:
        self._turn = turn
        self._started = self._now() if self._asked_at is None else self._asked_at
        self._asked_at = None
        self._first_s: float | None = None  # until the model's first word
        self._usage = Usage()
        self._cost = 0.0
        self._wait: tuple[str, float, float] | None = None  # what for, since when, how long it will be
        self._asking: float | None = None  # since when a person is asked
        self._begin_step()

    def _begin_step(self) -> None:
        self._clean = Stream()
        self._flow = Flow()
        self._said = ""  # of this step, as it came
        self._cut = False  # the end of the last message is missing
        self._thought = ""
        self._thought_since = 0.0
        self._running: list[str] = []  # calls, by id

    # --- what happens ----------------------------------------------------------------------------

    def show(self, event: Event) -> None:
        if event.turn and event.turn != self._turn:
            self._begin_turn(event.turn)
        if not isinstance(event, Waiting | TurnStarted):
            self._end_wait()
        if self._asking is not None:  # somebody's time to think is not the turn's
            self._started += self._now() - self._asking
            self._asking = None
        match event:
            case ThinkingDelta(text=text):
                self._begin_answer()
                self._thought_since = self._thought_since or self._now()
                self._thought += safe(text)
            case TextDelta(text=text):
                self._begin_answer()
                self._end_thought()
                self._said += text
                self._blocks(self._flow.feed(self._clean.feed(text)))
            case ToolCallStarted(call_id=call_id) | ToolCallReady(call_id=call_id):
                self._end_thought()
                self._running += [call_id] if call_id not in self._running else []
            case ToolFinished(result=result):
                self._finish_call(result)
            case MessageAdded(role="assistant"):
                self._finish_message(event)
            case Judged(scores=scores, passed=passed):
                self._spend(*((one.usage, one.cost) for one in scores))
                self.note(verdict(event), "dim" if passed else "yellow")
            case Steered():
                self._settle_steers()
            case ApprovalAsked():
                self._ask(event)
            case StepRestarted(reason=reason):
                self._begin_step()
                self.note(f"the answer broke off and starts again: {reason}", "yellow")
            case Waiting(reason=reason, seconds=seconds):
                self._end_wait()
                self._wait = reason, self._now(), seconds
            case TurnEnded(outcome=outcome):
                self._finish_turn(outcome)
            case _:
                if (said := notice(event)) is not None:
                    self.note(said, "yellow")

    def _begin_answer(self) -> None:
        if self._first_s is None:
            self._first_s = self._now() - self._started

    def _finish_message(self, event: MessageAdded) -> None:
        self._end_thought()
        self._cut = is_cut(event.parts)
        whole = text_of(event.parts)
        if whole.startswith(self._said):  # a slow screen may have missed pieces; the whole message has them
            self._blocks(self._flow.feed(self._clean.feed(whole[len(self._said) :]) + self._clean.end()))
        else:
            self.note("some of it was missed; here is all of it", "yellow")
            self._flow = Flow()
            self._blocks(self._flow.feed(safe(whole)))
        self._settle_text()
        self._said = ""
        self._spend((event.usage, event.cost))

    def _spend(self, *spent: tuple[Usage | None, float]) -> None:
        for usage, cost in spent:
            self._usage, self._cost = self._usage + (usage or Usage()), self._cost + cost

    def _ask(self, asked: ApprovalAsked) -> None:
        self._asking = self._now()
        if asked.call_id in self._running:
            self._running.remove(asked.call_id)  # it stands below, whole
        head, *rest = asked_lines(asked)
        lines = [_line(head, "bold yellow"), *(_line(line, "default") for line in rest)]
        hints = (_line(line, "dim") for line in how(asked))
        self._put("asked", Group(*(_Marked(line) for line in lines), *hints))

    def _finish_call(self, result: ToolResult) -> None:
        if result.call_id in self._running:
            self._running.remove(result.call_id)
        call = self._calls.get(result.call_id)
        assert call is not None, "calls are heard before they are shown"
        hint = "" if self._hinted else UNFOLDS
        self._hinted = True
        if result.is_error:  # what went wrong is for whoever sits there too
            wrong = [_line(one, "red") for one in result_lines(result.content)]
            self._put("tool", Group(CallRow(call.head, ["✗", *call.facts[1:]], "red", hint), *wrong))
        else:
            held = [_line(one, "yellow") for one in held_back(result.content)]
            self._put("tool", Group(CallRow(call.head, call.facts, "dim", hint), *held))

    def _finish_turn(self, outcome: Outcome) -> None:
        self._end_thought()
        self._settle_text()
        self._settle_steers()
        spent = usage_line(self._usage, self._charge(self._cost), self._now() - self._started, self._first_s)
        if isinstance(outcome, Answered):
            if self._cut:
                self.note(CUT, "yellow")
            self._put("usage", _line(spent, "dim"))
        else:
            style = "red" if isinstance(outcome, Failed) else "yellow"
            self._put("usage", Text.assemble((visible(stopped(outcome)), style), (f" · {spent}", "dim")))
            if said := traced(outcome):
                self._put("usage", _line(said, "dim"))
        self._begin_step()

    def _end_wait(self) -> None:
        if self._wait is None:
            return
        reason, since, _ = self._wait
        self._wait = None
        if (seconds := self._now() - since) >= WORTH_TELLING_S:
            self.note(f"waited {lasted(seconds)}: {reason}", "yellow")

    # --- what is settled -------------------------------------------------------------------------

    def take(self) -> list[RenderableType]:
        """What can be printed for good, once."""
        taken, self._settled = self._settled, []
        return taken

    def asked(self, text: str) -> None:
        self._asked_at = self._started = self._now()
        self._first_s = self._asking = None
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

    def lines(self, lines: Sequence[Line]) -> None:
        """What a command has to say; each line was made safe by who made it."""
        self._put("lines", Group(*(row(line) for line in lines)))

    def _put(self, kind: str, thing: RenderableType, *, goes_on: bool = False) -> None:
        if not goes_on and (kind != self._last or kind in ("text", "person", "lines")):
            self._settled.append(Text(""))
        self._settled.append(thing)
        self._last = kind

    def _blocks(self, blocks: list[Block]) -> None:
        for block in blocks:
            self._put("text", block.thing, goes_on=block.goes_on and self._last == "text")

    def _settle_text(self) -> None:
        self._blocks(self._flow.feed(self._clean.end()) + self._flow.end())

    def _end_thought(self) -> None:
        if self._thought.strip():
            gist = visible(" ".join(self._thought.split()), THOUGHT_CHARS)
            seconds = self._now() - self._thought_since
            self._put("thought", _line(f"✻ thought for {seconds:.1f} s: {gist}", "dim italic"))
        self._thought, self._thought_since = "", 0.0

    # --- what is moving --------------------------------------------------------------------------

    @property
    def status(self) -> str:
        """What it is at, and for how long: of a wait since it began, else since the prompt."""
        seconds = self._now() - self._started
        if self._wait is not None:
            reason, since, whole = self._wait
            so_far = self._now() - since
            return f"waiting {so_far:.0f} s{f' of {whole:.0f}' if whole > so_far + 1 else ''}: {visible(reason, 200)}"
        running = [call for id in self._running if (call := self._calls.get(id)) is not None and call.since]
        if running:
            since = min(call.since for call in running)
            return f"running {', '.join(visible(call.name, 40) for call in running)} {self._now() - since:.0f} s"
        if self._first_s is None and not self._running:
            return f"waiting for the first word {seconds:.0f} s"
        return f"{'thinking' if self._thought else 'writing'} {seconds:.0f} s"

    def live(self) -> RenderableType | None:
        """What may still change, or None."""
        parts: list[RenderableType] = []
        if self._thought.strip():
            tail = visible(" ".join(self._thought.split())[-THOUGHT_CHARS:])
            parts.append(_line(f"✻ thinking… {tail}", "dim italic"))
        if (opened := self._flow.open) is not None:
            parts.append(opened)
        for call in filter(None, map(self._calls.get, self._running)):
            parts.append(_line(call.head, "cyan"))
            parts += [_line(f"  … {call.note}", "dim")] if call.note else []
        parts += [_typed("↪ ", text) for text in self._steers]
        return Group(*parts) if parts else None

    @property
    def goes_on(self) -> bool:
        """What is live continues what was settled last, with no blank line between."""
        return self._last == "text" and self._flow.goes_on and not self._thought


class CallRow:
    """A call in one row: of what does not fit, its arguments are cut and never what came of it."""

    def __init__(self, head: str, facts: list[str], style: str, hint: str = "") -> None:
        self._head = head
        self._tail = "".join(f" · {fact}" for fact in facts)
        self._style = style
        self._hint = hint  # said where there is room

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        head = self._head
        room = options.max_width - cell_len(self._tail)
        if cell_len(head) > room >= 12:
            head = set_cell_size(head, room - 2).rstrip() + "…)"
        hint = self._hint if cell_len(head + self._hint) <= room else ""
        yield Text.assemble((head, "cyan"), (self._tail, self._style), (hint, "dim"), overflow="fold")


class _Marked:
    """A line behind a bar. Where it wraps there is none: so what is one line is not taken for two."""

    def __init__(self, line: Text) -> None:
        self._line = line

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        bar = Text("▌ ", style="yellow")
        for row in self._line.wrap(console, max(options.max_width - cell_len(bar.plain), 4), overflow="fold"):
            yield Text.assemble(bar, row)
            bar = Text("  ")


def _typed(mark: str, text: str) -> RenderableType:
    lines = safe(text).expandtabs(4).split("\n")
    return Group(*(_line((mark if number == 0 else "  ") + line, "bold cyan") for number, line in enumerate(lines)))


def row(line: Line) -> Text:
    return _line(line, "dim") if isinstance(line, str) else Text.assemble(*line, overflow="fold")


def _line(text: str, style: str) -> Text:
    return Text(text, style=style, overflow="fold")
