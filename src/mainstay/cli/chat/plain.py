"""A turn as plain text: for pipes, scripts, and terminals without the `chat` extra."""

from __future__ import annotations

from collections.abc import Callable

from mainstay.cli.chat.asking import asked_lines, how
from mainstay.cli.chat.calls import call_line, result_lines
from mainstay.cli.chat.safe import Stream, visible
from mainstay.cli.chat.words import CUT, notice, stopped, traced
from mainstay.core.events import (
    ApprovalAsked,
    Event,
    MessageAdded,
    StepRestarted,
    TextDelta,
    ToolCallReady,
    ToolFinished,
    TurnEnded,
)
from mainstay.core.messages import is_cut, text_of
from mainstay.core.outcome import Answered

Say = Callable[[str], None]


class Printer:
    """Writes the model's words as they come (`write`), and says the rest a line at a time (`note`)."""

    def __init__(self, write: Say, note: Say, how: Callable[[ApprovalAsked], list[str]] = how) -> None:
        self._write = write
        self._note = note
        self._how = how  # what is said below a question
        self._clean = Stream()
        self._said = ""  # of this step, as it came
        self._fresh = True  # the cursor is at the start of a line
        self._cut = False  # the end of the last message is missing

    def show(self, event: Event) -> None:
        match event:
            case TextDelta(text=text):
                self._said += text
                self._out(self._clean.feed(text))
            case MessageAdded(role="assistant", parts=parts):
                self._catch_up(text_of(parts))
                self._end_line()
                self._cut = is_cut(parts)
            case ToolCallReady(name=name, input=input):
                self._line(call_line(name, input))
            case ToolFinished(result=result):
                for line in result_lines(result.content):
                    self._line(line)
            case ApprovalAsked():
                for line in (*asked_lines(event), *self._how(event)):
                    self._line(line)
            case StepRestarted(reason=reason):
                self._forget()
                self._line(f"(the answer broke off and starts again: {visible(reason)})")
            case TurnEnded(outcome=outcome):
                self._forget()
                if self._cut and isinstance(outcome, Answered):
                    self._line(f"({CUT})")
                if not isinstance(outcome, Answered):
                    self._line(visible(stopped(outcome)))
                    if trace := traced(outcome):
                        self._line(f"({trace})")
            case _:
                if (said := notice(event)) is not None:
                    self._line(f"({visible(said)})")

    def _catch_up(self, whole: str) -> None:
        """A slow reader may have missed pieces; the finished message has them all."""
        if whole.startswith(self._said):
            self._out(self._clean.feed(whole[len(self._said) :]))
        else:
            self._forget()
            self._line("(some of it was missed; here is all of it)")
            self._out(self._clean.feed(whole))
        self._forget()

    def _forget(self) -> None:
        self._out(self._clean.end())
        self._said = ""

    def _line(self, line: str) -> None:
        self._end_line()
        self._note(line)

    def _out(self, text: str) -> None:
        if text:
            self._write(text)
            self._fresh = text.endswith("\n")

    def _end_line(self) -> None:
        if not self._fresh:
            self._write("\n")
            self._fresh = True
