"""The chat without a screen: lines in, answers out. Works in a pipe."""

from __future__ import annotations

import asyncio
import signal
import sys
import threading
import time
from shutil import get_terminal_size

from mainstay.cli.chat.banner import banner
from mainstay.cli.chat.plain import Printer
from mainstay.cli.chat.recap import recap
from mainstay.cli.chat.safe import safe
from mainstay.cli.chat.signs import signs_of_terminal
from mainstay.cli.chat.slash import obey
from mainstay.cli.chat.talk import TOO_LATE, Talk
from mainstay.cli.chat.words import MARK, Line, charge, plain, usage_line
from mainstay.cli.commands.talking import Setting, tell
from mainstay.core.errors import MainstayError
from mainstay.core.events import Event, Judged, MessageAdded, TextDelta, ThinkingDelta, ToolCallStarted, TurnEnded
from mainstay.core.messages import Usage
from mainstay.core.outcome import Answered, Failed, Outcome

AGAIN_S = 2.0


class Pipe:
    def __init__(self, where: Setting) -> None:
        self._signs = signs_of_terminal()
        self._printer = Printer(self._write, self._tell)
        self._talk = Talk(where, self._happened, self._trouble)
        self._lines: asyncio.Queue[str | None] = asyncio.Queue()
        self._person = sys.stdin.isatty() and sys.stdout.isatty()
        self._failed = False
        self._prompted = False  # a person sees the mark, and nothing after it
        self._interrupted_at = -AGAIN_S
        self._begin_turn()

    def _begin_turn(self) -> None:
        self._asked_at = time.monotonic()
        self._first_s: float | None = None
        self._usage = Usage()
        self._cost = 0.0

    async def run(self, session: str | None, *, new: bool) -> int:
        loop = asyncio.get_running_loop()
        standing = await self._talk.open(session, new=new)
        try:
            loop.add_signal_handler(signal.SIGINT, self._interrupt)
            threading.Thread(target=self._read, args=(loop,), daemon=True).start()
            if self._person:
                for one in [*banner(self._talk, standing), *(await recap(self._talk) if standing is not None else [])]:
                    self._tell(plain(one))
            if (waiting := self._talk.asked) is not None:
                self._printer.show(waiting)
            await self._talk.idle()  # a turn that an earlier process left behind
            while (line := await self._next()) is not None and await self._handle(line):
                pass
        finally:
            loop.remove_signal_handler(signal.SIGINT)
            await self._talk.close()
        return 1 if self._failed else 0

    async def _next(self) -> str | None:
        """One prompt: a line, and those after it while it ends in a backslash. None at the end."""
        if self._person:
            self._write(MARK)
            self._prompted = True
        line = await self._lines.get()
        self._prompted = False
        while line is not None and line.endswith("\\"):
            more = await self._lines.get()
            if more is None:
                self._lines.put_nowait(None)  # the end comes after this line, not instead of it
            line = line[:-1] + "\n" + (more or "")
        return line

    async def _handle(self, line: str) -> bool:
        try:
            if line.startswith("/"):
                told = await obey(self._talk, line, get_terminal_size().columns)
                self._lines_out(told.lines)
                await self._settled()
                return told.then != "leave"
            if line.strip():
                self._failed = False
                self._begin_turn()
                if self._talk.too_late(line):
                    self._tell(TOO_LATE)
                elif not await self._talk.answer(line):
                    self._talk.say(line)
                await self._settled()
        except MainstayError as error:
            self._tell(str(error))
        return True

    async def _settled(self) -> None:
        """Until the turn is over, or waits for a word from here."""
        await asyncio.sleep(0)
        await self._talk.idle()

    def _read(self, loop: asyncio.AbstractEventLoop) -> None:
        """In a thread that nobody waits for: reading a line cannot be interrupted."""
        try:
            for line in sys.stdin:
                loop.call_soon_threadsafe(self._lines.put_nowait, line.rstrip("\r\n"))
            loop.call_soon_threadsafe(self._lines.put_nowait, None)
        except RuntimeError:
            pass  # the chat is over already

    def _interrupt(self) -> None:
        now = time.monotonic()
        if self._talk.stoppable and now - self._interrupted_at >= AGAIN_S:
            self._interrupted_at = now
            self._stopping = asyncio.ensure_future(self._talk.stop())
        else:
            self._lines.put_nowait(None)

    def _happened(self, event: Event) -> None:
        if isinstance(event, TurnEnded) and self._prompted:  # a turn that waited was stopped
            self._write("\n")
        self._printer.show(event)
        match event:
            case TextDelta() | ThinkingDelta() | ToolCallStarted() if self._first_s is None:
                self._first_s = time.monotonic() - self._asked_at
            case MessageAdded(usage=usage, cost=cost):
                self._usage, self._cost = self._usage + (usage or Usage()), self._cost + cost
            case Judged(scores=scores):
                for one in scores:
                    self._usage, self._cost = self._usage + (one.usage or Usage()), self._cost + one.cost
            case TurnEnded(outcome=outcome):
                self._failed = isinstance(outcome, Failed)
                self._end_turn(outcome)

    def _end_turn(self, outcome: Outcome) -> None:
        """What it took is for whoever sits there; a program reads the answer alone."""
        if self._person and isinstance(outcome, Answered):
            price = charge(self._talk.model, self._cost)
            self._tell(usage_line(self._usage, price, time.monotonic() - self._asked_at, self._first_s))
        if self._prompted:
            self._write(MARK)

    def _trouble(self, sentence: str) -> None:
        self._failed = True
        self._tell(sentence)

    # --- what is written: the last gate before whatever reads it ---------------------------------

    def _lines_out(self, lines: list[Line]) -> None:
        for line in lines:
            self._write(safe(plain(line)) + "\n")

    def _tell(self, sentence: str) -> None:
        tell(self._signs.drawn(safe(sentence)))

    def _write(self, text: str) -> None:
        sys.stdout.write(self._signs.drawn(text))
        sys.stdout.flush()
