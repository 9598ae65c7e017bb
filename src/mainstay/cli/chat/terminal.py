"""The chat on a real terminal: a prompt that is always there, and above it what was said.

Whatever is settled is printed once and scrolls away like any other output; only the block that is still being
written is drawn again and again, right above the prompt. So nothing flickers and nothing is printed twice,
however long the answer is.
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

from mainstay.cli.chat.banner import banner
from mainstay.cli.chat.calls import unfolded
from mainstay.cli.chat.completing import Slash
from mainstay.cli.chat.history import FILE, Typed
from mainstay.cli.chat.keys import Acts, bindings
from mainstay.cli.chat.markdown import WIDTH_MAX, Ink
from mainstay.cli.chat.recap import recap
from mainstay.cli.chat.safe import visible
from mainstay.cli.chat.screen import Screen, row
from mainstay.cli.chat.signs import signs_of_terminal
from mainstay.cli.chat.slash import obey
from mainstay.cli.chat.talk import TOO_LATE, Talk
from mainstay.cli.chat.words import MARK, Line, charge
from mainstay.cli.commands.talking import Setting
from mainstay.core.errors import MainstayError
from mainstay.core.events import Event
from mainstay.core.ports import Standing

PERIOD_S = 0.1
REST_S = 0.25  # between two pictures on which only a clock has moved
AGAIN_S = 2.0  # a second Ctrl-C this soon leaves
HINT = "Ctrl-C stops, Enter steers"
ROWS_KEPT = 8  # for the prompt and what is typed
STYLE = Style.from_dict(
    {
        "completion-menu": "bg:default",
        "completion-menu.completion": "bg:default fg:default",
        "completion-menu.completion.current": "bg:default fg:ansicyan bold noreverse",
        "completion-menu.meta.completion": "bg:default fg:ansibrightblack",
        "completion-menu.meta.completion.current": "bg:default fg:ansibrightblack noreverse",
    }
)


class Terminal:
    def __init__(self, where: Setting) -> None:
        self._signs = signs_of_terminal()
        self._ink = Ink(self._signs, colour=not os.environ.get("NO_COLOR"))
        self._mark = f"\x1b[1;36m{self._signs.drawn(MARK)}\x1b[0m"
        self._talk = Talk(where, self._happened, self._trouble)
        self._screen = Screen(time.monotonic, self._talk.calls, lambda cost: charge(self._talk.model, cost))
        self._lines: asyncio.Queue[str] = asyncio.Queue()
        self._ticking: asyncio.Task[None] | None = None
        self._interrupted_at = -AGAIN_S
        self._tasks: set[asyncio.Task[None]] = set()
        self._moved = True  # something happened since it was drawn
        self._columns, self._rows = 80, 24
        self._drawn = ANSI(f"\n{self._mark}")
        self._leaving = False
        self._broken: BaseException | None = None
        self._prompt: PromptSession[str] = PromptSession(
            multiline=True,
            history=Typed(where.home / FILE, _secrets(where)),
            completer=Slash(self._talk),
            complete_while_typing=Condition(lambda: self._prompt.default_buffer.text.startswith("/")),
            key_bindings=bindings(Acts(self._entered, self._interrupt, self._unfold, self._leave)),
            erase_when_done=True,
            style=STYLE,
            output=_output(),
        )

    async def run(self, session: str | None, *, new: bool) -> int:
        standing = await self._talk.open(session, new=new)
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTERM, self._leave)  # so that the terminal is left as it was found
        try:
            await self._greet(standing)
            await self._converse()
        finally:
            loop.remove_signal_handler(signal.SIGTERM)
            for task in self._tasks:
                task.cancel()
            await self._talk.close()
        if self._broken is not None:
            raise self._broken
        self._screen.lines([f"`mainstay chat` goes on with {visible(self._talk.session)}"])
        self._flush()
        return 0

    async def _converse(self) -> None:
        """One prompt from beginning to end: Enter does not close it."""
        self._start(self._read())
        with patch_stdout(raw=True):
            try:
                await self._prompt.prompt_async(
                    lambda: self._drawn, prompt_continuation=lambda width, line, wrapped: "  ", pre_run=self._wake
                )
            except EOFError:
                pass  # the terminal is gone

    # --- what is typed ---------------------------------------------------------------------------

    def _entered(self, text: str) -> None:
        self._interrupted_at = -AGAIN_S  # whoever says something wants to stay
        if text.strip():
            self._lines.put_nowait(text)

    async def _read(self) -> None:
        while True:
            line = await self._lines.get()
            try:
                await self._handle(line)
            except MainstayError as error:
                self._trouble(str(error))
            self._flush()

    async def _handle(self, text: str) -> None:
        if text.lstrip().startswith("/"):
            await self._command(text.strip())
        elif self._talk.too_late(text):
            self._screen.typed(text)
            self._screen.note(TOO_LATE)
        elif await self._talk.answer(text):
            self._screen.typed(text)
        elif self._talk.busy:
            self._screen.steered(text)
            await self._talk.steer(text)
        else:
            self._screen.asked(text)
            self._talk.say(text)
            self._wake()

    async def _command(self, line: str) -> None:
        steer = line.removeprefix("/steer ").strip() if self._talk.busy and line.startswith("/steer ") else ""
        if steer:
            self._screen.steered(steer)
        else:
            self._screen.typed(line)
        told = await obey(self._talk, line, min(self._columns, WIDTH_MAX))
        lines = told.lines + (await recap(self._talk) if told.then == "greet" else [])
        if lines:
            self._screen.lines(lines)
        if told.then == "leave":
            self._leave()
        if told.then == "greet" and self._talk.asked is not None:
            self._screen.show(self._talk.asked)
        self._wake()

    def _interrupt(self) -> None:
        """Ctrl-C: first the text, then the turn; twice leaves."""
        now = time.monotonic()
        again = now - self._interrupted_at < AGAIN_S
        self._interrupted_at = now
        buffer = self._prompt.default_buffer
        if again and (self._talk.stoppable or not buffer.text):
            self._leave()
        elif self._talk.stoppable:
            self._start(self._stop())
        elif buffer.text:
            buffer.reset()
        else:
            self._screen.note("Ctrl-C again leaves")
            self._flush()

    async def _stop(self) -> None:
        await self._talk.stop()

    def _unfold(self) -> None:
        """The last call that came to something, with all that went in and came out."""
        done = [call for call in self._talk.calls.all if call.result is not None]
        if done:
            self._screen.lines(unfolded(done[-1]))
        else:
            self._screen.note("no tool was called yet")
        self._flush()

    def _leave(self) -> None:
        if not self._leaving and self._prompt.app.is_running:
            self._leaving = True
            self._prompt.app.exit(result="")

    def _start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[None]) -> None:
        """Trouble is told; a bug ends the chat, which would otherwise stand still without a word."""
        self._tasks.discard(task)
        if task.cancelled() or (error := task.exception()) is None:
            return
        if isinstance(error, MainstayError):
            self._trouble(str(error))
        else:
            self._broken = error
            self._leave()

    # --- what happens ----------------------------------------------------------------------------

    def _happened(self, event: Event) -> None:
        self._screen.show(event)
        self._moved = True
        self._wake()

    def _trouble(self, sentence: str) -> None:
        self._screen.note(sentence, "red")
        self._wake()

    def _wake(self) -> None:
        """See to it that the screen follows for as long as something moves."""
        if self._ticking is None or self._ticking.done():
            self._ticking = self._start(self._tick())

    async def _tick(self) -> None:
        drawn_at = -REST_S
        while True:
            started = time.monotonic()
            if self._moved or not self._talk.busy or started - drawn_at >= REST_S:
                self._moved = False
                self._flush()
                drawn_at = started
            if not self._talk.busy:
                return
            took = time.monotonic() - started
            await asyncio.sleep(max(PERIOD_S, took * 4))  # drawing never takes more than a fifth of the time

    # --- what is drawn ---------------------------------------------------------------------------

    def _flush(self) -> None:
        """Print what is settled, draw what is not.

        In one go and without leaving raw mode: a key pressed meanwhile is neither echoed nor lost.
        """
        size = self._prompt.output.get_size()
        self._columns, self._rows = size.columns, size.rows
        text = "".join(self._inked(thing) for thing in self._screen.take())
        app = self._prompt.app
        if text and app.is_running:
            app.renderer.erase()
        self._write(text)
        self._draw()
        if app.is_running:
            app.invalidate()

    def _draw(self) -> None:
        """The moving part, cut to what fits; its end is what people read."""
        gap, shown = "\n", ""
        if self._talk.busy:
            rows = max(self._rows - ROWS_KEPT, 3)
            live = self._screen.live()
            lines = self._inked(live).splitlines() if live is not None else []
            if len(lines) > rows:
                lines = [self._signs.drawn("\x1b[2m…\x1b[0m"), *lines[1 - rows :]]
            gap = "" if lines and self._screen.goes_on else gap
            lines += ["", *self._status()] if lines else self._status()
            shown = "\n".join(lines) + "\n"
        self._drawn = ANSI(f"{gap}{shown}{self._mark}")

    def _status(self) -> list[str]:
        spinner = self._signs.spinner
        frame = spinner[int(time.monotonic() / REST_S) % len(spinner)]
        line: Line = ((f"{frame} {self._screen.status}", "dim"), (f" · {HINT}", "dim"))
        return self._inked(row(line)).splitlines()

    def _inked(self, thing: RenderableType) -> str:
        return self._ink.lines(thing, self._columns)

    def _write(self, text: str) -> None:
        self._prompt.output.write_raw(text)
        self._prompt.output.flush()

    async def _greet(self, standing: Standing | None) -> None:
        self._columns = self._prompt.output.get_size().columns
        for line in banner(self._talk, standing):
            self._write(self._inked(row(line)))
        if standing is not None and (lines := await recap(self._talk)):
            self._screen.lines(lines)
        if self._talk.asked is not None:
            self._screen.show(self._talk.asked)
        self._flush()


def _secrets(where: Setting) -> list[str]:
    """Keys that are known here; one that is typed by mistake is not kept with what was typed."""
    return [entry.api_key for entry in where.config.providers.values() if isinstance(entry.api_key, str)]


def _output() -> Output:
    """Without asking the terminal where its cursor is: not all answer, and ours need not know."""
    output = create_output()
    if isinstance(output, Vt100_Output):
        output.enable_cpr = False
    return output
