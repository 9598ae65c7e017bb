"""View of the running turn on a terminal: finished parts that are printed once, and a live part that is redrawn."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rich.cells import cell_len, set_cell_size
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.text import Text

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
from mainstay.core.messages import ToolResult, Usage, is_truncated, parts_text
from mainstay.core.outcome import Answered, Failed, Outcome
from mainstay.guards.terminal_sanitizer import StreamSanitizer, escape_line, sanitize_text
from mainstay.terminal.approval_formatter import format_approval, format_prompt_hints
from mainstay.terminal.formatters import (
    CUT_OFF_NOTE,
    PROMPT_MARK,
    StyledLine,
    describe_event,
    describe_stop,
    describe_verdict,
    format_duration,
    format_trace_id,
    format_usage,
)
from mainstay.terminal.markdown_stream import MarkdownStream, RenderedBlock
from mainstay.terminal.tool_calls import ToolCallLog, find_held_back_lines, format_result

THINKING_CHARS_MAX = 60
LONG_WAIT_S = 5.0  # a longer wait is noted in the output
DETAILS_HINT = " · Ctrl-O shows details"


class TurnView:
    """Collects events with `show_event`; `take_finished` returns what to print, `render_live` what may still change.

    `format_price` formats a cost in dollars.
    """

    def __init__(self, now: Callable[[], float], calls: ToolCallLog, format_price: Callable[[float], str]) -> None:
        self._now = now
        self._calls = calls
        self._format_price = format_price
        self._finished: list[RenderableType] = []
        self._last_kind = ""  # kind of the last finished part
        self._prompted_at: float | None = None  # when the prompt was entered
        self._pending_steers: list[str] = []  # texts that the turn has not taken up yet
        self._is_hint_shown = False  # the key for a call's details was mentioned
        self._begin_turn(0)

    def _begin_turn(self, turn: int) -> None:
        self._turn = turn
        self._started_at = self._now() if self._prompted_at is None else self._prompted_at
        self._prompted_at = None
        self._first_token_s: float | None = None  # seconds to the first token
        self._usage = Usage()
        self._cost = 0.0
        self._wait: tuple[str, float, float] | None = None  # reason, start, expected seconds
        self._approval_asked_at: float | None = None  # when an approval was requested
        self._begin_step()

    def _begin_step(self) -> None:
        self._sanitizer = StreamSanitizer()
        self._markdown = MarkdownStream()
        self._streamed_text = ""  # unsanitized text streamed in this step
        self._is_cut_off = False  # the last message was cut off by an output limit
        self._thinking = ""
        self._thinking_since = 0.0
        self._running_calls: list[str] = []  # ids of calls

    # --- events ----------------------------------------------------------------------------------

    def show_event(self, event: Event) -> None:
        if event.turn and event.turn != self._turn:
            self._begin_turn(event.turn)
        if not isinstance(event, Waiting | TurnStarted):
            self._finish_wait()
        if self._approval_asked_at is not None:  # time that the user takes to decide does not count
            self._started_at += self._now() - self._approval_asked_at
            self._approval_asked_at = None
        match event:
            case ThinkingDelta(text=text):
                self._record_first_token()
                self._thinking_since = self._thinking_since or self._now()
                self._thinking += sanitize_text(text)
            case TextDelta(text=text):
                self._record_first_token()
                self._finish_thinking()
                self._streamed_text += text
                self._add_blocks(self._markdown.feed(self._sanitizer.feed(text)))
            case ToolCallStarted(call_id=call_id) | ToolCallReady(call_id=call_id):
                self._finish_thinking()
                self._running_calls += [call_id] if call_id not in self._running_calls else []
            case ToolFinished(result=result):
                self._finish_call(result)
            case MessageAdded(role="assistant"):
                self._finish_message(event)
            case Judged(scores=scores, passed=passed):
                self._add_spending(*((score.usage, score.cost) for score in scores))
                self.show_note(describe_verdict(event), "dim" if passed else "yellow")
            case Steered():
                self._finish_steers()
            case ApprovalAsked():
                self._show_approval(event)
            case StepRestarted(reason=reason):
                self._begin_step()
                self.show_note(f"the answer was interrupted and starts again: {reason}", "yellow")
            case Waiting(reason=reason, seconds=seconds):
                self._finish_wait()
                self._wait = reason, self._now(), seconds
            case TurnEnded(outcome=outcome):
                self._finish_turn(outcome)
            case _:
                if (note := describe_event(event)) is not None:
                    self.show_note(note, "yellow")

    def _record_first_token(self) -> None:
        if self._first_token_s is None:
            self._first_token_s = self._now() - self._started_at

    def _finish_message(self, event: MessageAdded) -> None:
        self._finish_thinking()
        self._is_cut_off = is_truncated(event.parts)
        whole = parts_text(event.parts)
        # a slow screen may have lost deltas; the finished message has them all
        if whole.startswith(self._streamed_text):
            self._add_blocks(
                self._markdown.feed(self._sanitizer.feed(whole[len(self._streamed_text) :]) + self._sanitizer.finish())
            )
        else:
            self.show_note("parts of the answer were not shown; here it is in full", "yellow")
            self._markdown = MarkdownStream()
            self._add_blocks(self._markdown.feed(sanitize_text(whole)))
        self._finish_text()
        self._streamed_text = ""
        self._add_spending((event.usage, event.cost))

    def _add_spending(self, *spent: tuple[Usage | None, float]) -> None:
        for usage, cost in spent:
            self._usage, self._cost = self._usage + (usage or Usage()), self._cost + cost

    def _show_approval(self, approval: ApprovalAsked) -> None:
        self._approval_asked_at = self._now()
        if approval.call_id in self._running_calls:
            self._running_calls.remove(approval.call_id)  # it is shown below in full
        head, *rest = format_approval(approval)
        lines = [_style_text(head, "bold yellow"), *(_style_text(line, "default") for line in rest)]
        hints = (_style_text(line, "dim") for line in format_prompt_hints(approval))
        self._add_finished("asked", Group(*(_BarredLine(line) for line in lines), *hints))

    def _finish_call(self, result: ToolResult) -> None:
        if result.call_id in self._running_calls:
            self._running_calls.remove(result.call_id)
        call = self._calls.get(result.call_id)
        assert call is not None, "the log of calls receives every event first"
        hint = "" if self._is_hint_shown else DETAILS_HINT
        self._is_hint_shown = True
        if result.is_error:  # the user sees the reason, not only the model
            error = [_style_text(line, "red") for line in format_result(result.content)]
            self._add_finished("tool", Group(ToolCallRow(call.heading, ["✗", *call.details[1:]], "red", hint), *error))
        else:
            prevented = [_style_text(line, "yellow") for line in find_held_back_lines(result.content)]
            self._add_finished("tool", Group(ToolCallRow(call.heading, call.details, "dim", hint), *prevented))

    def _finish_turn(self, outcome: Outcome) -> None:
        self._finish_thinking()
        self._finish_text()
        self._finish_steers()
        spent = format_usage(
            self._usage, self._format_price(self._cost), self._now() - self._started_at, self._first_token_s
        )
        if isinstance(outcome, Answered):
            if self._is_cut_off:
                self.show_note(CUT_OFF_NOTE, "yellow")
            self._add_finished("usage", _style_text(spent, "dim"))
        else:
            style = "red" if isinstance(outcome, Failed) else "yellow"
            self._add_finished(
                "usage", Text.assemble((escape_line(describe_stop(outcome)), style), (f" · {spent}", "dim"))
            )
            if trace := format_trace_id(outcome):
                self._add_finished("usage", _style_text(trace, "dim"))
        self._begin_step()

    def _finish_wait(self) -> None:
        if self._wait is None:
            return
        reason, since, _ = self._wait
        self._wait = None
        if (seconds := self._now() - since) >= LONG_WAIT_S:
            self.show_note(f"waited {format_duration(seconds)}: {reason}", "yellow")

    # --- finished parts --------------------------------------------------------------------------

    def take_finished(self) -> list[RenderableType]:
        """Return the parts that finished since the last call; each is printed once."""
        taken, self._finished = self._finished, []
        return taken

    def show_prompt(self, text: str) -> None:
        self._prompted_at = self._started_at = self._now()
        self._first_token_s = self._approval_asked_at = None
        self.show_input(text)

    def show_input(self, text: str) -> None:
        self._add_finished("person", _format_input(PROMPT_MARK, text))

    def show_pending_steer(self, text: str) -> None:
        """Show the text below the live part until the turn takes it up."""
        self._pending_steers.append(text)

    def _finish_steers(self) -> None:
        steers, self._pending_steers = self._pending_steers, []
        for text in steers:
            self._add_finished("person", _format_input("↪ ", text))

    def show_note(self, sentence: str, style: str = "dim") -> None:
        self._add_finished("note", _style_text(escape_line(sentence), style))

    def show_lines(self, lines: Sequence[StyledLine]) -> None:
        """Show a command's output. The caller has sanitized each line."""
        self._add_finished("lines", Group(*(to_rich_text(line) for line in lines)))

    def _add_finished(self, kind: str, renderable: RenderableType, *, is_continuation: bool = False) -> None:
        if not is_continuation and (kind != self._last_kind or kind in ("text", "person", "lines")):
            self._finished.append(Text(""))
        self._finished.append(renderable)
        self._last_kind = kind

    def _add_blocks(self, blocks: list[RenderedBlock]) -> None:
        for block in blocks:
            self._add_finished(
                "text", block.renderable, is_continuation=block.is_continuation and self._last_kind == "text"
            )

    def _finish_text(self) -> None:
        self._add_blocks(self._markdown.feed(self._sanitizer.finish()) + self._markdown.finish())

    def _finish_thinking(self) -> None:
        if self._thinking.strip():
            gist = escape_line(" ".join(self._thinking.split()), THINKING_CHARS_MAX)
            seconds = self._now() - self._thinking_since
            self._add_finished("thought", _style_text(f"✻ thought for {seconds:.1f} s: {gist}", "dim italic"))
        self._thinking, self._thinking_since = "", 0.0

    # --- the live part ---------------------------------------------------------------------------

    @property
    def status(self) -> str:
        """What the turn is doing, and for how long: since a wait began, else since the prompt."""
        seconds = self._now() - self._started_at
        if self._wait is not None:
            reason, since, whole = self._wait
            so_far = self._now() - since
            return (
                f"waiting {so_far:.0f} s{f' of {whole:.0f}' if whole > so_far + 1 else ''}: {escape_line(reason, 200)}"
            )
        running = [call for id in self._running_calls if (call := self._calls.get(id)) is not None and call.started_at]
        if running:
            since = min(call.started_at for call in running)
            return f"running {', '.join(escape_line(call.name, 40) for call in running)} {self._now() - since:.0f} s"
        if self._first_token_s is None and not self._running_calls:
            return f"waiting for the first token {seconds:.0f} s"
        return f"{'thinking' if self._thinking else 'writing'} {seconds:.0f} s"

    def render_live(self) -> RenderableType | None:
        """Return what may still change, or None."""
        parts: list[RenderableType] = []
        if self._thinking.strip():
            tail = escape_line(" ".join(self._thinking.split())[-THINKING_CHARS_MAX:])
            parts.append(_style_text(f"✻ thinking… {tail}", "dim italic"))
        if (unfinished := self._markdown.unfinished) is not None:
            parts.append(unfinished)
        for call in filter(None, map(self._calls.get, self._running_calls)):
            parts.append(_style_text(call.heading, "cyan"))
            parts += [_style_text(f"  … {call.progress_note}", "dim")] if call.progress_note else []
        parts += [_format_input("↪ ", text) for text in self._pending_steers]
        return Group(*parts) if parts else None

    @property
    def is_continuation(self) -> bool:
        """Whether the live part continues the last finished one, without a blank line between them."""
        return self._last_kind == "text" and self._markdown.is_continuation and not self._thinking


class ToolCallRow:
    """A tool call in one row. If it does not fit, its arguments are cut, never its result."""

    def __init__(self, heading: str, details: list[str], style: str, hint: str = "") -> None:
        self._heading = heading
        self._details = "".join(f" · {fact}" for fact in details)
        self._style = style
        self._hint = hint  # shown if there is room

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        head = self._heading
        room = options.max_width - cell_len(self._details)
        if cell_len(head) > room >= 12:
            head = set_cell_size(head, room - 2).rstrip() + "…)"
        hint = self._hint if cell_len(head + self._hint) <= room else ""
        yield Text.assemble((head, "cyan"), (self._details, self._style), (hint, "dim"), overflow="fold")


class _BarredLine:
    """A line with a bar in front. Wrapped parts have no bar, so that one line is not taken for two."""

    def __init__(self, line: Text) -> None:
        self._line = line

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        bar = Text("▌ ", style="yellow")
        for row in self._line.wrap(console, max(options.max_width - cell_len(bar.plain), 4), overflow="fold"):
            yield Text.assemble(bar, row)
            bar = Text("  ")


def _format_input(mark: str, text: str) -> RenderableType:
    lines = sanitize_text(text).expandtabs(4).split("\n")
    return Group(
        *(_style_text((mark if number == 0 else "  ") + line, "bold cyan") for number, line in enumerate(lines))
    )


def to_rich_text(line: StyledLine) -> Text:
    return _style_text(line, "dim") if isinstance(line, str) else Text.assemble(*line, overflow="fold")


def _style_text(text: str, style: str) -> Text:
    return Text(text, style=style, overflow="fold")
