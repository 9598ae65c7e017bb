"""The chat without a screen: lines in, answers out. Works in a pipe."""

from __future__ import annotations

import asyncio
import signal
import sys
import threading
import time

from mainstay.app.chat.plain import Printer
from mainstay.app.chat.slash import obey
from mainstay.app.chat.talk import TOO_LATE, Talk
from mainstay.app.chat.words import MARK
from mainstay.app.commands.talking import Setting, tell
from mainstay.core.errors import MainstayError
from mainstay.core.events import Event, TurnEnded
from mainstay.core.outcome import Failed

AGAIN_S = 2.0


class Pipe:
    def __init__(self, where: Setting) -> None:
        self._printer = Printer(_write, tell)
        self._talk = Talk(where, self._happened, self._trouble)
        self._lines: asyncio.Queue[str | None] = asyncio.Queue()
        self._person = sys.stdin.isatty() and sys.stdout.isatty()
        self._failed = False
        self._prompted = False  # a person sees the mark, and nothing after it
        self._interrupted_at = -AGAIN_S

    async def run(self, session: str | None, *, new: bool) -> int:
        loop = asyncio.get_running_loop()
        await self._talk.open(session, new=new)
        try:
            loop.add_signal_handler(signal.SIGINT, self._interrupt)
            threading.Thread(target=self._read, args=(loop,), daemon=True).start()
            if self._person:
                tell(f"mainstay · {self._talk.model} · {self._talk.session} · /help for commands, Ctrl-D leaves")
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
            _write(MARK)
            self._prompted = True
        line = await self._lines.get()
        self._prompted = False
        while line is not None and line.endswith("\\"):
            more = await self._lines.get()
            line = line[:-1] + "\n" + (more or "")
        return line

    async def _handle(self, line: str) -> bool:
        try:
            if line.startswith("/"):
                told = await obey(self._talk, line)
                for one in told.lines:
                    _write(one + "\n")
                await self._settled()
                return told.then != "leave"
            if line.strip():
                self._failed = False
                if self._talk.too_late(line):
                    tell(TOO_LATE)
                elif not await self._talk.answer(line):
                    self._talk.say(line)
                await self._settled()
        except MainstayError as error:
            tell(str(error))
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
            _write("\n")
        self._printer.show(event)
        if isinstance(event, TurnEnded):
            self._failed = isinstance(event.outcome, Failed)
            if self._prompted:
                _write(MARK)

    def _trouble(self, sentence: str) -> None:
        self._failed = True
        tell(sentence)


def _write(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()
