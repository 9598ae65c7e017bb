"""Chat user interface for pipes and plain terminals: reads lines from stdin, prints answers to stdout."""

from __future__ import annotations

import asyncio
import signal
import sys
import threading
import time
from shutil import get_terminal_size

from mainstay.cli.chat.banner import build_banner
from mainstay.cli.chat.chat_session import STALE_ANSWER_NOTE, ChatSession
from mainstay.cli.chat.session_recap import build_recap
from mainstay.cli.chat.slash_commands import run_slash_command
from mainstay.cli.commands.agent_setup import AgentSetup, print_note
from mainstay.core.errors import MainstayError
from mainstay.core.events import Event, Judged, MessageAdded, TextDelta, ThinkingDelta, ToolCallStarted, TurnEnded
from mainstay.core.messages import Usage
from mainstay.core.outcome import Answered, Failed, Outcome
from mainstay.guards.terminal_sanitizer import sanitize_text
from mainstay.terminal.formatters import PROMPT_MARK, StyledLine, format_price, format_usage, to_plain_text
from mainstay.terminal.glyphs import detect_glyphs
from mainstay.terminal.plain_printer import PlainPrinter

DOUBLE_INTERRUPT_S = 2.0


class PlainChat:
    def __init__(self, setup: AgentSetup) -> None:
        self._glyphs = detect_glyphs()
        self._printer = PlainPrinter(self._write, self._print_note)
        self._chat = ChatSession(setup, self._on_event, self._on_error)
        self._lines: asyncio.Queue[str | None] = asyncio.Queue()
        self._is_interactive = sys.stdin.isatty() and sys.stdout.isatty()
        self._has_failed = False
        self._is_at_prompt = False  # the prompt mark is the last thing on the terminal
        self._interrupted_at = -DOUBLE_INTERRUPT_S
        self._begin_turn()

    def _begin_turn(self) -> None:
        self._prompted_at = time.monotonic()
        self._first_token_s: float | None = None
        self._usage = Usage()
        self._cost = 0.0

    async def run(self, session: str | None, *, new: bool) -> int:
        loop = asyncio.get_running_loop()
        standing = await self._chat.open(session, new=new)
        try:
            loop.add_signal_handler(signal.SIGINT, self._on_interrupt)
            threading.Thread(target=self._read_stdin, args=(loop,), daemon=True).start()
            if self._is_interactive:
                for line in [
                    *build_banner(self._chat, standing),
                    *(await build_recap(self._chat) if standing is not None else []),
                ]:
                    self._print_note(to_plain_text(line))
            if (waiting := self._chat.pending_approval) is not None:
                self._printer.show_event(waiting)
            await self._chat.wait_until_idle()  # a turn that an earlier process left unfinished
            while (text := await self._next_prompt()) is not None and await self._handle_line(text):
                pass
        finally:
            loop.remove_signal_handler(signal.SIGINT)
            await self._chat.close()
        return 1 if self._has_failed else 0

    async def _next_prompt(self) -> str | None:
        """Return the next prompt: a line, joined with the next while it ends in a backslash. None: end of input."""
        if self._is_interactive:
            self._write(PROMPT_MARK)
            self._is_at_prompt = True
        line = await self._lines.get()
        self._is_at_prompt = False
        while line is not None and line.endswith("\\"):
            more = await self._lines.get()
            if more is None:
                self._lines.put_nowait(None)  # handle this line before the end of the input
            line = line[:-1] + "\n" + (more or "")
        return line

    async def _handle_line(self, line: str) -> bool:
        line = self._chat.expand_answer(line)
        try:
            if line.startswith("/"):
                result = await run_slash_command(self._chat, line, get_terminal_size().columns)
                self._print_lines(result.lines)
                await self._wait_until_idle()
                return result.next_action != "exit"
            if line.strip():
                self._has_failed = False
                self._begin_turn()
                if self._chat.is_stale_answer(line):
                    self._print_note(STALE_ANSWER_NOTE)
                elif not await self._chat.answer_approval(line):
                    self._chat.send_prompt(line)
                await self._wait_until_idle()
        except MainstayError as error:
            self._print_note(str(error))
        return True

    async def _wait_until_idle(self) -> None:
        """Wait until the turn has ended or waits for an approval."""
        await asyncio.sleep(0)
        await self._chat.wait_until_idle()

    def _read_stdin(self, loop: asyncio.AbstractEventLoop) -> None:
        """Read stdin in a daemon thread that is never joined: reading a line cannot be interrupted."""
        try:
            for line in sys.stdin:
                loop.call_soon_threadsafe(self._lines.put_nowait, line.rstrip("\r\n"))
            loop.call_soon_threadsafe(self._lines.put_nowait, None)
        except RuntimeError:
            pass  # the chat has ended, and its event loop is closed

    def _on_interrupt(self) -> None:
        now = time.monotonic()
        if self._chat.can_stop and now - self._interrupted_at >= DOUBLE_INTERRUPT_S:
            self._interrupted_at = now
            self._chat.start_abort().add_done_callback(self._on_abort_done)
        else:
            self._lines.put_nowait(None)

    def _on_abort_done(self, task: asyncio.Task[bool]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self._on_error(str(error) if isinstance(error, MainstayError) else f"{type(error).__name__}: {error}")

    def _on_event(self, event: Event) -> None:
        if isinstance(event, TurnEnded) and self._is_at_prompt:  # a turn that waited for an approval was stopped
            self._write("\n")
        self._printer.show_event(event)
        match event:
            case TextDelta() | ThinkingDelta() | ToolCallStarted() if self._first_token_s is None:
                self._first_token_s = time.monotonic() - self._prompted_at
            case MessageAdded(usage=usage, cost=cost):
                self._usage, self._cost = self._usage + (usage or Usage()), self._cost + cost
            case Judged(scores=scores):
                for score in scores:
                    self._usage, self._cost = self._usage + (score.usage or Usage()), self._cost + score.cost
            case TurnEnded(outcome=outcome):
                self._has_failed = isinstance(outcome, Failed)
                self._end_turn(outcome)

    def _end_turn(self, outcome: Outcome) -> None:
        """Print usage and cost, for an interactive user only: a program reads just the answer."""
        if self._is_interactive and isinstance(outcome, Answered):
            price = format_price(self._chat.model, self._cost)
            self._print_note(
                format_usage(self._usage, price, time.monotonic() - self._prompted_at, self._first_token_s)
            )
        if self._is_at_prompt:
            self._write(PROMPT_MARK)

    def _on_error(self, sentence: str) -> None:
        self._has_failed = True
        self._print_note(sentence)

    # --- output: the last place where text is sanitized ------------------------------------------

    def _print_lines(self, lines: list[StyledLine]) -> None:
        for line in lines:
            self._write(sanitize_text(to_plain_text(line)) + "\n")

    def _print_note(self, sentence: str) -> None:
        print_note(self._glyphs.replace_missing(sanitize_text(sentence)))

    def _write(self, text: str) -> None:
        sys.stdout.write(self._glyphs.replace_missing(text))
        sys.stdout.flush()
