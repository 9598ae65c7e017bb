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
from pathlib import Path
from typing import Any

from prompt_toolkit import PromptSession
from prompt_toolkit.filters import Condition
from prompt_toolkit.formatted_text import ANSI
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.output import Output, create_output
from prompt_toolkit.output.vt100 import Vt100_Output
from prompt_toolkit.patch_stdout import patch_stdout
from prompt_toolkit.styles import Style
from rich.console import Group
from rich.text import Text

from mainstay import __version__
from mainstay.app.chat.keys import Slash, bindings
from mainstay.app.chat.markdown import Ink
from mainstay.app.chat.recap import recap
from mainstay.app.chat.safe import visible
from mainstay.app.chat.screen import Screen
from mainstay.app.chat.slash import obey
from mainstay.app.chat.talk import TOO_LATE, Talk
from mainstay.app.chat.words import MARK
from mainstay.app.commands.talking import Setting
from mainstay.core.errors import MainstayError
from mainstay.core.events import Event, TurnEnded
from mainstay.core.ports import Standing

PERIOD_S = 0.08
AGAIN_S = 2.0  # a second Ctrl-C this soon leaves
GRACE_S = 0.7  # a Ctrl-C this soon after a turn was meant for the turn
PROMPT = f"\x1b[1;36m{MARK}\x1b[0m"
SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
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
        self._ink = Ink()
        self._screen = Screen(time.monotonic)
        self._talk = Talk(where, self._happened, self._trouble)
        self._lines: asyncio.Queue[str] = asyncio.Queue()
        self._ticking: asyncio.Task[None] | None = None
        self._interrupted_at = -AGAIN_S
        self._ended_at = -GRACE_S
        self._tasks: set[asyncio.Task[None]] = set()
        self._drawn = ""
        self._leaving = False
        self._broken: BaseException | None = None
        self._prompt: PromptSession[str] = PromptSession(
            multiline=True,
            history=_history(where.home),
            completer=Slash(lambda: self._talk.known),
            complete_while_typing=Condition(lambda: self._prompt.default_buffer.text.startswith("/")),
            key_bindings=bindings(self._entered, self._interrupt, self._leave),
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
                    self._message, prompt_continuation=lambda width, line, wrapped: "  ", pre_run=self._wake
                )
            except EOFError:
                pass  # the terminal is gone

    # --- what is typed ---------------------------------------------------------------------------

    def _entered(self, text: str) -> None:
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
        told = await obey(self._talk, line)
        lines = told.lines + (await self._recap() if told.then == "greet" else [])
        if lines:
            self._screen.lines(lines)
        if told.then == "leave":
            self._leave()
        if told.then == "greet" and self._talk.asked is not None:
            self._screen.show(self._talk.asked)
        self._wake()

    def _interrupt(self) -> None:
        """Ctrl-C: first the text, then the turn, then the chat."""
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
        elif now - self._ended_at < GRACE_S:
            self._screen.note("the turn is over; Ctrl-C again leaves")
            self._flush()
        else:
            self._leave()

    async def _stop(self) -> None:
        await self._talk.stop()

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
        if isinstance(event, TurnEnded):
            self._ended_at = time.monotonic()
        self._wake()

    def _trouble(self, sentence: str) -> None:
        self._screen.note(sentence, "red")
        self._wake()

    def _wake(self) -> None:
        """See to it that the screen follows for as long as something moves."""
        if self._ticking is None or self._ticking.done():
            self._ticking = self._start(self._tick())

    async def _tick(self) -> None:
        while True:
            started = time.monotonic()
            self._flush()
            if not self._talk.busy:
                return
            took = time.monotonic() - started
            await asyncio.sleep(max(PERIOD_S, took * 4))  # drawing never takes more than a fifth of the time

    # --- what is drawn ---------------------------------------------------------------------------

    def _flush(self) -> None:
        """Print what is settled, draw what is not.

        In one go and without leaving raw mode: a key pressed meanwhile is neither echoed nor lost.
        """
        text = "".join(self._ink.lines(thing, self._columns) for thing in self._screen.take())
        app = self._prompt.app
        if text and app.is_running:
            app.renderer.erase()
        self._write(text)
        self._draw()
        if app.is_running:
            app.invalidate()

    def _draw(self) -> None:
        """The moving part, cut to what fits; its end is what people read."""
        shown = ""
        live = self._screen.live()
        if self._talk.busy:
            rows = max(self._prompt.output.get_size().rows - ROWS_KEPT, 3)
            lines = self._ink.lines(live, self._columns).splitlines() if live is not None else []
            if len(lines) > rows:
                lines = ["\x1b[2m…\x1b[0m", *lines[1 - rows :]]
            frame = SPINNER[int(time.monotonic() / 0.1) % len(SPINNER)]
            hint = "Ctrl-C stops, Enter steers"
            lines += [""] if lines else []
            lines.append(f"\x1b[2m{frame} {self._screen.seconds:.0f} s · {hint}\x1b[0m")
            shown = "\n".join(lines) + "\n"
        self._drawn = f"\n{shown}{PROMPT}"

    def _message(self) -> ANSI:
        return ANSI(self._drawn or f"\n{PROMPT}")

    @property
    def _columns(self) -> int:
        return self._prompt.output.get_size().columns

    def _write(self, text: str) -> None:
        self._prompt.output.write_raw(text)
        self._prompt.output.flush()

    async def _greet(self, standing: Standing | None) -> None:
        facts = f" · {visible(self._talk.model)} · {visible(self._talk.session)}"
        where = visible(_short(self._talk.where.home))
        folder = self._talk.folder
        where += f" · works in {visible(_short(Path(folder)))}" if folder else " · works in a folder of its own"
        hints = Text(f"{where} · /help for commands · Ctrl-D leaves", style="dim")
        banner = Group(Text.assemble((f"mainstay {__version__}", "bold"), facts), hints)
        self._write(self._ink.lines(banner, self._columns))
        if standing is not None:
            self._screen.lines(await self._recap())
        if self._talk.asked is not None:
            self._screen.show(self._talk.asked)
        self._flush()

    async def _recap(self) -> list[str]:
        lines, inputs = await recap(self._talk)
        self._screen.know(inputs)
        return lines


def _short(path: Path) -> str:
    """As people write it, with ~ for where they live."""
    try:
        return str("~" / path.relative_to(Path.home()))
    except (ValueError, RuntimeError):
        return str(path)


def _output() -> Output:
    """Without asking the terminal where its cursor is: not all answer, and ours need not know."""
    output = create_output()
    if isinstance(output, Vt100_Output):
        output.enable_cpr = False
    return output


def _history(home: Path) -> History:
    """What was typed, for its owner's eyes only."""
    path = home / "history"
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))
        path.chmod(0o600)
    except OSError:
        return InMemoryHistory()
    return FileHistory(str(path))
