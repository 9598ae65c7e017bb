"""Chat user interface for an interactive terminal: a prompt that stays open, with the conversation above it.

Finished parts are printed once and scroll away like any other output; only the unfinished part is redrawn, right above
the prompt. So nothing flickers and nothing is printed twice, however long the answer is.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Coroutine
from typing import Any

from prompt_toolkit import PromptSession
from prompt_toolkit.filters import Condition
from prompt_toolkit.formatted_text import ANSI
from prompt_toolkit.output import Output, create_output
from prompt_toolkit.output.vt100 import Vt100_Output
from prompt_toolkit.patch_stdout import patch_stdout
from prompt_toolkit.styles import Style
from rich.console import RenderableType

from mainstay.cli.chat.banner import build_banner
from mainstay.cli.chat.chat_session import STALE_ANSWER_NOTE, ChatSession
from mainstay.cli.chat.key_bindings import KeyCallbacks, build_key_bindings
from mainstay.cli.chat.prompt_history import HISTORY_FILE, PromptHistory
from mainstay.cli.chat.session_recap import build_recap
from mainstay.cli.chat.slash_commands import run_slash_command
from mainstay.cli.chat.slash_completer import SlashCompleter
from mainstay.cli.commands.agent_setup import AgentSetup
from mainstay.core.errors import MainstayError
from mainstay.core.events import Event
from mainstay.core.ports import SessionInfo
from mainstay.guards.terminal_sanitizer import escape_line
from mainstay.terminal.formatters import PROMPT_MARK, StyledLine, format_price
from mainstay.terminal.glyphs import detect_glyphs
from mainstay.terminal.markdown_renderer import WIDTH_MAX, RichToAnsiRenderer
from mainstay.terminal.tool_calls import format_call_details
from mainstay.terminal.turn_view import TurnView, to_rich_text

REDRAW_S = 0.1  # between redraws while events arrive
IDLE_REDRAW_S = 0.25  # between redraws while only the elapsed time changes
DOUBLE_INTERRUPT_S = 2.0  # a second Ctrl-C within this time exits
HINT = "Ctrl-C stops, Enter steers"
ROWS_RESERVED = 8  # reserved for the prompt
STYLE = Style.from_dict(
    {
        "completion-menu": "bg:default",
        "completion-menu.completion": "bg:default fg:default",
        "completion-menu.completion.current": "bg:default fg:ansicyan bold noreverse",
        "completion-menu.meta.completion": "bg:default fg:ansibrightblack",
        "completion-menu.meta.completion.current": "bg:default fg:ansibrightblack noreverse",
    }
)


class TerminalChat:
    def __init__(self, setup: AgentSetup) -> None:
        self._glyphs = detect_glyphs()
        self._renderer = RichToAnsiRenderer(self._glyphs, has_colour=not os.environ.get("NO_COLOR"))
        self._mark = f"\x1b[1;36m{self._glyphs.replace_missing(PROMPT_MARK)}\x1b[0m"
        self._chat = ChatSession(setup, self._on_event, self._on_error)
        self._view = TurnView(time.monotonic, self._chat.calls, lambda cost: format_price(self._chat.model, cost))
        self._lines: asyncio.Queue[str] = asyncio.Queue()
        self._redraw_task: asyncio.Task[None] | None = None
        self._interrupted_at = -DOUBLE_INTERRUPT_S
        self._tasks: set[asyncio.Task[None]] = set()
        self._has_new_events = True  # an event arrived since the last redraw
        self._columns, self._rows = 80, 24
        self._prompt_text = ANSI(f"\n{self._mark}")
        self._is_exiting = False
        self._bug: BaseException | None = None
        self._prompt: PromptSession[str] = PromptSession(
            multiline=True,
            history=PromptHistory(setup.home / HISTORY_FILE, _list_api_keys(setup)),
            completer=SlashCompleter(self._chat),
            complete_while_typing=Condition(lambda: self._prompt.default_buffer.text.startswith("/")),
            key_bindings=build_key_bindings(
                KeyCallbacks(
                    self._on_enter, self._chat.pasted.add, self._on_interrupt, self._show_last_call, self._exit
                )
            ),
            erase_when_done=True,
            style=STYLE,
            output=_build_output(),
        )

    async def run(self, session: str | None, *, new: bool) -> int:
        standing = await self._chat.open(session, new=new)
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTERM, self._exit)  # so that the terminal's mode is restored
        try:
            await self._show_banner(standing)
            await self._run_prompt()
        finally:
            loop.remove_signal_handler(signal.SIGTERM)
            for task in self._tasks:
                task.cancel()
            await self._chat.close()
        if self._bug is not None:
            raise self._bug
        self._view.show_lines([f"`mainstay chat` continues {escape_line(self._chat.session)}"])
        self._redraw()
        return 0

    async def _run_prompt(self) -> None:
        """Run one prompt for the whole chat: Enter does not close it."""
        self._start_task(self._handle_inputs())
        with patch_stdout(raw=True):
            try:
                await self._prompt.prompt_async(
                    lambda: self._prompt_text,
                    prompt_continuation=lambda width, line, wrapped: "  ",
                    pre_run=self._start_redrawing,
                )
            except EOFError:
                pass  # the terminal was closed

    # --- input -----------------------------------------------------------------------------------

    def _on_enter(self, text: str) -> None:
        self._interrupted_at = -DOUBLE_INTERRUPT_S  # the next Ctrl-C counts as the first one
        if text.strip():
            self._lines.put_nowait(text)

    async def _handle_inputs(self) -> None:
        while True:
            line = await self._lines.get()
            try:
                await self._handle_input(line)
            except MainstayError as error:
                self._on_error(str(error))
            self._redraw()

    async def _handle_input(self, text: str) -> None:
        text = self._chat.expand_answer(text)
        if text.lstrip().startswith("/"):
            await self._run_command(text.strip())
        elif self._chat.is_stale_answer(text):
            self._view.show_input(text)
            self._view.show_note(STALE_ANSWER_NOTE)
        elif await self._chat.answer_approval(text):
            self._view.show_input(text)
        elif self._chat.is_busy:
            self._view.show_pending_steer(text)
            await self._chat.steer(text)
        else:
            self._view.show_prompt(text)
            self._chat.send_prompt(text)
            self._start_redrawing()

    async def _run_command(self, line: str) -> None:
        steer = line.removeprefix("/steer ").strip() if self._chat.is_busy and line.startswith("/steer ") else ""
        if steer:
            self._view.show_pending_steer(steer)
        else:
            self._view.show_input(line)
        result = await run_slash_command(self._chat, line, min(self._columns, WIDTH_MAX))
        lines = result.lines + (await build_recap(self._chat) if result.next_action == "greet" else [])
        if lines:
            self._view.show_lines(lines)
        if result.next_action == "exit":
            self._exit()
        if result.next_action == "greet" and self._chat.pending_approval is not None:
            self._view.show_event(self._chat.pending_approval)
        self._start_redrawing()

    def _on_interrupt(self) -> None:
        """Handle Ctrl-C: stop the turn, or clear the typed text; twice exits."""
        now = time.monotonic()
        again = now - self._interrupted_at < DOUBLE_INTERRUPT_S
        self._interrupted_at = now
        buffer = self._prompt.default_buffer
        if again and (self._chat.can_stop or not buffer.text):
            self._exit()
        elif self._chat.can_stop:
            self._chat.start_abort().add_done_callback(self._on_task_done)  # not one of `_tasks`: exiting cancels those
        elif buffer.text:
            buffer.reset()
        else:
            self._view.show_note("press Ctrl-C again to exit")
            self._redraw()

    def _show_last_call(self) -> None:
        """Show the last finished tool call with its arguments and result."""
        done = [call for call in self._chat.calls.by_number if call.result is not None]
        if done:
            self._view.show_lines(format_call_details(done[-1]))
        else:
            self._view.show_note("no tool calls in this chat yet")
        self._redraw()

    def _exit(self) -> None:
        if not self._is_exiting and self._prompt.app.is_running:
            self._is_exiting = True
            self._prompt.app.exit(result="")

    def _start_task(self, coroutine: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._on_task_done)
        return task

    def _on_task_done(self, task: asyncio.Task[Any]) -> None:
        """Report an expected error; a bug ends the chat, which would otherwise hang silently."""
        self._tasks.discard(task)
        if task.cancelled() or (error := task.exception()) is None:
            return
        if isinstance(error, MainstayError):
            self._on_error(str(error))
        else:
            self._bug = error
            self._exit()

    # --- events ----------------------------------------------------------------------------------

    def _on_event(self, event: Event) -> None:
        self._view.show_event(event)
        self._has_new_events = True
        self._start_redrawing()

    def _on_error(self, sentence: str) -> None:
        self._view.show_note(sentence, "red")
        self._start_redrawing()

    def _start_redrawing(self) -> None:
        """Start the redraw loop if it is not running; it ends when the chat is idle."""
        if self._redraw_task is None or self._redraw_task.done():
            self._redraw_task = self._start_task(self._redraw_while_busy())

    async def _redraw_while_busy(self) -> None:
        drawn_at = -IDLE_REDRAW_S
        while True:
            started = time.monotonic()
            if self._has_new_events or not self._chat.is_busy or started - drawn_at >= IDLE_REDRAW_S:
                self._has_new_events = False
                self._redraw()
                drawn_at = started
            if not self._chat.is_busy:
                return
            took = time.monotonic() - started
            await asyncio.sleep(max(REDRAW_S, took * 4))  # drawing never takes more than a fifth of the time

    # --- drawing ---------------------------------------------------------------------------------

    def _redraw(self) -> None:
        """Print the finished parts and redraw the live one.

        Without leaving raw mode, so that a key pressed meanwhile is neither echoed nor lost.
        """
        size = self._prompt.output.get_size()
        self._columns, self._rows = size.columns, size.rows
        text = "".join(self._render(thing) for thing in self._view.take_finished())
        app = self._prompt.app
        if text and app.is_running:
            app.renderer.erase()
        self._write(text)
        self._draw_live()
        if app.is_running:
            app.invalidate()

    def _draw_live(self) -> None:
        """Draw the live part. If it does not fit, only its end is shown: that is what people read."""
        gap, live_text = "\n", ""
        if self._chat.is_busy:
            rows = max(self._rows - ROWS_RESERVED, 3)
            live = self._view.render_live()
            lines = self._render(live).splitlines() if live is not None else []
            if len(lines) > rows:
                lines = [self._glyphs.replace_missing("\x1b[2m…\x1b[0m"), *lines[1 - rows :]]
            gap = "" if lines and self._view.is_continuation else gap
            lines += ["", *self._status_lines()] if lines else self._status_lines()
            live_text = "\n".join(lines) + "\n"
        self._prompt_text = ANSI(f"{gap}{live_text}{self._mark}")

    def _status_lines(self) -> list[str]:
        spinner = self._glyphs.spinner
        frame = spinner[int(time.monotonic() / IDLE_REDRAW_S) % len(spinner)]
        line: StyledLine = ((f"{frame} {self._view.status}", "dim"), (f" · {HINT}", "dim"))
        return self._render(to_rich_text(line)).splitlines()

    def _render(self, renderable: RenderableType) -> str:
        return self._renderer.render(renderable, self._columns)

    def _write(self, text: str) -> None:
        self._prompt.output.write_raw(text)
        self._prompt.output.flush()

    async def _show_banner(self, info: SessionInfo | None) -> None:
        self._columns = self._prompt.output.get_size().columns
        for line in build_banner(self._chat, info):
            self._write(self._render(to_rich_text(line)))
        if info is not None and (lines := await build_recap(self._chat)):
            self._view.show_lines(lines)
        if self._chat.pending_approval is not None:
            self._view.show_event(self._chat.pending_approval)
        self._redraw()


def _list_api_keys(setup: AgentSetup) -> list[str]:
    """Return the configured API keys, so that one typed by mistake is not saved in the history."""
    return [entry.api_key for entry in setup.config.providers.values() if isinstance(entry.api_key, str)]


def _build_output() -> Output:
    """Return an output that does not request the cursor's position: not all terminals answer, and it is not needed."""
    output = create_output()
    if isinstance(output, Vt100_Output):
        output.enable_cpr = False
    return output
