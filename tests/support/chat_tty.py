"""`mainstay chat` on a pseudo-terminal: keys in, screen out."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable

import pyte

from support.cli_support import Command

CONTROLS = re.compile(rb"\x1b\[[0-9;?]*[ -/]*[@-~]|\r")
DEADLINE_S = 120.0
PROMPTING = b"\x1b[?2004h"
MARK = "\N{HEAVY RIGHT-POINTING ANGLE QUOTATION MARK ORNAMENT}"
# a terminal of its own, as a shell gives it: Ctrl-C is a signal there
OWN_TERMINAL = (
    "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execv(sys.argv[1], sys.argv[1:])"
)
CTRL_C, CTRL_D, ALT_ENTER = b"\x03", b"\x04", b"\x1b\r"


class Tty:
    """`mainstay chat` on a terminal of this many rows and columns. What was read stays in `raw`."""

    def __init__(self, command: Command, *arguments: str, rows: int = 24, columns: int = 80) -> None:
        self._master, slave = pty.openpty()
        self._size(slave, rows, columns)
        self.slave = slave
        self.before = termios.tcgetattr(slave)
        self.raw = b""
        self._mark = 0
        self.process = subprocess.Popen(
            [sys.executable, "-c", OWN_TERMINAL, *command.argv("chat", *arguments)],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            env=command.env,
            cwd=command.folder,
            start_new_session=True,
        )

    @staticmethod
    def _size(slave: int, rows: int, columns: int) -> None:
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def send(self, keys: bytes | str) -> None:
        os.write(self._master, keys.encode() if isinstance(keys, str) else keys)

    def expect(self, text: str) -> str:
        """Wait for it to appear after what was expected before; returns what came up to and with it."""
        until = time.monotonic() + DEADLINE_S
        wanted = text.encode()
        while True:
            shown = CONTROLS.sub(b"", self.raw)
            if (at := shown.find(wanted, self._mark)) >= 0:
                before, self._mark = self._mark, at + len(wanted)
                return shown[before : self._mark].decode(errors="replace")
            assert time.monotonic() < until, f"{text!r} did not appear in: {shown[-2000:].decode(errors='replace')}"
            self.read(0.05)

    def ready(self) -> None:
        """Wait until it reads keys one by one: what was said before has prompts, too."""
        until = time.monotonic() + DEADLINE_S
        while PROMPTING not in self.raw:
            assert time.monotonic() < until, f"there is no prompt in: {self.screen[-2000:]}"
            self.read(0.05)

    def read(self, seconds: float) -> None:
        if select.select([self._master], [], [], seconds)[0]:
            try:
                self.raw += os.read(self._master, 65536)
            except OSError:
                pass  # it has closed its side

    def leave(self) -> int:
        """Its exit code; its last words are in `raw`."""
        until = time.monotonic() + DEADLINE_S
        while self.process.poll() is None:
            assert time.monotonic() < until, "it did not leave"
            self.read(0.05)
        self.read(0.05)
        return self.process.returncode

    @property
    def screen(self) -> str:
        return CONTROLS.sub(b"", self.raw).decode(errors="replace")

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self.slave)
        os.close(self._master)


class Drawn(Tty):
    """The same, with a terminal that draws: what a person would see now is in `rows`."""

    patience_s = DEADLINE_S

    def __init__(self, command: Command, *arguments: str, rows: int = 24, columns: int = 80) -> None:
        self._screen = pyte.HistoryScreen(columns, rows, history=10_000)
        self._stream = pyte.ByteStream(self._screen)
        self._fed = 0
        super().__init__(command, *arguments, rows=rows, columns=columns)

    def resize(self, rows: int, columns: int) -> None:
        """As a person drags a corner of the window; the kernel notifies the process in it."""
        self._feed()
        self._screen.resize(rows, columns)
        self._size(self.slave, rows, columns)

    @property
    def rows(self) -> list[str]:
        self._feed()
        return [line.rstrip() for line in self._screen.display]

    @property
    def scrolled(self) -> list[str]:
        """All that has left the window at its top, and what is in it."""
        self._feed()
        above = ["".join(line[x].data for x in range(self._screen.columns)) for line in self._screen.history.top]
        return [line.rstrip() for line in above] + self.rows

    def wait(self, holds: Callable[[list[str]], bool], what: str) -> list[str]:
        """Until the screen is as it should be."""
        until = time.monotonic() + self.patience_s
        while not holds(self.rows):
            assert time.monotonic() < until, what + ", but there is:\n" + "\n".join(self.scrolled)
            self.read(0.05)
        return self.rows

    def see(self, *texts: str) -> list[str]:
        return self.wait(lambda rows: all(text in "\n".join(rows) for text in texts), f"{texts} should be seen")

    def _feed(self) -> None:
        new, self._fed = self.raw[self._fed :], len(self.raw)
        self._stream.feed(new)
