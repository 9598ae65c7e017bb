"""Prints a turn as plain text: for pipes, scripts, and terminals without the `chat` extra."""

from __future__ import annotations

from collections.abc import Callable

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
from mainstay.core.messages import is_truncated, parts_text
from mainstay.core.outcome import Answered
from mainstay.guards.terminal_sanitizer import StreamSanitizer, escape_line
from mainstay.terminal.approval_formatter import format_approval, format_prompt_hints
from mainstay.terminal.formatters import CUT_OFF_NOTE, describe_event, describe_stop, format_trace_id
from mainstay.terminal.tool_calls import format_call, format_result

WriteText = Callable[[str], None]


class PlainPrinter:
    """Writes the model's text with `write`, and everything else line by line with `note`.

    `streams`: the text is written as it arrives. Otherwise a message is written when it is complete, so that the text
    of an answer that was interrupted and started again is not in the output.
    """

    def __init__(
        self,
        write: WriteText,
        note: WriteText,
        format_hints: Callable[[ApprovalAsked], list[str]] = format_prompt_hints,
        *,
        streams: bool = True,
    ) -> None:
        self._write = write
        self._note = note
        self._format_hints = format_hints  # hints shown below an approval request
        self._streams = streams
        self._sanitizer = StreamSanitizer()
        self._streamed_text = ""  # unsanitized text streamed in this step
        self._is_line_start = True  # the cursor is at the start of a line
        self._is_cut_off = False  # the last message was cut off by an output limit

    def show_event(self, event: Event) -> None:
        match event:
            case TextDelta(text=text):
                if self._streams:
                    self._streamed_text += text
                    self._print_text(self._sanitizer.feed(text))
            case MessageAdded(role="assistant", parts=parts):
                self._print_missing_text(parts_text(parts))
                self._end_line()
                self._is_cut_off = is_truncated(parts)
            case ToolCallReady(name=name, input=input):
                self._print_line(format_call(name, input))
            case ToolFinished(result=result):
                for line in format_result(result.content):
                    self._print_line(line)
            case ApprovalAsked():
                for line in (*format_approval(event), *self._format_hints(event)):
                    self._print_line(line)
            case StepRestarted(reason=reason):
                self._end_stream()
                self._print_line(f"(the answer was interrupted and starts again: {escape_line(reason)})")
            case TurnEnded(outcome=outcome):
                self._end_stream()
                if self._is_cut_off and isinstance(outcome, Answered):
                    self._print_line(f"({CUT_OFF_NOTE})")
                if not isinstance(outcome, Answered):
                    self._print_line(escape_line(describe_stop(outcome)))
                    if trace := format_trace_id(outcome):
                        self._print_line(f"({trace})")
            case _:
                if (note := describe_event(event)) is not None:
                    self._print_line(f"({escape_line(note)})")

    def _print_missing_text(self, full_text: str) -> None:
        """Print what is missing of the finished message: a slow reader may have lost some deltas."""
        if full_text.startswith(self._streamed_text):
            self._print_text(self._sanitizer.feed(full_text[len(self._streamed_text) :]))
        else:
            self._end_stream()
            self._print_line("(parts of the answer were not shown; here it is in full)")
            self._print_text(self._sanitizer.feed(full_text))
        self._end_stream()

    def _end_stream(self) -> None:
        self._print_text(self._sanitizer.finish())
        self._streamed_text = ""

    def _print_line(self, line: str) -> None:
        self._end_line()
        self._note(line)

    def _print_text(self, text: str) -> None:
        if text:
            self._write(text)
            self._is_line_start = text.endswith("\n")

    def _end_line(self) -> None:
        if not self._is_line_start:
            self._write("\n")
            self._is_line_start = True
